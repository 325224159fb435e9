//! The error of a toolset's settings.

/// A result with this crate's error as the default error type.
pub(crate) type Result<T, E = GitHubError> = std::result::Result<T, E>;

/// Error in the settings of a [`GitHub`](crate::GitHub).
///
/// The failure of a call is a [`toolwright_module::Error`], whose text the model reads; the
/// crate's page lists them. No error contains the token.
///
/// ```
/// use toolwright_github::GitHub;
///
/// let error = GitHub::new()?.with_repo("octocat").unwrap_err();
/// assert_eq!(error.to_string(), "`octocat` is not a repository; write it as owner/name");
/// # Ok::<(), toolwright_github::GitHubError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitHubError {
    /// The environment variables for the token are not set or blank.
    #[error(
        "there is no token: set GH_TOKEN or GITHUB_TOKEN, or use `GitHub::new` to read public data"
    )]
    MissingToken,

    /// The token has a character that no token has. The error does not show it.
    #[error(
        "the token is empty or contains a character that no token has; look for a line break in it"
    )]
    Token,

    /// The base URL cannot be used. The error does not show it, because people put tokens into
    /// URLs.
    #[error("the base URL cannot be used: {fault}")]
    BaseUrl {
        /// The reason and the fix.
        fault: &'static str,
    },

    /// The text is not a repository.
    #[error("`{repo}` is not a repository; write it as owner/name")]
    Repo {
        /// The text, the first 100 characters.
        repo: String,
    },

    /// The HTTP client cannot be created.
    #[error("the HTTP client cannot be created; check the system's certificates")]
    Client {
        /// The reason.
        source: toolwright_http::HttpError,
    },
}
