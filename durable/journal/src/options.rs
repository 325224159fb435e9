//! [`Options`] of a home of runs.

use std::fmt;
use std::sync::Arc;

use toolwright_orchestrator::Change;
use toolwright_orchestrator::perform::Record;

pub(crate) type Listener = Arc<dyn Fn(&str, usize, &Record) + Send + Sync>;
type ChangeListener = Arc<dyn Fn(&str, &Change) + Send + Sync>;

/// The options of the drives of a home of runs, such as [`Journal`](crate::Journal).
///
/// ```
/// # use std::sync::Arc;
/// # use std::sync::atomic::{AtomicUsize, Ordering};
/// # use toolwright_journal::{Journal, Options};
/// # use toolwright_module::testing::Scripted;
/// # use toolwright_module::{Context, Reply};
/// # use toolwright_orchestrator::Agent;
/// # let folder = tempfile::tempdir()?;
/// # let agent = Agent::new(Scripted::new(|_| Ok(Reply::text("Hello."))), [])?;
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let count = Arc::new(AtomicUsize::new(0));
/// let counts = Arc::clone(&count);
/// let journal = Journal::open(folder.path())?.with_options(Options {
///     max_result_bytes: 64 * 1024,
///     listener: Some(Arc::new(move |_id, _nth, _record| drop(counts.fetch_add(1, Ordering::Relaxed)))),
///     change_listener: Some(Arc::new(|id, change| println!("{id}: {change}"))),
/// });
/// journal.drive(&agent, "greeting", "Say hello.", &Context::default()).await?;
/// // The model's reply, and the result.
/// assert_eq!(count.load(Ordering::Relaxed), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Options {
    /// Maximum length of the result of a call, in bytes of JSON. Default: 1 MiB.
    ///
    /// A longer result is not recorded. The model gets an error that says so. Images, documents and
    /// sounds do not count. They are stored beside the records, and their limit is that of the run,
    /// [`Limits::max_part_bytes`](toolwright_orchestrator::Limits::max_part_bytes). Whole texts of
    /// results that were cut do not count either
    /// ([`Limits::max_kept_bytes`](toolwright_orchestrator::Limits::max_kept_bytes)).
    pub max_result_bytes: u64,
    /// Gets each record that a drive adds, with the id of the run and the number of the record in it,
    /// when it is stored and before the run goes on. The start of a run is number 0, and is not added
    /// by a drive.
    ///
    /// The listener runs on the task of the drive, so it should be quick. What was recorded by an
    /// earlier drive is not repeated.
    pub listener: Option<Listener>,
    /// Gets each difference between the agent that began a run and the one that drives it now, with
    /// the id of the run.
    ///
    /// It is called at the start of each such drive, before anything else happens in it. `tracing`
    /// gets the differences too.
    pub change_listener: Option<ChangeListener>,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_result_bytes: 1 << 20, listener: None, change_listener: None }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.max_result_bytes;
        f.debug_struct("Options").field("max_result_bytes", &bytes).finish_non_exhaustive()
    }
}
