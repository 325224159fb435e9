//! Opening of files for the crates of the workspace. It is not part of the public API.
//!
//! A path may lead to something other than a regular file: a named pipe blocks the program until
//! another program writes, a device has no end, and a symbolic link may lead to a file of another
//! user. These functions return an error for such a path, and never block.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// A symbolic link at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// It is followed. For a file that the user names.
    Follow,
    /// It is an error. For a file that the program itself creates, with a name that others know.
    Refuse,
}

/// The cause of the error for a path that does not lead to a regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is {kind}, and not a regular file")]
pub struct NotRegular {
    /// What is there, such as `a named pipe`.
    pub kind: &'static str,
}

/// Opens a regular file. A file that is created is for this user only.
///
/// # Errors
///
/// The errors of [`OpenOptions::open`], and [`NotRegular`] in an error of the kind
/// [`ErrorKind::InvalidInput`].
pub fn open(options: &mut OpenOptions, path: &Path, link: Link) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;

        use rustix::fs::OFlags;

        // Opening a pipe does not wait then. For a regular file, it changes nothing.
        let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        if link == Link::Refuse {
            flags |= OFlags::NOFOLLOW;
        }
        options.mode(0o600).custom_flags(flags.bits().cast_signed());
    }
    if cfg!(not(unix)) {
        check(path, link)?;
    }
    match options.open(path) {
        Ok(file) => {
            regular(file.metadata()?.file_type())?;
            Ok(file)
        }
        // The error of the system says less, such as "too many levels of symbolic links".
        Err(error) => Err(check(path, link).err().unwrap_or(error)),
    }
}

/// Checks that a path leads to a regular file or to nothing.
///
/// # Errors
///
/// [`NotRegular`], like [`open`].
pub fn check(path: &Path, link: Link) -> io::Result<()> {
    let found = match link {
        Link::Follow => fs::metadata(path),
        Link::Refuse => fs::symlink_metadata(path),
    };
    found.map_or(Ok(()), |found| regular(found.file_type()))
}

/// Checks that a path leads to a folder or to nothing.
///
/// # Errors
///
/// An error of the kind [`ErrorKind::NotADirectory`], which says what is there.
pub fn check_folder(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => {
            let kind = kind_of(found.file_type()).unwrap_or("a file");
            let text = format!("it is {kind}, and not a folder");
            Err(io::Error::new(ErrorKind::NotADirectory, text))
        }
        _ => Ok(()),
    }
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
///
/// The errors of [`open`], and [`ErrorKind::FileTooLarge`].
pub fn read(path: &Path, link: Link, most: u64) -> io::Result<Vec<u8>> {
    let file = open(OpenOptions::new().read(true), path, link)?;
    read_all(&file, most)
}

/// Reads an open file of at most `most` bytes from where it is.
///
/// # Errors
///
/// The errors of reading, and [`ErrorKind::FileTooLarge`].
pub fn read_all(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let too_large = |bytes: u64| {
        let text = format!("it has {bytes} bytes; the maximum is {most}");
        Err(io::Error::new(ErrorKind::FileTooLarge, text))
    };
    // Before memory is reserved: a file with holes can be larger than the memory.
    let length = file.metadata()?.len();
    if length > most {
        return too_large(length);
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    // It may have grown meanwhile.
    if bytes.len() as u64 > most {
        return too_large(bytes.len() as u64);
    }
    Ok(bytes)
}

/// Reads a regular file of at most `most` bytes of UTF-8.
///
/// # Errors
///
/// The errors of [`read`], and [`ErrorKind::InvalidData`].
pub(crate) fn read_text(path: &Path, link: Link, most: u64) -> io::Result<String> {
    let not_text = |_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(read(path, link, most)?).map_err(not_text)
}

/// Replaces the file at `path` atomically: a reader sees all of the old text or all of the new one.
/// The new file has the permissions of the old one. A link or a device at `path` stays as it is.
///
/// # Errors
///
/// The file cannot be written, or [`NotRegular`], like [`open`].
pub fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    check(path, Link::Refuse)?;
    let (temporary, mut file) = temporary_beside(path)?;
    let written =
        keep_mode(path, &file).and_then(|()| file.write_all(text)).and_then(|()| file.sync_all());
    drop(file);
    let replaced = written.and_then(|()| fs::rename(&temporary, path));
    if replaced.is_err() {
        // The first error is more useful than one of the clean-up.
        let _ = fs::remove_file(&temporary);
    }
    replaced
}

/// Copies the permissions of the old file, so that the new one has the same readers.
fn keep_mode(path: &Path, file: &File) -> io::Result<()> {
    match fs::metadata(path) {
        // On other systems permissions are only a read-only flag.
        Ok(replaced) if cfg!(unix) => file.set_permissions(replaced.permissions()),
        _ => Ok(()),
    }
}

/// Creates a file in the folder of `path`. A rename is atomic only within a file system.
fn temporary_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_file_name(format!(".new-{}-{number}", process::id()));
        match File::create_new(&temporary) {
            // An earlier process with the same id left it.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => return Ok((temporary, created?)),
        }
    }
}

fn regular(found: FileType) -> io::Result<()> {
    match kind_of(found) {
        None => Ok(()),
        Some(kind) => Err(io::Error::new(ErrorKind::InvalidInput, NotRegular { kind })),
    }
}

/// Returns the kind of something that is not a regular file.
fn kind_of(found: FileType) -> Option<&'static str> {
    if found.is_file() {
        return None;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;

        if found.is_fifo() {
            return Some("a named pipe");
        }
        if found.is_socket() {
            return Some("a socket");
        }
    }
    Some(if found.is_dir() {
        "a folder"
    } else if found.is_symlink() {
        "a symbolic link"
    } else {
        "a device"
    })
}
