//! Eight tools for text.

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
pub use tools::extract_lines::{TextExtractLines, TextExtractLinesTool};
pub use tools::filter_lines::{TextFilterLines, TextFilterLinesTool};
pub use tools::grep::{TextGrep, TextGrepTool};
pub use tools::rg::{TextRg, TextRgTool};
pub use tools::sort_lines::{TextSortLines, TextSortLinesTool};
pub use tools::summarize_text::{Frequency, Summary, TextSummarizeText, TextSummarizeTextTool};
pub use tools::unique_lines::{TextUniqueLines, TextUniqueLinesTool};
pub use tools::wc::{Counts, TextWc, TextWcTool};
