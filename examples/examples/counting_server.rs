//! A server with OpenAI's Chat API, for the example `endless`: it counts the tokens of each request,
//! refuses those above its window, and answers as a script. It needs no key.
//!
//! ```text
//! cargo run -p toolwright-examples --example counting_server -- --port 8321 --window 32000
//! cargo run -p toolwright-examples --example endless -- --base-url http://127.0.0.1:8321/v1 --rounds 2000
//! ```
//!
//! A message has as many tokens as its characters divided by 4, and 4 more. On `/__report` the server
//! shows its counts as JSON, with each request whose order of messages it refused.

use std::collections::VecDeque;
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Parser, ValueEnum};
use serde_json::{Map, Value, json};
use toolwright_cli::say;

/// A server with OpenAI's Chat API that counts tokens and refuses requests above its window.
#[derive(Parser, Debug, Clone)]
pub(crate) struct Options {
    /// Port on this machine. 0 is any free port
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Maximum number of tokens of a request and its reply
    #[arg(long, default_value_t = 32_000)]
    pub(crate) window: u64,
    /// How it answers a request for a value of a schema, such as a summary
    #[arg(long, value_enum, default_value_t = Summaries::Good)]
    pub(crate) summaries: Summaries,
    /// What it answers to other requests
    #[arg(long, value_enum, default_value_t = Replies::Mixed)]
    pub(crate) replies: Replies,
    /// Refuse a message of the user after a result, as Mistral does, and two turns in a row
    #[arg(long)]
    pub(crate) strict_order: bool,
    /// Report no usage
    #[arg(long)]
    pub(crate) no_usage: bool,
    /// Refuse long requests without numbers in the error
    #[arg(long)]
    pub(crate) no_numbers: bool,
    /// Chooses other replies
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// How the server answers a request for a value of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Summaries {
    /// A value that fits, with the first words of the messages
    Good,
    /// The text `ok`
    Dumb,
    /// A value that fits the schema, and says nothing
    Schema,
    /// A refusal, as by a server that has no schemas for answers
    Refuse,
    /// An error of the server
    Fail,
}

/// What the server answers to a request for a text or a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Replies {
    /// Texts, and up to three calls before one
    Mixed,
    /// Texts only
    Text,
    /// A call if a tool is offered, whatever the request says
    Calls,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 0,
            window: 32_000,
            summaries: Summaries::Good,
            replies: Replies::Mixed,
            strict_order: false,
            no_usage: false,
            no_numbers: false,
            seed: 1,
        }
    }
}

/// What the server has counted.
#[derive(Debug, Default, Clone)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    /// The requests for a value of a schema among them.
    pub(crate) typed: u64,
    /// The requests that were too long.
    pub(crate) too_long: u64,
    /// The largest request that was answered, in tokens.
    pub(crate) largest: u64,
    /// The requests whose messages no server accepts, with the reason.
    pub(crate) faults: Vec<String>,
    /// The last requests that were answered.
    pub(crate) last: VecDeque<Value>,
}

/// A server that runs until the program ends.
pub(crate) struct CountingServer {
    pub(crate) base_url: String,
    #[allow(dead_code, reason = "tests read it")]
    counts: Arc<Mutex<Counts>>,
}

impl CountingServer {
    pub(crate) fn start(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", options.port))?;
        let base_url = format!("http://{}/v1", listener.local_addr()?);
        let counts = Arc::new(Mutex::new(Counts::default()));
        let kept = Arc::clone(&counts);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (options, counts) = (options.clone(), Arc::clone(&kept));
                // A client that goes away is not an error of the server.
                std::thread::spawn(move || drop(serve(stream, &options, &counts)));
            }
        });
        Ok(Self { base_url, counts })
    }

    #[allow(dead_code, reason = "tests read it")]
    pub(crate) fn counts(&self) -> Counts {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let server = CountingServer::start(Options::parse())?;
    say(&format!("listening at {}", server.base_url));
    loop {
        std::thread::park();
    }
}

/// Answers the requests of one connection.
fn serve(stream: TcpStream, options: &Options, counts: &Mutex<Counts>) -> io::Result<()> {
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        let (mut length, mut first) = (0, String::new());
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if first.is_empty() {
                first.clone_from(&line);
            }
            let header = line.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let (status, body) = match first.split(' ').nth(1) {
            Some("/__report") => {
                let counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                (200, report(&counts).to_string())
            }
            _ => match serde_json::from_slice(&body) {
                Ok(request) => answer(&request, options, counts),
                Err(error) => (400, refused("invalid_json", &error.to_string())),
            },
        };
        let kind = match body.starts_with("data:") {
            true => "text/event-stream",
            false => "application/json",
        };
        let head = format!(
            "HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        writer.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
    }
}

