//! What the example programs share: choosing a model and showing a run.

mod choose;
mod show;

pub use choose::{Chosen, ModelArgs, NoModel, ServerArgs};
pub use show::{Screen, note, printable, say, summary};
