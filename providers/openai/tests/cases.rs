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
use toolwright_module::{Delta, LanguageModel, Reply, Result};
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
    for (name, body) in cases("replies", api) {
        let server = Server::answering([Answer::json(body)]).await;
        let outcome = server.model(api).generate(&hi()).await;
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
        let mut first = None;
        for (body, size) in ways {
            let server = Server::answering([Answer::events(body, size)]).await;
            let (deltas, outcome) = streamed(&server.model(api), hi()).await;
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
