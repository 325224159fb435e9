//! What a server says it has.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rmcp::model::{
    ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerPeerInfo, ServerResult,
    Tool as Form, ToolAnnotations,
};
use rmcp::service::ServiceError;
use rmcp::{Peer, RoleClient};
use serde_json::{Value, json};
use toolwright_module::{Contract, Dialect, Effect};
use toolwright_signature::NameFault;

use crate::error::{McpError, Result};

/// How many tools a server may have, on how many pages, and with how many bytes.
const TOOLS: usize = 10_000;
const PAGES: usize = 1_000;
const BYTES: usize = 32 * 1024 * 1024;

/// What is made of a server's tools: the user's word.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exposed {
    pub(crate) prefix: Option<String>,
    pub(crate) only: Option<Vec<String>>,
    pub(crate) effects: HashMap<String, Effect>,
    pub(crate) trusted: bool,
}

impl Exposed {
    /// Whether a name can have the prefix.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(prefix) = &self.prefix {
            // The shortest name that one could have.
            let name = if prefix.is_empty() { prefix } else { &local_name("x", Some(prefix)) };
            Contract::dynamic(name, "", json!({}), None)?;
        }
        Ok(())
    }
}

/// A server's tools at one time.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// What the server calls itself.
    pub(crate) name: String,
    pub(crate) instructions: Option<String>,
    pub(crate) tools: Vec<Arc<Listed>>,
    /// What cannot be used, by its name there.
    pub(crate) left_out: Vec<(String, Arc<McpError>)>,
}

/// A tool as its server describes it.
#[derive(Debug)]
pub(crate) struct Listed {
    /// What the server calls it.
    pub(crate) name: String,
    /// All that a model is told of it: with another one it is another tool.
    pub(crate) definition: Value,
    pub(crate) contract: Contract,
    pub(crate) effect: Effect,
}

impl Listing {
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Listed>> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// That the tool, if there is one, can be used.
    pub(crate) fn usable(&self, name: &str) -> Result<()> {
        match self.left_out.iter().find(|(left_out, _)| left_out == name) {
            Some((_, reason)) => {
                Err(McpError::LeftOut { name: name.to_owned(), reason: Arc::clone(reason) })
            }
            None => Ok(()),
        }
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        self.instructions == other.instructions
            && self.tools.len() == other.tools.len()
            && self.tools.iter().zip(&other.tools).all(|(a, b)| a.definition == b.definition)
    }

    fn new(
        server: &str,
        (name, instructions): (String, Option<String>),
        forms: Vec<Value>,
        exposed: &Exposed,
    ) -> Result<Self> {
        let mut listing = Self { name, instructions, ..Self::default() };
        let (mut theirs, mut ours) = (HashSet::new(), HashSet::new());
        for form in forms {
            let name = form.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            if !theirs.insert(name.clone()) {
                return Err(McpError::Twice { server: server.to_owned(), name });
            }
            if exposed.only.as_ref().is_some_and(|only| !only.contains(&name)) {
                continue;
            }
            match Listed::new(name.clone(), form, exposed, &mut ours) {
                Ok(tool) => listing.tools.push(Arc::new(tool)),
                Err(error) => {
                    tracing::warn!(tool = name, %error, "a tool of an MCP server is left out");
                    listing.left_out.push((name, Arc::new(error)));
                }
            }
        }
        // Whoever names a tool means one that is there, and whoever asks for one wants it.
        let asked = exposed.only.iter().flatten();
        let mut named: Vec<&String> = exposed.effects.keys().chain(asked.clone()).collect();
        named.sort_unstable();
        if let Some(name) = named.into_iter().find(|name| !theirs.contains(*name)) {
            return Err(McpError::no_such_tool(name, theirs.iter().map(String::as_str)));
        }
        for name in asked {
            listing.usable(name)?;
        }
        Ok(listing)
    }
}

impl Listed {
    fn new(
        name: String,
        form: Value,
        exposed: &Exposed,
        taken: &mut HashSet<String>,
    ) -> Result<Self> {
        let form: Form = serde_json::from_value(form)
            .map_err(|source| McpError::Definition { name: name.clone(), source })?;
        // Icons and what else a server says to other programs change nothing for a model.
        let mut shown = form.clone();
        (shown.icons, shown.meta) = (None, None);
        let definition = serde_json::to_value(shown)
            .map_err(|source| McpError::Definition { name: name.clone(), source })?;
        let ours = local_name(&name, exposed.prefix.as_deref());
        let input = Value::Object((*form.input_schema).clone());
        let output = form.output_schema.map(|schema| Value::Object((*schema).clone()));
        let description = form.description.as_deref().unwrap_or_default();
        let contract = Contract::dynamic(&ours, description, input, output)?;
        // A reference that leads out of the schema is not followed, so it says nothing.
        contract.tool(Dialect::Mcp)?;
        if !taken.insert(ours.clone()) {
            let fault = NameFault::Duplicate;
            return Err(toolwright_signature::Error::Name { name: ours, fault }.into());
        }
        let effect = exposed.effects.get(&name).copied();
        let hinted = form.annotations.filter(|_| exposed.trusted).map(|hints| effect_of(&hints));
        let effect = effect.or(hinted).unwrap_or(Effect::Write);
        Ok(Self { name, definition, contract, effect })
    }
}

