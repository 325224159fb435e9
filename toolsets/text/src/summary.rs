//! [`Summary`], the output of `text_summarize_text`.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::Result;

use crate::limited_call::LimitedCall;

/// Statistics of a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Number of lines. Text after the last newline counts as a line.
    pub lines: usize,
    /// Number of words, which are separated by white space.
    pub words: usize,
    /// Number of Unicode code points, including line ends.
    pub characters: usize,
    /// Average number of characters in a line, including line ends, rounded to 2 decimals. 0 if there are no lines.
    pub average_line_length: f64,
    /// Average number of characters in a word, including punctuation, rounded to 2 decimals. 0 if there are no words.
    pub average_word_length: f64,
    /// The 5 most frequent words. Words with the same count are in the order of their first appearance.
    pub most_frequent_words: Vec<Frequency>,
}

/// A word and how often it appears.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Frequency {
    /// The word in lower case, without punctuation. It has at least 3 characters.
    pub word: String,
    /// Number of times that the word appears.
    pub count: usize,
}

/// Number of words in the list of frequent words.
const MAX_FREQUENT: usize = 5;

/// Minimum number of characters of a frequent word.
const MIN_CHARACTERS: usize = 3;

impl Summary {
    /// Returns the statistics of a text.
    pub(crate) fn of(text: &str, call: &LimitedCall<'_>) -> Result<Self> {
        let (mut lines, mut words, mut characters, mut in_words) = (0, 0, 0, 0);
        // The count of each word, and the position of its first occurrence.
        let mut frequencies: HashMap<String, (usize, usize)> = HashMap::new();
        call.lines(text, |line| {
            lines += 1;
            characters += line.chars().count();
            for word in line.split_whitespace() {
                words += 1;
                in_words += word.chars().count();
                if let Some(word) = counted_form(word) {
                    frequencies.entry(word).or_insert((0, words)).0 += 1;
                }
            }
            Ok(())
        })?;
        let mut most: Vec<_> = frequencies.into_iter().collect();
        let rank = |(_, (count, first)): &(String, (usize, usize))| (Reverse(*count), *first);
        if most.len() > MAX_FREQUENT {
            most.select_nth_unstable_by_key(MAX_FREQUENT, rank);
            most.truncate(MAX_FREQUENT);
        }
        most.sort_unstable_by_key(rank);
        let bytes = most.iter().map(|(word, _)| word.len()).sum();
        call.check_output(bytes, "send text with shorter words")?;
        call.check()?;
        let most = most.into_iter().map(|(word, (count, _))| Frequency { word, count });
        Ok(Self {
            lines,
            words,
            characters,
            average_line_length: average(characters, lines),
            average_word_length: average(in_words, words),
            most_frequent_words: most.collect(),
        })
    }

    /// Returns the text for the model.
    pub(crate) fn text(&self) -> String {
        let Self { lines, words, characters, .. } = self;
        let average = |length: f64, of: usize| match of {
            0 => "0".to_owned(),
            // `{:?}` writes at least one decimal: 13.0.
            _ => format!("{length:?}"),
        };
        let mut text = format!(
            "Text Summary:\n  Lines: {lines}\n  Words: {words}\n  Characters: {characters}\n  Average line length: {}\n  Average word length: {}",
            average(self.average_line_length, *lines),
            average(self.average_word_length, *words),
        );
        if !self.most_frequent_words.is_empty() {
            text += "\n  Most frequent words:";
        }
        for Frequency { word, count } in &self.most_frequent_words {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n    {word}: {count}");
        }
        text
    }
}

/// Returns the counted form of a word, if it is long enough.
fn counted_form(word: &str) -> Option<String> {
    let word: String = word.to_lowercase().chars().filter(|&c| is_word_character(c)).collect();
    (word.chars().count() >= MIN_CHARACTERS).then_some(word)
}

/// Returns whether `\w` matches a character.
fn is_word_character(c: char) -> bool {
    // The Unicode tables are compiled in, so the fallback is never used.
    regex_syntax::try_is_word_character(c).unwrap_or(c.is_alphanumeric())
}

/// Returns the average, rounded to 2 decimals.
fn average(sum: usize, of: usize) -> f64 {
    if of == 0 { 0.0 } else { (sum as f64 / of as f64 * 100.0).round() / 100.0 }
}
