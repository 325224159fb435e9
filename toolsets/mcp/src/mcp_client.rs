//! The client side: [`McpClient`] and [`McpModule`].

mod builder;
mod call_result;
mod child_process;
mod connection;
mod discovery;
#[cfg(feature = "http-client")]
mod http;
#[cfg(feature = "http-client")]
mod http_client;
mod incoming;
mod listing;
mod lock;
#[cfg(feature = "login")]
mod login;
#[cfg(feature = "login")]
mod login_store;
#[cfg(feature = "login")]
mod logins;
mod prompts;
mod questions;
mod reading;
mod resources;
mod secrets;
mod session;

use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::watch;
use toolwright_module::error::Stage;
use toolwright_module::runner;
use toolwright_module::{
    self as module, Context, Contract, Dialect, Effect, Module, OutputOf, Result as ModuleResult,
    Signature, Tool,
};

pub use self::builder::McpClientBuilder;
use self::builder::TransportConfig;
use self::child_process::Command;
#[cfg(feature = "http-client")]
use self::http::HttpAddress;
#[cfg(feature = "login")]
pub use self::login::{McpLogin, PendingLogin};
#[cfg(feature = "login")]
pub use self::login_store::{LoginFolder, LoginStore};
pub use self::prompts::{Prompt, PromptArgument};
use crate::error::{McpError, Result, Source};
use crate::exact::has_rounded_integers;
use crate::mcp_client::call_result::CallResult;
pub use crate::mcp_client::call_result::ResultText;
use crate::mcp_client::connection::Connection;
use crate::mcp_client::listing::{Listed, Listing, short_name, valid_name};
use crate::mcp_client::lock::Lock;
use crate::mcp_client::session::{CallFailure, Session};
use crate::until;

/// Maximum number of responses to the server's own requests that are being sent. Without a limit,
/// a server that sends requests and does not read the responses would fill the memory.
const MAX_PENDING_RESPONSES: usize = 64;

/// Maximum time of a call that makes progress, as a multiple of its timeout.
const MAX_EXTENSIONS: u32 = 10;

/// Maximum number of times that a call is sent.
const MAX_SENDS: u32 = 3;

/// A connected MCP server and its tools.
///
/// Clones share the connection. It is closed when the last clone and the last of its tools are
/// dropped; a child process then ends, or is killed within seconds. If the connection is lost,
/// the next call connects again, after a delay that grows while the server is unavailable.
#[derive(Clone)]
pub struct McpClient {
    connection: Arc<Connection>,
    /// The tool list that [`changed`](Self::changed) saw last.
    seen: watch::Receiver<Arc<Listing>>,
}

/// The tools that an agent may have itself. A tool of a server would take their place.
const OF_AGENTS: [&str; 3] = [Contract::FINISH, "find_tools", "read_result"];

impl McpClient {
    /// Returns the builder for a server that runs as a child process, over its standard input and
    /// output.
    ///
    /// [`connect`](McpClientBuilder::connect) starts the process, and the next call starts it
    /// again if it ends. When the last [`McpClient`] and the last of its tools are dropped, the
    /// process ends together with all processes that it started.
    ///
    /// The process inherits only variables such as `PATH` and `HOME`, because the environment
    /// may contain keys. Set any other variable with [`with_env`](McpClientBuilder::with_env).
    /// Its standard error goes to `tracing`.
    pub fn stdio<A: Into<OsString>>(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = A>,
    ) -> McpClientBuilder {
        McpClientBuilder::new(TransportConfig::ChildProcess(Command {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            folder: None,
        }))
    }

