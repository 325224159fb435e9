//! Recordings: saving, loading and replaying them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolwright_module::model::Settings;

use futures_util::stream::StreamExt;
use serde_json::json;
use toolwright_module::error::Stage;
use toolwright_module::message::{Reasoning, ReplyPart, ToolResult};
use toolwright_module::model::{Delta, Usage};
use toolwright_module::testing::{Recorder, Recording, RecordingError, Replay, Scripted};
use toolwright_module::{
    Context, Contract, Error, LanguageModel, Message, Module, Predict, Reply, Request, Result,
    ToolCall,
};

use crate::support::{Count, DetectLanguage, SUMMARY, Summarize, summarize};

/// Returns a file for one test. It does not exist when the test begins.
fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recordings");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    let _ = std::fs::remove_file(&path);
    path
}

/// The requests of a run with one tool. Each adds messages to the one before.
fn conversation() -> [Request; 2] {
    let tools: Arc<[_]> = Arc::new([Arc::new(Contract::of::<Count>().unwrap())]);
    let call = ToolCall::new("call_1", "count", "{}");
    let question = vec![Message::system("Be brief."), Message::user("How many?")];
    let mut answered = question.clone();
    answered.push(Arc::new(Message::Assistant {
        parts: vec![
            ReplyPart::Reasoning(Reasoning::new(
                "some-provider",
                "Count them.",
                json!({"id": "rs_1"}),
            )),
            ReplyPart::Call(call.clone()),
        ],
    }));
    answered.push(Arc::new(Message::Tool(ToolResult::new(&call, "3"))));
    [question, answered].map(|messages| Request::new(messages).with_tools(Arc::clone(&tools)))
}

fn answer(request: &Request) -> Result<Reply> {
    let reply = match request.messages.len() {
        2 => Reply::new([
            ReplyPart::Reasoning(Reasoning::new(
                "some-provider",
                "Count them.",
                json!({"id": "rs_1"}),
            )),
            ReplyPart::Call(ToolCall::new("call_1", "count", "{}")),
        ]),
        _ => Reply::text("There are three of them."),
    };
    let usage = Usage { cached_tokens: 5, reasoning_tokens: 2, ..Usage::new(20, 10) };
    Ok(reply.with_usage(usage).with_model("true-name-1.0"))
}

async fn recorded() -> Recording {
    let recorder = Recorder::new(Scripted::new(answer));
    for request in conversation() {
        recorder.generate(&request).await.unwrap();
    }
    recorder.recording()
}

async fn heard(model: &impl LanguageModel, request: Request) -> Result<(String, Reply)> {
    let mut text = String::new();
    let mut deltas = model.stream(request);
    while let Some(delta) = deltas.next().await {
        match delta? {
            Delta::Text(more) => text.push_str(&more),
            Delta::Done(reply) => return Ok((text, *reply)),
            _ => {}
        }
    }
    panic!("a stream without its reply")
}

#[test]
fn a_recording_with_a_byte_order_mark_is_read() {
    let text = r#"{"version": 1, "model": "m", "exchanges": []}"#;
    let path = file("byte_order_mark.json");
    std::fs::write(&path, format!("\u{feff}{text}")).unwrap();
    assert_eq!(Recording::load(&path).unwrap(), Recording::parse(text, "-").unwrap());
}

#[tokio::test]
async fn a_saved_recording_replays_the_same_answers() {
    let recording = recorded().await;
    let path = file("same.json");
    recording.save(&path).unwrap();
    let loaded = Recording::load(&path).unwrap();
    assert_eq!(loaded.model, "true-name-1.0");
    assert_eq!(loaded.to_string(), "2 exchanges with true-name-1.0");

    let replay = Replay::new(loaded);
    assert_eq!((replay.name(), replay.left()), ("true-name-1.0", 2));
    for request in conversation() {
        let said = replay.generate(&request).await.unwrap();
        assert_eq!(said, answer(&request).unwrap());
    }
    assert_eq!(replay.left(), 0);

    // A second save writes the same file.
    let again = file("same-again.json");
    Recording::load(&path).unwrap().save(&again).unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), std::fs::read_to_string(again).unwrap());
}

