//! A tool's form in the protocol, and that of its results.

use rmcp::model::{AudioContent, CallToolResult, ContentBlock, ResourceContents, ToolAnnotations};
use serde_json::Value;
use toolwright_module::{Dialect, Effect, Error, Image, Result, Stage, Tool, ToolOutput};
use toolwright_signature::Policy;

/// A tool, and what clients are told of it.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) tool: Tool,
    pub(crate) form: rmcp::model::Tool,
    /// One schema for what is read and what is written: so a value can be held to it.
    checkable: bool,
}

impl Served {
    pub(crate) fn new(tool: Tool) -> crate::Result<Self> {
        let contract = tool.contract();
        let form = contract.tool(Dialect::Mcp)?;
        let form: rmcp::model::Tool = serde_json::from_value(form).map_err(std::io::Error::from)?;
        let form = form.with_annotations(annotations(tool.effect()));
        let checkable = contract.output_to_read() == contract.output_to_write();
        Ok(Self { tool, form, checkable })
    }

    /// A call's result, or that it is no result of this tool.
    pub(crate) fn result(&self, output: ToolOutput, most: usize) -> Result<CallToolResult> {
        let value = output.value()?;
        let structured = self.structured(value.as_ref(), output.text())?;
        let json = structured.as_ref().map(Value::to_string);
        if let (true, Some(json)) = (self.checkable && self.form.output_schema.is_some(), &json) {
            self.check(json)?;
        }
        let (text, images) = output.into_parts();
        // The protocol wants the JSON as text too, for clients that know only text. A text
        // that says as much is enough.
        let json = json.filter(|json| !says(&text, value.as_ref(), structured.as_ref(), json));
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

    fn structured(&self, value: Option<&Value>, text: &str) -> Result<Option<Value>> {
        let contract = self.tool.contract();
        if self.form.output_schema.is_none() {
            // Revisions before 2026-07-28 know objects only.
            return Ok(value.filter(|value| value.is_object()).cloned());
        }
        let value = match value {
            Some(value) => value.clone(),
            // A tool made at run time may give its JSON as text.
            None => contract.read_output(text).map_err(unfit)?,
        };
        Ok(Some(contract.lower_output_value(Dialect::Mcp, &value).map_err(unfit)?))
    }

    /// Typed outputs fit by construction and are read in one pass; what a tool made at run
    /// time gives is looked at.
    fn check(&self, json: &str) -> Result<()> {
        let read = self.tool.contract().read_output_with::<Value>(json, Policy::Strict);
        read.map(drop).map_err(unfit)
    }
}

/// The user's to know: the model cannot mend a tool.
fn unfit(source: toolwright_signature::Error) -> Error {
    Error::other(source).at(Stage::Module)
}

/// Whether a text says all that the JSON would.
fn says(text: &str, value: Option<&Value>, structured: Option<&Value>, json: &str) -> bool {
    match value {
        Some(Value::String(value)) => value == text,
        Some(value) if structured != Some(value) => {
            serde_json::to_string(value).is_ok_and(|value| value == text)
        }
        Some(_) => json == text,
        // The value was read from it, or there is none.
        None => true,
    }
}

/// What MCP assumes where nothing is said is said too: some clients take silence for more.
///
/// What only adds is not destructive to MCP; what overwrites is, and no effect tells the one
/// from the other. So whatever writes may destroy.
fn annotations(effect: Effect) -> ToolAnnotations {
    let reads = effect == Effect::Read;
    ToolAnnotations::new()
        .read_only(reads)
        .destructive(!reads)
        .idempotent(reads || effect == Effect::Idempotent)
        .open_world(true)
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
