//! One file for each tool: its signature, its output, its module.

pub(crate) mod clear;
pub(crate) mod count;
pub(crate) mod delete;
pub(crate) mod get_metadata;
pub(crate) mod list;
pub(crate) mod retrieve;
pub(crate) mod search;
pub(crate) mod store;
pub(crate) mod update;