fn report(counts: &Counts) -> Value {
    json!({
        "requests": counts.requests,
        "typed": counts.typed,
        "too_long": counts.too_long,
        "largest": counts.largest,
        "faults": counts.faults,
    })
}

fn refused(code: &str, message: &str) -> String {
    let error =
        json!({"message": message, "type": "invalid_request_error", "param": null, "code": code});
    json!({ "error": error }).to_string()
}

/// Returns the status and the body of the answer to a request.
fn answer(request: &Value, options: &Options, counts: &Mutex<Counts>) -> (u16, String) {
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    counts.requests += 1;
    let messages = request["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let strict = options.strict_order.then(|| turn_fault(messages)).flatten();
    if let Some(fault) = pairing_fault(messages).or(strict) {
        counts.faults.push(fault.clone());
        return (400, refused("invalid_value", &fault));
    }
    let prompt: u64 = messages.iter().map(tokens_of_message).sum();
    let tools = tokens_of_tools(request);
    let input = prompt + tools;
    let most = ["max_completion_tokens", "max_tokens"].map(|field| request[field].as_u64());
    let most = most.into_iter().flatten().next();
    if input + most.unwrap_or(1) > options.window {
        counts.too_long += 1;
        let window = options.window;
        let text = match (options.no_numbers, most) {
            (true, _) => "The request is longer than the context of this model.".to_owned(),
            (_, Some(most)) => format!(
                "This model's maximum context length is {window} tokens. However, you requested {} \
                 tokens ({input} in the messages, {most} in the completion). Please reduce the \
                 length of the messages or completion.",
                input + most
            ),
            (_, None) => format!(
                "This model's maximum context length is {window} tokens. However, your messages \
                 resulted in {input} tokens ({prompt} in the messages, {tools} in the functions). \
                 Please reduce the length of the messages or functions."
            ),
        };
        return (400, refused("context_length_exceeded", &text));
    }
    let typed = asked_schema(request);
    if typed.is_some() {
        counts.typed += 1;
        if options.summaries == Summaries::Refuse {
            return (400, refused("unsupported_value", "response_format is not supported"));
        }
        if options.summaries == Summaries::Fail {
            let error = json!({"message": "The server had an error", "type": "server_error"});
            return (500, json!({ "error": error }).to_string());
        }
    }
    counts.largest = counts.largest.max(input);
    counts.last.push_back(request.clone());
    while counts.last.len() > 2 {
        counts.last.pop_front();
    }
    let number = counts.requests;
    drop(counts);
    let mut reply = match typed {
        Some(typed) => summary(&typed, messages, options),
        None => scripted(request, messages, options),
    };
    let room = options.window - input;
    let output = reply.tokens();
    let is_cut = output > most.unwrap_or(room).min(room);
    if is_cut {
        let left = usize::try_from(room.saturating_sub(5).saturating_mul(4)).unwrap_or(usize::MAX);
        reply = Scripted::Text(reply.text().chars().take(left).collect());
    }
    let usage = json!({
        "prompt_tokens": input,
        "completion_tokens": reply.tokens(),
        "total_tokens": input + reply.tokens(),
    });
    let finish = match &reply {
        _ if is_cut => "length",
        Scripted::Calls(_) => "tool_calls",
        Scripted::Text(_) => "stop",
    };
    let usage = (!options.no_usage).then_some(usage);
    let body = match request["stream"] == true {
        true => reply.events(request, number, finish, usage),
        false => reply.body(request, number, finish, usage),
    };
    (200, body)
}

/// What the model of the script says.
enum Scripted {
    Text(String),
    Calls(Vec<(String, String)>),
}

impl Scripted {
    fn tokens(&self) -> u64 {
        match self {
            Self::Text(text) => tokens(text.chars().count()),
            Self::Calls(calls) => {
                let count = |(name, arguments): &(String, String)| name.len() + arguments.len();
                tokens(calls.iter().map(count).sum())
            }
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Calls(_) => "",
        }
    }

    fn calls(&self, number: u64) -> Vec<Value> {
        let Self::Calls(calls) = self else { return Vec::new() };
        let call = |(at, (name, arguments)): (usize, &(String, String))| {
            let function = json!({"name": name, "arguments": arguments});
            // Nine letters and digits, which every server takes.
            let id = format!("c{number:06}{at:02}");
            json!({"index": at, "id": id, "type": "function", "function": function})
        };
        calls.iter().enumerate().map(call).collect()
    }

    fn body(&self, request: &Value, number: u64, finish: &str, usage: Option<Value>) -> String {
        let mut message = json!({"role": "assistant", "content": null});
        match self {
            Self::Text(text) => message["content"] = json!(text),
            Self::Calls(_) => message["tool_calls"] = json!(self.calls(number)),
        }
        let choice = json!({"index": 0, "message": message, "finish_reason": finish});
        let mut body = json!({
            "id": format!("chatcmpl-{number}"),
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": request["model"],
            "choices": [choice],
        });
        if let Some(usage) = usage {
            body["usage"] = usage;
        }
        body.to_string()
    }

    fn events(&self, request: &Value, number: u64, finish: &str, usage: Option<Value>) -> String {
        let mut deltas = vec![json!({"role": "assistant", "content": ""})];
        match self {
            Self::Text(text) => {
                let chars: Vec<char> = text.chars().collect();
                let pieces = chars.chunks(400).map(|piece| piece.iter().collect::<String>());
                deltas.extend(pieces.map(|piece| json!({ "content": piece })));
            }
            Self::Calls(_) => deltas.push(json!({"tool_calls": self.calls(number)})),
        }
        let event = |choices: Value, usage: Option<&Value>| {
            let mut event = json!({
                "id": format!("chatcmpl-{number}"),
                "object": "chat.completion.chunk",
                "created": 1_700_000_000,
                "model": request["model"],
                "choices": choices,
            });
            if let Some(usage) = usage {
                event["usage"] = usage.clone();
            }
            format!("data: {event}\n\n")
        };
        let of_delta = |delta: Value, finish: Value| {
            event(json!([{"index": 0, "delta": delta, "finish_reason": finish}]), None)
        };
        let mut text: String =
            deltas.into_iter().map(|delta| of_delta(delta, Value::Null)).collect();
        text.push_str(&of_delta(json!({}), json!(finish)));
        if let Some(usage) = usage.filter(|_| request["stream_options"]["include_usage"] == true) {
            text.push_str(&event(json!([]), Some(&usage)));
        }
        text + "data: [DONE]\n\n"
    }
}

/// Returns the tokens of a text with this number of characters.
fn tokens(chars: usize) -> u64 {
    u64::try_from(chars).unwrap_or(u64::MAX).div_ceil(4)
}

/// Returns the text of a message's content, which is a text or a list of parts.
fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

fn calls_of(message: &Value) -> &[Value] {
    message["tool_calls"].as_array().map_or(&[], Vec::as_slice)
}

fn tokens_of_message(message: &Value) -> u64 {
    let of_call = |call: &Value| {
        let part = |field: &str| call["function"][field].as_str().unwrap_or_default();
        part("name").chars().count() + part("arguments").chars().count()
    };
    let calls: usize = calls_of(message).iter().map(of_call).sum();
    tokens(text_of(message).chars().count() + calls) + 4
}

/// Returns the tokens of the tools and of the schema of the answer.
fn tokens_of_tools(request: &Value) -> u64 {
    let schemas = ["tools", "response_format"].map(|field| &request[field]);
    let schemas = schemas.into_iter().filter(|schema| !schema.is_null());
    schemas.map(|schema| tokens(schema.to_string().chars().count())).sum()
}

/// Returns why every server refuses these messages: a call and its result are apart, or have other ids.
fn pairing_fault(messages: &[Value]) -> Option<String> {
    if messages.is_empty() {
        return Some("messages: there is no message".to_owned());
    }
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let Some(place) = open.iter().position(|open| *open == id) else {
                return Some(format!(
                    "messages[{at}]: the result `{id}` follows no call of this id"
                ));
            };
            open.remove(place);
            continue;
        }
        if let Some(id) = open.first() {
            return Some(format!("messages[{at}]: the call `{id}` has no result before it"));
        }
        open = calls_of(message).iter().filter_map(|call| call["id"].as_str()).collect();
        let role = message["role"].as_str().unwrap_or_default();
        if role == "system" && at > 0 {
            return Some(format!("messages[{at}]: a system message is not at the start"));
        }
        if open.is_empty() && text_of(message).trim().is_empty() {
            return Some(format!("messages[{at}]: the message of `{role}` is empty"));
        }
    }
    open.first().map(|id| format!("the call `{id}` has no result"))
}

