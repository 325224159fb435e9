//! A provider for a made-up API, in one file. The page `docs/writing-a-provider.md` explains it.

use std::future::ready;
use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_module::message::Part;
use toolwright_module::model::{BoxFuture, BoxStream, Capabilities, Delta, Finish, Usage};
use toolwright_module::{Dialect, LanguageModel, Message, Reply, Request, Result, ToolCall};
use toolwright_provider::{
    Connection, Decoder, Deltas, JsonBody, Kept, ProviderError, ReplyParts, portable_id, read_whole,
};

/// A model of the made-up API. Each message is written once and kept.
pub(crate) struct Small {
    pub(crate) connection: Connection,
    pub(crate) written: Kept<Message, [u8]>,
}

impl LanguageModel for Small {
    fn name(&self) -> &str {
        "small-1"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, it: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        self.connection.reply(async move {
            let url = self.connection.endpoint().url(["chat"], &[])?;
            let body = self.body(it, false)?;
            self.connection.whole(&url, body, |body| ready(read(&body))).await
        })
    }

    fn stream<'a>(&'a self, it: Request) -> BoxStream<'a, Result<Delta>> {
        self.connection.deltas(async move {
            let url = self.connection.endpoint().url(["chat"], &[])?;
            self.connection.stream(&url, self.body(&it, true)?, Pieces::default, read).await
        })
    }
}

impl Small {
    fn body(&self, request: &Request, stream: bool) -> Result<Vec<u8>, ProviderError> {
        if request.output.is_some() || request.tool_choice != Default::default() {
            let why = "the API cannot force a call or a schema of the answer";
            return Err(ProviderError::unsent(why));
        }
        let settings = request.settings_over(None).unwrap_or_default();
        settings.check(self.capabilities().settings)?;
        let messages = request.messages.iter().map(|it| self.written.get_or_make(it, write));
        let messages = messages.collect::<Result<Vec<_>, ProviderError>>()?;
        let tools = request.tools.iter().zip(request.lower(Dialect::JsonSchema2020)?.tools);
        let tools = tools.map(|(tool, lowered)| {
            let (name, about) = (tool.name(), tool.description());
            json!({"name": name, "about": about, "schema": lowered.schema}).to_string()
        });
        let mut body = JsonBody::new(settings.extra.get("small"));
        body.list("messages", &messages);
        body.list("tools", tools);
        body.field("max_tokens", &request.max_output_tokens())
            .and_then(|()| body.field("stream", &stream))
            .and_then(|()| body.end())
            .map_err(ProviderError::unsent)
    }
}

/// Writes a message. The result depends on the message alone.
fn write(message: &Message) -> Result<Arc<[u8]>, ProviderError> {
    let json = match message {
        Message::System { text } => json!({"role": "system", "text": text}),
        Message::User { parts } if let [Part::Text(text)] = &parts[..] => {
            json!({"role": "user", "text": text})
        }
        Message::Assistant { parts } => {
            // All reasoning and opaque parts are of other providers.
            let reply = Reply::new(parts.clone());
            let calls = reply.tool_calls().map(|it| {
                json!({"id": portable_id(&it.id, 64), "name": it.name, "arguments": it.arguments})
            });
            json!({"role": "model", "text": reply.to_text(), "calls": calls.collect::<Value>()})
        }
        Message::Tool(result) if result.parts.is_empty() => {
            json!({"role": "tool", "id": portable_id(&result.id, 64), "text": result.text})
        }
        _ => return Err(ProviderError::unsent("the API takes only text")),
    };
    Ok(json.to_string().into_bytes().into())
}

fn read(body: &[u8]) -> Result<Reply, ProviderError> {
    read_whole(body, |event| {
        let mut pieces = Pieces::default();
        pieces.take(event, &mut Deltas::discarded())?;
        pieces.finish()
    })
}

/// A whole reply, or a piece of a streamed one.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Event {
    text: String,
    calls: Vec<ToolCall>,
    stop: Option<(String, u64, u64)>,
}

/// A reply under construction.
#[derive(Default)]
struct Pieces(ReplyParts, Option<(Finish, Usage)>);

impl Decoder for Pieces {
    type Event<'e> = Event;

    fn take(&mut self, event: Event, deltas: &mut Deltas) -> Result<(), ProviderError> {
        if !event.text.is_empty() {
            self.0.text(event.text, deltas);
        }
        for call in event.calls {
            let index = self.0.begin_call();
            self.0.extend_call(index, call.id, call.name, call.arguments, deltas);
        }
        if let Some((word, read, written)) = event.stop {
            let finish = if word == "end" { Finish::Stop } else { Finish::Other(word) };
            self.1 = Some((finish, Usage::new(read, written)));
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.1.is_some()
    }

    fn finish(mut self) -> Result<Reply, ProviderError> {
        let Some((finish, usage)) = self.1.take() else {
            return Err(ProviderError::truncated(self.so_far()));
        };
        Ok(Reply::new(self.0.take()).with_finish(finish).with_usage(usage))
    }

    fn so_far(&self) -> String {
        self.0.to_json()
    }
}
