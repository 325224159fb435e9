//! Eight tools for text: search, count, cut, filter, sort and sum up what a call is given.
//!
//! [`Text`] holds the [`Limits`] and lists the tools. Each tool is a signature and a module
//! of its own, so each also works by itself, from code, without a language model. All of
//! them only read, and none starts a process or touches a file: a pattern is a pattern,
//! whatever stands in it.
//!
//! | tool | signature, output | module |
//! |---|---|---|
//! | `text_grep` | [`TextGrep`], [`Matches`] | [`TextGrepModule`] |
//! | `text_wc` | [`TextWc`], [`Counts`] | [`TextWcModule`] |
//! | `text_rg` | [`TextRg`], [`Matches`] | [`TextRgModule`] |
//! | `text_extract_lines` | [`TextExtractLines`], `String` | [`TextExtractLinesModule`] |
//! | `text_filter_lines` | [`TextFilterLines`], `String` | [`TextFilterLinesModule`] |
//! | `text_unique_lines` | [`TextUniqueLines`], `String` | [`TextUniqueLinesModule`] |
//! | `text_sort_lines` | [`TextSortLines`], `String` | [`TextSortLinesModule`] |
//! | `text_summarize_text` | [`TextSummarizeText`], [`Summary`] | [`TextSummarizeTextModule`] |
//!
//! ```
//! use toolwright_module::{Context, Module};
//! use toolwright_text::{Text, TextGrep, TextGrepModule};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let text = Text::default();
//!
//! // As a model calls it: JSON in, text out.
//! let tools = text.tools()?;
//! let wc = tools.iter().find(|tool| tool.name() == "text_wc").unwrap();
//! let output = wc.call(r#"{"text": "Hello world\n!"}"#, &Context::default()).await?;
//! assert_eq!(output.text(), "Lines: 2, Words: 3, Characters: 13");
//!
//! // From code: types in, types out.
//! let grep = TextGrepModule::new(&text);
//! let input = TextGrep {
//!     text: "apple\nBanana\n".to_owned(),
//!     pattern: "^b".to_owned(),
//!     ignore_case: true,
//!     count_only: false,
//! };
//! let found = grep.call(input, &Context::default()).await?;
//! assert_eq!(found.lines.as_deref(), Some("Banana\n"));
//! # Ok::<(), toolwright_module::Error>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Lines
//!
//! A line ends in `\n` or `\r\n`, and nowhere else. What stands after the last end is a line
//! too, if it is not empty. A character is a Unicode code point, a word what stands between
//! white space of any script.
//!
//! # Patterns
//!
//! One dialect for `text_grep`, `text_rg` and `text_filter_lines`: the syntax of the
//! [`regex`](https://docs.rs/regex/latest/regex/#syntax) crate, on ripgrep's own matcher.
//!
//! - Each line is searched alone, without its end: nothing matches across lines, and `\n` or
//!   `\r` in a pattern is an error. `^` and `\A` are the start of the line, `$` and `\z` its
//!   end. `^` and `$` also match at a carriage return inside a line.
//! - `\w`, `\d`, `\s`, `\b` and case know every script. `(?i)` ignores case, `(?-i)` minds it.
//! - There are no look-arounds and no references back, so the time of a search grows with
//!   the text and never explodes.
//! - A pattern has a size: `\w` repeated more than about ten times, or `a{9999}`, is refused.
//!
//! # Limits
//!
//! [`Limits`] bounds the text, the result and the time of a call. A call works on the thread
//! that polls it and does not yield; give one that may work for seconds to a thread of its own.
//! A line of more than 32 KiB that a pattern could take long for is walked byte by byte; there
//! a `\b` beside letters that are not ASCII is refused.
//!
//! # Not as the programs
//!
//! The tools give what `grep -E`, `rg`, `sort`, `uniq`, `wc` and `sed -n` give, which
//! `tests/differential.sh` holds them to, apart from this:
//!
//! | program | there | here |
//! |---|---|---|
//! | `grep` | `\<`, `\>`, references back | word boundaries are `\b`, no references |
//! | `grep` | a combining mark is no part of a word | it is, as Unicode says |
//! | `grep` | `\r` is a character of the line | it belongs to its end |
//! | `rg --crlf` | gives a last line without an end, and separators, `\r\n` | `\n` |
//! | `rg` | leaves out text with NUL, drops a byte order mark | both are text |
//! | `sort -n` | `1e3` is 1, any number of digits | 1000, and as exact as an `f64` |
//! | `sort -r` | without `-s`, equal numbers turn too | they keep their order |
//! | `uniq` | drops what repeats the line before | what repeats any line before |
//! | `sort`, `uniq` | keep `\r` | `\r\n` becomes `\n` |
//! | `wc` | counts newlines | counts lines, also a last one without an end |
//! | `wc` | a word has something printable, and a no-break space may join | what stands between white space |

mod limits;
mod long_line;
mod matches;
mod pattern;
mod text;
mod tools;
mod work;

pub use limits::Limits;
pub use matches::Matches;
pub use text::Text;
pub use tools::extract_lines::{TextExtractLines, TextExtractLinesModule};
pub use tools::filter_lines::{TextFilterLines, TextFilterLinesModule};
pub use tools::grep::{TextGrep, TextGrepModule};
pub use tools::rg::{TextRg, TextRgModule};
pub use tools::sort_lines::{TextSortLines, TextSortLinesModule};
pub use tools::summarize_text::{Frequency, Summary, TextSummarizeText, TextSummarizeTextModule};
pub use tools::unique_lines::{TextUniqueLines, TextUniqueLinesModule};
pub use tools::wc::{Counts, TextWc, TextWcModule};
