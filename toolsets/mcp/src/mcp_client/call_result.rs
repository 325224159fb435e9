//! [`CallResult`], the conversion of a server's call result to a tool output.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;
use toolwright_module::error::Stage;
use toolwright_module::message::{Audio, Document, Image, Part, Source};
use toolwright_module::{Contract, Error, Result, ToolOutput};
use toolwright_signature::Policy;

use crate::mcp_client::incoming::EXACT_VALUE;

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
    pub(crate) fn new(mut result: CallToolResult, max_bytes: usize) -> Result<Self> {
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
        let data = match &exact {
            Some(exact) => (!text.contains(exact)).then(|| exact.clone()),
            None => value.filter(|value| !has_value(&texts, value)).map(Value::to_string),
        };
        let bytes = text.len()
            + result.structured_content.as_ref().map_or(0, |value| value.to_string().len());
        if bytes > max_bytes {
            let text = format!(
                "The tool ran, but the result has {bytes} bytes and the maximum is {max_bytes}. \
                 Request less."
            );
            return Err(Error::retry(text).at(Stage::Limit));
        }
        if result.is_error == Some(true) {
            return Err(tool_error(with_data(text, data)));
        }
        let all = parts.len();
        let mut room = Some(max_bytes - bytes);
        parts.retain(|part| {
            let size = part.source().map_or(0, Source::size);
            // The numbers in the text, such as `[image 2]`, count from the first one.
            room = room.and_then(|left| left.checked_sub(size));
            room.is_some()
        });
        let missing = all - parts.len();
        if missing > 0 {
            text.push_str(&format!(
                "\n[{missing} of {all} images or files are left out: the maximum of a result is \
                 {max_bytes} bytes. Request smaller ones.]"
            ));
        }
        Ok(Self { text, data, parts, value: result.structured_content, exact })
    }

    /// Returns the JSON of the structured value, if there is one.
    pub(crate) fn json(&self) -> Option<String> {
        self.exact.clone().or_else(|| Some(self.value.as_ref()?.to_string()))
    }

    /// Validates the value against the output schema of the tool's contract. A value with integers that
    /// [`Value`] rounds is in the text only.
    pub(crate) fn checked(mut self, contract: &Contract, tool: &str) -> Result<ToolOutput> {
        if contract.output_to_read().is_some() {
            let read = match self.json() {
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
fn part(block: ContentBlock) -> Part {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts_of(texts: &[&str], structured: Value, is_error: bool) -> Result<CallResult> {
        let blocks: Vec<_> =
            texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
        let result =
            json!({"content": blocks, "structuredContent": structured, "isError": is_error});
        CallResult::new(serde_json::from_value(result).unwrap(), 300)
    }

    #[test]
    fn data_that_the_text_lacks_reaches_the_model() {
        for (texts, structured) in [
            (vec!["Found 13 rows."], json!({"rows": 3})),
            (vec!["Found 3 rows."], json!({"rows": 3, "next": null})),
            (vec!["It is 36 degrees."], json!({"temperature": 36, "humidity": 82})),
            (vec![r#"{"temperature": 36}"#], json!({"temperature": 36, "humidity": 82})),
            (vec![r#"{"temperature": 360}"#], json!({"temperature": 36})),
            (vec!["a", "b"], json!({"result": ["a", "c"]})),
            (vec!["Ready: true"], json!({"ready": true})),
            (vec!["null"], json!({"result": "a"})),
        ] {
            let text = texts.join("\n");
            let shown = |result: CallResult| with_data(result.text, result.data);
            let expected = format!("{text}\n{structured}");
            let found = shown(texts_of(&texts, structured.clone(), false).unwrap());
            assert_eq!(found, expected);
            let error = texts_of(&texts, structured, true).err().unwrap();
            assert_eq!(error.to_string(), expected);
        }
        assert!(texts_of(&["Found."], json!({"a": "x".repeat(300)}), false).is_err());
    }

    #[test]
    fn data_that_the_text_has_is_not_repeated() {
        for (texts, structured) in [
            (
                vec![r#"{"humidity": 82.0, "temperature": 36}"#],
                json!({"temperature": 36, "humidity": 82.0}),
            ),
            (vec!["Here:\n```json\n{\"a\": [1, 2]}\n```"], json!({"a": [1, 2]})),
            (vec!["Two of [them]: [1, 2]"], json!({"result": [1, 2]})),
            (vec!["hello"], json!({"result": "hello"})),
            (vec!["5"], json!({"result": 5})),
            (vec!["a", "b"], json!({"result": ["a", "b"]})),
            (vec!["A summary.", "{\"a\": 1}"], json!({"a": 1})),
            (vec!["Nothing."], Value::Null),
        ] {
            let result = texts_of(&texts, structured, false).unwrap();
            assert_eq!(result.data, None, "{texts:?}");
        }
    }

    #[test]
    fn an_image_that_is_too_large_is_left_out_and_the_text_stays() {
        // 600 bytes each.
        let image = || ContentBlock::image("A".repeat(800), "image/png");
        let content = vec![ContentBlock::text("The text."), image(), image()];
        let both = CallResult::new(CallToolResult::success(content.clone()), 1_209).unwrap();
        assert_eq!((both.text.as_str(), both.parts.len()), ("The text.", 2));
        let one = CallResult::new(CallToolResult::success(content), 1_208).unwrap();
        assert_eq!(one.parts.len(), 1);
        assert!(one.text.starts_with("The text.\n[1 of 2 images or files are left out"));
        // After it also the ones that have room, or they would have other numbers.
        let small = |size| ContentBlock::image("A".repeat(size), "image/png");
        let content = vec![small(40), image(), small(4), small(0)];
        let first = CallResult::new(CallToolResult::success(content), 500).unwrap();
        assert_eq!(first.parts.len(), 1);
        assert!(first.text.contains("3 of 4 images"), "{}", first.text);
        // A text alone that is too long is an error.
        let long = CallToolResult::success(vec![ContentBlock::text("x".repeat(20)), image()]);
        assert!(CallResult::new(long, 19).is_err());
    }
}
