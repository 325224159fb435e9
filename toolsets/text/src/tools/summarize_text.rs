use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::limits::Limits;
use crate::text::Text;
use crate::work::Work;

/// Sum up a text in numbers: lines, words, characters, average lengths, the most frequent words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextSummarizeText {
    /// Text to sum up.
    pub text: String,
}

/// A text in numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Lines; what stands after the last newline is one, nothing is none.
    pub lines: usize,
    /// Pieces between white space.
    pub words: usize,
    /// Unicode code points, line ends too.
    pub characters: usize,
    /// Characters for each line, line ends too, to 2 decimals; 0 without lines.
    pub average_line_length: f64,
    /// Characters for each word, punctuation too, to 2 decimals; 0 without words.
    pub average_word_length: f64,
    /// The 5 words that appear most, the first to appear first where they are equal.
    pub most_frequent_words: Vec<Frequency>,
}

/// How often a word appears.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Frequency {
    /// The word in lower case, without punctuation; 3 characters or more.
    pub word: String,
    /// How often it appears.
    pub count: usize,
}

impl Signature for TextSummarizeText {
    type Output = Summary;

    fn render(summary: &Summary) -> toolwright_signature::Result<String> {
        let Summary { lines, words, characters, .. } = summary;
        let average = |length: f64, of: usize| match of {
            0 => "0".to_owned(),
            // With one decimal where it has none: 13.0.
            _ => format!("{length:?}"),
        };
        let mut text = format!(
            "Text Summary:\n  Lines: {lines}\n  Words: {words}\n  Characters: {characters}\n  Average line length: {}\n  Average word length: {}",
            average(summary.average_line_length, *lines),
            average(summary.average_word_length, *words),
        );
        if !summary.most_frequent_words.is_empty() {
            text += "\n  Most frequent words:";
        }
        for Frequency { word, count } in &summary.most_frequent_words {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n    {word}: {count}");
        }
        Ok(text)
    }
}

/// Sums up: fulfils [`TextSummarizeText`].
///
/// A word counts in lower case and without what `\W` matches, so `Café,` and `café` are one;
/// `don't` is `dont`. Text is not normalised: a letter and its combining mark are two
/// characters, and are not the letter that has the mark in itself.
#[derive(Debug, Clone)]
pub struct TextSummarizeTextModule {
    limits: Limits,
}

impl TextSummarizeTextModule {
    /// Works under the limits of `text`.
    #[must_use]
    pub fn new(text: &Text) -> Self {
        Self { limits: text.limits() }
    }
}

/// How many words are named.
const NAMED: usize = 5;

/// Characters of the shortest word that is named.
const SHORTEST: usize = 3;

impl Module for TextSummarizeTextModule {
    type Signature = TextSummarizeText;

    async fn call(&self, input: TextSummarizeText, cx: &Context) -> Result<Summary> {
        let text = input.text;
        let work = Work::on(&text, self.limits, cx)?;
        let (mut lines, mut words, mut characters, mut in_words) = (0, 0, 0, 0);
        // How often, and how many words were there before it.
        let mut frequencies: HashMap<String, (usize, usize)> = HashMap::new();
        work.lines(&text, |line| {
            lines += 1;
            characters += line.chars().count();
            for word in line.split_whitespace() {
                words += 1;
                in_words += word.chars().count();
                if let Some(word) = named(word) {
                    frequencies.entry(word).or_insert((0, words)).0 += 1;
                }
            }
            Ok(())
        })?;
        let mut most: Vec<_> = frequencies.into_iter().collect();
        let rank = |(_, (count, first)): &(String, (usize, usize))| (Reverse(*count), *first);
        if most.len() > NAMED {
            most.select_nth_unstable_by_key(NAMED, rank);
            most.truncate(NAMED);
        }
        most.sort_unstable_by_key(rank);
        let named = most.iter().map(|(word, _)| word.len()).sum();
        work.fits(named, "leave out words that are no words")?;
        work.check()?;
        let most = most.into_iter().map(|(word, (count, _))| Frequency { word, count });
        Ok(Summary {
            lines,
            words,
            characters,
            average_line_length: average(characters, lines),
            average_word_length: average(in_words, words),
            most_frequent_words: most.collect(),
        })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}

/// A word as it is counted, if it is long enough.
fn named(word: &str) -> Option<String> {
    let word: String = word.to_lowercase().chars().filter(|&c| is_word_character(c)).collect();
    (word.chars().count() >= SHORTEST).then_some(word)
}

/// What `\w` matches in a pattern.
fn is_word_character(c: char) -> bool {
    // The tables are compiled in, so this is never the fallback.
    regex_syntax::try_is_word_character(c).unwrap_or(c.is_alphanumeric())
}

/// To 2 decimals.
fn average(sum: usize, of: usize) -> f64 {
    if of == 0 { 0.0 } else { (sum as f64 / of as f64 * 100.0).round() / 100.0 }
}
