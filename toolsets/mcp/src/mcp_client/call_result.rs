//! [`CallResult`], the conversion of a server's call result to a tool output.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde::de::IgnoredAny;
use serde_json::Value;
use toolwright_module::error::Stage;
use toolwright_module::message::{Audio, Document, Image, Part, Source};
use toolwright_module::{Contract, Error, Result, ToolOutput};
use toolwright_signature::Policy;

use crate::fitting::keep_fitting;
use crate::mcp_client::incoming::EXACT_VALUE;

/// What the model gets of a result that has a text and a structured value.
///
/// Many servers put the value into the text as JSON, and some only a summary of it. Code gets the value
/// in every case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResultText {
    /// The server's text, and the value as JSON if the text does not have it.
    #[default]
    Both,
    /// The server's text alone.
    Text,
    /// The value as JSON. Without a value, the server's text.
    Data,
}

/// The result of a call: text, images and files, and the structured value if the server sent one.
pub(crate) struct CallResult {
    pub(crate) text: String,
    /// The JSON of the structured value, if the text does not have it.
    data: Option<String>,
    pub(crate) parts: Vec<Part>,
    pub(crate) value: Option<Value>,
    /// The JSON of the structured value, if `value` has rounded integers.
    exact: Option<String>,
}

impl CallResult {
    /// Converts the server's result.
    ///
    /// Fails if its texts and its value have more than `max_bytes`, or if the server marked it as an
    /// error. Images and files that have no room beside them are left out, and the text says so.
    pub(crate) fn new(
        mut result: CallToolResult,
        max_bytes: usize,
        shown: ResultText,
    ) -> Result<Self> {
        let mut texts = Vec::new();
        let mut parts = Vec::new();
        for block in result.content {
            match part(block) {
                Part::Text(text) => texts.push(text),
                part => parts.push(part),
            }
        }
        let mut text = texts.join("\n");
        let value = result.structured_content.as_ref().filter(|value| !value.is_null());
        let exact = result.meta.as_mut().and_then(|meta| meta.remove(EXACT_VALUE));
        let exact = exact.and_then(|exact| exact.as_str().map(str::to_owned));
        let is_error = result.is_error == Some(true);
        let json = exact.clone().or_else(|| value.map(Value::to_string));
        let data = match (&exact, shown) {
            (_, ResultText::Text) => None,
            // An error's text says what to do.
            (_, ResultText::Data) if !is_error && json.is_some() => {
                text.clear();
                json.clone()
            }
            (Some(exact), _) => (!text.contains(exact)).then(|| exact.clone()),
            (None, _) => json.clone().filter(|_| value.is_some_and(|it| !has_value(&texts, it))),
        };
        let value_size = match shown {
            ResultText::Text => 0,
            _ => value.map_or(0, |it| it.to_string().len()).max(json.map_or(0, |it| it.len())),
        };
        let bytes = text.len() + value_size;
        if bytes > max_bytes {
            let text = format!(
                "The tool ran, but the result has {bytes} bytes and the maximum is {max_bytes}. \
                 Request less."
            );
            return Err(Error::retry(text).at(Stage::Limit));
        }
        if is_error {
            return Err(tool_error(with_data(text, data)));
        }
        let size = |part: &Part| part.source().map_or(0, Source::size);
        if let Some(note) = keep_fitting(&mut parts, size, bytes, max_bytes) {
            text.push('\n');
            text.push_str(&note);
        }
        Ok(Self { text, data, parts, value: result.structured_content, exact })
    }

    /// Returns the text and the files as an output without a value.
    pub(crate) fn into_output(self) -> ToolOutput {
        ToolOutput::text_only(self.text).with_parts(self.parts)
    }

    /// Returns the JSON of the structured value, if there is one.
    ///
    /// Some servers write `null` for a value that they do not send. `null` is a value only if the
    /// output schema of the tool's contract accepts it.
    pub(crate) fn json(&self, contract: &Contract) -> Option<String> {
        let value = self.value.as_ref()?;
        let accepts_null = || {
            contract.output_to_read().is_some()
                && contract.read_output_with::<IgnoredAny>("null", Policy::Strict).is_ok()
        };
        if value.is_null() && !accepts_null() {
            return None;
        }
        self.exact.clone().or_else(|| Some(value.to_string()))
    }

