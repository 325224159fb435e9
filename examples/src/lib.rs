//! What the example programs share: choosing a model and showing a run.

mod choose;
mod show;

pub use choose::{Chosen, ModelArgs, NoModel};
pub use show::{Screen, printable, summary};
