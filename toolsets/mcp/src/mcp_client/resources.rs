//! The resources of a server, and the tool with which a model reads them.

use std::fmt::Write;

use rmcp::model::{
    CallToolResult, ClientRequest, ContentBlock, ListResourceTemplatesRequest,
    ListResourcesRequest, ReadResourceRequestParams, ResourceContents as Contents,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use toolwright_module::error::Stage;
use toolwright_module::message::Source;
use toolwright_module::{Contract, Effect, Error, Result as ModuleResult, Tool, ToolOutput};

use crate::ResultText;
use crate::error::{McpError, Result};
use crate::mcp_client::McpClient;
use crate::mcp_client::call_result::CallResult;
use crate::mcp_client::listing::local_name;
use crate::mcp_client::reading::{List, text};
use crate::resource::{Resource, ResourceBody, ResourceContents};

const RESOURCES: List = List {
    method: "resources/list",
    field: "resources",
    is_declared: |capabilities| capabilities.resources.is_some(),
    request: |params| {
        ClientRequest::ListResourcesRequest(ListResourcesRequest {
            params,
            ..ListResourcesRequest::default()
        })
    },
};

const TEMPLATES: List = List {
    method: "resources/templates/list",
    field: "resourceTemplates",
    is_declared: |capabilities| capabilities.resources.is_some(),
    request: |params| {
        ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest {
            params,
            ..ListResourceTemplatesRequest::default()
        })
    },
};

const READ: &str = "resources/read";

/// Name of the tool that reads resources.
const READ_RESOURCE: &str = "read_resource";

#[derive(Deserialize, JsonSchema)]
struct ReadResource {
    /// URI of the resource. Leave it out to get the list of the resources.
    uri: Option<String>,
}

impl McpClient {
    /// Returns the server's resources: data that the server lets clients read.
    ///
    /// The list is requested each time. It is empty if the server has no resources. An item without a URI
    /// is left out, with a warning to `tracing`.
    ///
    /// # Errors
    ///
    /// [`McpError::Request`] if the server does not respond with a list, and
    /// [`McpError::Unauthorized`].
    pub async fn resources(&self) -> Result<Vec<Resource>> {
        self.list(&RESOURCES, |item| resource(item, "uri")).await
    }

    /// Returns the server's templates for resources, whose URIs have variables such as `{title}`.
    ///
    /// # Errors
    ///
    /// Those of [`resources`](Self::resources). Some servers that have resources do not know this
    /// request.
    pub async fn resource_templates(&self) -> Result<Vec<Resource>> {
        self.list(&TEMPLATES, |item| resource(item, "uriTemplate")).await
    }

