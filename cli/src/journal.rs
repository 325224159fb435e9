use std::error::Error;
use std::fs::{DirBuilder, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use toolwright_module::__files::{self, Link};

use crate::config::Config;
use crate::folders;
use crate::show::note;

/// Arguments that name the journal.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Journal")]
pub(crate) struct JournalArgs {
    /// Keep the runs in this folder. Default: toolwright/runs in $XDG_DATA_HOME or ~/.local/share
    #[arg(long, value_name = "FOLDER")]
    journal: Option<PathBuf>,

    /// Keep no run
    #[arg(long, conflicts_with = "journal")]
    no_journal: bool,
}

impl JournalArgs {
    /// Returns the folder of the journal, or `None` if no run is to be kept.
    ///
    /// # Errors
    ///
    /// If the default folder cannot be created.
    pub(crate) fn folder(&self, config: &Config) -> Result<Option<PathBuf>, Box<dyn Error>> {
        let named = match (&self.journal, &config.journal) {
            _ if self.no_journal => return Ok(None),
            (Some(folder), _) => Some(folder.clone()),
            _ if config.no_journal => return Ok(None),
            (None, Some(folder)) => Some(folders::expanded(folder.clone())),
            (None, None) => None,
        };
        if let Some(folder) = named {
            // The URL is not quoted, because it may contain a password.
            if is_url(&folder) {
                return Err(
                    "the journal of this command is a folder; a database, which `toolwright runs` \
                     also takes, has the runs of programs"
                        .into(),
                );
            }
            check_folder(&folder)?;
            return Ok(Some(folder));
        }
        let Some(folder) = folders::data("runs") else {
            return Err(
                "there is no home folder for the journal; use --journal or --no-journal".into()
            );
        };
        create_private(&folder).map_err(|error| {
            format!("the journal {}: {error}; use --journal or --no-journal", folder.display())
        })?;
        check_folder(&folder)?;
        Ok(Some(folder))
    }
}

/// Returns whether the place of a journal is a URL. A folder of such a name would show a password.
pub(crate) fn is_url(place: &Path) -> bool {
    place.to_string_lossy().contains("://")
}

/// Checks that a journal is a folder, and tells the user if others can read or change it. A folder that
/// is not there yet will be for this user only.
///
/// # Errors
///
/// Something other than a folder is there.
pub(crate) fn check_folder(folder: &Path) -> Result<(), Box<dyn Error>> {
    __files::check_folder(folder)
        .map_err(|error| format!("the journal {}: {error}", folder.display()))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;

        let mode = folder.metadata().map_or(0, |found| found.permissions().mode());
        let folder = folder.display();
        if mode & 0o022 != 0 {
            note(&format!(
                "(others can write to the journal {folder}, and so decide for you; run: chmod 700 {folder})"
            ));
        } else if mode & 0o077 != 0 {
            note(&format!("(others can look into the journal {folder}; run: chmod 700 {folder})"));
        }
    }
    Ok(())
}

/// Length of the secret of a user, in bytes.
const SECRET_BYTES: usize = 32;

/// Returns the secret of this user, which is made at the first call. Without a place to keep it, the
/// secret is that of this process only.
pub(crate) fn own_secret() -> Vec<u8> {
    let Some(file) = folders::data("secret") else {
        note("(there is no home folder, so no run with these tools can go on later)");
        return random();
    };
    kept_secret(&file).unwrap_or_else(|error| {
        let file = file.display();
        note(&format!("({file}: {error}; so no run with these tools can go on later)"));
        random()
    })
}

fn kept_secret(file: &Path) -> io::Result<Vec<u8>> {
    let read = || __files::read(file, Link::Refuse, SECRET_BYTES as u64);
    let secret = match read() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            file.parent().map_or(Ok(()), create_private)?;
            let made = file.with_extension(format!("new-{}", std::process::id()));
            let mut options = OpenOptions::new();
            let opened =
                __files::open(options.write(true).create(true).truncate(true), &made, Link::Refuse);
            opened?.write_all(&random())?;
            // Of two processes, the second takes the secret of the first.
            let linked = std::fs::hard_link(&made, file);
            std::fs::remove_file(&made)?;
            match linked {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => read()?,
            }
        }
        secret => secret?,
    };
    match secret.len() {
        SECRET_BYTES => Ok(secret),
        _ => Err(io::Error::new(ErrorKind::InvalidData, "it is damaged; delete it")),
    }
}

/// Returns a value that no one can guess. The keys of the standard hash come from the system.
pub(crate) fn random() -> Vec<u8> {
    let state = RandomState::new();
    (0..SECRET_BYTES / size_of::<u64>()).flat_map(|nth| state.hash_one(nth).to_ne_bytes()).collect()
}

/// Creates a folder, and the missing ones above it, for this user only.
pub(crate) fn create_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}
