//! The replies and streams of servers, each a file in `replies/` or `streams/` with a snapshot.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use toolwright_module::model::Settings;

use toolwright_module::model::{Delta, Finish};
use toolwright_module::{LanguageModel, Reply, Result};
use toolwright_openai::Api;

use crate::common::{self, Answer, Server, hi, streamed};

/// The name and the content of each file in a folder.
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
    let model = server.model(api).with_connection(|c| Ok(c.with_retries(0))).unwrap();
    for (name, _) in &cases {
        let outcome = model.generate(&hi()).await;
        insta::assert_snapshot!(format!("{api}_{name}"), shown(&outcome, &server));
    }
}

#[tokio::test]
async fn every_reply_of_chat_is_read_as_in_its_snapshot() {
    replies(Api::Chat).await;
}

#[tokio::test]
async fn every_reply_of_responses_is_read_as_in_its_snapshot() {
    replies(Api::Responses).await;
}

/// The deltas, one a line, and then the reply.
fn shown_stream(deltas: &[Delta], outcome: &Result<Reply>, server: &Server) -> String {
    let mut lines = String::new();
    for delta in deltas {
        match delta {
            Delta::Text(text) => writeln!(lines, "text {text:?}"),
            Delta::Reasoning(text) => writeln!(lines, "reasoning {text:?}"),
            Delta::Call { index, name, arguments } => {
                writeln!(lines, "call {index} {name} {arguments:?}")
            }
            other => writeln!(lines, "{other:?}"),
        }
        .unwrap();
    }
    lines + &shown(outcome, server)
}

/// Reads each stream with four combinations of packets, line ends and comments. The result must
/// be the same.
async fn streams(api: Api) {
    for (name, body) in cases("streams", api) {
        let crlf = body.replace('\n', "\r\n");
        let commented = body.replace("\n\n", "\n\n: still here\n\n");
        let forms = [(&body, 4096), (&body, 5), (&crlf, 7), (&commented, 3)];
        let answers = forms.map(|(body, size)| Answer::events(body, size));
        let server = Server::answering(answers).await;
        let model = server.model(api).with_connection(|c| Ok(c.with_retries(0))).unwrap();
        let mut first = None;
        for (_, size) in forms {
            let (deltas, outcome) = streamed(&model, hi()).await;
            let shown = shown_stream(&deltas, &outcome, &server);
            let first = first.get_or_insert_with(|| shown.clone());
            assert_eq!(*first, shown, "{name}, {size} bytes at a time");
        }
        insta::assert_snapshot!(format!("{api}_stream_{name}"), first.unwrap_or_default());
    }
}

#[tokio::test]
async fn every_stream_of_chat_is_read_as_in_its_snapshot() {
    streams(Api::Chat).await;
}

#[tokio::test]
async fn every_stream_of_responses_is_read_as_in_its_snapshot() {
    streams(Api::Responses).await;
}

#[tokio::test]
async fn a_complete_reply_with_the_maximum_of_tokens_was_cut_off() {
    let whole = r#"{"status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hello! How can"}]}], "usage": {"input_tokens": 31, "output_tokens": 4}}"#;
    let event = format!("data: {{\"type\": \"response.completed\", \"response\": {whole}}}\n\n");
    for (most, finish) in [(4, Finish::Length), (5, Finish::Stop)] {
        let server = Server::answering([Answer::json(whole), Answer::events(&event, 99)]).await;
        let (model, request) = (
            server.model(Api::Responses).with_connection(|c| Ok(c.with_retries(0))).unwrap(),
            hi().with_settings(Settings::default().with_max_output_tokens(most)),
        );
        assert_eq!(model.generate(&request).await.unwrap().finish, finish);
        assert_eq!(streamed(&model, request).await.1.unwrap().finish, finish);
    }
}
