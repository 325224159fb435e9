//! The table of what each dialect accepts, each entry with its source.

use crate::Dialect;

/// What a dialect accepts. Lowering is one walk that asks here.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Whether the provider guarantees that values fit: it is sent with `strict: true`.
    pub(crate) strict: bool,
    /// The rules for a schema that these refuse: the provider takes it without a guarantee.
    pub(crate) otherwise: Option<&'static Rules>,
    /// Keywords kept as they are; of the others, what constrains is told in the
    /// description. Keywords that shape a value have their own rule below.
    pub(crate) keeps: Keeps,
    /// Values of `format` that are kept.
    pub(crate) formats: Keeps,
    /// Whether the root may only be an object: a union stands in a field of its own.
    pub(crate) object_root: bool,
    /// Whether objects name all their fields: maps become lists of pairs.
    pub(crate) closed: bool,
    /// Whether lists may say something of each place: tuples become objects.
    pub(crate) tuples: bool,
    /// Whether a field may be left out: otherwise it is null.
    pub(crate) optional: bool,
    /// Whether a value may be anything.
    pub(crate) any: bool,
    pub(crate) recursion: Recursion,
    /// Whether a description may stand beside a reference.
    pub(crate) told_references: bool,
    pub(crate) values: Values,
    /// The highest `minItems`.
    pub(crate) min_items: u64,
    /// What a pattern may not have in it.
    pub(crate) patterns: &'static [&'static str],
    pub(crate) limits: Limits,
    /// What a field may be called.
    pub(crate) field_names: Names,
    /// What a tool's name may start with, where that is less than we accept.
    pub(crate) starts_with_letter: bool,
}

#[derive(Debug)]
pub(crate) enum Keeps {
    All,
    Only(&'static [&'static str]),
}

impl Keeps {
    pub(crate) fn has(&self, word: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(words) => words.contains(&word),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recursion {
    Accepted,
    /// Only where a field may be left out.
    Optional,
    Refused,
}

/// What `enum` and `const` may hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Values {
    All,
    /// No objects and lists.
    Scalars,
    Texts,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Names {
    All,
    /// `[a-zA-Z0-9_.-]{1,64}`
    Plain,
    /// The same for the fields of the root; the others may have any name.
    PlainAtRoot,
}

/// How much a schema may hold, all of it together.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Objects in each other.
    pub(crate) levels: usize,
    /// Properties of all objects.
    pub(crate) properties: usize,
    /// Values of all enums.
    pub(crate) values: usize,
    /// Values of one enum whose texts have more than `long_enum_characters`.
    pub(crate) long_enum: usize,
    pub(crate) long_enum_characters: usize,
    /// Characters of the names of properties and definitions and the texts of enums and
    /// consts.
    pub(crate) characters: usize,
    /// What counts for the request as well.
    pub(crate) weight: Weight,
}

/// How much of a request's limits a schema takes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Weight {
    /// Fields that may be left out.
    pub(crate) optional: usize,
    /// Fields that take one of several types.
    pub(crate) unions: usize,
}

impl Weight {
    const NONE: Self = Self { optional: usize::MAX, unions: usize::MAX };
}

/// How much one request may hold, all its schemas together.
#[derive(Debug)]
pub(crate) struct RequestLimits {
    /// Tools of any kind.
    pub(crate) tools: usize,
    /// Tools that are strict.
    pub(crate) strict_tools: usize,
    /// Of everything that is strict.
    pub(crate) weight: Weight,
}

impl RequestLimits {
    const NONE: Self = Self { tools: usize::MAX, strict_tools: usize::MAX, weight: Weight::NONE };

    /// The limits of a dialect's requests.
    pub(crate) fn of(dialect: Dialect) -> &'static Self {
        match dialect {
            Dialect::JsonSchema2020 | Dialect::Mcp => &Self::NONE,
            Dialect::OpenAiStrict | Dialect::OpenAiLoose => &OPENAI_REQUEST,
            Dialect::Anthropic => &ANTHROPIC_REQUEST,
            Dialect::Gemini => &GEMINI_REQUEST,
        }
    }
}

/// Source: OpenAI's description of its API, `tools`: "A max of 128 functions are supported".
static OPENAI_REQUEST: RequestLimits = RequestLimits { tools: 128, ..RequestLimits::NONE };

