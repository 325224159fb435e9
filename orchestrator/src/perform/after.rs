//! What a record leaves out because another record has it.
//!
//! A conversation is stored once. The start of a run leaves out the messages that an earlier run has, and
//! the end of a run those of its start.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolwright_module::Message;

use super::Started;
use crate::conversation::{Carried, Conversation};
use crate::run::is_system;

/// The beginning of a run's conversation, which an earlier run of the same home has.
///
/// See [`Started::leave_out`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct After {
    /// The id of the earlier run.
    pub run: String,
    /// What the home recognizes the earlier run by. Another run with its id has another mark.
    pub mark: String,
    /// Whether the messages are those of its end. Otherwise they are those of its start.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_end: bool,
    /// Whether the instructions are the same.
    #[serde(default, skip_serializing_if = "is_default")]
    has_instructions: bool,
    /// Number of messages after the instructions.
    messages: usize,
    /// Whether the messages that are sent in the place of others are the same. The instructions among
    /// them are those of the run.
    #[serde(default, skip_serializing_if = "is_default")]
    is_sent: bool,
}

/// What the record of the end of a run leaves out, because the start of the run has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LeftOut {
    /// Number of messages from the start of the history.
    pub messages: usize,
    /// Whether the edit of the conversation is that of the start.
    pub is_sent: bool,
}

