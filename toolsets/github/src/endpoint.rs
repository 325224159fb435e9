//! The check of the `endpoint` that a model writes for `github_api_request`.

use percent_encoding::percent_decode_str;

use crate::failure::Failure;
use crate::repo::Repo;

/// Maximum length of an endpoint, in bytes.
const MAX_LENGTH: usize = 2048;

const ADDRESS: &str = "must be a path such as repos/octocat/hello-world/releases, not an address";

/// Splits an endpoint into the segments of a path, each decoded. `{owner}` and `{repo}` are
/// replaced.
///
/// The result is always a path below the base URL. An endpoint with a scheme, a host, a query, a
/// fragment, an empty segment, `.` or `..` is rejected, also if it is percent-encoded. The caller
/// encodes the segments again.
pub(crate) fn segments(endpoint: &str, repo: Option<&Repo>) -> Result<Vec<String>, Failure> {
    let refused = |fault: &str| Err(Failure::Argument(format!("`endpoint` {fault}")));
    if endpoint.len() > MAX_LENGTH {
        return refused("is longer than 2048 bytes; shorten it");
    }
    if endpoint.contains("://") || endpoint.starts_with("//") {
        return refused(ADDRESS);
    }
    if endpoint.contains(['?', '#']) {
        return refused("must not contain `?` or `#`; put parameters into `fields`");
    }
    if endpoint.starts_with('-') {
        return refused("must not begin with `-`; it is a path, not an option");
    }
    let path = endpoint.strip_prefix('/').unwrap_or(endpoint);
    // Addresses have these characters in the first part, and paths of the API do not.
    if path.split('/').next().is_some_and(|first| first.contains([':', '@'])) {
        return refused(ADDRESS);
    }
    let mut segments = Vec::new();
    for part in path.split('/') {
        let Some(plain) = decoded(part) else {
            return refused(
                "contains a `%` that does not begin an encoded character; write the character itself",
            );
        };
        let segment = match (plain.as_str(), repo) {
            ("{owner}", Some(repo)) => repo.owner.clone(),
            ("{repo}", Some(repo)) => repo.name.clone(),
            ("{owner}" | "{repo}", None) => {
                return refused(
                    "contains {owner} or {repo}; name the repository in `repo`, as owner/name",
                );
            }
            _ => plain,
        };
        match segment.as_str() {
            "" => {
                return refused("is empty or has an empty part; remove `//` and a `/` at its end");
            }
            "." | ".." => return refused("must not have `.` or `..` as a part"),
            _ if segment.starts_with(['-', ' ']) || segment.ends_with(' ') => {
                return refused(
                    "must not have a part that begins with `-` or a space, or ends with a space",
                );
            }
            _ => {}
        }
        if let Some(char) = segment.chars().find(|char| !is_allowed(*char)) {
            let shown = char.escape_default();
            return refused(&format!("must not contain `{shown}`"));
        }
        segments.push(segment);
    }
    Ok(segments)
}

/// Percent-decodes a part. Text that was encoded twice is rejected.
fn decoded(part: &str) -> Option<String> {
    let plain = percent_decode_str(part).decode_utf8().ok()?;
    (!plain.contains('%')).then(|| plain.into_owned())
}

/// Returns whether a segment may have this character: letters and digits of every script, and
/// the punctuation in paths of the API.
///
/// Other characters that look like a slash or a dot are rejected.
fn is_allowed(char: char) -> bool {
    char.is_alphanumeric()
        || matches!(
            char,
            '-' | '.'
                | '_'
                | '~'
                | '@'
                | ':'
                | '+'
                | ','
                | '='
                | '!'
                | ' '
                | '('
                | ')'
                | '['
                | ']'
                | '\''
        )
}
