//! The nine tools, one file each: the signature, its output and its module.

pub(crate) mod clear;
pub(crate) mod count;
pub(crate) mod delete;
pub(crate) mod get_metadata;
pub(crate) mod list;
pub(crate) mod retrieve;
pub(crate) mod search;
pub(crate) mod store;
pub(crate) mod update;
