use std::fmt;
use std::sync::Arc;

use toolwright_module::Tool;

use crate::limits::Limits;
use crate::store::Store;
use crate::store::in_process::InProcess;
use crate::tools::clear::MemoryClearModule;
use crate::tools::count::MemoryCountModule;
use crate::tools::delete::MemoryDeleteModule;
use crate::tools::get_metadata::MemoryGetMetadataModule;
use crate::tools::list::MemoryListModule;
use crate::tools::retrieve::MemoryRetrieveModule;
use crate::tools::search::MemorySearchModule;
use crate::tools::store::MemoryStoreModule;
use crate::tools::update::MemoryUpdateModule;

/// Entries under keys, and the nine tools that work on them.
///
/// Cloning shares the entries. Every call is atomic, from any number of threads, and from
/// any number of processes if they share the store. The default keeps its entries in the
/// process, and they end with it.
///
/// ```
/// use toolwright_memory::Memory;
///
/// let memory = Memory::default();
/// let tools = memory.tools()?;
/// let names: Vec<_> = tools.iter().map(|tool| tool.name()).collect();
/// assert_eq!(names[0], "memory_store");
/// assert_eq!(names.len(), 9);
/// # Ok::<(), toolwright_signature::Error>(())
/// ```
#[derive(Clone)]
pub struct Memory {
    store: Arc<dyn Store>,
    limits: Limits,
}

impl Default for Memory {
    fn default() -> Self {
        Self::with_store(InProcess::default())
    }
}

impl Memory {
    /// A memory whose entries are in `store`.
    pub fn with_store(store: impl Store) -> Self {
        Self { store: Arc::new(store), limits: Limits::default() }
    }

    /// A memory whose entries are in a file, made if it is not there: an SQLite database.
    ///
    /// A call has succeeded when its change is on the disk: it outlives the process, and
    /// the machine. Reading waits for no change, and works on a full disk: an access that
    /// cannot be counted in the file is counted in the process until it can. Several memories and
    /// processes of one machine may have the same file open; put it on a disk of that
    /// machine, because SQLite cannot share one over a network. Two files beside it, with
    /// `-wal` and `-shm` at the end of their names, belong to it.
    ///
    /// ```
    /// use toolwright_memory::{Memory, MemoryRetrieve, MemoryRetrieveModule};
    /// use toolwright_memory::{MemoryStore, MemoryStoreModule};
    /// use toolwright_module::{Context, Module};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// # let folder = std::env::temp_dir().join(format!("memory-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let file = folder.join("memory.db");
    /// let memory = Memory::open(&file).await?;
    /// let (key, value) = ("color".to_owned(), "blue".to_owned());
    /// MemoryStoreModule::new(&memory).call(MemoryStore { key, value, tags: None }, &Context::default()).await?;
    /// drop(memory);
    ///
    /// // Later, in another process.
    /// let memory = Memory::open(&file).await?;
    /// let key = "color".to_owned();
    /// let value = MemoryRetrieveModule::new(&memory).call(MemoryRetrieve { key }, &Context::default()).await?;
    /// assert_eq!(value.as_deref(), Some("blue"));
    /// # drop(memory);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Stage::Setup`](toolwright_module::error::Stage::Setup) if the file cannot be opened or
    /// made, or is something else: a file that is no memory is left as it is. A change fails
    /// retryably if another process keeps the file locked for ten seconds. The model is then
    /// asked to try again; it also gets to know that there is no space left.
    #[cfg(feature = "sqlite")]
    pub async fn open(path: impl AsRef<std::path::Path>) -> toolwright_module::Result<Self> {
        let store = crate::store::sqlite::Sqlite::open(path.as_ref()).await?;
        Ok(Self::with_store(store))
    }

    /// A memory whose entries are in a PostgreSQL database, which any number of processes
    /// may share.
    ///
    /// `url` is as of `psql`: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, special
    /// characters percent-encoded. The two tables, `toolwright_memory` and
    /// `toolwright_memory_held`, are made in the first schema of the user's search path if
    /// they are not there. For several memories in one database give each a schema, with
    /// `?options=-csearch_path%3DSCHEMA`.
    ///
    /// The connection is not encrypted: for a server elsewhere use
    /// [`connect_with`](Self::connect_with). Lost connections are made again.
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
    /// [`Stage::Setup`](toolwright_module::error::Stage::Setup) if the URL cannot be read, the
    /// server cannot be reached or does not let us in, or the tables cannot be made. No
    /// error tells the URL. Calls fail retryably when the connection is lost: a change may
    /// then have been made or not.
    #[cfg(feature = "postgres")]
    pub async fn connect(url: &str) -> toolwright_module::Result<Self> {
        Self::connect_with(url, tokio_postgres::NoTls).await
    }

    /// The same over TLS: `tls` is a connector of a crate such as
    /// `postgres-native-tls` or `tokio-postgres-rustls`.
    ///
    /// Put `sslmode=require` into the URL, else a server without TLS is talked to plainly.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
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

    /// The same entries within other limits.
    ///
    /// ```
    /// use toolwright_memory::{Limits, Memory, MemoryStore, MemoryStoreModule};
    /// use toolwright_module::{Context, Module};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let memory = Memory::default().with_limits(Limits::default().with_value_bytes(10));
    /// let (key, value) = ("color".to_owned(), "a bluish green".to_owned());
    /// let input = MemoryStore { key, value, tags: None };
    /// let error = MemoryStoreModule::new(&memory).call(input, &Context::default()).await.unwrap_err();
    /// assert_eq!(
    ///     error.for_model(),
    ///     "`value` has a text of 14 bytes and may have 10; shorten it, or store it in parts \
    ///      under keys of their own"
    /// );
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The nine tools, all on this memory's entries.
    ///
    /// Rename one with [`Tool::named`], set all apart from another memory's with
    /// [`Tool::prefixed`], leave one out by filtering the list by [`Tool::name`], or make a
    /// few by hand: `Tool::new(MemoryStoreModule::new(&memory))`.
    ///
    /// # Errors
    ///
    /// None of these contracts fails; the error is that of [`Tool::new`].
    pub fn tools(&self) -> toolwright_signature::Result<Vec<Tool>> {
        Ok(vec![
            Tool::new(MemoryStoreModule::new(self))?,
            Tool::new(MemoryRetrieveModule::new(self))?,
            Tool::new(MemorySearchModule::new(self))?,
            Tool::new(MemoryListModule::new(self))?,
            Tool::new(MemoryUpdateModule::new(self))?,
            Tool::new(MemoryDeleteModule::new(self))?,
            Tool::new(MemoryClearModule::new(self))?,
            Tool::new(MemoryCountModule::new(self))?,
            Tool::new(MemoryGetMetadataModule::new(self))?,
        ])
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }
}

/// Says how large it may be, never what is in it or where that is.
impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("limits", &self.limits).finish_non_exhaustive()
    }
}
