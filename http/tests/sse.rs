//! [`EventReader`], without a socket.

use bytes::Bytes;
use proptest::prelude::*;
use toolwright_http::{ErrorKind, Event, EventReader};

type Owned = (String, String, String);

fn owned(event: Event<'_>) -> Owned {
    (event.name.to_owned(), event.data.to_owned(), event.id.to_owned())
}

fn read<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Owned> {
    let mut events = EventReader::default();
    let mut read = Vec::new();
    for chunk in chunks {
        events.push(Bytes::copy_from_slice(chunk));
        while let Some(event) = events.next().unwrap() {
            read.push(owned(event));
        }
    }
    read.extend(events.end().unwrap().map(owned));
    read
}

#[test]
fn events_do_not_depend_on_where_the_bytes_are_cut() {
    let long = "x".repeat(9000);
    let text = format!(
        "\u{feff}data: one\n\n: ping\n\ndata:\n\ndata: \n\nevent: x\nid: 1\ndata: ä\ndata:two\n\nretry: 5\n\ndata:  {long}\n\ndata\n\nda: x\n\ndata\ndata: after\n\ndata: last"
    );
    let wanted = [
        ("", "one".to_owned(), ""),
        ("x", "ä\ntwo".to_owned(), "1"),
        ("", format!(" {long}"), "1"),
        ("", "\nafter".to_owned(), "1"),
        ("", "last".to_owned(), "1"),
    ];
    let wanted = wanted.map(|(name, data, id)| (name.to_owned(), data, id.to_owned()));
    for end in ["\n", "\r\n", "\r"] {
        let text = text.replace('\n', end);
        for size in [1, 2, 3, 5, 7, 4096, 1 << 20] {
            assert_eq!(read(text.as_bytes().chunks(size)), wanted, "{end:?} {size}");
        }
    }
}

#[test]
fn a_line_or_event_over_the_maximum_size_is_an_error() {
    let mut events = EventReader::new(100, 150);
    events.push(vec![b'x'; 100].into());
    assert!(events.next().unwrap().is_none());
    events.push("x".into());
    let error = events.next().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { max: 100, .. }));

    let mut events = EventReader::new(100, 150);
    let line = format!("data: {}\n", "x".repeat(80));
    events.push(line.repeat(2).into());
    let error = events.next().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { max: 150, .. }));
}

#[test]
fn an_event_that_is_not_utf8_is_an_error_and_the_next_one_is_read() {
    let mut events = EventReader::default();
    events.push(Bytes::from_static(b"data: caf\xe9\n\ndata: ok\n\n"));
    let error = events.next().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Encoding { .. }));
    assert_eq!(events.next().unwrap().unwrap().data, "ok");
}

#[test]
fn a_long_line_in_small_pieces_is_read_in_linear_time() {
    let mut events = EventReader::default();
    let started = std::time::Instant::now();
    events.push("data: ".into());
    for _ in 0..(1 << 20) {
        events.push("xyz".into());
        assert!(events.next().unwrap().is_none());
    }
    assert_eq!(events.end().unwrap().unwrap().data.len(), 3 << 20);
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
}

#[test]
fn bytes_may_be_pushed_before_all_events_are_read() {
    let mut events = EventReader::default();
    events.push("data: 1\n\ndata: 2\r".into());
    assert_eq!(events.next().unwrap().unwrap().data, "1");
    events.push("\n\r\ndata: 3\n\n".into());
    assert_eq!(events.next().unwrap().unwrap().data, "2");
    assert_eq!(events.next().unwrap().unwrap().data, "3");
    assert!(events.end().unwrap().is_none());
}

fn pieces() -> impl Strategy<Value = Vec<&'static str>> {
    let piece = prop::sample::select(vec![
        "data: ",
        "data:",
        "data",
        "event: ",
        "id: ",
        "retry: 1",
        ": ",
        "\n",
        "\n\n",
        "\r",
        "\r\n",
        "\u{feff}",
        "ä",
        "🦀",
        "x",
        "{\"a\": 1}",
        " ",
        "\0",
    ]);
    prop::collection::vec(piece, 0..60)
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_gives_the_same_events(
        pieces in pieces(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let text = pieces.concat();
        let bytes = text.as_bytes();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let split = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]);
        let whole = read([bytes]);
        prop_assert_eq!(&read(split), &whole);
        prop_assert_eq!(&read(bytes.chunks(1)), &whole);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut events = EventReader::new(64, 64);
        for chunk in bytes.chunks(3) {
            events.push(Bytes::copy_from_slice(chunk));
            let _ = events.next();
        }
        let _ = events.end();
    }
}
