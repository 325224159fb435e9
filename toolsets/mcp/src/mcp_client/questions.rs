//! [`Questions`], which a server asks a person during a call.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CreateMessageRequestMethod, ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData,
    InputRequest, InputRequiredResult, InputResponses, ListRootsRequestMethod,
};
use rmcp::service::ServiceError;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::{Context, Contract, Effect, ToolCall, runner};

/// Name of the call that an approver gets in place of a question.
const ANSWER: &str = "answer_question";

/// Maximum number of times that a server responds to one request with questions.
const MAX_ROUNDS: usize = 10;

/// Maximum number of characters of a server's question.
const MAX_CHARS: usize = 2000;

/// Time between two signs of progress while a person is asked.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// The questions of a server. Each is for the person of a running call.
pub(crate) struct Questions {
    server: String,
    /// Whether the client declares that there is a person.
    pub(crate) are_declared: bool,
    /// The running calls. A server of an older revision does not say to which of them a question
    /// belongs.
    running: Mutex<HashMap<u64, Context>>,
    next_id: AtomicU64,
    /// Notified while a person is asked, so that the timeout of the call does not end.
    progress: Arc<Notify>,
}

/// A running call, until it is dropped.
pub(crate) struct RunningCall<'a> {
    questions: &'a Questions,
    id: u64,
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.questions.running().remove(&self.id);
    }
}

impl Questions {
    pub(crate) fn new(server: String, are_declared: bool, progress: Arc<Notify>) -> Self {
        let (running, next_id) = (Mutex::default(), AtomicU64::new(0));
        Self { server, are_declared, running, next_id, progress }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<u64, Context>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a call with this context begins.
    pub(crate) fn begin(&self, cx: &Context) -> RunningCall<'_> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.running().insert(id, cx.clone());
        RunningCall { questions: self, id }
    }

    /// Asks the person of the only running call. If there are others, the question could be that of
    /// another person's call, so it is declined.
    pub(crate) async fn ask_person_of_only_call(
        &self,
        question: ElicitRequestParams,
    ) -> ElicitResult {
        let only = {
            let running = self.running();
            let only = running.values().next().filter(|_| running.len() == 1);
            only.cloned()
        };
        if only.is_none() {
            tracing::warn!(
                "an MCP server asked a question that belongs to no call or to one of many"
            );
        }
        self.ask(only.as_ref(), question).await
    }

    /// Asks the approver of a context. Without one, and without an answer that fits, the question is
    /// declined.
    pub(crate) async fn ask(
        &self,
        cx: Option<&Context>,
        question: ElicitRequestParams,
    ) -> ElicitResult {
        let declined = ElicitResult::new(ElicitationAction::Decline);
        let Some(cx) = cx.filter(|_| self.are_declared) else { return declined };
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = question
        else {
            return declined;
        };
        let Ok(schema) = serde_json::to_value(requested_schema) else { return declined };
        let Ok(contract) = Contract::dynamic(ANSWER, &message, schema, None) else {
            tracing::warn!("an MCP server asked a question whose schema is not valid");
            return declined;
        };
        let path = cx.path();
        let id = path.last().map_or_else(|| ANSWER.to_owned(), |call| call.id.clone());
        let shown = shown(contract.input());
        let asked = Approval {
            path,
            call: ToolCall::new(id, ANSWER, shown.clone()),
            // The server gets what the person knows, and cannot forget it.
            effect: Effect::Irreversible,
            unknown: false,
            asked_before: 0,
            reason: Some(self.reason(&message, contract.input())),
        };
        let mut deciding = std::pin::pin!(runner::approve(cx, asked));
        let decision = loop {
            tokio::select! {
                biased;
                decision = &mut deciding => break decision,
                () = tokio::time::sleep(PROGRESS_INTERVAL) => self.progress.notify_waiters(),
            }
        };
        let answer = match decision {
            Some(Ok(Decision::Approve)) => shown,
            Some(Ok(Decision::Edit { arguments })) => arguments,
            Some(Err(error)) => {
                tracing::warn!(%error, "the approver did not answer a question of an MCP server");
                return ElicitResult::new(ElicitationAction::Cancel);
            }
            _ => return declined,
        };
        match fitting(&contract, &answer) {
            Some(content) => ElicitResult::new(ElicitationAction::Accept).with_content(content),
            None => {
                tracing::warn!("the answer to a question of an MCP server does not fit its schema");
                declined
            }
        }
    }

