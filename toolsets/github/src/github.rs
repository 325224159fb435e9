use std::time::Duration;
use std::{env, fmt};

use toolwright_module::Tool;

use crate::client::Client;
use crate::error::{GitHubError, Result};
use crate::tools::api_request::GithubApiRequestModule;
use crate::tools::get_issue::GithubGetIssueModule;
use crate::tools::get_pr::GithubGetPrModule;
use crate::tools::list_issues::GithubListIssuesModule;
use crate::tools::list_prs::GithubListPrsModule;
use crate::tools::traffic_clones::GithubTrafficClonesModule;
use crate::tools::traffic_views::GithubTrafficViewsModule;

/// Where GitHub is, what proves that we may ask, and the seven tools that do.
///
/// Cloning shares the connections. The token is shown by nothing.
///
/// ```
/// use std::time::Duration;
/// use toolwright_github::GitHub;
///
/// let github = GitHub::new()?
///     .with_base_url("https://github.example.com/api/v3")?
///     .with_token("ghp_notARealOne")?
///     .with_repo("octocat/hello-world")?
///     .with_timeout(Duration::from_secs(10))?;
/// let tools = github.tools()?;
/// let names: Vec<_> = tools.iter().map(|tool| tool.name()).collect();
/// assert_eq!(names[0], "github_list_issues");
/// assert_eq!(names.len(), 7);
/// assert!(!format!("{github:?}").contains("ghp_notARealOne"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct GitHub {
    client: Client,
}

impl GitHub {
    /// github.com without a token: what is public, 60 requests an hour.
    ///
    /// # Errors
    ///
    /// [`GitHubError::Client`] if there is no HTTP client on this machine.
    pub fn new() -> Result<Self> {
        Ok(Self { client: Client::new()? })
    }

    /// github.com with the token that `GH_TOKEN` holds, or else `GITHUB_TOKEN`.
    ///
    /// # Errors
    ///
    /// [`GitHubError::MissingToken`] if neither is set; [`GitHubError::Token`] if it cannot be one.
    pub fn from_env() -> Result<Self> {
        let token = ["GH_TOKEN", "GITHUB_TOKEN"]
            .into_iter()
            .filter_map(|variable| env::var(variable).ok())
            .find(|token| !token.trim().is_empty());
        Self::new()?.with_token(token.ok_or(GitHubError::MissingToken)?)
    }

    /// Proves with a token that we may ask.
    ///
    /// Tools can read whatever the token can. Give one that may read what the model
    /// should, and nothing else.
    ///
    /// # Errors
    ///
    /// [`GitHubError::Token`] if no header can carry it; [`GitHubError::BaseUrl`] if the base URL
    /// would show it to the network.
    pub fn with_token(self, token: impl AsRef<str>) -> Result<Self> {
        Ok(Self { client: self.client.with_token(token.as_ref())? })
    }

    /// Asks another place, such as `https://github.example.com/api/v3` for Enterprise
    /// Server.
    ///
    /// It is the whole address of the API. No request leaves it, and a redirect that
    /// does is not followed.
    ///
    /// # Errors
    ///
    /// [`GitHubError::BaseUrl`] if it is not the URL of an API, or one without TLS while there
    /// is a token. On this machine itself, TLS is not asked for.
    pub fn with_base_url(self, base_url: &str) -> Result<Self> {
        Ok(Self { client: self.client.with_base_url(base_url)? })
    }

    /// Asks for this repository, `owner/name`, where a call names none.
    ///
    /// It is no wall: a call may name any other that the token can read.
    ///
    /// # Errors
    ///
    /// [`GitHubError::Repo`] if it is not of this form.
    pub fn with_repo(self, repo: &str) -> Result<Self> {
        Ok(Self { client: self.client.with_repo(repo)? })
    }

    /// Gives up on a request after this time, from its start to the last byte of its
    /// answer; 30 seconds unless said.
    ///
    /// # Errors
    ///
    /// [`GitHubError::Client`] if there is no HTTP client on this machine.
    pub fn with_timeout(self, timeout: Duration) -> Result<Self> {
        Ok(Self { client: self.client.with_timeout(timeout)? })
    }

    /// Asks again this many times, where GitHub fails, the connection breaks, or a rate
    /// limit asks for a pause of up to a minute; 2 unless said.
    ///
    /// A longer pause, and one that ends after the call's deadline, is an error at once,
    /// which says when to ask again.
    #[must_use]
    pub fn with_retries(self, retries: u32) -> Self {
        Self { client: self.client.with_retries(retries) }
    }

    /// The seven tools. All only read.
    ///
    /// Rename one with [`Tool::named`], set all apart from another account's with
    /// [`Tool::prefixed`], leave one out by filtering the list by [`Tool::name`], or make a
    /// few by hand: `Tool::new(GithubGetIssueModule::new(&github))`.
    ///
    /// # Errors
    ///
    /// None of these contracts fails; the error is that of [`Tool::new`].
    pub fn tools(&self) -> toolwright_signature::Result<Vec<Tool>> {
        Ok(vec![
            Tool::new(GithubListIssuesModule::new(self))?,
            Tool::new(GithubListPrsModule::new(self))?,
            Tool::new(GithubGetIssueModule::new(self))?,
            Tool::new(GithubGetPrModule::new(self))?,
            Tool::new(GithubApiRequestModule::new(self))?,
            Tool::new(GithubTrafficViewsModule::new(self))?,
            Tool::new(GithubTrafficClonesModule::new(self))?,
        ])
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }
}

/// Says where it asks, never with what.
impl fmt::Debug for GitHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}