    /// Validates the value against the output schema of the tool's contract. A value with integers that
    /// [`Value`] rounds is in the text only.
    pub(crate) fn checked(mut self, contract: &Contract, tool: &str) -> Result<ToolOutput> {
        let json = self.json(contract);
        if json.is_none() {
            self.value = None;
        }
        if contract.output_to_read().is_some() {
            let read = match json {
                Some(json) => {
                    contract.read_output_with(&json, Policy::Strict).map(|reading| reading.value)
                }
                // The server should have sent a structured value; the text may be its JSON.
                None => contract.read_output(&self.text),
            };
            self.value = Some(read.map_err(|error| invalid_result(tool, error))?);
        }
        let text = with_data(self.text, self.data);
        let output = ToolOutput::text_only(text).with_parts(self.parts);
        Ok(match self.value.filter(|_| self.exact.is_none()) {
            Some(value) => output.with_value(value),
            None => output,
        })
    }
}

/// Adds the structured value to the server's text. A model reads only the text, which may be a
/// summary.
fn with_data(mut text: String, data: Option<String>) -> String {
    if let Some(data) = data {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&data);
    }
    text
}

/// Maximum number of brackets in a text at which a value is looked for.
const MOST_BRACKETS: usize = 100;

/// Returns whether the texts have a value: as JSON, alone or among words, or as plain text. Servers
/// put a value that is not an object into one field, and the items of a list into one text each.
fn has_value(texts: &[String], value: &Value) -> bool {
    let is_it = |text: &str, value: &Value| match value {
        Value::String(string) if string.trim() == text.trim() => true,
        value => serde_json::from_str::<Value>(text).is_ok_and(|found| found == *value),
    };
    let only_field = match value {
        Value::Object(fields) if fields.len() == 1 => fields.values().next(),
        _ => None,
    };
    if only_field.and_then(Value::as_array).is_some_and(|items| {
        items.len() == texts.len() && items.iter().zip(texts).all(|(item, text)| is_it(text, item))
    }) {
        return true;
    }
    let is_among_words = |text: &str| {
        let brackets = text.match_indices(['{', '[']).take(MOST_BRACKETS);
        let read = |at: usize| {
            let rest = text.get(at..).unwrap_or_default();
            serde_json::Deserializer::from_str(rest).into_iter::<Value>().next()?.ok()
        };
        let mut found = brackets.filter_map(|(at, _)| read(at));
        // An empty or short list among words, such as a citation `[1]`, is not data.
        let is_telling = |value: &Value| match value {
            Value::Array(items) => items.len() > 1,
            Value::Object(fields) => !fields.is_empty(),
            _ => false,
        };
        let only_field = only_field.filter(|field| is_telling(field));
        found.any(|found| found == *value || Some(&found) == only_field)
    };
    texts.iter().any(|text| {
        is_it(text, value)
            || only_field.is_some_and(|field| is_it(text, field))
            || is_among_words(text)
    })
}

/// The server's error text, as an error that the model may react to.
pub(crate) fn tool_error(text: String) -> Error {
    let default = "The tool failed without an error message.";
    Error::retry(if text.is_empty() { default.to_owned() } else { text })
}

/// The error of a result that does not match the output schema. A model cannot fix it.
pub(crate) fn invalid_result(tool: &str, source: toolwright_signature::ContractError) -> Error {
    let error = crate::McpError::Promise { tool: tool.to_owned(), source };
    Error::other(error).at(Stage::Decoding)
}

/// Converts a content block. Of content without a form, models get a note.
pub(crate) fn part(block: ContentBlock) -> Part {
    match block {
        ContentBlock::Text(text) => Part::Text(text.text),
        ContentBlock::Image(image) => file_of(&image.mime_type, &image.data),
        ContentBlock::Audio(audio) => file_of(&audio.mime_type, &audio.data),
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents { text, .. } => Part::Text(text),
            ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
                let kind = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                file_of(&kind, &blob)
            }
            _ => Part::Text("[a resource of another kind is not shown]".to_owned()),
        },
        ContentBlock::ResourceLink(link) => Part::Text(match link.description {
            Some(description) => format!("{}: {} ({description})", link.name, link.uri),
            None => format!("{}: {}", link.name, link.uri),
        }),
        _ => Part::Text("[content of another kind is not shown]".to_owned()),
    }
}

/// Returns the part for a file in base64. A file of a kind that no model reads becomes a note.
fn file_of(media_type: &str, base64: &str) -> Part {
    let Some(source) = Source::from_base64(media_type, base64) else {
        return Part::Text(format!(
            "[a file of type {media_type} is damaged: its base64 is wrong]"
        ));
    };
    match media_type.split('/').next() {
        Some("image") => Image::from(source).into(),
        Some("audio") => Audio::from(source).into(),
        Some("text") => Document::from(source).into(),
        _ if media_type == "application/pdf" => Document::from(source).into(),
        _ => Part::Text(format!(
            "[a file of type {media_type}, {} bytes of base64, is not shown]",
            base64.len()
        )),
    }
}
