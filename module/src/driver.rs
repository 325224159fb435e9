//! Parts for crates that run tools: a group, a loop, an engine.
//!
//! A program that uses `toolwright-group` or `toolwright-orchestrator` does not need them.
//!
//! A [`Handler`] answers calls; [`tool`] makes a [`Tool`] of it. [`begin`] starts a call of a
//! tool in a [`Place`], and [`contained`] polls it: a panic stays inside the call, and calls
//! that call themselves end.

use std::borrow::Cow;
use std::sync::Arc;
use std::task;

use toolwright_signature::Contract;

use crate::context::Context;
use crate::effect::Effect;
use crate::error::Error;
pub use crate::repaired::Arguments;
use crate::repaired::Repaired;
pub use crate::tool::{Begun, Ended, Failed, Handler, Place, contained};
use crate::tool::{Tool, ToolOutput};

/// A tool of a handler.
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

/// The start of a text, at most `longest` bytes: what a model wrote may be as long as a book.
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
