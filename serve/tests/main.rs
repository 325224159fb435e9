//! A service over real connections.
mod approvals;
mod messages;
mod readers;
mod support;
