//! Keys of providers and services: from the environment, or from a file that only its owner reads.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::folders;

/// The keys that a program may use. A variable of the environment wins over the file.
///
/// The type has no `Debug`, so that no key gets into a log.
#[derive(Default)]
pub(crate) struct Keys {
    file: BTreeMap<String, String>,
    /// A variable with a key whose name does not say so.
    variable: Option<String>,
}

impl Keys {
    /// Reads the key file: TOML with one `NAME = "key"` per line, where the name is that of the
    /// variable, such as `OPENAI_API_KEY`. Without a path, reads `keys.toml` in the folder of the
    /// configuration, if it exists.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, other users can read it, or it has other content.
    pub(crate) fn load(path: Option<&Path>) -> Result<Self, Box<dyn Error>> {
        let default = folders::keys();
        let Some(path) = path.map(|path| folders::expanded(path.to_owned())).or(default.clone())
        else {
            return Ok(Self::default());
        };
        let named = |error: io::Error| format!("the key file {}: {error}", path.display());
        let mode = match mode(&path) {
            Err(error)
                if error.kind() == ErrorKind::NotFound && Some(&path) == default.as_ref() =>
            {
                return Ok(Self::default());
            }
            mode => mode.map_err(named)?,
        };
        if mode & 0o077 != 0 {
            let path = path.display();
            return Err(
                format!("others can read the key file {path}; run: chmod 600 {path}").into()
            );
        }
        let text = fs::read_to_string(&path).map_err(named)?;
        // The error of the parser quotes the line, which may be a key.
        let file = toml::from_str(&text).map_err(|_| {
            let path = path.display();
            format!("the key file {path} is not valid; write lines such as OPENAI_API_KEY = \"…\"")
        })?;
        Ok(Self { file, variable: None })
    }

    /// Says that a variable has a key, whatever its name is.
    pub(crate) fn with_variable(mut self, name: Option<&str>) -> Self {
        self.variable = name.map(str::to_owned);
        self
    }

    /// Returns the keys of the file and of the variable.
    pub(crate) fn values(&self) -> Vec<String> {
        let variable = self.variable.as_ref().and_then(|name| env::var(name).ok());
        self.file.values().cloned().chain(variable).collect()
    }

    /// Returns the key of this name, if there is one that is not blank.
    #[must_use]
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let not_blank = |key: &String| !key.trim().is_empty();
        let key = env::var(name).ok().filter(not_blank);
        key.or_else(|| self.file.get(name).cloned().filter(not_blank))
    }

    /// Returns the key of this name in the file, if the environment has none.
    pub(crate) fn only_in_file(&self, name: &str) -> Option<String> {
        let is_set = env::var(name).is_ok_and(|key| !key.trim().is_empty());
        self.get(name).filter(|_| !is_set)
    }

    /// Returns whether the text contains a key: one of the file, or one of a variable whose name
    /// has a word that those of keys have.
    pub(crate) fn are_in(&self, text: &str) -> bool {
        let secret = |name: &str| {
            let is_word = |word: &str| ["KEY", "TOKEN", "SECRET", "PASSWORD"].contains(&word);
            name.split('_').skip(1).any(is_word)
        };
        let environment = env::vars_os().filter_map(|(name, value)| {
            let name = name.to_string_lossy().to_ascii_uppercase();
            secret(&name).then(|| value.to_string_lossy().into_owned())
        });
        let known = environment.chain(self.values());
        known.map(|key| key.trim().to_owned()).any(|key| key.len() >= 8 && text.contains(&key))
            || text.split(|c| !is_of_key(c)).any(looks_like_key)
    }
}

/// Returns the text without words that have the form of a key, for an error that quotes an argument.
#[must_use]
pub fn without_keys(text: &str) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(is_of_key) {
        let (before, word) = rest.split_at(at);
        let (word, after) = word.split_at(word.find(|c| !is_of_key(c)).unwrap_or(word.len()));
        shown.push_str(before);
        shown.push_str(if looks_like_key(word) { "[secret]" } else { word });
        rest = after;
    }
    shown + rest
}

/// Returns whether a word has the form of the keys of well-known services.
fn looks_like_key(word: &str) -> bool {
    const PREFIXES: [&str; 10] =
        ["sk-", "sk_", "gsk_", "xai-", "AIza", "ghp_", "gho_", "github_pat_", "hf_", "pplx-"];
    let body = PREFIXES.iter().find_map(|prefix| word.strip_prefix(prefix));
    body.is_some_and(|body| body.len() >= 16)
}

fn is_of_key(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

#[cfg(unix)]
fn mode(path: &PathBuf) -> io::Result<u32> {
    use std::os::unix::fs::PermissionsExt;

    Ok(fs::metadata(path)?.permissions().mode())
}

/// Elsewhere, the access list of the user's folder protects the file.
#[cfg(not(unix))]
fn mode(path: &PathBuf) -> io::Result<u32> {
    fs::metadata(path).map(|_| 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_the_form_of_a_key_is_found() {
        let file = BTreeMap::from([("A".to_owned(), "made-up-key".to_owned())]);
        let keys = Keys { file, variable: None };
        assert!(keys.are_in("it is made-up-key."));
        assert!(keys.are_in("export OPENAI_API_KEY=sk-test-0123456789abcdef"));
        assert!(keys.are_in("\"ghp_0123456789abcdefghij\"") && keys.are_in("sk-0123456789abcdef."));
        assert_eq!(without_keys("`sk-0123456789abcdef` is no API"), "`[secret]` is no API");
        assert_eq!(without_keys("a-b; c é"), "a-b; c é");
        assert!(!keys.are_in("sk-short, task-0123456789abcdefghij, and made up"));
    }
}
