//! The table of what each dialect accepts, each entry with its source.
//!
//! [`Rules::of`] returns the rules for one schema, [`RequestLimits::of`] the limits of a request.
//! To add a dialect, add a variant of [`Dialect`] and a static below, and write only the rules that
//! differ from the loose base:
//!
//! ```text
//! static GEMINI: Rules = Rules { values: Values::Texts, starts_with_letter: true, ..LOOSE };
//! ```
//!
//! Each rule stands for requests that a provider rejects (HTTP 400), or for a limit that it
//! documents.

use crate::Dialect;

/// The rules of a dialect, which lowering applies in one walk.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Whether the provider guarantees that values fit: it is sent with `strict: true`.
    pub(crate) strict: bool,
    /// The rules for a schema that breaks these: the provider accepts it without a guarantee.
    pub(crate) otherwise: Option<&'static Rules>,
    /// Keywords that are kept unchanged. Other constraints are written into the description.
    /// Keywords for the shape of a value have separate rules below.
    pub(crate) keeps: Keeps,
    /// Values of `format` that are kept.
    pub(crate) formats: Keeps,
    /// Whether the root must be an object: a union is then wrapped in a field.
    pub(crate) object_root: bool,
    /// Whether objects have named fields only: maps become lists of pairs.
    pub(crate) closed: bool,
    /// Whether lists may have a schema for each position: otherwise tuples become objects.
    pub(crate) tuples: bool,
    /// Whether a field may be absent: otherwise it is null.
    pub(crate) optional: bool,
    /// Whether a schema without a type is allowed.
    pub(crate) any: bool,
    /// Whether definitions may contain themselves.
    pub(crate) recursion: Recursion,
    /// Whether a reference may have a description.
    pub(crate) told_references: bool,
    /// The kinds of values that may be listed.
    pub(crate) values: Values,
    /// Maximum `minItems`.
    pub(crate) min_items: u64,
    /// Parts of a pattern that are not allowed.
    pub(crate) patterns: &'static [&'static str],
    /// The size of one schema.
    pub(crate) limits: Limits,
    /// The names that fields may have.
    pub(crate) field_names: Names,
    /// Whether a tool's name must start with a letter, which other dialects do not require.
    pub(crate) starts_with_letter: bool,
}

/// A set of keywords or formats: words separated by spaces, or all.
pub(crate) type Keeps = Option<&'static str>;

/// Where a definition may contain itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recursion {
    Accepted,
    /// Only in optional fields.
    Optional,
    Refused,
}

/// The values that `enum` and `const` may have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Values {
    All,
    /// No objects and lists.
    Scalars,
    Texts,
}

/// The names that fields may have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Names {
    All,
    NotEmpty,
    /// `[a-zA-Z0-9_.-]{1,64}`
    Plain,
}

/// Limits on the size of a schema as a whole.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Nesting depth of objects.
    pub(crate) levels: usize,
    /// Number of properties of all objects.
    pub(crate) properties: usize,
    /// Number of values of all enums.
    pub(crate) values: usize,
    /// Number of values of one enum whose texts have more than `long_enum_characters`.
    pub(crate) long_enum: usize,
    /// Number of characters above which `long_enum` applies.
    pub(crate) long_enum_characters: usize,
    /// Characters of the names of properties and definitions and the texts of enums and
    /// consts.
    pub(crate) characters: usize,
    /// The part that also counts for the request.
    pub(crate) weight: Weight,
}

/// A schema's part of a request's limits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Weight {
    /// Number of optional fields.
    pub(crate) optional: usize,
    /// Number of fields with several types.
    pub(crate) unions: usize,
}

impl Weight {
    /// No limits.
    const NONE: Self = Self { optional: usize::MAX, unions: usize::MAX };

    /// Returns the sum of two schemas' parts.
    pub(crate) fn with(self, other: Self) -> Self {
        let (optional, unions) = (self.optional + other.optional, self.unions + other.unions);
        Self { optional, unions }
    }
}

/// Limits on all schemas of a request together.
#[derive(Debug)]
pub(crate) struct RequestLimits {
    /// Number of tools of any kind.
    pub(crate) tools: usize,
    /// Number of strict tools.
    pub(crate) strict_tools: usize,
    /// The sum for all strict schemas.
    pub(crate) weight: Weight,
}

impl RequestLimits {
    /// No limits.
    const NONE: Self = Self { tools: usize::MAX, strict_tools: usize::MAX, weight: Weight::NONE };

    /// Returns the limits of a dialect's requests.
    pub(crate) fn of(dialect: Dialect) -> Self {
        match dialect {
            Dialect::JsonSchema2020 | Dialect::Mcp => Self::NONE,
            // OpenAI's description of its API, `tools`: "A max of 128 functions are supported".
            Dialect::OpenAiStrict | Dialect::OpenAiLoose => Self { tools: 128, ..Self::NONE },
            // Anthropic's guide "Structured outputs", section "Schema complexity limits", and
            // recorded replies to requests at each limit (HTTP 200) and beyond it (HTTP 400).
            Dialect::Anthropic => {
                let weight = Weight { optional: 24, unions: 16 };
                Self { strict_tools: 20, weight, ..Self::NONE }
            }
            // The refusal (HTTP 400) "At most 512 function declarations can be specified".
            Dialect::Gemini => Self { tools: 512, ..Self::NONE },
        }
    }
}

impl Limits {
    /// No limits.
    const NONE: Self = Self {
        levels: usize::MAX,
        properties: usize::MAX,
        values: usize::MAX,
        long_enum: usize::MAX,
        long_enum_characters: usize::MAX,
        characters: usize::MAX,
        weight: Weight::NONE,
    };
}

