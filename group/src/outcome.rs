//! Outcomes: the results of calls.
use std::fmt;

use toolwright_module::message::{CallKind, Part, ToolResult};
use toolwright_module::{Error, Repaired, ToolCall, ToolOutput};

/// The result of one call, for the model and for the program.
///
/// A failed call has an outcome too if the model may read its error. Then `fail_reason` is set, and
/// there is no context.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome<Out = ()> {
    /// The id of the call.
    pub id: String,
    /// Whether a function or a custom tool was called. The provider expects an answer of the same
    /// kind.
    pub kind: CallKind,
    /// The text for the model.
    pub content: String,
    /// The handler's value for the program. `None` for a module.
    pub context: Option<Out>,
    /// The reason of a failure. `None` if the call succeeded.
    pub fail_reason: Option<FailReason>,
    parts: Vec<Part>,
    error: Option<Error>,
    /// Whether strangers wrote the text, which is between marks then.
    untrusted: bool,
    pub(crate) repaired: Option<Box<Repaired>>,
}

impl<Out> Outcome<Out> {
    pub(crate) fn new(call: &ToolCall, output: ToolOutput, context: Option<Out>) -> Self {
        let ToolOutput { text: content, parts, repaired, untrusted, .. } = output;
        let (id, kind, error) = (call.id.clone(), call.kind, None);
        Self { id, kind, content, context, fail_reason: None, parts, error, untrusted, repaired }
    }

    pub(crate) fn failed(call: &ToolCall, reason: FailReason, error: Error) -> Self {
        let output = ToolOutput::text_only(error.for_model());
        let repaired = error.repaired().cloned().map(Box::new);
        let untrusted = error.is_untrusted();
        let (fail_reason, error) = (Some(reason), Some(error));
        Self { fail_reason, error, untrusted, repaired, ..Self::new(call, output, None) }
    }

    /// Returns the outcome of a call whose error is not for the model, so that a loop can continue.
    /// The model learns that the call failed, but not why.
    ///
    /// [`dispatch`](crate::ToolGroup::dispatch) returns such an error to the program. A provider
    /// rejects the next request if one of the calls has no answer. Return an error with
    /// [`Audience::Run`](toolwright_module::error::Audience::Run) instead of converting it, because
    /// it should end the whole run.
    /// ```
    /// use toolwright_group::{FailReason, Outcome, ToolGroup};
    /// use toolwright_module::{Context, Error, ToolCall, from_fn};
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use toolwright_module::Signature;
    /// # /// Say how many are left.
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct CheckStock {}
    /// # impl Signature for CheckStock { type Output = u64; }
    /// let check = from_fn(async |_: CheckStock| Err(Error::other("no route to 10.0.0.7")));
    /// let group = ToolGroup::<(), ()>::new().module(check)?;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let calls = [ToolCall::new("call_1", "check_stock", "{}")];
    /// let outcomes = group.dispatch(&calls, &(), &Context::default()).await;
    /// for (call, outcome) in calls.iter().zip(outcomes) {
    ///     let outcome = outcome.unwrap_or_else(|error| {
    ///         eprintln!("{}: {error}", call.name);
    ///         Outcome::of_error(call, error)
    ///     });
    ///     assert_eq!(outcome.content, "The tool failed. The reason is not shown to you.");
    ///     assert_eq!(outcome.fail_reason, Some(FailReason::OtherError));
    /// }
    /// # });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn of_error(call: &ToolCall, error: Error) -> Self {
        Self::failed(call, FailReason::OtherError, error)
    }

    /// Returns the error of a failed call, with its evidence for the program.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Returns the repairs of the arguments, if there were any. Send the repaired arguments back to
    /// the model in place of the original ones.
    #[must_use]
    pub fn repaired(&self) -> Option<&Repaired> {
        self.repaired.as_deref()
    }

    /// Returns the images, documents and audio beside the text. Only modules return them.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Converts the outcome to the content of a
    /// [`Message::Tool`](toolwright_module::Message::Tool).
    #[must_use]
    pub fn into_result(self, call: &ToolCall) -> ToolResult {
        let mut result = match self.fail_reason {
            None => ToolResult::new(call, self.content),
            Some(_) => ToolResult::failed(call, self.content),
        };
        result = result.with_parts(self.parts);
        result.repaired = self.repaired;
        result.untrusted = self.untrusted;
        result
    }
}

/// The reason of a failure that the model is informed of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailReason {
    /// No tool has this name.
    InvalidName,
    /// The arguments do not fit the schema, and the text names every fault; or the call is
    /// [`incomplete`](ToolCall::incomplete).
    InvalidArguments,
    /// The handler returned [`Error::retry`] or [`Error::refuse`].
    ExplicitHandlerError,
    /// Another error, for which the program called [`Outcome::of_error`].
    OtherError,
}

impl fmt::Display for FailReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidName => "invalid_name",
            Self::InvalidArguments => "invalid_arguments",
            Self::ExplicitHandlerError => "explicit_handler_error",
            Self::OtherError => "other_error",
        })
    }
}
