//! A service over real connections.
#![cfg(test)]

mod ag_ui;
mod approvals;
mod deploys;
mod layers;
mod left;
mod long;
mod messages;
mod readers;
mod stopped;
mod support;
mod ui_messages;
