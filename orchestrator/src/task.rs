//! The task of an agent: text or parts, after a history. It is also the signature of agents.
use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::Message;
use toolwright_module::message::{Audio, Document, Image, Part};
use toolwright_signature::Signature;

use crate::conversation::{Carried, Conversation};

// The model reads the descriptions, and a stored run has the fingerprint of the schema. A change
// would be reported for each stored run that has an agent as a tool.

/// A task for an agent: a text, images and other parts, and the conversation before it.
///
/// Agents and runs take `impl Into<Task>`: a text, a [`Message`], a list of parts, or a list of
/// messages, for example from a database.
///
/// It is also the input of an agent that is called as a tool. A model then writes the text only.
///
/// ```
/// use toolwright_module::Message;
/// use toolwright_module::message::Image;
/// # use toolwright_module::testing::SchemaDriven;
/// use toolwright_orchestrator::{Agent, Task};
///
/// # let model = SchemaDriven::default();
/// let agent = Agent::new(model, [])?;
/// agent.start("What is on the plan?")?;
///
/// let before = [Message::user("Hello."), Message::assistant("Hello! How can I help?")];
/// let task = Task::new("What is on this plan?")
///     .with_part(Image::url("https://example.com/plan.png"))
///     .with_history(before);
/// assert_eq!(agent.start(task)?.history().len(), 3);
/// # Ok::<(), toolwright_orchestrator::RunError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "Carry out a task with tools of your own and tell what came of it.")]
#[non_exhaustive]
pub struct Task {
    /// What is to be done, with everything that must be known for it.
    pub task: String,
    /// The parts after the text.
    #[serde(skip)]
    pub(crate) parts: Vec<Part>,
    /// The conversation before the task.
    #[serde(skip)]
    pub(crate) history: Vec<Arc<Message>>,
    /// What is known of the conversation beside its messages.
    #[serde(skip)]
    pub(crate) carried: Box<Carried>,
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskAnswer {
    /// What the agent answered.
    pub answer: String,
    /// Whether it ran into a limit, so that the answer is not complete.
    pub limit_reached: bool,
}

impl Signature for Task {
    type Output = TaskAnswer;

    fn render(output: &TaskAnswer) -> Result<String, toolwright_signature::ContractError> {
        let note: Cow<'_, str> = if output.limit_reached {
            "\n(A limit was reached: this answer may not be complete.)".into()
        } else {
            "".into()
        };
        Ok(format!("{}{note}", output.answer))
    }
}

impl Task {
    /// Returns a task with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { task: text.into(), ..Self::default() }
    }

    /// Adds an image, a document, audio or another text after the text.
    #[must_use]
    pub fn with_part(mut self, part: impl Into<Part>) -> Self {
        self.parts.push(part.into());
        self
    }

    /// Adds messages to the conversation before the task, such as those of
    /// [`Finished::history`](crate::Finished::history).
    ///
    /// The agent's instructions replace a system message at the start. A call without a result is
    /// answered: the model reads that it was interrupted, and that its effect is not known.
    #[must_use]
    pub fn with_history(
        mut self,
        history: impl IntoIterator<Item = impl Into<Arc<Message>>>,
    ) -> Self {
        self.history.extend(history.into_iter().map(Into::into));
        self
    }

    /// Sets the conversation before the task: that of the run before. In a conversation that was
    /// shortened, or in which tools were found, it is what [`with_history`](Self::with_history) lacks.
    #[must_use]
    pub fn with_conversation(mut self, conversation: Conversation) -> Self {
        (self.history, self.carried) = (conversation.history, conversation.carried);
        self
    }

    /// Returns the id of the stored run that the conversation before the task is of, if it is known.
    #[must_use]
    pub fn earlier_run(&self) -> Option<&str> {
        self.carried.run.0.as_deref()
    }

    /// Returns the conversation before the task. If the task was made of messages, its own message is
    /// the last of them.
    #[must_use]
    pub fn history(&self) -> &[Arc<Message>] {
        &self.history
    }

    /// Returns the task of a message of the user, after this conversation.
    pub(crate) fn after(history: &[Arc<Message>], message: &[Part]) -> Self {
        let mut task = Self::from(history);
        for part in message {
            match part {
                Part::Text(text) => task.task.push_str(text),
                part => task.parts.push(part.clone()),
            }
        }
        task
    }

    /// Returns the history and the message of the user, if it has text or parts.
    pub(crate) fn into_messages(self) -> Vec<Arc<Message>> {
        let Self { task, parts, mut history, .. } = self;
        if !task.is_empty() || !parts.is_empty() {
            let text = (!task.is_empty()).then_some(Part::Text(task));
            history.push(Message::user_parts(text.into_iter().chain(parts)));
        }
        history
    }
}

impl From<String> for Task {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Task {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<&String> for Task {
    fn from(text: &String) -> Self {
        Self::new(text)
    }
}

impl From<Cow<'_, str>> for Task {
    fn from(text: Cow<'_, str>) -> Self {
        Self::new(text)
    }
}

impl From<Vec<Part>> for Task {
    fn from(parts: Vec<Part>) -> Self {
        Self { parts, ..Self::default() }
    }
}

impl<const N: usize> From<[Part; N]> for Task {
    fn from(parts: [Part; N]) -> Self {
        Self::from(Vec::from(parts))
    }
}

impl From<Part> for Task {
    fn from(part: Part) -> Self {
        Self::from([part])
    }
}

impl From<Image> for Task {
    fn from(image: Image) -> Self {
        Self::from(Part::Image(image))
    }
}

impl From<Document> for Task {
    fn from(document: Document) -> Self {
        Self::from(Part::Document(document))
    }
}

impl From<Audio> for Task {
    fn from(audio: Audio) -> Self {
        Self::from(Part::Audio(audio))
    }
}

impl From<Vec<Arc<Message>>> for Task {
    fn from(history: Vec<Arc<Message>>) -> Self {
        Self { history, ..Self::default() }
    }
}

impl From<&[Arc<Message>]> for Task {
    fn from(history: &[Arc<Message>]) -> Self {
        Self::from(history.to_vec())
    }
}

impl From<&Vec<Arc<Message>>> for Task {
    fn from(history: &Vec<Arc<Message>>) -> Self {
        Self::from(history.as_slice())
    }
}

impl From<Vec<Message>> for Task {
    fn from(history: Vec<Message>) -> Self {
        Self::default().with_history(history)
    }
}

impl From<Arc<Message>> for Task {
    fn from(message: Arc<Message>) -> Self {
        Self::from(vec![message])
    }
}

impl From<Message> for Task {
    fn from(message: Message) -> Self {
        Self::from(Arc::new(message))
    }
}
