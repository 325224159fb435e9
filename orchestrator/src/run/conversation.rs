//! The conversation of a run: its start, and further messages of the user.
use std::sync::Arc;

use toolwright_module::message::ToolResult;
use toolwright_module::{Message, ToolCall};

use crate::conversation::Conversation;
use crate::error::{Result, RunError};
use crate::pairing;
use crate::run::{Run, task_at};
use crate::state::Phase;
use crate::task::Task;

/// Returns the messages of a task, with a result for each call of its history.
pub(super) fn begun(task: Task) -> Result<Vec<Arc<Message>>> {
    let messages = task.into_messages();
    let messages = pairing::answered(messages).map_err(|what| RunError::History { what })?;
    match messages.last().map(|last| &**last) {
        None | Some(Message::Assistant { .. } | Message::System { .. }) => {
            Err(RunError::NothingToAnswer)
        }
        _ => Ok(messages),
    }
}

impl Run {
    /// Continues the conversation with another task, whether the run is done or not. The rounds
    /// start again at zero. The cost does not.
    ///
    /// If the run was interrupted, calls of the last reply keep their results. The model reads
    /// which of the other calls were not made, and of which the effect is not known.
    ///
    /// ```
    /// # use toolwright_module::Reply;
    /// # use toolwright_orchestrator::{StepResult, Limits, Run, StepKind};
    /// let mut run = Run::new("Say hello.", &[], Limits::default())?;
    /// run.apply(StepResult::model(0, Reply::text("Hello.")))?;
    /// run.follow_up("And goodbye.")?;
    /// let StepKind::CallModel(request) = run.next().kind else { panic!() };
    /// assert_eq!(request.messages.len(), 3);
    /// # Ok::<(), toolwright_orchestrator::RunError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunError::NothingToAnswer`] if the task is empty, and [`RunError::History`] if its history
    /// cannot follow the conversation. The run is unchanged then.
    pub fn follow_up(&mut self, task: impl Into<Task>) -> Result<()> {
        let may_have_begun: Vec<String> =
            self.may_have_begun().map(|call| call.name.clone()).collect();
        let results = self.last_results();
        let new = begun(task.into())?;
        let told = results.iter().cloned().map(|result| Arc::new(Message::Tool(result)));
        let all: Vec<_> = self.state.messages.iter().cloned().chain(told).chain(new).collect();
        let added = self.state.messages.len() + results.len();
        let mut all = pairing::answered(all).map_err(|what| RunError::History { what })?;
        // They may have taken effect, so they count.
        may_have_begun.iter().for_each(|name| self.count_call(name));
        let mut results: Vec<_> = results.into_iter().map(Some).collect();
        self.keep_as_read(&mut results);
        for result in results.into_iter().flatten() {
            self.say(Arc::new(Message::Tool(result)));
        }
        for message in all.drain(added..) {
            self.note_ids(&message);
            self.say(message);
        }
        self.state.task_at = task_at(&self.state.messages);
        self.state.earlier_tasks = self.state.earlier_tasks.saturating_add(1);
        self.state.iterations = 0;
        self.state.mistakes.clear();
        self.state.phase = Phase::Model;
        self.state.step = self.state.step.saturating_add(1);
        self.find_next();
        self.count_messages();
        Ok(())
    }

    /// Returns the conversation so far, for a task of another run:
    /// [`Task::with_conversation`](crate::Task::with_conversation). The run may have ended at any step.
    ///
    /// Each call has a result. For a call that is still open, it says that the call was not made, or
    /// that its effect is not known. A finished run has
    /// [`Finished::conversation`](crate::Finished::conversation).
    ///
    /// ```
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Error, Reply, Request};
    /// # use toolwright_orchestrator::{Agent, Task};
    /// # let broken = Scripted::new(|_: &Request| Err::<Reply, _>(Error::other("no network")));
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let agent = Agent::new(broken, [])?;
    /// let mut run = agent.start("What is in the hall?")?;
    /// agent.drive(&mut run, &Context::default()).await.unwrap_err();
    ///
    /// let task = Task::new("And in the kitchen?").with_conversation(run.conversation());
    /// assert_eq!(agent.start(task)?.history().len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn conversation(&self) -> Conversation {
        let results = self.last_results().into_iter().map(|result| Arc::new(Message::Tool(result)));
        let history = self.state.messages.iter().cloned().chain(results).collect();
        Conversation { history, carried: Box::new(self.carried()) }
    }

    /// Returns the open calls that may have begun. The calls behind these are made only after them.
    fn may_have_begun(&self) -> impl Iterator<Item = &ToolCall> {
        let results: &[_] = match &self.state.phase {
            Phase::Tools { results, .. } => results,
            _ => &[],
        };
        self.batch(results)
    }

    /// Returns the results that the calls of the last reply have or get, if the conversation goes on
    /// now.
    fn last_results(&self) -> Vec<ToolResult> {
        let ids: Vec<String> = self.may_have_begun().map(|call| call.id.clone()).collect();
        self.state.results_of_the_last_reply(Some(&ids))
    }
}
