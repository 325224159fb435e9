//! [`Rules`]: what a server needs that others do not.

use std::sync::Arc;

use toolwright_module::provider::portable_id;

use std::borrow::Cow;

/// What a server needs that others do not.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// The provider of the reasoning and the opaque parts of Chat Completions, and of Responses.
    pub(crate) origins: [Arc<str>; 2],
    /// Whether each message with calls must have `reasoning_content`.
    pub(crate) needs_reasoning: bool,
    /// The ids of calls in Chat Completions.
    pub(crate) ids: Ids,
}

/// The form of a call's id that a server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    /// At most 40 letters, digits, `_` and `-`.
    Portable,
    /// Exactly 9 letters and digits, for Mistral.
    Nine,
    /// Any, because the model was trained with its own, such as `functions.look:0`.
    Any,
}

impl Ids {
    pub(crate) fn write(self, id: &str) -> Cow<'_, str> {
        const MOST: usize = 40;
        match self {
            Self::Any if (1..=MOST).contains(&id.len()) => Cow::Borrowed(id),
            Self::Any | Self::Portable => portable_id(id, MOST),
            Self::Nine if id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                Cow::Borrowed(id)
            }
            Self::Nine => {
                // A length of 0 is never accepted, so that this is always the hash.
                let hash = portable_id(id, 0).into_owned();
                Cow::Owned(hash[hash.len() - 9..].to_owned())
            }
        }
    }
}

impl Rules {
    /// Returns the rules for a server that is not in the list of services. The model's name says
    /// what the model needs.
    pub(crate) fn of_model(model: &str) -> Self {
        let name = model.to_ascii_lowercase();
        let is = |families: &[&str]| families.iter().any(|family| name.contains(family));
        Self {
            origins: ["openai-chat".into(), "openai-responses".into()],
            needs_reasoning: is(&["deepseek", "kimi"]),
            ids: match () {
                () if is(&["kimi"]) => Ids::Any,
                () if is(&["mistral", "ministral", "magistral", "codestral", "devstral"]) => {
                    Ids::Nine
                }
                () => Ids::Portable,
            },
        }
    }
}
