//! The folders of the user: for data and for configuration.

use std::env;
use std::path::PathBuf;

/// The folder of this program inside the folders of the user.
const PROGRAM: &str = "toolwright";

/// Returns the folder of the default journal: `$XDG_DATA_HOME/toolwright/runs`, or
/// `~/.local/share/toolwright/runs`. `None` means that the user has no home folder.
#[must_use]
pub(crate) fn runs() -> Option<PathBuf> {
    Some(data()?.join("runs"))
}

/// Returns the file with the lines of conversations.
pub(crate) fn history() -> Option<PathBuf> {
    Some(data()?.join("history"))
}

/// Returns the file with the secret that the runs of this user have in them.
pub(crate) fn secret() -> Option<PathBuf> {
    Some(data()?.join("secret"))
}

/// Returns the default configuration file.
pub(crate) fn config() -> Option<PathBuf> {
    Some(settings()?.join("config.toml"))
}

/// Returns the default key file.
pub(crate) fn keys() -> Option<PathBuf> {
    Some(settings()?.join("keys.toml"))
}

/// Returns the path with `~` at its start replaced by the home folder, as a shell does.
pub(crate) fn expanded(path: PathBuf) -> PathBuf {
    match (path.strip_prefix("~"), env::home_dir()) {
        (Ok(below), Some(home)) => home.join(below),
        _ => path,
    }
}

fn data() -> Option<PathBuf> {
    below("XDG_DATA_HOME", ".local/share")
}

fn settings() -> Option<PathBuf> {
    below("XDG_CONFIG_HOME", ".config")
}

/// Returns this program's folder below the folder that a variable names. By the specification of
/// XDG, a relative path counts as unset.
fn below(variable: &str, default: &str) -> Option<PathBuf> {
    let named = env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = match named {
        Some(folder) => folder,
        None => env::home_dir().filter(|home| home.is_absolute())?.join(default),
    };
    Some(folder.join(PROGRAM))
}
