//! A folder of replies and a folder of streams, as servers send them. A new case is a
//! new file.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper of a test is a test too, which clippy.toml cannot know"
)]

mod common;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use common::{Answer, Server, hi, streamed};
use toolwright_module::model::{Delta, Finish};
use toolwright_module::{LanguageModel, Reply, Result};
use toolwright_openai::Api;

/// Every file of a folder, by name, with what is in it.
fn cases(folder: &str, api: Api) -> Vec<(String, String)> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder).join(api.to_string());
    let mut cases: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    cases.sort();
    assert!(!cases.is_empty());
    cases
}

fn shown(outcome: &Result<Reply>, server: &Server) -> String {
    match outcome {
        Ok(reply) => serde_json::to_string_pretty(reply).unwrap(),
        Err(error) => common::said(error, server),
    }
}

async fn replies(api: Api) {
    let cases = cases("replies", api);
    let answers = cases.iter().map(|(_, body)| Answer::json(body));
    let server = Server::answering(answers).await;
    let model = server.model(api);
    for (name, _) in &cases {
        let outcome = model.generate(&hi()).await;
        insta::assert_snapshot!(format!("{api}_{name}"), shown(&outcome, &server));
    }
}

#[tokio::test]
async fn chat_replies() {
    replies(Api::Chat).await;
}

#[tokio::test]
async fn responses_replies() {
    replies(Api::Responses).await;
}

/// Deltas one a line, then the reply.
fn told(deltas: &[Delta], outcome: &Result<Reply>, server: &Server) -> String {
    let mut told = String::new();
    for delta in deltas {
        match delta {
            Delta::Text(text) => writeln!(told, "text {text:?}"),
            Delta::Reasoning(text) => writeln!(told, "reasoning {text:?}"),
            Delta::Call { index, name, arguments } => {
                writeln!(told, "call {index} {name} {arguments:?}")
            }
            other => writeln!(told, "{other:?}"),
        }
        .unwrap();
    }
    told + &shown(outcome, server)
}

/// However a stream is cut into packets and lines, it says the same.
async fn streams(api: Api) {
    for (name, body) in cases("streams", api) {
        let crlf = body.replace('\n', "\r\n");
        let commented = body.replace("\n\n", "\n\n: still here\n\n");
        let ways = [(&body, 4096), (&body, 5), (&crlf, 7), (&commented, 3)];
        let answers = ways.map(|(body, size)| Answer::events(body, size));
        let server = Server::answering(answers).await;
        let model = server.model(api);
        let mut first = None;
        for (_, size) in ways {
            let (deltas, outcome) = streamed(&model, hi()).await;
            let told = told(&deltas, &outcome, &server);
            let first = first.get_or_insert_with(|| told.clone());
            assert_eq!(*first, told, "{name}, {size} bytes at a time");
        }
        insta::assert_snapshot!(format!("{api}_stream_{name}"), first.unwrap_or_default());
    }
}

#[tokio::test]
async fn chat_streams() {
    streams(Api::Chat).await;
}

#[tokio::test]
async fn responses_streams() {
    streams(Api::Responses).await;
}

#[tokio::test]
async fn a_reply_as_long_as_it_may_be_was_cut_off() {
    let whole = r#"{"status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hello! How can"}]}], "usage": {"input_tokens": 31, "output_tokens": 4}}"#;
    let event = format!("data: {{\"type\": \"response.completed\", \"response\": {whole}}}\n\n");
    for (most, finish) in [(4, Finish::Length), (5, Finish::Stop)] {
        let server = Server::answering([Answer::json(whole), Answer::events(&event, 99)]).await;
        let (model, request) = (server.model(Api::Responses), hi().with_max_output_tokens(most));
        assert_eq!(model.generate(&request).await.unwrap().finish, finish);
        assert_eq!(streamed(&model, request).await.1.unwrap().finish, finish);
    }
}