impl Rules {
    /// Whether a keyword is kept.
    pub(crate) fn keeps(&self, keyword: &str) -> bool {
        self.keeps.is_none_or(|words| words.split(' ').any(|one| one == keyword))
    }

    /// Whether a value of `format` is kept.
    pub(crate) fn keeps_format(&self, format: &str) -> bool {
        self.formats.is_none_or(|words| words.split(' ').any(|one| one == format))
    }

    /// Returns the rules of a dialect; `None` if it does not change schemas.
    pub(crate) fn of(dialect: Dialect) -> Option<&'static Self> {
        match dialect {
            Dialect::JsonSchema2020 | Dialect::Mcp => None,
            Dialect::OpenAiStrict => Some(&OPENAI_STRICT),
            Dialect::OpenAiLoose => Some(&OPENAI_LOOSE),
            Dialect::Anthropic => Some(&ANTHROPIC),
            Dialect::Gemini => Some(&GEMINI),
        }
    }
}

/// The rules that all providers have in common: an object at the root. The dialects below change
/// one rule after the other.
const LOOSE: Rules = Rules {
    strict: false,
    otherwise: None,
    keeps: None,
    formats: None,
    object_root: true,
    closed: false,
    tuples: true,
    optional: true,
    any: true,
    recursion: Recursion::Accepted,
    told_references: true,
    values: Values::All,
    min_items: u64::MAX,
    patterns: &[],
    limits: Limits::NONE,
    field_names: Names::All,
    starts_with_letter: false,
};

/// Source: OpenAI's guide "Structured Outputs", section "Supported schemas", as read in
/// February 2026, and the texts of its refusals (HTTP 400).
static OPENAI_STRICT: Rules = Rules {
    strict: true,
    otherwise: Some(&OPENAI_LOOSE),
    keeps: Some(
        "enum const pattern format multipleOf minimum maximum exclusiveMinimum \
         exclusiveMaximum minItems maxItems",
    ),
    formats: Some("date-time time date duration email hostname ipv4 ipv6 uuid"),
    closed: true,
    tuples: false,
    optional: false,
    any: false,
    // "$ref cannot have keywords {'description'}".
    told_references: false,
    values: Values::Scalars,
    patterns: &["(?=", "(?!", "(?<=", "(?<!"],
    limits: Limits {
        levels: 10,
        properties: 5_000,
        values: 1_000,
        long_enum: 250,
        long_enum_characters: 15_000,
        characters: 120_000,
        ..Limits::NONE
    },
    ..LOOSE
};

/// Source: the refusals (HTTP 400) of the Chat Completions API for functions that are not
/// strict: "schema must have type 'object' and not have 'oneOf'/'anyOf'/… at the top
/// level", "array schema missing items", "object schema missing properties".
static OPENAI_LOOSE: Rules = LOOSE;

/// The root of a tool's schema in MCP. Clients drop a tool whose root has combinators
/// (github-mcp-server#3126, claude-code#95504).
pub(crate) static MCP_ROOT: Rules = LOOSE;

/// Source: Anthropic's guide "Structured outputs", sections "JSON Schema limitations" and
/// "Schema complexity limits", the schema transform of its SDKs, and the refusals
/// (HTTP 400) of the Messages API for names of properties.
static ANTHROPIC: Rules = Rules {
    strict: true,
    otherwise: Some(&ANTHROPIC_LOOSE),
    keeps: Some("enum const pattern format minItems default"),
    formats: Some("date-time time date duration email hostname uri ipv4 ipv6 uuid"),
    closed: true,
    tuples: false,
    any: false,
    recursion: Recursion::Refused,
    // Not documented, and the SDKs send a reference alone.
    told_references: false,
    values: Values::Scalars,
    min_items: 1,
    patterns: &[
        "(?=", "(?!", "(?<", r"\b", r"\B", r"\1", r"\2", r"\3", r"\4", r"\5", r"\6", r"\7", r"\8",
        r"\9",
    ],
    // A request may have one more of each, but a single schema with them is "too complex".
    limits: Limits { weight: Weight { optional: 23, unions: 15 }, ..Limits::NONE },
    field_names: Names::Plain,
    ..LOOSE
};

/// Tools without `strict`.
///
/// Source: the refusals (HTTP 400) of the Messages API: "input_schema does not support oneOf,
/// allOf, or anyOf at the top level", and "Property keys should match pattern". All known refusals
/// for names are about the root. Names below it (`$vectorSearch` and `{{userName}}` in servers of
/// MongoDB and Postman) are described too, because one refused name makes the whole request fail.
static ANTHROPIC_LOOSE: Rules = Rules { field_names: Names::Plain, ..LOOSE };

/// Source: google.ai.generativelanguage v1beta, the comments of
/// `GenerationConfig.response_json_schema` (the keywords; "`$ref` … no other properties,
/// except for those starting as a `$`, may be set"; "cyclic references … may only be used
/// within non-required properties") and of `FunctionDeclaration.name`; the guide
/// "Structured output" for formats; and the refusal (HTTP 400) "enum[0]: cannot be empty". An empty
/// name is taken to be refused like an empty text.
static GEMINI: Rules = Rules {
    keeps: Some("enum format minItems maxItems minimum maximum"),
    formats: Some("date-time date time"),
    recursion: Recursion::Optional,
    told_references: false,
    values: Values::Texts,
    field_names: Names::NotEmpty,
    starts_with_letter: true,
    ..LOOSE
};