/// Returns why a server refuses these messages whose rules are those of Mistral, and of a template in
/// which the roles of the user and the model must alternate, apart from calls and results.
pub(crate) fn turn_fault(messages: &[Value]) -> Option<String> {
    let (mut before, mut open, mut turns) = (String::new(), 0, 0);
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        let calls = message["tool_calls"].as_array().map_or(0, Vec::len);
        let is_empty = match &message["content"] {
            Value::String(text) => text.trim().is_empty(),
            Value::Array(parts) => parts.is_empty(),
            _ => true,
        };
        let after = match before.as_str() {
            "" => &["system", "user"][..],
            "system" => &["user"],
            "user" => &["assistant"],
            "tool" => &["assistant", "tool"],
            _ if open > 0 => &["tool"],
            _ => &["user"],
        };
        if !after.contains(&role) {
            return Some(format!("{at}: Unexpected role '{role}' after role '{before}'"));
        }
        if role == "assistant" && calls == 0 && is_empty {
            return Some(format!("{at}: Assistant message must have content or tool_calls"));
        }
        if role == "user" && is_empty {
            return Some(format!("{at}: the message is empty"));
        }
        match role {
            "tool" if open == 0 => return Some(format!("{at}: more results than calls")),
            "tool" => open -= 1,
            _ if open > 0 => return Some(format!("{at}: fewer results than calls")),
            _ => open = calls,
        }
        if role == "user" || role == "assistant" && calls == 0 {
            if (role == "user") != (turns % 2 == 0) {
                return Some(format!("{at}: Conversation roles must alternate"));
            }
            turns += 1;
        }
        role.clone_into(&mut before);
    }
    let ends = matches!(before.as_str(), "user" | "tool");
    (!ends).then(|| format!("Expected last role User or Tool but got {before}"))
}

