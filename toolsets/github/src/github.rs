//! [`GitHub`]: the settings that the tools share, and the list of the tools.

use std::time::Duration;
use std::{env, fmt};

use crate::client::Client;
use crate::error::{GitHubError, Result};

/// Toolset for GitHub: base URL, token, default repository and limits of seven tools.
///
/// Cloning shares the connections. No text of this crate shows the token.
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
///
/// Each tool is also a method, for code. [`tools`](Self::tools) lists the tools, whose effect is
/// [`Effect::Read`](toolwright_module::Effect::Read). To rename a tool, use `Tool::named`. To
/// separate the tools of two accounts, use `Tool::prefixed`. To leave tools out, filter the list by
/// `Tool::name`, or create single tools: `GitHubGetIssue::tool(&github)`.
#[derive(Clone)]
pub struct GitHub {
    pub(crate) client: Client,
}

impl GitHub {
    /// Creates a toolset for github.com without a token. It reads public data, with up to 60
    /// requests an hour.
    ///
    /// # Errors
    ///
    /// [`GitHubError::Client`] if the HTTP client cannot be created.
    pub fn new() -> Result<Self> {
        Ok(Self { client: Client::new()? })
    }

    /// Creates a toolset for github.com with the token in the environment variable `GH_TOKEN`
    /// or, if that is not set, `GITHUB_TOKEN`.
    ///
    /// # Errors
    ///
    /// [`GitHubError::MissingToken`] if neither is set. [`GitHubError::Token`] if the token has a
    /// character that no token has. [`GitHubError::Client`] as for [`new`](Self::new).
    pub fn from_env() -> Result<Self> {
        let token = ["GH_TOKEN", "GITHUB_TOKEN"]
            .into_iter()
            .filter_map(|variable| env::var(variable).ok())
            .find(|token| !token.trim().is_empty());
        Self::new()?.with_token(token.ok_or(GitHubError::MissingToken)?)
    }

    /// Sets the token. Default: no token.
    ///
    /// The tools can read everything that the token can read, so use a token that can read only
    /// what the model may see. White space around it is removed.
    ///
    /// # Errors
    ///
    /// [`GitHubError::Token`] if it has a character that no token has. [`GitHubError::BaseUrl`] if
    /// the base URL is plain http and not on this machine.
    pub fn with_token(self, token: impl AsRef<str>) -> Result<Self> {
        Ok(Self { client: self.client.with_token(token.as_ref())? })
    }

    /// Sets the base URL of the API, such as `https://github.example.com/api/v3` for an
    /// Enterprise Server. Default: `https://api.github.com`.
    ///
    /// Every request goes to a URL below it. A redirect to another URL is not followed.
    ///
    /// # Errors
    ///
    /// [`GitHubError::BaseUrl`] if it is not an http or https URL, has a user name, a password, a
    /// query or a fragment, or is plain http to another machine while there is a token.
    pub fn with_base_url(self, base_url: &str) -> Result<Self> {
        Ok(Self { client: self.client.with_base_url(base_url)? })
    }

    /// Sets the repository, `owner/name`, for calls that do not name one. Default: every call
    /// has to name one.
    ///
    /// It does not restrict the tools: a call can name any repository that the token can read.
    ///
    /// # Errors
    ///
    /// [`GitHubError::Repo`] if the text does not have this form.
    pub fn with_repo(self, repo: &str) -> Result<Self> {
        Ok(Self { client: self.client.with_repo(repo)? })
    }

    /// Sets the maximum time of one attempt, from its start to the last byte of the response.
    /// Default: 30 seconds.
    ///
    /// # Errors
    ///
    /// [`GitHubError::Client`] if the HTTP client cannot be created.
    pub fn with_timeout(self, timeout: Duration) -> Result<Self> {
        Ok(Self { client: self.client.with_timeout(timeout)? })
    }

    /// Sets the maximum number of retries of a request. Default: 2.
    ///
    /// There is a retry if GitHub fails, if the connection breaks, and if a rate limit asks for
    /// a pause of up to a minute. If the pause is longer or ends after the call's deadline, the
    /// call returns an error that says when to try again.
    #[must_use]
    pub fn with_retries(self, retries: u32) -> Self {
        Self { client: self.client.with_retries(retries) }
    }
}

/// Shows the base URL, the default repository and whether there is a token.
impl fmt::Debug for GitHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}
