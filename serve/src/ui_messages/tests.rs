mod generated;
mod read;
mod written;

use serde_json::Value;

use super::chunk::Chunk;
use super::conversation::Folded;
use crate::update::tests::{call_text, called, reasoning, text};
use crate::update::{Around, Cost, Decided, Question, Update, UpdateKind};

fn update(kind: UpdateKind) -> Update {
    Update::new(kind)
}

fn below(tool: &str, id: &str, kind: UpdateKind) -> Update {
    let around = Around { tool: tool.to_owned(), id: id.to_owned() };
    Update { path: vec![around], kind }
}

fn started() -> UpdateKind {
    UpdateKind::Started {
        run: "run-1".to_owned(),
        message: Some("m1".to_owned()),
        text: "Hello".to_owned(),
        attachments: Vec::new(),
    }
}

fn cost(input_tokens: u64, output_tokens: u64) -> Cost {
    Cost { input_tokens, output_tokens, ..Cost::default() }
}

fn replied() -> UpdateKind {
    UpdateKind::Replied { model: Some("small".to_owned()), cost: cost(10, 2) }
}

fn question(question: &str, id: &str, name: &str, arguments: &str) -> Question {
    Question {
        question: question.to_owned(),
        run: "run-1".to_owned(),
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        effect: "write".to_owned(),
        unknown: false,
        reason: None,
        schema: None,
    }
}

fn decided(id: &str, decision: Decided) -> UpdateKind {
    UpdateKind::Decided { id: id.to_owned(), decision, by: Some("Ada".to_owned()) }
}

fn result(id: &str, name: &str, text: &str) -> UpdateKind {
    UpdateKind::Result {
        id: id.to_owned(),
        name: name.to_owned(),
        text: text.to_owned(),
        whole_bytes: None,
        failed: false,
        milliseconds: 5,
    }
}

fn done(answer: impl Into<Value>) -> UpdateKind {
    let (answer, ending) = (answer.into(), "answered".to_owned());
    UpdateKind::Done { answer, ending, cost: cost(10, 2) }
}

fn deny(reason: &str) -> Decided {
    Decided::Deny { reason: reason.to_owned() }
}

fn fold(chunks: &[Chunk]) -> Value {
    let mut folded = Folded::default();
    chunks.iter().for_each(|chunk| folded.add(chunk));
    folded.into_json()
}
