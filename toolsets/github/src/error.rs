/// The result of setting up a [`GitHub`](crate::GitHub).
pub(crate) type Result<T, E = GitHubError> = std::result::Result<T, E>;

/// What can be wrong with how a [`GitHub`](crate::GitHub) is set up.
///
/// A call's failure is a [`toolwright_module::Error`], whose text the model reads; the
/// crate's page lists them. The token is in none of them.
///
/// ```
/// use toolwright_github::GitHub;
///
/// let error = GitHub::new()?.with_repo("octocat").unwrap_err();
/// assert_eq!(error.to_string(), "`octocat` is no repository; name it as owner/name");
/// # Ok::<(), toolwright_github::GitHubError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitHubError {
    /// The environment holds no token, or a blank one.
    #[error(
        "there is no token: set GH_TOKEN or GITHUB_TOKEN, or use `GitHub::new` to read what is public"
    )]
    MissingToken,

    /// The token holds what no HTTP header can carry.
    // It is not shown: it is a secret, or a part of one.
    #[error(
        "the token is empty or holds a character that no token has; look for a line break in it"
    )]
    Token,

    /// The address cannot be that of an API.
    // It is not shown: people put tokens into addresses.
    #[error("the base URL cannot be used: {fault}")]
    BaseUrl {
        /// What is wrong with it and what to do.
        fault: &'static str,
    },

    /// The text names no repository.
    #[error("`{repo}` is no repository; name it as owner/name")]
    Repo {
        /// The text.
        repo: String,
    },

    /// There is no HTTP client on this machine.
    #[error("the HTTP client cannot be set up; check the system's certificates")]
    Client {
        /// Why not.
        source: toolwright_http::HttpError,
    },
}
