use std::fmt;

use crate::error::Error;
use crate::message::{CallKind, Image, ToolCall, ToolResult};

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
    /// Images beside the text; only modules give some.
    pub images: Vec<Image>,
    /// What the handler gives the program; a module gives nothing.
    pub context: Option<Out>,
    /// Why the call failed, if it did.
    pub fail_reason: Option<FailReason>,
    /// The error that the content tells of, with its evidence for the program.
    pub error: Option<Error>,
}

impl<Out> Outcome<Out> {
    pub(crate) fn done(call: &ToolCall, content: String, context: Option<Out>) -> Self {
        Self {
            id: call.id.clone(),
            kind: call.kind,
            content,
            images: Vec::new(),
            context,
            fail_reason: None,
            error: None,
        }
    }

    pub(crate) fn failed(call: &ToolCall, reason: FailReason, error: Error) -> Self {
        Self {
            fail_reason: Some(reason),
            ..Self::done(call, error.for_model().into_owned(), None).with_error(error)
        }
    }

    fn with_error(self, error: Error) -> Self {
        Self { error: Some(error), ..self }
    }

    /// The message of a conversation that says the same, for
    /// [`Message::Tool`](crate::Message::Tool).
    #[must_use]
    pub fn into_result(self, call: &ToolCall) -> ToolResult {
        let result = match self.fail_reason {
            None => ToolResult::new(call, self.content),
            Some(_) => ToolResult::failed(call, self.content),
        };
        result.with_images(self.images)
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
}

impl fmt::Display for FailReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidName => "invalid_name",
            Self::InvalidArguments => "invalid_arguments",
            Self::ExplicitHandlerError => "explicit_handler_error",
        })
    }
}
