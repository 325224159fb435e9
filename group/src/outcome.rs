//! Outcomes: the results of calls.
use std::fmt;

use toolwright_module::driver;
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
    /// Fields that most calls do not need. They are boxed, because an outcome is moved several
    /// times.
    rare: Option<Box<Rare>>,
}

#[derive(Debug, Default)]
struct Rare {
    parts: Vec<Part>,
    error: Option<Error>,
    repaired: Option<Box<Repaired>>,
}

impl<Out> Outcome<Out> {
    /// Returns an empty outcome, which the tool fills in.
    #[inline]
    pub(crate) fn new(id: String, kind: CallKind) -> Self {
        Self { id, kind, content: String::new(), context: None, fail_reason: None, rare: None }
    }

    pub(crate) fn fill(&mut self, mut output: ToolOutput) {
        let repaired = driver::take_repaired(&mut output);
        let (content, parts) = output.into_text_and_parts();
        self.content = content;
        if !parts.is_empty() || repaired.is_some() {
            self.rare = Some(Box::new(Rare { parts, error: None, repaired }));
        }
    }

    /// Returns the text and the repairs as a tool's output.
    pub(crate) fn into_output(mut self) -> ToolOutput {
        let repaired = self.take_repaired();
        let mut output = ToolOutput::text_only(self.content);
        driver::set_repaired(&mut output, repaired);
        output
    }

    #[cold]
    pub(crate) fn set_repaired(&mut self, repaired: Repaired) {
        self.rare.get_or_insert_default().repaired = Some(Box::new(repaired));
    }

    pub(crate) fn take_repaired(&mut self) -> Option<Box<Repaired>> {
        self.rare.as_mut()?.repaired.take()
    }

    pub(crate) fn failed(call: &ToolCall, reason: FailReason, error: Error) -> Self {
        let repaired = error.repaired().cloned().map(Box::new);
        Self {
            id: call.id.clone(),
            kind: call.kind,
            content: error.for_model().into_owned(),
            context: None,
            fail_reason: Some(reason),
            rare: Some(Box::new(Rare { parts: Vec::new(), error: Some(error), repaired })),
        }
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
        self.rare.as_ref()?.error.as_ref()
    }

    /// Returns the repairs of the arguments, if there were any. Send the repaired arguments back to
    /// the model in place of the original ones.
    #[must_use]
    pub fn repaired(&self) -> Option<&Repaired> {
        self.rare.as_ref()?.repaired.as_deref()
    }

    /// Returns the images, documents and audio beside the text. Only modules return them.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        self.rare.as_ref().map_or(&[], |rare| &rare.parts)
    }

    /// Converts the outcome to the content of a
    /// [`Message::Tool`](toolwright_module::Message::Tool).
    #[must_use]
    pub fn into_result(self, call: &ToolCall) -> ToolResult {
        let mut result = match self.fail_reason {
            None => ToolResult::new(call, self.content),
            Some(_) => ToolResult::failed(call, self.content),
        };
        let Rare { parts, repaired, .. } = self.rare.map(|rare| *rare).unwrap_or_default();
        result = result.with_parts(parts);
        result.repaired = repaired;
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
