//! [`Resources`], the resources and the templates of a server.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult,
    ResourceContents as Contents, ResourceTemplate,
};
use serde_json::{Map, Value};
use toolwright_module::message::{Part, Source};
use toolwright_module::model::BoxFuture;
use toolwright_module::{Context, Result, Tool, ToolOutput};

use crate::error::McpError;
use crate::mcp_server::served_tool::check_bytes;
use crate::resource::{Resource, ResourceBody};

/// The resources of a server, in order.
#[derive(Clone, Default)]
pub(crate) struct Resources {
    pub(crate) resources: Vec<ServedResource>,
    pub(crate) templates: Vec<Template>,
}

type Read = dyn Fn(Context) -> BoxFuture<'static, Result<ResourceBody>> + Send + Sync;

/// A resource with the function that reads it.
#[derive(Clone)]
pub(crate) struct ServedResource {
    pub(crate) resource: Resource,
    pub(crate) read: Arc<Read>,
}

/// A tool whose arguments are the variables of a URI.
#[derive(Clone)]
pub(crate) struct Template {
    pub(crate) resource: Resource,
    pub(crate) tool: Tool,
    parts: Vec<TemplatePart>,
}

#[derive(Clone)]
enum TemplatePart {
    Literal(String),
    Variable {
        name: String,
        /// Whether the value may have slashes: `{+path}`.
        with_slashes: bool,
    },
}

/// The resource that has a URI.
pub(crate) enum Found<'a> {
    Resource(&'a ServedResource),
    /// A template, and the variables as the arguments of its tool.
    Template(&'a Template, String),
}

impl Resources {
    /// Adds a resource.
    ///
    /// # Errors
    ///
    /// Its URI is not valid, or is that of another resource.
    pub(crate) fn add<F, Fut, B>(&mut self, resource: Resource, read: F) -> Result<(), McpError>
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<B>> + Send + 'static,
        B: Into<ResourceBody>,
    {
        self.check_new(&resource)?;
        let read = Arc::new(move |cx| -> BoxFuture<'static, Result<ResourceBody>> {
            let body = read(cx);
            Box::pin(async move { Ok(body.await?.into()) })
        });
        self.resources.push(ServedResource { resource, read });
        Ok(())
    }

    /// Adds a template.
    ///
    /// # Errors
    ///
    /// Its URI is not valid, is that of another template, or does not have the fields of the tool.
    pub(crate) fn add_template(&mut self, resource: Resource, tool: Tool) -> Result<(), McpError> {
        self.check_new(&resource)?;
        let parts = parts(&resource.uri).and_then(|parts| {
            check_variables(&parts, &tool)?;
            Ok(parts)
        });
        let parts = parts.map_err(|fault| fault_of(&resource, fault))?;
        let description = tool.contract().description();
        let mut resource = resource;
        resource.description.get_or_insert_with(|| description.to_owned());
        self.templates.push(Template { resource, tool, parts });
        Ok(())
    }

    fn check_new(&self, resource: &Resource) -> Result<(), McpError> {
        let scheme = resource.uri.split_once(':').map_or("", |(scheme, _)| scheme);
        let is_scheme = |scheme: &str| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        };
        if !is_scheme(scheme) || resource.uri.contains(char::is_whitespace) {
            return Err(fault_of(resource, "it is not a URI such as `notes://all`"));
        }
        let resources = self.resources.iter().map(|served| &served.resource.uri);
        let templates = self.templates.iter().map(|template| &template.resource.uri);
        match resources.chain(templates).any(|uri| *uri == resource.uri) {
            true => Err(fault_of(resource, "another resource has this URI")),
            false => Ok(()),
        }
    }

    pub(crate) fn find(&self, uri: &str) -> Option<Found<'_>> {
        let resource = self.resources.iter().find(|served| served.resource.uri == uri);
        resource.map(Found::Resource).or_else(|| {
            self.templates.iter().find_map(|template| {
                let variables = variables(&template.parts, uri)?;
                Some(Found::Template(template, Value::Object(variables).to_string()))
            })
        })
    }

    pub(crate) fn list(&self) -> ListResourcesResult {
        let listed = |served: &ServedResource| {
            let Resource { uri, name, title, description, media_type, size } =
                served.resource.clone();
            let mut listed = rmcp::model::Resource::new(uri, name);
            (listed.title, listed.description) = (title, description);
            (listed.mime_type, listed.size) = (media_type, size);
            listed
        };
        ListResourcesResult::with_all_items(self.resources.iter().map(listed).collect())
    }

    pub(crate) fn list_templates(&self) -> ListResourceTemplatesResult {
        let listed = |template: &Template| {
            let Resource { uri, name, title, description, media_type, .. } =
                template.resource.clone();
            let mut listed = ResourceTemplate::new(uri, name);
            (listed.title, listed.description, listed.mime_type) = (title, description, media_type);
            listed
        };
        ListResourceTemplatesResult::with_all_items(self.templates.iter().map(listed).collect())
    }
}

