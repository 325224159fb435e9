//! The folders of the user: for data and for configuration.

use std::env;
use std::path::PathBuf;

/// The folder of this program inside the folders of the user.
const PROGRAM: &str = "toolwright";

/// Returns the path of a file or folder with data of this user, such as the runs of the default
/// journal: `$XDG_DATA_HOME/toolwright/runs`, or `~/.local/share/toolwright/runs`. `None` means that
/// the user has no home folder.
pub(crate) fn data(name: &str) -> Option<PathBuf> {
    Some(below("XDG_DATA_HOME", ".local/share")?.join(name))
}

/// Returns the path of a file with settings of this user.
pub(crate) fn settings(name: &str) -> Option<PathBuf> {
    Some(below("XDG_CONFIG_HOME", ".config")?.join(name))
}

/// Returns the path with `~` at its start replaced by the home folder, as a shell does.
pub(crate) fn expanded(path: PathBuf) -> PathBuf {
    match (path.strip_prefix("~"), env::home_dir()) {
        (Ok(below), Some(home)) => home.join(below),
        _ => path,
    }
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
