//! The same run by hand, on reqwest and serde, for each API.
//!
//! These are the loops that a careful engineer writes: the types have only the fields that the run
//! needs, arguments stay text where the API sends text, and the tools are serialized once. Each
//! round serializes the history.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::dispatch_by_hand;

/// Toolwright's default for the maximum number of output tokens.
const MAX_TOKENS: u32 = 4096;

/// An API, as far as the run needs it.
pub(crate) trait Api {
    type Message: Serialize;
    type Reply: DeserializeOwned;

    fn path() -> &'static str;
    fn task(task: &str) -> Self::Message;
    fn body<'a>(messages: &'a [Self::Message], tools: &'a RawValue) -> impl Serialize + 'a;
    /// Adds the reply and the results of its calls. Returns the answer if there are no calls.
    fn take(reply: Self::Reply, messages: &mut Vec<Self::Message>) -> Option<String>;
}

pub(crate) struct ByHand {
    client: reqwest::Client,
    address: String,
    tools: Box<RawValue>,
}

impl ByHand {
    pub(crate) fn new(address: &str, tools: Box<RawValue>) -> Self {
        Self { client: reqwest::Client::new(), address: address.to_owned(), tools }
    }

    pub(crate) async fn run<A: Api>(&self, task: &str) -> String {
        let url = format!("{}{}", self.address, A::path());
        let mut messages = vec![A::task(task)];
        loop {
            let request = self.client.post(&url).json(&A::body(&messages, &self.tools)).send();
            let response = request.await.unwrap().error_for_status().unwrap();
            if let Some(answer) = A::take(response.json().await.unwrap(), &mut messages) {
                return answer;
            }
        }
    }
}

pub(crate) struct Chat;

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub(crate) enum ChatMessage {
    User { content: String },
    Assistant { content: Option<String>, tool_calls: Vec<ChatCall> },
    Tool { tool_call_id: String, content: String },
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ChatCall {
    id: String,
    r#type: String,
    function: ChatFunction,
}

#[derive(Serialize, Deserialize)]
struct ChatFunction {
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
pub(crate) struct ChatReply {
    choices: [ChatChoice; 1],
    usage: ChatUsage,
}

#[derive(Deserialize)]
struct ChatChoice {
    message: ChatReplyMessage,
}

#[derive(Deserialize)]
struct ChatReplyMessage {
    content: Option<String>,
    #[serde(default)]
    tool_calls: Vec<ChatCall>,
}

#[derive(Deserialize)]
struct ChatUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
}

impl Api for Chat {
    type Message = ChatMessage;
    type Reply = ChatReply;

    fn path() -> &'static str {
        "/v1/chat/completions"
    }

    fn task(task: &str) -> ChatMessage {
        ChatMessage::User { content: task.to_owned() }
    }

    fn body<'a>(messages: &'a [ChatMessage], tools: &'a RawValue) -> impl Serialize + 'a {
        #[derive(Serialize)]
        struct Body<'a> {
            model: &'a str,
            messages: &'a [ChatMessage],
            tools: &'a RawValue,
            max_completion_tokens: u32,
        }
        Body { model: "bench", messages, tools, max_completion_tokens: MAX_TOKENS }
    }

    fn take(reply: ChatReply, messages: &mut Vec<ChatMessage>) -> Option<String> {
        let [ChatChoice { message: ChatReplyMessage { content, tool_calls } }] = reply.choices;
        assert!(reply.usage.prompt_tokens + reply.usage.completion_tokens > 0);
        if tool_calls.is_empty() {
            return content;
        }
        let result = |call: &ChatCall| ChatMessage::Tool {
            tool_call_id: call.id.clone(),
            content: dispatch_by_hand(&call.function.name, &call.function.arguments),
        };
        let results: Vec<_> = tool_calls.iter().map(result).collect();
        messages.push(ChatMessage::Assistant { content, tool_calls });
        messages.extend(results);
        None
    }
}

pub(crate) struct Responses;

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Item {
    Message { role: String, content: Vec<Content> },
    FunctionCall { call_id: String, name: String, arguments: String },
    FunctionCallOutput { call_id: String, output: String },
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Content {
    InputText { text: String },
    OutputText { text: String },
}

#[derive(Deserialize)]
pub(crate) struct Response {
    output: Vec<Item>,
    usage: InputOutput,
}

#[derive(Deserialize)]
struct InputOutput {
    input_tokens: u64,
    output_tokens: u64,
}

impl Api for Responses {
    type Message = Item;
    type Reply = Response;

    fn path() -> &'static str {
        "/v1/responses"
    }

    fn task(task: &str) -> Item {
        let content = vec![Content::InputText { text: task.to_owned() }];
        Item::Message { role: "user".to_owned(), content }
    }

    fn body<'a>(messages: &'a [Item], tools: &'a RawValue) -> impl Serialize + 'a {
        #[derive(Serialize)]
        struct Body<'a> {
            model: &'a str,
            input: &'a [Item],
            tools: &'a RawValue,
            max_output_tokens: u32,
        }
        Body { model: "bench", input: messages, tools, max_output_tokens: MAX_TOKENS }
    }

    fn take(reply: Response, messages: &mut Vec<Item>) -> Option<String> {
        assert!(reply.usage.input_tokens + reply.usage.output_tokens > 0);
        let mut answer = None;
        for item in reply.output {
            let result = match &item {
                Item::FunctionCall { call_id, name, arguments } => {
                    let output = dispatch_by_hand(name, arguments);
                    Some(Item::FunctionCallOutput { call_id: call_id.clone(), output })
                }
                Item::Message { content, .. } => {
                    answer = content.iter().find_map(|content| match content {
                        Content::OutputText { text } => Some(text.clone()),
                        Content::InputText { .. } => None,
                    });
                    None
                }
                Item::FunctionCallOutput { .. } => None,
            };
            messages.push(item);
            messages.extend(result);
        }
        answer
    }
}

