//! Nine tools for one memory, in which an agent stores and finds entries.
//!
//! [`Memory`] holds the entries and lists the tools. Each tool is a method of [`Memory`], so code
//! can also call it directly, without a language model. Clones of a [`Memory`] share their entries;
//! separate memories share nothing.
//!
//! | constructor | where the entries are stored | feature |
//! |---|---|---|
//! | `Memory::default()` | in the process; they are lost when it ends | |
//! | `Memory::open(path)` | in a file, an SQLite database | `sqlite` |
//! | `Memory::connect(url)` | in a PostgreSQL database, which several processes can share | `postgres` |
//! | [`Memory::with_store`] | in your own [`Store`] | |
//!
//! All stores behave the same and pass the same test suite. [`MemoryLimits`] limit what a model can
//! store and find.
//!
//! | tool | method | signature | effect |
//! |---|---|---|---|
//! | `memory_store` | [`Memory::store`] | [`MemoryStore`] | idempotent |
//! | `memory_retrieve` | [`Memory::retrieve`] | [`MemoryRetrieve`] | read |
//! | `memory_search` | [`Memory::search`] | [`MemorySearch`] | read |
//! | `memory_list` | [`Memory::list`] | [`MemoryList`] | read |
//! | `memory_update` | [`Memory::update`] | [`MemoryUpdate`] | idempotent |
//! | `memory_delete` | [`Memory::delete`] | [`MemoryDelete`] | irreversible |
//! | `memory_clear` | [`Memory::clear`] | [`MemoryClear`] | irreversible |
//! | `memory_count` | [`Memory::count`] | [`MemoryCount`] | read |
//! | `memory_get_metadata` | [`Memory::get_metadata`] | [`MemoryGetMetadata`] | read |
//!
//! ```
//! use toolwright_memory::Memory;
//! use toolwright_module::Context;
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let memory = Memory::default();
//!
//! // As a model calls it: JSON in, a sentence out.
//! let tools = memory.tools()?;
//! let store = tools.iter().find(|tool| tool.name() == "memory_store").unwrap();
//! let arguments = r#"{"key": "color", "value": "blue", "tags": ["taste"]}"#;
//! let output = store.call(arguments, &Context::default()).await?;
//! assert_eq!(output.text, "Stored memory 'color' successfully");
//!
//! // From code: a method, on the same entries.
//! assert_eq!(memory.retrieve("color").await?.as_deref(), Some("blue"));
//! # Ok::<(), toolwright_module::Error>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod blocking;
mod limits;
mod memory;

mod search;
mod store;
mod tools;

pub use limits::MemoryLimits;
pub use memory::Memory;
pub use search::Search;
pub use store::{Entry, Held, Store};
pub use tools::{
    Cleared, Deleted, Found, MemoryClear, MemoryCount, MemoryDelete, MemoryGetMetadata, MemoryList,
    MemoryRetrieve, MemorySearch, MemoryStore, MemoryUpdate, Metadata, Stored, Updated,
};
