//! The body of a request.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use toolwright_http::RequestBody;
use toolwright_module::message::{Part, ToolResult};
use toolwright_module::model::{Effort, SettingSet, Settings, ToolChoice};
use toolwright_module::{Message, Request};
use toolwright_provider::order::OPENING;
use toolwright_provider::{JsonBody, Kept, KeptTools, ProviderError, found_tools};
use toolwright_signature::{Dialect, LoweredRequest};

use crate::message::{Role, Written};
use crate::options::{CacheTime, Thinking};
use crate::rules::Rules;
use crate::{PROVIDER, Result};

/// Least number of thinking tokens that the API accepts.
const LEAST_BUDGET: u64 = 1024;

/// The settings of a model that its requests need.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) model: String,
    pub(crate) rules: Rules,
    /// Whether the server signs all thinking.
    pub(crate) must_sign: bool,
    pub(crate) structured_output: bool,
    pub(crate) cache_time: CacheTime,
    pub(crate) citations: bool,
    /// Whether the API loads the tools that a result refers to.
    pub(crate) tool_references: bool,
    /// Definitions of tools that the server runs.
    pub(crate) server_tools: Vec<Value>,
    /// Fields that are added to the definitions of tools, by their names.
    pub(crate) tool_fields: BTreeMap<String, Map<String, Value>>,
    pub(crate) settings: Option<Settings>,
    pub(crate) kept: KeptForms,
}

/// What was written for earlier requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeptForms {
    messages: Kept<Message, Written>,
    tools: KeptTools<WrittenTools>,
}

/// The tools and the output of a request.
#[derive(Debug, Default)]
struct WrittenTools {
    /// The list of tools, with its brackets. Empty if there are none.
    tools: Bytes,
    /// Place in the list at which the mark of a cached prefix fits.
    mark_at: Option<usize>,
    /// The schema of the answer, in the API's form.
    format: Option<Box<RawValue>>,
    /// A system block with the schema of the answer, if the API cannot enforce it.
    told: Vec<u8>,
    /// The names of the tools that the results of a search refer to.
    found: BTreeSet<String>,
}

/// The definition of a tool.
#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: &'a RawValue,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
    /// Whether the tool is loaded where a result refers to it, and not at the start of the prompt. So
    /// what is cached of the prompt stays as it is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    defer_loading: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "json_schema")]
struct Format<'a> {
    schema: &'a RawValue,
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Choice<'a> {
    Auto(Parallel),
    Any(Parallel),
    Tool {
        name: &'a str,
        #[serde(flatten)]
        parallel: Parallel,
    },
    None,
}

#[derive(Serialize, Clone, Copy)]
struct Parallel {
    #[serde(rename = "disable_parallel_tool_use", skip_serializing_if = "std::ops::Not::not")]
    is_off: bool,
}

/// The value of `thinking`.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ThinkingConfig {
    Adaptive,
    Enabled { budget_tokens: u64 },
    Disabled,
}

#[derive(Serialize)]
struct Metadata<'a> {
    user_id: &'a str,
}

/// Returns the body of a request. `supported` are the settings that the model takes.
pub(crate) fn body(
    request: &Request,
    options: &Options,
    supported: SettingSet,
    stream: bool,
) -> Result<RequestBody> {
    let settings = request.settings_over(options.settings.as_ref()).unwrap_or_default();
    settings.check(supported)?;
    let most = settings.max_output_tokens.unwrap_or(Request::MAX_OUTPUT_TOKENS);
    let (thinking, effort) = thinking(&settings, options, most)?;
    check_thinking(request, &settings, thinking.as_ref())?;

    let request = &*referring(request);
    let tools = options.tools(request)?;
    if options.citations && tools.format.is_some() && has_document(request) {
        return Err(ProviderError::unsent(
            "Anthropic does not cite documents in an answer with a schema; leave `with_citations` out, or get the answer as the arguments of a call with `with_structured_output(false)`",
        ));
    }
    let written = options.messages(request)?;
    let first = written.iter().take_while(|message| message.role == Role::System).count();
    let (system, messages) = written.split_at(first);
    let turns = turns(messages);
    let mark = (settings.cache != Some(false)).then(|| options.cache_time.mark());

    let system = system.iter().map(|message| &*message.blocks).chain([&*tools.told]);
    let has_system = system.clone().any(|block| !block.is_empty());
    let mut choice = choice(request, &settings, !tools.tools.is_empty());
    let mut list = tools.tools.clone();
    if list.is_empty() {
        // The API refuses calls in a conversation without tools.
        let names = messages.iter().flat_map(|message| &message.calls);
        list = unavailable(names).map_err(ProviderError::unsent)?.into();
        choice = (!list.is_empty()).then_some(Choice::None);
    }

    let mut body = JsonBody::new(settings.extra.get(PROVIDER));
    body.reserve(written.iter().map(|message| message.size()).sum());
    let write = || {
        body.field("model", &options.model)?;
        body.field("max_tokens", &most)?;
        if !list.is_empty() {
            // The system text follows the tools in the prompt, so its mark holds for both.
            let mark = mark.filter(|_| !has_system).zip(tools.mark_at);
            let (at, mark) = mark.map_or((list.len(), &[][..]), |(mark, at)| (at, mark));
            body.shared("tools", [list.slice(..at), Bytes::from_static(mark), list.slice(at..)]);
        }
        body.optional("tool_choice", &choice)?;
        if has_system {
            body.raw_with("system", |json| write_blocks(json, system, mark));
        }
        body.raw_with("messages", |json| write_turns(json, &turns, mark));
        body.optional("thinking", &thinking)?;
        let format = tools.format.as_deref();
        if effort.is_some() || format.is_some() {
            body.field("output_config", &OutputConfig { effort, format })?;
        }
        body.optional("temperature", &settings.temperature)?;
        body.optional("top_p", &settings.top_p)?;
        body.optional("stop_sequences", &settings.stop)?;
        body.optional("metadata", &settings.user.as_ref().map(|user_id| Metadata { user_id }))?;
        body.optional("container", &container(&turns))?;
        if stream {
            body.field("stream", &true)?;
        }
        Ok(())
    };
    write().and_then(|()| body.into_request()).map_err(ProviderError::unsent)
}

