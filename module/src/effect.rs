use serde::{Deserialize, Serialize};

/// What a call does to the world, in the module's own word.
///
/// It decides what may run side by side, what may be repeated and what waits for a
/// person, so say more than is true only in the careful direction. Ordered from
/// harmless to final.
///
/// ```
/// use toolwright_module::Effect;
///
/// assert!(Effect::Read < Effect::Irreversible);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing. Reads of one turn run side by side.
    Read,
    /// Changes something, and twice is the same as once.
    Idempotent,
    /// Changes something each time. What a module does unless it says otherwise.
    Write,
    /// Cannot be taken back: sends a mail, pays, deletes.
    Irreversible,
}