pub(crate) struct Messages;

#[derive(Serialize)]
pub(crate) struct Turn {
    role: &'static str,
    content: Vec<Block>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text { text: String },
    ToolUse { id: String, name: String, input: Box<RawValue> },
    ToolResult { tool_use_id: String, content: String },
}

#[derive(Deserialize)]
pub(crate) struct MessagesReply {
    content: Vec<ReplyBlock>,
    usage: InputOutput,
}

/// A block with all fields, because serde cannot keep raw JSON in a tagged enum.
#[derive(Deserialize)]
struct ReplyBlock {
    text: Option<String>,
    id: Option<String>,
    name: Option<String>,
    input: Option<Box<RawValue>>,
}

impl Api for Messages {
    type Message = Turn;
    type Reply = MessagesReply;

    fn path() -> &'static str {
        "/v1/messages"
    }

    fn task(task: &str) -> Turn {
        Turn { role: "user", content: vec![Block::Text { text: task.to_owned() }] }
    }

    fn body<'a>(messages: &'a [Turn], tools: &'a RawValue) -> impl Serialize + 'a {
        #[derive(Serialize)]
        struct Body<'a> {
            model: &'a str,
            max_tokens: u32,
            messages: &'a [Turn],
            tools: &'a RawValue,
        }
        Body { model: "bench", max_tokens: MAX_TOKENS, messages, tools }
    }

    fn take(reply: MessagesReply, messages: &mut Vec<Turn>) -> Option<String> {
        assert!(reply.usage.input_tokens + reply.usage.output_tokens > 0);
        let (mut blocks, mut results, mut answer) = (Vec::new(), Vec::new(), None);
        for block in reply.content {
            match (block.text, block.id.zip(block.name).zip(block.input)) {
                (_, Some(((id, name), input))) => {
                    let content = dispatch_by_hand(&name, input.get());
                    results.push(Block::ToolResult { tool_use_id: id.clone(), content });
                    blocks.push(Block::ToolUse { id, name, input });
                }
                (Some(text), None) => answer = Some(text),
                (None, None) => {}
            }
        }
        if blocks.is_empty() {
            return answer;
        }
        messages.push(Turn { role: "assistant", content: blocks });
        messages.push(Turn { role: "user", content: results });
        None
    }
}

pub(crate) struct Gemini;

#[derive(Serialize, Deserialize)]
pub(crate) struct GeminiTurn {
    role: String,
    parts: Vec<GeminiPart>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum GeminiPart {
    Text(String),
    FunctionCall(FunctionCall),
    FunctionResponse(FunctionResponse),
}

#[derive(Serialize, Deserialize)]
struct FunctionCall {
    id: String,
    name: String,
    args: Box<RawValue>,
}

#[derive(Serialize, Deserialize)]
struct FunctionResponse {
    id: String,
    name: String,
    response: Output,
}

#[derive(Serialize, Deserialize)]
struct Output {
    output: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GeminiReply {
    candidates: [Candidate; 1],
    usage_metadata: GeminiUsage,
}

#[derive(Deserialize)]
struct Candidate {
    content: GeminiTurn,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiUsage {
    prompt_token_count: u64,
    candidates_token_count: u64,
}

impl Api for Gemini {
    type Message = GeminiTurn;
    type Reply = GeminiReply;

    fn path() -> &'static str {
        "/v1beta/models/bench:generateContent"
    }

    fn task(task: &str) -> GeminiTurn {
        GeminiTurn { role: "user".to_owned(), parts: vec![GeminiPart::Text(task.to_owned())] }
    }

    fn body<'a>(messages: &'a [GeminiTurn], tools: &'a RawValue) -> impl Serialize + 'a {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Body<'a> {
            contents: &'a [GeminiTurn],
            tools: &'a RawValue,
            generation_config: Config,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Config {
            max_output_tokens: u32,
        }
        let generation_config = Config { max_output_tokens: MAX_TOKENS };
        Body { contents: messages, tools, generation_config }
    }

    fn take(reply: GeminiReply, messages: &mut Vec<GeminiTurn>) -> Option<String> {
        let usage = reply.usage_metadata;
        assert!(usage.prompt_token_count + usage.candidates_token_count > 0);
        let [Candidate { content }] = reply.candidates;
        let (mut results, mut answer) = (Vec::new(), None);
        for part in &content.parts {
            match part {
                GeminiPart::Text(text) => answer = Some(text.clone()),
                GeminiPart::FunctionCall(FunctionCall { id, name, args }) => {
                    let response = Output { output: dispatch_by_hand(name, args.get()) };
                    let (id, name) = (id.clone(), name.clone());
                    let response = FunctionResponse { id, name, response };
                    results.push(GeminiPart::FunctionResponse(response));
                }
                GeminiPart::FunctionResponse(_) => {}
            }
        }
        if results.is_empty() {
            return answer;
        }
        messages.push(content);
        messages.push(GeminiTurn { role: "user".to_owned(), parts: results });
        None
    }
}