fn fault_of(resource: &Resource, fault: &'static str) -> McpError {
    McpError::Resource { uri: resource.uri.clone(), fault }
}

/// Returns the parts of a URI template: literals and variables, as in levels 1 and 2 of RFC 6570.
fn parts(uri: &str) -> Result<Vec<TemplatePart>, &'static str> {
    let mut parts = Vec::new();
    let mut rest = uri;
    while !rest.is_empty() {
        let (literal, after) = rest.split_once('{').unwrap_or((rest, ""));
        if !literal.is_empty() {
            parts.push(TemplatePart::Literal(literal.to_owned()));
        }
        if literal.len() == rest.len() {
            break;
        }
        if matches!(parts.last(), Some(TemplatePart::Variable { .. })) {
            return Err("nothing separates two of its variables");
        }
        let (name, after) = after.split_once('}').ok_or("a `{` has no `}`")?;
        let with_slashes = name.starts_with('+');
        let name = name.strip_prefix('+').unwrap_or(name);
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(
                "a variable is written as `{name}` or `{+name}`, with letters, digits and _",
            );
        }
        parts.push(TemplatePart::Variable { name: name.to_owned(), with_slashes });
        rest = after;
    }
    Ok(parts)
}

/// Checks that the variables are fields of the tool, and that no required field is missing.
fn check_variables(parts: &[TemplatePart], tool: &Tool) -> Result<(), &'static str> {
    let input = tool.contract().input();
    let fields = input.get("properties").and_then(Value::as_object);
    let mut names = HashSet::new();
    for part in parts {
        let TemplatePart::Variable { name, .. } = part else { continue };
        if fields.is_none_or(|fields| !fields.contains_key(name)) {
            return Err("a variable is not a field of the tool");
        }
        if !names.insert(name.as_str()) {
            return Err("it has a variable twice");
        }
    }
    let required = input.get("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    match required.all(|name| names.contains(name)) {
        true if names.is_empty() => Err("it has no variable; use `with_resource`"),
        true => Ok(()),
        false => Err("a required field of the tool is not one of its variables"),
    }
}

/// Returns the variables of a URI that matches a template, without percent-encoding.
fn variables(parts: &[TemplatePart], uri: &str) -> Option<Map<String, Value>> {
    let mut variables = Map::new();
    let mut rest = uri;
    let mut parts = parts.iter().peekable();
    while let Some(part) = parts.next() {
        match part {
            TemplatePart::Literal(literal) => rest = rest.strip_prefix(literal.as_str())?,
            TemplatePart::Variable { name, with_slashes } => {
                let end = match parts.peek() {
                    // The last literal ends the URI; others end the variable at their first place.
                    Some(TemplatePart::Literal(next)) => {
                        let mut after = parts.clone();
                        after.next();
                        match after.peek() {
                            None => rest.len().checked_sub(next.len())?,
                            Some(_) => rest.find(next.as_str())?,
                        }
                    }
                    _ => rest.len(),
                };
                let (value, after) = rest.split_at_checked(end)?;
                if value.is_empty() || (!with_slashes && value.contains(['/', '?', '#'])) {
                    return None;
                }
                let value = percent_decode_str(value).decode_utf8().ok()?;
                variables.insert(name.clone(), Value::String(value.into_owned()));
                rest = after;
            }
        }
    }
    rest.is_empty().then_some(variables)
}

