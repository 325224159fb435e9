//! Signatures, models and a way to show requests, shared by the tests.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::message::{Part, ReplyPart};
use toolwright_module::model::Capabilities;
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Dialect, LanguageModel, Message, Reply, Request, Result, Signature, ToolCall,
};

/// Sum up a text in one sentence.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Summarize {
    /// What to sum up.
    pub(crate) text: String,
    /// The most words the sentence may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) words: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Summary {
    /// The sentence.
    pub(crate) sentence: String,
    /// What the text is about, most important first.
    pub(crate) topics: Vec<String>,
}

impl Signature for Summarize {
    type Output = Summary;
}

pub(crate) fn summarize() -> Summarize {
    Summarize { text: "It rained all day.".to_owned(), words: None }
}

pub(crate) const SUMMARY: &str = r#"{"sentence": "It rained.", "topics": ["weather"]}"#;

/// How many entries there are.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Count;

impl Signature for Count {
    type Output = u64;
}

/// Find words in a text.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct FindWords {
    pub(crate) text: String,
}

impl Signature for FindWords {
    type Output = Vec<String>;
}

/// Say what language a text is in.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct DetectLanguage {
    pub(crate) text: String,
}

impl Signature for DetectLanguage {
    type Output = String;
}

/// A model that can be given an answer's schema beside the prompt.
pub(crate) fn structured() -> Capabilities {
    Capabilities { structured_output: true, ..Capabilities::new(Dialect::OpenAiStrict) }
}

/// A model that can be made to call a tool.
pub(crate) fn calling() -> Capabilities {
    Capabilities { tools: true, ..Capabilities::new(Dialect::OpenAiStrict) }
}

/// A model without capabilities, which gets everything in the prompt.
pub(crate) fn plain() -> Capabilities {
    Capabilities::new(Dialect::OpenAiLoose)
}

/// A reply that answers by calling `finish`.
pub(crate) fn finish(arguments: &str) -> Reply {
    Reply::calls([ToolCall::new("call_1", "finish", arguments)])
}

/// What a model was asked so far.
#[derive(Clone, Default)]
pub(crate) struct Asked(Arc<Mutex<Vec<Request>>>);

impl Asked {
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.0.lock().unwrap().clone()
    }

    /// All requests as a person reads them.
    pub(crate) fn shown(&self) -> String {
        let shown: Vec<String> = self.requests().iter().map(show).collect();
        shown.join("\n################################\n\n")
    }
}

/// A model that gives these replies in order, and what it was asked.
pub(crate) fn replies(
    capabilities: Capabilities,
    replies: impl IntoIterator<Item = Reply>,
) -> (impl LanguageModel, Asked) {
    let asked = Asked::default();
    let kept = asked.clone();
    let replies: Vec<Reply> = replies.into_iter().collect();
    let model = Scripted::new(move |request: &Request| -> Result<Reply> {
        let mut requests = kept.0.lock().unwrap();
        requests.push(request.clone());
        Ok(replies[requests.len() - 1].clone())
    });
    (model.with_capabilities(capabilities), asked)
}

/// A request as a person reads it: everything in it, texts without escapes.
pub(crate) fn show(request: &Request) -> String {
    let mut text = String::new();
    let tools: Vec<&str> = request.tools.iter().map(|tool| tool.name()).collect();
    let output = request.output.as_ref().map(|contract| {
        let dialect = structured().dialect;
        contract.lower_output(dialect).unwrap().schema.get().to_owned()
    });
    writeln!(text, "tools: {tools:?}, {:?}", request.tool_choice).unwrap();
    for tool in request.tools.iter() {
        let arguments = &tool.lower(structured().dialect).unwrap().schema;
        writeln!(text, "tool {}: {}\n{arguments}", tool.name(), tool.description()).unwrap();
    }
    writeln!(text, "output: {}", output.as_deref().unwrap_or("not given")).unwrap();
    writeln!(text, "at most {} tokens", request.max_output_tokens()).unwrap();
    for message in &request.messages {
        let (role, said) = match &**message {
            Message::System { text } => ("system", text.clone()),
            Message::User { parts } => ("user", parts.iter().map(part).collect()),
            Message::Assistant { parts } => ("assistant", parts.iter().map(reply_part).collect()),
            Message::Tool(result) => {
                let failed = if result.failed { "failed" } else { "done" };
                ("tool", format!("[{}, {}, {failed}] {}", result.id, result.name, result.text))
            }
            _ => ("?", String::new()),
        };
        writeln!(text, "\n=== {role}\n{said}").unwrap();
    }
    text
}

fn part(part: &Part) -> String {
    match part {
        Part::Text(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

fn reply_part(part: &ReplyPart) -> String {
    match part {
        ReplyPart::Text(text) => text.to_string(),
        ReplyPart::Call(ToolCall { id, name, arguments, .. }) => {
            format!("[{id} calls {name} with {arguments}]")
        }
        other => format!("{other:?}"),
    }
}
