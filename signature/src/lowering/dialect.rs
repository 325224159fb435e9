//! Dialects, and the result of lowering: a schema and its losses.
//!
//! These are the public types. This file, `dialect_rules` and `value` use each other: the rules are
//! a table by dialect, and a lowered schema keeps the weight and the renderer that were made with
//! the rules.

use std::borrow::Cow;
use std::fmt;

use serde_json::value::RawValue;

use crate::error::{SchemaFault, Side};
use crate::lowering::dialect_rules::{RequestLimits, Weight};
use crate::lowering::value::Renderer;

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
    /// JSON Schema 2020-12 without changes: for a prompt, a validator or a document.
    JsonSchema2020,
    /// OpenAI with `strict: true`. The provider guarantees that arguments fit, and accepts a
    /// subset in which every property is required and objects are closed. A schema that the subset
    /// cannot express is lowered as for [`OpenAiLoose`](Self::OpenAiLoose).
    ///
    /// Source: OpenAI's guide "Structured Outputs", section "Supported schemas".
    OpenAiStrict,
    /// OpenAI with `strict: false`, and OpenAI-compatible servers.
    ///
    /// Source: the errors (HTTP 400) of the Chat Completions API: the root is an
    /// object without combinators, has `properties`, and arrays have `items`.
    OpenAiLoose,
    /// Anthropic with `strict: true`. The provider guarantees that arguments fit, and accepts a
    /// subset in which objects are closed and never contain themselves. A schema is lowered without
    /// `strict` if the subset cannot express it, or if the request has no room for it.
    ///
    /// Source: Anthropic's guide "Structured outputs", section "JSON Schema limitations".
    Anthropic,
    /// Gemini's `parametersJsonSchema`: few keywords, and enums of texts only.
    ///
    /// Source: the comments of `FunctionDeclaration` and `Schema` in
    /// google.ai.generativelanguage v1beta.
    Gemini,
    /// The Model Context Protocol: objects at the root of both sides, without combinators there,
    /// references written out, and each object with `properties`. A type that contains itself is written
    /// out a few levels deep in an input, and stays a reference in an output; both are listed as a loss.
    /// Everything else is as in the contract, also the `allOf` beside the `properties` of a contract
    /// that was made from a schema.
    ///
    /// Source: the specification's `Tool` type, revision 2025-11-25 and later, and tools that clients
    /// drop (github-mcp-server#3126, claude-code#95504, copilot-cli#1825, #1876 and #2634,
    /// claude-ai-mcp#591).
    Mcp,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 6] = [
        Self::JsonSchema2020,
        Self::OpenAiStrict,
        Self::OpenAiLoose,
        Self::Anthropic,
        Self::Gemini,
        Self::Mcp,
    ];

    /// Returns the name for a command line, such as `openai-strict`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::JsonSchema2020 => "json-schema",
            Self::OpenAiStrict => "openai-strict",
            Self::OpenAiLoose => "openai-loose",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Mcp => "mcp",
        }
    }

    /// Returns the maximum number of tools in one request; `None` if the provider has no maximum.
    #[must_use]
    pub fn max_tools(self) -> Option<usize> {
        Some(RequestLimits::of(self).tools).filter(|most| *most != usize::MAX)
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

/// A schema in the form of one dialect, ready to be sent.
///
/// [`Contract::lower`] and [`Contract::lower_output`] make it once per dialect.
///
/// [`Contract::lower`]: crate::Contract::lower
/// [`Contract::lower_output`]: crate::Contract::lower_output
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Lowered {
    /// The schema, with an object at its root.
    pub schema: Box<RawValue>,
    /// The rules that the dialect cannot express; empty if it can express all of them.
    pub losses: Vec<Loss>,
    /// Whether the provider guarantees that values fit: it is sent with `strict: true`.
    ///
    /// Always false in a dialect without `strict`. In a strict dialect, false is also listed as a
    /// loss, with the keyword `strict`.
    pub strict: bool,
    /// The field of the root that has the value, if the dialect does not take the value as it is.
    pub wrapper: Option<&'static str>,
    /// The part of a request's limits that this schema uses.
    pub(crate) weight: Weight,
    /// Converts values to the shape of this schema.
    pub(crate) renderer: Renderer,
}

/// A rule that a dialect cannot express, so that the model does not see it or need not keep it.
///
/// Reading still enforces all rules of the type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The side that has the rule.
    pub side: Side,
    /// The path in the value, from `$`; `[]` is every item of a list and `*` every value of a
    /// map.
    pub path: String,
    /// The schema keyword that was lost.
    pub keyword: String,
    /// The effect of the loss, for the message after the keyword.
    pub why: Cow<'static, str>,
    /// The kind of fault for which the whole schema was lowered in a weaker form, for code to
    /// match: without `strict`, or as an object of any fields. `None` for a loss at one place.
    pub fault: Option<SchemaFault>,
}

impl Loss {
    /// Returns the loss of a keyword at a path.
    pub fn new(
        side: Side,
        path: impl Into<String>,
        keyword: impl Into<String>,
        why: impl Into<Cow<'static, str>>,
    ) -> Self {
        let (path, keyword, why) = (path.into(), keyword.into(), why.into());
        Self { side, path, keyword, why, fault: None }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: `{}` {}", self.side, self.path, self.keyword, self.why)
    }
}
