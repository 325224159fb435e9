//! [`TokenCounts`]: the usage that a server's counts of tokens stand for.

use serde::Deserialize;

use crate::lenient::{Count, object};
use toolwright_module::model::Usage;

/// The counts of tokens in a reply, as the server names them.
///
/// A count is `None` if the server leaves it out, and `Some(Count(None))` if its value is not a
/// count, such as -3. Servers differ in what the numbers contain: cached tokens may be a part of
/// those that were read, or stand beside them, and so may reasoning.
///
/// ```
/// use toolwright_provider::TokenCounts;
/// use toolwright_provider::lenient::Count;
///
/// let count = |tokens| Some(Count(Some(tokens)));
/// let counts = TokenCounts {
///     read: count(368),
///     written: count(19),
///     cached: count(10_536),
///     total: count(10_923),
///     ..TokenCounts::default()
/// };
/// let usage = counts.usage();
/// assert_eq!((usage.input_tokens, usage.output_tokens), (10_904, 19));
/// ```
///
/// They are deserialized from the names of OpenAI's APIs and of Anthropic's, whatever the API,
/// because gateways send the names of one in the replies of another.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(from = "Names")]
pub struct TokenCounts {
    /// Tokens read.
    pub read: Option<Count>,
    /// Tokens written.
    pub written: Option<Count>,
    /// Tokens read from the provider's cache.
    pub cached: Option<Count>,
    /// Tokens written to the provider's cache.
    pub cache_written: Option<Count>,
    /// Tokens that the provider's cache keeps for an hour; part of `cache_written`.
    pub cache_written_1h: Option<Count>,
    /// Tokens of audio that were read; part of `read`.
    pub audio_read: Option<Count>,
    /// Tokens of audio that were written; part of `written`.
    pub audio_written: Option<Count>,
    /// Reasoning tokens.
    pub reasoning: Option<Count>,
    /// All tokens. It only decides whether a part stands beside its whole.
    pub total: Option<Count>,
}

/// The names of the counts.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Names {
    /// Chat Completions.
    prompt_tokens: Option<Count>,
    completion_tokens: Option<Count>,
    #[serde(deserialize_with = "object")]
    prompt_tokens_details: Parts,
    #[serde(deserialize_with = "object")]
    completion_tokens_details: Parts,
    /// Responses, and the first two also Anthropic.
    input_tokens: Option<Count>,
    output_tokens: Option<Count>,
    #[serde(deserialize_with = "object")]
    input_tokens_details: Parts,
    #[serde(deserialize_with = "object")]
    output_tokens_details: Parts,
    total_tokens: Option<Count>,
    /// Anthropic.
    cache_read_input_tokens: Option<Count>,
    cache_creation_input_tokens: Option<Count>,
    #[serde(deserialize_with = "object")]
    cache_creation: ByAge,
    /// DeepSeek.
    prompt_cache_hit_tokens: Option<Count>,
    // Other servers with Chat Completions.
    num_cached_tokens: Option<Count>,
    cached_tokens: Option<Count>,
    reasoning_tokens: Option<Count>,
}

/// The parts of a count.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Parts {
    cached_tokens: Option<Count>,
    cache_write_tokens: Option<Count>,
    audio_tokens: Option<Count>,
    reasoning_tokens: Option<Count>,
    thinking_tokens: Option<Count>,
}

/// The tokens written to Anthropic's cache, by the time that they stay. Their sum has a name of its own.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ByAge {
    ephemeral_5m_input_tokens: Option<Count>,
    ephemeral_1h_input_tokens: Option<Count>,
}

impl From<Names> for TokenCounts {
    fn from(names: Names) -> Self {
        let [read, written] = [
            [names.prompt_tokens_details, names.input_tokens_details],
            [names.completion_tokens_details, names.output_tokens_details],
        ];
        let ages = &names.cache_creation;
        let by_age = Self::sum(ages.ephemeral_5m_input_tokens, ages.ephemeral_1h_input_tokens);
        let cached = [
            names.prompt_cache_hit_tokens,
            names.num_cached_tokens,
            names.cached_tokens,
            names.cache_read_input_tokens,
        ];
        let cache_written = [names.cache_creation_input_tokens, by_age];
        Self {
            read: Self::first([names.prompt_tokens, names.input_tokens]),
            written: Self::first([names.completion_tokens, names.output_tokens]),
            cached: Self::first(read.iter().map(|parts| parts.cached_tokens).chain(cached)),
            cache_written: Self::first(
                read.iter().map(|parts| parts.cache_write_tokens).chain(cache_written),
            ),
            cache_written_1h: ages.ephemeral_1h_input_tokens,
            audio_read: Self::first(read.iter().map(|parts| parts.audio_tokens)),
            audio_written: Self::first(written.iter().map(|parts| parts.audio_tokens)),
            reasoning: Self::first(
                written
                    .iter()
                    .flat_map(|parts| [parts.reasoning_tokens, parts.thinking_tokens])
                    .chain([names.reasoning_tokens]),
            ),
            total: names.total_tokens,
        }
    }
}

