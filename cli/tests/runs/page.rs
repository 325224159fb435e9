//! The page of a run.

use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use regex_lite::Regex;
use serde_json::json;
use toolwright_cli::runs::page;
use toolwright_module::Reply;

use crate::world::{World, call};

/// A text that leaves every place in which a page may put it.
const HOSTILE: &str =
    "</script><img src=x onerror=alert(1)>\u{202e}<style>*{display:none}</style>&amp;\"'--><!--";

/// Makes the runs for the test in a browser. See `CONTRIBUTING.md`.
#[tokio::test]
#[ignore = "makes runs for the browser, in the folder RUNS"]
async fn give_runs() {
    let folder = PathBuf::from(std::env::var_os("RUNS").expect("RUNS names a folder"));
    let world = World::new(&folder, Duration::from_millis(40));
    world.short().await;
    world.failed().await;
    world.down().await;
    world.waiting("waiting").await;
    world.decided().await;
    world.hostile("hostile", HOSTILE).await;
    let quick = World { pause: Duration::from_millis(1), ..world };
    quick.long("long", 2_000).await;
}

fn quick() -> (tempfile::TempDir, World) {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), Duration::ZERO);
    (folder, world)
}

/// Returns the page without its style and its script.
fn markup(page: &str) -> String {
    let style = Regex::new(r"(?s)<style>.*?</style>").unwrap();
    let (start, script) = page.rsplit_once("<script>").unwrap();
    let (_, end) = script.split_once("</script>").unwrap();
    style.replace(&format!("{start}{end}"), "").into_owned()
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// Returns what a reader sees when everything is open: one line for each element with text. Times are
/// replaced.
fn text(page: &str) -> String {
    let markup = markup(page);
    let markup = markup.split_once("<body>").unwrap().1;
    let block = Regex::new(
        r"</?(?:p|pre|div|section|summary|details|h\d|li|dt|dd|tr|header|footer)\b[^>]*>",
    )
    .unwrap();
    let tag = Regex::new(r"<[^>]*>").unwrap();
    let time = Regex::new(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC").unwrap();
    let duration = Regex::new(r"\b\d[\d.]* (?:ms|s)\b").unwrap();
    let text = tag.replace_all(&block.replace_all(markup, "\n"), " ").into_owned();
    let text = Regex::new(" +").unwrap().replace_all(&text, " ").into_owned();
    let text = duration.replace_all(&time.replace_all(&text, "TIME"), "TIME").into_owned();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    unescaped(&lines.collect::<Vec<_>>().join("\n"))
}

/// Asserts that the page has only elements and attributes of its own.
fn assert_own_markup(page: &str) {
    let tag = Regex::new(r#"^</?([a-z][a-z0-9]*)((?: [a-zA-Z-]+(?:="[^"<>]*")?)*)/?>"#).unwrap();
    let attribute = Regex::new(r#" ([a-zA-Z-]+)(?:="[^"]*")?"#).unwrap();
    let elements = "html head meta noscript title body a header p span button h1 h2 h3 dl div dt dd \
         main section code details summary pre strong b svg path rect form input label output \
         footer kbd time ul li table thead tbody tr th td";
    let attributes = "lang charset http-equiv content name class id href hidden type aria-labelledby \
         aria-label aria-hidden aria-live role viewBox preserveAspectRatio data-steps data-prefix \
         data-run data-reload data-bad data-top d tabindex placeholder autocomplete open width height \
         x scope";
    let markup = markup(page);
    let markup = markup.strip_prefix("<!DOCTYPE html>").unwrap();
    for (at, _) in markup.match_indices('<') {
        let rest = &markup[at..];
        let found = tag.captures(rest).unwrap_or_else(|| panic!("{:.200}", rest));
        assert!(elements.split_whitespace().any(|own| own == &found[1]), "{}", &found[0]);
        for found in attribute.captures_iter(&found[2]) {
            assert!(attributes.split_whitespace().any(|own| own == &found[1]), "{}", &found[0]);
        }
    }
    // Links stay on the page.
    assert!(!Regex::new(r#"href="[^#]"#).unwrap().is_match(markup));
}

#[tokio::test]
async fn a_failed_run_says_why_and_what_it_cost_first() {
    let (_folder, world) = quick();
    world.failed().await;
    let page = page(&world.journal, "failed", None).unwrap();
    assert_own_markup(&page);
    let text = text(&page);
    // The tools are sorted by their time.
    let (start, rest) = text.split_once("\nTools\n").unwrap();
    let (_, end) = rest.split_once("\nTask\n").unwrap();
    insta::assert_snapshot!(format!("{start}\nTask\n{end}"));
}

#[tokio::test]
async fn decisions_repairs_and_waiting_calls_are_shown() {
    let (_folder, world) = quick();
    world.short().await;
    let short = text(&page(&world.journal, "short", None).unwrap());
    for line in [
        "{'order': '1042',}",
        "$: read other quotes as double quotes, 2 times",
        "Arguments, as they were read",
    ] {
        assert!(short.lines().any(|shown| shown == line), "{line}\n{short}");
    }
    world.waiting("waiting").await;
    let waiting = text(&page(&world.journal, "waiting", None).unwrap());
    assert!(
        waiting.contains("pay_back (call c2 ) waits for approval: it cannot be undone."),
        "{waiting}"
    );
    assert!(
        waiting.contains("toolwright runs decide waiting --call e2d0498355f1 --approve"),
        "{waiting}"
    );
    world.decided().await;
    let decided = text(&page(&world.journal, "decided", None).unwrap());
    for line in [
        "This call was approved with other arguments by Kate Ono on TIME, after TIME",
        "This call was denied (“Postage is not paid back.”) by Kate Ono on TIME, after TIME",
        "Arguments, as the person changed them",
        "20.00 EUR paid back for order 1042",
    ] {
        assert!(decided.lines().any(|shown| shown == line), "{line}\n{decided}");
    }
    assert!(!decided.contains("What went wrong"), "{decided}");
}

#[tokio::test]
async fn a_drive_that_an_error_ended_is_interrupted() {
    let (_folder, world) = quick();
    world.down().await;
    let page = text(&page(&world.journal, "down", None).unwrap());
    assert!(page.starts_with("Skip to the steps\nInterrupted\n"), "{page}");
    assert!(page.contains("the provider answered with status 529: overloaded"), "{page}");
    // The error has its line among the steps, too.
    assert!(page.contains("✕ Stopped the provider answered with status 529"), "{page}");
    assert!(page.contains("toolwright runs resume down"), "{page}");
}

#[tokio::test]
async fn the_answer_of_a_typed_run_is_a_call_with_repairs() {
    let (_folder, world) = quick();
    world.settled().await;
    let page = text(&page(&world.journal, "settled", None).unwrap());
    assert!(page.contains("This call gave the answer of the run."), "{page}");
    assert!(page.contains("$.paid: read the string"), "{page}");
    assert_eq!(page.matches("no result").count(), 0, "{page}");
    // The first answer was not one.
    assert!(page.contains("What went wrong 1\n✕ finish in step 2"), "{page}");
}

#[tokio::test]
async fn calls_without_ids_of_their_own_find_their_results() {
    let (_folder, world) = quick();
    let order = || call("", "find_order", r#"{"order": 1042}"#);
    let same = || call("same", "check_stock", r#"{"part": "wood glue"}"#);
    let replies = vec![
        Reply::calls([order(), same(), order()]),
        Reply::calls([same(), order()]),
        Reply::text("Done."),
    ];
    world.scripted("ids", replies).await;
    let page = text(&page(&world.journal, "ids", None).unwrap());
    assert_eq!(page.matches("Ada Obi").count(), 3, "{page}");
    assert_eq!(page.matches(r#"{"part":"wood glue","pieces":"#).count(), 2, "{page}");
    assert!(!page.contains("not made") && !page.contains("no result"), "{page}");
}

#[tokio::test]
async fn keys_are_masked_wherever_they_stand_and_however_long_the_text_is() {
    let keys = [
        "AKIAIOSFODNN7EXAMPLE",
        "glpat-0123456789abcdefghij",
        "sk-0123456789abcdefghij",
        "ghp_0123456789abcdefghij",
        "Bearer 0123456789abcdefghij",
    ];
    // A text is cut after 60, 70, 120, 160, 350 and 400 characters.
    for (nth, before) in [0, 46, 56, 106, 146, 336, 386].into_iter().enumerate() {
        let key = keys[nth % keys.len()];
        let text = format!("{}\n{key}", "a ".repeat(before / 2));
        let (_folder, world) = quick();
        world.hostile("keys", &text).await;
        let run = world.journal.run("keys").unwrap();
        let task = world.journal.task("keys").unwrap();
        let records = world.journal.records("keys").unwrap();
        let page = page(&world.journal, "keys", None).unwrap();
        assert_own_markup(&page);
        let shown = toolwright_cli::runs::show(&run, &task, &records);
        let mut started = run.clone();
        started.metadata = toolwright_cli::runs::metadata(&text);
        let list = toolwright_cli::runs::list(&[run, started]);
        for shown in [page, shown, list] {
            assert!(!shown.contains(&key[..12]), "{before}: {shown}");
            assert!(before > 60 || shown.contains("[secret]"), "{before}: {shown}");
        }
        // The run goes on with the key.
        assert!(serde_json::to_string(&records).unwrap().contains(key));
    }
}

#[tokio::test]
async fn the_name_of_a_field_masks_its_value() {
    let (_folder, world) = quick();
    let long = json!({"part": "a ".repeat(80), "api_key": "hunter2-hunter2"});
    let replies =
        vec![Reply::calls([call("c1", "check_stock", long.to_string())]), Reply::text("Done.")];
    world.scripted("fields", replies).await;
    let page = page(&world.journal, "fields", None).unwrap();
    assert!(!page.contains("hunter2"), "{page}");
}

#[tokio::test]
async fn steps_are_grouped_if_there_are_many() {
    let (_folder, world) = quick();
    world.long("long", 130).await;
    let page = page(&world.journal, "long", None).unwrap();
    assert_own_markup(&page);
    let text = text(&page);
    for line in ["Steps 1 to 50", "Steps 51 to 100 1 step with errors", "Steps 101 to 130"] {
        assert!(text.lines().any(|shown| shown.starts_with(line)), "{line}\n{text:.3000}");
    }
    // The editor leaves out the start of a long conversation.
    assert!(text.contains("Shorter than the prompt before"), "{text:.3000}");
}

#[tokio::test]
async fn a_page_that_reloads_says_when_and_allows_only_its_own_script() {
    let (_folder, world) = quick();
    world.waiting("waiting").await;
    let page = page(&world.journal, "waiting", Some(Duration::from_secs(3))).unwrap();
    assert!(page.contains(r#"<noscript><meta http-equiv="refresh" content="3"></noscript>"#));
    let policy = Regex::new(r"default-src 'none'; style-src 'sha256-[^ ']+'; script-src 'sha256-[^ ']+'; base-uri 'none'; form-action 'none'").unwrap();
    assert!(policy.is_match(&page));
}

/// Returns the CRC-32 of bytes, which continues one.
fn crc(before: u32, bytes: &[u8]) -> u32 {
    let mut crc = !before;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

#[tokio::test]
async fn a_run_of_5000_agents_below_each_other_has_a_page_and_a_text() {
    let (folder, world) = quick();
    world.short().await;
    let path = folder.path().join("short.journal");
    let mut text = std::fs::read_to_string(&path).unwrap();
    // Without the end, and with a record of each level.
    let end = text.trim_end().rfind('\n').unwrap();
    text.truncate(end + 1);
    for levels in [1, 16, 17, 100, 5_000] {
        let mut names: Vec<String> =
            (0..levels).flat_map(|level| ["helper".to_owned(), level.to_string()]).collect();
        names.extend(["call", "x", "0"].map(str::to_owned));
        let key = serde_json::to_string(&names).unwrap();
        let begun = serde_json::json!({"begun": {"key": key, "identity": 1}});
        let record = serde_json::json!({"at": u64::MAX, "record": begun}).to_string();
        let before = u32::from_str_radix(&text.lines().last().unwrap()[..8], 16).unwrap();
        let checksum = crc(before, record.as_bytes());
        text.push_str(&format!("{checksum:08x} {} {record}\n", record.len()));
    }
    std::fs::write(&path, text).unwrap();
    let page = page(&world.journal, "short", None).unwrap();
    assert_own_markup(&page);
    assert!(page.contains("3 records of agents below more than 16 others are not shown here."));
    let run = world.journal.run("short").unwrap();
    let task = world.journal.task("short").unwrap();
    let records = world.journal.records("short").unwrap();
    let shown = toolwright_cli::runs::show(&run, &task, &records);
    assert_eq!(shown.matches("was begun and has no result").count(), 5);
    assert!(shown.len() < 20_000, "{}", shown.len());
}

#[tokio::test]
async fn times_and_counts_of_any_size_have_a_page_and_a_text() {
    let (folder, world) = quick();
    world.long("long", 4).await;
    let path = folder.path().join("long.journal");
    let text = std::fs::read_to_string(&path).unwrap();
    let (format, lines) = text.split_once('\n').unwrap();
    let (mut forged, mut before) = (format!("{format}\n"), crc(0, format.as_bytes()));
    let numbers = Regex::new(r#""(secs|input_tokens|output_tokens)":\d+"#).unwrap();
    for line in lines.lines() {
        let record = line.splitn(3, ' ').nth(2).unwrap();
        let record = numbers.replace_all(record, format!("\"$1\":{}", u64::MAX));
        let record = record.replace(r#"\"2\"]"#, &format!(r#"\"{}\"]"#, u64::MAX));
        before = crc(before, record.as_bytes());
        forged.push_str(&format!("{before:08x} {} {record}\n", record.len()));
    }
    assert!(forged.matches(&u64::MAX.to_string()).count() > 10, "{forged}");
    std::fs::write(&path, forged).unwrap();
    assert_own_markup(&page(&world.journal, "long", None).unwrap());
    let run = world.journal.run("long").unwrap();
    let task = world.journal.task("long").unwrap();
    let records = world.journal.records("long").unwrap();
    assert!(toolwright_cli::runs::show(&run, &task, &records).contains("tokens in"));
}

#[tokio::test]
async fn a_result_that_is_no_result_has_a_page_and_a_text() {
    let (folder, world) = quick();
    world.short().await;
    let path = folder.path().join("short.journal");
    let text = std::fs::read_to_string(&path).unwrap();
    let end = text.trim_end().rfind('\n').unwrap();
    let before = &text[..=end];
    let last = u32::from_str_radix(&before.lines().last().unwrap()[..8], 16).unwrap();
    for value in [json!("x"), json!(5), json!([1]), json!(null), json!(true), json!({})] {
        for record in [
            json!({"finished": {"ending": "answered", "finished": value}}),
            json!({"stopped": {"error": "no", "finished": value}}),
        ] {
            let record = json!({"at": 1, "record": record}).to_string();
            let line = format!("{:08x} {} {record}\n", crc(last, record.as_bytes()), record.len());
            std::fs::write(&path, format!("{before}{line}")).unwrap();
            assert_own_markup(&page(&world.journal, "short", None).unwrap());
            let run = world.journal.run("short").unwrap();
            let task = world.journal.task("short").unwrap();
            let records = world.journal.records("short").unwrap();
            assert!(toolwright_cli::runs::show(&run, &task, &records).contains("tokens in"));
        }
    }
}

#[tokio::test]
async fn a_list_takes_an_id_of_any_length() {
    let (_folder, world) = quick();
    world.short().await;
    let mut run = world.journal.run("short").unwrap();
    let mut long = run.clone();
    long.id = "x".repeat(70_000);
    run.metadata.clear();
    run.task = Some("y".repeat(1_000_000));
    let list = toolwright_cli::runs::list(&[run, long]);
    assert_eq!(list.lines().count(), 2);
    assert!(list.len() < 2_000, "{}", list.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// No text of a model, a tool or a person becomes markup, wherever it stands.
    #[test]
    fn no_text_becomes_markup(
        start in prop_oneof![Just(String::new()), Just(HOSTILE.to_owned()), Just("{\"a\": \"<b>\"}".to_owned())],
        rest in "[<>&\"'/=a-z \\n\\PC]{0,60}",
    ) {
        let text = format!("{start}{rest}!");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (_folder, world) = quick();
        runtime.block_on(world.hostile("hostile", &text));
        let page = page(&world.journal, "hostile", None).unwrap();
        assert_own_markup(&page);
        let first = text.lines().next().unwrap_or_default();
        let shown = toolwright_cli::visible(first);
        prop_assert!(unescaped(&page).contains(&shown), "{shown}");
    }
}
