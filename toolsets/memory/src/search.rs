//! [`Search`], which matches entries and collects the result of a search.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use regex::{Regex, RegexBuilder};
use toolwright_module::error::Stage;
use toolwright_module::{Error, Result};

use crate::limits::MemoryLimits;
use crate::tools::Found;

/// A running search: a [`Store`](crate::Store) passes it the entries, and it keeps those that
/// match.
///
/// Every store therefore supports the same patterns and limits, and only matching entries are
/// copied. [`show`](Self::show) can take long: about a second for a value of two million bytes
/// and an expensive pattern. Do not hold a lock during the call, and do not call it on a thread of
/// an async runtime.
///
/// ```
/// use toolwright_memory::{Found, MemoryLimits, Search};
///
/// let (in_keys, in_values) = (true, true);
/// let mut search = Search::new("^b", in_keys, in_values, &MemoryLimits::default())?;
/// for (key, value) in [("color", "blue"), ("size", "9")] {
///     if search.show(key, value).is_break() {
///         break;
///     }
/// }
/// let found = Found { key: "color".to_owned(), value: "blue".to_owned() };
/// assert_eq!(search.finish()?, [found]);
/// # Ok::<(), toolwright_module::Error>(())
/// ```
pub struct Search {
    pattern: Regex,
    in_keys: bool,
    in_values: bool,
    found: Vec<Found>,
    found_bytes: usize,
    limits: MemoryLimits,
    too_much: bool,
    abandoned: Arc<AtomicBool>,
}

impl Search {
    /// Starts a search.
    ///
    /// # Errors
    ///
    /// A text for the model if the pattern is not a valid regular expression or is too large.
    pub fn new(
        pattern: &str,
        in_keys: bool,
        in_values: bool,
        limits: &MemoryLimits,
    ) -> Result<Self> {
        Ok(Self {
            pattern: compile(pattern)?,
            in_keys,
            in_values,
            found: Vec::new(),
            found_bytes: 0,
            limits: *limits,
            too_much: false,
            abandoned: Arc::default(),
        })
    }

    /// Keeps the entry if it matches. Returns `Break` if no further entries are needed.
    pub fn show(&mut self, key: &str, value: &str) -> ControlFlow<()> {
        let pointless = !self.in_keys && !self.in_values;
        if pointless || self.too_much || self.abandoned.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        let matches = |looked_in: bool, text: &str| looked_in && self.pattern.is_match(text);
        if matches(self.in_keys, key) || matches(self.in_values, value) {
            self.found_bytes += key.len() + value.len();
            self.too_much = self.found.len() >= self.limits.found_entries
                || self.found_bytes > self.limits.found_bytes;
            if self.too_much {
                return ControlFlow::Break(());
            }
            self.found.push(Found { key: key.to_owned(), value: value.to_owned() });
        }
        ControlFlow::Continue(())
    }

    /// Returns the matching entries, in the order in which they were passed.
    ///
    /// # Errors
    ///
    /// A text for the model if the result exceeds the limits. It is not cut off, because a part of
    /// it would look like the complete result.
    pub fn finish(self) -> Result<Vec<Found>> {
        if !self.too_much {
            return Ok(self.found);
        }
        let MemoryLimits { found_entries, found_bytes, .. } = self.limits;
        let text = format!(
            "the result exceeds the maximum of {found_entries} entries or {found_bytes} bytes; use a pattern that matches less, or list the keys and retrieve single entries"
        );
        Err(Error::retry(text).at(Stage::Limit))
    }

    /// Returns a guard that ends the search when it is dropped, because the caller does not wait
    /// for the result any more.
    pub(crate) fn guard(&self) -> Abandon {
        Abandon(Arc::clone(&self.abandoned))
    }
}

/// Shows the number of matching entries, but not the entries.
impl fmt::Debug for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Search").field("found", &self.found.len()).finish_non_exhaustive()
    }
}

/// The guard of [`Search::guard`].
pub(crate) struct Abandon(Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Maximum size of a compiled pattern, in bytes.
///
/// The worst case of a search is the size of the pattern times the size of the text, so this
/// bounds the factor that a model chooses. `\d{99}` and `\w{5}` fit; `\w` is large because it
/// covers every script. Larger patterns are hardly ever useful.
const MAX_COMPILED_BYTES: usize = 1 << 18;

/// Maximum size of an invalid pattern that the error repeats, in bytes.
const MAX_SHOWN_BYTES: usize = 200;

/// Maximum size of a pattern, in bytes. Parsing a pattern takes hundreds of times its size before
/// the limit above applies.
const MAX_PATTERN_BYTES: usize = 16 << 10;

fn compile(pattern: &str) -> Result<Regex> {
    if pattern.len() > MAX_PATTERN_BYTES {
        let text = "`pattern` is longer than 16384 bytes; use a shorter one";
        return Err(Error::retry(text).at(Stage::Arguments));
    }
    RegexBuilder::new(pattern)
        .case_insensitive(true)
        .size_limit(MAX_COMPILED_BYTES)
        .build()
        .map_err(|error| Error::retry(pattern_error(pattern, &error)).at(Stage::Arguments))
}

/// Returns the error text of an invalid pattern, for the model.
fn pattern_error(pattern: &str, error: &regex::Error) -> String {
    if let regex::Error::CompiledTooBig(_) = error {
        return "`pattern` is too large; use fewer or smaller repetitions".to_owned();
    }
    let details = error.to_string();
    // The regex error repeats the pattern and marks the position. For a long pattern this is left
    // out, because the model pays for every character.
    let details = match details.rsplit_once("\nerror: ") {
        Some((_, reason)) if pattern.len() > MAX_SHOWN_BYTES => reason,
        _ => &details,
    };
    format!(
        "`pattern` is not a regular expression; correct it, or put \\ before a character that is meant literally\n{details}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_ends_when_its_guard_is_dropped() {
        let mut search = Search::new("", true, true, &MemoryLimits::default()).unwrap();
        let guard = search.guard();
        assert!(search.show("key", "value").is_continue());
        drop(guard);
        assert!(search.show("key", "value").is_break());
    }
}