    /// Returns the builder for a server at an HTTP URL, such as `http://127.0.0.1:8000/mcp`.
    ///
    /// A redirect is followed only if it stays on the same scheme, host and port.
    ///
    /// # Errors
    ///
    /// [`McpError::Url`] if the URL is not valid, is not `http` or `https`, or contains a user
    /// name or password.
    #[cfg(feature = "http-client")]
    pub fn http(url: &str) -> Result<McpClientBuilder> {
        Ok(McpClientBuilder::new(TransportConfig::Http(HttpAddress::new(url)?)))
    }

    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        let mut seen = connection.listing.subscribe();
        seen.mark_unchanged();
        Self { connection, seen }
    }

    fn listing(&self) -> Arc<Listing> {
        Arc::clone(&self.connection.listing.borrow())
    }

    /// Returns the server's tools, in the server's order.
    ///
    /// Arguments and results are validated against the server's schemas. Characters of a name
    /// that language model providers do not accept, such as `.`, are replaced with `_`.
    ///
    /// Each tool keeps the definition of this moment. If the server changes the definition
    /// later, calls of the tool fail with [`McpError::Changed`]; call this function again.
    pub fn tools(&self) -> Vec<Tool> {
        self.listing().tools.iter().map(|listed| self.tool(listed)).collect()
    }

    /// Returns the server's tools with names that differ from those of `others`.
    ///
    /// If a name is taken, the server's name is put before it; if that is taken too, a number is
    /// put between the two. A name that becomes too long is cut, and ends with a hash. The names of the
    /// tools that an agent may have itself are taken: `finish`, `find_tools` and `read_result`.
    ///
    /// ```no_run
    /// # async fn both(a: toolwright_mcp::McpClient, b: toolwright_mcp::McpClient) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut tools = a.tools();
    /// tools.extend(b.tools_beside(&tools)?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`McpError::Contract`] if a name is not valid.
    pub fn tools_beside(&self, others: &[Tool]) -> Result<Vec<Tool>> {
        let others = others.iter().map(Tool::name);
        let mut taken: HashSet<String> = others.chain(OF_AGENTS).map(str::to_owned).collect();
        let server = valid_name(&self.name());
        let server = if server.is_empty() { "mcp" } else { &server };
        let mut tools = Vec::new();
        for tool in self.tools() {
            let own = tool.name().to_owned();
            let numbered = (2..).map(|number| format!("{server}_{number}_{own}"));
            let names = [own.clone(), format!("{server}_{own}")].into_iter().chain(numbered);
            let mut names = names.map(short_name);
            // `names` never ends, so there is always a free name.
            let name = names.find(|name| !taken.contains(name)).unwrap_or(own);
            let tool = tool.named(&name)?;
            taken.insert(name);
            tools.push(tool);
        }
        Ok(tools)
    }

    /// Returns the server's definition of each tool, in the order of [`tools`](Self::tools).
    ///
    /// A definition has the server's name, the description, the schemas and the hints, without
    /// changes and without validation. Use it to show the tools to a user.
    pub fn definitions(&self) -> Vec<Value> {
        self.listing().tools.iter().map(|listed| listed.definition.clone()).collect()
    }

    /// Returns the contract of a tool's definition: an item of [`definitions`](Self::definitions),
    /// of `tools` in a [lock file](Self::lock), or of a server's answer to `tools/list`.
    ///
    /// It is the contract of [`tools`](Self::tools), made without a connection. Use it to compare
    /// two versions of a server.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolwright_mcp::McpClient;
    ///
    /// let definition = json!({"name": "files.read", "inputSchema": {"type": "object"}});
    /// assert_eq!(McpClient::contract_of(definition)?.name(), "files_read");
    /// # Ok::<(), toolwright_mcp::McpError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`McpError::Definition`] or [`McpError::Contract`], for which a connected client lists the
    /// tool as [left out](Self::left_out).
    pub fn contract_of(definition: Value) -> Result<Contract> {
        listing::contract_of(definition)
    }

    /// Returns one of the server's tools as a module of the signature `S`.
    ///
    /// A caller can use it in place of a local module of the same signature. `name` is the
    /// server's name for the tool. This function compares the tool's schemas with the
    /// signature's, and each call validates its result.
    ///
    /// ```no_run
    /// use schemars::JsonSchema;
    /// use serde::{Deserialize, Serialize};
    /// use toolwright_mcp::McpClient;
    /// use toolwright_module::{Context, Module, Signature};
    ///
    /// /// Search the documents.
    /// #[derive(Serialize, Deserialize, JsonSchema)]
    /// struct SearchDocuments {
    ///     query: String,
    /// }
    ///
    /// impl Signature for SearchDocuments {
    ///     type Output = Vec<String>;
    /// }
    ///
    /// # async fn search() -> Result<(), Box<dyn std::error::Error>> {
    /// let documents = McpClient::http("http://127.0.0.1:8000/mcp")?.connect().await?;
    /// let search = documents.typed::<SearchDocuments>("search")?;
    /// let found = search.call(SearchDocuments { query: "tax".to_owned() }, &Context::default()).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`McpError::NoSuchTool`] if the server has no such tool, [`McpError::LeftOut`] if it cannot
    /// be used, [`McpError::Differs`] if its schemas do not fit the signature.
    pub fn typed<S: Signature>(&self, name: &str) -> Result<McpModule<S>> {
        let listing = self.listing();
        listing.check_usable(name)?;
        let listed = listing.find(name).ok_or_else(|| {
            McpError::no_such_tool(name, listing.tools.iter().map(|tool| tool.name.as_str()))
        })?;
        let contract = Contract::of::<S>()?;
        let differences = contract.differences(&listed.contract);
        if !differences.is_empty() {
            let (name, signature) = (name.to_owned(), contract.name().to_owned());
            return Err(McpError::Differs { name, signature, differences });
        }
        // The server's schema has a plain object at its root, whose only field is the input.
        let fields = listed.contract.input().get("properties").and_then(Value::as_object);
        let is_only =
            |name: &&str| fields.is_some_and(|all| all.len() == 1 && all.contains_key(*name));
        let wrapper = contract.lower(Dialect::Mcp)?.wrapper.filter(is_only);
        Ok(McpModule { tool: self.remote(listed), contract, wrapper, signature: PhantomData })
    }

    /// Returns the name that the server gives itself.
    pub fn name(&self) -> String {
        self.listing().name.clone()
    }

    /// Returns the version that the server gives itself.
    pub fn version(&self) -> String {
        self.listing().version.clone()
    }

    /// Returns the server's instructions for language models.
    ///
    /// They are not sent to any model by default, because the server may not be trusted.
    pub fn instructions(&self) -> Option<String> {
        self.listing().instructions.clone()
    }

    /// Returns the tools that cannot be used, by the server's names, each with the reason.
    ///
    /// The other tools can be used. If
    /// [`with_only`](crate::McpClientBuilder::with_only) names such a tool, connecting fails.
    pub fn left_out(&self) -> Vec<(String, Arc<McpError>)> {
        self.listing().left_out.clone()
    }

    /// Returns the lock file of the server's tools and instructions, for
    /// [`with_lock`](crate::McpClientBuilder::with_lock).
    ///
    /// It is JSON to review and to commit. The tools are sorted by name, so their order at the
    /// server does not matter. Invisible characters are written as `\\u` escapes.
    pub fn lock(&self) -> String {
        Lock::of(&self.listing()).text()
    }

    /// Waits until the server's tools differ from those of the last call of this function.
    ///
    /// If the server sends notifications of changes, this takes about a second. Otherwise a
    /// change is noticed only when the connection is made again.
    pub async fn changed(&mut self) {
        // `self.connection` owns the sender, so this never fails.
        if self.seen.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Requests the server's tool list again, after connecting again if the connection was lost.
    ///
    /// Afterwards, [`tools`](Self::tools) returns the present tools. A server with a
    /// [lock file](crate::McpClientBuilder::with_lock) keeps its tools.
    ///
    /// # Errors
    ///
    /// [`McpError::Drift`] if the tools differ from the lock file, and the errors of
    /// [`connect`](crate::McpClientBuilder::connect).
    pub async fn refresh(&self) -> Result<(), Arc<McpError>> {
        let session = self.connection.session().await?;
        let refreshed = session.refresh(&self.connection.client, &self.connection.listing).await;
        refreshed.map_err(Arc::new)
    }

    /// Closes the connection. Later calls fail with [`McpError::Closed`].
    ///
    /// For a child process, this closes its input, then sends a termination signal, then kills
    /// it, and waits up to two seconds after each step.
    pub async fn close(self) {
        self.connection.close().await;
    }

    fn remote(&self, listed: &Arc<Listed>) -> RemoteTool {
        RemoteTool { connection: Arc::clone(&self.connection), listed: Arc::clone(listed) }
    }

    fn tool(&self, listed: &Arc<Listed>) -> Tool {
        let tool = Arc::new(self.remote(listed));
        let proxy = runner::proxy(listed.contract.clone(), listed.effect, move |arguments, cx| {
            let tool = Arc::clone(&tool);
            async move {
                let result = tool.call(&arguments, &cx).await?;
                result.checked(&tool.listed.contract, &tool.listed.name)
            }
        });
        let proxy = if listed.is_untrusted { proxy.untrusted() } else { proxy };
        if listed.is_deferred { proxy.deferred() } else { proxy }
    }
}

