//! Lowering of all schemas in one request, whose limits a provider counts together.
//!
//! It lowers contracts to [`Lowered`] schemas. Tools are strict in their order, each if the limits
//! still allow it:
//!
//! ```text
//! Anthropic, 20 strict tools at most: tools 1 to 20 strict, tool 21 without `strict`
//! ```
//!
//! This file and [`contract`](crate::contract) use each other: the request lowers contracts, and a
//! contract's own cache holds the results.

use std::borrow::Borrow;

use crate::contract::Contract;
use crate::error::{ContractError, Result};
use crate::lowering::dialect::{Dialect, Lowered};
use crate::lowering::dialect_rules::RequestLimits;

/// The schemas of one request, lowered together because a provider has limits for all of them.
///
/// Anthropic accepts 20 strict tools in a request, with 24 optional fields and 16 unions in total.
/// Tools become strict in their order, each if the limits still allow it. All other tools are sent
/// without `strict`, and their losses say so. An additional tool at the end does not change the
/// tools before it, so the bytes of the prompt before it stay the same.
///
/// Each contract caches its schemas, so repeating this only sums up the limits.
///
/// ```
/// # use serde_json::json;
/// # use toolwright_signature::{Contract, Dialect, LoweredRequest};
/// let input = json!({"type": "object", "properties": {"page": {"type": "integer"}}});
/// let tools: Vec<_> = (0..21)
///     .map(|n| Contract::dynamic(&format!("find_{n}"), "", input.clone(), None))
///     .collect::<Result<_, _>>()?;
/// let request = LoweredRequest::new(Dialect::Anthropic, &tools, None)?;
/// assert!(request.tools[..20].iter().all(|tool| tool.strict));
/// assert_eq!(request.tools[20].losses[0].keyword, "strict");
/// # Ok::<(), toolwright_signature::ContractError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoweredRequest<'a> {
    /// The inputs of the tools, in their order.
    pub tools: Vec<&'a Lowered>,
    /// The output that the model has to produce.
    pub output: Option<&'a Lowered>,
}

impl<'a> LoweredRequest<'a> {
    /// Lowers the tools of a request, and the contract whose output the model has to produce.
    ///
    /// # Errors
    ///
    /// [`ContractError::TooManyTools`] means that the provider accepts fewer tools. The other
    /// errors are those of [`Contract::lower`] and [`Contract::lower_output`].
    pub fn new<C: Borrow<Contract> + 'a>(
        dialect: Dialect,
        tools: impl IntoIterator<Item = &'a C>,
        output: Option<&'a Contract>,
    ) -> Result<Self> {
        let limits = RequestLimits::of(dialect);
        let output = output.map(|output| output.lower_output(dialect)).transpose()?;
        let mut weight =
            output.filter(|output| output.strict).map(|it| it.weight).unwrap_or_default();
        let mut strict_tools = 0;
        let mut lowered = Vec::new();
        for contract in tools {
            let contract = contract.borrow();
            let mut tool = contract.lower(dialect)?;
            let both = weight.with(tool.weight);
            let has_room = strict_tools < limits.strict_tools
                && both.optional <= limits.weight.optional
                && both.unions <= limits.weight.unions;
            if tool.strict && has_room {
                strict_tools += 1;
                weight = both;
            } else if tool.strict {
                tool = contract.lower_loose(dialect)?;
            }
            lowered.push(tool);
        }
        let count = lowered.len();
        if count > limits.tools {
            return Err(ContractError::TooManyTools { dialect, count, most: limits.tools });
        }
        Ok(Self { tools: lowered, output })
    }
}
