//! The routes of the page beside those of the service.

use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_SECURITY_POLICY, HeaderValue};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use toolwright_journal::{Journal, RunSummary};
use toolwright_module::LanguageModel;
use toolwright_module::budget::Cost;

use super::page::{PAGE, POLICY};
use crate::assistant::{Assistant, COMMAND, folder};
use crate::runs;

/// The policy of the page of a run. Its own text has the rest.
const OF_RUN: &str = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// How often the page of a run that goes on is loaded again.
const RELOAD: Duration = Duration::from_secs(2);

/// Maximum number of runs of other commands in the list.
const MOST_OTHERS: usize = 100;

/// What the page shows of its agent.
#[derive(Debug, Clone, Serialize)]
pub(super) struct About {
    version: &'static str,
    /// The line that the command prints about its model.
    model: String,
    folder: String,
    tools: Vec<AboutTool>,
    /// The kinds of attachments that the model takes: `image`, `document`, `audio`.
    takes: Vec<&'static str>,
    /// The only task that the page answers without a model.
    only_task: Option<String>,
    /// Whether runs are stored, and have a page.
    is_kept: bool,
}

#[derive(Debug, Clone, Serialize)]
struct AboutTool {
    name: String,
    description: String,
}

impl About {
    pub(super) fn new(assistant: &Assistant) -> Self {
        let takes = assistant.chosen.model.capabilities();
        let takes =
            [("image", takes.images), ("document", takes.documents), ("audio", takes.audio)];
        let agent = assistant.agent.borrow();
        let tools = agent.tools().iter().map(|tool| AboutTool {
            name: tool.name().to_owned(),
            description: tool.contract().description().to_owned(),
        });
        Self {
            version: env!("CARGO_PKG_VERSION"),
            model: assistant.chosen.line.clone(),
            folder: folder(),
            tools: tools.collect(),
            takes: takes
                .into_iter()
                .filter_map(|(kind, is_taken)| is_taken.then_some(kind))
                .collect(),
            only_task: assistant.chosen.only_task.clone(),
            is_kept: assistant.journal.is_some(),
        }
    }
}

/// A run of another command.
#[derive(Debug, Serialize)]
struct Other {
    id: String,
    task: String,
    command: String,
    status: String,
    /// In milliseconds since 1970.
    changed: u64,
    /// `None` if it is not known.
    money: Option<String>,
    tokens: Option<u64>,
}

type Shared = Arc<Option<Journal>>;

/// Returns the routes: the page, what it shows beside the conversations, and the service below `api/`.
pub(super) fn router(about: About, journal: Option<Journal>, service: Router) -> Router {
    let about = Json(about);
    Router::new()
        .route("/", get(page))
        .route("/about", get(move || std::future::ready(about.clone())))
        .route("/others", get(others))
        .route("/runs/{run}/page", get(run_page))
        .with_state(Arc::new(journal))
        .nest("/api", service)
}

async fn page() -> Response {
    let mut response = Html(PAGE.as_str()).into_response();
    if let Ok(policy) = HeaderValue::from_str(&POLICY) {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// Lists the runs of the journal that other commands and programs have started.
async fn others(State(journal): State<Shared>) -> Response {
    let found = blocking(move || match &*journal {
        None => Ok(Vec::new()),
        Some(journal) => journal.runs(),
    });
    let mut runs: Vec<RunSummary> = match found.await {
        Ok(Ok(runs)) => runs,
        Ok(Err(error)) => return failed(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        Err(response) => return response,
    };
    runs.retain(|run| run.metadata.get(COMMAND).is_none_or(|command| command != "serve"));
    runs.sort_by_key(|run| std::cmp::Reverse(run.changed));
    runs.truncate(MOST_OTHERS);
    let list: Vec<_> = runs.into_iter().map(other).collect();
    Json(json!({ "runs": list })).into_response()
}

fn other(run: RunSummary) -> Other {
    let since = run.changed.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let spent = run.spent.unwrap_or_default();
    let tokens = spent.usage.input_tokens.saturating_add(spent.usage.output_tokens);
    Other {
        status: json!(run.status).as_str().unwrap_or_default().to_owned(),
        task: run.metadata.get(runs::TASK).cloned().or(run.task).unwrap_or_default(),
        command: run.metadata.get(COMMAND).cloned().unwrap_or_default(),
        id: run.id,
        changed: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        money: match spent.cost() {
            Cost::Unknown => None,
            known => Some(known.to_string()),
        },
        tokens: (tokens > 0).then_some(tokens),
    }
}

/// Shows the page of a run, which `runs page` writes to a file.
async fn run_page(State(journal): State<Shared>, Path(id): Path<String>) -> Response {
    let found = blocking(move || {
        let Some(journal) = &*journal else {
            return Err(
                "the runs are not stored; start the command without --no-journal".to_owned()
            );
        };
        let written = || {
            let is_ended = journal.run(&id)?.status.is_ended();
            runs::page(journal, &id, (!is_ended).then_some(RELOAD))
        };
        written().map_err(|error| error.to_string())
    });
    match found.await {
        Err(response) => response,
        Ok(Err(error)) => failed(StatusCode::NOT_FOUND, &error),
        Ok(Ok(page)) => {
            let mut response = Html(page).into_response();
            let policy = HeaderValue::from_static(OF_RUN);
            response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
            response
        }
    }
}

/// Does work that blocks its thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Response> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| failed(StatusCode::INTERNAL_SERVER_ERROR, "this is an error of the command"))
}

fn failed(status: StatusCode, error: &str) -> Response {
    (status, Json(json!({ "error": error }))).into_response()
}
