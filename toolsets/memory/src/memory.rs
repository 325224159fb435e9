//! [`Memory`], the entries with their tools.

use std::fmt;
use std::sync::Arc;

use crate::limits::MemoryLimits;
use crate::store::Store;
use crate::store::in_process::InProcess;

/// A memory: entries with keys, and the nine tools that work on them.
///
/// Clones share the entries. Every call is atomic across all threads, and across all processes
/// that share the store. The default memory keeps its entries in the process, and they are lost
/// when it ends.
///
/// ```
/// use toolwright_memory::Memory;
///
/// let memory = Memory::default();
/// let tools = memory.tools()?;
/// let names: Vec<_> = tools.iter().map(|tool| tool.name()).collect();
/// assert_eq!(names[0], "memory_store");
/// assert_eq!(names.len(), 9);
/// # Ok::<(), toolwright_signature::ContractError>(())
/// ```
///
/// Each tool is also a method, for code. [`tools`](Self::tools) lists the tools, which all work on
/// this memory's entries. To rename a tool, use `Tool::named`; to distinguish the tools of two
/// memories, use `Tool::prefixed`. To select some tools, filter the list by `Tool::name`, or create
/// them one by one: `MemoryStore::tool(&memory)`.
#[derive(Clone)]
pub struct Memory {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) limits: MemoryLimits,
}

impl Default for Memory {
    fn default() -> Self {
        Self::with_store(InProcess::default())
    }
}

impl Memory {
    /// Creates a memory with its entries in `store`.
    pub fn with_store(store: impl Store) -> Self {
        Self { store: Arc::new(store), limits: MemoryLimits::default() }
    }

    /// Opens a memory with its entries in a file, which is an SQLite database. Creates the file if
    /// it does not exist.
    ///
    /// A call returns after its change was written to the disk, so the change survives a crash of
    /// the process or the machine. Reads do not wait for changes. They also work on a full disk:
    /// an access that cannot be counted in the file is counted in the process until it can be
    /// written.
    ///
    /// Several memories and processes of one machine can open the same file. The file must be on a
    /// local disk, because SQLite does not support network file systems. Two files beside it, whose
    /// names end in `-wal` and `-shm`, belong to it.
    ///
    /// ```
    /// use toolwright_memory::Memory;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// # let folder = std::env::temp_dir().join(format!("memory-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let file = folder.join("memory.db");
    /// let memory = Memory::open(&file).await?;
    /// memory.store("color", "blue", None).await?;
    /// drop(memory);
    ///
    /// // Later, in another process.
    /// let memory = Memory::open(&file).await?;
    /// assert_eq!(memory.retrieve("color").await?.as_deref(), Some("blue"));
    /// # drop(memory);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Stage::Setup`](toolwright_module::error::Stage::Setup) if the file cannot be opened or
    /// created, or is not a memory; such a file is not changed.
    ///
    /// Later, a change fails with a retryable error if another process locks the file for ten
    /// seconds. The model is asked to try again. If the disk is full, the model is asked to delete
    /// entries.
    #[cfg(feature = "sqlite")]
    pub async fn open(path: impl AsRef<std::path::Path>) -> toolwright_module::Result<Self> {
        let store = crate::store::sqlite::Sqlite::open(path.as_ref()).await?;
        Ok(Self::with_store(store))
    }

    /// Opens a memory with its entries in a PostgreSQL database, which any number of processes
    /// can share.
    ///
    /// `url` has the form of `psql`: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with special
    /// characters percent-encoded. The two tables, `toolwright_memory` and
    /// `toolwright_memory_held`, are created in the first schema of the user's search path if they
    /// do not exist. To have several memories in one database, give each its own schema with
    /// `?options=-csearch_path%3DSCHEMA`.
    ///
    /// The connection is not encrypted: for a server on another machine, use
    /// [`connect_with`](Self::connect_with). If a connection is lost, the next call opens a new
    /// one.
    ///
    /// ```no_run
    /// use toolwright_memory::Memory;
    ///
    /// # async fn example() -> toolwright_module::Result<()> {
    /// let memory = Memory::connect(&std::env::var("MEMORY_URL")?).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Stage::Setup`](toolwright_module::error::Stage::Setup) if the URL is not valid, the server
    /// cannot be reached or rejects the login, or the tables cannot be created. No error contains
    /// the URL.
    ///
    /// Later, a call fails with a retryable error if the connection is lost. Its change may have
    /// been made or not.
    #[cfg(feature = "postgres")]
    pub async fn connect(url: &str) -> toolwright_module::Result<Self> {
        Self::connect_with(url, tokio_postgres::NoTls).await
    }

    /// Opens a memory in a PostgreSQL database over TLS. `tls` is a connector of a crate such as
    /// `postgres-native-tls` or `tokio-postgres-rustls`.
    ///
    /// Add `sslmode=require` to the URL. Without it, the connection to a server without TLS is not
    /// encrypted.
    ///
    /// # Errors
    ///
    /// Those of [`connect`](Self::connect).
    #[cfg(feature = "postgres")]
    pub async fn connect_with<T>(url: &str, tls: T) -> toolwright_module::Result<Self>
    where
        T: tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket>
            + Clone
            + Send
            + Sync
            + 'static,
        T::Stream: Send + Sync,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as tokio_postgres::tls::TlsConnect<tokio_postgres::Socket>>::Future: Send,
    {
        let store = crate::store::postgres::Postgres::connect(url, tls).await?;
        Ok(Self::with_store(store))
    }

    /// Sets the limits. Default: [`MemoryLimits::default`]. The entries stay the same.
    ///
    /// ```
    /// use toolwright_memory::{Memory, MemoryLimits};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let memory = Memory::default().with_limits(MemoryLimits { value_bytes: 10, ..MemoryLimits::default() });
    /// let error = memory.store("color", "a bluish green", None).await.unwrap_err();
    /// assert_eq!(
    ///     error.for_model(),
    ///     "`value` has 14 bytes and the maximum is 10; shorten it, or store it in parts under \
    ///      several keys"
    /// );
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_limits(mut self, limits: MemoryLimits) -> Self {
        self.limits = limits;
        self
    }
}

/// Shows the limits, but not the entries or the path or URL of the store.
impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("limits", &self.limits).finish_non_exhaustive()
    }
}
