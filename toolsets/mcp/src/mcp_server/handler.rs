//! [`Handler`], the responses of a server.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestMethod, CompleteRequestParams,
    CompleteResult, CompletionInfo, ConstString, CustomRequest, CustomResult, ErrorCode, ErrorData,
    Extensions, GetPromptRequestMethod, GetPromptRequestParams, GetPromptResponse,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod,
    ListResourceTemplatesResult, ListResourcesRequestMethod, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestMethod, ReadResourceRequestParams,
    ReadResourceResponse, Reference, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, model};
use serde_json::{Map, Value, json};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::{Context, Error, Result, Tool, ToolCall};

use crate::mcp_server::calls::Calls;
use crate::mcp_server::progress;
use crate::mcp_server::prompts::{self, ServedPrompt};
use crate::mcp_server::request::RawArguments;
use crate::mcp_server::resources::{self, Found, Resources};
use crate::mcp_server::served_tool::{self, ServedTool};

/// The methods whose malformed parameters are an error of their own. `initialize` is not one of
/// them, because it is not valid after the handshake.
const METHODS: [&str; 3] = ["server/discover", "tools/call", "tools/list"];
const PROMPT_METHODS: [&str; 2] = ["prompts/get", "prompts/list"];
const RESOURCE_METHODS: [&str; 3] =
    ["resources/list", "resources/read", "resources/templates/list"];

/// Maximum number of characters of an unknown name in an error.
const MAX_NAME_CHARS: usize = 128;

/// The handler of all connections, which share the tools and the limits.
#[derive(Clone)]
pub(crate) struct Handler(Arc<Inner>);

struct Inner {
    info: ServerConfig,
    served: Served,
    calls: Calls,
    cx: Context,
}

/// Everything that clients see.
#[derive(Clone, Default)]
pub(crate) struct Served {
    pub(crate) tools: Vec<ServedTool>,
    pub(crate) prompts: Vec<ServedPrompt>,
    pub(crate) resources: Resources,
}

impl Handler {
    pub(crate) fn new(info: ServerConfig, served: Served, calls: Calls, cx: Context) -> Self {
        Self(Arc::new(Inner { info, served, calls, cx }))
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.0.calls
    }

    fn find(&self, name: &str) -> Option<&ServedTool> {
        self.0.served.tools.iter().find(|served| served.definition.name == name)
    }

    fn find_prompt(&self, name: &str) -> Option<&ServedPrompt> {
        self.0.served.prompts.iter().find(|served| served.definition.name == name)
    }

    /// Runs the work of a call within the limits. The error is logged.
    async fn run<T, W: Future<Output = Result<T>>>(
        &self,
        call: &ToolCall,
        context: RequestContext<RoleServer>,
        work: impl FnOnce(Context) -> W,
    ) -> Result<T> {
        let cx = toolwright_module::runner::in_call(&self.0.cx, call);
        let token = context.meta.get_progress_token();
        let run = |cx| self.0.calls.run(&call.name, cx, &context.ct, work);
        let run = progress::with_progress(cx, &context.peer, token, &context.ct, run);
        // Without this, a request whose task panics would get no response. The panic may also come
        // from dropping the work.
        let outcome = AssertUnwindSafe(run).catch_unwind().await.unwrap_or_else(|panic| {
            // Dropping the payload of the panic could panic again.
            std::mem::forget(panic);
            Err(Error::other("the tool panicked").at(Stage::Panic))
        });
        outcome.inspect_err(|error| log(&call.name, error))
    }

