//! Messages: the entries of a conversation with a model.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::repaired::Repaired;

/// One entry of a conversation.
///
/// The serialized form is stable, because stored runs and recordings contain messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Message {
    /// The program's instructions to the model. It comes first.
    System {
        /// The text.
        text: String,
    },
    /// A message of the user.
    User {
        /// Text and images, in order.
        parts: Vec<Part>,
    },
    /// A message of the model.
    Assistant {
        /// Text, reasoning and calls, in the order the model gave them.
        parts: Vec<ReplyPart>,
    },
    /// The result of one tool call.
    Tool(ToolResult),
}

impl Message {
    /// Returns a system message in an `Arc`.
    pub fn system(text: impl Into<String>) -> Arc<Self> {
        Arc::new(Self::System { text: text.into() })
    }

    /// Returns a user message with one text, in an `Arc`.
    pub fn user(text: impl Into<String>) -> Arc<Self> {
        Arc::new(Self::User { parts: vec![Part::Text(text.into())] })
    }
}

/// One part of a user message.
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
    /// An address from which the provider can fetch it: `https:` or `data:`.
    Url(String),
}

/// One part of a model's message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReplyPart {
    /// Text for the user.
    Text(String),
    /// Reasoning, in the form of its provider.
    Reasoning(Reasoning),
    /// A tool call.
    Call(ToolCall),
}

/// The reasoning of a model: a text for people, and a value that only its provider understands.
///
/// Some providers reject a conversation whose reasoning parts are missing or moved, so they are
/// sent back unchanged and in place. They are not sent to another provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reasoning {
    /// The provider that the part belongs to, such as `openai-responses`.
    pub provider: String,
    /// The text that can be shown. Often empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The value that is sent back to the provider unchanged.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub opaque: Value,
}

impl Reasoning {
    /// Returns a reasoning part of a provider.
    pub fn new(provider: impl Into<String>, text: impl Into<String>, opaque: Value) -> Self {
        Self { provider: provider.into(), text: text.into(), opaque }
    }
}

/// The kind of tool that is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallKind {
    /// A function. Its arguments are a JSON object.
    #[default]
    Function,
    /// A custom tool. Its input is text, free or in a grammar.
    Custom,
}

impl CallKind {
    /// Older stored runs have no `kind`, because custom tools did not exist.
    fn is_function(&self) -> bool {
        *self == Self::Function
    }
}

/// A call that the model requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolCall {
    /// The provider's id. It pairs the call with its result.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// The arguments as the model wrote them, normally JSON. For a custom tool, its input text.
    pub arguments: String,
    /// The kind of tool.
    #[serde(default, skip_serializing_if = "CallKind::is_function")]
    pub kind: CallKind,
    /// A value that the provider needs back with this call. Null if it needs none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub opaque: Value,
}

impl ToolCall {
    /// Returns a call of a function.
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

    /// Returns a call of a custom tool. `input` is text, not JSON.
    pub fn custom(
        id: impl Into<String>,
        name: impl Into<String>,
        input: impl Into<String>,
    ) -> Self {
        Self { kind: CallKind::Custom, ..Self::new(id, name, input) }
    }
}

/// The result of one tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// The text for the model.
    pub text: String,
    /// Images beside the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Whether the call failed. The text says why.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// The repaired arguments of the call, if they had to be repaired. A run sends these back to
    /// the model in place of the original arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repaired: Option<Box<Repaired>>,
}

impl ToolResult {
    /// Returns the result of a successful call.
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

    /// Returns the result of a failed call. `text` says why, for the model.
    pub fn failed(call: &ToolCall, text: impl Into<String>) -> Self {
        Self { failed: true, ..Self::new(call, text) }
    }

    /// Sets the images beside the text.
    #[must_use]
    pub fn with_images(mut self, images: Vec<Image>) -> Self {
        self.images = images;
        self
    }
}
