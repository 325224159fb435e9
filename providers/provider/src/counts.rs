//! [`TokenCounts`]: the usage that a server's counts of tokens stand for.

use crate::lenient::Count;
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
#[derive(Debug, Clone, Copy, Default)]
pub struct TokenCounts {
    /// Tokens read.
    pub read: Option<Count>,
    /// Tokens written.
    pub written: Option<Count>,
    /// Tokens read from the provider's cache.
    pub cached: Option<Count>,
    /// Tokens written to the provider's cache.
    pub cache_written: Option<Count>,
    /// Reasoning tokens.
    pub reasoning: Option<Count>,
    /// All tokens. It only decides whether a part stands beside its whole.
    pub total: Option<Count>,
}

impl TokenCounts {
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
            reasoning_tokens: reasoning,
            incomplete: false,
        };
        let parts = [self.cached, self.cache_written, self.reasoning];
        usage.incomplete = of(self.read).is_none()
            || of(self.written).is_none()
            || parts.into_iter().flatten().any(|count| count.0.is_none())
            || total.is_some_and(|total| total > sum(beside));
        usage
    }
}
