//! A real run, kept in a file and played again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test is a test too, which clippy.toml cannot know"
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use futures_util::stream::StreamExt;
use serde_json::json;
use toolwright_module::testing::{Recorder, Recording, RecordingError, Replay, Scripted};
use toolwright_module::{
    Context, Contract, Delta, Error, LanguageModel, Message, Module, Predict, Reasoning, Reply,
    ReplyPart, Request, Result, Stage, ToolCall, ToolResult, Usage,
};

use support::{Count, DetectLanguage, SUMMARY, Summarize, summarize};

/// A file of this test's own, gone before the test begins.
fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recordings");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    let _ = std::fs::remove_file(&path);
    path
}

/// The requests of a run with one tool, each growing from the one before.
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
    let usage = Usage::new(20, 10).with_cached(5).with_reasoning(2);
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

#[tokio::test]
async fn a_recording_that_was_saved_and_loaded_answers_the_same() {
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

    // Saved again, it is the same file.
    let again = file("same-again.json");
    Recording::load(&path).unwrap().save(&again).unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), std::fs::read_to_string(again).unwrap());
}

#[tokio::test]
async fn the_file_says_everything_once_and_can_be_read() {
    let path = file("readable.json");
    recorded().await.save(&path).unwrap();
    insta::assert_snapshot!(std::fs::read_to_string(&path).unwrap());
    assert!(!path.with_extension("part").exists());
}

#[tokio::test]
async fn another_request_is_shown_as_a_difference_and_never_answered() {
    let replay = Replay::new(recorded().await);
    let mut changed = conversation()[0].clone();
    changed.messages[1] = Message::user("How many now?");
    let error = replay.generate(&changed).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Setup);
    insta::assert_snapshot!(error);
    assert_eq!(replay.left(), 2);

    let narrower = conversation()[0].clone().with_max_output_tokens(7);
    let error = replay.generate(&narrower).await.unwrap_err();
    insta::assert_snapshot!("another_bound_is_another_request", error);

    let error = heard(&replay, changed).await.unwrap_err();
    assert!(error.to_string().contains("this request was not recorded"));
}

