//! The parts of a run, and their ids.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toolwright_module::approval::Approval;
use toolwright_module::event::InCall;
use toolwright_module::{Contract, Effect, ToolCall};

use super::hash;

/// A part of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Part {
    /// The tool calls around the run, outermost first.
    pub path: Vec<InCall>,
    /// What has to be done.
    pub kind: PartKind,
}

/// The kind of a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PartKind {
    /// A request to the model.
    Ask {
        /// The number of the request in its run, from 0.
        nth: u64,
        /// A hash of the run's current task and its number in the run.
        task: u64,
        /// 0, and one more each time a limit forbade the request and is larger now.
        #[serde(default)]
        attempt: u32,
    },
    /// A tool call. Nothing inside it is a part.
    Call {
        /// Call of the tool.
        call: ToolCall,
        /// The effect of the tool.
        effect: Effect,
        /// 0, and one more each time a person decided to make the call again.
        attempt: u32,
    },
    /// A call of an agent. It is made of the parts of the agent's run.
    Run {
        /// Call of the inner agent.
        call: ToolCall,
    },
    /// A person's decision on a call.
    Decide {
        /// Call that waits for the decision.
        call: ToolCall,
        /// The effect of the tool.
        effect: Effect,
        /// The attempt whose outcome was lost, if the question is whether to make the call again.
        unknown: Option<u32>,
        /// The contract that other arguments of the person have to fit, if the tool exists.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        contract: Option<Arc<Contract>>,
        /// Why the call waits; see [`Approval::reason`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Whether a [`CallCheck`](crate::CallCheck) has decided, so that no person is asked.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_checked: bool,
    },
    /// A compaction of the conversation before a request to the model.
    Compact {
        /// The number of the request in its run.
        nth: u64,
        /// 0, and one more for each compaction before the same request.
        attempt: u32,
    },
    /// A value that a module computes; see [`value`](super::value).
    Value {
        /// The name that the module gave it.
        name: String,
    },
}

impl Part {
    /// Returns a part of the run inside these calls, outermost first. For programs that look for a
    /// part in a journal: the driver makes the parts of a run itself.
    ///
    /// ```
    /// use toolwright_module::{Effect, ToolCall};
    /// use toolwright_orchestrator::perform::{Part, PartKind};
    ///
    /// let (call, effect) = (ToolCall::new("1", "pay", "{}"), Effect::Irreversible);
    /// let (unknown, contract, reason, is_checked) = (None, None, None, false);
    /// let kind = PartKind::Decide { call, effect, unknown, contract, reason, is_checked };
    /// let part = Part::new(Vec::new(), kind);
    /// assert_eq!(part.id().to_string(), r#"["decide","1"]"#);
    /// ```
    #[must_use]
    pub fn new(path: Vec<InCall>, kind: PartKind) -> Self {
        Self { path, kind }
    }

    /// Returns the id of the part, which is the same in every drive of the run.
    #[must_use]
    pub fn id(&self) -> PartId {
        let kind = match &self.kind {
            &PartKind::Ask { nth, attempt, .. } => PartIdKind::Ask { nth, attempt },
            PartKind::Call { call, attempt, .. } => {
                PartIdKind::Call { call: call.id.clone(), attempt: *attempt }
            }
            PartKind::Run { call } => PartIdKind::Run { call: call.id.clone() },
            PartKind::Decide { call, unknown, .. } => {
                PartIdKind::Decide { call: call.id.clone(), unknown: *unknown }
            }
            &PartKind::Compact { nth, attempt } => PartIdKind::Compact { nth, attempt },
            PartKind::Value { name } => PartIdKind::Value { name: name.clone() },
        };
        PartId { path: self.path.clone(), kind }
    }

