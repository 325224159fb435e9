//! The order of a request's messages, for APIs and models that refuse some orders of roles.
//!
//! OpenAI takes any order. Mistral's API and the chat templates of many models do not: they refuse a
//! user message after a tool's result or after another user message, a system message that is not the
//! first, an empty message of the model, and a conversation that the model begins. The server then
//! refuses the whole request. [`turns`] returns an order that all of them accept:
//!
//! ```text
//! system, user, user              → system, user (both texts)
//! user, assistant (calls), tool, user
//!                                 → user, assistant (calls), tool, assistant (BRIDGE), user
//! user, assistant (empty), user   → user (both texts)
//! user, system                    → system, user
//! assistant, user                 → user (OPENING), assistant, user
//! ```
//!
//! No text is left out. The two texts that are added stand at the same place in each later request,
//! so a provider's prompt cache stays valid.
//!
//! ```
//! use toolwright_module::Message;
//! use toolwright_provider::order::{Content, Role, turns};
//!
//! let messages = [Message::user("Rate it."), Message::user("Be brief.")];
//! let turns = turns(&messages, |_| true, true);
//! assert_eq!((turns.len(), turns[0].role), (1, Role::User));
//! assert_eq!(turns[0].of, [Content::Message(0), Content::Message(1)]);
//! ```

use std::ops::Range;
use std::sync::Arc;

use toolwright_module::message::{Message, ReplyPart};

/// The model's text between results and a message of the user. The servers that require it also
/// refuse an empty one.
pub const BRIDGE: &str = "I have read the results.";

/// The user's text before a conversation that begins with a message of the model.
pub const OPENING: &str = "Begin.";

/// Role of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The result of a call.
    Tool,
}

impl Role {
    fn of(message: &Message) -> Self {
        match message {
            Message::System { .. } => Self::System,
            Message::Assistant { .. } => Self::Assistant,
            Message::Tool(_) => Self::Tool,
            // Writing refuses a kind of message that a newer version of the module layer has.
            _ => Self::User,
        }
    }
}

/// Source of a message's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The message at this index of the request.
    Message(usize),
    /// The images and files of the results at these indexes. A tool's message cannot contain them.
    Shown(Range<usize>),
    /// A text that this module adds.
    Added(&'static str),
}

/// One message of the API.
#[derive(Debug, PartialEq, Eq)]
pub struct Turn {
    /// The role of the message.
    pub role: Role,
    /// The content, which may come from several messages of the request.
    pub of: Vec<Content>,
}

/// Returns the messages to send. `is_sent` returns whether anything of the message at an index is sent:
/// a strict server refuses an empty one. Without `is_strict`, the order is that of the request.
#[must_use]
pub fn turns(
    messages: &[Arc<Message>],
    is_sent: impl Fn(usize) -> bool,
    is_strict: bool,
) -> Vec<Turn> {
    let capacity = messages.len() + 1;
    let mut turns = Turns { is_strict, turns: Vec::with_capacity(capacity), calls: false };
    let result_at = |at: usize| match messages.get(at).map(Arc::as_ref) {
        Some(Message::Tool(result)) => Some(result),
        _ => None,
    };
    for (at, message) in messages.iter().enumerate() {
        if !is_sent(at) {
            continue;
        }
        turns.push(Role::of(message), Content::Message(at));
        turns.calls = has_calls(message);
        // After the last result of a turn, because servers refuse other messages between a turn's
        // calls and their results.
        if result_at(at).is_some() && result_at(at + 1).is_none() {
            let run = (0..=at).rev().take_while(|at| result_at(*at).is_some()).count();
            let results = at + 1 - run..at + 1;
            let has_parts = |at: usize| result_at(at).is_some_and(|it| !it.parts.is_empty());
            if results.clone().any(has_parts) {
                turns.push(Role::User, Content::Shown(results));
            }
        }
    }
    turns.turns
}

struct Turns {
    is_strict: bool,
    turns: Vec<Turn>,
    /// Whether the last turn has calls.
    calls: bool,
}

impl Turns {
    fn push(&mut self, role: Role, content: Content) {
        if self.is_strict {
            let last = match role {
                Role::System => self.turns.first_mut(),
                _ => self.turns.last_mut(),
            };
            match (last, role) {
                (Some(last), Role::System | Role::User) if last.role == role => {
                    return last.of.push(content);
                }
                (Some(last), Role::Assistant) if last.role == role && !self.calls => {
                    return last.of.push(content);
                }
                (_, Role::System) => {
                    return self.turns.insert(0, Turn { role, of: vec![content] });
                }
                (Some(Turn { role: Role::Tool, .. }), Role::User) => {
                    self.add(Role::Assistant, BRIDGE);
                }
                (None | Some(Turn { role: Role::System, .. }), Role::Assistant) => {
                    self.add(Role::User, OPENING);
                }
                _ => {}
            }
        }
        self.turns.push(Turn { role, of: vec![content] });
    }

    fn add(&mut self, role: Role, text: &'static str) {
        self.turns.push(Turn { role, of: vec![Content::Added(text)] });
    }
}

fn has_calls(message: &Message) -> bool {
    let Message::Assistant { parts } = message else { return false };
    parts.iter().any(|part| matches!(part, ReplyPart::Call(_)))
}
