//! A tool's form in the protocol, and that of its results.

use std::io::{self, Write};

use rmcp::model::{AudioContent, CallToolResult, ContentBlock, ResourceContents, ToolAnnotations};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use toolwright_module::error::Stage;
use toolwright_module::message::Image;
use toolwright_module::{Dialect, Effect, Error, Result, Tool, ToolOutput};
use toolwright_signature::Policy;

/// A tool, and what clients are told of it.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) tool: Tool,
    pub(crate) form: rmcp::model::Tool,
    output: Output,
}

/// What is known of what a tool gives.
#[derive(Clone, Copy)]
enum Output {
    /// Nothing.
    Unsaid,
    /// It has a schema.
    Said {
        /// It is no object, so it goes out in one.
        wrapped: bool,
        /// It says more than the type that serde wrote it from, and one schema is for what
        /// is read and what is written: so a value can be held to it, and is.
        checkable: bool,
    },
}

impl Served {
    pub(crate) fn new(tool: Tool) -> crate::error::Result<Self> {
        let contract = tool.contract();
        let form = contract.tool(Dialect::Mcp)?;
        let form: rmcp::model::Tool = serde_json::from_value(form).map_err(std::io::Error::from)?;
        let form = form.with_annotations(annotations(tool.effect()));
        let output = match contract.output_to_write() {
            None => Output::Unsaid,
            Some(schema) => {
                let probe = Value::Object(Map::new());
                let wrapped = contract.lower_output_value(Dialect::Mcp, &probe)? != probe;
                let checkable =
                    contract.checks_output() && contract.output_to_read() == Some(schema);
                Output::Said { wrapped, checkable }
            }
        };
        Ok(Self { tool, form, output })
    }

    /// A call's result, or that it is no result of this tool.
    pub(crate) fn result(&self, output: ToolOutput, most: usize) -> Result<CallToolResult> {
        let value = output.value()?;
        let (text, images) = output.into_parts();
        let (structured, json) = self.structured(value, &text)?;
        let attached =
            images.into_iter().enumerate().map(|(index, image)| attachment(index, image));
        let texts = [Some(text), json].into_iter().flatten().filter(|text| !text.is_empty());
        let content: Vec<_> = texts.map(ContentBlock::text).chain(attached).collect();
        let bytes = content.iter().map(size).sum::<usize>();
        if bytes > most {
            let text =
                format!("The result has {bytes} bytes, and {most} may go out: ask for less.");
            return Err(Error::retry(text).at(Stage::Limit));
        }
        let mut result = CallToolResult::success(content);
        result.structured_content = structured;
        Ok(result)
    }

    /// The value as it goes out, and its JSON if the text says something else: the protocol
    /// wants it as text too, for clients that know only text.
    fn structured(
        &self,
        value: Option<Value>,
        text: &str,
    ) -> Result<(Option<Value>, Option<String>)> {
        let Output::Said { wrapped, checkable } = self.output else {
            // Revisions before 2026-07-28 know objects only.
            let value = value.filter(Value::is_object);
            let json = value.as_ref().filter(|value| !says(text, value)).map(Value::to_string);
            return Ok((value, json));
        };
        let Some(value) = value else {
            // A tool made at run time may give its JSON as text.
            let value = self.tool.contract().read_output(text).map_err(unfit)?;
            return Ok((Some(wrap(value, wrapped)), None));
        };
        if says(text, &value) {
            match &value {
                Value::String(string) if checkable => self.check(&json_of(string)?)?,
                _ if checkable => self.check(text)?,
                _ => {}
            }
            return Ok((Some(wrap(value, wrapped)), None));
        }
        let json = value.to_string();
        if checkable {
            self.check(&json)?;
        }
        let value = wrap(value, wrapped);
        let json = if wrapped { value.to_string() } else { json };
        Ok((Some(value), Some(json)))
    }

    fn check(&self, json: &str) -> Result<()> {
        let read = self.tool.contract().read_output_with::<IgnoredAny>(json, Policy::Strict);
        read.map(drop).map_err(unfit)
    }
}

fn wrap(value: Value, wrapped: bool) -> Value {
    if wrapped { json!({ "result": value }) } else { value }
}

fn json_of(string: &str) -> Result<String> {
    serde_json::to_string(string).map_err(|error| Error::other(error).at(Stage::Module))
}

/// Whether a text is a value: as it is, or as JSON.
fn says(text: &str, value: &Value) -> bool {
    /// What of the text is still to come.
    struct Rest<'a>(&'a [u8]);

    impl Write for Rest<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.strip_prefix(bytes).ok_or(io::ErrorKind::InvalidData)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    if let Value::String(value) = value {
        return value == text;
    }
    let mut rest = Rest(text.as_bytes());
    serde_json::to_writer(&mut rest, value).is_ok() && rest.0.is_empty()
}

/// The user's to know: the model cannot mend a tool.
fn unfit(source: toolwright_signature::Error) -> Error {
    Error::other(source).at(Stage::Module)
}

/// The hints that say an effect to a client.
///
/// `destructiveHint` is left out for a write that can be undone: no effect says whether it
/// overwrites, and MCP then assumes that it may. An import that trusts the hints so gets the
/// very effect.
fn annotations(effect: Effect) -> ToolAnnotations {
    let reads = effect == Effect::Read;
    let hints = ToolAnnotations::new()
        .read_only(reads)
        .idempotent(reads || effect == Effect::Idempotent)
        .open_world(true);
    match effect {
        Effect::Read => hints.destructive(false),
        Effect::Irreversible => hints.destructive(true),
        _ => hints,
    }
}

/// What stands beside the text: what its address holds, or the address.
fn attachment(index: usize, image: Image) -> ContentBlock {
    let Image::Url(url) = image else { return ContentBlock::text("An image of another kind.") };
    let Some((kind, data)) = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"))
    else {
        return ContentBlock::text(url);
    };
    match kind.split('/').next() {
        Some("image") => ContentBlock::image(data, kind),
        Some("audio") => ContentBlock::Audio(AudioContent::new(data, kind)),
        _ => ContentBlock::resource(
            ResourceContents::blob(data, format!("result:{index}")).with_mime_type(kind),
        ),
    }
}

fn size(content: &ContentBlock) -> usize {
    match content {
        ContentBlock::Text(text) => text.text.len(),
        ContentBlock::Image(image) => image.data.len(),
        ContentBlock::Audio(audio) => audio.data.len(),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::BlobResourceContents { blob, .. } => blob.len(),
            _ => 0,
        },
        _ => 0,
    }
}

/// What a client is told of a failure: the model's half of it.
pub(crate) fn failure(error: &Error) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(error.for_model())])
}
