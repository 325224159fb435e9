//! Enums without data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(
    Serialize,
    Deserialize,
    JsonSchema,
    Default,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Status {
    #[default]
    Open,
    InProgress,
    Done,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Priority {
    /// Whenever there is time.
    Low,
    /// Before anything else.
    High,
}

/// Names that look like values of other types.
#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LookAlike {
    #[serde(rename = "null")]
    Null,
    #[serde(rename = "true")]
    True,
    #[serde(rename = "1")]
    One,
    #[serde(rename = "")]
    Empty,
    #[serde(rename = "größe 🦀")]
    Unicode,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) enum Single {
    Only,
}

/// One of a few numbers, as `serde_repr` writes them.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy)]
#[serde(try_from = "u8", into = "u8")]
#[schemars(extend("enum" = [1, 2, 5]))]
pub(crate) struct Stars(u8);

impl TryFrom<u8> for Stars {
    type Error = &'static str;

    fn try_from(stars: u8) -> Result<Self, Self::Error> {
        [1, 2, 5].contains(&stars).then_some(Self(stars)).ok_or("expected 1, 2 or 5 stars")
    }
}

impl From<Stars> for u8 {
    fn from(stars: Stars) -> Self {
        stars.0
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Rated {
    stars: Stars,
    most: Option<Stars>,
}

/// Only some of its values can be read, and others written.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HalfHidden {
    Both,
    #[serde(skip_deserializing)]
    OnlyWritten,
    #[serde(skip_serializing)]
    OnlyRead,
    #[serde(skip)]
    Neither,
    #[serde(alias = "former")]
    Present,
}