/// What models call a tool: not every name of the protocol's suits every provider.
fn local_name(name: &str, prefix: Option<&str>) -> String {
    let name = suitable(name);
    match prefix {
        Some(prefix) => format!("{prefix}_{name}"),
        None => name,
    }
}

/// The name, with what providers do not take as `_`.
pub(crate) fn suitable(name: &str) -> String {
    let suits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().map(|c| if suits(c) { c } else { '_' }).collect()
}

/// What a server says of a tool's effect, with the protocol's word where it says nothing.
///
/// A tool that says that it destroys is taken at that word, whatever else it says: to
/// repeat a deletion changes nothing more, but the first one cannot be taken back.
fn effect_of(hints: &ToolAnnotations) -> Effect {
    if hints.destructive_hint == Some(true) {
        Effect::Irreversible
    } else if hints.read_only_hint == Some(true) {
        Effect::Read
    } else if hints.idempotent_hint == Some(true) {
        Effect::Idempotent
    } else {
        Effect::Write
    }
}

/// Asks a server for its tools, page by page.
pub(crate) async fn list(
    server: &str,
    peer: &Peer<RoleClient>,
    exposed: &Exposed,
) -> Result<Listing> {
    let info = peer.peer_info();
    let said = |info: &ServerPeerInfo| {
        let name = info.server_info.as_ref().map(|server| server.name.clone());
        (name.unwrap_or_default(), info.instructions.clone())
    };
    let itself = info.as_deref().map(said).unwrap_or_default();
    let unexpected = || McpError::listing(server, ServiceError::UnexpectedResponse);
    let endless = || McpError::Endless { server: server.to_owned() };
    let mut forms = Vec::new();
    let mut cursor = None;
    let mut seen = HashSet::new();
    let mut bytes = 0;
    loop {
        let params =
            cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let request = ListToolsRequest { params, ..ListToolsRequest::default() };
        // Not by `list_tools`, which may answer with what it was once told.
        let answer = peer.send_request(ClientRequest::ListToolsRequest(request)).await;
        let (page, next) = match answer.map_err(|source| McpError::listing(server, source))? {
            ServerResult::ListToolsResult(page) => {
                let forms = page.tools.into_iter().map(serde_json::to_value);
                let forms = forms.collect::<Result<Vec<_>, _>>();
                let forms = forms.map_err(|_| unexpected())?;
                (forms, page.next_cursor)
            }
            // One tool that is none should not hide the others.
            ServerResult::CustomResult(page) => loose(page.0).ok_or_else(unexpected)?,
            _ => return Err(unexpected()),
        };
        bytes += page.iter().map(|form| form.to_string().len()).sum::<usize>();
        forms.extend(page);
        if forms.len() > TOOLS || seen.len() > PAGES || bytes > BYTES {
            return Err(endless());
        }
        let Some(next) = next else { return Listing::new(server, itself, forms, exposed) };
        if !seen.insert(next.clone()) {
            return Err(endless());
        }
        cursor = Some(next);
    }
}

fn loose(page: Value) -> Option<(Vec<Value>, Option<String>)> {
    let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    match page {
        Value::Object(mut page) => match page.remove("tools") {
            Some(Value::Array(tools)) => Some((tools, next)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_that_a_tool_destroys_beats_every_other() {
        let effect = |hints: Value| effect_of(&serde_json::from_value(hints).unwrap());
        for (hints, expected) in [
            (json!({}), Effect::Write),
            (json!({"readOnlyHint": false}), Effect::Write),
            (json!({"destructiveHint": false}), Effect::Write),
            (json!({"idempotentHint": true}), Effect::Idempotent),
            (json!({"idempotentHint": true, "destructiveHint": false}), Effect::Idempotent),
            (json!({"readOnlyHint": true}), Effect::Read),
            (json!({"readOnlyHint": true, "destructiveHint": false}), Effect::Read),
            (json!({"destructiveHint": true}), Effect::Irreversible),
            (json!({"idempotentHint": true, "destructiveHint": true}), Effect::Irreversible),
            (json!({"readOnlyHint": true, "destructiveHint": true}), Effect::Irreversible),
        ] {
            assert_eq!(effect(hints.clone()), expected, "{hints}");
        }
    }
}
