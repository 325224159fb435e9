//! Settings of model calls, such as the temperature.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Defines [`Settings`] and [`Setting`]: a field, its builder and its name for each setting.
macro_rules! settings {
    ($($(#[$doc:meta])* $field:ident: $type:ty, $with:ident, $kind:ident, $word:literal;)*) => {
        /// Settings of model calls. A setting that is not set is not sent, and the provider's
        /// default applies.
        ///
        /// A model, an agent, a predictor and a request may have settings. For each setting the
        /// nearest one wins: the request's, then that of the agent or predictor, then the model's.
        /// They are not inherited by models inside tools, because the temperature of an
        /// agent is not meant for the models below it.
        ///
        /// ```
        /// use toolwright_module::model::{Effort, Settings};
        ///
        /// let model = Settings::default().with_temperature(0.2).with_seed(7);
        /// let agent = Settings::default().with_temperature(0.0).with_effort(Effort::High);
        /// let sent = agent.over(&model);
        /// assert_eq!((sent.temperature, sent.seed), (Some(0.0), Some(7)));
        /// ```
        ///
        /// An unknown name in stored settings is an error that names it.
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        #[non_exhaustive]
        pub struct Settings {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$type>,)*
            /// Fields of the request's body, by provider and name. They are sent as they are, and
            /// replace fields of the same name. Other providers do not get them.
            #[serde(skip_serializing_if = "BTreeMap::is_empty")]
            pub extra: BTreeMap<String, Map<String, Value>>,
        }

        /// The name of a setting.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Setting {
            $(#[doc = concat!("[`Settings::", stringify!($field), "`].")] $kind,)*
        }

        impl Setting {
            /// All settings that have a name. [`Settings::extra`] has none.
            pub const ALL: &[Self] = &[$(Self::$kind),*];
        }

        impl fmt::Display for Setting {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$kind => $word,)* })
            }
        }

        impl Settings {
            $(
                #[doc = concat!("Sets the ", $word, "; see [`", stringify!($field), "`](Self::", stringify!($field), ").")]
                #[must_use]
                pub fn $with(mut self, $field: $type) -> Self {
                    self.$field = Some($field);
                    self
                }
            )*

            /// Returns these settings, with those of `far` where these have none. The
            /// [`extra`](Self::extra) fields are merged by provider and name.
            #[must_use]
            pub fn over(&self, far: &Self) -> Self {
                let mut extra = far.extra.clone();
                for (provider, fields) in &self.extra {
                    extra.entry(provider.clone()).or_default().extend(fields.clone());
                }
                Self { $($field: self.$field.clone().or_else(|| far.$field.clone()),)* extra }
            }

            /// Returns the names of the settings that are set.
            #[must_use]
            pub fn set(&self) -> SettingSet {
                let mut set = SettingSet::NONE;
                $(if self.$field.is_some() { set = set.with(Setting::$kind); })*
                set
            }

            fn unset(&mut self, setting: Setting) {
                match setting { $(Setting::$kind => self.$field = None,)* }
            }
        }
    };
}

settings! {
    /// Randomness of the answer: 0 for the likeliest words, and at most 1 or 2 by provider.
    temperature: f32, with_temperature, Temperature, "temperature";
    /// The share of likely words to choose from, from 0 to 1.
    top_p: f32, with_top_p, TopP, "top_p";
    /// A number that makes answers repeatable, as far as the provider can.
    seed: u64, with_seed, Seed, "seed";
    /// Texts that end the answer. They are not part of it.
    stop: Vec<String>, with_stop, Stop, "stop texts";
    /// How much the model reasons before it answers.
    effort: Effort, with_effort, Effort, "reasoning effort";
    /// Maximum number of tokens that the model may write, including reasoning. Default:
    /// [`Request::MAX_OUTPUT_TOKENS`](crate::Request::MAX_OUTPUT_TOKENS).
    max_output_tokens: u64, with_max_output_tokens, MaxOutputTokens, "maximum of output tokens";
    /// Whether one reply may call several tools. Provider's default: usually yes.
    parallel_calls: bool, with_parallel_calls, ParallelCalls, "parallel calls";
    /// Whether the provider may cache the prompt. Default: yes, where the provider has a cache.
    cache: bool, with_cache, Cache, "prompt cache";
    /// An id of the person for whom the request is made, for the provider's abuse reports. Send no
    /// name or address.
    user: String, with_user, User, "user";
    /// Names and values that the provider stores with the request.
    metadata: BTreeMap<String, String>, with_metadata, Metadata, "metadata";
}

impl Settings {
    /// Adds a field to the request's body for one provider; see [`extra`](Self::extra).
    ///
    /// ```
    /// use toolwright_module::model::Settings;
    ///
    /// let settings = Settings::default().with_extra("openai", "verbosity", "low");
    /// assert_eq!(settings.extra["openai"]["verbosity"], "low");
    /// ```
    #[must_use]
    pub fn with_extra(
        mut self,
        provider: impl Into<String>,
        name: impl Into<String>,
        value: impl Into<Value>,
    ) -> Self {
        self.extra.entry(provider.into()).or_default().insert(name.into(), value.into());
        self
    }

