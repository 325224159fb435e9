//! A service over real connections.
mod ag_ui;
mod approvals;
mod messages;
mod readers;
mod support;
