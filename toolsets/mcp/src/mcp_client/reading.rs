//! Requests that only read: lists in pages, prompts and resources.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Instant;

use rmcp::model::{ClientRequest, PaginatedRequestParams, ServerCapabilities};
use rmcp::service::ServiceError;
use serde_json::Value;
use toolwright_module::model::BoxFuture;

use crate::error::{McpError, Result, Source};
use crate::mcp_client::listing::{MAX_BYTES, MAX_PAGES, MAX_TOOLS};
use crate::mcp_client::session::{CallFailure, Running};
use crate::mcp_client::{MAX_SENDS, McpClient};
use crate::until;

/// A list that a server may have.
pub(crate) struct List {
    pub(crate) method: &'static str,
    /// The field of the result with the items.
    pub(crate) field: &'static str,
    /// Returns whether the server has the list.
    pub(crate) is_declared: fn(&ServerCapabilities) -> bool,
    pub(crate) request: fn(Option<PaginatedRequestParams>) -> ClientRequest,
}

impl McpClient {
    /// Sends a request that only reads. It is sent again if the connection is lost.
    ///
    /// # Errors
    ///
    /// [`McpError::Request`], also if there is no response in the time of a call, and
    /// [`McpError::Unauthorized`], [`McpError::LoginRequired`].
    pub(crate) async fn read<T>(
        &self,
        method: &'static str,
        request: impl for<'a> Fn(&'a Running) -> BoxFuture<'a, Result<T, ServiceError>>,
    ) -> Result<T> {
        let failed = |source: Source| McpError::Request { method, source };
        let settings = &self.connection.client;
        let work = async {
            let mut sent = 0;
            loop {
                let session = self.connection.session().await;
                let session = session.map_err(|error| failed(Box::new(error)))?;
                sent += 1;
                let source = match session.send(&request).await {
                    Ok(result) => return Ok(result),
                    Err(CallFailure::NotRun(source) | CallFailure::Lost(source)) => source,
                    Err(CallFailure::NoResult(response)) => {
                        format!("the server responded without a result: {response}").into()
                    }
                    Err(CallFailure::Unauthorized) => return Err(settings.unauthorized()),
                    #[cfg(feature = "login")]
                    Err(CallFailure::NoToken(source)) => return Err(failed(source)),
                    Err(CallFailure::ServerError(text)) => return Err(failed(text.into())),
                    Err(CallFailure::Unreadable(fault)) => {
                        let fault = fault.map(|fault| format!(" ({fault})")).unwrap_or_default();
                        let text = format!("the response is too large or cannot be read{fault}");
                        return Err(failed(text.into()));
                    }
                };
                session.set_lost();
                if sent == MAX_SENDS {
                    return Err(failed(source));
                }
            }
        };
        let mut work = pin!(work);
        tokio::select! {
            biased;
            result = &mut work => result,
            () = until(Instant::now().checked_add(settings.tool_time)) => {
                Err(failed(format!("there was no response after {:?}", settings.tool_time).into()))
            }
        }
    }

    /// Requests all pages of a list, and converts its items. It is empty if the server does not declare
    /// it. Items that `convert` does not accept are left out.
    pub(crate) async fn list<T>(
        &self,
        list: &'static List,
        convert: impl Fn(&Value) -> Option<T>,
    ) -> Result<Vec<T>> {
        let items = self.pages(list).await?;
        let count = items.len();
        let converted: Vec<T> = items.iter().filter_map(convert).collect();
        if converted.len() < count {
            let left_out = count - converted.len();
            tracing::warn!(list.method, left_out, "items of an MCP server's list are not valid");
        }
        Ok(converted)
    }

    async fn pages(&self, list: &'static List) -> Result<Vec<Value>> {
        let method = list.method;
        let endless = || McpError::Request {
            method,
            source: "the list is too long, or repeats a page".into(),
        };
        let (mut items, mut seen, mut bytes) = (Vec::new(), HashSet::new(), 0);
        let mut cursor: Option<String> = None;
        loop {
            let cursor_now = cursor.clone();
            // The list methods of rmcp are not used, because one item that is not valid would be the
            // end of the whole list.
            let page = self.read(method, move |running| {
                let params = cursor_now
                    .clone()
                    .map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
                Box::pin(async move {
                    let info = running.peer().peer_info();
                    if info.is_some_and(|info| !(list.is_declared)(&info.capabilities)) {
                        return Ok(Value::Null);
                    }
                    let page = running.peer().send_request((list.request)(params)).await?;
                    serde_json::to_value(page).map_err(|_| ServiceError::UnexpectedResponse)
                })
            });
            let mut page = page.await?;
            if page.is_null() {
                return Ok(items);
            }
            let Some(Value::Array(found)) = page.get_mut(list.field).map(Value::take) else {
                let source = format!("the response has no `{}`", list.field).into();
                return Err(McpError::Request { method, source });
            };
            bytes += found.iter().map(|item| item.to_string().len()).sum::<usize>();
            items.extend(found);
            if items.len() > MAX_TOOLS || seen.len() > MAX_PAGES || bytes > MAX_BYTES {
                return Err(endless());
            }
            // Some servers send an empty cursor with the last page.
            let next = page.get("nextCursor").and_then(Value::as_str).unwrap_or_default();
            if next.is_empty() {
                return Ok(items);
            }
            if !seen.insert(next.to_owned()) {
                return Err(endless());
            }
            cursor = Some(next.to_owned());
        }
    }
}

/// Returns a text field of an item of a list. An empty text counts as missing.
pub(crate) fn text(item: &Value, field: &str) -> Option<String> {
    item.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}