impl fmt::Debug for McpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listing = self.listing();
        let tools: Vec<&str> = listing.tools.iter().map(|tool| tool.name.as_str()).collect();
        f.debug_struct("McpClient")
            .field("name", &listing.name)
            .field("tools", &tools)
            .finish_non_exhaustive()
    }
}

/// A module that calls a server's tool: see [`McpClient::typed`].
pub struct McpModule<S> {
    tool: RemoteTool,
    contract: Contract,
    /// The field in which the server takes the input, if it is a union.
    wrapper: Option<&'static str>,
    signature: PhantomData<fn(S)>,
}

impl<S: Signature> Module for McpModule<S> {
    type Signature = S;

    async fn call(&self, input: S, cx: &Context) -> ModuleResult<OutputOf<Self>> {
        let arguments = self
            .contract
            .write_input(&input)
            .map_err(|error| module::Error::other(error).at(Stage::Arguments))?;
        let arguments = match self.wrapper {
            Some(wrapper) => format!(r#"{{"{wrapper}":{arguments}}}"#),
            None => arguments,
        };
        let result = self.tool.call(&arguments, cx).await?;
        let json = match result.json(&self.tool.listed.contract) {
            Some(json) => json,
            // The server should have sent a structured value; the text may be its JSON.
            None if self.tool.listed.contract.output_to_read().is_some() => result.text,
            // Without an output schema, the text is the output.
            None if self.output_is_null() => "null".to_owned(),
            None => Value::String(result.text).to_string(),
        };
        runner::read_with_parts(&result.parts, || self.contract.read_output(&json))
            .map_err(|error| call_result::invalid_result(&self.tool.listed.name, error))
    }

    fn effect(&self) -> Effect {
        self.tool.listed.effect
    }

    fn is_untrusted(&self) -> bool {
        self.tool.listed.is_untrusted
    }
}

impl<S> McpModule<S> {
    fn output_is_null(&self) -> bool {
        let output = self.contract.output_to_read();
        output.and_then(|schema| schema.get("type")).is_some_and(|kind| kind == "null")
    }
}

impl<S> fmt::Debug for McpModule<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpModule").field("tool", &self.tool.listed.name).finish_non_exhaustive()
    }
}

