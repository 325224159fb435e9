//! [`Incoming`], a server's message as far as it can be read.

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, RequestId, ServerResult};
use rmcp::service::RxJsonRpcMessage;
use serde_json::{Value, json};
use toolwright_signature::readable_json;

use crate::lines::{MessageScanner, trimmed};
use crate::mcp_client::session::malformed_response;

/// A message of a server.
pub(crate) enum Incoming {
    Message(Box<RxJsonRpcMessage<RoleClient>>),
    /// Text that is not a message, such as a log line.
    Ignored,
    /// A JSON-RPC message that is not valid JSON, and whose id cannot be found.
    Nameless,
}

impl Incoming {
    /// Reads a message.
    ///
    /// Text that is not Unicode is replaced. A response that cannot be read otherwise becomes the
    /// error of its request, so that the request does not wait until its timeout.
    pub(crate) fn read(text: &[u8]) -> Self {
        let text = trimmed(text);
        if let Ok(message) = serde_json::from_slice(text)
            && !is_unknown(&message)
        {
            return Self::Message(Box::new(message));
        }
        let readable = readable_json(text);
        let Ok(mut value) = serde_json::from_str::<Value>(&readable) else {
            let scan = MessageScanner::of(text);
            let is_message = memchr::memmem::find(text, b"\"jsonrpc\"").is_some();
            return match Self::unreadable(&scan) {
                Self::Ignored if is_message && text.starts_with(b"{") && !scan.has_method() => {
                    Self::Nameless
                }
                incoming => incoming,
            };
        };
        complete(&mut value);
        let id = value.get("id").filter(|_| value.get("method").is_none()).cloned();
        match serde_json::from_value(value) {
            Ok(message) => Self::Message(Box::new(message)),
            Err(_) => Self::error(id),
        }
    }

    /// Returns the error for a message of which only the id is known.
    pub(crate) fn unreadable(scan: &MessageScanner) -> Self {
        Self::error(scan.id().filter(|_| !scan.has_method()))
    }

    fn error(id: Option<Value>) -> Self {
        match id.and_then(|id| serde_json::from_value::<RequestId>(id).ok()) {
            Some(id) => Self::Message(Box::new(malformed(id))),
            None => Self::Ignored,
        }
    }
}

/// Returns the error response for a request whose response cannot be read.
pub(crate) fn malformed(id: RequestId) -> RxJsonRpcMessage<RoleClient> {
    RxJsonRpcMessage::<RoleClient>::error(malformed_response(), Some(id))
}

/// Returns the id of the request that a message responds to.
pub(crate) fn responds_to(message: &RxJsonRpcMessage<RoleClient>) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}

/// Returns whether rmcp does not know the result, which may lack a required field.
fn is_unknown(message: &RxJsonRpcMessage<RoleClient>) -> bool {
    matches!(
        message,
        JsonRpcMessage::Response(response) if matches!(response.result, ServerResult::CustomResult(_))
    )
}

/// Adds what some servers leave out, and removes what does not belong to a response.
fn complete(message: &mut Value) {
    let Some(message) = message.as_object_mut() else { return };
    for name in ["error", "result"] {
        if message.get(name).is_some_and(Value::is_null) && message.len() > 1 {
            message.remove(name);
        }
    }
    if let Some(Value::Object(result)) = message.get_mut("result")
        && result.contains_key("protocolVersion")
        && result.contains_key("capabilities")
    {
        let has_name = result.get("serverInfo").is_some_and(|info| info["name"].is_string());
        if !has_name {
            result.insert("serverInfo".to_owned(), json!({"name": "", "version": ""}));
        } else if let Some(info) = result.get_mut("serverInfo")
            && !info["version"].is_string()
        {
            info["version"] = json!("");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> String {
        match Incoming::read(text) {
            Incoming::Message(message) => serde_json::to_string(&message).unwrap(),
            Incoming::Ignored => "ignored".to_owned(),
            Incoming::Nameless => "nameless".to_owned(),
        }
    }

    #[test]
    fn text_that_is_not_unicode_is_replaced() {
        for text in [
            &br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a\ud83d"}]}}"#[..],
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\xff\"}]}}",
        ] {
            assert!(read(text).contains("a\u{fffd}"), "{}", read(text));
        }
        let nul = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\0\"}]}}";
        assert!(read(nul).contains(r"a\u0000"), "{}", read(nul));
    }

    #[test]
    fn a_response_that_cannot_be_read_is_the_error_of_its_request() {
        let deep = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{}1"#, "[".repeat(500));
        for text in [
            &*deep,
            r#"{"jsonrpc":"2.0","id":7,"result":{oops}}"#,
            r#"{"jsonrpc":"2.0","result":{"#,
        ] {
            let read = read(text.as_bytes());
            let is_error = read.contains(r#""id":7"#) && read.contains("malformed");
            assert!(is_error || read == "nameless", "{read}");
        }
        for text in ["{starting}", "Hello!", r#"{"level":"info","msg":"started"}"#, "", "[1]"] {
            assert_eq!(read(text.as_bytes()), "ignored", "{text}");
        }
    }

    #[test]
    fn fields_that_servers_add_or_leave_out_are_no_faults() {
        let text = br#"{"jsonrpc":"2.0","id":1,"error":null,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}"#;
        let Incoming::Message(message) = Incoming::read(text) else { panic!("not a message") };
        assert!(
            matches!(
                &*message,
                JsonRpcMessage::Response(response)
                    if matches!(response.result, ServerResult::InitializeResult(_))
            ),
            "{message:?}"
        );
    }
}
