//! One suite of scripts that every provider plays.
//!
//! A [`Provider`] is one entry of [`PROVIDERS`]. A script is a list of replies and faults that a
//! validating server plays, and a check of what the provider made of them. All scripts are the same
//! for all providers, whole and streamed. The program of this crate plays them:
//!
//! ```sh
//! cargo run -p toolwright-conformance -- CONTRACT_SERVER.py
//! ```
//!
//! The tests of this crate need no server. They go on with one provider where another one began.
//!
//! | file | content |
//! |---|---|
//! | `provider.rs` | the providers, and the API of each |
//! | `script.rs`, `scripts/*.rs` | the scripts |
//! | `trial.rs`, `server.rs` | one script on one provider, with a server of its own |
//! | `suite.rs`, `table.rs` | all of them, and their results |

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