impl LeftOut {
    pub(super) fn is_nothing(&self) -> bool {
        is_default(self)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl After {
    /// Returns a reference to an earlier run, at its end or at its start.
    #[must_use]
    pub fn new(run: impl Into<String>, mark: impl Into<String>, is_end: bool) -> Self {
        let (run, mark) = (run.into(), mark.into());
        Self { run, mark, is_end, has_instructions: false, messages: 0, is_sent: false }
    }
}

impl Started {
    /// Returns the conversation at the start of the run, which a later run may go on from.
    #[must_use]
    pub fn conversation(&self) -> Conversation {
        let sent = self.run.sent.clone();
        let carried = Box::new(Carried { sent, ..Carried::default() });
        Conversation { history: self.run.messages.clone(), carried }
    }

    /// Leaves out the messages that an earlier run has, for the record that a home stores. `after` says
    /// which run it is, and `earlier` is its conversation there.
    ///
    /// The last message stays, because it is what the user says. The start is unchanged if there is
    /// nothing to leave out.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// # use toolwright_module::testing::SchemaDriven;
    /// use toolwright_orchestrator::perform::{After, Started};
    /// use toolwright_orchestrator::{Agent, Task};
    ///
    /// # let agent = Agent::new(SchemaDriven::default(), [])?;
    /// let first = agent.start("Where is order 7?")?;
    /// let earlier = Started::new("chat-1", BTreeMap::new(), first.state().clone()).conversation();
    ///
    /// let task = Task::new("And order 8?").with_conversation(earlier.clone());
    /// let run = agent.start(task)?.state().clone();
    /// let started = Started::new("chat-2", BTreeMap::new(), run);
    /// let stored = started.clone().leave_out(After::new("chat-1", "1", false), &earlier);
    /// assert_eq!(stored.run.history().len(), 1);
    /// assert_eq!(stored.put_back(&earlier), Some(started));
    /// # Ok::<(), toolwright_orchestrator::RunError>(())
    /// ```
    #[must_use]
    pub fn leave_out(self, mut after: After, earlier: &Conversation) -> Self {
        let (instructions, said) = split(&self.run.messages);
        let (their_instructions, their_said) = split(&earlier.history);
        after.has_instructions = instructions.is_some() && instructions == their_instructions;
        after.messages = common(said, their_said).min(said.len().saturating_sub(1));
        if after.messages == 0 {
            return self;
        }
        after.is_sent = match (&self.run.sent, &earlier.carried.sent) {
            (Some(sent), Some(theirs)) => split(&sent.by).1 == split(&theirs.by).1,
            _ => false,
        };
        let mut stored = self.clone();
        let own = &said[after.messages..];
        let instructions = instructions.filter(|_| !after.has_instructions);
        stored.run.messages = instructions.into_iter().chain(own).cloned().collect();
        if after.is_sent
            && let Some(sent) = &mut stored.run.sent
        {
            sent.by.clear();
        }
        stored.after = Some(after);
        // Whatever was changed of the conversation: what is stored can be read as it was.
        let is_same = stored.clone().put_back(earlier).is_some_and(|whole| whole == self);
        if is_same { stored } else { self }
    }

    /// Puts back the messages that an earlier run has. `earlier` is the conversation of the run that
    /// [`after`](Self::after) names. Returns `None` if that has other messages.
    #[must_use]
    pub fn put_back(mut self, earlier: &Conversation) -> Option<Self> {
        let Some(after) = self.after.take() else { return Some(self) };
        let (their_instructions, their_said) = split(&earlier.history);
        let (instructions, own) = split(&self.run.messages);
        let instructions = match after.has_instructions {
            true => Some(their_instructions?.clone()),
            false => instructions.cloned(),
        };
        let said = their_said.get(..after.messages)?.iter().chain(own);
        let messages: Vec<_> = instructions.iter().chain(said).cloned().collect();
        if after.is_sent {
            let theirs = earlier.carried.sent.as_ref()?;
            let sent = self.run.sent.as_mut()?;
            sent.by = instructions.iter().chain(split(&theirs.by).1).cloned().collect();
        }
        self.run.messages = messages;
        Some(self)
    }
}

/// Returns the instructions and the messages after them.
fn split(messages: &[Arc<Message>]) -> (Option<&Arc<Message>>, &[Arc<Message>]) {
    match messages.split_first() {
        Some((first, rest)) if is_system(first) => (Some(first), rest),
        _ => (None, messages),
    }
}

/// Returns the number of equal messages from the start.
pub(crate) fn common(some: &[Arc<Message>], others: &[Arc<Message>]) -> usize {
    let is_same = |(a, b): &(&Arc<Message>, &Arc<Message>)| Arc::ptr_eq(a, b) || a == b;
    some.iter().zip(others).take_while(is_same).count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::run::Edited;
    use crate::{Finished, Limits, Run, StepResult, Task};
    use toolwright_module::Reply;

    fn messages() -> impl Strategy<Value = Vec<Arc<Message>>> {
        let message = prop_oneof![
            "[ab]{0,2}".prop_map(Message::user),
            "[ab]{0,2}".prop_map(Message::assistant),
        ];
        let system = prop::option::of("[ab]{1}".prop_map(Message::system));
        (system, prop::collection::vec(message, 0..6))
            .prop_map(|(system, messages)| system.into_iter().chain(messages).collect())
    }

    /// Messages that begin like others, more often than not.
    fn two() -> impl Strategy<Value = (Vec<Arc<Message>>, Vec<Arc<Message>>)> {
        (messages(), messages(), any::<prop::sample::Index>(), any::<bool>()).prop_map(
            |(one, other, place, keeps_first)| {
                let mut second = one[..place.index(one.len() + 1)].to_vec();
                let other = if second.is_empty() { &other[..] } else { split(&other).1 };
                second.extend(other.iter().cloned());
                if !keeps_first && split(&second).0.is_some() {
                    second[0] = Message::system("new");
                }
                (one, second)
            },
        )
    }

    fn edit(by: Vec<Arc<Message>>) -> Option<Edited> {
        Some(Edited::new(1, by)).filter(|edited| !edited.by.is_empty())
    }

    proptest! {
        #[test]
        fn a_start_is_the_same_after_it_was_stored_after_an_earlier_run(
            (earlier, messages) in two(),
            (sent_earlier, sent) in two(),
        ) {
            let run = Run::new("Hello.", &[], Limits::default()).unwrap();
            let mut started = Started::new("2", BTreeMap::new(), run.state().clone());
            started.run.messages = messages;
            started.run.sent = edit(sent);
            let carried = Carried { sent: edit(sent_earlier), ..Carried::default() };
            let earlier = Conversation { history: earlier, carried: Box::new(carried) };
            let stored = started.clone().leave_out(After::new("1", "mark", true), &earlier);
            let json = serde_json::to_string(&stored).unwrap();
            let stored: Started = serde_json::from_str(&json).unwrap();
            if let Some(after) = &stored.after {
                prop_assert!(stored.run.messages.len() < started.run.messages.len());
                prop_assert!(after.messages > 0);
            }
            prop_assert_eq!(stored.put_back(&earlier), Some(started));
        }

        #[test]
        fn an_end_is_the_same_after_it_was_stored_without_its_start(
            (start, history) in two(),
            (sent_start, sent) in two(),
        ) {
            let mut run = Run::new("Hello.", &[], Limits::default()).unwrap();
            let mut state = run.state().clone();
            (state.messages, state.sent) = (start, edit(sent_start));
            run.apply(StepResult::model(0, Reply::text("Hello."))).unwrap();
            let crate::StepKind::Done(result) = run.next().kind else { panic!() };
            let mut finished = Finished::new(&run, result, Vec::new());
            finished.history = history;
            finished.carried.sent = edit(sent);
            let whole = finished.clone();
            let left_out = finished.leave_out(&state);
            prop_assert!(finished.put_back(left_out, &state));
            prop_assert_eq!(finished, whole);
        }
    }

    #[test]
    fn an_earlier_run_with_other_messages_is_noticed() {
        let earlier = Run::new("Hello.", &[], Limits::default()).unwrap();
        let earlier = Started::new("1", BTreeMap::new(), earlier.state().clone()).conversation();
        let task = Task::new("Bye.").with_conversation(earlier.clone());
        let run = Run::new(task, &[], Limits::default()).unwrap();
        let started = Started::new("2", BTreeMap::new(), run.state().clone());
        let stored = started.leave_out(After::new("1", "mark", false), &earlier);
        assert!(stored.after.is_some());
        assert_eq!(stored.put_back(&Conversation::default()), None);
    }
}
