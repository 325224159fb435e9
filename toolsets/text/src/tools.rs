//! The eight tools, one file each: the signature, its output and its module.

pub(crate) mod extract_lines;
pub(crate) mod filter_lines;
pub(crate) mod grep;
pub(crate) mod rg;
pub(crate) mod sort_lines;
pub(crate) mod summarize_text;
pub(crate) mod unique_lines;
pub(crate) mod wc;