    /// Returns whether the part may be done again without a question, if it was begun and has no
    /// outcome.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        match &self.kind {
            PartKind::Call { effect, .. } => *effect <= Effect::Idempotent,
            _ => true,
        }
    }

    /// Returns the call that a person decides on in this part. `None` for another part, and for a
    /// decision of a check.
    #[must_use]
    pub fn approval(&self) -> Option<Approval> {
        let PartKind::Decide { call, effect, unknown, reason, is_checked: false, .. } = &self.kind
        else {
            return None;
        };
        Some(Approval {
            path: self.path.clone(),
            call: call.clone(),
            effect: *effect,
            unknown: unknown.is_some(),
            asked_before: unknown.unwrap_or_default(),
            reason: reason.clone(),
        })
    }

    /// Returns a hash of what must not differ between two drives of one run: the task, or the tool
    /// and the arguments of a call.
    #[must_use]
    pub fn identity(&self) -> u64 {
        match &self.kind {
            PartKind::Ask { task, .. } => *task,
            PartKind::Call { call, .. }
            | PartKind::Run { call }
            | PartKind::Decide { call, .. } => hash([&*call.name, &*call.arguments]),
            PartKind::Compact { .. } | PartKind::Value { .. } => 0,
        }
    }
}

/// The id of a part. It is the same in every drive of a run, and no other part of the run or of a run
/// below has it.
///
/// It is stored as text: a JSON array of strings. The array has the tool and the id of each call
/// around the run, and then two or three strings for the part in its run.
///
/// ```
/// use toolwright_orchestrator::perform::{PartId, PartIdKind};
///
/// let id: PartId = r#"["helper","call_1","ask","","2"]"#.parse()?;
/// assert_eq!(id.path[0].tool, "helper");
/// assert_eq!(id.kind, PartIdKind::Ask { nth: 2, attempt: 0 });
/// assert_eq!(id.to_string(), r#"["helper","call_1","ask","","2"]"#);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct PartId {
    /// The tool calls around the run, outermost first.
    pub path: Vec<InCall>,
    /// The id in this run.
    pub kind: PartIdKind,
}

/// The id of a part in its run. The numbers are those of [`PartKind`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PartIdKind {
    /// A request to the model.
    Ask {
        /// The number of the request in its run.
        nth: u64,
        /// The attempt, after a limit forbade the request.
        attempt: u32,
    },
    /// A tool call.
    Call {
        /// The id of the call.
        call: String,
        /// The attempt, after a person decided to make the call again.
        attempt: u32,
    },
    /// A call of an agent.
    Run {
        /// The id of the call.
        call: String,
    },
    /// A person's decision on a call.
    Decide {
        /// The id of the call.
        call: String,
        /// The attempt whose outcome was lost, if the question is whether to make the call again.
        unknown: Option<u32>,
    },
    /// A compaction of the conversation.
    Compact {
        /// The number of the request before which it is made.
        nth: u64,
        /// The attempt, after another compaction before the same request.
        attempt: u32,
    },
    /// A value that a module computes.
    Value {
        /// The name that the module gave it.
        name: String,
    },
}

impl PartId {
    /// Returns the id of the call that the part makes or is a decision on.
    #[must_use]
    pub fn call(&self) -> Option<&str> {
        match &self.kind {
            PartIdKind::Call { call, .. }
            | PartIdKind::Run { call }
            | PartIdKind::Decide { call, .. } => Some(call),
            _ => None,
        }
    }
}

impl fmt::Display for PartId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<&str> = Vec::with_capacity(2 * self.path.len() + 3);
        names.extend(self.path.iter().flat_map(|call| [&*call.tool, &*call.id]));
        let (number, again);
        let (kind, name, count) = match &self.kind {
            PartIdKind::Ask { nth, attempt: 0 } => ("ask", "", Some(*nth)),
            PartIdKind::Ask { nth, attempt } => {
                again = format!("{AGAIN}{attempt}");
                ("ask", &*again, Some(*nth))
            }
            PartIdKind::Call { call, attempt } => ("call", &**call, Some((*attempt).into())),
            PartIdKind::Run { call } => ("run", &**call, None),
            PartIdKind::Decide { call, unknown } => ("decide", &**call, unknown.map(u64::from)),
            PartIdKind::Compact { nth, attempt } => {
                again = nth.to_string();
                ("compact", &*again, Some((*attempt).into()))
            }
            PartIdKind::Value { name } => ("value", &**name, None),
        };
        names.extend([kind, name]);
        if let Some(count) = count {
            number = count.to_string();
            names.push(&number);
        }
        // As JSON, because ids come from providers and may contain any character.
        f.write_str(&serde_json::to_string(&names).map_err(|_| fmt::Error)?)
    }
}

