//! [`Text`], the limits with the tools.

use toolwright_module::Tool;

use crate::limits::TextLimits;
use crate::tools::extract_lines::TextExtractLinesModule;
use crate::tools::filter_lines::TextFilterLinesModule;
use crate::tools::grep::TextGrepModule;
use crate::tools::rg::TextRgModule;
use crate::tools::sort_lines::TextSortLinesModule;
use crate::tools::summarize_text::TextSummarizeTextModule;
use crate::tools::unique_lines::TextUniqueLinesModule;
use crate::tools::wc::TextWcModule;

/// The eight tools with the limits of their calls.
///
/// It holds no text: each call gets its text as an argument.
///
/// ```
/// use toolwright_text::{TextLimits, Text};
///
/// let text = Text::default().with_limits(TextLimits::default().with_max_input(100 << 20));
/// let tools = text.tools()?;
/// let names: Vec<_> = tools.iter().map(|tool| tool.name()).collect();
/// assert_eq!(names[0], "text_grep");
/// assert_eq!(names.len(), 8);
/// # Ok::<(), toolwright_signature::ContractError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Text {
    limits: TextLimits,
}

impl Text {
    /// Sets the limits. Default: [`TextLimits::default`].
    #[must_use]
    pub fn with_limits(mut self, limits: TextLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the eight tools, with these limits.
    ///
    /// To rename a tool, use [`Tool::named`]. To select some tools, filter the list by
    /// [`Tool::name`], or create them one by one: `Tool::new(TextGrepModule::new(&text))`.
    ///
    /// # Errors
    ///
    /// The error of [`Tool::new`], which does not occur for these contracts.
    pub fn tools(&self) -> Result<Vec<Tool>, toolwright_signature::ContractError> {
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

    pub(crate) fn limits(&self) -> TextLimits {
        self.limits
    }
}
