//! The same run by hand, without Toolwright.

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::types::chat::{
    ChatCompletionMessageToolCalls, ChatCompletionRequestAssistantMessage,
    ChatCompletionRequestMessage, ChatCompletionRequestToolMessage,
    ChatCompletionRequestUserMessage, ChatCompletionTools, CreateChatCompletionRequest,
    CreateChatCompletionResponse,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::clients::dispatch_by_hand;

/// Toolwright's default for the maximum number of output tokens.
const MAX_TOKENS: u32 = 4096;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: &'a [Message],
    tools: [&'a RawValue; 1],
    max_completion_tokens: u32,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Message {
    User { content: String },
    Assistant { content: Option<String>, tool_calls: Vec<Call> },
    Tool { tool_call_id: String, content: String },
}

#[derive(Serialize, Deserialize)]
struct Call {
    id: String,
    r#type: String,
    function: Function,
}

#[derive(Serialize, Deserialize)]
struct Function {
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Reply {
    choices: Vec<Choice>,
    usage: Usage,
}

#[derive(Deserialize)]
struct Choice {
    message: ReplyMessage,
}

#[derive(Deserialize)]
struct ReplyMessage {
    content: Option<String>,
    #[serde(default)]
    tool_calls: Vec<Call>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
}

/// The loop, for any function that sends a request.
async fn run(task: &str, tool: &RawValue, ask: impl AsyncFn(&Body<'_>) -> Reply) -> String {
    let mut messages = vec![Message::User { content: task.to_owned() }];
    let mut tokens = 0;
    loop {
        let body = Body {
            model: "bench",
            messages: &messages,
            tools: [tool],
            max_completion_tokens: MAX_TOKENS,
        };
        let reply = ask(&body).await;
        tokens += reply.usage.prompt_tokens + reply.usage.completion_tokens;
        let ReplyMessage { content, tool_calls } =
            reply.choices.into_iter().next().unwrap().message;
        if tool_calls.is_empty() {
            assert!(tokens > 0);
            return content.unwrap();
        }
        let result = |call: &Call| Message::Tool {
            tool_call_id: call.id.clone(),
            content: dispatch_by_hand(&call.function.name, &call.function.arguments),
        };
        let results: Vec<_> = tool_calls.iter().map(result).collect();
        messages.push(Message::Assistant { content, tool_calls });
        messages.extend(results);
    }
}

/// A loop on reqwest and serde, which is the lower bound.
pub(crate) struct Reqwest {
    client: reqwest::Client,
    url: String,
    tool: Box<RawValue>,
}

impl Reqwest {
    pub(crate) fn new(base_url: &str, tool: &Value) -> Self {
        let url = format!("{base_url}/chat/completions");
        Self { client: reqwest::Client::new(), url, tool: to_raw_value(tool).unwrap() }
    }

    pub(crate) async fn run(&self, task: &str) -> String {
        let ask = async |body: &Body<'_>| {
            let request = self.client.post(&self.url).json(body).send();
            let response = request.await.unwrap().error_for_status().unwrap();
            response.json().await.unwrap()
        };
        run(task, &self.tool, ask).await
    }
}

/// A loop on async-openai's client with its own types ("bring your own types").
pub(crate) struct Byot {
    client: Client<OpenAIConfig>,
    tool: Box<RawValue>,
}

fn client(base_url: &str) -> Client<OpenAIConfig> {
    Client::with_config(OpenAIConfig::new().with_api_base(base_url).with_api_key("none"))
}

impl Byot {
    pub(crate) fn new(base_url: &str, tool: &Value) -> Self {
        Self { client: client(base_url), tool: to_raw_value(tool).unwrap() }
    }

    pub(crate) async fn run(&self, task: &str) -> String {
        let ask = async |body: &Body<'_>| self.client.chat().create_byot(body).await.unwrap();
        run(task, &self.tool, ask).await
    }
}

/// A loop on async-openai's own types.
pub(crate) struct Typed {
    client: Client<OpenAIConfig>,
    tools: Vec<ChatCompletionTools>,
}

impl Typed {
    pub(crate) fn new(base_url: &str, tool: &Value) -> Self {
        let tools = vec![serde_json::from_value(tool.clone()).unwrap()];
        Self { client: client(base_url), tools }
    }

    pub(crate) async fn run(&self, task: &str) -> String {
        let mut messages: Vec<ChatCompletionRequestMessage> =
            vec![ChatCompletionRequestUserMessage { content: task.into(), name: None }.into()];
        let mut tokens = 0;
        loop {
            let request = CreateChatCompletionRequest {
                model: "bench".to_owned(),
                messages: messages.clone(),
                tools: Some(self.tools.clone()),
                max_completion_tokens: Some(MAX_TOKENS),
                ..Default::default()
            };
            let reply: CreateChatCompletionResponse =
                self.client.chat().create(request).await.unwrap();
            tokens += reply.usage.map_or(0, |usage| usage.total_tokens);
            let message = reply.choices.into_iter().next().unwrap().message;
            let Some(calls) = message.tool_calls.filter(|calls| !calls.is_empty()) else {
                assert!(tokens > 0);
                return message.content.unwrap();
            };
            messages.push(
                ChatCompletionRequestAssistantMessage {
                    tool_calls: Some(calls.clone()),
                    ..Default::default()
                }
                .into(),
            );
            for call in calls {
                let ChatCompletionMessageToolCalls::Function(call) = call else {
                    panic!("no custom tool was offered");
                };
                let content = dispatch_by_hand(&call.function.name, &call.function.arguments);
                messages.push(
                    ChatCompletionRequestToolMessage {
                        content: content.into(),
                        tool_call_id: call.id,
                    }
                    .into(),
                );
            }
        }
    }
}
