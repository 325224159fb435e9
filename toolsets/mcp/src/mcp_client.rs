mod answer;
mod builder;
mod child;
mod connection;
mod listing;
mod live;
mod lock;
mod web;

use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tokio::sync::watch;
use toolwright_module::error::Stage;
use toolwright_module::{
    self as module, Context, Contract, Effect, Module, OutputOf, Result as ModuleResult, Signature,
    Tool,
};

use self::builder::Home;
pub use self::builder::McpClientBuilder;
use self::child::Command;
use self::web::Address;
use crate::error::{McpError, Result, Source};
use crate::mcp_client::answer::Answer;
use crate::mcp_client::connection::Connection;
use crate::mcp_client::listing::{Listed, Listing, suitable};
use crate::mcp_client::live::Fault;
use crate::mcp_client::lock::Lock;

/// How many answers to a server's own requests may be on their way: who asks and does not take
/// them would fill the memory.
const ANSWERS: usize = 64;

/// How often a call is sent at most.
const SENDINGS: u32 = 3;

/// An MCP server's tools.
///
/// A clone is the same server. The connection ends with the last clone and the last tool of
/// it: then a child process is gone, or will be within seconds if it does not end by itself.
/// A lost connection is made again by the next call, after a pause that grows while the
/// server stays away.
#[derive(Clone)]
pub struct McpClient {
    connection: Arc<Connection>,
    /// What was seen last by [`changed`](Self::changed).
    seen: watch::Receiver<Arc<Listing>>,
}

impl McpClient {
    /// A server that is started as a child process and spoken to over its standard input
    /// and output.
    ///
    /// It is started by [`connect`](McpClientBuilder::connect), again after it died, and ends with the last [`McpClient`]
    /// and tool of it, together with whatever it started itself. Of this process's
    /// environment it gets `PATH`, `HOME` and the like, and not the keys that may be in it:
    /// name those it needs with [`with_env`](McpClientBuilder::with_env). What it says on its standard
    /// error goes to `tracing`.
    pub fn stdio<A: Into<OsString>>(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = A>,
    ) -> McpClientBuilder {
        McpClientBuilder::new(Home::Child(Command {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            folder: None,
        }))
    }

