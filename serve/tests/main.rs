//! A service over real connections.
#![cfg(test)]

mod ag_ui;
mod approvals;
mod left;
mod messages;
mod readers;
mod support;
mod ui_messages;
