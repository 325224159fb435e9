use std::ops::Range;

use grep_matcher::{LineMatchKind, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use memchr::{memchr, memrchr};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::Hir;
use toolwright_module::error::Stage;
use toolwright_module::{Error, Result};

use crate::long_line::LongLine;
use crate::work::{STRIDE, Work, bare};

/// Bytes that a compiled pattern may take.
///
/// A search takes at worst the size of the pattern times that of the text, so this
/// bounds the half of it that a model chooses. `\d{99}` and `\w{9}` fit (`\w` is large
/// because it knows every script); what does not fit is hardly ever meant.
const LARGEST: usize = 1 << 19;

/// Bytes of a pattern as it is written: a longer one hardly ever fits compiled, and reading
/// it costs thousands of times its size.
const LONGEST: usize = 1 << 14;

/// Bytes that the engine may keep of the automaton that it builds while it searches.
const CACHE: usize = 4 << 20;

/// How deep groups may be inside each other.
const DEEPEST: u32 = 250;

/// Bytes of a refused pattern that the model is shown again.
const LONGEST_SHOWN: usize = 200;

/// A regular expression that finds lines.
pub(crate) struct Pattern {
    matcher: RegexMatcher,
    hir: Hir,
}

impl Pattern {
    pub(crate) fn new(pattern: &str, ignore_case: bool) -> Result<Self> {
        let refuse = |text: String| Error::retry(text).at(Stage::Arguments);
        if pattern.len() > LONGEST {
            return Err(refuse(too_large()));
        }
        // The builder below puts the pattern into a group first: `a)(b` would pass, and
        // the evidence would show what nobody wrote.
        let mut parser = ParserBuilder::new()
            .utf8(false)
            .multi_line(true)
            .crlf(true)
            .case_insensitive(ignore_case)
            .nest_limit(DEEPEST)
            .build();
        let hir =
            parser.parse(pattern).map_err(|error| refuse(told(pattern, &error.to_string())))?;
        let mut builder = RegexMatcherBuilder::new();
        builder
            .multi_line(true)
            .crlf(true)
            .case_insensitive(ignore_case)
            .size_limit(LARGEST)
            .dfa_size_limit(CACHE)
            // Of its own group.
            .nest_limit(DEEPEST + 1);
        let matcher = builder
            .build(pattern)
            // A comment of `(?x)` at the end takes the end of that group with it; a newline
            // ends it, and is refused anywhere else.
            .or_else(|error| builder.build(&format!("{pattern}\n")).map_err(|_| error))
            .map_err(|error| refuse(refused(pattern, &error)))?;
        Ok(Self { matcher, hir })
    }

    #[cfg(test)]
    pub(crate) fn hir(&self) -> &Hir {
        &self.hir
    }

    /// Hands on where each line is that matches, from its first byte to the one after its
    /// end, in order.
    pub(crate) fn search(
        &self,
        text: &str,
        work: &Work<'_>,
        mut found: impl FnMut(Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let bytes = text.as_bytes();
        let mut long_line = None;
        let mut start = 0;
        while start < bytes.len() {
            work.check()?;
            let limit = start.saturating_add(STRIDE);
            let end = match bytes.get(start..limit) {
                // Whole lines, so that no match is cut.
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
            let long_line = match &mut long_line {
                Some(there) => there,
                none => none.insert(LongLine::new(&self.hir, LARGEST, CACHE)?),
            };
            if long_line.matches(&self.matcher, bare(&text[start..end]), work)? {
                found(start..end)?;
            }
            start = end;
        }
        work.check()
    }

    /// Of a pattern that cannot match across lines: all of them are searched at once.
    fn search_lines(
        &self,
        text: &str,
        lines: Range<usize>,
        found: &mut impl FnMut(Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let bytes = text.as_bytes();
        let Range { mut start, end } = lines;
        while start < end {
            // From the start of a line, so that what looks back sees a start.
            let Some(hit) = self.matcher.find_candidate_line(&bytes[start..end])? else { break };
            let (LineMatchKind::Confirmed(at) | LineMatchKind::Candidate(at)) = hit;
            let at = start + at;
            if at == end && bytes[end - 1] == b'\n' {
                // After the last line's end there is no further line.
                break;
            }
            let from = memrchr(b'\n', &bytes[start..at]).map_or(start, |before| start + before + 1);
            start = line_end(&bytes[..end], at);
            // A candidate only has the words that every match has.
            let sure = matches!(hit, LineMatchKind::Confirmed(_));
            if sure || self.matcher.is_match(bare(&text[from..start]).as_bytes())? {
                found(from..start)?;
            }
        }
        Ok(())
    }

    /// Of a pattern that asks for the start or the end of the text, which is the line's.
    fn search_each(
        &self,
        text: &str,
        lines: Range<usize>,
        found: &mut impl FnMut(Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let mut start = lines.start;
        for line in text[lines].split_inclusive('\n') {
            if self.matcher.is_match(bare(line).as_bytes())? {
                found(start..start + line.len())?;
            }
            start += line.len();
        }
        Ok(())
    }
}

/// After the end of the line that has a byte at `at`.
fn line_end(bytes: &[u8], at: usize) -> usize {
    memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |end| at + end + 1)
}

/// What the model can do about a pattern that was read and is still refused.
fn refused(pattern: &str, error: &grep_regex::Error) -> String {
    match error.kind() {
        grep_regex::ErrorKind::NotAllowed(_) => {
            "`pattern` asks for the end of a line, and each line is searched alone; leave out \\n and \\r, or use $".to_owned()
        }
        // There is no kind of its own for this.
        grep_regex::ErrorKind::Regex(text) if text.contains("size limit") => too_large(),
        _ => told(pattern, &error.to_string()),
    }
}

fn too_large() -> String {
    "`pattern` is too large; use fewer or smaller repetitions".to_owned()
}

fn told(pattern: &str, evidence: &str) -> String {
    // The evidence shows the pattern with the place marked: of a long one, the model
    // would pay for every character again.
    let evidence = match evidence.rsplit_once("\nerror: ") {
        Some((_, reason)) if pattern.len() > LONGEST_SHOWN => reason,
        _ => evidence,
    };
    format!(
        "`pattern` is not a regular expression; correct it, or put \\ before a character that stands for itself\n{evidence}"
    )
}
