//! The prompts of a server: [`Prompt`].

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{ClientRequest, GetPromptRequestParams, ListPromptsRequest, Role};
use serde::Serialize;
use serde_json::{Map, Value};
use toolwright_module::message::{Part, Source};
use toolwright_module::untrusted::fence;
use toolwright_module::{Message, ToolOutput};

use crate::error::{McpError, Result};
use crate::mcp_client::McpClient;
use crate::mcp_client::call_result;
use crate::mcp_client::reading::{List, text};

const PROMPTS: List = List {
    method: "prompts/list",
    field: "prompts",
    is_declared: |capabilities| capabilities.prompts.is_some(),
    request: |params| {
        ClientRequest::ListPromptsRequest(ListPromptsRequest {
            params,
            ..ListPromptsRequest::default()
        })
    },
};

const GET: &str = "prompts/get";

/// A prompt that a server lists: see [`McpClient::prompts`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Prompt {
    /// The name.
    pub name: String,
    /// The name, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the prompt is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The arguments.
    pub arguments: Vec<PromptArgument>,
}

/// An argument of a [`Prompt`], whose value is a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PromptArgument {
    /// The name.
    pub name: String,
    /// What the argument is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the prompt needs the argument.
    pub required: bool,
}

impl McpClient {
    /// Returns the server's prompts: messages that a user chooses from a list.
    ///
    /// The list is requested each time. It is empty if the server has no prompts. An item without a name
    /// is left out, with a warning to `tracing`.
    ///
    /// # Errors
    ///
    /// [`McpError::Request`] if the server does not respond with a list, and
    /// [`McpError::Unauthorized`].
    pub async fn prompts(&self) -> Result<Vec<Prompt>> {
        self.list(&PROMPTS, prompt).await
    }

    /// Returns the messages of a prompt with these arguments, for a conversation.
    ///
    /// A user has chosen the prompt, but the server has written the messages. Their texts are between
    /// the [marks of untrusted text](toolwright_module::untrusted), as the results of the server's
    /// tools, unless [`with_trusted_results`](crate::McpClientBuilder::with_trusted_results) is set.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// use toolwright_mcp::{McpClient, McpServer};
    /// use toolwright_module::Message;
    /// # use toolwright_module::{Signature, Tool, from_fn};
    /// # /// Review a file.
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct Review { path: String }
    /// # impl Signature for Review { type Output = String; }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let review = from_fn(async |Review { path }: Review| Ok(format!("Review {path} for bugs.")));
    /// # let server = McpServer::new("reviews", "1.0.0", [])?.with_prompts([Tool::new(review)?])?;
    /// # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    /// # let url = format!("http://{}/mcp", listener.local_addr()?);
    /// # tokio::spawn(server.serve_http(listener));
    /// let remote = McpClient::http(&url)?.with_trusted_results().connect().await?;
    /// assert_eq!(remote.prompts().await?[0].name, "review");
    /// let messages = remote.prompt("review", &[("path", "lib.rs")]).await?;
    /// assert_eq!(messages, [Message::user("Review lib.rs for bugs.")]);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`McpError::Request`] if the server has no such prompt, refuses the arguments, or responds with
    /// more bytes than the [maximum of a
    /// result](crate::McpClientBuilder::with_max_result_bytes), and [`McpError::Unauthorized`].
    pub async fn prompt(
        &self,
        name: &str,
        arguments: &[(&str, &str)],
    ) -> Result<Vec<Arc<Message>>> {
        let arguments = arguments.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
        let arguments: Map<String, Value> = arguments.collect();
        let mut params = GetPromptRequestParams::new(name);
        params.arguments = (!arguments.is_empty()).then_some(arguments);
        let result = self.read(GET, |running| Box::pin(running.get_prompt(params.clone()))).await?;
        let messages: Vec<(Role, Part)> = result
            .messages
            .into_iter()
            .map(|message| (message.role, call_result::part(message.content)))
            .collect();
        let size = |part: &Part| match part {
            Part::Text(text) => text.len(),
            part => part.source().map_or(0, Source::size),
        };
        self.check_bytes(GET, messages.iter().map(|(_, part)| size(part)).sum())?;
        let is_untrusted = !self.connection.client.options.trusted_results;
        let marked = |part: Part| match part {
            part if !is_untrusted => part,
            Part::Text(text) => Part::Text(fence(&text).into_owned()),
            // The text of a document gets the marks, too.
            part => {
                let marked = ToolOutput::default().with_parts([part.clone()]).untrusted();
                marked.parts.into_iter().next().unwrap_or(part)
            }
        };
        let message = |(role, part): (Role, Part)| match (role, marked(part)) {
            (Role::Assistant, Part::Text(text)) => Message::assistant(text),
            // Models write text only.
            (Role::Assistant, part) => {
                Message::assistant(format!("[{} is not shown]", with_article(part.kind())))
            }
            (_, part) => Message::user_parts([part]),
        };
        Ok(messages.into_iter().map(message).collect())
    }

    pub(crate) fn check_bytes(&self, method: &'static str, bytes: usize) -> Result<()> {
        let max_bytes = self.connection.client.max_result_bytes;
        if bytes <= max_bytes {
            return Ok(());
        }
        let text = format!("the response has {bytes} bytes and the maximum is {max_bytes}");
        Err(McpError::Request { method, source: text.into() })
    }
}

fn with_article(kind: &str) -> Cow<'static, str> {
    match kind {
        "image" | "audio" => format!("an {kind}").into(),
        kind => format!("a {kind}").into(),
    }
}

/// Returns an item of the list, unless it has no name.
fn prompt(item: &Value) -> Option<Prompt> {
    let argument = |argument: &Value| {
        Some(PromptArgument {
            name: text(argument, "name")?,
            description: text(argument, "description"),
            required: argument.get("required").and_then(Value::as_bool).unwrap_or_default(),
        })
    };
    let arguments = item.get("arguments").and_then(Value::as_array);
    Some(Prompt {
        name: text(item, "name")?,
        title: text(item, "title"),
        description: text(item, "description"),
        arguments: arguments.into_iter().flatten().filter_map(argument).collect(),
    })
}