impl Written {
    fn size(&self) -> usize {
        // With the role, the brackets and the mark.
        self.results.len() + self.blocks.len() + 96
    }
}

impl Options {
    /// Returns the messages of a request, each written once.
    fn messages(&self, request: &Request) -> Result<Vec<Arc<Written>>> {
        let write = |message: &Message| {
            let written =
                Written::of(message, self.citations, self.must_sign, self.tool_references);
            written.map(Arc::new).map_err(ProviderError::unsent)
        };
        let mut written = Vec::with_capacity(request.messages.len());
        for message in &request.messages {
            written.push(self.kept.messages.get_or_make(message, write)?);
        }
        if let Some(last) = written.iter().rposition(|message| !message.is_empty())
            && let Some(message) = written[last].without_last_space(&request.messages[last])
        {
            written[last] = write(&message)?;
        }
        Ok(written)
    }

    /// Returns the tools and the output of a request, written once.
    fn tools(&self, request: &Request) -> Result<Arc<WrittenTools>> {
        let found: BTreeSet<String> = match self.tool_references {
            true => found_tools(request),
            false => BTreeSet::new(),
        };
        let kept = self.kept.tools.get_or_make(request, |it| self.write_tools(it, &found))?;
        // The result of a search may have left the conversation.
        if kept.found == found { Ok(kept) } else { self.write_tools(request, &found) }
    }

    fn write_tools(
        &self,
        request: &Request,
        found: &BTreeSet<String>,
    ) -> Result<Arc<WrittenTools>> {
        let output = request.output.as_deref().filter(|_| self.structured_output);
        // Together, because the limits of strict schemas hold for the sum of them.
        let lowered = LoweredRequest::new(Dialect::Anthropic, &*request.tools, output)?;
        let found = found.clone();
        let (mut written, mut list) =
            (WrittenTools { found, ..WrittenTools::default() }, Vec::new());
        let mut write = || {
            for tool in &self.server_tools {
                written.push(&mut list, &serde_json::to_vec(tool)?, |name| tool.get(name));
            }
            let is_defined = |name: &str| self.server_tools.iter().any(|it| it["name"] == name);
            for (contract, lowered) in request.tools.iter().zip(&lowered.tools) {
                if is_defined(contract.name()) {
                    continue;
                }
                let tool = Tool {
                    name: contract.name(),
                    description: contract.description(),
                    input_schema: &lowered.schema,
                    strict: lowered.strict && self.rules.strict,
                    defer_loading: written.found.contains(contract.name()),
                };
                let fields = self.tool_fields.get(contract.name());
                let definition = with_fields(&tool, fields)?;
                let deferred = tool.defer_loading.then_some(&TRUE);
                written.push(&mut list, &definition, |name| match name {
                    "defer_loading" if deferred.is_some() => deferred,
                    name => fields?.get(name),
                });
            }
            if !list.is_empty() {
                list.push(b']');
            }
            if let Some(output) = lowered.output {
                match output.strict {
                    true => {
                        let format = Format { schema: &output.schema };
                        written.format = Some(serde_json::value::to_raw_value(&format)?);
                    }
                    false => {
                        let text = format!(
                            "Answer only with JSON that fits this JSON Schema: {}",
                            output.schema.get()
                        );
                        written.told = serde_json::to_vec(&json!({"type": "text", "text": text}))?;
                    }
                }
            }
            serde_json::Result::Ok(())
        };
        write().map_err(ProviderError::unsent)?;
        written.tools = list.into();
        Ok(Arc::new(written))
    }
}

