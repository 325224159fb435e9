//! Building blocks for crates that run tools, such as a group or a loop.
//!
//! Programs that use `toolwright-group` or `toolwright-orchestrator` do not need them.
//!
//! A [`Handler`] answers calls, and [`tool`] makes a [`Tool`] of it. [`begin`] starts a call of a
//! tool in a [`Place`]. [`contained`] polls the call, catches its panics, and ends calls that nest
//! too deep.

use std::borrow::Cow;
use std::sync::Arc;
use std::task;

use toolwright_signature::Contract;

use crate::approval::{Approval, Decision};
pub use crate::arguments::Arguments;
use crate::budget::{Budget, Spent};
use crate::context::Context;
use crate::effect::Effect;
use crate::error::{Error, Result};
use crate::ledger::{Exhausted, Ledger};
use crate::message::ToolCall;
use crate::repaired::Repaired;
pub use crate::tool::{Begun, Ended, Failed, Handler, Place, contained};
use crate::tool::{Tool, ToolOutput};

/// Returns a tool with this handler.
#[must_use]
pub fn tool(contract: Arc<Contract>, effect: Effect, handler: Arc<dyn Handler>) -> Tool {
    Tool::erased(contract, effect, handler)
}

/// Starts a call of a tool. The output has no value, only text and images.
///
/// A panic is not caught here: poll it inside [`contained`].
#[inline]
pub fn begin<'a>(
    tool: &'a Tool,
    arguments: Arguments<'a>,
    cx: &'a Context,
    output: &'a mut ToolOutput,
    task: &mut task::Context<'_>,
) -> Begun<'a> {
    tool.begin(arguments, cx, output, task)
}

/// Returns the context of an agent's run inside `cx`, one level deeper.
///
/// # Errors
///
/// [`Stage::Limit`](crate::error::Stage::Limit) beyond 16 runs inside each other, which ends
/// the whole run. An agent that calls itself ends here instead of overflowing the stack.
pub fn nested(cx: &Context) -> Result<Context> {
    cx.nested()
}

/// Returns the context of a tool call inside `cx`. Its events carry the call's path.
#[must_use]
pub fn in_call(cx: &Context, call: &ToolCall) -> Context {
    cx.in_call(call)
}

/// Returns the names of the tools on [`Context::path`], as in `a > b`.
#[must_use]
pub fn path_text(cx: &Context) -> String {
    cx.path_text()
}

/// Returns whether `tracing` spans may contain arguments and texts.
#[must_use]
pub fn captures_content(cx: &Context) -> bool {
    cx.captures_content()
}

/// Returns whether the context has an approver for [`approve`].
#[must_use]
pub fn has_approver(cx: &Context) -> bool {
    cx.has_approver()
}

/// Asks the context's approver. Returns `None` without one.
///
/// # Errors
///
/// The approver's own error, [`Stage::Cancelled`](crate::error::Stage::Cancelled), and
/// [`Stage::Panic`](crate::error::Stage::Panic) if the approver panics.
pub async fn approve(cx: &Context, asked: Approval) -> Option<Result<Decision>> {
    cx.approve(asked).await
}

/// Returns the error that ends a run whose ledger has too little left, and emits
/// [`LimitReached`](crate::event::EventKind::LimitReached).
#[must_use]
pub fn exhausted(cx: &Context, exhausted: Exhausted) -> Error {
    cx.exhausted(exhausted)
}

/// Returns the ledger of a run, with its own budget, below `above`.
///
/// It starts with what a stored run has already `spent`. The ledger above is not charged for
/// that again. Errors name the `owner`.
#[must_use]
pub fn ledger(above: Option<&Ledger>, owner: &str, budget: Budget, spent: Spent) -> Ledger {
    Ledger::of_run(above, owner, budget, spent)
}

/// Returns whether this ledger refused the reservation, and not one above or below it.
#[must_use]
pub fn is_exhausted_by(ledger: &Ledger, exhausted: &Exhausted) -> bool {
    ledger.is_exhausted_by(exhausted)
}

/// Takes the repairs of a call's arguments out of its output.
pub fn take_repaired(output: &mut ToolOutput) -> Option<Box<Repaired>> {
    output.take_repaired()
}

/// Sets the repairs of a call's arguments.
pub fn set_repaired(output: &mut ToolOutput, repaired: Option<Box<Repaired>>) {
    output.set_repaired(repaired);
}

/// Sets the repairs of the failed call's own arguments. Repairs that a module passed up with
/// its error are of another call and are dropped.
#[must_use]
pub fn with_repaired(error: Error, repaired: Option<Box<Repaired>>) -> Error {
    error.with_repaired(repaired)
}

/// Returns the start of a text, at most `longest` bytes of it. Texts of a model may have any
/// length.
///
/// ```
/// use toolwright_module::driver::shown;
///
/// assert_eq!(shown("a long name", 6), "a long…");
/// ```
#[must_use]
pub fn shown(text: &str, longest: usize) -> Cow<'_, str> {
    if text.len() <= longest {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", &text[..text.floor_char_boundary(longest)]))
}
