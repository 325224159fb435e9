//! The page of a run: one HTML file with everything that its journal has.

mod parts;
mod problems;
mod scale;
mod steps;
mod tree;
mod view;
mod words;

use std::error::Error;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, PreEscaped, html};
use sha2::{Digest, Sha256};
use toolwright_journal::{Journal, JournalError, RunSummary};
use toolwright_orchestrator::ToolSet;
use toolwright_orchestrator::perform::Record;

use self::tree::Tree;
use self::view::View;
pub(super) use self::words::duration;
use super::home::Home;

const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// Returns a run as an HTML page, which needs no other file and no network. If `reload` is a time,
/// the page reloads itself after this time.
///
/// # Errors
///
/// There is no such run, or its file cannot be read.
pub fn page(journal: &Journal, id: &str, reload: Option<Duration>) -> Result<String, JournalError> {
    write(&journal.run(id)?, journal.entries(id)?, journal.tools(id)?, reload)
}

/// Returns a run of any home as a page, like [`page`].
pub(super) async fn of(
    home: &Home,
    id: &str,
    reload: Option<Duration>,
) -> Result<String, Box<dyn Error>> {
    let (entries, tools) = (home.entries(id).await?, home.tools(id).await?);
    Ok(write(&home.run(id).await?, entries, tools, reload)?)
}

fn write(
    run: &RunSummary,
    entries: Vec<(SystemTime, Record)>,
    tools: Option<ToolSet>,
    reload: Option<Duration>,
) -> Result<String, JournalError> {
    let task = super::text(&super::task_of(entries.first().map(|(_, first)| first), &run.id)?);
    let tree = Tree::of(entries, tools);
    let view = View::new(run, &task, &tree, SystemTime::now());
    let seconds = reload.map(|time| time.as_secs().max(1));
    // Only these two texts may style the page and run in it, whatever the run contains.
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT),
    );
    let page = html! {
        (DOCTYPE)
        html lang="en" data-run=(words::shown(&run.id)) data-reload=[seconds] {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                @if let Some(seconds) = seconds {
                    noscript { meta http-equiv="refresh" content=(seconds); }
                }
                title { (view.title()) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (view.body(seconds))
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    Ok(page.into_string())
}

/// Returns the source of a text for a content security policy.
pub(crate) fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}