    /// Calls a tool whose output the client gets in another form than a tool's result.
    async fn output<T>(
        &self,
        tool: &Tool,
        arguments: String,
        context: RequestContext<RoleServer>,
        convert: impl FnOnce(toolwright_module::ToolOutput, usize) -> Result<T>,
    ) -> Result<T, ErrorData> {
        let call = ToolCall::new(context.id.to_string(), tool.name(), arguments);
        let max_bytes = self.0.calls.limits.max_result_bytes;
        let work = |cx: Context| async {
            let cx = cx;
            convert(tool.call(&call.arguments, &cx).await?, max_bytes)
        };
        // The future is boxed, because rmcp moves an enum of all methods' futures.
        Box::pin(self.run(&call, context, work)).await.map_err(|error| error_of(&error))
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

/// Returns the arguments of a call as text.
///
/// # Errors
///
/// They cannot be read exactly.
fn arguments_of(
    name: &str,
    arguments: Option<Map<String, Value>>,
    extensions: &Extensions,
) -> Result<String> {
    match raw_arguments(extensions) {
        Some(raw) => {
            raw.check(name)?;
            Ok(raw.json.get().to_owned())
        }
        None => Ok(Value::Object(arguments.unwrap_or_default()).to_string()),
    }
}

/// Returns the protocol error of a request whose result cannot say that it failed. It has the part of
/// the error that is for models.
fn error_of(error: &Error) -> ErrorData {
    let code = match error.stage() {
        Stage::Arguments => ErrorCode::INVALID_PARAMS,
        _ => ErrorCode::INTERNAL_ERROR,
    };
    ErrorData::new(code, error.for_model().into_owned(), None)
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
        check_cursor("tools/list", request)?;
        let tools = self.0.served.tools.iter().map(|served| served.definition.clone()).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(served) = self.find(&request.name) else {
            return Err(unknown("tool", &request.name));
        };
        let name = served.tool.name();
        let arguments = match arguments_of(name, request.arguments, &context.extensions) {
            Ok(arguments) => arguments,
            Err(error) => return Ok(served_tool::failure(&error).into()),
        };
        let call = ToolCall::new(context.id.to_string(), name, arguments);
        let work = |cx: Context| async {
            let cx = cx;
            let output = served.tool.call(&call.arguments, &cx).await?;
            served.result(output, self.0.calls.limits.max_result_bytes)
        };
        // The future is boxed, because rmcp moves an enum of all methods' futures.
        let outcome = Box::pin(self.run(&call, context, work)).await;
        Ok(outcome.unwrap_or_else(|error| served_tool::failure(&error)).into())
    }

    // Capabilities that are not declared are unknown methods. rmcp's defaults would respond with
    // empty lists.

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        if self.0.info.capabilities.prompts.is_none() {
            return Err(no_method::<ListPromptsRequestMethod>());
        }
        check_cursor("prompts/list", request)?;
        let prompts = self.0.served.prompts.iter().map(|served| served.definition.clone());
        Ok(ListPromptsResult::with_all_items(prompts.collect()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if self.0.info.capabilities.prompts.is_none() {
            return Err(no_method::<GetPromptRequestMethod>());
        }
        let served =
            self.find_prompt(&request.name).ok_or_else(|| unknown("prompt", &request.name))?;
        let name = served.tool.name();
        let arguments = arguments_of(name, request.arguments, &context.extensions)
            .map_err(|error| error_of(&error))?;
        let convert = |output, max_bytes| served.result(output, max_bytes);
        let result = self.output(&served.tool, arguments, context, convert).await?;
        Ok(GetPromptResponse::Complete(result))
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        if self.0.info.capabilities.resources.is_none() {
            return Err(no_method::<ListResourcesRequestMethod>());
        }
        check_cursor("resources/list", request)?;
        Ok(self.0.served.resources.list())
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        if self.0.info.capabilities.resources.is_none() {
            return Err(no_method::<ListResourceTemplatesRequestMethod>());
        }
        check_cursor("resources/templates/list", request)?;
        Ok(self.0.served.resources.list_templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if self.0.info.capabilities.resources.is_none() {
            return Err(no_method::<ReadResourceRequestMethod>());
        }
        let uri = request.uri;
        let Some(found) = self.0.served.resources.find(&uri) else {
            let text = "there is no resource with this URI";
            return Err(ErrorData::resource_not_found(text, Some(json!({"uri": uri}))));
        };
        let result = match found {
            Found::Template(template, arguments) => {
                let convert = |output, max_bytes| {
                    resources::contents_of_output(template, &uri, output, max_bytes)
                };
                self.output(&template.tool, arguments, context, convert).await?
            }
            Found::Resource(served) => {
                let call = ToolCall::new(context.id.to_string(), &served.resource.name, "{}");
                let max_bytes = self.0.calls.limits.max_result_bytes;
                let work = |cx: Context| async {
                    let body = (served.read)(cx).await?;
                    resources::contents(&served.resource, body, max_bytes)
                };
                let read = Box::pin(self.run(&call, context, work)).await;
                read.map_err(|error| error_of(&error))?
            }
        };
        Ok(ReadResourceResponse::Complete(result))
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        if self.0.info.capabilities.completions.is_none() {
            return Err(no_method::<CompleteRequestMethod>());
        }
        let tool = match &request.r#ref {
            Reference::Prompt(prompt) => match self.find_prompt(&prompt.name) {
                Some(served) => &served.tool,
                None => return Err(unknown("prompt", &prompt.name)),
            },
            Reference::Resource(template) => {
                let mut templates = self.0.served.resources.templates.iter();
                match templates.find(|served| served.resource.uri == template.uri) {
                    Some(served) => &served.tool,
                    None => return Err(unknown("template", &template.uri)),
                }
            }
            _ => return Err(ErrorData::invalid_params("the reference is of another kind", None)),
        };
        let values = prompts::completions(tool, &request.argument.name, &request.argument.value)
            .map_err(|error| error_of(&error))?;
        let values = CompletionInfo::with_all_values(values);
        let values = values.map_err(|text| ErrorData::internal_error(text, None))?;
        Ok(CompleteResult::new(values))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method.as_str();
        let capabilities = &self.0.info.capabilities;
        // rmcp also calls this for a known method with malformed parameters.
        if METHODS.contains(&method)
            || (capabilities.prompts.is_some() && PROMPT_METHODS.contains(&method))
            || (capabilities.resources.is_some() && RESOURCE_METHODS.contains(&method))
            || (capabilities.completions.is_some() && method == "completion/complete")
        {
            let text = format!("the parameters of `{method}` are malformed");
            return Err(ErrorData::invalid_params(text, None));
        }
        let method: String = method.chars().take(MAX_NAME_CHARS).collect();
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None))
    }
}

/// Fails if a request has a cursor. The first page of each list has all items, so no cursor is valid.
fn check_cursor(method: &str, request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        Some(_) => {
            let text = format!("the cursor is not valid; send `{method}` without a cursor");
            Err(ErrorData::invalid_params(text, None))
        }
        None => Ok(()),
    }
}

fn unknown(what: &str, name: &str) -> ErrorData {
    let name: String = name.chars().take(MAX_NAME_CHARS).collect();
    ErrorData::invalid_params(format!("Unknown {what}: {name}"), None)
}
