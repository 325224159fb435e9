//! [`Resource`] and [`ResourceContents`], for both sides.

use serde::Serialize;

/// Data of a server that clients read by its URI, such as a file or a table.
///
/// [`McpServer::with_resource`](crate::McpServer::with_resource) serves one, and
/// [`McpClient::resources`](crate::McpClient::resources) lists those of a server.
///
/// ```
/// use toolwright_mcp::Resource;
///
/// let readme = Resource::new("file:///readme.md", "readme")
///     .with_description("How to start.")
///     .with_media_type("text/markdown");
/// assert_eq!(readme.media_type.as_deref(), Some("text/markdown"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Resource {
    /// The URI, such as `file:///readme.md`. That of a template has variables, such as
    /// `notes://{title}`.
    pub uri: String,
    /// The name, for programs.
    pub name: String,
    /// The name, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the resource is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type, such as `text/plain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The size in bytes, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

impl Resource {
    /// Returns a resource with this URI and name.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            name: name.into(),
            title: None,
            description: None,
            media_type: None,
            size: None,
        }
    }

    /// Sets the name for people. Default: no title.
    #[must_use]
    pub fn with_title(self, title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), ..self }
    }

    /// Sets the description. Default: no description.
    #[must_use]
    pub fn with_description(self, description: impl Into<String>) -> Self {
        Self { description: Some(description.into()), ..self }
    }

    /// Sets the media type. Default: not known.
    #[must_use]
    pub fn with_media_type(self, media_type: impl Into<String>) -> Self {
        Self { media_type: Some(media_type.into()), ..self }
    }
}

/// The contents of a resource, or of one of its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceContents {
    /// The URI of the resource, or of its part.
    pub uri: String,
    /// The media type, if the server gives one.
    pub media_type: Option<String>,
    /// The text or the bytes.
    pub body: ResourceBody,
}

/// The text or the bytes of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Bytes of a file that is not text.
    Bytes(Vec<u8>),
}

impl From<String> for ResourceBody {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for ResourceBody {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Vec<u8>> for ResourceBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}