/// Source: Anthropic's guide "Structured outputs", section "Schema complexity limits", and
/// recorded replies to requests at each limit (HTTP 200) and beyond it (HTTP 400).
static ANTHROPIC_REQUEST: RequestLimits = RequestLimits {
    tools: usize::MAX,
    strict_tools: 20,
    weight: Weight { optional: 24, unions: 16 },
};

/// Source: the refusal (HTTP 400) "At most 512 function declarations can be specified".
static GEMINI_REQUEST: RequestLimits = RequestLimits { tools: 512, ..RequestLimits::NONE };

impl Limits {
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
    /// The rules of a dialect, or `None` where a schema stays as it is.
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

/// Source: OpenAI's guide "Structured Outputs", section "Supported schemas", as read in
/// February 2026, and the texts of its refusals (HTTP 400).
static OPENAI_STRICT: Rules = Rules {
    strict: true,
    otherwise: Some(&OPENAI_LOOSE),
    keeps: Keeps::Only(&[
        "enum",
        "const",
        "pattern",
        "format",
        "multipleOf",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "minItems",
        "maxItems",
    ]),
    formats: Keeps::Only(&[
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uuid",
    ]),
    object_root: true,
    closed: true,
    tuples: false,
    optional: false,
    any: false,
    recursion: Recursion::Accepted,
    // "$ref cannot have keywords {'description'}".
    told_references: false,
    values: Values::Scalars,
    min_items: u64::MAX,
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
    field_names: Names::All,
    starts_with_letter: false,
};

/// Source: the refusals (HTTP 400) of the Chat Completions API for functions that are not
/// strict: "schema must have type 'object' and not have 'oneOf'/'anyOf'/… at the top
/// level", "array schema missing items", "object schema missing properties".
static OPENAI_LOOSE: Rules = Rules {
    strict: false,
    otherwise: None,
    keeps: Keeps::All,
    formats: Keeps::All,
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

/// Source: Anthropic's guide "Structured outputs", sections "JSON Schema limitations" and
/// "Schema complexity limits", the schema transform of its SDKs, and the refusals
/// (HTTP 400) of the Messages API for names of properties.
static ANTHROPIC: Rules = Rules {
    strict: true,
    otherwise: Some(&ANTHROPIC_LOOSE),
    keeps: Keeps::Only(&["enum", "const", "pattern", "format", "minItems", "default"]),
    formats: Keeps::Only(&[
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "uri",
        "ipv4",
        "ipv6",
        "uuid",
    ]),
    object_root: true,
    closed: true,
    tuples: false,
    optional: true,
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
    // A request may hold one more of each, but one schema that does is "too complex".
    limits: Limits { weight: Weight { optional: 23, unions: 15 }, ..Limits::NONE },
    field_names: Names::Plain,
    starts_with_letter: false,
};

/// Tools without `strict`.
///
/// Source: the refusals (HTTP 400) of the Messages API: "input_schema does not support oneOf,
/// allOf, or anyOf at the top level", and "Property keys should match pattern", which it says
/// of `input_schema.properties` only.
static ANTHROPIC_LOOSE: Rules = Rules {
    strict: false,
    otherwise: None,
    keeps: Keeps::All,
    formats: Keeps::All,
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
    field_names: Names::PlainAtRoot,
    starts_with_letter: false,
};

/// Source: google.ai.generativelanguage v1beta, the comments of
/// `GenerationConfig.response_json_schema` (the keywords; "`$ref` … no other properties,
/// except for those starting as a `$`, may be set"; "cyclic references … may only be used
/// within non-required properties") and of `FunctionDeclaration.name`; the guide
/// "Structured output" for formats.
static GEMINI: Rules = Rules {
    strict: false,
    otherwise: None,
    keeps: Keeps::Only(&["enum", "format", "minItems", "maxItems", "minimum", "maximum"]),
    formats: Keeps::Only(&["date-time", "date", "time"]),
    object_root: true,
    closed: false,
    tuples: true,
    optional: true,
    any: true,
    recursion: Recursion::Optional,
    told_references: false,
    values: Values::Texts,
    min_items: u64::MAX,
    patterns: &[],
    limits: Limits::NONE,
    field_names: Names::All,
    starts_with_letter: true,
};
