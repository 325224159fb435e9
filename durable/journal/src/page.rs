//! The page of a run: one HTML file with everything that its records have.

mod parts;
mod problems;
mod scale;
mod steps;
mod texts;
mod tree;
mod view;
mod words;

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};
use toolwright_module::testing::Mask;
use toolwright_orchestrator::ToolSet;
use toolwright_orchestrator::perform::Record;

use self::texts::Texts;
use self::tree::Tree;
use self::view::View;
use crate::error::JournalError;
use crate::summary::RunSummary;

const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// Parts of pages that other crates of the workspace use. It is not part of the public API.
pub mod shared {
    pub use super::parts::fact;
    pub use super::texts::Texts;
    pub use super::words::{
        SHORT_HASH, TASK, command, cost_in_words, cost_of, count, duration, first_words, number,
        quoted, short_hash, task_of, text_of,
    };
    pub use super::{document, hash};

    /// The style of the page of a run.
    pub const STYLE: &str = super::STYLE;
}

/// A run as an HTML page, which needs no other file and no network.
///
/// Keys of known forms and the values of secret variables of the environment are masked.
///
/// ```
/// use toolwright_journal::{Journal, Page};
/// # use toolwright_module::testing::Scripted;
/// # use toolwright_module::{Context, Reply};
/// # use toolwright_orchestrator::Agent;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// let journal = Journal::open(folder.path())?;
/// # let agent = Agent::new(Scripted::replies([Reply::text("Hello.")]), [])?;
/// # journal.drive(&agent, "greeting-1", "Say hello.", &Context::default()).await?;
/// let id = "greeting-1";
/// let page = Page::new().html(&journal.run(id)?, journal.entries(id)?, journal.tools(id)?)?;
/// assert!(page.contains("Say hello."));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Page {
    reload: Option<Duration>,
    texts: Texts,
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page").field("reload", &self.reload).finish_non_exhaustive()
    }
}

impl Page {
    /// Returns a page that does not reload itself.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reloads the page after this time, again and again: the run has not ended. Default: never.
    #[must_use]
    pub fn with_reload(mut self, time: Duration) -> Self {
        self.reload = Some(time);
        self
    }

    /// Sets the mask for keys. Default: `Mask::from_env_and(&[])`.
    #[must_use]
    pub fn with_mask(mut self, mask: Mask) -> Self {
        self.texts = Texts::new(mask);
        self
    }

    /// Returns the page of a run, from its summary, its records and its tools.
    ///
    /// # Errors
    ///
    /// [`JournalError::NoStart`]: the records do not begin with a start.
    pub fn html(
        &self,
        run: &RunSummary,
        entries: Vec<(SystemTime, Record)>,
        tools: Option<ToolSet>,
    ) -> Result<String, JournalError> {
        let first = entries.first().map(|(_, first)| first);
        let task = words::text_of(&words::task_of(first, &run.id)?);
        let tree = Tree::of(entries, tools);
        let view = View::new(run, &task, &tree, &self.texts, SystemTime::now());
        let seconds = self.reload.map(|time| time.as_secs().max(1));
        let id = self.texts.shown(&run.id);
        let head = html! {
            @if let Some(seconds) = seconds {
                noscript { meta http-equiv="refresh" content=(seconds); }
            }
        };
        let page = html! {
            (DOCTYPE)
            html lang="en" data-run=(id) data-reload=[seconds] {
                (document(&view.title(), head, view.body(seconds), STYLE, SCRIPT))
            }
        };
        Ok(page.into_string())
    }
}

/// Returns the head and the body of a page. Only the style and the script may style the page and run in
/// it, whatever its texts are.
pub fn document(title: &str, head: Markup, body: Markup, style: &str, script: &str) -> Markup {
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        hash(style),
        hash(script),
    );
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="referrer" content="no-referrer";
            (head)
            title { (title) }
            style { (PreEscaped(style)) }
        }
        body {
            (body)
            script { (PreEscaped(script)) }
        }
    }
}

/// Returns the source of a text for a content security policy.
pub fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}
