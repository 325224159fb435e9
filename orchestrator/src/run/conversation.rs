//! The conversation of a run: its start, and further messages of the user.
use std::sync::Arc;

use toolwright_module::{Message, ToolCall};

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
        // The calls behind these are made only after them.
        let due: Vec<&ToolCall> = match &self.state.phase {
            Phase::Tools { results, .. } => self.batch(results).collect(),
            _ => Vec::new(),
        };
        let (ids, may_have_begun): (Vec<String>, Vec<String>) =
            due.into_iter().map(|call| (call.id.clone(), call.name.clone())).unzip();
        let results = self.state.results_of_the_last_reply(Some(&ids));
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
        self.state.iterations = 0;
        self.state.mistakes.clear();
        self.state.phase = Phase::Model;
        self.state.step = self.state.step.saturating_add(1);
        self.find_next();
        self.count_messages();
        Ok(())
    }
}