    /// Returns the largest number of tokens that a server may write if it is asked for `most`. Extra
    /// fields may replace this maximum, and may ask for several replies, which all cost. The provider
    /// is not known here, so the fields of each one count.
    pub(crate) fn most_written(&self, most: u64) -> u64 {
        let of_fields = |fields: &Map<String, Value>| {
            let nested = ["generationConfig", "generation_config"].into_iter();
            let nested = nested.filter_map(|name| fields.get(name)?.as_object());
            nested.chain([fields]).map(|fields| most_of(fields, most)).max().unwrap_or(most)
        };
        self.extra.values().map(of_fields).max().unwrap_or(most)
    }

    /// Checks that a model supports all settings that are set, and that numbers are finite.
    ///
    /// # Errors
    ///
    /// [`UnsupportedSetting`] names the first setting at fault.
    pub fn check(&self, supported: SettingSet) -> Result<(), UnsupportedSetting> {
        let mut unsupported = self.set().iter().filter(|setting| !supported.has(*setting));
        if let Some(setting) = unsupported.next() {
            return Err(UnsupportedSetting { setting, is_finite: true });
        }
        let numbers = [(Setting::Temperature, self.temperature), (Setting::TopP, self.top_p)];
        match numbers.into_iter().find(|(_, number)| number.is_some_and(|n| !n.is_finite())) {
            Some((setting, _)) => Err(UnsupportedSetting { setting, is_finite: false }),
            None => Ok(()),
        }
    }

    /// Splits the settings into those that a model supports and the names of the others. Use it to
    /// give the same settings to models with different abilities.
    ///
    /// ```
    /// use toolwright_module::Dialect;
    /// use toolwright_module::model::{Capabilities, Setting, SettingSet, Settings};
    ///
    /// let supported = SettingSet::NONE.with(Setting::Temperature);
    /// let settings = Settings::default().with_temperature(0.0).with_seed(7);
    /// let (settings, left_out) = settings.supported_by(supported);
    /// assert_eq!(left_out, [Setting::Seed]);
    /// assert!(settings.check(supported).is_ok());
    /// ```
    #[must_use]
    pub fn supported_by(mut self, supported: SettingSet) -> (Self, Vec<Setting>) {
        let left_out: Vec<_> =
            self.set().iter().filter(|setting| !supported.has(*setting)).collect();
        left_out.iter().for_each(|setting| self.unset(*setting));
        (self, left_out)
    }
}

/// How much a model reasons before it answers: one scale for all providers. A provider with fewer
/// levels uses the nearest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effort {
    /// No reasoning.
    Off,
    /// As little as possible.
    Minimal,
    /// A little.
    Low,
    /// The middle.
    Medium,
    /// Much.
    High,
    /// As much as the model can.
    Max,
}

/// A set of settings, such as those that a model supports.
///
/// ```
/// use toolwright_module::model::{Setting, SettingSet};
///
/// let supported = SettingSet::ALL.without(Setting::Seed);
/// assert!(supported.has(Setting::TopP) && !supported.has(Setting::Seed));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct SettingSet(u16);

impl SettingSet {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// All settings.
    pub const ALL: Self = Self((1 << Setting::ALL.len()) - 1);

    /// Returns the set with a setting.
    #[must_use]
    pub const fn with(self, setting: Setting) -> Self {
        Self(self.0 | 1 << setting as u16)
    }

    /// Returns the set without a setting.
    #[must_use]
    pub const fn without(self, setting: Setting) -> Self {
        Self(self.0 & !(1 << setting as u16))
    }

    /// Returns whether the set has a setting.
    #[must_use]
    pub const fn has(self, setting: Setting) -> bool {
        self.0 & 1 << setting as u16 != 0
    }

    /// Returns the settings in the set.
    pub(crate) fn iter(self) -> impl Iterator<Item = Setting> {
        Setting::ALL.iter().copied().filter(move |setting| self.has(*setting))
    }
}

impl fmt::Debug for SettingSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// A setting that a model cannot use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnsupportedSetting {
    /// Setting that the model does not support.
    pub setting: Setting,
    /// Whether its value can be sent. JSON has no form for NaN and infinity.
    is_finite: bool,
}

impl fmt::Display for UnsupportedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, is_finite } = self;
        if !is_finite {
            return write!(f, "the setting `{setting}` is not a finite number");
        }
        write!(
            f,
            "the model does not support the setting `{setting}`; leave it out, or call `Settings::supported_by` to leave out all that it does not support"
        )
    }
}

impl std::error::Error for UnsupportedSetting {}

/// Returns the largest number of tokens that a server may write for these fields of a request.
fn most_of(fields: &Map<String, Value>, most: u64) -> u64 {
    const MOST: [&str; 5] = [
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "maxOutputTokens",
        "max_tokens_to_sample",
    ];
    const REPLIES: [&str; 4] = ["n", "best_of", "candidateCount", "candidate_count"];
    let counts = |names: &'static [&str]| names.iter().filter_map(|name| fields.get(*name));
    // Without a maximum, nothing limits the server.
    let maximum = counts(&MOST).map(|value| value.as_u64().unwrap_or(u64::MAX)).max();
    let replies = counts(&REPLIES).filter(|value| !value.is_null());
    let replies = replies.map(|value| value.as_u64().unwrap_or(u64::MAX)).max();
    most.max(maximum.unwrap_or_default()).saturating_mul(replies.unwrap_or(1).max(1))
}