const AGAIN: &str = "again ";

impl FromStr for PartId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || {
            let text = &text[..text.floor_char_boundary(200)];
            format!(
                "{text:?} is not the id of a part; expected a JSON array of strings, such as `[\"ask\",\"\",\"0\"]`"
            )
        };
        let mut names: Vec<String> = serde_json::from_str(text).map_err(|_| fault())?;
        // Each call of the path has two names, so an odd number means a part with three.
        let own = names.len().checked_sub(2 + names.len() % 2).ok_or_else(fault)?;
        let own = names.split_off(own);
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let number = |text: &str| text.parse().map_err(|_| fault());
        let kind = match *own {
            ["ask", again, nth] => {
                let nth = nth.parse().map_err(|_| fault())?;
                let attempt = match again {
                    "" => 0,
                    again => number(again.strip_prefix(AGAIN).ok_or_else(fault)?)?,
                };
                PartIdKind::Ask { nth, attempt }
            }
            ["call", call, attempt] => {
                PartIdKind::Call { call: call.to_owned(), attempt: number(attempt)? }
            }
            ["run", call] => PartIdKind::Run { call: call.to_owned() },
            ["decide", call] => PartIdKind::Decide { call: call.to_owned(), unknown: None },
            ["decide", call, unknown] => {
                PartIdKind::Decide { call: call.to_owned(), unknown: Some(number(unknown)?) }
            }
            ["compact", nth, attempt] => PartIdKind::Compact {
                nth: nth.parse().map_err(|_| fault())?,
                attempt: number(attempt)?,
            },
            ["value", name] => PartIdKind::Value { name: name.to_owned() },
            _ => return Err(fault()),
        };
        let mut names = names.into_iter();
        let path = std::iter::from_fn(|| Some(InCall { tool: names.next()?, id: names.next()? }));
        Ok(Self { path: path.collect(), kind })
    }
}

impl Serialize for PartId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PartId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part() -> impl Strategy<Value = PartId> {
        let kind = prop_oneof![
            (any::<u64>(), any::<u32>())
                .prop_map(|(nth, attempt)| PartIdKind::Ask { nth, attempt }),
            (".{0,9}", any::<u32>()).prop_map(|(call, attempt)| PartIdKind::Call { call, attempt }),
            ".{0,9}".prop_map(|call| PartIdKind::Run { call }),
            (".{0,9}", any::<Option<u32>>())
                .prop_map(|(call, unknown)| PartIdKind::Decide { call, unknown }),
            (any::<u64>(), any::<u32>())
                .prop_map(|(nth, attempt)| PartIdKind::Compact { nth, attempt }),
            ".{0,9}".prop_map(|name| PartIdKind::Value { name }),
        ];
        // Tools and ids that are also the names of kinds.
        let name = "ask|call|run|decide|compact|value|again 1|0||.{0,9}";
        let path = prop::collection::vec((name, name), 0..4);
        (path, kind).prop_map(|(path, kind)| {
            let path = path.into_iter().map(|(tool, id)| InCall { tool, id }).collect();
            PartId { path, kind }
        })
    }

    proptest! {
        #[test]
        fn an_id_is_the_same_after_it_was_written_and_read(id in part()) {
            prop_assert_eq!(id.to_string().parse::<PartId>(), Ok(id));
        }

        #[test]
        fn any_text_can_be_read(text in "\\PC{0,40}|\\[(\"(ask|call|again 1|0|)\",?){0,5}\\]") {
            let _ = text.parse::<PartId>();
        }
    }
}