    /// A server that is reached over HTTP, by its whole address, such as
    /// `http://127.0.0.1:8000/mcp`.
    ///
    /// Redirects are followed on the same server only.
    ///
    /// # Errors
    ///
    /// [`McpError::Url`] if it is no such address.
    pub fn http(url: &str) -> Result<McpClientBuilder> {
        Ok(McpClientBuilder::new(Home::Web(Address::new(url)?)))
    }

    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        let mut seen = connection.listing.subscribe();
        seen.mark_unchanged();
        Self { connection, seen }
    }

    fn listing(&self) -> Arc<Listing> {
        Arc::clone(&self.connection.listing.borrow())
    }

    /// The server's tools, in its order.
    ///
    /// Arguments and results are held to the schemas that the server gave. Characters that
    /// providers do not take in a name, such as `.`, are `_` here.
    ///
    /// A tool is what the server said of it when it was taken. Once the server says
    /// something else of it, calls of it are refused: take the tools anew.
    pub fn tools(&self) -> Vec<Tool> {
        self.listing().tools.iter().map(|listed| self.tool(listed)).collect()
    }

    /// The same beside tools that there are already: a name that is taken gets the server's
    /// own before it, and where that is taken too a number in between.
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
    /// [`McpError::Contract`] if the name is too long then: say
    /// [`with_prefix`](crate::McpClientBuilder::with_prefix).
    pub fn tools_beside(&self, others: &[Tool]) -> Result<Vec<Tool>> {
        let mut taken: HashSet<String> = others.iter().map(|tool| tool.name().to_owned()).collect();
        let server = suitable(&self.name());
        let server = if server.is_empty() { "mcp" } else { &server };
        let mut tools = Vec::new();
        for tool in self.tools() {
            let own = tool.name().to_owned();
            let numbered = (2..).map(|number| format!("{server}_{number}_{own}"));
            let mut names = [own.clone(), format!("{server}_{own}")].into_iter().chain(numbered);
            // There is always another number.
            let name = names.find(|name| !taken.contains(name)).unwrap_or(own);
            let tool = tool.named(&name)?;
            taken.insert(name);
            tools.push(tool);
        }
        Ok(tools)
    }

    /// What the server says of each tool, in the order of [`tools`](Self::tools): its name
    /// there, description, schemas and hints, as they came.
    ///
    /// For programs that show it. None of it is checked.
    pub fn definitions(&self) -> Vec<Value> {
        self.listing().tools.iter().map(|listed| listed.definition.clone()).collect()
    }

    /// One of the server's tools as a module of a signature of yours: it stands where a
    /// local one stood, and whoever calls it sees no difference.
    ///
    /// `name` is the server's. Its schemas are held to the signature's now, and a result to
    /// them at each call.
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
    /// [`McpError::NoSuchTool`] and [`McpError::LeftOut`]; [`McpError::Differs`] with all that keeps it from standing in.
    pub fn typed<S: Signature>(&self, name: &str) -> Result<McpModule<S>> {
        let listing = self.listing();
        listing.usable(name)?;
        let listed = listing.find(name).ok_or_else(|| {
            McpError::no_such_tool(name, listing.tools.iter().map(|tool| tool.name.as_str()))
        })?;
        let contract = Contract::of::<S>()?;
        let differences = contract.differences(&listed.contract);
        if !differences.is_empty() {
            let (name, signature) = (name.to_owned(), contract.name().to_owned());
            return Err(McpError::Differs { name, signature, differences });
        }
        let tool =
            RemoteTool { connection: Arc::clone(&self.connection), listed: Arc::clone(listed) };
        Ok(McpModule { tool, contract, signature: PhantomData })
    }

    /// What the server calls itself.
    pub fn name(&self) -> String {
        self.listing().name.clone()
    }

    /// What the server says of its tools as a whole, to models.
    ///
    /// It is the server's word, so it is not shown to models by itself: a host may.
    pub fn instructions(&self) -> Option<String> {
        self.listing().instructions.clone()
    }

    /// The tools that cannot be used, by the server's names, and why.
    ///
    /// One of them does not keep the others away; one that was
    /// [asked for](crate::McpClientBuilder::with_only) is an error of connecting.
    pub fn left_out(&self) -> Vec<(String, Arc<McpError>)> {
        self.listing().left_out.clone()
    }

    /// What the server is now, as a text to keep and to review: for
    /// [`with_lock`](crate::McpClientBuilder::with_lock).
    ///
    /// It is JSON, the tools by name, the same whatever their order. Characters that change
    /// a text unseen stand in it as `\\u` and a number.
    pub fn lock(&self) -> String {
        Lock::of(&self.listing()).text()
    }

    /// Waits until the server has other tools than when this was last asked.
    ///
    /// A server that tells of changes is heard within a second. Of another it is known once the
    /// connection had to be made again.
    pub async fn changed(&mut self) {
        // The other end lives as long as this.
        if self.seen.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Ends the connection in good order: a child process has its input closed, is told to
    /// end and then killed, with two seconds for each. Calls fail from now on.
    pub async fn close(self) {
        self.connection.close().await;
    }

    fn tool(&self, listed: &Arc<Listed>) -> Tool {
        let tool =
            RemoteTool { connection: Arc::clone(&self.connection), listed: Arc::clone(listed) };
        let tool = Arc::new(tool);
        Tool::dynamic(listed.contract.clone(), listed.effect, move |arguments, cx| {
            let tool = Arc::clone(&tool);
            async move {
                let answer = tool.call(&arguments, &cx).await?;
                answer.checked(&tool.listed.contract, &tool.listed.name)
            }
        })
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

/// A server's tool behind a signature: see [`McpClient::typed`].
pub struct McpModule<S> {
    tool: RemoteTool,
    contract: Contract,
    signature: PhantomData<fn(S)>,
}

impl<S: Signature> Module for McpModule<S> {
    type Signature = S;

    async fn call(&self, input: S, cx: &Context) -> ModuleResult<OutputOf<Self>> {
        let arguments = self
            .contract
            .write_input(&input)
            .map_err(|error| module::Error::other(error).at(Stage::Arguments))?;
        let answer = self.tool.call(&arguments, cx).await?;
        let wire = match answer.value {
            Some(value) => value.to_string(),
            // It should have been structured, and may be so as text.
            None if self.tool.listed.contract.output_to_read().is_some() => answer.text,
            // A tool that says nothing of its output gives a text, to whoever wants one.
            None if self.gives_nothing() => "null".to_owned(),
            None => Value::String(answer.text).to_string(),
        };
        self.contract
            .read_output(&wire)
            .map_err(|error| answer::broken(&self.tool.listed.name, error))
    }

    fn effect(&self) -> Effect {
        self.tool.listed.effect
    }
}

impl<S> McpModule<S> {
    fn gives_nothing(&self) -> bool {
        let output = self.contract.output_to_read();
        output.and_then(|schema| schema.get("type")).is_some_and(|kind| kind == "null")
    }
}

impl<S> fmt::Debug for McpModule<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpModule").field("tool", &self.tool.listed.name).finish_non_exhaustive()
    }
}

