//! [`Listing`], a server's tool list, and [`ToolOptions`], the settings of its import.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rmcp::model::{
    ClientRequest, ErrorCode, ListToolsRequest, PaginatedRequestParams, ServerPeerInfo,
    ServerResult, Tool as Form, ToolAnnotations,
};
use rmcp::service::ServiceError;
use rmcp::{Peer, RoleClient};
use serde::de::Error as _;
use serde_json::{Value, json};
use toolwright_module::{Contract, Dialect, Effect};
use toolwright_signature::stable_hash;

use crate::error::{McpError, Result};
use crate::mcp_client::incoming::FAULT;

/// Maximum number of tools, of pages, and of bytes of all definitions. They apply to other lists, too.
pub(crate) const MAX_TOOLS: usize = 10_000;
pub(crate) const MAX_PAGES: usize = 1_000;
pub(crate) const MAX_BYTES: usize = 32 * 1024 * 1024;

/// Maximum length of a name that every language model provider accepts.
const LONGEST_NAME: usize = 64;

/// The user's settings for the import of a server's tools.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolOptions {
    pub(crate) prefix: Option<String>,
    pub(crate) only: Option<Vec<String>>,
    pub(crate) left_out: Vec<String>,
    pub(crate) effects: HashMap<String, Effect>,
    pub(crate) trusted: bool,
    /// Whether a model has to find the tools before it sees them.
    pub(crate) deferred: bool,
    /// Whether strangers cannot write into the results.
    pub(crate) trusted_results: bool,
}

impl ToolOptions {
    /// Returns whether a tool is imported, by the server's name.
    pub(crate) fn imports(&self, name: &str) -> bool {
        let is_left_out = self.left_out.iter().any(|left_out| left_out == name);
        !is_left_out && self.only.as_ref().is_none_or(|only| only.iter().any(|one| one == name))
    }

    /// Checks that names with the prefix are valid.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(prefix) = &self.prefix {
            // The shortest name that a tool could have.
            let name = if prefix.is_empty() { prefix } else { &format!("{prefix}_x") };
            Contract::dynamic(name, "", json!({}), None)?;
        }
        Ok(())
    }
}

/// A server's tools at one time.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The server's own name.
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) instructions: Option<String>,
    pub(crate) tools: Vec<Arc<Listed>>,
    /// The tools that cannot be used, by the server's name, with the reason.
    pub(crate) left_out: Vec<(String, Arc<McpError>)>,
}

/// A tool as its server describes it.
#[derive(Debug)]
pub(crate) struct Listed {
    /// The server's name for the tool.
    pub(crate) name: String,
    /// The definition as the model sees it. If it changes, the tool counts as a different one.
    pub(crate) definition: Value,
    pub(crate) contract: Contract,
    pub(crate) effect: Effect,
    pub(crate) is_deferred: bool,
    pub(crate) is_untrusted: bool,
}

impl Listing {
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Listed>> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Fails if the tool exists but cannot be used.
    pub(crate) fn check_usable(&self, name: &str) -> Result<()> {
        match self.left_out.iter().find(|(left_out, _)| left_out == name) {
            Some((_, reason)) => {
                Err(McpError::LeftOut { name: name.to_owned(), reason: Arc::clone(reason) })
            }
            None => Ok(()),
        }
    }

    /// Notes that a tool cannot be used.
    fn leave_out(&mut self, name: String, error: McpError) {
        tracing::warn!(tool = name, %error, "a tool of an MCP server cannot be used");
        self.left_out.push((name, Arc::new(error)));
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        self.instructions == other.instructions
            && self.tools.len() == other.tools.len()
            && self.tools.iter().zip(&other.tools).all(|(a, b)| a.definition == b.definition)
    }

    /// Returns what the server says about itself, without its tools.
    fn of(info: &ServerPeerInfo) -> Self {
        let own = info.server_info.clone();
        let (name, version) = own.map(|own| (own.name, own.version)).unwrap_or_default();
        Self { name, version, instructions: info.instructions.clone(), ..Self::default() }
    }