impl WrittenTools {
    /// Adds a definition to the list. `field` returns some of its fields.
    fn push<'a>(
        &mut self,
        list: &mut Vec<u8>,
        definition: &[u8],
        field: impl Fn(&str) -> Option<&'a Value>,
    ) {
        list.push(if list.is_empty() { b'[' } else { b',' });
        list.extend_from_slice(definition);
        if field("cache_control").is_some() {
            self.mark_at = None;
        } else if field("defer_loading") != Some(&Value::Bool(true)) {
            // A tool that is loaded later is not part of the prompt, so no prefix ends with it.
            self.mark_at = Some(list.len() - 1);
        }
    }
}

static TRUE: Value = Value::Bool(true);

fn results(request: &Request) -> impl Iterator<Item = &ToolResult> {
    request.messages.iter().filter_map(|message| match &**message {
        Message::Tool(result) => Some(result),
        _ => None,
    })
}

/// Returns a request whose results refer only to tools that it has. The API refuses others.
fn referring(request: &Request) -> Cow<'_, Request> {
    let is_there = |name: &String| request.tools.iter().any(|tool| tool.name() == *name);
    if results(request).all(|result| result.found.iter().all(is_there)) {
        return Cow::Borrowed(request);
    }
    let mut changed = request.clone();
    for message in &mut changed.messages {
        if matches!(&**message, Message::Tool(result) if !result.found.iter().all(is_there))
            && let Message::Tool(result) = Arc::make_mut(message)
        {
            result.found.retain(is_there);
        }
    }
    Cow::Owned(changed)
}

/// Returns a definition with further fields, which replace those of the same name.
fn with_fields(
    tool: &Tool<'_>,
    fields: Option<&Map<String, Value>>,
) -> serde_json::Result<Vec<u8>> {
    let Some(fields) = fields else { return serde_json::to_vec(tool) };
    let mut body = JsonBody::new(Some(fields));
    body.field("name", tool.name)?;
    body.field("description", tool.description)?;
    body.field("input_schema", tool.input_schema)?;
    if tool.strict {
        body.field("strict", &true)?;
    }
    if tool.defer_loading {
        body.field("defer_loading", &true)?;
    }
    body.end()
}

/// Returns definitions of tools that a conversation calls but a request does not have.
fn unavailable<'a>(names: impl Iterator<Item = &'a String>) -> serde_json::Result<Vec<u8>> {
    let names: std::collections::BTreeSet<_> = names.collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let tools = names.into_iter().map(|name| {
        json!({"name": name, "description": "Not available.", "input_schema": {"type": "object"}})
    });
    serde_json::to_vec(&tools.collect::<Vec<_>>())
}

/// Writes a list of blocks. Its end is that of a cached prefix, if there is a mark.
fn write_blocks<'a>(
    json: &mut Vec<u8>,
    lists: impl Iterator<Item = &'a [u8]>,
    mark: Option<&[u8]>,
) {
    json.push(b'[');
    let begin = json.len();
    for list in lists.filter(|list| !list.is_empty()) {
        if json.len() > begin {
            json.push(b',');
        }
        json.extend_from_slice(list);
    }
    if let Some(mark) = mark
        && json.len() > begin
    {
        // Before the brace at the end of the last block.
        json.pop();
        json.extend_from_slice(mark);
        json.push(b'}');
    }
    json.push(b']');
}

/// Neighbours of one role, which are one message of the API.
struct Turn<'a> {
    role: Role,
    messages: &'a [Arc<Written>],
}

/// Returns the turns of a conversation. A message without a block is not sent.
fn turns(messages: &[Arc<Written>]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::with_capacity(messages.len());
    let mut begin = 0;
    for (at, message) in messages.iter().enumerate() {
        if message.is_empty() {
            continue;
        }
        match turns.last_mut() {
            Some(turn) if turn.role == message.role => turn.messages = &messages[begin..=at],
            _ => {
                begin = at;
                turns.push(Turn { role: message.role, messages: &messages[at..=at] });
            }
        }
    }
    turns
}

