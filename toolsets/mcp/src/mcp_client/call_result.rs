//! [`CallResult`], the conversion of a server's call result to a tool output.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;
use toolwright_module::error::Stage;
use toolwright_module::message::{Audio, Document, Image, Part, Source};
use toolwright_module::{Contract, Error, Result, ToolOutput};
use toolwright_signature::Policy;

/// The result of a call: text, images and files, and the structured value if the server sent one.
pub(crate) struct CallResult {
    pub(crate) text: String,
    pub(crate) parts: Vec<Part>,
    pub(crate) value: Option<Value>,
}

impl CallResult {
    /// Converts the server's result.
    ///
    /// Fails if its texts and its value have more than `max_bytes`, or if the server marked it as an
    /// error. Images and files that have no room beside them are left out, and the text says so.
    pub(crate) fn new(result: CallToolResult, max_bytes: usize) -> Result<Self> {
        let mut texts = Vec::new();
        let mut parts = Vec::new();
        for block in result.content {
            match part(block) {
                Part::Text(text) => texts.push(text),
                part => parts.push(part),
            }
        }
        let mut text = texts.join("\n");
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
            let value = result.structured_content.filter(|_| text.is_empty());
            let text = value.map_or(text, |value| value.to_string());
            return Err(tool_error(text));
        }
        let all = parts.len();
        let mut room = max_bytes - bytes;
        parts.retain(|part| {
            let size = part.source().map_or(0, Source::size);
            let fits = size <= room;
            // The numbers in the text, such as `[image 2]`, count from the first one.
            room = if fits { room - size } else { 0 };
            fits
        });
        let missing = all - parts.len();
        if missing > 0 {
            text.push_str(&format!(
                "\n[{missing} of {all} images or files are left out: the maximum of a result is \
                 {max_bytes} bytes. Request smaller ones.]"
            ));
        }
        Ok(Self { text, parts, value: result.structured_content })
    }

    /// Validates the value against the output schema of the tool's contract.
    pub(crate) fn checked(mut self, contract: &Contract, tool: &str) -> Result<ToolOutput> {
        if contract.output_to_read().is_some() {
            let read = match &self.value {
                Some(value) => contract
                    .read_output_with(&value.to_string(), Policy::Strict)
                    .map(|reading| reading.value),
                // The server should have sent a structured value; the text may be its JSON.
                None => contract.read_output(&self.text),
            };
            self.value = Some(read.map_err(|error| invalid_result(tool, error))?);
        }
        let text = match &self.value {
            // The server's text for models is preferred.
            Some(value) if self.text.is_empty() && self.parts.is_empty() => value.to_string(),
            _ => self.text,
        };
        let output = ToolOutput::text_only(text).with_parts(self.parts);
        Ok(match self.value {
            Some(value) => output.with_value(value),
            None => output,
        })
    }
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
    use super::*;

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
        // A text alone that is too long is an error.
        let long = CallToolResult::success(vec![ContentBlock::text("x".repeat(20)), image()]);
        assert!(CallResult::new(long, 19).is_err());
    }
}
