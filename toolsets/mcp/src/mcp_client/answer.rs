//! What a tool of a server gave, for a model and for code.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;
use toolwright_module::error::Stage;
use toolwright_module::message::Image;
use toolwright_module::{Contract, Error, Result, ToolOutput};
use toolwright_signature::Policy;

/// A call's result: texts, images, and the value if there is one.
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) images: Vec<Image>,
    pub(crate) value: Option<Value>,
}

impl Answer {
    /// Takes a result, or the failure that it tells.
    pub(crate) fn new(result: CallToolResult, most: usize) -> Result<Self> {
        let mut texts = Vec::new();
        let mut images = Vec::new();
        for block in result.content {
            match said(block) {
                Said::Text(text) => texts.push(text),
                Said::Image(image) => images.push(image),
            }
        }
        let text = texts.join("\n");
        let bytes = text.len()
            + images.iter().map(bytes).sum::<usize>()
            + result.structured_content.as_ref().map_or(0, |value| value.to_string().len());
        if bytes > most {
            let text = format!(
                "It ran, but the result has {bytes} bytes, and {most} are taken: ask for less."
            );
            return Err(Error::retry(text).at(Stage::Limit));
        }
        if result.is_error == Some(true) {
            let value = result.structured_content.filter(|_| text.is_empty());
            let text = value.map_or(text, |value| value.to_string());
            return Err(told(text));
        }
        Ok(Self { text, images, value: result.structured_content })
    }

    /// Held to what the tool's contract says of its output.
    pub(crate) fn checked(mut self, contract: &Contract, tool: &str) -> Result<ToolOutput> {
        if contract.output_to_read().is_some() {
            let read = match &self.value {
                Some(value) => contract
                    .read_output_with(&value.to_string(), Policy::Strict)
                    .map(|reading| reading.value),
                // It should have been structured; the text may be what it should have been.
                None => contract.read_output(&self.text),
            };
            self.value = Some(read.map_err(|error| broken(tool, error))?);
        }
        let text = match &self.value {
            // What the server wrote for models comes first.
            Some(value) if self.text.is_empty() && self.images.is_empty() => value.to_string(),
            _ => self.text,
        };
        let output = ToolOutput::text_only(text).with_images(self.images);
        Ok(match self.value {
            Some(value) => output.with_value(value),
            None => output,
        })
    }
}

/// A failure in the server's words, for the model: it may know better now.
pub(crate) fn told(text: String) -> Error {
    let silent = "The tool failed and did not say why.";
    Error::retry(if text.is_empty() { silent.to_owned() } else { text })
}

/// A result that is not what the server promised: nothing that a model could mend.
pub(crate) fn broken(tool: &str, source: toolwright_signature::Error) -> Error {
    let error = crate::McpError::Promise { tool: tool.to_owned(), source };
    Error::other(error).at(Stage::Decoding)
}

enum Said {
    Text(String),
    Image(Image),
}

/// Models are shown texts and images. Of the rest they are told that it is there.
fn said(block: ContentBlock) -> Said {
    let there = |what: &str, kind: &str, bytes: usize| {
        Said::Text(format!("[{what} of type {kind}, {bytes} bytes of base64, is not shown]"))
    };
    match block {
        ContentBlock::Text(text) => Said::Text(text.text),
        ContentBlock::Image(image) => image_of(&image.mime_type, &image.data),
        ContentBlock::Audio(audio) => there("a sound", &audio.mime_type, audio.data.len()),
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents { text, .. } => Said::Text(text),
            ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
                let kind = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                if kind.starts_with("image/") {
                    image_of(&kind, &blob)
                } else {
                    there("a file", &kind, blob.len())
                }
            }
            _ => Said::Text("[a resource of another kind is not shown]".to_owned()),
        },
        ContentBlock::ResourceLink(link) => Said::Text(match link.description {
            Some(description) => format!("{}: {} ({description})", link.name, link.uri),
            None => format!("{}: {}", link.name, link.uri),
        }),
        _ => Said::Text("[content of another kind is not shown]".to_owned()),
    }
}

fn image_of(kind: &str, data: &str) -> Said {
    Said::Image(Image::Url(format!("data:{kind};base64,{data}")))
}

fn bytes(image: &Image) -> usize {
    match image {
        Image::Url(url) => url.len(),
        _ => 0,
    }
}
