//! [`Incoming`], a server's message as far as it can be read.

use rmcp::RoleClient;
use rmcp::model::{ContentBlock, ErrorCode, JsonRpcMessage, MetaObject, RequestId, ServerResult};
use rmcp::service::RxJsonRpcMessage;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use toolwright_signature::{check_fields_once, readable_json};

use crate::exact::has_rounded_integers;
use crate::lines::{MessageScanner, messages, trimmed};
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
    /// Reads the messages of a line or a body. There is more than one if a server forgets the line
    /// break between them, and in a batch, which one older revision allows.
    pub(crate) fn read_all(text: &[u8]) -> Vec<Self> {
        let read = |text: &[u8]| match batch(text) {
            Some(messages) => messages.iter().map(|one| Self::read(one.get().as_bytes())).collect(),
            None => vec![Self::read(text)],
        };
        messages(text).into_iter().flat_map(read).collect()
    }

    /// Reads a message.
    ///
    /// Text that is not Unicode is replaced. A response that cannot be read otherwise becomes the
    /// error of its request, so that the request does not wait until its timeout.
    pub(crate) fn read(text: &[u8]) -> Self {
        let text = trimmed(text);
        if let Ok(message) = serde_json::from_slice(text)
            && is_complete(&message, text)
        {
            return Self::Message(Box::new(exact(message, text)));
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
        complete(&mut value, &readable);
        let id = value.get("id").filter(|_| value.get("method").is_none()).cloned();
        match serde_json::from_value(value) {
            Ok(message) => Self::Message(Box::new(exact(message, readable.as_bytes()))),
            Err(_) => Self::error(id),
        }
    }

    /// Returns the error for a message of which only the id is known.
    pub(crate) fn unreadable(scan: &MessageScanner) -> Self {
        Self::error(scan.id().filter(|_| !scan.has_method()))
    }

    fn error(id: Option<Value>) -> Self {
        match id.and_then(|id| serde_json::from_value::<RequestId>(id).ok()) {
            Some(id) => Self::Message(Box::new(malformed(id, None))),
            None => Self::Ignored,
        }
    }
}

/// Returns the error response for a request whose response cannot be read, with the fault if it is
/// known.
pub(crate) fn malformed(id: RequestId, fault: Option<&str>) -> RxJsonRpcMessage<RoleClient> {
    RxJsonRpcMessage::<RoleClient>::error(malformed_response(fault), Some(id))
}

/// Returns the id of the request that a message responds to.
pub(crate) fn responds_to(message: &RxJsonRpcMessage<RoleClient>) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}

/// Returns the messages of a batch, if the text is one.
fn batch(text: &[u8]) -> Option<Vec<Box<RawValue>>> {
    if !trimmed(text).starts_with(b"[") {
        return None;
    }
    let messages: Vec<Box<RawValue>> = serde_json::from_str(&readable_json(trimmed(text))).ok()?;
    messages.iter().any(|message| message.get().contains("\"jsonrpc\"")).then_some(messages)
}

/// The key in the metadata of a call result for the JSON of its structured value, if that has integers
/// that rmcp rounds. The metadata passes through rmcp.
pub(crate) const EXACT_VALUE: &str = "toolwright/exactValue";

/// The key in the metadata of a tool in a list for the fault of its definition. The metadata passes
/// through rmcp.
pub(crate) const FAULT: &str = "toolwright/fault";

/// Returns a message without a loss. If a call result gives a field twice, it is the error of its
/// request, because it is not clear which one is meant. In a list of tools, only the tools that do
/// are marked.
fn exact(mut message: RxJsonRpcMessage<RoleClient>, text: &[u8]) -> RxJsonRpcMessage<RoleClient> {
    let JsonRpcMessage::Response(response) = &mut message else { return message };
    let is_call = matches!(response.result, ServerResult::CallToolResult(_));
    let has_tools = match &response.result {
        ServerResult::ListToolsResult(_) => true,
        ServerResult::CustomResult(page) => page.0.get("tools").is_some(),
        _ => false,
    };
    if (is_call || has_tools)
        && let Some(fault) = twice(text)
    {
        let is_marked = has_tools && mark_tools(&mut response.result, text);
        if !is_marked {
            return malformed(response.id.clone(), Some(&fault));
        }
    }
    with_exact_value(message, text)
}

