//! Messages: the entries of a conversation with a model.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use toolwright_signature::{check_fields_once, has_lost_half, readable_json};

pub use crate::call_ids::CallIds;
pub use crate::file_name::file_name;
pub use crate::media::{Audio, Document, Image, Source};
use crate::repaired::Repaired;
use crate::runner::shown;
use crate::untrusted::fence;

/// One entry of a conversation.
///
/// The serialized form is stable, because stored runs and recordings contain messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "messages are in an `Arc`")]
pub enum Message {
    /// The program's instructions to the model. It comes first.
    System {
        /// Instructions.
        text: String,
    },
    /// A message of the user.
    User {
        /// Text, images, documents and audio, in order.
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

    /// Returns a user message with these parts, in an `Arc`.
    ///
    /// ```
    /// use toolwright_module::Message;
    /// use toolwright_module::message::Image;
    ///
    /// let question = "Which animal is this?".into();
    /// let message = Message::user_parts([question, Image::url("https://example.com/a.png").into()]);
    /// ```
    pub fn user_parts(parts: impl IntoIterator<Item = Part>) -> Arc<Self> {
        Arc::new(Self::User { parts: parts.into_iter().collect() })
    }

    /// Returns a message of the model with one text, in an `Arc`.
    pub fn assistant(text: impl Into<String>) -> Arc<Self> {
        Arc::new(Self::Assistant { parts: vec![ReplyPart::text(text)] })
    }

    /// Returns the text of the message: all text parts joined, or the text of a tool's result. Images,
    /// reasoning and calls have no text.
    ///
    /// ```
    /// use toolwright_module::Message;
    ///
    /// assert_eq!(Message::user("Where is order 7?").to_text(), "Where is order 7?");
    /// ```
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::System { text } => text.clone(),
            Self::User { parts } => {
                let texts = parts.iter().filter_map(|part| match part {
                    Part::Text(text) => Some(text.as_str()),
                    _ => None,
                });
                texts.collect()
            }
            Self::Assistant { parts } => {
                let texts = parts.iter().filter_map(|part| match part {
                    ReplyPart::Text(text) => Some(&**text),
                    _ => None,
                });
                texts.collect()
            }
            Self::Tool(result) => result.text.clone(),
        }
    }

    /// Returns the message as it is sent: a result without its [whole text](ToolResult::whole). A
    /// message that has none is returned as it is.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolwright_module::message::ToolResult;
    /// use toolwright_module::{Message, Request, ToolCall};
    ///
    /// let mut result = ToolResult::new(&ToolCall::new("1", "read_file", "{}"), "The start");
    /// let message = Arc::new(Message::Tool(result.clone()));
    /// assert!(Arc::ptr_eq(&message, &Arc::clone(&message).to_send()));
    ///
    /// result.whole = Some("The start and the end".into());
    /// let request = Request::new([Arc::new(Message::Tool(result))]);
    /// assert_eq!(request.messages, [message]);
    /// ```
    #[must_use]
    pub fn to_send(self: Arc<Self>) -> Arc<Self> {
        match &*self {
            Self::Tool(result) if result.whole.is_some() => {
                let sent = ToolResult { whole: None, lost_bytes: 0, ..result.clone() };
                Arc::new(Self::Tool(sent))
            }
            _ => self,
        }
    }
}

/// One part of a user message, or of a tool's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Part {
    /// Text.
    Text(String),
    /// An image.
    Image(Image),
    /// A document.
    Document(Document),
    /// A recording of sound.
    Audio(Audio),
}

impl Part {
    /// Returns the name of the kind: `text`, `image`, `document` or `audio`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Image(_) => Image::KIND,
            Self::Document(_) => Document::KIND,
            Self::Audio(_) => Audio::KIND,
        }
    }

    /// Puts the marks of untrusted text around a text, also around that of a document.
    pub(crate) fn fence(&mut self) {
        let fenced = |text: &str| match fence(text) {
            Cow::Owned(fenced) => Some(fenced),
            Cow::Borrowed(_) => None,
        };
        let source = match self {
            Self::Text(text) => {
                if let Some(fenced) = fenced(text) {
                    *text = fenced;
                }
                return;
            }
            Self::Image(image) => &mut image.source,
            Self::Document(document) => &mut document.source,
            Self::Audio(audio) => &mut audio.source,
        };
        if let Some(edited) = source.edited(fenced) {
            *source = edited;
        }
    }

    /// Returns the place of the content, or `None` for text.
    #[must_use]
    pub fn source(&self) -> Option<&Source> {
        match self {
            Self::Text(_) => None,
            Self::Image(image) => Some(&image.source),
            Self::Document(document) => Some(&document.source),
            Self::Audio(audio) => Some(&audio.source),
        }
    }
}

