//! Streams of events, without a socket.

use bytes::Bytes;
use serde::Deserialize;
use toolwright_module::Reply;
use toolwright_provider::{Decoder, Deltas, ProviderError, Reader, ReplyParts};

#[derive(Default)]
struct Words(ReplyParts);

#[derive(Deserialize)]
struct Word {
    word: String,
}

impl Decoder for Words {
    type Event<'e> = Word;

    fn take(&mut self, event: Word, deltas: &mut Deltas) -> Result<(), ProviderError> {
        self.0.text(event.word, deltas);
        Ok(())
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn finish(mut self) -> Result<Reply, ProviderError> {
        Ok(Reply::new(self.0.take()))
    }

    fn so_far(&self) -> String {
        self.0.to_json()
    }
}

fn read(words: &[&str], end: &str) -> String {
    let mut reader = Reader::new(Words::default());
    for word in words {
        let event = format!("data: {{\"word\": \"{word}\"}}\n\n");
        reader.push(Bytes::from(event));
        while reader.next().unwrap().is_some() {}
    }
    reader.push(Bytes::copy_from_slice(end.as_bytes()));
    while reader.next().unwrap().is_some() {}
    reader.end().unwrap();
    reader.finish().unwrap().to_text()
}

#[test]
fn a_character_that_is_cut_between_two_events_is_whole() {
    for end in ["", "data: [DONE]\n\n"] {
        assert_eq!(read(&["a\\ud83d", "\\ude00b"], end), "a\u{1f600}b");
        assert_eq!(read(&["\\ud83d", "\\ude00\\ud83d", "\\ude00"], end), "\u{1f600}\u{1f600}");
        // Without the other half, it is replaced.
        assert_eq!(read(&["a\\ud83d", "b"], end), "a\u{fffd}b");
        assert_eq!(read(&["\\ude00a \\ud83d b", "c\\ud83d"], end), "\u{fffd}a \u{fffd} bc\u{fffd}");
    }
}