impl TokenCounts {
    /// Returns the sum of two counts. It is not a count if one of them is not.
    #[must_use]
    pub fn sum(one: Option<Count>, other: Option<Count>) -> Option<Count> {
        match (one, other) {
            (Some(one), Some(other)) => {
                Some(Count(one.0.zip(other.0).map(|(one, other)| one.saturating_add(other))))
            }
            (one, other) => one.or(other),
        }
    }

    /// Returns the count in the first field that has one, preferring one that is not zero: a server
    /// may send the same count under several names.
    #[must_use]
    pub fn first(of: impl IntoIterator<Item = Option<Count>>) -> Option<Count> {
        let mut found = None;
        for count in of.into_iter().flatten() {
            if count.0 != Some(0) {
                return Some(count);
            }
            found = found.or(Some(count));
        }
        found
    }

    /// Takes the counts of a later event of a stream. One that it leaves out, or has as zero or as a
    /// value that is not a count, stays.
    pub fn update(&mut self, later: Self) {
        let newer = |known: &mut Option<Count>, later: Option<Count>| {
            let later = later.filter(|later| later.0.is_some() || known.is_none());
            *known = Self::first([later, *known]);
        };
        newer(&mut self.read, later.read);
        newer(&mut self.written, later.written);
        newer(&mut self.cached, later.cached);
        newer(&mut self.cache_written, later.cache_written);
        newer(&mut self.cache_written_1h, later.cache_written_1h);
        newer(&mut self.audio_read, later.audio_read);
        newer(&mut self.audio_written, later.audio_written);
        newer(&mut self.reasoning, later.reasoning);
        newer(&mut self.total, later.total);
    }

    /// Returns the usage.
    ///
    /// The total decides: it is the sum of either the wholes, or of the wholes and the parts beside
    /// them. Without such a total, a part that is larger than its whole stands beside it. The total
    /// itself counts nothing: tokens that no field names are unknown, and the usage is
    /// [incomplete](Usage::incomplete). It is incomplete too without the tokens read or written, and
    /// if a value is not a count.
    #[must_use]
    pub fn usage(self) -> Usage {
        let of = |count: Option<Count>| count.and_then(|count| count.0);
        let named = |count| of(count).unwrap_or_default();
        let (read, written) = (named(self.read), named(self.written));
        let (cached, cache_written) = (named(self.cached), named(self.cache_written));
        let reasoning = named(self.reasoning);
        let caches = cached.saturating_add(cache_written);
        let inputs = [0, caches, cached, cache_written];
        let sums = [0, reasoning].into_iter();
        let mut sums = sums.flat_map(|output| inputs.map(|input| (input, output)));
        let sum = |(input, output): (u64, u64)| {
            [read, input, written, output].into_iter().fold(0, u64::saturating_add)
        };
        let total = of(self.total);
        let beside = sums.find(|beside| Some(sum(*beside)) == total).unwrap_or_else(|| {
            let beside = |part, whole| if part > whole { part } else { 0 };
            (beside(caches, read), beside(reasoning, written))
        });
        let mut usage = Usage {
            input_tokens: read.saturating_add(beside.0),
            output_tokens: written.saturating_add(beside.1),
            cached_tokens: cached,
            cache_written_tokens: cache_written,
            cache_written_1h_tokens: named(self.cache_written_1h),
            audio_input_tokens: named(self.audio_read),
            audio_output_tokens: named(self.audio_written),
            reasoning_tokens: reasoning,
            incomplete: false,
        };
        let caches = [self.cached, self.cache_written, self.cache_written_1h];
        let parts = caches.into_iter().chain([self.audio_read, self.audio_written, self.reasoning]);
        usage.incomplete = of(self.read).is_none()
            || of(self.written).is_none()
            || parts.flatten().any(|count| count.0.is_none())
            || total.is_some_and(|total| total > sum(beside));
        usage
    }
}