/// The schema of a value that a request asks for, and the tool whose arguments it is, if it is one.
struct Typed {
    schema: Value,
    tool: Option<String>,
}

/// Returns what a request asks for, if it is not a text or a call of any tool: a value of a schema, as
/// the answer or as the arguments of a tool that must be called.
fn asked_schema(request: &Value) -> Option<Typed> {
    let format = &request["response_format"];
    if format["type"] == "json_schema" {
        return Some(Typed { schema: format["json_schema"]["schema"].clone(), tool: None });
    }
    if format["type"] == "json_object" {
        return Some(Typed { schema: json!({"type": "object"}), tool: None });
    }
    let forced = request["tool_choice"]["function"]["name"].as_str()?;
    let tools = request["tools"].as_array()?;
    let tool = tools.iter().find(|tool| tool["function"]["name"] == forced)?;
    let schema = tool["function"]["parameters"].clone();
    Some(Typed { schema, tool: Some(forced.to_owned()) })
}

fn summary(typed: &Typed, messages: &[Value], options: &Options) -> Scripted {
    let text = match options.summaries {
        Summaries::Dumb => return Scripted::Text("ok".to_owned()),
        Summaries::Good => {
            let first = |message: &Value| text_of(message).chars().take(40).collect::<String>();
            let all: Vec<String> = messages.iter().map(first).collect();
            let all = all.join(" / ");
            let start = all.char_indices().nth(1_200).map_or(all.len(), |(at, _)| at);
            format!("Earlier: {}", &all[..start])
        }
        Summaries::Schema | Summaries::Refuse | Summaries::Fail => "a".to_owned(),
    };
    let mut values = Values { root: &typed.schema, dice: Dice(options.seed), text, ids: &[] };
    let value = values.of(&typed.schema, "", 0).to_string();
    match &typed.tool {
        Some(tool) => Scripted::Calls(vec![(tool.clone(), value)]),
        None => Scripted::Text(value),
    }
}

/// Returns the next text or the next calls of the script. They depend on the seed, on the last message
/// of the user, and on the number of results after it.
fn scripted(request: &Value, messages: &[Value], options: &Options) -> Scripted {
    let last = messages.iter().rposition(|message| message["role"] == "user").unwrap_or(0);
    let said = messages.get(last).map(text_of).unwrap_or_default();
    let results = messages[last..].iter().filter(|message| message["role"] == "tool").count();
    let mut dice = Dice::of(options.seed, &said, results);
    let tools = request["tools"].as_array().map_or(&[][..], Vec::as_slice);
    let known = match options.replies {
        Replies::Calls => None,
        _ => answer_from(&said, messages),
    };
    if let Some(known) = known {
        return Scripted::Text(known);
    }
    let wanted = Dice::of(options.seed, &said, 0).below(4);
    let calls = match options.replies {
        Replies::Text => false,
        Replies::Calls => true,
        Replies::Mixed => request["tool_choice"] != "none" && results < wanted,
    };
    if calls && !tools.is_empty() {
        let ids: Vec<&str> =
            messages.iter().filter_map(|message| message["tool_call_id"].as_str()).collect();
        let count = 1 + usize::from(dice.below(5) == 0);
        let call = |_| {
            let function = &tools[dice.below(tools.len())]["function"];
            let schema = &function["parameters"];
            let words = "notes".to_owned();
            let mut values =
                Values { root: schema, dice: Dice(dice.next()), text: words, ids: &ids };
            let arguments = values.of(schema, "", 0).to_string();
            (function["name"].as_str().unwrap_or_default().to_owned(), arguments)
        };
        return Scripted::Calls((0..count).map(call).collect());
    }
    let words = ["It", "rained", "on", "the", "old", "harbour", "and", "nobody", "came", "home."];
    let count = 3 + dice.below(250);
    let words: Vec<&str> = (0..count).map(|_| words[dice.below(words.len())]).collect();
    Scripted::Text(words.join(" "))
}

