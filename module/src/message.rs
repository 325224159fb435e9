//! Messages: the entries of a conversation with a model.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::repaired::Repaired;

/// One entry of a conversation.
///
/// Serialises to a stable form, because stored runs and recordings hold messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Message {
    /// What the program tells the model before anything else.
    System {
        /// The text.
        text: String,
    },
    /// What the user says.
    User {
        /// Text and images, in order.
        parts: Vec<Part>,
    },
    /// What the model said.
    Assistant {
        /// Text, reasoning and calls, in the order the model gave them.
        parts: Vec<ReplyPart>,
    },
    /// What a tool answered to one call.
    Tool(ToolResult),
}

impl Message {
    /// A system message, ready to share.
    pub fn system(text: impl Into<String>) -> Arc<Self> {
        Arc::new(Self::System { text: text.into() })
    }

    /// A user's message of text, ready to share.
    pub fn user(text: impl Into<String>) -> Arc<Self> {
        Arc::new(Self::User { parts: vec![Part::Text(text.into())] })
    }
}

/// A piece of what a user says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Part {
    /// Text.
    Text(String),
    /// An image.
    Image(Image),
}

/// An image, by address or by content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Image {
    /// Where the provider can fetch it: `https:` or `data:`.
    Url(String),
}

/// A piece of what a model said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReplyPart {
    /// Text for the user.
    Text(String),
    /// The model's thinking, in its provider's own form.
    Reasoning(Reasoning),
    /// A tool to call.
    Call(ToolCall),
}

/// A model's thinking: text for people, and a value that only its provider reads.
///
/// Some providers refuse a conversation whose reasoning parts were lost or moved, so
/// they stay where they were and go back unchanged. Another provider leaves them out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reasoning {
    /// Which provider it belongs to, such as `openai-responses`.
    pub provider: String,
    /// What can be shown; often empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// What goes back to the provider as it came.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub opaque: Value,
}

impl Reasoning {
    /// A provider's reasoning part.
    pub fn new(provider: impl Into<String>, text: impl Into<String>, opaque: Value) -> Self {
        Self { provider: provider.into(), text: text.into(), opaque }
    }
}

/// What kind of tool a call is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallKind {
    /// A function: its arguments are a JSON object.
    #[default]
    Function,
    /// A custom tool: its input is free text, or text of a grammar.
    Custom,
}

impl CallKind {
    /// Runs stored before there were custom tools say nothing of them.
    fn is_function(&self) -> bool {
        *self == Self::Function
    }
}

/// A tool that a model wants called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolCall {
    /// Pairs the call with its result; the provider's own.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as the model wrote them: JSON text, if all is well. Of a custom
    /// tool, its input.
    pub arguments: String,
    /// Whether a function is called or a custom tool.
    #[serde(default, skip_serializing_if = "CallKind::is_function")]
    pub kind: CallKind,
    /// What goes back to the provider with this call, if it asks for something.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub opaque: Value,
}

impl ToolCall {
    /// A call of a function.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            kind: CallKind::Function,
            opaque: Value::Null,
        }
    }

    /// A call of a custom tool: `input` is text, not JSON.
    pub fn custom(
        id: impl Into<String>,
        name: impl Into<String>,
        input: impl Into<String>,
    ) -> Self {
        Self { kind: CallKind::Custom, ..Self::new(id, name, input) }
    }
}

/// What a tool answered to one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolResult {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// What the model reads.
    pub text: String,
    /// Images beside the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Whether the call failed; the text says how.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// What was read of the call's arguments, if they had to be repaired. A run sends it
    /// back to the model in place of what the model wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repaired: Option<Box<Repaired>>,
}

impl ToolResult {
    /// The result of a call that went well.
    pub fn new(call: &ToolCall, text: impl Into<String>) -> Self {
        Self {
            id: call.id.clone(),
            name: call.name.clone(),
            text: text.into(),
            images: Vec::new(),
            failed: false,
            repaired: None,
        }
    }

    /// The result of a call that failed: `text` tells the model how.
    pub fn failed(call: &ToolCall, text: impl Into<String>) -> Self {
        Self { failed: true, ..Self::new(call, text) }
    }

    /// The same with images.
    #[must_use]
    pub fn with_images(mut self, images: Vec<Image>) -> Self {
        self.images = images;
        self
    }
}