#[tokio::test]
async fn the_file_is_readable_and_repeats_nothing() {
    let path = file("readable.json");
    recorded().await.save(&path).unwrap();
    insta::assert_snapshot!(std::fs::read_to_string(&path).unwrap());
}

#[tokio::test]
async fn a_request_that_was_not_recorded_gets_a_diff() {
    let replay = Replay::new(recorded().await);
    let mut changed = conversation()[0].clone();
    changed.messages[1] = Message::user("How many now?");
    let error = replay.generate(&changed).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Setup);
    insta::assert_snapshot!(error);
    assert_eq!(replay.left(), 2);

    let narrower =
        conversation()[0].clone().with_settings(Settings::default().with_max_output_tokens(7));
    let error = replay.generate(&narrower).await.unwrap_err();
    insta::assert_snapshot!("another_token_limit_is_another_request", error);

    let error = heard(&replay, changed).await.unwrap_err();
    assert!(error.to_string().contains("this request was not recorded"));
}

#[tokio::test]
async fn requests_are_matched_in_any_order() {
    let recorder = Recorder::new(Scripted::new(|request: &Request| {
        let text = serde_json::to_string(&request.messages).unwrap();
        Ok(Reply::text(text))
    }));
    let ask = |text: &str| Request::new([Message::user(text)]);
    for text in ["a", "b", "a", "c"] {
        recorder.generate(&ask(text)).await.unwrap();
    }
    let replay = Replay::new(recorder.recording());
    for text in ["c", "a", "b", "a"] {
        let reply = replay.generate(&ask(text)).await.unwrap();
        assert!(reply.to_text().contains(text));
    }
    let error = replay.generate(&ask("a")).await.unwrap_err();
    insta::assert_snapshot!(error, @"the recording has no more answers: 4 were recorded and used; record the run again");
}

#[tokio::test]
async fn a_stream_is_recorded_and_replayed_as_a_stream() {
    let recorder = Recorder::new(Scripted::new(answer));
    for request in conversation() {
        heard(&recorder, request).await.unwrap();
    }
    assert_eq!(recorder.recording(), recorded().await);

    let replay = Replay::new(recorder.recording());
    let [first, second] = conversation();
    let (text, reply) = heard(&replay, first.clone()).await.unwrap();
    assert_eq!((text.as_str(), reply), ("", answer(&first).unwrap()));
    let (text, reply) = heard(&replay, second.clone()).await.unwrap();
    assert_eq!((text.as_str(), reply), ("There are three of them.", answer(&second).unwrap()));
}

#[tokio::test]
async fn failures_are_not_recorded() {
    let recorder = Recorder::new(Scripted::new(|_| Err(Error::other("connection lost"))));
    let [request, _] = conversation();
    recorder.generate(&request).await.unwrap_err();
    heard(&recorder, request).await.unwrap_err();
    assert!(recorder.recording().exchanges.is_empty());
}

#[tokio::test]
async fn a_module_is_replayed_with_its_schema_beside_the_prompt() {
    let model = Scripted::new(|_| Ok(Reply::text(SUMMARY)));
    let model = model.with_capabilities(crate::support::structured());
    let recorder = Arc::new(Recorder::new(model));
    let module = Predict::<Summarize>::new(Arc::clone(&recorder)).unwrap();
    module.call(summarize(), &Context::default()).await.unwrap();

    let path = file("structured.json");
    recorder.recording().save(&path).unwrap();
    // The recorded request shows that the model takes output schemas.
    let replay = Replay::new(Recording::load(&path).unwrap());
    let module = Predict::<Summarize>::new(replay).unwrap();
    assert_eq!(module.call(summarize(), &Context::default()).await.unwrap().topics, ["weather"]);
}

