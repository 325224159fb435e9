//! The replies and streams of servers, each a file in `replies/` or `streams/` with a snapshot.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use toolwright_module::model::Delta;
use toolwright_module::{LanguageModel, Reply, Result};

use crate::common::{self, Answer, Server, hi, streamed};

/// The name and the content of each file in a folder.
fn cases(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
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

#[tokio::test]
async fn every_reply_is_read_as_in_its_snapshot() {
    let cases = cases("replies");
    let server = Server::answering(cases.iter().map(|(_, body)| Answer::json(body))).await;
    let model = server.model().with_connection(|c| Ok(c.with_retries(0))).unwrap();
    for (name, _) in &cases {
        let outcome = model.generate(&hi()).await;
        insta::assert_snapshot!(format!("reply_{name}"), shown(&outcome, &server));
    }
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
#[tokio::test]
async fn every_stream_is_read_as_in_its_snapshot() {
    for (name, body) in cases("streams") {
        let crlf = body.replace('\n', "\r\n");
        let commented = body.replace("\n\n", "\n\n: still here\n\n");
        let forms = [(&body, 4096), (&body, 5), (&crlf, 7), (&commented, 3)];
        let answers = forms.map(|(body, size)| Answer::events(body, size));
        let server = Server::answering(answers).await;
        let model = server.model().with_connection(|c| Ok(c.with_retries(0))).unwrap();
        let mut first = None;
        for (_, size) in forms {
            let (deltas, outcome) = streamed(&model, hi()).await;
            let shown = shown_stream(&deltas, &outcome, &server);
            let first = first.get_or_insert_with(|| shown.clone());
            assert_eq!(*first, shown, "{name}, {size} bytes at a time");
        }
        insta::assert_snapshot!(format!("stream_{name}"), first.unwrap_or_default());
    }
}

/// A reply has the same parts, whole or streamed, and a server that does not stream is understood.
#[tokio::test]
async fn a_whole_reply_is_read_like_its_stream() {
    for (name, body) in cases("replies") {
        let event = format!("data: {}\n\n", body.replace('\n', " "));
        let answers = [Answer::json(&body), Answer::json(&body), Answer::events(&event, 1000)];
        let server = Server::answering(answers).await;
        let model = server.model().with_connection(|c| Ok(c.with_retries(0))).unwrap();
        let Ok(whole) = model.generate(&hi()).await else { continue };
        assert_eq!(streamed(&model, hi()).await.1.unwrap(), whole, "{name}");
        if name == "list_of_events" {
            continue;
        }
        let streamed = streamed(&model, hi()).await.1.unwrap();
        assert_eq!((streamed.finish, streamed.usage), (whole.finish, whole.usage), "{name}");
        // Not compared as a whole: the spaces between arguments differ.
        assert_eq!(streamed.parts.len(), whole.parts.len(), "{name}");
    }
}
