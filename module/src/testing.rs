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

pub use recording::{Exchange, ExchangeFault, Recorder, Recording, RecordingError, Replay};
pub use schema_driven::SchemaDriven;
pub use scripted::Scripted;
