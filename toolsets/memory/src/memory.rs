use std::fmt;
use std::sync::Arc;

use toolwright_module::Tool;

use crate::store::Store;
use crate::tools::clear::MemoryClearTool;
use crate::tools::count::MemoryCountTool;
use crate::tools::delete::MemoryDeleteTool;
use crate::tools::get_metadata::MemoryGetMetadataTool;
use crate::tools::list::MemoryListTool;
use crate::tools::retrieve::MemoryRetrieveTool;
use crate::tools::search::MemorySearchTool;
use crate::tools::store::MemoryStoreTool;
use crate::tools::update::MemoryUpdateTool;

/// Entries under keys, and the nine tools that work on them.
///
/// Cloning shares the entries. Every call is atomic, from any number of threads.
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
#[derive(Clone, Default)]
pub struct Memory {
    store: Arc<Store>,
}

impl Memory {
    /// The nine tools, all on this memory's entries.
    ///
    /// Rename one with [`Tool::named`], set all apart from another memory's with
    /// [`Tool::prefixed`], leave one out by filtering the list by [`Tool::name`], or make a
    /// few by hand: `Tool::new(MemoryStoreTool::new(&memory))`.
    ///
    /// # Errors
    ///
    /// None of these contracts fails; the error is that of [`Tool::new`].
    pub fn tools(&self) -> toolwright_signature::Result<Vec<Tool>> {
        Ok(vec![
            Tool::new(MemoryStoreTool::new(self))?,
            Tool::new(MemoryRetrieveTool::new(self))?,
            Tool::new(MemorySearchTool::new(self))?,
            Tool::new(MemoryListTool::new(self))?,
            Tool::new(MemoryUpdateTool::new(self))?,
            Tool::new(MemoryDeleteTool::new(self))?,
            Tool::new(MemoryClearTool::new(self))?,
            Tool::new(MemoryCountTool::new(self))?,
            Tool::new(MemoryGetMetadataTool::new(self))?,
        ])
    }

    pub(crate) fn store(&self) -> Arc<Store> {
        Arc::clone(&self.store)
    }
}

/// Says how many entries there are, never what is in them.
impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("entries", &self.store.count()).finish()
    }
}