    /// Returns the server's question with the answers that it wants.
    fn reason(&self, message: &str, schema: &Value) -> String {
        let message: String = message.chars().take(MAX_CHARS).collect();
        let mut text = format!("the server {} asks: {message}", self.server);
        let required = schema.get("required").and_then(Value::as_array);
        for (name, field) in fields(schema) {
            let is_required =
                required.is_some_and(|names| names.iter().any(|one| one.as_str() == Some(name)));
            let kind = field.get("type").and_then(Value::as_str).unwrap_or("any value");
            let optional = if is_required { "" } else { ", optional" };
            // A `String` takes every text.
            let _ = write!(text, "; `{name}` ({kind}{optional})");
            let said = ["description", "title"].iter().find_map(|key| field.get(*key)?.as_str());
            if let Some(said) = said {
                let said: String = said.chars().take(MAX_CHARS).collect();
                let _ = write!(text, ": {said}");
            }
            if let Some(values) = field.get("enum") {
                let _ = write!(text, ", one of {values}");
            }
        }
        text
    }
}

fn fields(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// Returns the answers as JSON before a person changes them: the server's defaults, and otherwise null.
fn shown(schema: &Value) -> String {
    let field = |(name, field): (&String, &Value)| {
        (name.clone(), field.get("default").cloned().unwrap_or_default())
    };
    Value::Object(fields(schema).map(field).collect()).to_string()
}

/// Returns the answers without those that are null, if they fit the schema.
fn fitting(contract: &Contract, answer: &str) -> Option<Value> {
    let mut answer: Map<String, Value> = serde_json::from_str(answer).ok()?;
    answer.retain(|_, value| !value.is_null());
    contract.read(&Value::Object(answer).to_string()).ok()
}

/// The rounds of a request to which a server responds with questions.
#[derive(Default)]
pub(crate) struct Rounds {
    count: usize,
    without_questions: u32,
}

impl Rounds {
    /// Answers the questions of a response. Returns the answers and the state for the next request.
    ///
    /// # Errors
    ///
    /// The server asks too often, or for something else than an answer of a person.
    pub(crate) async fn answer(
        &mut self,
        questions: &Questions,
        cx: Option<&Context>,
        response: InputRequiredResult,
    ) -> Result<(Option<InputResponses>, Option<String>), ServiceError> {
        self.count += 1;
        if self.count >= MAX_ROUNDS {
            return Err(ServiceError::InputRequiredRoundsExceeded { max_rounds: MAX_ROUNDS });
        }
        let requests = response.input_requests.unwrap_or_default();
        if requests.is_empty() {
            let wait = 50 * 2u64.pow(self.without_questions.min(2));
            tokio::time::sleep(Duration::from_millis(wait)).await;
            self.without_questions += 1;
            return Ok((None, response.request_state));
        }
        let mut answers = InputResponses::new();
        for (key, request) in requests {
            let answer = match request {
                InputRequest::Elicitation(request) => questions.ask(cx, request.params).await,
                InputRequest::CreateMessage(_) => {
                    let error = ErrorData::method_not_found::<CreateMessageRequestMethod>();
                    return Err(ServiceError::McpError(error));
                }
                _ => {
                    let error = ErrorData::method_not_found::<ListRootsRequestMethod>();
                    return Err(ServiceError::McpError(error));
                }
            };
            let answer =
                serde_json::to_value(answer).map_err(|_| ServiceError::UnexpectedResponse)?;
            answers.insert(key, answer);
        }
        Ok((Some(answers), response.request_state))
    }
}