/// Converts the body of a resource to the result of a request.
///
/// # Errors
///
/// It has more than `max_bytes`.
pub(crate) fn contents(
    resource: &Resource,
    body: ResourceBody,
    max_bytes: usize,
) -> Result<ReadResourceResult> {
    let size = match &body {
        ResourceBody::Text(text) => text.len(),
        // In base64.
        ResourceBody::Bytes(bytes) => bytes.len().div_ceil(3).saturating_mul(4),
    };
    check_bytes(size, max_bytes)?;
    let mut contents = match body {
        ResourceBody::Text(text) => Contents::text(text, &resource.uri),
        ResourceBody::Bytes(bytes) => {
            let source = Source::Bytes { media_type: String::new(), data: bytes.into() };
            let base64 = source.to_base64().map(|(_, base64)| base64.into_owned());
            Contents::blob(base64.unwrap_or_default(), &resource.uri)
        }
    };
    if let Some(media_type) = &resource.media_type {
        contents = contents.with_mime_type(media_type);
    }
    Ok(ReadResourceResult::new(vec![contents]))
}

/// Converts the output of a template's tool to the result of a request: its text, and its images and
/// files.
///
/// # Errors
///
/// It has more than `max_bytes`.
pub(crate) fn contents_of_output(
    template: &Template,
    uri: &str,
    output: ToolOutput,
    max_bytes: usize,
) -> Result<ReadResourceResult> {
    let ToolOutput { text, parts, .. } = output;
    let files = parts.iter().filter_map(Part::source).filter_map(Source::to_base64);
    let files: Vec<_> = files.collect();
    let sizes = files.iter().map(|(_, base64)| base64.len());
    check_bytes(text.len() + sizes.sum::<usize>(), max_bytes)?;
    let mut contents = Vec::new();
    if !text.is_empty() || files.is_empty() {
        let text = Contents::text(text, uri);
        contents.push(match &template.resource.media_type {
            Some(media_type) if files.is_empty() => text.with_mime_type(media_type),
            _ => text,
        });
    }
    for (media_type, base64) in files {
        contents.push(Contents::blob(base64, uri).with_mime_type(media_type));
    }
    Ok(ReadResourceResult::new(contents))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(template: &str, uri: &str) -> Option<String> {
        let variables = variables(&parts(template).unwrap(), uri)?;
        Some(Value::Object(variables).to_string())
    }

    #[test]
    fn the_variables_of_a_uri_are_those_of_its_template() {
        for (template, uri, expected) in [
            ("notes://{title}", "notes://tea", Some(r#"{"title":"tea"}"#)),
            ("notes://{title}", "notes://a%20b%2Fc", Some(r#"{"title":"a b/c"}"#)),
            ("notes://{title}", "notes://", None),
            ("notes://{title}", "notes://a/b", None),
            ("notes://{title}", "note://a", None),
            ("t://{id}/data", "t://123/data", Some(r#"{"id":"123"}"#)),
            ("t://{id}/data", "t://123/data/data", None),
            ("t://{id}/data", "t://123/date", None),
            ("t://{id}/data", "t://é", None),
            ("t://{a}-{b}.md", "t://x-y-z.md", Some(r#"{"a":"x","b":"y-z"}"#)),
            ("file:///{+path}", "file:///a/b.md", Some(r#"{"path":"a/b.md"}"#)),
            ("file:///{+path}/x", "file:///a/x/x", Some(r#"{"path":"a/x"}"#)),
            ("t://{a}", "t://%ff", None),
        ] {
            assert_eq!(matched(template, uri).as_deref(), expected, "{template} {uri}");
        }
        for template in ["t://{a", "t://{a}{b}", "t://{}", "t://{a*}"] {
            assert!(parts(template).is_err(), "{template}");
        }
    }
}
