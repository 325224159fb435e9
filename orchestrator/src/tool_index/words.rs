//! The words of names and texts, as an index compares them.
use std::borrow::Cow;

use rust_stemmers::{Algorithm, Stemmer};

/// Maximum number of characters of a word. The rest of a longer word is not read.
const LONGEST_WORD: usize = 64;

/// Maximum number of characters of a text that are read.
const LONGEST_TEXT: usize = 20_000;

/// Number of letters that the start of a word has.
const START: usize = 5;

/// English words that say nothing about a tool, sorted.
const STOP_WORDS: &[&str] = &[
    "a",
    "about",
    "above",
    "after",
    "again",
    "against",
    "all",
    "also",
    "am",
    "an",
    "and",
    "any",
    "are",
    "aren",
    "as",
    "at",
    "be",
    "because",
    "been",
    "before",
    "being",
    "below",
    "between",
    "both",
    "but",
    "by",
    "can",
    "cannot",
    "could",
    "couldn",
    "d",
    "did",
    "didn",
    "do",
    "does",
    "doesn",
    "doing",
    "don",
    "down",
    "during",
    "each",
    "either",
    "else",
    "etc",
    "few",
    "for",
    "from",
    "further",
    "had",
    "hadn",
    "has",
    "hasn",
    "have",
    "haven",
    "having",
    "he",
    "her",
    "here",
    "hers",
    "herself",
    "him",
    "himself",
    "his",
    "how",
    "i",
    "if",
    "in",
    "into",
    "is",
    "isn",
    "it",
    "its",
    "itself",
    "just",
    "let",
    "ll",
    "m",
    "may",
    "me",
    "might",
    "more",
    "most",
    "must",
    "my",
    "myself",
    "need",
    "no",
    "nor",
    "not",
    "now",
    "of",
    "off",
    "on",
    "once",
    "only",
    "or",
    "other",
    "our",
    "ours",
    "ourselves",
    "out",
    "over",
    "own",
    "please",
    "re",
    "s",
    "same",
    "shall",
    "she",
    "should",
    "shouldn",
    "so",
    "some",
    "such",
    "t",
    "than",
    "that",
    "the",
    "their",
    "theirs",
    "them",
    "themselves",
    "then",
    "there",
    "these",
    "they",
    "this",
    "those",
    "through",
    "to",
    "too",
    "under",
    "until",
    "up",
    "us",
    "ve",
    "very",
    "want",
    "was",
    "wasn",
    "we",
    "were",
    "weren",
    "what",
    "when",
    "where",
    "which",
    "while",
    "who",
    "whom",
    "why",
    "will",
    "with",
    "won",
    "would",
    "wouldn",
    "you",
    "your",
    "yours",
    "yourself",
    "yourselves",
];

/// A word of a text, in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    /// The word repeats the words before it as one: `github` after `git` and `hub` of `GitHub`.
    pub(super) joined: bool,
}

/// Calls `each` with the words of a text, which may be an identifier.
///
/// A word ends at a character that is neither a letter nor a digit, between a letter and a digit,
/// and at the humps of camel case. Chinese, Japanese and Korean texts have no spaces, so each two
/// neighbouring characters of them are a word.
pub(super) fn each_word(text: &str, mut each: impl FnMut(Word<'_>)) {
    let mut lower = String::new();
    let text = first_chars(text, LONGEST_TEXT);
    for run in text.split(|c: char| !c.is_alphanumeric() && !is_apostrophe(c)) {
        for (at, piece) in run.split(is_apostrophe).enumerate() {
            // The end of "user's", "don't" and "they'll".
            let is_ending = at > 0 && piece.len() <= 2;
            if !piece.is_empty() && !is_ending {
                words_of_run(first_chars(piece, LONGEST_WORD), &mut lower, &mut each);
            }
        }
    }
}

/// Calls `each` with the words of a text that has only letters and digits.
fn words_of_run(run: &str, lower: &mut String, each: &mut impl FnMut(Word<'_>)) {
    let mut give = |text: &str, joined| {
        lower.clear();
        lower.extend(text.chars().flat_map(char::to_lowercase));
        each(Word { text: lower, joined });
    };
    let (mut rest, mut parts) = (run, 0);
    while !rest.is_empty() {
        let (part, after) = rest.split_at(end_of_part(rest));
        if part.starts_with(is_unspaced) {
            neighbours(part).for_each(|pair| give(pair, false));
        } else {
            give(part, false);
        }
        (rest, parts) = (after, parts + 1);
    }
    if parts > 1 && !run.contains(is_unspaced) {
        give(run, true);
    }
}

/// Returns where the first part of an identifier ends.
fn end_of_part(text: &str) -> usize {
    let (mut chars, mut end) = (text.chars(), 0);
    while let Some(one) = chars.next() {
        end += one.len_utf8();
        let mut ahead = chars.clone();
        let Some(next) = ahead.next() else { break };
        if is_border(one, next, ahead.next()) {
            break;
        }
    }
    end
}

/// Returns whether a word ends between the first two characters.
fn is_border(one: char, next: char, after: Option<char>) -> bool {
    if one.is_numeric() != next.is_numeric() || is_unspaced(one) != is_unspaced(next) {
        return true;
    }
    // `getWeather`, and `HTTPServer` before its `S`.
    next.is_uppercase()
        && (one.is_lowercase() || one.is_uppercase() && after.is_some_and(char::is_lowercase))
}

/// Returns each two neighbouring characters, or the only one.
fn neighbours(text: &str) -> impl Iterator<Item = &str> {
    let borders = || text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let pairs = borders().zip(borders().skip(2)).map(|(start, end)| &text[start..end]);
    let is_one = borders().nth(2).is_none();
    pairs.chain(is_one.then_some(text))
}

fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’')
}

/// Returns whether a character belongs to a script that is written without spaces.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

fn first_chars(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}

/// Returns the form in which a word is compared, or `None` for a stop word.
pub(super) fn stem(word: &str) -> Option<Cow<'_, str>> {
    if STOP_WORDS.binary_search(&word).is_ok() {
        return None;
    }
    // The stemmer is for English, and only its input of letters is known to be cut at letters.
    if !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Some(Cow::Borrowed(word));
    }
    Some(Stemmer::create(Algorithm::English).stem(word))
}