#[tokio::test]
async fn requests_are_found_by_what_they_ask_whatever_their_order() {
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
async fn a_stream_is_recorded_and_played_as_a_stream_too() {
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
    let model = model.with_capabilities(support::structured());
    let recorder = Arc::new(Recorder::new(model));
    let module = Predict::<Summarize>::new(Arc::clone(&recorder)).unwrap();
    module.call(summarize()).await.unwrap();

    let path = file("structured.json");
    recorder.recording().save(&path).unwrap();
    let replay = Replay::new(Recording::load(&path).unwrap());
    let replay = replay.with_capabilities(support::structured());
    let module = Predict::<Summarize>::new(replay).unwrap();
    assert_eq!(module.call(summarize()).await.unwrap().topics, ["weather"]);
}

#[tokio::test]
async fn a_replay_that_does_not_fit_ends_the_run_it_is_in() {
    let replay = Replay::new(recorded().await);
    let module = Predict::<DetectLanguage>::new(replay).unwrap();
    let input = DetectLanguage { text: "ave".to_owned() };
    let error = module.forward(input, &Context::default()).await.unwrap_err();
    assert_eq!(error.audience(), toolwright_module::Audience::Run);
}

#[test]
fn a_file_that_is_no_recording_says_so_with_its_name() {
    let refused = |text: &str| Recording::parse(text, "run.json").unwrap_err();
    let long = |error: RecordingError| format!("{:#}", Error::from(error));
    insta::assert_snapshot!(long(refused("{\"version\": 1")), @r"
    the recording run.json cannot be read; record it again
    cause: EOF while parsing an object at line 1 column 13
    ");
    insta::assert_snapshot!(long(refused("{\"version\": 1, \"model\": \"m\"}")), @r"
    the recording run.json cannot be read; record it again
    cause: missing field `exchanges`
    ");
    insta::assert_snapshot!(long(refused("[]")), @r"
    the recording run.json cannot be read; record it again
    cause: invalid length 0, expected struct Recording with 3 elements
    ");
    let first_without_request =
        r#"{"version": 1, "model": "m", "exchanges": [{"then": [], "reply": {"parts": []}}]}"#;
    insta::assert_snapshot!(long(refused(first_without_request)), @r"
    the recording run.json cannot be read; record it again
    cause: the first exchange has no request
    ");
    // A later version need not read as this one at all.
    insta::assert_snapshot!(long(refused("{\"version\": 2, \"runs\": []}")), @r"
    the recording run.json has version 2, this program reads up to 1; update it
    ");
}

#[test]
fn a_file_that_is_not_there_or_cannot_be_written_says_which() {
    let error = Recording::load("no/such/run.json").unwrap_err();
    assert_eq!(error.to_string(), "cannot use the recording no/such/run.json");
    assert!(std::error::Error::source(&error).is_some());
    let recording =
        Recording::parse(r#"{"version": 1, "model": "m", "exchanges": []}"#, "x").unwrap();
    let error = recording.save("no/such/run.json").unwrap_err();
    assert_eq!(error.to_string(), "cannot use the recording no/such/run.json");
}

/// A recording of one question that holds `secret` wherever a text can be.
async fn saved_with(secret: &str, name: &str) -> (PathBuf, Request) {
    let call = ToolCall::new("1", "login", json!({"key": secret}).to_string());
    let request = Request::new([
        Message::system(format!("Use {secret}.")),
        Message::user(secret),
        Arc::new(Message::Assistant { parts: vec![ReplyPart::Call(call.clone())] }),
        Arc::new(Message::Tool(ToolResult::new(&call, format!("{secret} accepted")))),
    ]);
    let said = secret.to_owned();
    let recorder = Recorder::new(Scripted::new(move |_: &Request| {
        let thinking = Reasoning::new("p", said.clone(), json!({said.clone(): [said.clone()]}));
        let parts = [ReplyPart::Reasoning(thinking), ReplyPart::Text(format!("({said})"))];
        Ok(Reply::new(parts))
    }));
    recorder.generate(&request).await.unwrap();
    let path = file(name);
    recorder.recording().save(&path).unwrap();
    (path, request)
}

/// Every key is made here, so that no scanner takes this file for a leak.
fn keys() -> Vec<String> {
    let body = "Ab3".repeat(8);
    [
        "sk-",
        "sk-proj-",
        "sk-ant-api03-",
        "ghp_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "AKIA",
        "AIza",
        "gsk_",
        "xai-",
    ]
    .iter()
    .map(|prefix| format!("{prefix}{body}"))
    .collect()
}

#[tokio::test]
async fn no_key_is_written_and_the_replay_still_fits() {
    for (index, key) in keys().into_iter().enumerate() {
        let (path, request) = saved_with(&key, &format!("key-{index}.json")).await;
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&key), "{key}");
        assert!(text.contains("[secret]"), "{key}");

        let replay = Replay::new(Recording::load(&path).unwrap());
        let reply = replay.generate(&request).await.unwrap();
        assert_eq!(reply.to_text(), "([secret])", "{key}");
    }
}

#[tokio::test]
async fn a_word_that_only_looks_like_a_key_is_kept() {
    let words = [
        "the task-force-on-very-long-names-met",
        "a risk-averse-and-careful-investor",
        "sk-short",
        "AKIA is a prefix",
        "xoxb-",
    ];
    for (index, word) in words.into_iter().enumerate() {
        let (path, _) = saved_with(word, &format!("word-{index}.json")).await;
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(word) && !text.contains("[secret]"), "{word}");
    }
}

const SECRET_IN_ENV: &str = "TOOLWRIGHT_TEST_KEY";
const LONGER_SECRET_IN_ENV: &str = "TOOLWRIGHT_TEST_LONGER_KEY";

/// Runs in a process of its own, because only there the environment can be set.
#[tokio::test]
async fn inner_writes_what_the_environment_calls_a_secret() {
    for (name, file) in [(SECRET_IN_ENV, "env.json"), (LONGER_SECRET_IN_ENV, "env-longer.json")] {
        if let Ok(secret) = std::env::var(name) {
            let (path, request) = saved_with(&secret, file).await;
            let replay = Replay::new(Recording::load(path).unwrap());
            replay.generate(&request).await.unwrap();
        }
    }
}

#[test]
fn no_secret_of_the_environment_is_written() {
    // One begins as the other, and holds what JSON escapes.
    let (secret, longer) = ("quite plain words", r#"quite plain words with "quotes" and \"#);
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "inner_writes_what_the_environment_calls_a_secret"])
        .env(SECRET_IN_ENV, secret)
        .env(LONGER_SECRET_IN_ENV, longer)
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recordings");
    for name in ["env.json", "env-longer.json"] {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        for part in [secret, "quotes"] {
            assert!(!text.contains(part), "{part} in {name}: {text}");
        }
        assert!(text.contains("[secret]"), "{name}");
    }
}
