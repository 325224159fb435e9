//! Dialects and what lowering returns: the schema, and the losses it could not avoid.

use std::borrow::Cow;
use std::fmt;

use serde_json::value::RawValue;

use crate::error::{SchemaFault, Side};
use crate::lowering::Renderer;
use crate::lowering::rules::{RequestLimits, Weight};

/// The JSON Schema that one kind of provider accepts.
///
/// ```
/// use toolwright_signature::Dialect;
///
/// assert_eq!("openai-strict".parse(), Ok(Dialect::OpenAiStrict));
/// assert_eq!(Dialect::Mcp.to_string(), "mcp");
/// assert!("klingon".parse::<Dialect>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// JSON Schema 2020-12, as it is: for a prompt, a validator or a document.
    JsonSchema2020,
    /// OpenAI with `strict: true`: the provider guarantees that arguments fit, and
    /// accepts a subset in which every property is required and objects are closed.
    /// A schema that the subset cannot say is lowered as for [`OpenAiLoose`](Self::OpenAiLoose).
    ///
    /// Source: OpenAI's guide "Structured Outputs", section "Supported schemas".
    OpenAiStrict,
    /// OpenAI with `strict: false`, and what compatible servers accept.
    ///
    /// Source: the refusals (HTTP 400) of the Chat Completions API: the root is an
    /// object without combinators, has `properties`, and arrays have `items`.
    OpenAiLoose,
    /// Anthropic with `strict: true`: arguments are guaranteed to fit, and objects are
    /// closed and never contain themselves. A schema that this subset cannot say, or that the
    /// request has no room for, is lowered for a tool without `strict`.
    ///
    /// Source: Anthropic's guide "Structured outputs", section "JSON Schema limitations".
    Anthropic,
    /// Gemini's `parametersJsonSchema`: few keywords, and enums of texts only.
    ///
    /// Source: the comments of `FunctionDeclaration` and `Schema` in
    /// google.ai.generativelanguage v1beta.
    Gemini,
    /// The Model Context Protocol: objects at the root of both sides.
    ///
    /// Source: the specification's `Tool` type, revision 2025-11-25 and later.
    Mcp,
}

impl Dialect {
    /// Every dialect there is.
    pub const ALL: [Self; 6] = [
        Self::JsonSchema2020,
        Self::OpenAiStrict,
        Self::OpenAiLoose,
        Self::Anthropic,
        Self::Gemini,
        Self::Mcp,
    ];

    /// The name on a command line: `openai-strict`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::JsonSchema2020 => "json-schema",
            Self::OpenAiStrict => "openai-strict",
            Self::OpenAiLoose => "openai-loose",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Mcp => "mcp",
        }
    }

    /// Maximum number of tools in one request, where the provider has one.
    #[must_use]
    pub fn max_tools(self) -> Option<usize> {
        Some(RequestLimits::of(self).tools).filter(|most| *most != usize::MAX)
    }

    pub(crate) fn index(self) -> usize {
        match self {
            Self::JsonSchema2020 => 0,
            Self::OpenAiStrict => 1,
            Self::OpenAiLoose => 2,
            Self::Anthropic => 3,
            Self::Gemini => 4,
            Self::Mcp => 5,
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Dialect {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|dialect| dialect.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("there is no dialect `{name}`; choose one of {known}")
        })
    }
}

/// A schema as one dialect takes it, ready to be sent.
///
/// Made by [`Contract::lower`] and [`Contract::lower_output`], once per dialect.
///
/// [`Contract::lower`]: crate::Contract::lower
/// [`Contract::lower_output`]: crate::Contract::lower_output
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Lowered {
    /// The schema, with an object at its root.
    pub schema: Box<RawValue>,
    /// What the dialect could not say; empty if everything was.
    pub losses: Vec<Loss>,
    /// Whether the provider guarantees that values fit: it is sent with `strict: true`.
    ///
    /// Always false in a dialect without `strict`. False in a strict dialect is a loss as
    /// well, with the keyword `strict`.
    pub strict: bool,
    /// What it takes of the limits of a request.
    pub(crate) weight: Weight,
    /// How values are brought to its shape.
    pub(crate) renderer: Renderer,
}

/// Something a dialect could not say, so that a model is not told or not held to it.
///
/// Reading still enforces whatever the type itself enforces.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// Whether it is about what goes in or what comes back.
    pub side: Side,
    /// Where in the value, from `$`; `[]` is every item of a list and `*` every value of a
    /// map.
    pub path: String,
    /// The schema keyword that was lost.
    pub keyword: String,
    /// What became of it.
    pub why: Cow<'static, str>,
    /// Why the whole schema was lowered in a weaker form, for code to match: without `strict`, or as
    /// an object of any fields. `None` for a loss at one place.
    pub fault: Option<SchemaFault>,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: `{}` {}", self.side, self.path, self.keyword, self.why)
    }
}
