//! [`Handler`], the responses of a server that has tools, but no prompts or resources.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, ConstString, CustomRequest, CustomResult, ErrorCode,
    ErrorData, Extensions, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, model};
use serde_json::Value;
use toolwright_module::error::{Audience, Stage};
use toolwright_module::{Context, Error, Result, ToolCall};

use crate::mcp_server::calls::Calls;
use crate::mcp_server::progress;
use crate::mcp_server::request::RawArguments;
use crate::mcp_server::served_tool::{self, ServedTool};

/// The methods whose malformed parameters are an error of their own. `initialize` is not one of
/// them, because it is not valid after the handshake.
const METHODS: [&str; 3] = ["server/discover", "tools/call", "tools/list"];

/// Maximum number of characters of an unknown name in an error.
const MAX_NAME_CHARS: usize = 128;

/// The handler of all connections, which share the tools and the limits.
#[derive(Clone)]
pub(crate) struct Handler(Arc<Inner>);

struct Inner {
    info: ServerConfig,
    tools: Vec<ServedTool>,
    calls: Calls,
    cx: Context,
}

impl Handler {
    pub(crate) fn new(
        info: ServerConfig,
        tools: Vec<ServedTool>,
        calls: Calls,
        cx: Context,
    ) -> Self {
        Self(Arc::new(Inner { info, tools, calls, cx }))
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.0.calls
    }

    fn find(&self, name: &str) -> Option<&ServedTool> {
        self.0.tools.iter().find(|served| served.definition.name == name)
    }

    async fn call(
        &self,
        served: &ServedTool,
        call: ToolCall,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult> {
        let calls = &self.0.calls;
        let cx = toolwright_module::runner::in_call(&self.0.cx, &call);
        let token = context.meta.get_progress_token();
        let work = |cx: Context| async move {
            let output = served.tool.call(&call.arguments, &cx).await?;
            served.result(output, calls.limits.max_result_bytes)
        };
        let run = |cx| calls.run(served.tool.name(), cx, &context.ct, work);
        let call = progress::with_progress(cx, &context.peer, token, &context.ct, run);
        // Without this, a request whose task panics would get no response. The panic may also come
        // from dropping the work.
        AssertUnwindSafe(call).catch_unwind().await.unwrap_or_else(|panic| {
            // Dropping the payload of the panic could panic again.
            std::mem::forget(panic);
            Err(Error::other("the tool panicked").at(Stage::Panic))
        })
    }
}

/// Returns the arguments as the client wrote them. The transport has put them there.
fn raw_arguments(extensions: &Extensions) -> Option<&RawArguments> {
    #[cfg(feature = "http-server")]
    if let Some(parts) = extensions.get::<http::request::Parts>() {
        return parts.extensions.get();
    }
    extensions.get()
}

/// Logs the error for the operator of the server. The client gets only the part for models.
fn log(tool: &str, error: &Error) {
    let stage = error.stage();
    match error.audience() {
        Audience::ModelMayRetry | Audience::ModelFinal => {
            tracing::debug!(tool, %stage, %error, "a call was rejected");
        }
        _ => tracing::warn!(tool, %stage, %error, "a call failed"),
    }
}

fn no_method<M: ConstString>() -> ErrorData {
    ErrorData::method_not_found::<M>()
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        self.0.info.clone()
    }

    fn get_tool(&self, name: &str) -> Option<model::Tool> {
        Some(self.find(name)?.definition.clone())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        // The first page has all tools, so no cursor is valid.
        if request.is_some_and(|request| request.cursor.is_some()) {
            let text = "the cursor is not valid; send `tools/list` without a cursor";
            return Err(ErrorData::invalid_params(text, None));
        }
        let tools = self.0.tools.iter().map(|served| served.definition.clone()).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(served) = self.find(&request.name) else {
            let name: String = request.name.chars().take(MAX_NAME_CHARS).collect();
            return Err(ErrorData::invalid_params(format!("Unknown tool: {name}"), None));
        };
        let arguments = match raw_arguments(&context.extensions) {
            Some(raw) => match raw.check(served.tool.name()) {
                Ok(()) => raw.json.get().to_owned(),
                Err(error) => return Ok(served_tool::failure(&error).into()),
            },
            None => Value::Object(request.arguments.unwrap_or_default()).to_string(),
        };
        let call = ToolCall::new(context.id.to_string(), served.tool.name(), arguments);
        // The future is boxed, because rmcp moves an enum of all methods' futures.
        let outcome = Box::pin(self.call(served, call, context)).await;
        let result = outcome.unwrap_or_else(|error| {
            log(served.tool.name(), &error);
            served_tool::failure(&error)
        });
        Ok(result.into())
    }

    // Capabilities that are not declared are unknown methods. rmcp's defaults would respond with
    // empty lists.

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(no_method::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(no_method::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(no_method::<ListResourceTemplatesRequestMethod>())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(no_method::<CompleteRequestMethod>())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // rmcp also calls this for a known method with malformed parameters.
        if METHODS.contains(&request.method.as_str()) {
            let text = format!("the parameters of `{}` are malformed", request.method);
            return Err(ErrorData::invalid_params(text, None));
        }
        let method: String = request.method.chars().take(MAX_NAME_CHARS).collect();
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None))
    }
}