impl From<&str> for Part {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Image> for Part {
    fn from(image: Image) -> Self {
        Self::Image(image)
    }
}

impl From<Document> for Part {
    fn from(document: Document) -> Self {
        Self::Document(document)
    }
}

impl From<Audio> for Part {
    fn from(audio: Audio) -> Self {
        Self::Audio(audio)
    }
}

/// One part of a model's message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReplyPart {
    /// Text for the user.
    Text(Text),
    /// Reasoning, in the form of its provider.
    Reasoning(Reasoning),
    /// A tool call.
    Call(ToolCall),
    /// A part of another kind, such as a tool that the provider runs itself. It is sent back to its
    /// provider unchanged and in its place.
    Other(Opaque),
}

impl ReplyPart {
    /// Returns a part with this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Text::from(text))
    }
}

/// A value that only its provider understands.
///
/// It is sent back to that provider unchanged, and not to another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Opaque {
    /// The provider that the value belongs to, such as `anthropic`.
    pub provider: String,
    /// The value in the provider's form.
    pub value: Value,
}

impl Opaque {
    /// Returns a value of a provider.
    pub fn new(provider: impl Into<String>, value: Value) -> Self {
        Self { provider: provider.into(), value }
    }

    /// Returns the value if it belongs to `provider`.
    #[must_use]
    pub fn of(&self, provider: &str) -> Option<&Value> {
        (self.provider == provider).then_some(&self.value)
    }
}

/// A text of a model. It dereferences to `str`.
///
/// The serialized form is the string itself, or an object if the text has a provider's data.
///
/// ```
/// use toolwright_module::message::Text;
///
/// assert_eq!(serde_json::to_string(&Text::from("Hi!"))?, r#""Hi!""#);
/// assert_eq!(Text::from("Hi!").len(), 3);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Text {
    /// The text.
    pub text: String,
    /// The provider's data of this part, such as a signature or citations.
    pub opaque: Option<Box<Opaque>>,
}

impl Text {
    /// Sets the provider's data of this part.
    #[must_use]
    pub fn with_opaque(mut self, opaque: Opaque) -> Self {
        self.opaque = Some(Box::new(opaque));
        self
    }
}

impl std::ops::Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl<T: Into<String>> From<T> for Text {
    fn from(text: T) -> Self {
        Self { text: text.into(), opaque: None }
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, text: &str) -> bool {
        self.text == text
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, text: &&str) -> bool {
        self.text == *text
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(opaque) = &self.opaque else { return serializer.serialize_str(&self.text) };
        let mut text = serializer.serialize_struct("Text", 2)?;
        text.serialize_field("text", &self.text)?;
        text.serialize_field("opaque", opaque)?;
        text.end()
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or an object with `text` and `opaque`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text::from(text))
            }

            fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Text, E> {
                Ok(Text::from(text))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Text, A::Error> {
                #[derive(Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Fields {
                    text: String,
                    opaque: Option<Box<Opaque>>,
                }
                let Fields { text, opaque } = Fields::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Text { text, opaque })
            }
        }

        deserializer.deserialize_any(TextVisitor)
    }
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
    /// The provider's data of this call, such as a signature. It goes back with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Box<Opaque>>,
    /// Whether the call may be incomplete, even if its arguments are valid JSON. Agents and groups
    /// do not make such a call. [`Reply::with_finish`](crate::Reply::with_finish) sets it for a
    /// reply that is cut off, and providers set it for a single call, also for one with two different
    /// names or arguments.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
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
            opaque: None,
            incomplete: false,
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

    /// Returns the text for a model whose call is [`incomplete`](Self::incomplete) and was not made.
    /// `None` for a complete call. [`Finish::why_not_made`](crate::model::Finish::why_not_made) has
    /// the reason if the whole reply is incomplete.
    ///
    /// ```
    /// use toolwright_module::ToolCall;
    ///
    /// let mut call = ToolCall::new("1", "delete_all", r#"{"prefix": "t"}"#);
    /// assert_eq!(call.why_not_made(), None);
    /// call.incomplete = true;
    /// assert!(call.why_not_made().unwrap().contains("was not made"));
    /// ```
    #[must_use]
    pub fn why_not_made(&self) -> Option<&'static str> {
        self.incomplete.then_some(
            "The call was cut off, so it was not made. Call again with complete arguments.",
        )
    }
}

/// The result of one tool call.
///
/// `{:?}` shows the first 1,000 bytes of a text.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// The text for the model.
    pub text: String,
    /// Images, documents and audio beside the text, in the tool's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// The output as JSON, for programs. The model gets the text. It is `None` if the text (that
    /// between the marks, if it is [untrusted](Self::untrusted)) is the output itself, as JSON or as a
    /// plain string, or if the output was too long to keep or had more
    /// than 64 levels. Images,
    /// documents and audio in it are complete, also where the text has `[image 1]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Whether the call failed. The text says why.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// The repaired arguments of the call, if they had to be repaired. A run sends these back to
    /// the model in place of the original arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaired: Option<Box<Repaired>>,
    /// The names of [deferred](crate::Tool::deferred) tools that the call found. The model may call
    /// them from now on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<String>,
    /// The whole text of a result whose text was cut, or its start. A run keeps it for the tool
    /// `read_result`. It is stored with the run, and a [`Request`](crate::Request) does not contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<Arc<str>>,
    /// Number of bytes at the end of the whole text that were not kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_bytes: u64,
    /// Whether strangers wrote the text, or a part of it. The part is between the marks of
    /// [`fence`]. See [`Tool::untrusted`](crate::Tool::untrusted).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
}

