use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use regex::{Regex, RegexBuilder};
use toolwright_module::error::Stage;
use toolwright_module::{Error, Result};

use crate::limits::Limits;
use crate::tools::search::{Found, MemorySearch};

/// A search under way: a [`Store`](crate::Store) shows it the entries, and it keeps those
/// that match.
///
/// So every store has the same patterns and the same limits, and copies nothing that was
/// not found. To show an entry may take long, a second for two million bytes and a nasty
/// pattern: hold no lock meanwhile, and do not do it on the thread of an async runtime.
///
/// ```
/// use toolwright_memory::{Found, Limits, MemorySearch, Search};
///
/// let input = MemorySearch { pattern: "^b".to_owned(), in_keys: true, in_values: true };
/// let mut search = Search::new(&input, &Limits::default())?;
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
    limits: Limits,
    too_much: bool,
    abandoned: Arc<AtomicBool>,
}

impl Search {
    /// A search that was shown nothing yet.
    ///
    /// # Errors
    ///
    /// The model is told what is wrong with the pattern, or that it is too large.
    pub fn new(input: &MemorySearch, limits: &Limits) -> Result<Self> {
        Ok(Self {
            pattern: compile(&input.pattern)?,
            in_keys: input.in_keys,
            in_values: input.in_values,
            found: Vec::new(),
            found_bytes: 0,
            limits: *limits,
            too_much: false,
            abandoned: Arc::default(),
        })
    }

    /// Keeps the entry if it matches, and says whether it has to see others.
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

    /// What it found, in the order it was shown.
    ///
    /// # Errors
    ///
    /// If that is more than the limits allow, the model is told to search for less: a part
    /// of it would look like all of it.
    pub fn finish(self) -> Result<Vec<Found>> {
        if !self.too_much {
            return Ok(self.found);
        }
        let Limits { found_entries, found_bytes, .. } = self.limits;
        let text = format!(
            "more was found than one search may give ({found_entries} entries, {found_bytes} bytes); use a pattern that matches less, or list the keys and retrieve what is needed"
        );
        Err(Error::retry(text).at(Stage::Limit))
    }

    /// Ends the search when it is dropped: nobody waits for its result any more.
    pub(crate) fn guard(&self) -> Abandon {
        Abandon(Arc::clone(&self.abandoned))
    }
}

/// Says how much was found, never what.
impl fmt::Debug for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Search").field("found", &self.found.len()).finish_non_exhaustive()
    }
}

pub(crate) struct Abandon(Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Bytes that a compiled pattern may take.
///
/// A search takes at worst the size of the pattern times that of the text, so this
/// bounds the half of it that a model chooses. `\d{99}` and `\w{5}` fit (`\w` is large
/// because it knows every script); what does not fit is hardly ever meant.
const LARGEST: usize = 1 << 18;

/// Bytes of a refused pattern that the model is shown again.
const LONGEST_SHOWN: usize = 200;

/// Bytes of a pattern's text: reading a long one takes hundreds of times its size before
/// the bound above is met.
const LONGEST: usize = 16 << 10;

fn compile(pattern: &str) -> Result<Regex> {
    if pattern.len() > LONGEST {
        let text = "`pattern` is longer than 16384 bytes; use a shorter one";
        return Err(Error::retry(text).at(Stage::Arguments));
    }
    RegexBuilder::new(pattern)
        .case_insensitive(true)
        .size_limit(LARGEST)
        .build()
        .map_err(|error| Error::retry(told(pattern, &error)).at(Stage::Arguments))
}

/// What the model can do about a pattern that was refused.
fn told(pattern: &str, error: &regex::Error) -> String {
    if let regex::Error::CompiledTooBig(_) = error {
        return "`pattern` is too large; use fewer or smaller repetitions".to_owned();
    }
    let evidence = error.to_string();
    // The evidence shows the pattern with the place marked: of a long one, the model
    // would pay for every character again.
    let evidence = match evidence.rsplit_once("\nerror: ") {
        Some((_, reason)) if pattern.len() > LONGEST_SHOWN => reason,
        _ => &evidence,
    };
    format!(
        "`pattern` is not a regular expression; correct it, or put \\ before a character that stands for itself\n{evidence}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_ends_when_nobody_waits_for_it() {
        let input = MemorySearch { pattern: String::new(), in_keys: true, in_values: true };
        let mut search = Search::new(&input, &Limits::default()).unwrap();
        let guard = search.guard();
        assert!(search.show("key", "value").is_continue());
        drop(guard);
        assert!(search.show("key", "value").is_break());
    }

    /// A store that does not stop when it is told to changes nothing.
    #[test]
    fn what_is_shown_after_the_limit_is_not_kept() {
        let input = MemorySearch { pattern: String::new(), in_keys: true, in_values: true };
        let mut search = Search::new(&input, &Limits::default().with_found_bytes(3)).unwrap();
        for value in ["ab", "cd", "", "ef"] {
            let _ = search.show("", value);
        }
        assert_eq!(search.found.len(), 1);
        assert!(search.finish().is_err());
    }
}
