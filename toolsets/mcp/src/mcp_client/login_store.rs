//! [`LoginStore`], and [`LoginFolder`], the store that is a folder.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use toolwright_module::__files::{self, Link};
use toolwright_module::model::BoxFuture;

/// Maximum size of a stored login, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// Maximum time to wait for a lock. A process renews a login in less time.
const LOCK_TIME: Duration = Duration::from_secs(90);

/// Time between two attempts to take a lock.
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// Store of the logins at MCP servers: [`LoginFolder`], or one of your own.
///
/// A server has one login in a store. `server` is the server's URL without the query, and the login
/// is a secret text, which only this crate reads. A store with several users needs one value for each
/// user, which adds the user's id to the key.
///
/// ```
/// use std::collections::HashMap;
/// use std::io;
/// use std::sync::{Arc, Mutex};
///
/// use secrecy::SecretString;
/// use toolwright_mcp::LoginStore;
/// use toolwright_module::model::BoxFuture;
///
/// /// The logins of one process, until it ends.
/// #[derive(Clone, Default)]
/// struct InProcess(Arc<Mutex<HashMap<String, SecretString>>>);
///
/// impl LoginStore for InProcess {
///     fn load<'a>(&'a self, server: &'a str) -> BoxFuture<'a, io::Result<Option<SecretString>>> {
///         Box::pin(async { Ok(self.0.lock().unwrap().get(server).cloned()) })
///     }
///
///     fn save<'a>(&'a self, server: &'a str, login: SecretString) -> BoxFuture<'a, io::Result<()>> {
///         Box::pin(async {
///             self.0.lock().unwrap().insert(server.to_owned(), login);
///             Ok(())
///         })
///     }
///
///     fn delete<'a>(&'a self, server: &'a str) -> BoxFuture<'a, io::Result<bool>> {
///         Box::pin(async { Ok(self.0.lock().unwrap().remove(server).is_some()) })
///     }
/// }
/// ```
pub trait LoginStore: Send + Sync + 'static {
    /// Returns the login at a server, or `None` before the first one. It is read before each request.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    fn load<'a>(&'a self, server: &'a str) -> BoxFuture<'a, io::Result<Option<SecretString>>>;

    /// Stores the login at a server, in place of an earlier one.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    fn save<'a>(&'a self, server: &'a str, login: SecretString) -> BoxFuture<'a, io::Result<()>>;

    /// Deletes the login at a server, and returns whether there was one.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    fn delete<'a>(&'a self, server: &'a str) -> BoxFuture<'a, io::Result<bool>>;

    /// Waits until no other process changes the login at a server. The lock ends when the returned
    /// value is dropped. [`load`](Self::load), [`save`](Self::save) and [`delete`](Self::delete) are
    /// called while it is held.
    ///
    /// Many authorization servers end a login if its refresh token is used twice, so a store that
    /// several processes share needs a lock. The default has none: the clients of one
    /// [`McpClientBuilder`](crate::McpClientBuilder) wait for each other without it.
    ///
    /// # Errors
    ///
    /// The lock cannot be taken.
    fn lock<'a>(&'a self, server: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Send>>> {
        let _ = server;
        async { Ok(Box::new(()) as Box<dyn Send>) }.boxed()
    }
}

/// Logins in a folder: one file for each server, which only its owner can read.
///
/// The file is replaced as a whole, and locked while a login is renewed, so any number of processes
/// can share the folder. It must be on a local disk. The files are not encrypted.
///
/// ```
/// use toolwright_mcp::{LoginFolder, McpClient};
///
/// # let folder = tempfile::tempdir()?;
/// let logins = LoginFolder::open(folder.path())?;
/// let client = McpClient::http("https://mcp.example.com/mcp")?.with_logins(logins)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct LoginFolder {
    folder: Arc<Path>,
}

impl LoginFolder {
    /// Opens the logins in a folder. A folder that does not exist is created for this user only.
    ///
    /// # Errors
    ///
    /// The folder cannot be created or read, or other users can change it.
    pub fn open(folder: impl AsRef<Path>) -> io::Result<Self> {
        let folder = folder.as_ref();
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", folder.display()))
        };
        create(folder).map_err(named)?;
        check_mode(folder, 0o022, "change", "go-w").map_err(named)?;
        Ok(Self { folder: folder.into() })
    }

    /// Returns the path of a server's file, with this extension.
    fn path(&self, server: &str, extension: &str) -> PathBuf {
        let hash = Sha256::digest(server);
        let name: String = hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{name}.{extension}"))
    }

    /// Does work with the file of a server in a thread that may block.
    async fn with_file<T: Send + 'static>(
        &self,
        server: &str,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let path = self.path(server, "login");
        tokio::task::spawn_blocking(move || work(&path)).await.map_err(io::Error::other)?
    }
}

impl LoginStore for LoginFolder {
    fn load<'a>(&'a self, server: &'a str) -> BoxFuture<'a, io::Result<Option<SecretString>>> {
        self.with_file(server, |path| {
            let text = match __files::read(path, Link::Refuse, MAX_BYTES) {
                Ok(bytes) => String::from_utf8(bytes).map_err(io::Error::other)?,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            check_mode(path, 0o077, "read", "600")?;
            // A new file is empty until its first text is there.
            Ok((!text.is_empty()).then(|| text.into()))
        })
        .boxed()
    }

    fn save<'a>(&'a self, server: &'a str, login: SecretString) -> BoxFuture<'a, io::Result<()>> {
        self.with_file(server, move |path| {
            // The text that replaces this file gets its permissions.
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false);
            __files::open(&mut options, path, Link::Refuse)?;
            check_mode(path, 0o077, "read", "600")?;
            __files::replace(path, login.expose_secret().as_bytes())
        })
        .boxed()
    }

    fn delete<'a>(&'a self, server: &'a str) -> BoxFuture<'a, io::Result<bool>> {
        self.with_file(server, |path| match fs::remove_file(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        })
        .boxed()
    }

    fn lock<'a>(&'a self, server: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Send>>> {
        async move {
            let path = self.path(server, "lock");
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false);
            let file: File = __files::open(&mut options, &path, Link::Refuse)?;
            let since = Instant::now();
            // The thread of a blocking `File::lock` would go on after the call is dropped.
            loop {
                match file.try_lock() {
                    Ok(()) => return Ok(Box::new(file) as Box<dyn Send>),
                    Err(TryLockError::Error(error)) => return Err(error),
                    Err(TryLockError::WouldBlock) if since.elapsed() > LOCK_TIME => {
                        let text = "another process holds the lock of the login";
                        return Err(io::Error::new(ErrorKind::TimedOut, text));
                    }
                    Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_INTERVAL).await,
                }
            }
        }
        .boxed()
    }
}

#[cfg(unix)]
fn create(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;

    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Elsewhere, the access list of the user's folder protects the files.
#[cfg(not(unix))]
fn create(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

/// Fails if others have one of these rights.
#[cfg(unix)]
fn check_mode(path: &Path, rights: u32, what: &str, fix: &str) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    if fs::metadata(path)?.permissions().mode() & rights == 0 {
        return Ok(());
    }
    let path = path.display();
    let text = format!("others can {what} {path}; run: chmod {fix} {path}");
    Err(io::Error::new(ErrorKind::PermissionDenied, text))
}

#[cfg(not(unix))]
fn check_mode(_path: &Path, _rights: u32, _what: &str, _fix: &str) -> io::Result<()> {
    Ok(())
}
