//! Messages in OpenTelemetry's form for generative AI, as JSON: a role and parts with a `type`.

use serde_json::{Map, Value, json};
use toolwright_signature::Contract;

use crate::message::{Message, Part, ReplyPart, Source, ToolCall, ToolResult};
use crate::model::Reply;

/// Returns the messages as the text of `gen_ai.input.messages`.
pub(crate) fn input<'a>(messages: impl IntoIterator<Item = &'a Message>) -> String {
    messages.into_iter().map(message).collect::<Value>().to_string()
}

/// Returns the reply as the text of `gen_ai.output.messages`.
pub(crate) fn output(reply: &Reply, finish: &str) -> String {
    let parts: Value = reply.parts.iter().map(reply_part).collect();
    json!([{"role": "assistant", "parts": parts, "finish_reason": finish}]).to_string()
}

/// Returns the tools as the text of `gen_ai.tool.definitions`. The schemas are left out, because
/// every request has all of them.
pub(crate) fn tools<'a>(tools: impl IntoIterator<Item = &'a Contract>) -> String {
    let tools = tools.into_iter().map(
        |tool| json!({"type": "function", "name": tool.name(), "description": tool.description()}),
    );
    tools.collect::<Value>().to_string()
}

fn message(message: &Message) -> Value {
    let (role, parts) = match message {
        Message::System { text: content } => ("system", json!([text(content)])),
        Message::User { parts } => ("user", parts.iter().map(part).collect()),
        Message::Assistant { parts } => ("assistant", parts.iter().map(reply_part).collect()),
        Message::Tool(result) => ("tool", response(result)),
    };
    json!({"role": role, "parts": parts})
}

fn text(content: &str) -> Value {
    json!({"type": "text", "content": content})
}

fn part(part: &Part) -> Value {
    let Some(source) = part.source() else {
        let Part::Text(content) = part else { return Value::Null };
        return text(content);
    };
    let modality = part.kind();
    match (source, source.to_base64()) {
        (_, Some((media_type, content))) => {
            json!({"type": "blob", "modality": modality, "mime_type": media_type, "content": content})
        }
        (Source::File { id, .. }, None) => {
            json!({"type": "file", "modality": modality, "file_id": id})
        }
        (Source::Url(uri), None) => json!({"type": "uri", "modality": modality, "uri": uri}),
        (Source::Bytes { .. }, None) => Value::Null,
    }
}

fn reply_part(part: &ReplyPart) -> Value {
    match part {
        ReplyPart::Text(content) => text(content),
        ReplyPart::Reasoning(reasoning) => {
            json!({"type": "reasoning", "content": reasoning.text})
        }
        ReplyPart::Call(call) => request(call),
        // Only its provider understands the rest, and reasoning in it may be encrypted.
        ReplyPart::Other(opaque) => json!({"type": opaque.provider}),
    }
}

/// The arguments are a value, as the convention asks, or the text that the model wrote.
fn request(call: &ToolCall) -> Value {
    let arguments = serde_json::from_str::<Map<String, Value>>(&call.arguments);
    let arguments = arguments.map_or_else(|_| Value::from(&*call.arguments), Value::Object);
    json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments})
}

fn response(result: &ToolResult) -> Value {
    let answer = json!({"type": "tool_call_response", "id": result.id, "response": result.text});
    std::iter::once(answer).chain(result.parts.iter().map(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Document, Image, Opaque, Reasoning};
    use crate::model::Finish;

    #[test]
    fn every_kind_of_part_has_the_form_of_the_convention() {
        let call = ToolCall::new("1", "look", r#"{"place": "here"}"#);
        let shot = Image::bytes("image/png", *b"png");
        let parts = [
            ReplyPart::text("Hm."),
            ReplyPart::Reasoning(Reasoning::new("openai", "Look first.", json!("secret"))),
            ReplyPart::Call(call.clone()),
            ReplyPart::Call(ToolCall::custom("2", "grep", "a|b")),
            ReplyPart::Other(Opaque::new("anthropic", json!({"type": "server_tool_use"}))),
        ];
        let user = Message::user_parts([
            Part::from("See:"),
            Image::url("https://example.com/a.png").into(),
            Document::file("openai", "file-1").into(),
        ]);
        let messages = [
            Message::system("Be kind."),
            user,
            Message::Assistant { parts: parts.to_vec() }.into(),
            Message::Tool(ToolResult::new(&call, "a door").with_parts([shot.into()])).into(),
        ];
        let messages = input(messages.iter().map(|message| &**message));
        insta::assert_snapshot!(messages.replace("},{", "},\n{"));

        let reply = Reply::new(parts).with_finish(Finish::Length);
        let reply: Value = serde_json::from_str(&output(&reply, "length")).unwrap();
        assert_eq!(
            (&reply[0]["role"], &reply[0]["finish_reason"]),
            (&json!("assistant"), &json!("length"))
        );
        assert_eq!(reply[0]["parts"].as_array().map(Vec::len), Some(5));
    }
}
