//! [`Text`], the limits with the tools.

use crate::limits::TextLimits;

/// The eight tools with the limits of their calls.
///
/// It holds no text: each call gets its text as an argument.
///
/// ```
/// use toolwright_text::{TextLimits, Text};
///
/// let text = Text::default().with_limits(TextLimits { max_input: 100 << 20, ..TextLimits::default() });
/// let tools = text.tools()?;
/// let names: Vec<_> = tools.iter().map(|tool| tool.name()).collect();
/// assert_eq!(names[0], "text_grep");
/// assert_eq!(names.len(), 8);
/// # Ok::<(), toolwright_signature::ContractError>(())
/// ```
///
/// Each tool is also a method, for code. [`tools`](Self::tools) lists the tools, with these limits.
/// To rename a tool, use `Tool::named`. To select some tools, filter the list by `Tool::name`, or
/// create them one by one: `TextGrep::tool(&text)`.
#[derive(Debug, Clone, Default)]
pub struct Text {
    pub(crate) limits: TextLimits,
}

impl Text {
    /// Sets the limits. Default: [`TextLimits::default`].
    #[must_use]
    pub fn with_limits(mut self, limits: TextLimits) -> Self {
        self.limits = limits;
        self
    }
}
