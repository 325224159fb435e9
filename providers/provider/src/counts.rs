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
        let mut usage = Usage::new(read.saturating_add(beside.0), written.saturating_add(beside.1))
            .with_cached(cached)
            .with_cache_written(cache_written)
            .with_reasoning(reasoning);
        let parts = [self.cached, self.cache_written, self.reasoning];
        usage.incomplete = of(self.read).is_none()
            || of(self.written).is_none()
            || parts.into_iter().flatten().any(|count| count.0.is_none())
            || total.is_some_and(|total| total > sum(beside));
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(tokens: u64) -> Option<Count> {
        Some(Count(Some(tokens)))
    }

    const BAD: Option<Count> = Some(Count(None));

    #[test]
    fn a_part_is_in_its_whole_or_beside_it() {
        let plain = TokenCounts { read: count(100), written: count(20), ..TokenCounts::default() };
        for (name, counts, expected) in [
            ("plain", plain, (100, 20, false)),
            ("total of both", TokenCounts { total: count(120), ..plain }, (100, 20, false)),
            (
                "cached within",
                TokenCounts { cached: count(80), total: count(120), ..plain },
                (100, 20, false),
            ),
            (
                "cached beside",
                TokenCounts { cached: count(80), total: count(200), ..plain },
                (180, 20, false),
            ),
            (
                "both caches beside",
                TokenCounts {
                    cached: count(80),
                    cache_written: count(7),
                    total: count(207),
                    ..plain
                },
                (187, 20, false),
            ),
            ("cached without total", TokenCounts { cached: count(80), ..plain }, (100, 20, false)),
            (
                "more cached than read, and a total of the wholes",
                TokenCounts { cached: count(800), total: count(120), ..plain },
                (100, 20, false),
            ),
            (
                "more cached than read",
                TokenCounts { cached: count(800), ..plain },
                (900, 20, false),
            ),
            (
                "reasoning within",
                TokenCounts { reasoning: count(5), total: count(120), ..plain },
                (100, 20, false),
            ),
            (
                "reasoning beside",
                TokenCounts { reasoning: count(5), total: count(125), ..plain },
                (100, 25, false),
            ),
            (
                "more reasoning than written",
                TokenCounts { reasoning: count(50), ..plain },
                (100, 70, false),
            ),
            (
                "all beside",
                TokenCounts { cached: count(80), reasoning: count(5), total: count(205), ..plain },
                (180, 25, false),
            ),
            ("a total of more", TokenCounts { total: count(900), ..plain }, (100, 20, true)),
            ("a total of less", TokenCounts { total: count(9), ..plain }, (100, 20, false)),
            ("a total that is none", TokenCounts { total: BAD, ..plain }, (100, 20, false)),
            (
                "written is no count",
                TokenCounts { written: BAD, total: count(120), ..plain },
                (100, 0, true),
            ),
            (
                "written is missing",
                TokenCounts { written: None, total: count(120), ..plain },
                (100, 0, true),
            ),
            ("read is missing", TokenCounts { read: None, ..plain }, (0, 20, true)),
            ("cached is no count", TokenCounts { cached: BAD, ..plain }, (100, 20, true)),
        ] {
            let usage = counts.usage();
            let found = (usage.input_tokens, usage.output_tokens, usage.incomplete);
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn the_first_count_that_is_not_zero_is_used() {
        assert_eq!(TokenCounts::first([None, count(0), count(7), count(8)]), count(7));
        assert_eq!(TokenCounts::first([None, count(0)]), count(0));
        assert_eq!(TokenCounts::first([None, BAD, count(7)]), BAD);
        assert_eq!(TokenCounts::first([None, None]), None);
    }
}
