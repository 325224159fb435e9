//! What the protocols of readers share: what a request asks for, and what an update becomes.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use toolwright_module::approval::Decision;
use toolwright_module::message::Part;
use toolwright_signature::readable_json;

/// Returns the body of a request as JSON that can be read: half of a character, which programs with UTF-16
/// texts cut, becomes U+FFFD. A body that is not UTF-8 stays so and is refused.
pub(crate) fn readable(body: &[u8]) -> Cow<'_, [u8]> {
    if str::from_utf8(body).is_err() {
        return Cow::Borrowed(body);
    }
    match readable_json(body) {
        Cow::Borrowed(_) => Cow::Borrowed(body),
        Cow::Owned(json) => Cow::Owned(json.into_bytes()),
    }
}

/// What a request of a reader asks for, in whatever protocol it came.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Incoming {
    /// The id of the conversation, which the client chose.
    pub(crate) conversation: String,
    /// What the user says. `None` if the request only answers questions or asks for an answer again.
    pub(crate) message: Option<Said>,
    /// The number of the conversation's earlier messages of the user that the client has, if it sends
    /// them. With earlier messages that the server does not know, the model would lack them.
    pub(crate) earlier: usize,
    /// Answers to questions.
    pub(crate) decisions: Vec<Answered>,
    /// The id of the user's message that is answered again, in place of its first answer.
    pub(crate) again: Option<String>,
}

/// A message of the user.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Said {
    /// The id that the client gave it. The same message twice is one.
    pub(crate) id: Option<String>,
    pub(crate) parts: Vec<Part>,
    /// Whether it replaces the message with this id and everything after it.
    pub(crate) replaces: bool,
    pub(crate) place: Place,
}

/// Where a message goes.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Place {
    /// At the end of the conversation.
    #[default]
    End,
    /// After the user's message with this id, which is the one before it in the client's copy of the
    /// conversation. If others follow that one, the client went back, and they are left out.
    After(Option<String>),
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answered {
    /// The [id of the question](crate::Question::question).
    pub(crate) question: String,
    pub(crate) decision: Decision,
}

/// A [`Decided`](crate::Decided) as a client sends it. The arguments keep their text, because a `Value`
/// rounds long numbers and loses the first of two fields with one name.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Sent {
    Approve,
    Deny { reason: String },
    Edit { arguments: Box<RawValue> },
    CallAgain,
    Happened { result: String },
}

impl From<Sent> for Decision {
    fn from(sent: Sent) -> Self {
        match sent {
            Sent::Approve => Self::Approve,
            Sent::Deny { reason } => Self::Deny { reason },
            Sent::Edit { arguments } => Self::Edit { arguments: arguments.get().to_owned() },
            Sent::CallAgain => Self::CallAgain,
            Sent::Happened { result } => Self::Happened { result },
        }
    }
}
