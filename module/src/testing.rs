//! Models for tests and for programs without a key.
//!
//! | model | answers with |
//! |---|---|
//! | [`Scripted`] | the result of your closure |
//! | [`SchemaDriven`] | valid data for any schema, after it has called every tool once |
//! | [`Recorder`], [`Replay`] | the replies of a real model, recorded once and replayed |

mod mask;
mod recording;
mod schema_driven;
mod scripted;
mod words;

pub use mask::Mask;
pub use recording::{Exchange, Recorder, Recording, RecordingError, Replay};
pub use schema_driven::SchemaDriven;
pub use scripted::Scripted;
use toolwright_signature::Dialect;

use crate::model::{Capabilities, SettingSet};

/// Returns the capabilities of a model that takes everything.
fn all_capabilities() -> Capabilities {
    Capabilities {
        structured_output: true,
        tools: true,
        images: true,
        documents: true,
        audio: true,
        settings: SettingSet::ALL,
        ..Capabilities::new(Dialect::JsonSchema2020)
    }
}
