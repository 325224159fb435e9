//! The eight tools: methods of [`Text`].

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Result, toolset};

use crate::groups::Groups;
use crate::limited_call::{LimitedCall, without_line_end};
use crate::number::number;
use crate::pattern::Pattern;
use crate::search_output::Matches;
use crate::summary::Summary;
use crate::text::Text;

#[toolset(effect = Read, derive(Debug, Clone, PartialEq, Eq))]
impl Text {
    /// Find or count the lines of a text that match a regular expression. The search ignores case by default.
    ///
    /// # Details
    ///
    /// Lines keep their line ends, and a newline is added to a last line without one. With
    /// `count_only`, lines are not stored, so their size is not limited.
    #[tool(render = Matches::render)]
    pub fn grep(
        &self,
        /// Text to search.
        text: &str,
        /// Regular expression or plain words. An empty pattern matches every line.
        pattern: &str,
        /// Ignore case.
        #[default = true]
        ignore_case: bool,
        /// Return only the number of matching lines.
        #[default]
        count_only: bool,
        cx: &Context,
    ) -> Result<Matches> {
        let call = LimitedCall::start(text, self.limits, cx)?;
        let compiled = Pattern::new(pattern, ignore_case)?;
        let mut lines = call.output("use `count_only`, or a `pattern` that matches fewer lines");
        let mut count = 0;
        compiled.search(text, &call, |line| {
            count += 1;
            if count_only { Ok(()) } else { lines.push_line(&text[line]) }
        })?;
        let lines = (!count_only).then(|| lines.finish());
        Ok(Matches { pattern: pattern.to_owned(), count, lines })
    }

    /// Count the lines, words and characters of a text.
    ///
    /// # Details
    ///
    /// If several flags are set, the first one in the order of the parameters applies.
    #[tool(render = Counts::text)]
    pub fn wc(
        &self,
        /// Text to count.
        text: &str,
        /// Return only the number of lines.
        #[default]
        lines_only: bool,
        /// Return only the number of words.
        #[default]
        words_only: bool,
        /// Return only the number of characters.
        #[default]
        chars_only: bool,
        cx: &Context,
    ) -> Result<Counts> {
        let call = LimitedCall::start(text, self.limits, cx)?;
        let (mut lines, mut words, mut characters) = (0, 0, 0);
        call.lines(text, |line| {
            lines += 1;
            words += line.split_whitespace().count();
            characters += line.chars().count();
            Ok(())
        })?;
        let (lines, words, characters) = (Some(lines), Some(words), Some(characters));
        Ok(match (lines_only, words_only, chars_only) {
            (true, _, _) => Counts { lines, words: None, characters: None },
            (_, true, _) => Counts { lines: None, words, characters: None },
            (_, _, true) => Counts { lines: None, words: None, characters },
            _ => Counts { lines, words, characters },
        })
    }

    /// Find the lines of a text that match a regular expression, with context lines around them. The search is case-sensitive.
    ///
    /// # Details
    ///
    /// Lines keep their line ends, and a newline is added to a last line without one. A negative
    /// context means 0. [`Matches::count`] counts the matching lines, without the context lines.
    #[tool(render = Matches::render)]
    pub fn rg(
        &self,
        /// Text to search.
        text: &str,
        /// Regular expression or plain words. An empty pattern matches every line.
        pattern: &str,
        /// Number of context lines before and after each match. A line `--` separates groups of lines that are not adjacent.
        #[default]
        context: i64,
        cx: &Context,
    ) -> Result<Matches> {
        let call = LimitedCall::start(text, self.limits, cx)?;
        let compiled = Pattern::new(pattern, false)?;
        let lines = call.output("use a smaller `context`, or a `pattern` that matches fewer lines");
        let mut groups = Groups::new(text, context, lines);
        let mut count = 0;
        compiled.search(text, &call, |line| {
            count += 1;
            groups.add(line.start, line.end)
        })?;
        let lines = Some(groups.finish()?);
        Ok(Matches { pattern: pattern.to_owned(), count, lines })
    }

    /// Extract a range of lines from a text. Returns an empty text if there are no such lines.
    ///
    /// # Details
    ///
    /// Lines keep their line ends. A range that starts before the first line or ends after the last
    /// one is cut to the text. If the range has no lines, the result is empty.
    #[tool]
    pub fn extract_lines(
        &self,
        /// Text to extract lines from.
        text: &str,
        /// Number of the first line to extract. The text starts with line 1.
        start_line: i64,
        /// Number of the last line to extract. Default: `start_line`.
        end_line: Option<i64>,
        cx: &Context,
    ) -> Result<String> {
        let call = LimitedCall::start(text, self.limits, cx)?;
        let first = start_line.max(1);
        let range = first..=end_line.unwrap_or(first);
        let mut lines = call.output("extract fewer lines");
        let mut number = 0;
        call.lines(text, |line| {
            number += 1;
            if range.contains(&number) { lines.push(line) } else { Ok(()) }
        })?;
        Ok(lines.finish())
    }

