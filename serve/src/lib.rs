//! A service around an agent: streams that readers may leave and come back to, and stored approvals.
mod ag_ui;
mod caller;
mod core;
mod error;
mod home;
mod live;
mod memory;
mod protocol;
mod recorded;
mod routes;
mod serve;
mod ui_messages;
mod update;
mod watched;

pub use caller::Caller;
pub use error::{Rejection, ServeError};
pub use home::Home;
pub use serve::{Serve, Service, router};
pub use update::{Around, Attachment, Cost, Decided, Question, Update, UpdateKind, update_schema};
