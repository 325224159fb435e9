//! A service over real connections.
#![cfg(test)]

mod ag_ui;
mod approvals;
mod messages;
mod readers;
mod support;
mod ui_messages;