/// A tool and the way to its server.
struct RemoteTool {
    connection: Arc<Connection>,
    listed: Arc<Listed>,
}

impl RemoteTool {
    async fn call(&self, arguments: &str, cx: &Context) -> ModuleResult<Answer> {
        let read = self.listed.contract.read::<Value>(arguments);
        let arguments = match read {
            Ok(Value::Object(arguments)) => arguments,
            Ok(_) => serde_json::Map::new(),
            Err(error) => {
                let told = module::Error::retry(error.to_string());
                return Err(told.with_source(error).at(Stage::Arguments).with_raw(arguments));
            }
        };
        let client = &self.connection.client;
        let deadline = Instant::now().checked_add(client.tool_time);
        let deadline = [deadline, cx.deadline()].into_iter().flatten().min();
        let work = cx.until_cancelled(self.send(arguments));
        let Some(deadline) = deadline else { return work.await };
        // A timer looks at the work first, and that would send it.
        if deadline <= Instant::now() {
            return Err(self.late(false));
        }
        let in_time = tokio::time::timeout_at(deadline.into(), work).await;
        in_time.unwrap_or_else(|_| Err(self.late(true)))
    }

    /// No more time, and perhaps it ran.
    fn late(&self, sent: bool) -> module::Error {
        let name = self.name();
        let error = if !sent {
            module::Error::retry(format!("`{name}` was not called: there was no time left."))
        } else if self.may_repeat() {
            let text = format!("`{name}` did not end in time. Ask for less, or call again later.");
            module::Error::retry(text)
        } else {
            module::Error::refuse(format!(
                "`{name}` did not end in time. Whether it took effect is not known: find out \
                 before you call it again."
            ))
        };
        error.at(Stage::Limit).retryable(!sent || self.may_repeat())
    }

    /// Sends it until it has an answer, as far as its effect allows.
    async fn send(&self, arguments: serde_json::Map<String, Value>) -> ModuleResult<Answer> {
        let again = self.may_repeat();
        let mut sent = 0;
        loop {
            let live = self.connection.live().await.map_err(|error| {
                let later = !error.is_final();
                // The same for all who waited.
                self.not_run(Box::new(error)).retryable(later)
            })?;
            self.still_there()?;
            sent += 1;
            let fault = match live.call(&self.listed.name, arguments.clone()).await {
                Ok(result) => return Answer::new(result, self.connection.client.max_result_bytes),
                Err(fault) => fault,
            };
            match fault {
                Fault::NotRun(_) if sent < SENDINGS => live.lose(),
                Fault::Lost(_) if again && sent < SENDINGS => live.lose(),
                Fault::NotRun(source) => {
                    live.lose();
                    return Err(self.not_run(source).retryable(true));
                }
                Fault::Lost(source) => {
                    live.lose();
                    let error = McpError::Lost { tool: self.listed.name.clone(), source };
                    let name = self.name();
                    let told = if again {
                        let text = format!("`{name}` lost its server. Call it again later.");
                        module::Error::retry(text)
                    } else {
                        module::Error::refuse(format!(
                            "`{name}` lost its server in the middle. Whether it took effect is \
                             not known: find out before you call it again."
                        ))
                    };
                    let told = told.with_source(error);
                    return Err(told.at(Stage::Transport).retryable(again));
                }
                Fault::Unauthorized => {
                    let server = self.connection.client.shown();
                    return Err(self.not_run(Box::new(McpError::Unauthorized { server })));
                }
                Fault::Told(text) => return Err(answer::told(text)),
                Fault::Strange(reason) => {
                    return Err(module::Error::other(reason).at(Stage::Decoding));
                }
            }
        }
    }

    /// Whether a call that may have run may run again.
    fn may_repeat(&self) -> bool {
        matches!(self.listed.effect, Effect::Read | Effect::Idempotent)
    }

    fn not_run(&self, source: Source) -> module::Error {
        let error = McpError::NotRun { tool: self.listed.name.clone(), source };
        module::Error::other(error).at(Stage::Transport)
    }

    /// A tool that became another one is not the one that was asked for.
    fn still_there(&self) -> ModuleResult<()> {
        let listing = self.connection.listing.borrow();
        let now = listing.find(&self.listed.name);
        if now.is_some_and(|now| now.definition == self.listed.definition) {
            return Ok(());
        }
        let error = McpError::Changed { tool: self.listed.name.clone() };
        let text = format!("`{}` changed at its server, and was not called.", self.name());
        Err(module::Error::refuse(text).with_source(error))
    }

    fn name(&self) -> &str {
        self.listed.contract.name()
    }
}
