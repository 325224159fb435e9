//! Keys of providers and services: from the environment, or from a file that only its owner reads.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use toolwright_module::__files::{self, Link};
use toolwright_module::testing::Mask;
use toolwright_module::{Error, Result};

use crate::folders;
use crate::texts::read_file;

/// What stands for a key in a masked text.
pub(crate) const MASKED: &str = "[secret]";

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
    pub(crate) fn load(path: Option<&Path>) -> Result<Self> {
        let default = folders::settings("keys.toml");
        let Some(path) = path.map(|path| folders::expanded(path.to_owned())).or(default.clone())
        else {
            return Ok(Self::default());
        };
        let named =
            |error: io::Error| Error::other(format!("the key file {}: {error}", path.display()));
        __files::check(&path, Link::Follow).map_err(named)?;
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
            let text = format!("others can read the key file {path}; run: chmod 600 {path}");
            return Err(Error::other(text));
        }
        check_own("the key file", &path).map_err(Error::other)?;
        let text = read_file(&path).map_err(named)?;
        // The error of the parser quotes the line, which may be a key.
        let file = toml::from_str(&text).map_err(|_| {
            let path = path.display();
            Error::other(format!(
                "the key file {path} is not valid; write lines such as OPENAI_API_KEY = \"…\""
            ))
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

    /// Returns whether the text contains something that a recording would mask.
    pub(crate) fn are_in(&self, text: &str) -> bool {
        self.mask().masked(text) != text
    }

    /// Returns a mask for these keys and those of the environment.
    fn mask(&self) -> Mask {
        let keys = self.values();
        Mask::from_env_and(&keys.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// Returns the text without keys, as a recording would keep it. It is for every line that the
/// command prints about itself or about a run: others may see the terminal, its log or the page.
#[must_use]
pub(crate) fn without_keys(text: &str) -> String {
    mask().masked(text)
}

/// Returns the mask of [`without_keys`].
pub(crate) fn mask() -> &'static Mask {
    // The environment and the key file are read once, because a page has many texts.
    static MASK: LazyLock<Mask> = LazyLock::new(|| Keys::load(None).unwrap_or_default().mask());
    &MASK
}

/// Returns the name of a variable for an error. Some users write the key itself where its variable
/// is expected, so anything that is not like the name of a variable is left out.
pub(crate) fn shown_variable(name: &str) -> String {
    let is_of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    match !name.is_empty() && name.chars().all(is_of_name) {
        true => without_keys(name),
        false => MASKED.to_owned(),
    }
}

/// Returns an error if other users can change a file, or replace it in its folder.
///
/// # Errors
///
/// Others can write the file or its folder, or their modes cannot be read.
#[cfg(unix)]
pub(crate) fn check_own(what: &str, path: &Path) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;

    let target =
        fs::canonicalize(path).map_err(|error| format!("{what} {}: {error}", path.display()))?;
    // A link can be replaced as a file can.
    let folders = [path, &target].map(|file| match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    });
    let own = rustix::process::geteuid().as_raw();
    for place in std::iter::once(&target).chain(&folders) {
        let found =
            fs::metadata(place).map_err(|error| format!("{what} {}: {error}", place.display()))?;
        let (shown, place) = (path.display(), place.display());
        // In a folder with the sticky bit, users cannot replace each other's files.
        if found.mode() & 0o022 != 0 && !(found.is_dir() && found.mode() & 0o1000 != 0) {
            return Err(format!(
                "others can change {what} {shown}, so it is not used; run: chmod go-w {place}"
            ));
        }
        if found.uid() != own && found.uid() != 0 {
            return Err(format!(
                "{what} {shown} is not used: {place} belongs to another user; make a file of your own"
            ));
        }
    }
    Ok(())
}

/// Elsewhere, the access list of the user's folder protects the file.
#[cfg(not(unix))]
pub(crate) fn check_own(_what: &str, _path: &Path) -> Result<(), String> {
    Ok(())
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
        for key in
            ["AKIAIOSFODNN7EXAMPLE", "glpat-0123456789abcdefghij", "xoxb-0123456789abcdefghij"]
        {
            assert!(
                keys.are_in(&format!("It is {key}.")) && !without_keys(key).contains(key),
                "{key}"
            );
        }
        assert_eq!(shown_variable("OPENAI_API_KEY"), "OPENAI_API_KEY");
        assert_eq!(shown_variable("hunter2"), "[secret]");
        assert!(!keys.are_in("sk-short, task-0123456789abcdefghij, and made up"));
    }
}
