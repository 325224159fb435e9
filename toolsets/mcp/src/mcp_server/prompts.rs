//! [`ServedPrompt`], a tool as a prompt, and the values of its arguments that complete a text.

use rmcp::model::{ContentBlock, GetPromptResult, Prompt, PromptArgument, PromptMessage, Role};
use serde_json::Value;
use toolwright_module::error::Stage;
use toolwright_module::{Error, Result, Tool, ToolOutput};

use crate::mcp_server::served_tool::{ServedTool, attachment, check_bytes, size};

/// Maximum number of values that complete an argument, which the protocol sets.
const MAX_VALUES: usize = 100;

/// A tool that is served as a prompt, and the definition that clients get.
#[derive(Clone)]
pub(crate) struct ServedPrompt {
    pub(crate) tool: Tool,
    pub(crate) definition: Prompt,
}

impl ServedPrompt {
    pub(crate) fn new(tool: Tool) -> crate::error::Result<Self> {
        let ServedTool { tool, definition, .. } = ServedTool::new(tool)?;
        let schema = &definition.input_schema;
        let required = schema.get("required").and_then(Value::as_array);
        let fields = schema.get("properties").and_then(Value::as_object);
        let argument = |(name, field): (&String, &Value)| {
            let is_required =
                required.is_some_and(|names| names.iter().any(|one| one.as_str() == Some(name)));
            let text = |key| field.get(key).and_then(Value::as_str).map(str::to_owned);
            let mut argument = PromptArgument::new(name).with_required(is_required);
            (argument.title, argument.description) = (text("title"), text("description"));
            argument
        };
        let arguments: Vec<_> = fields.into_iter().flatten().map(argument).collect();
        let arguments = (!arguments.is_empty()).then_some(arguments);
        let mut prompt = Prompt::new(definition.name, definition.description.as_deref(), arguments);
        prompt.title = definition.title;
        Ok(Self { tool, definition: prompt })
    }

    /// Converts an output to the messages of the prompt, which are those of a user: the text, and
    /// one message for each image or file.
    ///
    /// # Errors
    ///
    /// The messages have more than `max_bytes`.
    pub(crate) fn result(&self, output: ToolOutput, max_bytes: usize) -> Result<GetPromptResult> {
        let ToolOutput { text, parts, .. } = output;
        let attached = parts.iter().enumerate().map(|(index, part)| attachment(index, part));
        let text = Some(text).filter(|text| !text.is_empty() || parts.is_empty());
        let contents: Vec<_> = text.map(ContentBlock::text).into_iter().chain(attached).collect();
        check_bytes(contents.iter().map(size).sum(), max_bytes)?;
        let messages = contents.into_iter().map(|content| PromptMessage::new(Role::User, content));
        let mut result = GetPromptResult::new(messages.collect());
        result.description = self.definition.description.clone();
        Ok(result)
    }
}

/// Returns the values of a tool's field that begin with a text: those of an enumeration.
///
/// # Errors
///
/// The tool has no such field.
pub(crate) fn completions(tool: &Tool, field: &str, start: &str) -> Result<Vec<String>> {
    let fields = tool.contract().input().get("properties");
    let schema = fields.and_then(|fields| fields.get(field)).ok_or_else(|| {
        Error::refuse(format!("`{}` has no argument `{field}`", tool.name())).at(Stage::Arguments)
    })?;
    let mut values = Vec::new();
    add_values(schema, &mut values);
    values.retain(|value| value.to_lowercase().starts_with(&start.to_lowercase()));
    values.truncate(MAX_VALUES);
    Ok(values)
}

/// Adds the values that a schema lists, as a user would write them.
fn add_values(schema: &Value, values: &mut Vec<String>) {
    let listed = schema.get("enum").and_then(Value::as_array);
    for value in listed.into_iter().flatten().chain(schema.get("const")) {
        match value {
            Value::Null => {}
            Value::String(text) => values.push(text.clone()),
            value => values.push(value.to_string()),
        }
    }
    let choices = ["anyOf", "oneOf"].into_iter().filter_map(|key| schema.get(key)?.as_array());
    choices.flatten().for_each(|choice| add_values(choice, values));
}