/// Maximum length of a text that `{:?}` of a result shows, in bytes.
const SHOWN_BYTES: usize = 1000;

impl fmt::Debug for ToolResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, name, text, parts, value, failed, .. } = self;
        let Self { repaired, found, whole, lost_bytes, untrusted, .. } = self;
        let json = value.as_ref().map(Value::to_string);
        f.debug_struct("ToolResult")
            .field("id", id)
            .field("name", name)
            .field("text", &shown(text, SHOWN_BYTES))
            .field("parts", parts)
            .field("value", &json.as_deref().map(|json| shown(json, SHOWN_BYTES)))
            .field("failed", failed)
            .field("repaired", repaired)
            .field("found", found)
            .field("whole", &whole.as_deref().map(|whole| shown(whole, SHOWN_BYTES)))
            .field("lost_bytes", lost_bytes)
            .field("untrusted", untrusted)
            .finish()
    }
}

impl ToolResult {
    /// Returns the result of a successful call.
    pub fn new(call: &ToolCall, text: impl Into<String>) -> Self {
        Self {
            id: call.id.clone(),
            name: call.name.clone(),
            text: text.into(),
            parts: Vec::new(),
            value: None,
            failed: false,
            repaired: None,
            found: Vec::new(),
            whole: None,
            lost_bytes: 0,
            untrusted: false,
        }
    }

    /// Marks the result as one whose text strangers wrote, and puts marks around the text.
    #[must_use]
    pub fn untrusted(mut self) -> Self {
        self.untrusted = true;
        if let Cow::Owned(fenced) = fence(&self.text) {
            self.text = fenced;
        }
        if let Some(Cow::Owned(fenced)) = self.whole.as_deref().map(fence) {
            self.whole = Some(fenced.into());
        }
        for part in &mut self.parts {
            part.fence();
        }
        self
    }

    /// Returns the result of a failed call. `text` says why, for the model.
    pub fn failed(call: &ToolCall, text: impl Into<String>) -> Self {
        Self { failed: true, ..Self::new(call, text) }
    }

    /// Sets the images, documents and audio beside the text.
    #[must_use]
    pub fn with_parts(mut self, parts: impl IntoIterator<Item = Part>) -> Self {
        self.parts = parts.into_iter().collect();
        self
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Marks all calls as [`incomplete`](ToolCall::incomplete), for a reply whose text is complete and
/// whose calls may not be. For an incomplete reply,
/// [`Reply::with_finish`](crate::Reply::with_finish) does it.
pub fn mark_incomplete(parts: &mut [ReplyPart]) {
    for part in parts {
        if let ReplyPart::Call(call) = part {
            call.incomplete = true;
        }
    }
}

/// Returns the JSON object to send in place of arguments that are not an object. Returns `None` if
/// they are one.
///
/// Some servers fail on any other arguments. The model can still read what it wrote.
///
/// ```
/// use toolwright_module::message::object_of;
///
/// assert_eq!(object_of(r#"{"a": 1}"#), None);
/// assert_eq!(object_of("").as_deref(), Some("{}"));
/// assert_eq!(object_of("[1").as_deref(), Some(r#"{"invalid_arguments":"[1"}"#));
/// // Half of a character is not JSON for every server, and of two values any server may take one.
/// assert!(object_of(r#"{"a": "\ud83d"}"#).unwrap().contains("invalid_arguments"));
/// assert!(object_of(r#"{"a": 1, "a": 2}"#).unwrap().contains("invalid_arguments"));
/// ```
#[must_use]
pub fn object_of(arguments: &str) -> Option<Cow<'static, str>> {
    /// Maximum depth of a JSON text for `serde_json`. A server that parses requests with it would
    /// refuse every later one, too.
    const MOST: usize = 127;
    /// The levels of objects and lists that a request may have around the arguments.
    const AROUND: usize = 20;
    let text = arguments.trim();
    let may_be_deep =
        text.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count() > MOST - AROUND;
    let is_read = |text: &str| check_fields_once(text.as_bytes(), &[]).is_ok();
    if text.is_empty() {
        Some(Cow::Borrowed("{}"))
    } else if text.starts_with('{')
        && match may_be_deep {
            true => is_read(&[&*"[".repeat(AROUND), text, &*"]".repeat(AROUND)].concat()),
            false => is_read(text),
        }
        && !(text.contains("\\u") && has_lost_half(&readable_json(text.as_bytes())))
    {
        None
    } else {
        Some(Cow::Owned(json!({"invalid_arguments": arguments}).to_string()))
    }
}

/// Returns the text before the images and documents of a call's result, for APIs that accept them
/// only in a user message.
///
/// ```
/// use toolwright_module::message::parts_of;
///
/// assert_eq!(parts_of("call_1"), "Images and documents of the result of call call_1:");
/// ```
#[must_use]
pub fn parts_of(call: &str) -> String {
    format!("Images and documents of the result of call {call}:")
}