    fn with_tools(
        mut self,
        server: &str,
        forms: Vec<Value>,
        options: &ToolOptions,
    ) -> Result<Self> {
        let name_of =
            |form: &Value| form.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let ours = local_names(forms.iter().map(name_of), options.prefix.as_deref());
        let mut theirs: HashMap<String, Value> = HashMap::new();
        for form in forms {
            let name = name_of(&form);
            match theirs.insert(name.clone(), form.clone()) {
                None => {}
                // Pages may overlap.
                Some(before) if before == form => continue,
                Some(_) => {
                    // It is not known which of them a call would run.
                    self.tools.retain(|tool| tool.name != name);
                    self.left_out.retain(|(left_out, _)| *left_out != name);
                    let server = server.to_owned();
                    self.leave_out(name.clone(), McpError::Twice { server, name });
                    continue;
                }
            }
            if !options.imports(&name) {
                continue;
            }
            let own = ours.get(&name).cloned().unwrap_or_default();
            match Listed::new(name.clone(), own, form, options) {
                Ok(tool) => self.tools.push(Arc::new(tool)),
                Err(error) => self.leave_out(name, error),
            }
        }
        // Each tool that the settings name must exist, and those of `only` must be usable.
        let only = options.only.iter().flatten();
        let named = options.effects.keys().chain(only.clone()).chain(&options.left_out);
        let mut named: Vec<&String> = named.collect();
        named.sort_unstable();
        if let Some(name) = named.into_iter().find(|name| !theirs.contains_key(*name)) {
            return Err(McpError::no_such_tool(name, theirs.keys().map(String::as_str)));
        }
        for name in only {
            self.check_usable(name)?;
        }
        Ok(self)
    }
}

impl Listed {
    fn new(name: String, ours: String, form: Value, options: &ToolOptions) -> Result<Self> {
        let form = read(&name, form)?;
        // Icons and metadata are for programs. A model does not see them.
        let mut shown = form.clone();
        (shown.icons, shown.meta) = (None, None);
        let definition = serde_json::to_value(shown)
            .map_err(|source| McpError::Definition { name: name.clone(), source })?;
        let contract = contract(&ours, &form)?;
        let effect = options.effects.get(&name).copied();
        let hinted = form.annotations.filter(|_| options.trusted).map(|hints| effect_of(&hints));
        let effect = effect.or(hinted).unwrap_or(Effect::Write);
        let (is_deferred, is_untrusted) = (options.deferred, !options.trusted_results);
        Ok(Self { name, definition, contract, effect, is_deferred, is_untrusted })
    }
}

/// Returns the contract of a definition by the name that models see.
pub(crate) fn contract_of(definition: Value) -> Result<Contract> {
    let name = definition.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    contract(&local_name(&name, None), &read(&name, definition)?)
}

fn read(name: &str, definition: Value) -> Result<Form> {
    let fault = definition.pointer("/_meta").and_then(|meta| meta.get(FAULT)?.as_str());
    let form = match fault {
        Some(fault) => Err(serde_json::Error::custom(fault)),
        None => serde_json::from_value(definition),
    };
    form.map_err(|source| McpError::Definition { name: name.to_owned(), source })
}

fn contract(name: &str, form: &Form) -> Result<Contract> {
    let input = Value::Object((*form.input_schema).clone());
    let output = form.output_schema.as_ref().map(|schema| Value::Object((**schema).clone()));
    let description = form.description.as_deref().unwrap_or_default();
    let contract = Contract::dynamic(name, description, input, output)?;
    // This fails for references to other documents, which are not resolved.
    contract.tool(Dialect::Mcp)?;
    Ok(contract)
}

/// Returns the names of a server's tools for models, each different, by the server's names.
///
/// If two names become the same, a name that did not change keeps it, and another one ends with a hash
/// of the server's name. So the names do not depend on the order of the list.
fn local_names(
    theirs: impl Iterator<Item = String>,
    prefix: Option<&str>,
) -> HashMap<String, String> {
    let (mut ours, mut taken) = (HashMap::new(), HashSet::new());
    let mut theirs: Vec<String> = theirs.collect();
    theirs.sort_unstable_by_key(|name| (valid_name(name) != *name, name.clone()));
    theirs.dedup();
    for name in theirs {
        let mut own = local_name(&name, prefix);
        if !taken.insert(own.clone()) {
            own = with_hash(&own, &name);
            taken.insert(own.clone());
        }
        ours.insert(name, own);
    }
    ours
}