    /// Returns the contents of a resource. A resource such as a folder may have several.
    ///
    /// The texts have no marks of untrusted text: put them between marks with
    /// [`fence`](toolwright_module::untrusted::fence) before a model reads them, or give the model the
    /// [tool](Self::read_resource_tool).
    ///
    /// ```
    /// use toolwright_mcp::{McpClient, McpServer, Resource, ResourceBody};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let notes = Resource::new("notes://all", "notes");
    /// let server =
    ///     McpServer::new("notes", "1.0.0", [])?.with_resource(notes, async |_| Ok("Buy tea."))?;
    /// # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    /// # let url = format!("http://{}/mcp", listener.local_addr()?);
    /// # tokio::spawn(server.serve_http(listener));
    ///
    /// let remote = McpClient::http(&url)?.connect().await?;
    /// let listed = remote.resources().await?;
    /// let contents = remote.read_resource(&listed[0].uri).await?;
    /// assert_eq!(contents[0].body, ResourceBody::from("Buy tea."));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`McpError::Request`] if the server has no such resource, or responds with more bytes than the
    /// [maximum of a result](crate::McpClientBuilder::with_max_result_bytes) or with base64 that is not
    /// valid, and [`McpError::Unauthorized`].
    pub async fn read_resource(&self, uri: &str) -> Result<Vec<ResourceContents>> {
        let mut contents = Vec::new();
        let mut bytes = 0;
        for part in self.contents(uri).await? {
            let (uri, media_type, body) = match part {
                Contents::TextResourceContents { uri, mime_type, text, .. } => {
                    bytes += text.len();
                    (uri, mime_type, ResourceBody::Text(text))
                }
                Contents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    let Some(Source::Bytes { data, .. }) = Source::from_base64("", &blob) else {
                        let source = "the base64 of its bytes is not valid".into();
                        return Err(McpError::Request { method: READ, source });
                    };
                    bytes += data.len();
                    (uri, mime_type, ResourceBody::Bytes(data.to_vec()))
                }
                _ => {
                    let source = "the form of the contents is not known".into();
                    return Err(McpError::Request { method: READ, source });
                }
            };
            contents.push(ResourceContents { uri, media_type, body });
        }
        self.check_bytes(READ, bytes)?;
        Ok(contents)
    }

    async fn contents(&self, uri: &str) -> Result<Vec<Contents>> {
        let params = ReadResourceRequestParams::new(uri);
        let read = self.read(READ, |running| Box::pin(running.read_resource(params.clone())));
        Ok(read.await?.contents)
    }

    /// Returns a tool with which a model lists and reads the server's resources: `read_resource`, with
    /// the [prefix](crate::McpClientBuilder::with_prefix) if there is one.
    ///
    /// The model gets texts and images. The results are untrusted, as those of the server's tools.
    /// [`tools`](Self::tools) does not contain this tool. To read one resource for a task yourself, use
    /// [`read_resource`](Self::read_resource).
    ///
    /// ```no_run
    /// # fn tools(remote: toolwright_mcp::McpClient) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut tools = remote.tools();
    /// tools.push(remote.read_resource_tool()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`McpError::Contract`] if the name is not valid.
    pub fn read_resource_tool(&self) -> Result<Tool> {
        let options = &self.connection.client.options;
        let name = local_name(READ_RESOURCE, options.prefix.as_deref());
        let server = self.name();
        let of = if server.is_empty() { "a server".to_owned() } else { format!("`{server}`") };
        let description = format!("List or read the resources of {of}: data such as files.");
        let contract = Contract::of_input::<ReadResource>(&name, &description)?;
        let remote = self.clone();
        let tool = Tool::dynamic(contract, Effect::Read, move |arguments, cx| {
            let remote = remote.clone();
            async move {
                let ReadResource { uri } =
                    serde_json::from_str(&arguments).map_err(Error::retry)?;
                let read = async {
                    match uri {
                        Some(uri) => remote.resource_output(&uri).await,
                        None => remote.resource_list().await,
                    }
                };
                cx.until_cancelled(read).await
            }
        });
        let tool = if options.trusted_results { tool } else { tool.untrusted() };
        Ok(if options.deferred { tool.deferred() } else { tool })
    }

    /// Returns the contents of a resource as a model reads them.
    async fn resource_output(&self, uri: &str) -> ModuleResult<ToolOutput> {
        let contents = self.contents(uri).await.map_err(for_model)?;
        if contents.is_empty() {
            return Err(Error::retry("The resource is empty."));
        }
        let blocks = contents.into_iter().map(ContentBlock::resource).collect();
        let max_bytes = self.connection.client.max_result_bytes;
        let result = CallToolResult::success(blocks);
        Ok(CallResult::new(result, max_bytes, ResultText::Both)?.into_output())
    }

    /// Returns the list of the resources as a model reads it.
    async fn resource_list(&self) -> ModuleResult<ToolOutput> {
        let resources = self.resources().await.map_err(for_model)?;
        // Some servers do not know this request.
        let templates = self.resource_templates().await.unwrap_or_default();
        let mut text = String::new();
        for resource in resources.iter().chain(&templates) {
            let Resource { uri, name, title, description, media_type, .. } = resource;
            let name = title.as_ref().unwrap_or(name);
            // A `String` takes every text.
            let _ = write!(text, "{uri}: {name}");
            if let Some(media_type) = media_type {
                let _ = write!(text, " ({media_type})");
            }
            if let Some(description) = description {
                let _ = write!(text, ". {description}");
            }
            text.push('\n');
        }
        if !templates.is_empty() {
            text.push_str("In a URI with {names} in braces, put values in their places.\n");
        }
        if text.is_empty() {
            text.push_str("There are no resources.");
        }
        if text.len() > self.connection.client.max_result_bytes {
            return Err(Error::refuse("The list of the resources is too long.").at(Stage::Limit));
        }
        Ok(ToolOutput::text_only(text.trim_end()))
    }
}

/// Converts the error of a request to that of a tool. The model reads what the server said.
fn for_model(error: McpError) -> Error {
    match error {
        McpError::Request { source, .. } => {
            Error::retry(format!("The resource cannot be read: {source}"))
        }
        error => Error::other(error),
    }
    .at(Stage::Transport)
}

/// Returns an item of a list, unless it has no URI.
fn resource(item: &Value, uri: &str) -> Option<Resource> {
    let uri = text(item, uri)?;
    let name = text(item, "name").unwrap_or_else(|| uri.clone());
    Some(Resource {
        title: text(item, "title"),
        description: text(item, "description"),
        media_type: text(item, "mimeType"),
        size: item.get("size").and_then(Value::as_u64),
        ..Resource::new(uri, name)
    })
}
