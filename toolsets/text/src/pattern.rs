//! [`Pattern`], a regular expression that finds the matching lines of a text.

use std::ops::Range;

use grep_matcher::{LineMatchKind, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use memchr::{memchr, memrchr};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::Hir;
use toolwright_module::error::Stage;
use toolwright_module::{Error, Result};

use crate::interruptible_search::InterruptibleSearch;
use crate::limited_call::{LimitedCall, STRIDE, without_line_end};

/// Maximum size of a compiled pattern, in bytes.
///
/// The worst case of a search is the size of the pattern times the size of the text, so this
/// bounds the factor that a model chooses. `\d{99}` and `\w{9}` fit; `\w` is large because it
/// covers every script. Larger patterns are hardly ever useful.
const MAX_COMPILED_BYTES: usize = 1 << 19;

/// Maximum size of a pattern, in bytes. A longer one hardly ever fits when it is compiled, and
/// parsing it needs thousands of times its size.
const MAX_PATTERN_BYTES: usize = 1 << 14;

/// Maximum size of the matcher's cache, in bytes.
const CACHE_BYTES: usize = 4 << 20;

/// Maximum nesting depth of groups.
const MAX_NESTING: u32 = 250;

/// Maximum size of an invalid pattern that the error repeats, in bytes.
const MAX_SHOWN_BYTES: usize = 200;

/// A regular expression that finds lines.
pub(crate) struct Pattern {
    matcher: RegexMatcher,
    hir: Hir,
}

impl Pattern {
    pub(crate) fn new(pattern: &str, ignore_case: bool) -> Result<Self> {
        let invalid = |text: String| Error::retry(text).at(Stage::Arguments);
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(invalid(too_large()));
        }
        // The builder below puts the pattern into a group, which would accept `a)(b`, and its errors
        // would show the group.
        let mut parser = ParserBuilder::new()
            .utf8(false)
            .multi_line(true)
            .crlf(true)
            .case_insensitive(ignore_case)
            .nest_limit(MAX_NESTING)
            .build();
        let hir = parser
            .parse(pattern)
            .map_err(|error| invalid(syntax_error(pattern, &error.to_string())))?;
        let mut builder = RegexMatcherBuilder::new();
        builder
            .multi_line(true)
            .crlf(true)
            .case_insensitive(ignore_case)
            .size_limit(MAX_COMPILED_BYTES)
            .dfa_size_limit(CACHE_BYTES)
            // The builder's own group adds one level.
            .nest_limit(MAX_NESTING + 1);
        let matcher = builder
            .build(pattern)
            // A comment of `(?x)` at the end of the pattern would include the end of the builder's
            // group. A newline ends the comment; elsewhere it was rejected before.
            .or_else(|error| builder.build(&format!("{pattern}\n")).map_err(|_| error))
            .map_err(|error| invalid(build_error(pattern, &error)))?;
        Ok(Self { matcher, hir })
    }

    #[cfg(test)]
    pub(crate) fn hir(&self) -> &Hir {
        &self.hir
    }

    /// Calls `found` with the range of each matching line, including its line end, in order.
    pub(crate) fn search(
        &self,
        text: &str,
        call: &LimitedCall<'_>,
        mut found: impl FnMut(Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let bytes = text.as_bytes();
        let mut search = None;
        let mut start = 0;
        while start < bytes.len() {
            call.check()?;
            let limit = start.saturating_add(STRIDE);
            let end = match bytes.get(start..limit) {
                // The part ends after a line end, so that no line is split.
                Some(next) => memrchr(b'\n', next).map(|newline| start + newline + 1),
                None => Some(bytes.len()),
            };
            if let Some(end) = end {
                if self.matcher.line_terminator().is_some() {
                    self.search_lines(text, start..end, &mut found)?;
                } else {
                    self.search_each(text, start..end, &mut found)?;
                }
                start = end;
                continue;
            }
            let end = line_end(bytes, limit);
            let search = match &mut search {
                Some(search) => search,
                empty => empty.insert(InterruptibleSearch::new(
                    &self.hir,
                    MAX_COMPILED_BYTES,
                    CACHE_BYTES,
                )?),
            };
            if search.matches(&self.matcher, without_line_end(&text[start..end]), call)? {
                found(start..end)?;
            }
            start = end;
        }
        call.check()
    }

    /// Searches all lines in one pass. This requires a pattern that cannot match across lines.
    fn search_lines(
        &self,
        text: &str,
        lines: Range<usize>,
        found: &mut impl FnMut(Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let bytes = text.as_bytes();
        let Range { mut start, end } = lines;
        while start < end {
            // The search starts at the start of a line, so that `^` and `\b` match there.
            let Some(hit) = self.matcher.find_candidate_line(&bytes[start..end])? else { break };
            let (LineMatchKind::Confirmed(at) | LineMatchKind::Candidate(at)) = hit;
            let at = start + at;
            if at == end && bytes[end - 1] == b'\n' {
                // The position after the last line end is not a line.
                break;
            }
            let from = memrchr(b'\n', &bytes[start..at]).map_or(start, |before| start + before + 1);
            start = line_end(&bytes[..end], at);
            // A candidate line has the literals of the pattern, but may not match.
            let confirmed = matches!(hit, LineMatchKind::Confirmed(_));
            if confirmed
                || self.matcher.is_match(without_line_end(&text[from..start]).as_bytes())?
            {
                found(from..start)?;
            }
        }
        Ok(())
    }

    /// Searches line by line. This is for a pattern with `\A` or `\z`, which refer to the line.
    fn search_each(
        &self,
        text: &str,
        lines: Range<usize>,
        found: &mut impl FnMut(Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let mut start = lines.start;
        for line in text[lines].split_inclusive('\n') {
            if self.matcher.is_match(without_line_end(line).as_bytes())? {
                found(start..start + line.len())?;
            }
            start += line.len();
        }
        Ok(())
    }
}

/// Returns the position after the line that contains `at`.
fn line_end(bytes: &[u8], at: usize) -> usize {
    memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |end| at + end + 1)
}

/// Returns the error text of a pattern that was parsed but cannot be built.
fn build_error(pattern: &str, error: &grep_regex::Error) -> String {
    match error.kind() {
        grep_regex::ErrorKind::NotAllowed(_) => {
            "`pattern` has \\n or \\r, but each line is searched separately; leave them out, or use $".to_owned()
        }
        // The error has no kind for this.
        grep_regex::ErrorKind::Regex(text) if text.contains("size limit") => too_large(),
        _ => syntax_error(pattern, &error.to_string()),
    }
}

fn too_large() -> String {
    "`pattern` is too large; use fewer or smaller repetitions".to_owned()
}

/// Returns the error text of a pattern that is not a regular expression.
fn syntax_error(pattern: &str, details: &str) -> String {
    // The parse error repeats the pattern and marks the position. For a long pattern this is left
    // out, because the model pays for every character.
    let details = match details.rsplit_once("\nerror: ") {
        Some((_, reason)) if pattern.len() > MAX_SHOWN_BYTES => reason,
        _ => details,
    };
    format!(
        "`pattern` is not a regular expression; correct it, or put \\ before a character that is meant literally\n{details}"
    )
}
