//! Building blocks for crates that run tools, such as a group or a loop.
//!
//! Programs that use `toolwright-group` or `toolwright-orchestrator` do not need them.
//!
//! A [`Handler`] answers calls, and [`tool`] makes a [`Tool`] of it.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
pub use toolwright_signature::stable_hash;
use toolwright_signature::{Contract, Repair, Side};
use tracing::Span;

use crate::approval::{Approval, Decision};
pub use crate::arguments::Arguments;
use crate::budget::{Budget, Spent};
use crate::context::Context;
use crate::effect::Effect;
use crate::error::{Error, Result};
pub use crate::given_arguments::{
    ARGUMENTS, Unread, canonical_json, given_arguments, is_empty_object, is_same_json, is_set,
};
use crate::hook::AnyHook;
use crate::hook::chain;
pub use crate::hook::chain::Innermost;
pub use crate::ledger::has_timer;
use crate::ledger::{Exhausted, Ledger};
use crate::message::{Message, Part, ToolCall};
use crate::model::{LanguageModel, Reply, Request};
use crate::model_call::Emit;
use crate::places;
pub use crate::shared_budget::shared_budget_fault;
pub use crate::shown_answer::ShownAnswer;
use crate::telemetry;
pub use crate::tool::{Contained, Handler, of_work};
use crate::tool::{Tool, ToolOutput};

/// Returns a tool with this handler.
#[must_use]
pub fn tool(contract: Arc<Contract>, effect: Effect, handler: Arc<dyn Handler>) -> Tool {
    Tool::erased(contract, effect, handler)
}

/// Like [`Tool::dynamic`], for a handler that checks its output itself, such as one whose value has
/// numbers that a [`Value`](serde_json::Value) would round.
pub fn proxy<F, Fut>(contract: Contract, effect: Effect, handler: F) -> Tool
where
    F: Fn(String, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput>> + Send + 'static,
{
    Tool::proxy(contract, effect, handler)
}

/// Calls a tool with the contract and policy of a group, without the hooks of the context.
///
/// # Errors
///
/// The errors of [`Tool::call`].
pub fn call_with<'a>(
    tool: &'a Tool,
    arguments: Arguments<'a>,
    cx: &'a Context,
) -> Contained<'a, ToolOutput> {
    tool.call_with(arguments, cx)
}

/// Marks an error as one of the call's own arguments.
#[must_use]
pub fn of_arguments(error: Error) -> Error {
    error.of_this_calls_arguments(true)
}

/// Returns whether the call's own arguments caused the error, and not those of a call below it.
#[must_use]
pub fn is_of_arguments(error: &Error) -> bool {
    error.is_of_this_calls_arguments()
}

/// Returns whether the context has hooks. [`call_through_hooks`] makes calls pass them.
#[inline]
#[must_use]
pub fn has_hooks(cx: &Context) -> bool {
    !cx.hooks().is_empty()
}

/// Makes a call pass the context's hooks. [`Tool::call`] does this itself.
///
/// # Errors
///
/// The error of the call or of a hook.
pub async fn call_through_hooks(
    cx: &Context,
    contract: &Contract,
    effect: Effect,
    arguments: &str,
    call: &dyn Innermost,
) -> Result<ToolOutput> {
    chain::call(cx, cx.hooks(), (contract, effect), arguments, call).await
}

/// Sends a request through the context's hooks and then through `own`. These hooks belong to an
/// agent, and the calls below it do not pass them. If the reply is streamed, the arguments of a call of
/// the tool of `answer` are emitted as the answer.
///
/// # Errors
///
/// The errors of [`Context::ask`].
pub async fn ask(
    cx: &Context,
    own: &[AnyHook],
    model: &dyn LanguageModel,
    request: Request,
    stream: bool,
    answer: Option<&ShownAnswer>,
) -> Result<Reply> {
    if !has_hooks(cx) && own.is_empty() {
        return cx.ask_model(model, request, Emit { stream, answer }).await;
    }
    let hooks = [cx.hooks(), own].concat();
    Box::pin(chain::ask(cx, &hooks, model, request, stream, answer)).await
}

/// Calls a tool through the context's hooks and then through `own`; see [`ask`].
///
/// # Errors
///
/// The errors of [`Tool::call`].
pub async fn call(
    tool: &Tool,
    own: &[AnyHook],
    arguments: &str,
    cx: &Context,
) -> Result<ToolOutput> {
    let output = if !has_hooks(cx) && own.is_empty() {
        tool.call_module(arguments, cx).await
    } else {
        let hooks = [cx.hooks(), own].concat();
        Box::pin(tool.call_through(&hooks, arguments, cx)).await
    };
    tool.marked(output, cx)
}

/// Marks the output or the error of [`call_with`], if strangers wrote its text. [`Tool::call`] and
/// [`call`] do this themselves. Call it outside of all hooks.
///
/// # Errors
///
/// The error that it gets.
pub fn marked(tool: &Tool, output: Result<ToolOutput>, cx: &Context) -> Result<ToolOutput> {
    tool.marked(output, cx)
}

