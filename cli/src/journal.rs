use std::error::Error;
use std::fs::DirBuilder;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::config::Config;
use crate::folders;

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
        if self.no_journal {
            return Ok(None);
        }
        if let Some(folder) = &self.journal {
            return Ok(Some(folder.clone()));
        }
        if config.no_journal {
            return Ok(None);
        }
        if let Some(folder) = &config.journal {
            return Ok(Some(folders::expanded(folder.clone())));
        }
        let Some(folder) = folders::runs() else {
            return Err(
                "there is no home folder for the journal; use --journal or --no-journal".into()
            );
        };
        create_private(&folder).map_err(|error| {
            format!("the journal {}: {error}; use --journal or --no-journal", folder.display())
        })?;
        Ok(Some(folder))
    }
}

/// Creates a folder, and the missing ones above it, for this user only.
pub(crate) fn create_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}
