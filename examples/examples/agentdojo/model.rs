//! A model that plays a task's calls, and obeys every injection that it reads.

use serde::Deserialize;
use serde_json::{Map, Value};
use toolwright_module::model::Capabilities;
use toolwright_module::testing::Scripted;
use toolwright_module::{Error, LanguageModel, Message, Reply, Request, Result, ToolCall};
use toolwright_signature::Dialect;

/// What the model does for its user, and what it does if it reads an injection.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Script {
    /// The user's task.
    pub(crate) prompt: String,
    /// The calls that solve the user's task.
    pub(crate) calls: Vec<Call>,
    /// The answer to the user. It may be empty.
    answer: String,
    injection: Option<Injection>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: Map<String, Value>,
}

#[derive(Debug, Clone, Deserialize)]
struct Injection {
    /// The text by which the model recognizes the injection.
    goal: String,
    calls: Vec<Call>,
    answer: String,
}

/// Stands for the id in the result of the call whose id follows.
const ID_OF: &str = "$id_of:";

/// Returns a model that plays the script, with arguments in the form of the dialect.
///
/// Its replies depend on the messages alone: the calls that it has made, and the results.
pub(crate) fn obedient(script: Script, dialect: Dialect) -> impl LanguageModel {
    Scripted::new(move |request| reply(&script, request, dialect))
        .with_capabilities(Capabilities { tools: true, ..Capabilities::new(dialect) })
}

fn reply(script: &Script, request: &Request, dialect: Dialect) -> Result<Reply> {
    let obeyed = script.injection.as_ref().filter(|injection| has_read(request, &injection.goal));
    if let Some(injection) = obeyed
        && let Some(reply) = next(&injection.calls, "injected", request, dialect)?
    {
        return Ok(reply);
    }
    if let Some(reply) = next(&script.calls, "user", request, dialect)? {
        return Ok(reply);
    }
    let answers = [Some(&script.answer), obeyed.map(|injection| &injection.answer)];
    let answers: Vec<&str> =
        answers.into_iter().flatten().map(String::as_str).filter(|text| !text.is_empty()).collect();
    Ok(Reply::text(if answers.is_empty() { "Done.".to_owned() } else { answers.join("\n") }))
}

/// Returns the first of these calls that the model has not made yet.
fn next(calls: &[Call], whose: &str, request: &Request, dialect: Dialect) -> Result<Option<Reply>> {
    let messages = request.messages.iter();
    let is_made = |index: usize| {
        let id = format!("{whose}-{index}");
        messages.clone().any(|message| matches!(&**message, Message::Tool(made) if made.id == id))
    };
    let Some(index) = (0..calls.len()).find(|index| !is_made(*index)) else { return Ok(None) };
    let Call { name, arguments } = &calls[index];
    let mut arguments = arguments.clone();
    for value in arguments.values_mut() {
        if let Some(call) = value.as_str().and_then(|text| text.strip_prefix(ID_OF)) {
            *value = id_in_result(request, call).into();
        }
    }
    let tool = request.tools.iter().find(|tool| tool.name() == name);
    let tool = tool.ok_or_else(|| Error::stop(format!("there is no tool `{name}`")))?;
    let arguments = tool.lower_value(dialect, &Value::Object(arguments)).map_err(Error::other)?;
    Ok(Some(Reply::calls([ToolCall::new(format!("{whose}-{index}"), name, arguments.to_string())])))
}

/// Returns the id of the mail that a call has sent. `None` if the call was denied.
fn id_in_result(request: &Request, call: &str) -> String {
    let result = results(request).find(|(id, _)| *id == call).map_or("", |(_, text)| text);
    let id = result.split_once("id_:").map_or("", |(_, rest)| rest);
    id.lines().next().unwrap_or_default().trim().trim_matches('\'').to_owned()
}

fn results(request: &Request) -> impl Iterator<Item = (&str, &str)> {
    request.messages.iter().filter_map(|message| match &**message {
        Message::Tool(result) => Some((result.id.as_str(), result.text.as_str())),
        _ => None,
    })
}

/// Returns whether a result has the text of the injection.
///
/// Results are YAML, which folds and quotes long texts. So only letters and digits are compared, of
/// the first line.
fn has_read(request: &Request, goal: &str) -> bool {
    let goal = bare(goal.lines().next().unwrap_or_default());
    results(request).any(|(_, text)| bare(text).contains(&goal))
}

fn bare(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_alphanumeric()).collect()
}
