use percent_encoding::percent_decode_str;

use crate::failure::Failure;
use crate::repo::Repo;

/// The most that an endpoint may have, in bytes.
const LONGEST: usize = 2048;

const ADDRESS: &str = "must be a path such as repos/octocat/hello-world/releases, not an address";

/// The segments of an endpoint that a model wrote, each as plain text.
///
/// Nothing of it can be more than a path below the API's address: there is no scheme,
/// no host, no query, no fragment, no empty segment and none that leads upwards, in
/// no spelling. What is left is encoded anew by whoever makes the URL.
pub(crate) fn segments(endpoint: &str, repo: Option<&Repo>) -> Result<Vec<String>, Failure> {
    let refused = |fault: &str| Err(Failure::Argument(format!("`endpoint` {fault}")));
    if endpoint.len() > LONGEST {
        return refused("is too long; 2048 bytes are allowed");
    }
    if endpoint.contains("://") || endpoint.starts_with("//") {
        return refused(
            "must be a path such as repos/octocat/hello-world/releases, not an address",
        );
    }
    if endpoint.contains(['?', '#']) {
        return refused("must not hold `?` or `#`; put parameters into `fields`");
    }
    if endpoint.starts_with('-') {
        return refused("must not begin with `-`; it is a path and no option");
    }
    let path = endpoint.strip_prefix('/').unwrap_or(endpoint);
    // No first part of the API holds them, and addresses do.
    if path.split('/').next().is_some_and(|first| first.contains([':', '@'])) {
        return refused(ADDRESS);
    }
    let mut segments = Vec::new();
    for part in path.split('/') {
        let Some(plain) = decoded(part) else {
            return refused("holds a `%` that begins no encoded text; write the text itself");
        };
        let segment = match (plain.as_str(), repo) {
            ("{owner}", Some(repo)) => repo.owner.clone(),
            ("{repo}", Some(repo)) => repo.name.clone(),
            ("{owner}" | "{repo}", None) => {
                return refused("has a place for a repository; name it in `repo`, as owner/name");
            }
            _ => plain,
        };
        match segment.as_str() {
            "" => {
                return refused("is empty or has an empty part; look for `//` or a `/` at its end");
            }
            "." | ".." => return refused("must not hold `.` or `..` as a part"),
            _ if segment.starts_with(['-', ' ']) || segment.ends_with(' ') => {
                return refused(
                    "must not have a part that begins with `-` or a space, or ends with one",
                );
            }
            _ => {}
        }
        if let Some(odd) = segment.chars().find(|char| !may_stand(*char)) {
            let odd = odd.escape_default();
            return refused(&format!("must not hold `{odd}`"));
        }
        segments.push(segment);
    }
    Ok(segments)
}

/// The text that percent signs stand for; decoded twice, nothing may be left of them.
fn decoded(part: &str) -> Option<String> {
    let plain = percent_decode_str(part).decode_utf8().ok()?;
    (!plain.contains('%')).then(|| plain.into_owned())
}

/// Letters and digits of every script, and the signs that paths of the API have.
///
/// So what only looks like a slash or a dot is refused with all other signs.
fn may_stand(char: char) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(endpoint: &str) -> Result<Vec<String>, String> {
        let repo = Repo { owner: "octocat".to_owned(), name: "hello-world".to_owned() };
        segments(endpoint, Some(&repo)).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn a_path_becomes_its_parts() {
        let parts = ["repos", "octocat", "hello-world", "compare", "main...dev"];
        assert_eq!(of("/repos/{owner}/{repo}/compare/main...dev").unwrap(), parts);
        assert_eq!(of("a/%C3%BCber%20uns.md").unwrap(), ["a", "über uns.md"]);
        assert_eq!(of("a/über uns.md").unwrap(), ["a", "über uns.md"]);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for endpoint in [
            "",
            "/",
            "//host/a",
            "a//b",
            "a/",
            "https://host/a",
            "a/../b",
            "a/%2e%2E/b",
            ".",
            "..",
            "a/%252e%252e/b",
            "a/b%2fc",
            "a\\b",
            "a%5cb",
            "a?b=c",
            "a%3Fb",
            "a#b",
            "-X",
            "a/-X",
            "a\r\nb",
            "a%0d%0ab",
            "a\0",
            "a%",
            "a%zz",
            "a%ff",
            "a／b",
            "a․․b",
            "a/．．/b",
            "a;b",
            "{branch}",
            "a\u{202e}b",
            "a<b>",
            "a*",
            "a|b",
            "a`b",
        ] {
            assert!(of(endpoint).is_err(), "{endpoint}");
        }
    }
}
