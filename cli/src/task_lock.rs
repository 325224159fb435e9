//! One process for a task.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use toolwright_module::__files::{self, Link};

/// Held while a task is carried out, so that the same task is not begun twice at once, which would
/// cost its price twice. It ends with the process.
pub(crate) struct TaskLock {
    path: PathBuf,
    _file: File,
}

impl TaskLock {
    /// Locks the task with these names in the folder of the journal. Returns `None` if another
    /// process has it.
    ///
    /// # Errors
    ///
    /// The file of the lock cannot be written.
    pub(crate) fn take(folder: &Path, names: &[&str]) -> io::Result<Option<Self>> {
        let mut hash = Sha256::new();
        for name in names {
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name);
        }
        let hash: String = hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        let path = folder.join(format!(".{hash}.task"));
        loop {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false);
            let file = __files::open(&mut options, &path, Link::Refuse)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // The previous process may have removed the file in the meantime. Its lock then protects
            // nothing.
            if is_at(&file, &path) {
                return Ok(Some(Self { path, _file: file }));
            }
        }
    }
}

impl Drop for TaskLock {
    fn drop(&mut self) {
        // The file is still locked, so no other process uses it.
        if cfg!(unix) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    let place = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let there = std::fs::metadata(path).map(place).ok();
    there.is_some() && file.metadata().map(place).ok() == there
}

/// Elsewhere, the file stays.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_locked_once_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let take = |names: &[&str]| TaskLock::take(folder.path(), names).unwrap();
        let held = take(&["here", "Store it."]);
        assert!(held.is_some() && take(&["here", "Store it."]).is_none());
        assert!(take(&["here", "Store that."]).is_some() && take(&["hereS", "tore it."]).is_some());
        drop(held);
        assert!(take(&["here", "Store it."]).is_some());
        #[cfg(unix)]
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_or_a_pipe_in_the_place_of_a_lock_is_an_error() {
        use std::os::unix::fs::symlink;

        let folder = tempfile::tempdir().unwrap();
        let held = TaskLock::take(folder.path(), &["task"]).unwrap().unwrap();
        let (place, elsewhere) = (held.path.clone(), folder.path().join("elsewhere"));
        drop(held);
        symlink(&elsewhere, &place).unwrap();
        assert!(TaskLock::take(folder.path(), &["task"]).is_err() && !elsewhere.exists());
        std::fs::remove_file(&place).unwrap();
        // Opening a pipe would wait for its other end.
        assert!(std::process::Command::new("mkfifo").arg(&place).status().unwrap().success());
        assert!(TaskLock::take(folder.path(), &["task"]).is_err());
    }
}