/// Waits for a progress notification in the session that is used.
async fn progress(mut used: watch::Receiver<Option<Arc<Session>>>) {
    loop {
        let session = used.borrow_and_update().clone();
        let progress = async {
            match session {
                Some(session) => session.progress().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = progress => return,
            changed = used.changed() => if changed.is_err() {
                std::future::pending::<()>().await;
            },
        }
    }
}

/// A tool of a server, and the connection to the server.
struct RemoteTool {
    connection: Arc<Connection>,
    listed: Arc<Listed>,
}

impl RemoteTool {
    async fn call(&self, arguments_text: &str, cx: &Context) -> ModuleResult<CallResult> {
        let rejected = |error: module::Error| error.at(Stage::Arguments).with_raw(arguments_text);
        let arguments = match self.listed.contract.read::<Value>(arguments_text) {
            Ok(Value::Object(arguments)) => arguments,
            Ok(_) => serde_json::Map::new(),
            Err(error) => {
                return Err(rejected(module::Error::retry(error.to_string()).with_source(error)));
            }
        };
        if has_rounded_integers(arguments_text.as_bytes()) {
            let text = format!(
                "`{}` was not called, because an integer of the arguments has more than 64 bits and \
                 would be rounded. Give it as text, or give a smaller one.",
                self.name()
            );
            return Err(rejected(module::Error::retry(text)));
        }
        let (using, used) = watch::channel(None);
        let mut work = pin!(cx.until_cancelled(self.send(arguments, &using, cx)));
        let time = self.connection.client.tool_time;
        let after = |time: Duration| Instant::now().checked_add(time);
        let latest = [after(time.saturating_mul(MAX_EXTENSIONS)), cx.deadline()];
        let latest = latest.into_iter().flatten().min();
        // The work is polled before the timer, which would send the call.
        if latest.is_some_and(|latest| latest <= Instant::now()) {
            return Err(self.late(None));
        }
        loop {
            let deadline = [after(time), latest].into_iter().flatten().min();
            tokio::select! {
                biased;
                result = &mut work => return result,
                () = until(deadline) => return Err(self.late(used.borrow().clone())),
                () = progress(used.clone()) => {}
            }
        }
    }

    /// Returns the error of a call whose timeout elapsed. `sent` is the session that it was sent over,
    /// if it was sent.
    fn late(&self, sent: Option<Arc<Session>>) -> module::Error {
        let name = self.name();
        let Some(session) = sent else {
            let text = format!("`{name}` was not called, because no time was left.");
            return module::Error::retry(text).at(Stage::Limit).retryable(true);
        };
        let what = format!("`{name}` did not end in time. ");
        let error = self.without_result(&what, "Ask for less, or call again later.");
        let error = match &*session.stderr().text() {
            "" => error,
            stderr => {
                let source: Source = format!("the server's standard error was: {stderr}").into();
                error.with_source(source)
            }
        };
        error.at(Stage::Limit).retryable(self.may_repeat())
    }

    /// Sends the call until there is a response. A call that may have run is sent again only if
    /// the tool's effect allows it. `using` gets the session.
    async fn send(
        &self,
        arguments: serde_json::Map<String, Value>,
        using: &watch::Sender<Option<Arc<Session>>>,
        cx: &Context,
    ) -> ModuleResult<CallResult> {
        let mut sent = 0;
        loop {
            let session = self.connection.session().await.map_err(|error| {
                let retryable = !error.is_final();
                self.not_run(Box::new(error)).retryable(retryable)
            })?;
            self.check_unchanged()?;
            sent += 1;
            using.send_replace(Some(Arc::clone(&session)));
            let failure = match session.call(&self.listed.name, arguments.clone(), cx).await {
                Ok(result) => {
                    let client = &self.connection.client;
                    return CallResult::new(result, client.max_result_bytes, client.result_text);
                }
                Err(failure) => failure,
            };
            let (is_lost, may_repeat) = match &failure {
                CallFailure::NotRun(_) => (true, true),
                CallFailure::Lost(_) | CallFailure::NoResult(_) => (true, self.may_repeat()),
                _ => (false, false),
            };
            if is_lost {
                session.set_lost();
            }
            if sent == MAX_SENDS || !may_repeat {
                return Err(self.failed(failure));
            }
        }
    }

    /// Returns the error of a call without a result. If one message is to blame, the connection and
    /// the run go on.
    fn failed(&self, failure: CallFailure) -> module::Error {
        let (name, tool) = (self.name(), self.listed.name.clone());
        let (error, source) = match failure {
            CallFailure::NotRun(source) => return self.not_run(source).retryable(true),
            #[cfg(feature = "login")]
            CallFailure::NoToken(source) => return self.not_run(source).retryable(true),
            CallFailure::Unauthorized => {
                return self.not_run(Box::new(self.connection.client.unauthorized()));
            }
            CallFailure::ServerError(text) => return call_result::tool_error(text),
            CallFailure::Unreadable(fault) => {
                let what = match fault {
                    Some(fault) => format!("The result of `{name}` cannot be read ({fault}). "),
                    None => format!("The result of `{name}` is too large or cannot be read. "),
                };
                let advice = "Ask for less, or for something else.";
                return self.without_result(&what, advice).at(Stage::Decoding);
            }
            CallFailure::Lost(source) => {
                let what = format!("The connection was lost during `{name}`. ");
                let error = self.without_result(&what, "Call it again later.");
                (error, McpError::Lost { tool, source })
            }
            CallFailure::NoResult(response) => {
                let what =
                    format!("The server responded to `{name}` without a result: {response}\n");
                let error = self.without_result(&what, "Call it again later.");
                (error, McpError::NoResult { tool, response })
            }
        };
        error.with_source(source).at(Stage::Transport).retryable(self.may_repeat())
    }

    /// Returns the error of a call that was sent. `what` ends with a space or a new line. Only if the
    /// tool may run twice, the model gets the `advice`.
    fn without_result(&self, what: &str, advice: &str) -> module::Error {
        match self.may_repeat() {
            true => module::Error::retry(format!("{what}{advice}")),
            false => module::Error::refuse(format!(
                "{what}The call may have taken effect. Check that before you call it again."
            )),
        }
    }

    /// Whether the tool may run twice.
    fn may_repeat(&self) -> bool {
        matches!(self.listed.effect, Effect::Read | Effect::Idempotent)
    }

    fn not_run(&self, source: Source) -> module::Error {
        let error = McpError::NotRun { tool: self.listed.name.clone(), source };
        module::Error::other(error).at(Stage::Transport)
    }

    /// Fails if the server's definition of the tool changed after the import.
    fn check_unchanged(&self) -> ModuleResult<()> {
        let listing = self.connection.listing.borrow();
        let now = listing.find(&self.listed.name);
        if now.is_some_and(|now| now.definition == self.listed.definition) {
            return Ok(());
        }
        let error = McpError::Changed { tool: self.listed.name.clone() };
        let text = format!("`{}` was not called, because its server changed it.", self.name());
        Err(module::Error::refuse(text).with_source(error))
    }

    fn name(&self) -> &str {
        self.listed.contract.name()
    }
}