/// Returns the fault of a JSON text that gives a field twice.
fn twice(text: &[u8]) -> Option<String> {
    let error = check_fields_once(text, &[]).err().filter(serde_json::Error::is_data)?;
    // The rest is advice for who wrote it, and the place in the message.
    error.to_string().split(';').next().map(str::to_owned)
}

/// Marks the tools of a list that give a field twice. Returns `false` if something else in the message
/// does, too.
fn mark_tools(result: &mut ServerResult, text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Response<'a> {
        #[serde(borrow)]
        result: Page<'a>,
    }
    #[derive(Deserialize)]
    struct Page<'a> {
        #[serde(borrow)]
        tools: Vec<&'a RawValue>,
    }
    let Ok(text) = str::from_utf8(text) else { return false };
    let Ok(Response { result: Page { tools } }) = serde_json::from_str(text) else { return false };
    // The message without the tools that are marked. The tools are slices of its text.
    let (mut rest, mut copied) = (String::new(), 0);
    for (place, tool) in tools.iter().enumerate() {
        let Some(fault) = twice(tool.get().as_bytes()) else { continue };
        let at = tool.get().as_ptr().addr() - text.as_ptr().addr();
        rest += text.get(copied..at).unwrap_or_default();
        rest += "null";
        copied = at + tool.get().len();
        match result {
            ServerResult::ListToolsResult(page) => {
                if let Some(tool) = page.tools.get_mut(place)
                    && let Ok(meta) = serde_json::from_value::<MetaObject>(json!({ FAULT: fault }))
                {
                    tool.meta.get_or_insert_default().extend(meta);
                }
            }
            ServerResult::CustomResult(page) => {
                let tool = page.0.pointer_mut(&format!("/tools/{place}"));
                if let Some(tool) = tool.and_then(Value::as_object_mut) {
                    tool.insert("_meta".to_owned(), json!({ FAULT: fault }));
                }
            }
            _ => return false,
        }
    }
    rest += text.get(copied..).unwrap_or_default();
    twice(rest.as_bytes()).is_none()
}

/// The result of a response as it is written.
#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    result: &'a RawValue,
}

/// Adds the structured value of a call result as its JSON, if it has integers that rmcp rounds.
fn with_exact_value(
    mut message: RxJsonRpcMessage<RoleClient>,
    text: &[u8],
) -> RxJsonRpcMessage<RoleClient> {
    #[derive(Deserialize)]
    struct Result<'a> {
        #[serde(borrow, rename = "structuredContent")]
        structured_content: &'a RawValue,
    }
    let JsonRpcMessage::Response(response) = &mut message else { return message };
    let ServerResult::CallToolResult(result) = &mut response.result else { return message };
    // A server that sends the key itself would give the value another meaning.
    if let Some(meta) = &mut result.meta {
        meta.remove(EXACT_VALUE);
    }
    if result.structured_content.is_some()
        && has_rounded_integers(text)
        && let Ok(response) = serde_json::from_slice::<Response<'_>>(text)
        && let Ok(raw) = serde_json::from_str::<Result<'_>>(response.result.get())
        && has_rounded_integers(raw.structured_content.get().as_bytes())
    {
        let exact = json!({ EXACT_VALUE: raw.structured_content.get() });
        if let Ok(exact) = serde_json::from_value::<MetaObject>(exact) {
            result.meta.get_or_insert_default().extend(exact);
        }
    }
    message
}

/// The name of `isError` in Python. Servers write it if they do not ask for the names of the protocol.
const IS_ERROR: &str = "is_error";

/// Returns whether rmcp read the whole message. It does not know a result that lacks a required field,
/// and ignores fields with other names.
fn is_complete(message: &RxJsonRpcMessage<RoleClient>, text: &[u8]) -> bool {
    let JsonRpcMessage::Response(response) = message else { return true };
    match response.result {
        ServerResult::CustomResult(_) => false,
        ServerResult::CallToolResult(_) => {
            memchr::memmem::find(text, IS_ERROR.as_bytes()).is_none()
        }
        _ => true,
    }
}