    /// Keep or drop the lines of a text that match a regular expression. The search ignores case.
    ///
    /// # Details
    ///
    /// Lines keep their line ends. If no line is kept, the result is empty.
    #[tool]
    pub fn filter_lines(
        &self,
        /// Text to filter.
        text: &str,
        /// Regular expression or plain words. An empty pattern matches every line.
        pattern: &str,
        /// Drop the matching lines and keep the others.
        #[default]
        invert: bool,
        cx: &Context,
    ) -> Result<String> {
        let call = LimitedCall::start(text, self.limits, cx)?;
        let pattern = Pattern::new(pattern, true)?;
        let mut kept = call.output("use a `pattern` that keeps fewer lines");
        // The end of the last matching line.
        let mut done = 0;
        pattern.search(text, &call, |line| {
            let between = done..line.start;
            done = line.end;
            kept.push(&text[if invert { between } else { line }])
        })?;
        if invert {
            kept.push(&text[done..])?;
        }
        Ok(kept.finish())
    }

    /// Remove repeated lines from a text.
    ///
    /// # Details
    ///
    /// Lines are equal if their bytes are equal without the line end. `\r\n` becomes `\n`, and a
    /// newline is added to a last line without one. Sorting is by bytes, which is the order of code
    /// points.
    #[tool]
    pub fn unique_lines(
        &self,
        /// Text to remove repeated lines from.
        text: &str,
        /// Keep lines in the order of their first appearance. If false, sort them.
        #[default = true]
        preserve_order: bool,
        cx: &Context,
    ) -> Result<String> {
        let call = LimitedCall::start(text, self.limits, cx)?;
        let (mut seen, mut unique) = (HashSet::new(), Vec::new());
        call.lines(text, |line| {
            let line = without_line_end(line);
            if seen.insert(line) {
                unique.push(line);
            }
            Ok(())
        })?;
        if !preserve_order {
            unique.sort_unstable();
        }
        call.joined(unique)
    }

    /// Sort the lines of a text.
    ///
    /// # Details
    ///
    /// Lines are sorted by bytes, which is the order of code points, or by the number at their
    /// start, such as `-1.5e3` after white space. Lines with equal numbers keep their order, also in
    /// reverse. `\r\n` becomes `\n`, and a newline is added to a last line without one.
    #[tool]
    pub fn sort_lines(
        &self,
        /// Text whose lines to sort.
        text: &str,
        /// Sort in descending order.
        #[default]
        reverse: bool,
        /// Sort by the number at the start of each line. A line without a number counts as 0.
        #[default]
        numeric: bool,
        cx: &Context,
    ) -> Result<String> {
        let call = LimitedCall::start(text, self.limits, cx)?;
        let mut lines = Vec::new();
        call.lines(text, |line| {
            let line = without_line_end(line);
            lines.push((if numeric { number(line) } else { 0.0 }, line));
            Ok(())
        })?;
        // The sort is stable, also in reverse.
        lines.sort_by(|(a, one), (b, other)| {
            let order = if numeric { a.total_cmp(b) } else { one.cmp(other) };
            if reverse { order.reverse() } else { order }
        });
        call.joined(lines.into_iter().map(|(_, line)| line))
    }

    /// Summarize a text in numbers: lines, words, characters, average lengths and the most frequent words.
    ///
    /// # Details
    ///
    /// Words are counted in lower case and without the characters that `\W` matches: `Café,` and
    /// `café` are the same word, and `don't` becomes `dont`. Text is not normalized: a letter with a
    /// combining mark is two characters, and differs from the precomposed letter.
    #[tool(render = Summary::text)]
    pub fn summarize_text(
        &self,
        /// Text to summarize.
        text: &str,
        cx: &Context,
    ) -> Result<Summary> {
        Summary::of(text, &LimitedCall::start(text, self.limits, cx)?)
    }
}

/// The requested counts. The others are null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Number of lines. Text after the last newline counts as a line.
    pub lines: Option<usize>,
    /// Number of words, which are separated by white space.
    pub words: Option<usize>,
    /// Number of Unicode code points, including line ends.
    pub characters: Option<usize>,
}

impl Counts {
    fn text(&self) -> String {
        let Self { lines, words, characters } = self;
        let parts = [("Lines", lines), ("Words", words), ("Characters", characters)];
        let counts =
            parts.iter().filter_map(|(name, count)| Some(format!("{name}: {}", (**count)?)));
        counts.collect::<Vec<_>>().join(", ")
    }
}
