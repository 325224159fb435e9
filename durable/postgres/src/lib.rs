//! Runs in a PostgreSQL database.

mod error;
mod lease;
mod many;
mod runs;
mod summary;
mod tables;
mod work;

pub use error::RunsError;
pub use runs::Runs;
pub use summary::RunSummary;
pub use toolwright_journal::RunStatus;