/// Returns whether the tool call of this context has got text that strangers wrote.
#[must_use]
pub fn has_untrusted(cx: &Context) -> bool {
    cx.has_untrusted()
}

/// Returns an input as JSON for a model, and its images, documents and audio. In the JSON is
/// `[image 1]` where the first image was.
///
/// # Errors
///
/// The errors of [`Contract::write_input`].
pub fn written_input<T: Serialize>(
    contract: &Contract,
    input: &T,
) -> Result<(String, Vec<Part>), toolwright_signature::ContractError> {
    if contract.media(Side::Input).is_empty() {
        return Ok((contract.write_input(input)?, Vec::new()));
    }
    let (json, parts) = places::collect(|_| true, || contract.write_input(input));
    let json = json?;
    if json.contains("null") {
        contract.check_finite(input)?;
    }
    Ok((json, parts))
}

/// Returns the result of `read`, in which an [`Image`](crate::message::Image) is deserialized from
/// `[image 1]` as the first image of `parts`, and documents and audio likewise. A place without a
/// part is an error of the deserializer.
pub fn read_with_parts<T>(parts: &[Part], read: impl FnOnce() -> T) -> T {
    places::restore(parts, read)
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

/// Returns the context of a stream that the program reads, such as the progress of a run. Its calls
/// go on only while it is read, so calls outside of it wait for their reservations only for a minute.
#[must_use]
pub fn in_stream(cx: Context) -> Context {
    cx.in_stream()
}

/// Returns the context of a tool call inside `cx`. Its events carry the call's path.
#[must_use]
pub fn in_call(cx: &Context, call: &ToolCall) -> Context {
    cx.in_call(call)
}

/// Returns whether `tracing` spans may contain arguments and texts.
#[must_use]
pub fn captures_content(cx: &Context) -> bool {
    cx.captures_content()
}

/// Returns messages as the text of OpenTelemetry's `gen_ai.input.messages`.
#[must_use]
pub fn span_messages(messages: &[Arc<Message>]) -> String {
    telemetry::messages(messages)
}

/// Marks a span as failed, with the error's stage. The error's text may contain user data, so it is
/// recorded only if content may be captured.
pub fn mark_failed(span: &Span, cx: &Context, error: &Error) {
    telemetry::failed(span, cx, error);
}

/// Returns the current time if something may listen to metrics, which are `tracing` events.
#[must_use]
pub fn metrics_start() -> Option<Instant> {
    telemetry::metrics::start()
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

/// Keeps one model call of this ledger's own budget for the run itself, until the value is dropped.
/// The tools of a run and the agents below it then leave the call for its answer.
#[must_use = "the call is kept until the value is dropped"]
pub fn keep_last_call(ledger: &Ledger) -> impl Sized + use<> {
    ledger.keep_last_call()
}

/// Adds the cost of a part of a run that was performed before, in this ledger and those above up to
/// the outermost run's. A ledger above the runs is not charged for that again.
pub fn record_again(ledger: &Ledger, spent: Spent) {
    ledger.record_again(spent);
}

/// Returns whether this ledger refused the reservation, and not one above or below it.
#[must_use]
pub fn is_exhausted_by(ledger: &Ledger, exhausted: &Exhausted) -> bool {
    ledger.is_exhausted_by(exhausted)
}

/// Returns the tool that is meant by a name in a model's own notation, such as `functions.look` or
/// `default_api:look`. `None` if no tool, or more than one, has the rest as its name. `names` must
/// not contain `called` itself.
///
/// ```
/// use toolwright_module::runner::meant_tool;
///
/// let tools = ["look", "tidy"];
/// assert_eq!(meant_tool("functions.look", tools), Some("look"));
/// assert_eq!(meant_tool("functions.look:0", tools), Some("look"));
/// assert_eq!(meant_tool("files.look", tools), None);
/// ```
#[must_use]
pub fn meant_tool<'n>(called: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let (space, rest) = called.split_once(['.', ':', '/'])?;
    let spaces = ["functions", "function", "tools", "tool", "default_api"];
    let rest = rest.trim_start_matches(':');
    if !spaces.contains(&space) || rest.is_empty() {
        return None;
    }
    // The number of the call, in the same model's ids.
    let is_number = |end: &str| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
    let numbered = rest.split_once(':').filter(|(_, end)| is_number(end)).map(|(name, _)| name);
    let mut meant = names.into_iter().filter(|name| *name == rest || Some(*name) == numbered);
    meant.next().filter(|_| meant.next().is_none())
}

/// Returns the repair of a tool's name, for the list of a call's repairs.
#[must_use]
pub fn name_repair(called: &str, tool: &str) -> Repair {
    Repair::new("$", format!("read the tool {:?} as `{tool}`", shown(called, 100)))
}

/// Returns the start of a text, at most `longest` bytes of it. Texts of a model may have any
/// length.
///
/// ```
/// use toolwright_module::runner::shown;
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
