//! The tools. Each file has a tool's signature, its output and its module.

pub(crate) mod api_request;
pub(crate) mod get_issue;
pub(crate) mod get_pr;
pub(crate) mod list_issues;
pub(crate) mod list_prs;
pub(crate) mod traffic_clones;
pub(crate) mod traffic_views;