/// Writes the list of the API's messages. The last two turns of the user end a cached prefix: the
/// last one for the next request, and the one before because the last request has cached it, so
/// that it is found however many blocks the turn between has.
fn write_turns(json: &mut Vec<u8>, turns: &[Turn<'_>], mark: Option<&[u8]>) {
    let users = turns.iter().enumerate().filter(|(_, turn)| turn.role == Role::User);
    let first_marked = users.rev().take(2).last().map_or(usize::MAX, |(at, _)| at);
    json.push(b'[');
    if turns.first().is_some_and(|turn| turn.role == Role::Assistant) {
        // The API refuses a conversation that the model begins.
        let opening = json!({"role": "user", "content": [{"type": "text", "text": OPENING}]});
        json.extend_from_slice(format!("{opening},").as_bytes());
    }
    for (at, turn) in turns.iter().enumerate() {
        json.extend_from_slice(if at == 0 { br#"{"role":""# } else { br#",{"role":""# });
        json.extend_from_slice(turn.role.name().as_bytes());
        json.extend_from_slice(br#"","content":"#);
        let results = turn.messages.iter().map(|message| &*message.results);
        let blocks = turn.messages.iter().map(|message| &*message.blocks);
        let is_marked = turn.role == Role::User && at >= first_marked;
        write_blocks(json, results.chain(blocks), mark.filter(|_| is_marked));
        json.push(b'}');
    }
    json.push(b']');
}

/// Returns the container of the last reply, if the request answers its calls or continues it.
fn container<'a>(turns: &[Turn<'a>]) -> Option<&'a str> {
    let reply = match turns {
        [.., reply] if reply.role == Role::Assistant => reply,
        [.., reply, user] if user.messages.iter().any(|message| !message.results.is_empty()) => {
            reply
        }
        _ => return None,
    };
    reply.messages.iter().rev().find_map(|message| message.container.as_deref())
}

fn choice<'a>(request: &'a Request, settings: &Settings, has_tools: bool) -> Option<Choice<'a>> {
    let parallel = Parallel { is_off: settings.parallel_calls == Some(false) };
    match &request.tool_choice {
        _ if !has_tools => None,
        ToolChoice::None => Some(Choice::None),
        ToolChoice::Required => Some(Choice::Any(parallel)),
        ToolChoice::Tool(name) => Some(Choice::Tool { name, parallel }),
        _ => parallel.is_off.then_some(Choice::Auto(parallel)),
    }
}

/// Returns the values of `thinking` and `output_config.effort` for the effort of the settings.
fn thinking(
    settings: &Settings,
    options: &Options,
    most: u64,
) -> Result<(Option<ThinkingConfig>, Option<&'static str>)> {
    let Some(effort) = settings.effort else { return Ok((None, None)) };
    if effort == Effort::Off {
        // Older models do not think unless they are asked to.
        let off = options.rules.thinks_by_itself.then_some(ThinkingConfig::Disabled);
        return Ok((off, None));
    }
    if options.rules.thinking == Thinking::Adaptive {
        let word = match effort {
            Effort::Minimal | Effort::Low => "low",
            Effort::High => "high",
            Effort::Max => "max",
            _ => "medium",
        };
        return Ok((Some(ThinkingConfig::Adaptive), Some(word)));
    }
    let budget = match effort {
        Effort::Minimal => LEAST_BUDGET,
        Effort::Low => 2048,
        Effort::High => 16_384,
        Effort::Max => 32_768,
        _ => 8192,
    };
    // Room for the answer, which counts together with the thinking.
    let budget = budget.min(most - most / 4).max(LEAST_BUDGET);
    if most <= budget {
        return Err(ProviderError::unsent(format!(
            "thinking needs more than {LEAST_BUDGET} output tokens, but at most {most} are allowed; increase `max_output_tokens`, or leave `effort` out"
        )));
    }
    Ok((Some(ThinkingConfig::Enabled { budget_tokens: budget }), None))
}

/// Checks what the API refuses together with thinking.
fn check_thinking(
    request: &Request,
    settings: &Settings,
    thinking: Option<&ThinkingConfig>,
) -> Result<()> {
    let (thinks, has_budget) = match thinking {
        None | Some(ThinkingConfig::Disabled) => return Ok(()),
        Some(ThinkingConfig::Adaptive) => (true, false),
        Some(ThinkingConfig::Enabled { .. }) => (true, true),
    };
    let is_forced = matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_));
    if has_budget && is_forced && !request.tools.is_empty() {
        return Err(ProviderError::unsent(
            "the model cannot be forced to call a tool while it thinks; leave `effort` out, set it to `Effort::Off`, or use `ToolChoice::Auto`",
        ));
    }
    if thinks && settings.temperature.is_some_and(|temperature| temperature != 1.0) {
        return Err(ProviderError::unsent(
            "the temperature must be 1 while the model thinks; leave `temperature` or `effort` out",
        ));
    }
    Ok(())
}

/// Whether there is a document that the model could cite.
fn has_document(request: &Request) -> bool {
    let is_document = |part: &Part| matches!(part, Part::Document(_));
    request.messages.iter().any(|message| match &**message {
        Message::User { parts } => parts.iter().any(is_document),
        Message::Tool(result) => result.parts.iter().any(is_document),
        _ => false,
    })
}
