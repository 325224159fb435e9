//! `github_list_prs`: the pull requests of a repository.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::Context;

use crate::client::ItemList;
use crate::failure::{Failure, Prefixes};
use crate::github::GitHub;
use crate::item::Item;
use crate::repo::Repo;
use crate::tools::list_issues::INCOMPLETE;
use crate::untrusted::{Untrusted, fenced};

/// State of the pull requests to list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PrState {
    /// Open pull requests.
    #[default]
    Open,
    /// Closed pull requests, including merged ones.
    Closed,
    /// Merged pull requests.
    Merged,
    /// Open, closed and merged pull requests.
    All,
}

/// The pull requests that were found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PullRequests {
    /// The pull requests.
    pub pull_requests: Vec<PullRequestEntry>,
    /// Whether all matching pull requests up to the limit are included. If false, some may be missing, because only a part of a very long list was read.
    pub complete: bool,
}

/// A pull request in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PullRequestEntry {
    /// Pull request number.
    pub number: u64,
    /// Title of the pull request.
    pub title: Untrusted,
    /// `open`, `closed` or `merged`.
    pub state: String,
    /// Branch with the changes.
    pub head: Untrusted,
    /// Branch that the changes are merged into.
    pub base: Untrusted,
    /// URL of the pull request's page.
    pub url: String,
}

impl PullRequestEntry {
    pub(super) fn of(item: &Item) -> Self {
        Self {
            number: item.number,
            title: item.title(),
            state: state(item),
            head: item.head(),
            base: item.base(),
            url: item.url(),
        }
    }
}

/// Returns the state. GitHub's state of a merged pull request is `closed`, beside a time.
pub(crate) fn state(item: &Item) -> String {
    if item.is_merged() { "merged".to_owned() } else { item.state() }
}

impl PullRequests {
    /// Returns the text for the model.
    pub(super) fn text(&self) -> String {
        let incomplete = if self.complete { "" } else { INCOMPLETE };
        if self.pull_requests.is_empty() {
            return format!("No pull requests found{incomplete}");
        }
        let mut text = format!("Found {} pull request(s):\n", self.pull_requests.len());
        for pr in &self.pull_requests {
            let _ = writeln!(text, "#{}: {} ({})", pr.number, pr.title.as_str(), pr.state);
            let _ = writeln!(text, "  {} → {}", pr.head.as_str(), pr.base.as_str());
            let _ = writeln!(text, "  URL: {}\n", pr.url);
        }
        fenced(&text) + incomplete
    }
}

pub(super) const PREFIXES: Prefixes = Prefixes {
    failed: "Failed to list pull requests",
    doing: "Error listing pull requests",
    parsing: "Failed to parse pull requests",
};

/// Requests pull requests with GitHub's list, which has no filter for authors. Merged pull requests are
/// those of the closed ones that have a time of merging.
pub(super) async fn page(
    github: &GitHub,
    state: PrState,
    base: Option<&str>,
    repo: &Repo,
    limit: u32,
    cx: &Context,
) -> Result<ItemList, Failure> {
    let is_merged: fn(&Item) -> bool = Item::is_merged;
    let (state, fits) = match state {
        PrState::Open => ("open", None),
        PrState::Closed => ("closed", None),
        PrState::Merged => ("closed", Some(is_merged)),
        PrState::All => ("all", None),
    };
    let mut query = vec![("state", state)];
    query.extend(base.map(|base| ("base", base)));
    let path = ["repos", &repo.owner, &repo.name, "pulls"];
    github.list(&path, &query, limit, fits, cx).await
}

/// Requests pull requests with GitHub's search. Its results have no branches, so each pull request is
/// requested, one after the other as GitHub asks for.
pub(super) async fn search(
    github: &GitHub,
    state: PrState,
    author: &str,
    base: Option<&str>,
    repo: &Repo,
    limit: u32,
    cx: &Context,
) -> Result<ItemList, Failure> {
    let author = github.login("author", author, cx).await?;
    // In a search, the author of a bot is its app.
    let author = match author.strip_suffix("[bot]") {
        Some(bot) => format!("app/{bot}"),
        None => author,
    };
    let mut words = format!("repo:{}/{} is:pr author:{author}", repo.owner, repo.name);
    words += match state {
        PrState::Open => " is:open",
        PrState::Closed => " is:closed",
        PrState::Merged => " is:merged",
        PrState::All => "",
    };
    if let Some(base) = base {
        words += &format!(" base:\"{base}\"");
    }
    let query = [("q", words.as_str()), ("sort", "created"), ("order", "desc")];
    let mut listed = github.list(&["search", "issues"], &query, limit, None, cx).await?;
    for item in &mut listed.items {
        let number = item.number.to_string();
        let path = ["repos", &repo.owner, &repo.name, "pulls", &number];
        *item = github.get(&path, &[], cx).await?.read()?;
    }
    Ok(listed)
}

/// Checks the name of a branch by the rules of git. A quote is not allowed, because it would
/// end the word in a search.
pub(super) fn check_branch(branch: &str) -> Result<(), Failure> {
    let odd = |char: char| char.is_control() || char.is_whitespace() || "~^:?*[\\\"".contains(char);
    let wrong = branch.is_empty()
        || branch.len() > 255
        || branch.starts_with(['-', '/'])
        || branch.ends_with(['/', '.'])
        || branch.contains("..")
        || branch.contains("//")
        || branch.contains("@{")
        || branch.contains(odd);
    if wrong {
        let fault = "`base` must be the name of a branch, such as main";
        return Err(Failure::Argument(fault.to_owned()));
    }
    Ok(())
}
