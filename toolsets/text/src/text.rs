use toolwright_module::Tool;

use crate::limits::Limits;
use crate::tools::extract_lines::TextExtractLinesModule;
use crate::tools::filter_lines::TextFilterLinesModule;
use crate::tools::grep::TextGrepModule;
use crate::tools::rg::TextRgModule;
use crate::tools::sort_lines::TextSortLinesModule;
use crate::tools::summarize_text::TextSummarizeTextModule;
use crate::tools::unique_lines::TextUniqueLinesModule;
use crate::tools::wc::TextWcModule;

/// The eight tools, and what bounds each of their calls.
///
/// It holds no text: a call gets its text as an argument and keeps nothing.
///
/// ```
/// use toolwright_text::{Limits, Text};
///
/// let text = Text::default().with_limits(Limits::default().with_max_input(100 << 20));
/// let tools = text.tools()?;
/// let names: Vec<_> = tools.iter().map(|tool| tool.name()).collect();
/// assert_eq!(names[0], "text_grep");
/// assert_eq!(names.len(), 8);
/// # Ok::<(), toolwright_signature::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Text {
    limits: Limits,
}

impl Text {
    /// The same under other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The eight tools, all under these limits.
    ///
    /// Rename one with [`Tool::named`], leave one out by filtering the list by
    /// [`Tool::name`], or make a few by hand: `Tool::new(TextGrepModule::new(&text))`.
    ///
    /// # Errors
    ///
    /// None of these contracts fails; the error is that of [`Tool::new`].
    pub fn tools(&self) -> toolwright_signature::Result<Vec<Tool>> {
        Ok(vec![
            Tool::new(TextGrepModule::new(self))?,
            Tool::new(TextWcModule::new(self))?,
            Tool::new(TextRgModule::new(self))?,
            Tool::new(TextExtractLinesModule::new(self))?,
            Tool::new(TextFilterLinesModule::new(self))?,
            Tool::new(TextUniqueLinesModule::new(self))?,
            Tool::new(TextSortLinesModule::new(self))?,
            Tool::new(TextSummarizeTextModule::new(self))?,
        ])
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }
}