#[tokio::test]
async fn a_request_that_was_not_recorded_ends_the_run() {
    let replay = Replay::new(recorded().await);
    let module = Predict::<DetectLanguage>::new(replay).unwrap();
    let input = DetectLanguage { text: "ave".to_owned() };
    let error = module.call(input, &Context::default()).await.unwrap_err();
    assert_eq!(error.audience(), toolwright_module::error::Audience::Run);
}

#[test]
fn a_file_that_is_not_a_recording_is_an_error_with_its_name() {
    let refused = |text: &str| Recording::parse(text, "run.json").unwrap_err();
    let long = |error: RecordingError| format!("{:#}", Error::from(error));
    insta::assert_snapshot!(long(refused("{\"version\": 1")), @r"
    the recording run.json cannot be read, because it ends too early; record it again
    cause: EOF while parsing an object at line 1 column 13
    ");
    insta::assert_snapshot!(long(refused("{\"version\": 1, \"model\": \"m\"}")), @r"
    the recording run.json cannot be read, because it does not have the fields of a recording; record it again
    cause: missing field `exchanges`
    ");
    insta::assert_snapshot!(long(refused("[]")), @r"
    the recording run.json cannot be read, because it does not have the fields of a recording; record it again
    cause: invalid length 0, expected `version`, `model` and `exchanges`
    ");
    insta::assert_snapshot!(refused("Hello."), @"the recording run.json cannot be read, because it is not JSON; record it again");
    // The rest of a later version may be different.
    insta::assert_snapshot!(long(refused("{\"version\": 2, \"runs\": []}")), @r"
    the recording run.json has version 2, this program reads up to 1; update it
    ");
}

#[test]
fn a_recording_of_a_later_version_is_rejected_by_every_reader() {
    let text = r#"{"version": 2, "model": "m", "exchanges": []}"#;
    assert!(matches!(
        Recording::parse(text, "run.json"),
        Err(RecordingError::Version { found: 2, .. })
    ));
    let derived = serde_json::from_str::<Recording>(text).unwrap_err();
    insta::assert_snapshot!(derived, @"the recording has version 2, this program reads up to 1; update it");
}

#[test]
fn an_exchange_without_a_request_is_an_error_with_its_number() {
    let request = r#""request": {"messages": [], "settings": {"max_output_tokens": 1}}"#;
    let refused = |exchanges: &[&str]| {
        let exchanges: Vec<String> = exchanges
            .iter()
            .map(|asked| format!("{{{asked} \"reply\": {{\"parts\": []}}}}"))
            .collect();
        let exchanges = exchanges.join(",");
        let text = format!("{{\"version\": 1, \"model\": \"m\", \"exchanges\": [{exchanges}]}}");
        let derived = serde_json::from_str::<Recording>(&text).unwrap_err();
        let error = Recording::parse(&text, "run.json").unwrap_err();
        let RecordingError::Exchange { exchange, fault, .. } = &error else { panic!("{error:?}") };
        assert!(derived.to_string().contains(&format!("exchange {exchange} {fault}")), "{derived}");
        error
    };
    let (complete, then) = (format!("{request},"), "\"then\": [],");
    insta::assert_snapshot!(refused(&[then]), @"exchange 1 of the recording run.json has no `request`, nor `then` after another exchange; record it again");
    insta::assert_snapshot!(refused(&[&complete, then, ""]), @"exchange 3 of the recording run.json has no `request`, nor `then` after another exchange; record it again");
    let both = format!("{request}, {then}");
    insta::assert_snapshot!(refused(&[&complete, &both]), @"exchange 2 of the recording run.json has both `request` and `then`; record it again");
}

fn empty() -> Recording {
    Recording::parse(r#"{"version": 1, "model": "m", "exchanges": []}"#, "x").unwrap()
}

/// Returns a folder for one test. It is empty when the test begins.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recordings").join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn file_errors_have_the_path_the_cause_and_a_remedy() {
    let error = Recording::load("no/such/run.json").unwrap_err();
    insta::assert_snapshot!(error, @"cannot read the recording no/such/run.json (entity not found); record the run first, or name another file");
    assert!(std::error::Error::source(&error).is_some());
    let error = empty().save("no/such/run.json").unwrap_err();
    insta::assert_snapshot!(error, @"cannot write the recording no/such/run.json (entity not found); name a file in a folder that you may write to");
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn saving_changes_no_other_file() {
    let folder = folder("neighbours");
    std::fs::write(folder.join("run.part"), "mine").unwrap();
    empty().save(folder.join("run.json")).unwrap();
    assert_eq!(std::fs::read_to_string(folder.join("run.part")).unwrap(), "mine");
    assert_eq!(names_in(&folder), ["run.json", "run.part"]);
}

#[cfg(unix)]
#[test]
fn a_file_that_is_replaced_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder("mode").join("run.json");
    empty().save(&path).unwrap();
    for mode in [0o600, 0o444, 0o664] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        empty().save(&path).unwrap();
        let found = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{found:o}");
    }
}

#[tokio::test]
async fn concurrent_saves_are_atomic() {
    let folder = folder("at-once");
    let path = folder.join("run.json");
    let (short, long) = (empty(), recorded().await);
    std::thread::scope(|scope| {
        for recording in [&short, &long].repeat(4) {
            scope.spawn(|| (0..50).for_each(|_| recording.save(&path).unwrap()));
        }
    });
    let last = Recording::load(&path).unwrap();
    assert!(last == short || last == long);
    assert_eq!(names_in(&folder), ["run.json"]);
}

#[test]
fn a_save_that_fails_leaves_nothing_behind() {
    let folder = folder("fails");
    // The name is too long for the file system, so only the last step fails.
    let error = empty().save(folder.join("a".repeat(300))).unwrap_err();
    assert!(matches!(error, RecordingError::Write { .. }), "{error}");
    assert_eq!(names_in(&folder), [""; 0]);
}

#[test]
fn only_a_regular_file_is_replaced() {
    let folder = folder("not-a-file");
    let refused = |name: &str| {
        let error = empty().save(folder.join(name)).unwrap_err();
        assert!(matches!(error, RecordingError::NotAFile { .. }), "{error}");
        error.to_string().replace(&folder.display().to_string(), "recordings")
    };
    std::fs::create_dir(folder.join("folder")).unwrap();
    insta::assert_snapshot!(refused("folder"), @"cannot write the recording recordings/folder: the path is not a regular file; name another file");
    #[cfg(unix)]
    {
        // For example `/dev/stdout`.
        std::os::unix::fs::symlink("elsewhere.json", folder.join("link")).unwrap();
        refused("link");
        assert!(folder.join("link").is_symlink());
        std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
        refused("socket");
    }
}

#[tokio::test]
async fn a_recording_that_could_not_be_loaded_is_not_saved() {
    let path = file("too-deep.json");
    empty().save(&path).unwrap();
    let deep = (0..200).fold(json!(0), |inside, _| json!([inside]));
    let reply = Reply::new([ReplyPart::Reasoning(Reasoning::new("p", "", deep))]);
    let recorder = Recorder::new(Scripted::new(move |_| Ok(reply.clone())));
    recorder.generate(&Request::new([])).await.unwrap();
    let error = recorder.recording().save(&path).unwrap_err();
    let text = error.to_string().replace(&path.display().to_string(), "run.json");
    insta::assert_snapshot!(text, @"the recording run.json was not written, because it could not be loaded again; reduce the nesting of the JSON in its tools and replies");
    assert!(std::error::Error::source(&error).is_some());
    assert_eq!(Recording::load(&path).unwrap(), empty());
}
