//! Eight tools for text: search, count, extract, filter, sort and summarize a text argument.
//!
//! [`Text`] holds the [`TextLimits`] and lists the tools. Each tool is a method of [`Text`], so
//! code can also call it directly, without a language model. All tools are read-only. They start no
//! process and open no file, so a pattern cannot be used to run a command.
//!
//! | tool | method | signature |
//! |---|---|---|
//! | `text_grep` | [`Text::grep`] | [`TextGrep`] |
//! | `text_wc` | [`Text::wc`] | [`TextWc`] |
//! | `text_rg` | [`Text::rg`] | [`TextRg`] |
//! | `text_extract_lines` | [`Text::extract_lines`] | [`TextExtractLines`] |
//! | `text_filter_lines` | [`Text::filter_lines`] | [`TextFilterLines`] |
//! | `text_unique_lines` | [`Text::unique_lines`] | [`TextUniqueLines`] |
//! | `text_sort_lines` | [`Text::sort_lines`] | [`TextSortLines`] |
//! | `text_summarize_text` | [`Text::summarize_text`] | [`TextSummarizeText`] |
//!
//! ```
//! use toolwright_module::Context;
//! use toolwright_text::Text;
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let (text, cx) = (Text::default(), Context::default());
//!
//! // As a model calls it: JSON in, text out.
//! let tools = text.tools()?;
//! let wc = tools.iter().find(|tool| tool.name() == "text_wc").unwrap();
//! let output = wc.call(r#"{"text": "Hello world\n!"}"#, &cx).await?;
//! assert_eq!(output.text, "Lines: 2, Words: 3, Characters: 13");
//!
//! // From code: a method.
//! let (ignore_case, count_only) = (true, false);
//! let found = text.grep("apple\nBanana\n", "^b", ignore_case, count_only, &cx)?;
//! assert_eq!(found.lines.as_deref(), Some("Banana\n"));
//! # Ok::<(), toolwright_module::Error>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Lines
//!
//! A line ends in `\n` or `\r\n`. If there is text after the last line end, that text is also a
//! line. A character is a Unicode code point. A word is a sequence of characters that are not
//! Unicode white space.
//!
//! # Patterns
//!
//! `text_grep`, `text_rg` and `text_filter_lines` use the syntax of the
//! [`regex`](https://docs.rs/regex/latest/regex/#syntax) crate and ripgrep's matcher.
//!
//! - Each line is searched separately, without its line end. Nothing matches across lines, and
//!   `\n` or `\r` in a pattern is an error. `^` and `\A` match the start of the line, `$` and `\z`
//!   its end. `^` and `$` also match at a carriage return inside a line.
//! - `\w`, `\d`, `\s`, `\b` and case folding support every script. `(?i)` ignores case, `(?-i)`
//!   makes the pattern case-sensitive.
//! - Look-arounds and backreferences are not supported, so the time of a search is linear in the
//!   size of the text.
//! - The size of a pattern is limited: `\w` repeated more than about ten times, or `a{9999}`, is
//!   an error.
//!
//! # Limits
//!
//! [`TextLimits`] bounds the text, the result and the time of a call. A call runs on the thread that
//! polls it and does not yield. If calls may take seconds, run them on a separate thread.
//!
//! A line of more than 32 KiB is searched byte by byte if the pattern could take long, so that the
//! time limit works. In such a line, `\b` beside letters that are not ASCII is an error.
//!
//! # Differences from the programs
//!
//! The tools have the same results as `grep -E`, `rg`, `sort`, `uniq`, `wc` and `sed -n`, which
//! `tests/differential.sh` checks, with these exceptions:
//!
//! | program | the program | this crate |
//! |---|---|---|
//! | `grep` | `\<`, `\>`, backreferences | word boundaries are `\b`, no backreferences |
//! | `grep` | a combining mark is not part of a word | it is part of a word, as Unicode defines |
//! | `grep` | `\r` is a character of the line | it is part of the line end |
//! | `rg --crlf` | adds `\r\n` to a last line without a line end, and to separators | `\n` |
//! | `rg` | skips text with NUL, removes a byte order mark | treats both as text |
//! | `sort -n` | `1e3` is 1, any number of digits | `1e3` is 1000, with the precision of `f64` |
//! | `sort -r` | without `-s`, equal numbers are reversed too | they keep their order |
//! | `uniq` | removes lines that equal the previous line | removes lines that equal any earlier line |
//! | `sort`, `uniq` | keep `\r` | `\r\n` becomes `\n` |
//! | `wc` | counts newlines | counts lines, including a last one without a line end |
//! | `wc` | a word has a printable character, and a no-break space may join words | words are separated by Unicode white space |

mod groups;
mod interruptible_search;
mod limited_call;
mod limits;
mod number;
mod pattern;
mod search_output;
mod summary;
mod text;
mod tools;

pub use limits::TextLimits;
pub use search_output::Matches;
pub use summary::{Frequency, Summary};
pub use text::Text;
pub use tools::{
    Counts, TextExtractLines, TextFilterLines, TextGrep, TextRg, TextSortLines, TextSummarizeText,
    TextUniqueLines, TextWc,
};
