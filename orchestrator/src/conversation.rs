//! A conversation that goes on with another task.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolwright_module::Message;
use toolwright_module::message::ReplyPart;

use crate::run::{Edited, Measured, is_system};

/// What the next model reads at the end of a reply that a person stopped.
const STOPPED: &str = "\n[The user stopped this reply here.]";

/// A conversation that another task goes on with: its messages, and what the run knew beside them.
///
/// With the messages alone ([`Task::with_history`](crate::Task::with_history)), the next task sends the
/// whole history again and knows no [deferred](crate::Tool::deferred) tools. With the conversation it
/// sends what the run before sent, shortened as it was, and has the tools that were found.
///
/// It serializes as JSON, to be kept between two messages of a user.
///
/// ```
/// use toolwright_module::testing::Scripted;
/// use toolwright_module::{Context, Reply};
/// use toolwright_orchestrator::{Agent, Conversation, Task};
///
/// # let model = Scripted::replies([Reply::text("Hello!"), Reply::text("Bye!")]);
/// let agent = Agent::new(model, [])?;
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let finished = agent.run("Hello.", &Context::default()).await?;
/// let stored = serde_json::to_string(&finished.conversation())?;
///
/// let conversation: Conversation = serde_json::from_str(&stored)?;
/// let task = Task::new("Goodbye.").with_conversation(conversation);
/// let finished = agent.run(task, &Context::default()).await?;
/// assert_eq!(finished.history.len(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Conversation {
    pub(crate) history: Vec<Arc<Message>>,
    #[serde(default, skip_serializing_if = "Carried::is_empty")]
    pub(crate) carried: Box<Carried>,
}

impl Conversation {
    /// Returns the messages.
    #[must_use]
    pub fn history(&self) -> &[Arc<Message>] {
        &self.history
    }

    /// Adds a reply that a person stopped, with the text that the model had written of it. The next model
    /// reads that it was stopped, so that it does not answer the question again.
    ///
    /// ```
    /// use toolwright_module::Message;
    /// use toolwright_orchestrator::Conversation;
    ///
    /// let conversation = Conversation::default().with_stopped_reply("One, two,");
    /// let Some(Message::Assistant { parts }) = conversation.history().last().map(|last| &**last) else {
    ///     panic!("there is no reply");
    /// };
    /// assert_eq!(parts.len(), 2);
    /// ```
    #[must_use]
    pub fn with_stopped_reply(mut self, text: &str) -> Self {
        let written = (!text.trim().is_empty()).then(|| ReplyPart::text(text));
        let parts = written.into_iter().chain([ReplyPart::text(STOPPED)]).collect();
        self.history.push(Arc::new(Message::Assistant { parts }));
        self
    }

    /// Sets the id of the stored run that the conversation is of. A home that has this run stores only
    /// what the next one adds. A home checks that its run has these messages, so another id does no harm.
    ///
    /// Conversations of results that come from a home have the id already.
    ///
    /// ```
    /// use toolwright_orchestrator::{Conversation, Task};
    ///
    /// let conversation = Conversation::default().of_run("chat-1");
    /// let task = Task::new("And then?").with_conversation(conversation);
    /// assert_eq!(task.earlier_run(), Some("chat-1"));
    /// ```
    #[must_use]
    pub fn of_run(mut self, id: &str) -> Self {
        self.carried.run = Origin(Some(id.into()));
        self
    }

    /// Leaves out the instructions, for an agent that has none.
    ///
    /// An agent with instructions replaces them in any case.
    #[must_use]
    pub fn without_instructions(mut self) -> Self {
        if self.history.first().is_some_and(|first| is_system(first)) {
            self.history.remove(0);
            if let Some(edited) = &mut self.carried.sent
                && edited.replaced > 0
            {
                edited.replaced -= 1;
                edited.by.retain(|message| !is_system(message));
            }
        }
        self
    }
}

/// What a run knows of its conversation beside the messages.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Carried {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sent: Option<Edited>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) found: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) kept: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) measured: Option<Measured>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) window: Option<u64>,
    #[serde(skip_serializing_if = "Origin::is_none")]
    pub(crate) run: Origin,
}

impl Carried {
    pub(crate) fn is_empty(&self) -> bool {
        self.run.is_none() && *self == Self::default()
    }
}

/// The id of the stored run that a conversation is of. Where a conversation comes from is not a part of
/// its value, so all of them are equal.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Origin(pub(crate) Option<Arc<str>>);

impl Origin {
    fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