/// Returns the name of a tool for models. Not every name in the protocol is valid for every
/// language model provider.
pub(crate) fn local_name(name: &str, prefix: Option<&str>) -> String {
    let name = valid_name(name);
    short_name(match prefix {
        Some(prefix) => format!("{prefix}_{name}"),
        None => name,
    })
}

/// Returns the name if every provider accepts its length and its first character. Gemini requires a
/// letter or `_` there. A name that is too long becomes its beginning and a hash of the whole, which is
/// the same each time.
pub(crate) fn short_name(name: String) -> String {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let name = if starts_well || name.is_empty() { name } else { format!("_{name}") };
    if name.len() > LONGEST_NAME { with_hash(&name, &name) } else { name }
}

/// Returns the beginning of a name, and a hash of another text.
fn with_hash(name: &str, text: &str) -> String {
    // `valid_name` leaves only ASCII, and prefixes are checked.
    let start = name.get(..LONGEST_NAME - 9).unwrap_or(name);
    // Names are no secrets, and a collision becomes a name with a number.
    format!("{start}_{:08x}", stable_hash([text]) as u32)
}

/// Replaces the characters that providers do not accept with `_`.
pub(crate) fn valid_name(name: &str) -> String {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().map(|c| if is_valid(c) { c } else { '_' }).collect()
}

/// Derives an effect from the server's hints, with the protocol's defaults for missing ones.
///
/// `destructiveHint` overrides the others: repeating a deletion changes nothing more, but the
/// first one cannot be undone.
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

/// Requests all pages of a server's tool list.
pub(crate) async fn list(
    server: &str,
    peer: &Peer<RoleClient>,
    options: &ToolOptions,
) -> Result<Listing> {
    let info = peer.peer_info();
    let listing = info.as_deref().map(Listing::of).unwrap_or_default();
    let has_tools = info.as_deref().is_some_and(|info| info.capabilities.tools.is_some());
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
        // `list_tools` is not used, because it may return a cached list.
        let response = peer.send_request(ClientRequest::ListToolsRequest(request)).await;
        let response = match response {
            // A server may have prompts and resources only.
            Err(ServiceError::McpError(error))
                if error.code == ErrorCode::METHOD_NOT_FOUND && !has_tools =>
            {
                return listing.with_tools(server, forms, options);
            }
            response => response.map_err(|source| McpError::listing(server, source))?,
        };
        let (page, next) = match response {
            ServerResult::ListToolsResult(page) => {
                let forms = page.tools.into_iter().map(serde_json::to_value);
                let forms = forms.collect::<Result<Vec<_>, _>>();
                let forms = forms.map_err(|_| unexpected())?;
                (forms, page.next_cursor)
            }
            // If one tool is not valid, the whole page is a custom result; the others are kept.
            ServerResult::CustomResult(page) => tools_of_page(page.0).ok_or_else(unexpected)?,
            _ => return Err(unexpected()),
        };
        bytes += page.iter().map(|form| form.to_string().len()).sum::<usize>();
        forms.extend(page);
        if forms.len() > MAX_TOOLS || seen.len() > MAX_PAGES || bytes > MAX_BYTES {
            return Err(endless());
        }
        // Some servers send an empty cursor with the last page.
        let Some(next) = next.filter(|next| !next.is_empty()) else {
            return listing.with_tools(server, forms, options);
        };
        if !seen.insert(next.clone()) {
            return Err(endless());
        }
        cursor = Some(next);
    }
}

/// Returns the tools of a page without deserializing them, and the cursor of the next page.
fn tools_of_page(page: Value) -> Option<(Vec<Value>, Option<String>)> {
    let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    match page {
        Value::Object(mut page) => match page.remove("tools") {
            Some(Value::Array(tools)) => Some((tools, next)),
            _ => None,
        },
        _ => None,
    }
}
