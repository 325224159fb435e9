//! One suite of scripts for all providers.
//!
//! A [`Provider`] is one entry of [`PROVIDERS`]. A script is a list of replies and faults that a
//! validating server plays, and a check of what the provider made of them. All providers run the
//! same scripts, with whole and streamed replies. The program of this crate runs them:
//!
//! ```sh
//! cargo run -p toolwright-conformance -- CONTRACT_SERVER.py
//! ```
//!
//! The tests of this crate need no server. They continue with one provider a conversation that
//! another provider began.
//!
//! | file | content |
//! |---|---|
//! | `provider.rs` | the providers, and the API of each |
//! | `script.rs`, `scripts/*.rs` | the scripts |
//! | `trial.rs`, `server.rs` | one script on one provider, with a server of its own |
//! | `suite.rs`, `table.rs` | all scripts on all providers, and the table of results |

mod provider;
mod script;
mod scripts;
mod server;
mod suite;
mod table;
mod trial;

pub use provider::{PROVIDERS, Provider, Wire};
pub use suite::{Played, Results, play};

/// A result whose error says what is wrong.
pub(crate) type Check<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
