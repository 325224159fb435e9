//! Nine tools over one memory, in which an agent stores and finds entries.
//!
//! [`Memory`] holds the entries and lists the tools. Each tool is a signature with a module, so
//! code can also call it directly, without a language model. Clones of a [`Memory`] share their
//! entries; separate memories share nothing.
//!
//! | constructor | where the entries are | feature |
//! |---|---|---|
//! | `Memory::default()` | in the process; they are lost when it ends | |
//! | `Memory::open(path)` | in a file, an SQLite database | `sqlite` |
//! | `Memory::connect(url)` | in a PostgreSQL database, which several processes can share | `postgres` |
//! | [`Memory::with_store`] | in your own [`Store`] | |
//!
//! All stores behave the same and pass the same test suite. [`MemoryLimits`] bound what a model can
//! store and find.
//!
//! | tool | signature, output | module | effect |
//! |---|---|---|---|
//! | `memory_store` | [`MemoryStore`], [`Stored`] | [`MemoryStoreModule`] | idempotent |
//! | `memory_retrieve` | [`MemoryRetrieve`], `Option<String>` | [`MemoryRetrieveModule`] | read |
//! | `memory_search` | [`MemorySearch`], [`Vec<Found>`](Found) | [`MemorySearchModule`] | read |
//! | `memory_list` | [`MemoryList`], `Vec<String>` | [`MemoryListModule`] | read |
//! | `memory_update` | [`MemoryUpdate`], [`Updated`] | [`MemoryUpdateModule`] | idempotent |
//! | `memory_delete` | [`MemoryDelete`], [`Deleted`] | [`MemoryDeleteModule`] | irreversible |
//! | `memory_clear` | [`MemoryClear`], [`Cleared`] | [`MemoryClearModule`] | irreversible |
//! | `memory_count` | [`MemoryCount`], `usize` | [`MemoryCountModule`] | read |
//! | `memory_get_metadata` | [`MemoryGetMetadata`], [`Option<Metadata>`](Metadata) | [`MemoryGetMetadataModule`] | read |
//!
//! ```
//! use toolwright_memory::{Memory, MemoryRetrieve, MemoryRetrieveModule};
//! use toolwright_module::{Context, Module};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let memory = Memory::default();
//!
//! // As a model calls it: JSON in, a sentence out.
//! let tools = memory.tools()?;
//! let store = tools.iter().find(|tool| tool.name() == "memory_store").unwrap();
//! let arguments = r#"{"key": "color", "value": "blue", "tags": ["taste"]}"#;
//! let output = store.call(arguments, &Context::default()).await?;
//! assert_eq!(output.text(), "Stored memory 'color' successfully");
//!
//! // From code: types in, types out, the same entries.
//! let retrieve = MemoryRetrieveModule::new(&memory);
//! let key = "color".to_owned();
//! assert_eq!(retrieve.call(MemoryRetrieve { key }, &Context::default()).await?.as_deref(), Some("blue"));
//! # Ok::<(), toolwright_module::Error>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
pub use tools::clear::{Cleared, MemoryClear, MemoryClearModule};
pub use tools::count::{MemoryCount, MemoryCountModule};
pub use tools::delete::{Deleted, MemoryDelete, MemoryDeleteModule};
pub use tools::get_metadata::{MemoryGetMetadata, MemoryGetMetadataModule, Metadata};
pub use tools::list::{MemoryList, MemoryListModule};
pub use tools::retrieve::{MemoryRetrieve, MemoryRetrieveModule};
pub use tools::search::{Found, MemorySearch, MemorySearchModule};
pub use tools::store::{MemoryStore, MemoryStoreModule, Stored};
pub use tools::update::{MemoryUpdate, MemoryUpdateModule, Updated};
