use std::fmt;

use toolwright_module::driver;
use toolwright_module::message::{CallKind, Image, ToolResult};
use toolwright_module::{Error, Repaired, ToolCall, ToolOutput};

/// What became of one call, for the model and for the program.
///
/// Also a call that failed has one, if the model is to be told: then `fail_reason` says
/// why and there is no context.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome<Out = ()> {
    /// The call's id.
    pub id: String,
    /// Whether a function was called or a custom tool: the provider wants to be answered
    /// likewise.
    pub kind: CallKind,
    /// What the model reads.
    pub content: String,
    /// What the handler gives the program; a module gives nothing.
    pub context: Option<Out>,
    /// Why the call failed, if it did.
    pub fail_reason: Option<FailReason>,
    /// What most calls do not have: every byte of an outcome is moved several times.
    rare: Option<Box<Rare>>,
}

#[derive(Debug, Default)]
struct Rare {
    images: Vec<Image>,
    error: Option<Error>,
    repaired: Option<Box<Repaired>>,
}

impl<Out> Outcome<Out> {
    /// Of a call, for its tool to fill in.
    #[inline]
    pub(crate) fn new(id: String, kind: CallKind) -> Self {
        Self { id, kind, content: String::new(), context: None, fail_reason: None, rare: None }
    }

    pub(crate) fn fill(&mut self, mut output: ToolOutput) {
        let repaired = driver::take_repaired(&mut output);
        let (content, images) = output.into_parts();
        self.content = content;
        if !images.is_empty() || repaired.is_some() {
            self.rare = Some(Box::new(Rare { images, error: None, repaired }));
        }
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
            rare: Some(Box::new(Rare { images: Vec::new(), error: Some(error), repaired })),
        }
    }

    /// Of a call that failed with an error which is not for the model, so that a loop can go
    /// on: the model is told that the call failed, and not why.
    ///
    /// [`dispatch`](crate::ToolGroup::dispatch) leaves such an error to the program. A
    /// provider refuses the next request if one of its calls has no answer. One that is to
    /// end everything ([`Audience::Run`](toolwright_module::error::Audience::Run)) is passed on instead.
    ///
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

    /// The error that the content tells of, with its evidence for the program.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        self.rare.as_ref()?.error.as_ref()
    }

    /// What was read of the arguments, if they had to be repaired. It goes back to the
    /// model in place of what the model wrote.
    #[must_use]
    pub fn repaired(&self) -> Option<&Repaired> {
        self.rare.as_ref()?.repaired.as_deref()
    }

    /// Images beside the text; only modules give some.
    #[must_use]
    pub fn images(&self) -> &[Image] {
        self.rare.as_ref().map_or(&[], |rare| &rare.images)
    }

    /// The message of a conversation that says the same, for
    /// [`Message::Tool`](toolwright_module::Message::Tool).
    #[must_use]
    pub fn into_result(self, call: &ToolCall) -> ToolResult {
        let mut result = match self.fail_reason {
            None => ToolResult::new(call, self.content),
            Some(_) => ToolResult::failed(call, self.content),
        };
        let Rare { images, repaired, .. } = self.rare.map(|rare| *rare).unwrap_or_default();
        result = result.with_images(images);
        result.repaired = repaired;
        result
    }
}

/// Why a call failed that the model is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailReason {
    /// No tool has the name.
    InvalidName,
    /// The arguments do not fit; the text names everything that does not.
    InvalidArguments,
    /// The handler says so: [`Error::retry`] or [`Error::refuse`].
    ExplicitHandlerError,
    /// Anything else, of which the program made an outcome: [`Outcome::of_error`].
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
