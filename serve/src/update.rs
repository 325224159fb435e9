//! What readers of a run get.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that happened in a run, for the people who read it.
///
/// It has what a user may see: no instructions, no causes of errors, and no values that only programs
/// read. As JSON it is one flat object with the name of its [kind](UpdateKind) in `update`.
///
/// ```
/// use toolwright_serve::{Update, UpdateKind};
///
/// let update = Update::new(UpdateKind::Text { text: "Hello".to_owned() });
/// let json = serde_json::to_string(&update)?;
/// assert_eq!(json, r#"{"update":"text","text":"Hello"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Update {
    /// The calls around it, outermost first: a call of an agent that works for this one. Empty for the
    /// agent that the user talks to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<Around>,
    /// What happened.
    #[serde(flatten)]
    pub kind: UpdateKind,
}

impl Update {
    /// Returns an update of the agent that the user talks to.
    #[must_use]
    pub fn new(kind: UpdateKind) -> Self {
        Self { path: Vec::new(), kind }
    }
}

/// A call around an update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Around {
    /// The name of the tool.
    pub tool: String,
    /// The id of the call.
    pub id: String,
}

/// The kind of an [`Update`], with its data.
///
/// The updates of a run begin with [`Started`](Self::Started). A model's reply is shown piece by piece
/// ([`Text`](Self::Text), [`Reasoning`](Self::Reasoning), [`CallText`](Self::CallText),
/// [`Answer`](Self::Answer)) and ends with [`Replied`](Self::Replied). If it is lost before that,
/// [`Discarded`](Self::Discarded) takes its pieces back. Replies of different paths may be mixed; those
/// of one path follow each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "update", rename_all = "snake_case")]
#[non_exhaustive]
pub enum UpdateKind {
    /// The run was started.
    Started {
        /// The id of the run.
        run: String,
        /// The id of the message of the user, if its sender gave it one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// The text of the user's message.
        text: String,
        /// The images and documents of the user's message.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
    },
    /// The model wrote some text.
    Text {
        /// The text since the last piece.
        text: String,
    },
    /// The model wrote some reasoning.
    Reasoning {
        /// The text since the last piece.
        text: String,
    },
    /// The model wrote a part of a typed answer, which is JSON.
    Answer {
        /// The length of the answer before this piece, in bytes. At 0 another answer begins, and what
        /// was shown before is void.
        at: usize,
        /// The text since the last piece.
        text: String,
    },
    /// The model wrote a part of a call. The whole call follows as [`Called`](Self::Called), unless the
    /// reply is lost.
    CallText {
        /// The place of the call among the calls of its reply.
        place: usize,
        /// The name of the tool, as far as it is known.
        name: String,
        /// The length of the arguments before this piece, in bytes. At 0 they begin.
        at: usize,
        /// The arguments since the last piece.
        arguments: String,
    },
    /// What was shown of the reply that is being written is void. The reply is asked for again.
    Discarded,
    /// The model asks for a call of a tool. It is made now, unless it waits for a person.
    Called {
        /// The place of the call among the calls of its reply.
        place: usize,
        /// The id of the call.
        id: String,
        /// The name of the tool.
        name: String,
        /// The arguments as the model wrote them: JSON, as a text.
        arguments: String,
    },
    /// The model's reply is whole.
    Replied {
        /// The name of the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// What it took.
        cost: Cost,
    },
    /// A call waits for a person's decision.
    ApprovalAsked(Question),
    /// A person decided on a call.
    Decided {
        /// The id of the call.
        id: String,
        /// What was decided.
        decision: Decided,
        /// The name of the person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A call has a result, which the model reads now.
    Result {
        /// The id of the call.
        id: String,
        /// The name of the tool.
        name: String,
        /// The text of the result. A long one is cut.
        text: String,
        /// The length of the text in bytes, if it was cut.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        whole_bytes: Option<usize>,
        /// Whether the call failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failed: bool,
        /// The duration of the call in milliseconds.
        milliseconds: u64,
    },
    /// The conversation was shortened, because it had become too long for the model.
    Compacted {
        /// The number of tokens before.
        tokens_before: u64,
        /// The number of tokens after.
        tokens_after: u64,
    },
    /// The run has its answer. No update follows.
    Done {
        /// The answer: a text, or the value of an agent with a typed answer.
        answer: Value,
        /// How the run ended: `answered`, `limit_reached`, `cut_off`, `refused`, `stuck` or `unclear`.
        ending: String,
        /// What the whole run took.
        cost: Cost,
    },
    /// The run stopped. No update follows, unless the run is driven again.
    Stopped {
        /// Why, in words for the user.
        reason: String,
        /// Whether the run can go on from where it is.
        can_go_on: bool,
        /// Whether a person stopped it. Otherwise it was an error.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_person: bool,
    },
}

/// An image, a document or a sound in the message of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Attachment {
    /// `image`, `document` or `audio`.
    pub kind: String,
    /// The media type, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// Tokens and money.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Cost {
    /// Tokens that the model read.
    pub input_tokens: u64,
    /// Those of them that came from the provider's cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
    /// Whether the tokens of a reply are unknown, because it was stopped. There are more of them then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// The money, such as `0.25 USD`, or `at least 0.25 USD` if a part is not known. `None` if nothing is
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub money: Option<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A question to a person: may this call be made?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Question {
    /// The id of the question. It changes with the call and its arguments, so that an answer holds for
    /// exactly what the person saw.
    pub question: String,
    /// The id of the run.
    pub run: String,
    /// The id of the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments: JSON, as a text.
    pub arguments: String,
    /// What the tool does: `read`, `idempotent`, `write` or `irreversible`.
    pub effect: String,
    /// Whether the call was begun before and may have taken effect.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// Why the call waits, if there is more to say than that its tool always does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The JSON Schema of the arguments, if the tool exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// A person's decision on a call.
///
/// ```
/// use toolwright_serve::Decided;
///
/// let decided: Decided = serde_json::from_str(r#"{"deny":{"reason":"Not today."}}"#)?;
/// assert_eq!(decided, Decided::Deny { reason: "Not today.".to_owned() });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Decided {
    /// Make the call.
    Approve,
    /// Do not make it. The model reads the reason.
    Deny {
        /// The reason.
        reason: String,
    },
    /// Make it with other arguments, which must fit the tool.
    Edit {
        /// The arguments.
        arguments: Value,
    },
    /// Make a call again that may have taken effect.
    CallAgain,
    /// A call that may have taken effect did so, with this result.
    Happened {
        /// The result.
        result: String,
    },
}

/// Returns the JSON Schema of [`Update`].
///
/// ```
/// let schema = toolwright_serve::update_schema();
/// assert_eq!(schema["title"], "Update");
/// ```
#[must_use]
pub fn update_schema() -> Value {
    schemars::schema_for!(Update).to_value()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use super::UpdateKind;

    pub(crate) fn text(text: &str) -> UpdateKind {
        UpdateKind::Text { text: text.to_owned() }
    }

    pub(crate) fn reasoning(text: &str) -> UpdateKind {
        UpdateKind::Reasoning { text: text.to_owned() }
    }

    pub(crate) fn call_text(place: usize, name: &str, at: usize, arguments: &str) -> UpdateKind {
        let (name, arguments) = (name.to_owned(), arguments.to_owned());
        UpdateKind::CallText { place, name, at, arguments }
    }

    pub(crate) fn called(place: usize, id: &str, name: &str, arguments: &str) -> UpdateKind {
        let (id, name, arguments) = (id.to_owned(), name.to_owned(), arguments.to_owned());
        UpdateKind::Called { place, id, name, arguments }
    }

    #[test]
    fn the_schema_in_the_repository_is_that_of_the_type() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/updates.schema.json");
        let schema = serde_json::to_string_pretty(&super::update_schema()).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            fs::write(path, &schema).unwrap();
        }
        let stored = fs::read_to_string(path).unwrap_or_default();
        assert!(stored == schema, "the schema has changed; run this test with UPDATE_SCHEMA=1");
    }
}
