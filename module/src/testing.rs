//! Models for tests and for programs without a key.
//!
//! | model | answers |
//! |---|---|
//! | [`Scripted`] | what your closure says |
//! | [`SchemaDriven`] | valid data for any schema, after calling every tool once |
//! | [`Recorder`], [`Replay`] | what a real model said, recorded once and played again |

mod mask;
mod recording;
mod schema_driven;
mod scripted;
mod words;

pub use recording::{Exchange, ExchangeFault, Recorder, Recording, RecordingError, Replay};
pub use schema_driven::SchemaDriven;
pub use scripted::Scripted;