/// Adds what some servers leave out, and removes what does not belong to a response. `text` is the JSON
/// of the message.
fn complete(message: &mut Value, text: &str) {
    let Some(message) = message.as_object_mut() else { return };
    for name in ["error", "result"] {
        if message.get(name).is_some_and(Value::is_null) && message.len() > 1 {
            message.remove(name);
        }
    }
    if let Some(error) = message.get_mut("error") {
        complete_error(error);
        // The error is the safer one of both.
        message.remove("result");
    }
    if let Some(Value::Object(result)) = message.get_mut("result")
        && (result.contains_key("content") || result.contains_key(IS_ERROR))
    {
        complete_call(result, &raw_blocks(text));
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

/// Gives an error a code and a message, so that its text reaches the model.
fn complete_error(error: &mut Value) {
    let text = match &*error {
        Value::String(text) => text.clone(),
        error => match error.get("message").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => error.to_string(),
        },
    };
    let is_code = |code: &i64| i32::try_from(*code).is_ok();
    let code = error.get("code").and_then(Value::as_i64).filter(is_code);
    let data = error.get("data").cloned();
    *error = json!({"code": code.unwrap_or(ErrorCode::INTERNAL_ERROR.0.into()), "message": text});
    if let Some(data) = data {
        error["data"] = data;
    }
}

/// Gives the result of a call the form that rmcp reads. A block of an unknown kind becomes its JSON.
/// `raw` has the list of blocks as the server wrote it, if it is a list.
fn complete_call(result: &mut Map<String, Value>, raw: &[&RawValue]) {
    let blocks = match result.remove("content") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(blocks)) => blocks,
        Some(block) => vec![block],
    };
    let blocks = blocks.into_iter().enumerate().map(|(place, block)| match block {
        Value::String(text) => json!({"type": "text", "text": text}),
        block if ContentBlock::deserialize(&block).is_ok() => block,
        block => match raw.get(place).map(|raw| raw.get()) {
            Some(raw) if has_rounded_integers(raw.as_bytes()) => {
                json!({"type": "text", "text": raw})
            }
            _ => json!({"type": "text", "text": block.to_string()}),
        },
    });
    result.insert("content".to_owned(), blocks.collect());
    if let Some(is_error) = result.remove(IS_ERROR) {
        result.entry("isError").or_insert(is_error);
    }
    if let Some(is_error) = result.get_mut("isError") {
        // Of a value in another form, a failure is the safer reading.
        *is_error = json!(match &*is_error {
            Value::Bool(is_error) => *is_error,
            Value::Null => false,
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::String(word) => {
                let word = word.trim().to_ascii_lowercase();
                !["", "false", "no", "0", "null", "none"].contains(&&*word)
            }
            Value::Array(_) | Value::Object(_) => true,
        });
    }
    if result.get("_meta").is_some_and(|meta| !meta.is_object()) {
        result.remove("_meta");
    }
}

/// Returns the blocks of a call result as they are written in the JSON of the message.
fn raw_blocks(text: &str) -> Vec<&RawValue> {
    #[derive(Deserialize)]
    struct Result<'a> {
        #[serde(borrow)]
        content: Vec<&'a RawValue>,
    }
    let response = serde_json::from_str::<Response<'_>>(text);
    let result = response.and_then(|response| serde_json::from_str(response.result.get()));
    result.map(|result: Result<'_>| result.content).unwrap_or_default()
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

    #[test]
    fn a_line_or_a_body_may_have_several_messages() {
        let message = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
        let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
        for (text, count) in [
            (format!("[{message}]"), 1),
            (format!("[{note}, {message}]"), 2),
            (format!("{note}{message}"), 2),
            (format!("{message}\n{note}\n"), 2),
            (format!("[\n{message},\n{note}\n]"), 2),
        ] {
            let read = Incoming::read_all(text.as_bytes());
            let messages = read.iter().filter(|read| matches!(read, Incoming::Message(_)));
            assert_eq!((messages.count(), read.len()), (count, count), "{text}");
        }
        assert!(matches!(Incoming::read_all(b"[1, 2]")[..], [Incoming::Ignored]));
    }
}
