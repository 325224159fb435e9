//! The effect of a module's calls.
use serde::{Deserialize, Serialize};

/// The effect of a call on the world, as the module declares it.
///
/// It decides which calls run concurrently, which may be repeated, and which wait for approval. In
/// doubt, declare the more severe one. The order is from harmless to final.
///
/// ```
/// use toolwright_module::Effect;
///
/// assert!(Effect::Read < Effect::Irreversible);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing. Reads of one turn run concurrently.
    Read,
    /// Changes something. A repeated call has no further effect.
    Idempotent,
    /// Changes something each time. The default of a module.
    Write,
    /// Cannot be undone: sends a mail, pays, deletes.
    Irreversible,
}