/// Returns the term that all words with the same first letters share, if a stem is that long.
///
/// It finds `analyze` for "analysis", and `convert` for "conversion", whose stems differ.
pub(super) fn start_of(stem: &str) -> Option<String> {
    let is_long = stem.len() >= START && stem.bytes().all(|byte| byte.is_ascii_lowercase());
    // No word has a `*`.
    is_long.then(|| format!("{}*", &stem[..START]))
}

/// Returns whether a word is a number.
pub(super) fn is_number(word: &str) -> bool {
    word.chars().all(char::is_numeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        each_word(text, |word| {
            words.push(format!("{}{}", if word.joined { "=" } else { "" }, word.text));
        });
        words
    }

    #[test]
    fn identifiers_are_split_at_every_notation() {
        assert_eq!(words("get_current-weather.v"), ["get", "current", "weather", "v"]);
        assert_eq!(words("getWeather"), ["get", "weather", "=getweather"]);
        assert_eq!(words("HTTPServer"), ["http", "server", "=httpserver"]);
        assert_eq!(words("GITHUB"), ["github"]);
        assert_eq!(words("sha256"), ["sha", "256", "=sha256"]);
        assert_eq!(words("Services_4.BookTable"), ["services", "4", "book", "table", "=booktable"]);
        assert_eq!(words("x"), ["x"]);
    }

    #[test]
    fn texts_are_split_into_words() {
        assert_eq!(words("The user's e-mail, don't"), ["the", "user", "e", "mail", "don"]);
        assert_eq!(words("'quoted' ’"), ["quoted"]);
        assert_eq!(words(" \n\t–—"), [""; 0]);
    }

    #[test]
    fn other_scripts_are_words_too() {
        assert_eq!(words("Über straße ÇA"), ["über", "straße", "ça"]);
        assert_eq!(words("天気予報"), ["天気", "気予", "予報"]);
        assert_eq!(words("天"), ["天"]);
        assert_eq!(words("get天気v2"), ["get", "天気", "v", "2"]);
        assert_eq!(words("天气api"), ["天气", "api"]);
        assert_eq!(words("날씨 예보"), ["날씨", "예보"]);
        assert_eq!(words("погодаСегодня"), ["погода", "сегодня", "=погодасегодня"]);
        assert_eq!(words("a\u{301}b İstanbul ﬁ 𝒳𝒴"), ["a", "b", "i̇stanbul", "ﬁ", "𝒳𝒴"]);
    }

    #[test]
    fn a_word_without_end_is_cut() {
        assert_eq!(words(&"a".repeat(1_000_000)), ["a".repeat(LONGEST_WORD)]);
        assert_eq!(words(&"é".repeat(1_000)), ["é".repeat(LONGEST_WORD)]);
        assert!(words(&"aB".repeat(1_000_000)).len() <= LONGEST_WORD);
    }

    #[test]
    fn inflected_words_have_one_stem() {
        for (one, other) in [("booking", "books"), ("cities", "city"), ("prices", "pricing")] {
            assert_eq!(stem(one), stem(other));
        }
        assert_eq!(stem("the"), None);
        assert_eq!(stem("straßen").as_deref(), Some("straßen"));
        let start = |word| start_of(&stem(word).unwrap());
        assert_eq!(start("analysis"), start("analyze"));
        assert_eq!([start("list"), start("größe"), start("12345")], [None, None, None]);
    }

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
    }
}
