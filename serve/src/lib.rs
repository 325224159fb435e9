//! A service around an agent: streams that readers may leave and come back to, and stored approvals.
mod protocol;
mod update;

pub use update::{Around, Attachment, Cost, Decided, Question, Update, UpdateKind, update_schema};
