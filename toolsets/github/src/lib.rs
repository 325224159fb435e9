//! Seven tools that read from GitHub, and cannot do anything else.

mod client;
mod error;
mod failure;
mod github;
mod repo;
mod route;
mod tools;
mod traffic;
mod untrusted;
mod wire;

pub use error::{Error, Result};
pub use github::GitHub;
pub use tools::api_request::{ApiReply, GithubApiRequest, GithubApiRequestTool};
pub use tools::get_issue::{GithubGetIssue, GithubGetIssueTool, Issue};
pub use tools::get_pr::{GithubGetPr, GithubGetPrTool, Mergeable, PullRequest};
pub use tools::list_issues::{
    GithubListIssues, GithubListIssuesTool, IssueEntry, IssueState, Issues,
};
pub use tools::list_prs::{
    GithubListPrs, GithubListPrsTool, PrState, PullRequestEntry, PullRequests,
};
pub use tools::traffic_clones::{GithubTrafficClones, GithubTrafficClonesTool};
pub use tools::traffic_views::{GithubTrafficViews, GithubTrafficViewsTool};
pub use traffic::{Per, Traffic, TrafficPoint};
