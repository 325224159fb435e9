//! The check of repository names and logins.

use crate::error::{GitHubError, Result};

/// A repository's owner and name. Both are checked, so that each is one segment of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Repo {
    pub(crate) owner: String,
    pub(crate) name: String,
}

impl Repo {
    /// Parses `owner/name`.
    pub(crate) fn parse(repo: &str) -> Result<Self> {
        let parts = repo.split_once('/');
        match parts.filter(|(owner, name)| is_login(owner) && is_name(name)) {
            Some((owner, name)) => Ok(Self { owner: owner.to_owned(), name: name.to_owned() }),
            None => Err(GitHubError::Repo { repo: repo.chars().take(100).collect() }),
        }
    }
}

/// Returns whether the text can be the login of a user or an organization. The logins of
/// managed users have a `_`.
pub(crate) fn is_login(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=100).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(known)
}

fn is_name(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=100).contains(&text.len())
        && !text.starts_with('-')
        && !matches!(text, "." | "..")
        && text.bytes().all(known)
}