/// Answers a question after facts such as "the code of box 7 is 123" from the messages.
fn answer_from(said: &str, messages: &[Value]) -> Option<String> {
    const ASKED: &str = "What is the code of box ";
    let mut answers = Vec::new();
    for question in said.split(ASKED).skip(1) {
        let number: String = question.chars().take_while(char::is_ascii_digit).collect();
        let fact = format!("the code of box {number} is ");
        let found = messages.iter().find_map(|message| {
            let text = text_of(message);
            let rest = &text[text.find(&fact)? + fact.len()..];
            let code: String = rest.chars().take_while(char::is_ascii_digit).collect();
            Some(format!("The code of box {number} is {code}."))
        });
        answers.push(found.unwrap_or(format!("I do not know the code of box {number}.")));
    }
    (!answers.is_empty()).then(|| answers.join(" "))
}

/// Values that fit a schema.
struct Values<'a> {
    root: &'a Value,
    dice: Dice,
    /// The text of each string.
    text: String,
    /// Ids of results, for arguments with the name `id`.
    ids: &'a [&'a str],
}

impl Values<'_> {
    fn of(&mut self, schema: &Value, name: &str, depth: u32) -> Value {
        if depth > 8 {
            return Value::Null;
        }
        if let Some(path) = schema["$ref"].as_str() {
            let found = self.root.pointer(path.trim_start_matches('#')).cloned();
            return found.map_or(Value::Null, |schema| self.of(&schema, name, depth + 1));
        }
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        for choices in ["enum", "anyOf", "oneOf"] {
            if let Some(choices_of) = schema[choices].as_array().filter(|list| !list.is_empty()) {
                let chosen = choices_of[self.dice.below(choices_of.len())].clone();
                return if choices == "enum" { chosen } else { self.of(&chosen, name, depth + 1) };
            }
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.first().and_then(Value::as_str).unwrap_or("null"),
            kind => kind.as_str().unwrap_or("object"),
        };
        match kind {
            "string" if name == "id" && !self.ids.is_empty() => {
                json!(self.ids[self.dice.below(self.ids.len())])
            }
            "string" => json!(self.text),
            "integer" | "number" => {
                let bound = |field: &str| schema[field].as_i64();
                let least = bound("minimum").unwrap_or(0);
                let most = bound("maximum").unwrap_or(least.saturating_add(100)).max(least);
                let span = usize::try_from(most - least).unwrap_or(0).saturating_add(1);
                json!(least + i64::try_from(self.dice.below(span)).unwrap_or(0))
            }
            "boolean" => json!(self.dice.below(2) == 0),
            "array" => {
                let least = schema["minItems"].as_u64().unwrap_or(1).clamp(1, 10);
                let items = schema["items"].clone();
                (0..least).map(|_| self.of(&items, name, depth + 1)).collect()
            }
            "object" => {
                let properties = schema["properties"].as_object();
                let required = schema["required"].as_array();
                let is_required = |name: &str| {
                    required.is_none_or(|required| required.iter().any(|known| known == name))
                };
                let mut object = Map::new();
                for (name, schema) in properties.into_iter().flatten() {
                    if is_required(name) || self.dice.below(2) == 0 {
                        object.insert(name.clone(), self.of(schema, name, depth + 1));
                    }
                }
                Value::Object(object)
            }
            _ => Value::Null,
        }
    }
}

/// Numbers that follow from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn of(seed: u64, text: &str, number: usize) -> Self {
        let mut hasher = DefaultHasher::new();
        (seed, text, number).hash(&mut hasher);
        Self(hasher.finish())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `most`, or 0.
    fn below(&mut self, most: usize) -> usize {
        let most = u64::try_from(most).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % most).unwrap_or(0)
    }
}
