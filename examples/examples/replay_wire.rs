//! Reads recorded replies of the providers' APIs, to check how the providers read them.
//!
//! Input: `{"id", "model", "stream"}`, one JSON line each. The reply is served at
//! `{base-url}/{id}/v1`, or `{base-url}/{id}/v1beta` for Gemini. Output: `{"id", "text", "reasoning", "calls", "usage", "finish", "next"}`,
//! or `{"id", "error"}`. `next` is the body of the next request.
//!
//! `cargo run -p toolwright-examples --example replay_wire -- --provider openai-chat --base-url http://127.0.0.1:8080 < exchanges.jsonl`

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use toolwright_module::model::Settings;

use clap::{Parser, ValueEnum};
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use toolwright_anthropic::Anthropic;
use toolwright_gemini::Gemini;
use toolwright_module::message::{ReplyPart, ToolResult};
use toolwright_module::model::{Delta, Finish};
use toolwright_module::{LanguageModel, Message, Reply, Request, Result};
use toolwright_openai::{Api, OpenAi, ProviderError};

/// Reads recorded replies, named on stdin as one JSON line each.
#[derive(Parser)]
struct Args {
    /// Provider and API of the replies
    #[arg(long)]
    provider: Provider,

    /// URL of the server with the recordings
    #[arg(long)]
    base_url: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum Provider {
    Anthropic,
    OpenaiChat,
    OpenaiResponses,
    Gemini,
}

impl Provider {
    /// Returns the model of a server, without retries.
    fn model(self, server: &str, name: &str) -> Result<Arc<dyn LanguageModel>, ProviderError> {
        let openai = |api| {
            let model = OpenAi::at(&format!("{server}/v1"), name)?;
            Ok(Arc::new(model.with_api(api).with_connection(|c| Ok(c.with_retries(0)))?)
                as Arc<dyn LanguageModel>)
        };
        match self {
            Self::Anthropic => {
                let model = Anthropic::at(&format!("{server}/v1"), name)?;
                Ok(Arc::new(model.with_connection(|c| Ok(c.with_retries(0)))?))
            }
            Self::OpenaiChat => openai(Api::Chat),
            Self::OpenaiResponses => openai(Api::Responses),
            Self::Gemini => Ok(Arc::new(
                Gemini::at(&format!("{server}/v1beta"), name)?
                    .with_connection(|c| Ok(c.with_retries(0)))?,
            )),
        }
    }
}

#[derive(Deserialize)]
struct Exchange {
    id: String,
    model: String,
    stream: bool,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    for line in io::stdin().lock().lines() {
        let exchange: Exchange = serde_json::from_str(&line?)?;
        let model = |server: &str| args.provider.model(server, &exchange.model);
        let asked = model(&format!("{}/{}", args.base_url, exchange.id))?;
        let request = Request::new([Message::user("hi")])
            .with_settings(Settings::default().with_max_output_tokens(1_000_000));
        let mut answer = match reply(&*asked, request.clone(), exchange.stream).await {
            Ok(reply) => {
                let mut answer = shown(&reply);
                answer["next"] = match next(reply, request, model).await {
                    Ok(body) => body,
                    Err(error) => json!(format!("not sent: {error}")),
                };
                answer
            }
            Err(error) => {
                json!({"error": {"stage": error.stage().to_string(), "text": error.to_string()}})
            }
        };
        answer["id"] = json!(exchange.id);
        println!("{answer}");
        io::stdout().flush()?;
    }
    Ok(())
}

async fn reply(model: &dyn LanguageModel, request: Request, stream: bool) -> Result<Reply> {
    if !stream {
        return model.generate(&request).await;
    }
    let mut deltas = model.stream(request);
    while let Some(delta) = deltas.next().await {
        if let Delta::Done(reply) = delta? {
            return Ok(*reply);
        }
    }
    Err(toolwright_module::Error::other("the stream has no end"))
}

fn shown(reply: &Reply) -> Value {
    let reasoning = reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Reasoning(reasoning) => Some(reasoning.text.as_str()),
        _ => None,
    });
    let calls = reply
        .tool_calls()
        .map(|call| json!({"id": call.id, "name": call.name, "arguments": call.arguments}));
    let finish = match &reply.finish {
        Finish::Stop => "stop".to_owned(),
        Finish::Length => "length".to_owned(),
        Finish::Refused => "refused".to_owned(),
        Finish::Paused => "paused".to_owned(),
        Finish::Other(word) => format!("other: {word}"),
        _ => "unknown".to_owned(),
    };
    let usage = reply.usage;
    json!({
        "text": reply.to_text(),
        "reasoning": reasoning.collect::<Vec<_>>().concat(),
        "calls": calls.collect::<Vec<_>>(),
        "usage": {
            "input": usage.input_tokens,
            "output": usage.output_tokens,
            "cached": usage.cached_tokens,
            "cache_write": usage.cache_written_tokens,
            "reasoning": usage.reasoning_tokens,
            "incomplete": usage.incomplete,
        },
        "finish": finish,
    })
}

/// Returns the body of the request after a reply: with the results of its calls, or with the next
/// message of the user.
async fn next(
    reply: Reply,
    request: Request,
    model: impl Fn(&str) -> Result<Arc<dyn LanguageModel>, ProviderError>,
) -> Result<Value, Box<dyn Error>> {
    let mut messages = request.messages;
    let calls: Vec<_> = reply.tool_calls().cloned().collect();

    if !reply.parts.is_empty() {
        messages.push(Arc::new(Message::Assistant { parts: reply.parts }));
    }
    for call in &calls {
        messages.push(Arc::new(Message::Tool(ToolResult::new(call, "ok"))));
    }
    if calls.is_empty() {
        messages.push(Message::user("go on"));
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let model = model(&format!("http://{}", listener.local_addr()?))?;
    let request = Request::new(messages);
    tokio::select! {
        biased;
        body = body_of(listener) => Ok(body?),
        reply = model.generate(&request) => {
            Err(reply.err().map_or_else(|| "an empty refusal is no reply".into(), Into::into))
        }
    }
}

/// Receives one request, refuses it and returns its body.
async fn body_of(listener: TcpListener) -> io::Result<Value> {
    let (mut socket, _) = listener.accept().await?;
    let mut bytes = Vec::new();
    loop {
        let head = bytes.windows(4).position(|end| end == b"\r\n\r\n");
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or_default();
            if bytes.len() >= head + 4 + length {
                socket
                    .write_all(b"HTTP/1.1 400 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                    .await?;
                return Ok(serde_json::from_slice(&bytes[head + 4..])?);
            }
        }
        if socket.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
