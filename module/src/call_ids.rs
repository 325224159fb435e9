//! The ids of the calls of a conversation.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hasher};

use crate::message::ReplyPart;

/// The ids of the calls of a conversation, which are unique.
///
/// Results are paired with calls by id, and some models and servers leave out ids or repeat them.
///
/// ```
/// use toolwright_module::ToolCall;
/// use toolwright_module::message::{CallIds, ReplyPart};
///
/// let call = || ReplyPart::Call(ToolCall::new("1", "look", "{}"));
/// let (mut ids, mut reply) = (CallIds::default(), [call(), call()]);
/// ids.complete(&mut reply, 0);
/// let ids = reply.iter().map(|part| match part {
///     ReplyPart::Call(call) => &*call.id,
///     _ => "",
/// });
/// assert_eq!(ids.collect::<Vec<_>>(), ["1", "call_0_1"]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct CallIds {
    /// Hashes. If two ids have the same one, the later call gets a new id, which is harmless.
    known: BTreeSet<u64>,
}

impl CallIds {
    /// Adds the ids of the calls in a message.
    pub fn add(&mut self, parts: &[ReplyPart]) {
        self.known.extend(ids(parts));
    }

    /// Adds the ids of the calls in a reply. A call gets a new id first if it has none, or one that
    /// an earlier call has.
    ///
    /// `turn` is the number of the reply in the conversation. A new id has it and the place of the
    /// call, so that the same reply always gets the same ids.
    pub fn complete(&mut self, parts: &mut [ReplyPart], turn: u64) {
        // The ids in the reply, which a new id must not equal. Collected only if needed.
        let mut given: Option<BTreeSet<u64>> = None;
        for index in 0..parts.len() {
            let Some(ReplyPart::Call(call)) = parts.get(index) else { continue };
            if !call.id.is_empty() && self.known.insert(hash(&call.id)) {
                continue;
            }
            let given = given.get_or_insert_with(|| ids(parts).collect());
            let mut id = format!("call_{turn}_{index}");
            let mut own = hash(&id);
            while self.known.contains(&own) || given.contains(&own) {
                id.push('_');
                own = hash(&id);
            }
            self.known.insert(own);
            if let Some(ReplyPart::Call(call)) = parts.get_mut(index) {
                call.id = id;
            }
        }
    }

    /// Returns the turn and the place in an id that [`complete`](Self::complete) made.
    #[must_use]
    pub fn made_for(id: &str) -> Option<(u64, usize)> {
        let (turn, index) = id.strip_prefix("call_")?.trim_end_matches('_').split_once('_')?;
        Some((turn.parse().ok()?, index.parse().ok()?))
    }
}

fn ids(parts: &[ReplyPart]) -> impl Iterator<Item = u64> {
    parts.iter().filter_map(|part| match part {
        ReplyPart::Call(call) => Some(hash(&call.id)),
        _ => None,
    })
}

fn hash(id: &str) -> u64 {
    // Not a `RandomState`, because a resumed run must behave the same.
    let mut hasher = DefaultHasher::new();
    hasher.write(id.as_bytes());
    hasher.finish()
}
