//! [`ServedTool`], a tool with its MCP definition, and the conversion of its results.

use std::io::{self, Write};

use rmcp::model::{AudioContent, CallToolResult, ContentBlock, ResourceContents, ToolAnnotations};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use toolwright_module::error::Stage;
use toolwright_module::message::{Part, Source};
use toolwright_module::untrusted::{fence, inside};
use toolwright_module::{Dialect, Effect, Error, Result, Tool, ToolOutput};
use toolwright_signature::Policy;

use crate::exact::has_rounded_integers;
use crate::fitting::keep_fitting;

/// A tool, and the definition that clients get.
#[derive(Clone)]
pub(crate) struct ServedTool {
    pub(crate) tool: Tool,
    pub(crate) definition: rmcp::model::Tool,
    output: Output,
}

/// The output schema of a tool.
#[derive(Clone, Copy)]
enum Output {
    NoSchema,
    Schema {
        /// The schema is not a plain object, so a value is wrapped in one.
        wrapped: bool,
        /// Values are validated. This requires a schema with more rules than the Rust type, and
        /// the same schema for reading and writing.
        validated: bool,
    },
}

impl ServedTool {
    pub(crate) fn new(tool: Tool) -> crate::error::Result<Self> {
        let contract = tool.contract();
        let definition = contract.tool(Dialect::Mcp)?;
        let definition: rmcp::model::Tool =
            serde_json::from_value(definition).map_err(std::io::Error::from)?;
        let definition = definition.with_annotations(annotations(tool.effect()));
        let output = match contract.output_to_write() {
            None => Output::NoSchema,
            Some(schema) => {
                let wrapped = contract.lower_output(Dialect::Mcp)?.wrapper.is_some();
                let validated =
                    contract.checks_output() && contract.output_to_read() == Some(schema);
                Output::Schema { wrapped, validated }
            }
        };
        Ok(Self { tool, definition, output })
    }

    /// Converts an output to a call's result.
    ///
    /// Fails if the output does not match the schema, or if its texts have more than `max_bytes`.
    /// Images and files that have no room beside them are left out, and a text says so.
    pub(crate) fn result(&self, output: ToolOutput, max_bytes: usize) -> Result<CallToolResult> {
        // Hosts send structured values to models as JSON, so media are in content blocks only.
        let value = output.value_beside_parts();
        let ToolOutput { text, parts, untrusted, .. } = output;
        let plain = inside(&text).filter(|_| untrusted).unwrap_or(&text);
        let (structured, json) = match value {
            Ok(value) => self.structured(value, plain)?,
            // It has an integer with more than 64 bits. The tool has worked, and the text has it.
            Err(_) => (None, None),
        };
        let json = if untrusted { json.map(|json| fence(&json).into_owned()) } else { json };
        let attached = parts.iter().enumerate().map(|(index, part)| attachment(index, part));
        let texts = [Some(text), json].into_iter().flatten().filter(|text| !text.is_empty());
        let mut content: Vec<_> = texts.map(ContentBlock::text).collect();
        let bytes = content.iter().map(size).sum::<usize>();
        check_bytes(bytes, max_bytes)?;
        let mut attached: Vec<_> = attached.collect();
        let note = keep_fitting(&mut attached, size, bytes, max_bytes);
        content.extend(attached);
        content.extend(note.map(ContentBlock::text));
        let mut result = CallToolResult::success(content);
        result.structured_content = structured;
        Ok(result)
    }

    /// Returns the structured value, and its JSON if the text differs from it. The protocol
    /// requires the JSON as text too, for clients that do not support structured values.
    fn structured(
        &self,
        value: Option<Value>,
        text: &str,
    ) -> Result<(Option<Value>, Option<String>)> {
        let Output::Schema { wrapped, validated } = self.output else {
            // Revisions before 2026-07-28 support objects only.
            let value = value.filter(Value::is_object);
            let json =
                value.as_ref().filter(|value| !is_text_of(text, value)).map(Value::to_string);
            return Ok((value, json));
        };
        let Some(value) = value else {
            // A tool that was created at run time may return its JSON as text.
            let value: Value = self.tool.contract().read_output(text).map_err(output_error)?;
            if !value.is_string() && has_rounded_integers(text.as_bytes()) {
                return Ok((None, None));
            }
            return Ok((Some(wrap(value, wrapped)), None));
        };
        if is_text_of(text, &value) {
            match &value {
                Value::String(string) if validated => self.validate(&json_of(string)?)?,
                _ if validated => self.validate(text)?,
                _ => {}
            }
            return Ok((Some(wrap(value, wrapped)), None));
        }
        let json = value.to_string();
        if validated {
            self.validate(&json)?;
        }
        let value = wrap(value, wrapped);
        let json = if wrapped { value.to_string() } else { json };
        Ok((Some(value), Some(json)))
    }

    fn validate(&self, json: &str) -> Result<()> {
        let read = self.tool.contract().read_output_with::<IgnoredAny>(json, Policy::Strict);
        read.map(drop).map_err(output_error)
    }
}

fn wrap(value: Value, wrapped: bool) -> Value {
    if wrapped { json!({ "result": value }) } else { value }
}

fn json_of(string: &str) -> Result<String> {
    serde_json::to_string(string).map_err(|error| Error::other(error).at(Stage::Module))
}

/// Returns whether the text is the value: the string itself, or its JSON.
fn is_text_of(text: &str, value: &Value) -> bool {
    /// The part of the text that was not compared yet.
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

/// The error of an output that does not match its schema. It is for the user, because a model
/// cannot fix a tool.
fn output_error(source: toolwright_signature::ContractError) -> Error {
    Error::other(source).at(Stage::Module)
}

/// Converts an effect to hints for clients.
///
/// For [`Effect::Write`] and [`Effect::Idempotent`] there is no `destructiveHint`, because the
/// effect does not say whether the tool overwrites; MCP then assumes that it may. A client of
/// this crate that trusts the hints gets the original effect.
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

/// Fails with a text for the model if a result has more bytes than the maximum.
pub(crate) fn check_bytes(bytes: usize, max_bytes: usize) -> Result<()> {
    if bytes <= max_bytes {
        return Ok(());
    }
    let text =
        format!("The result has {bytes} bytes and the maximum is {max_bytes}. Request less.");
    Err(Error::retry(text).at(Stage::Limit))
}

/// Converts a part to a content block: its bytes, or its address as text.
pub(crate) fn attachment(index: usize, part: &Part) -> ContentBlock {
    let source = match (part, part.source()) {
        (Part::Text(text), _) => return ContentBlock::text(text),
        (_, Some(source)) => source,
        _ => return ContentBlock::text("[a part of another kind is not shown]"),
    };
    let Some((kind, data)) = source.to_base64() else {
        return ContentBlock::text(match source {
            Source::Url(url) => url.clone(),
            Source::File { provider, .. } => format!("[a file that only {provider} has]"),
            _ => "[a file of another kind is not shown]".to_owned(),
        });
    };
    let data = data.into_owned();
    match kind.split('/').next() {
        Some("image") => ContentBlock::image(data, kind),
        Some("audio") => ContentBlock::Audio(AudioContent::new(data, kind)),
        _ => ContentBlock::resource(
            ResourceContents::blob(data, format!("result:{index}")).with_mime_type(kind),
        ),
    }
}

pub(crate) fn size(content: &ContentBlock) -> usize {
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

/// Converts an error to a result, with the part of the error that is for models.
pub(crate) fn failure(error: &Error) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(error.for_model())])
}
