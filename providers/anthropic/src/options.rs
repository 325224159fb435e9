//! The choices of a model: version of the API, lifetime of the cache and form of thinking.

use std::fmt;
use std::str::FromStr;

/// The version of the API, which is sent as `anthropic-version`.
///
/// ```
/// use toolwright_anthropic::ApiVersion;
///
/// assert_eq!(ApiVersion::default().to_string(), "2023-06-01");
/// assert_eq!("2026-10-21".parse(), Ok(ApiVersion::V2026_10_21));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ApiVersion {
    /// `2023-06-01`, which compatible servers also know.
    #[default]
    V2023_06_01,
    /// `2026-10-21`. It refuses `temperature` and `top_p` for all models.
    V2026_10_21,
}

impl ApiVersion {
    /// Returns the version as it is sent.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V2023_06_01 => "2023-06-01",
            Self::V2026_10_21 => "2026-10-21",
        }
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ApiVersion {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Self::V2023_06_01, Self::V2026_10_21]
            .into_iter()
            .find(|version| version.name() == name)
            .ok_or_else(|| {
                "unknown version of Anthropic's API; choose 2023-06-01 or 2026-10-21".to_owned()
            })
    }
}

/// The time that the prompt stays in the cache after its last use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum CacheTime {
    /// Five minutes. Writing costs a quarter more than reading without a cache.
    #[default]
    FiveMinutes,
    /// An hour. Writing costs twice as much as reading without a cache.
    Hour,
}

impl CacheTime {
    /// Returns the field that marks a block as the end of a cached prefix.
    pub(crate) fn mark(self) -> &'static [u8] {
        match self {
            Self::FiveMinutes => br#","cache_control":{"type":"ephemeral"}"#,
            Self::Hour => br#","cache_control":{"type":"ephemeral","ttl":"1h"}"#,
        }
    }
}

/// The form in which a model gets the [effort](toolwright_module::model::Settings::effort).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Thinking {
    /// The model decides how long it thinks, and `output_config.effort` is the effort. Claude 4.6
    /// and later.
    Adaptive,
    /// The effort becomes a maximum of thinking tokens, `thinking.budget_tokens`: 1,024, 2,048,
    /// 8,192, 16,384 or 32,768, and at most three quarters of the maximum of output tokens. Claude
    /// 3.7 to 4.6, and most compatible servers.
    Budget,
}
