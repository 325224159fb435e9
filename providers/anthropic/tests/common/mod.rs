//! The server of `providers/tests/server.rs`, for models of this crate.

#[path = "../../../tests/bare_errors.rs"]
pub(crate) mod bare_errors;
#[path = "../../../tests/beside.rs"]
pub(crate) mod beside;
#[path = "../../../tests/server.rs"]
mod server;

pub(crate) use self::server::*;
use toolwright_anthropic::Anthropic;

const VERSION: &str = "/v1";

impl Server {
    /// A model of this server. Its name decides what it takes.
    pub(crate) fn model(&self, name: &str) -> Anthropic {
        Anthropic::at(&self.url, name).unwrap()
    }
}

/// A whole reply with the text `ok`.
pub(crate) fn ok() -> Answer {
    Answer::json(
        r#"{"type": "message", "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 1}}"#,
    )
}

/// A stream with the text `ok`.
pub(crate) fn ok_stream() -> String {
    events(&[
        r#"{"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 3, "output_tokens": 1}}}"#,
        r#"{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}"#,
        r#"{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}}"#,
        r#"{"type": "content_block_stop", "index": 0}"#,
        r#"{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}"#,
        r#"{"type": "message_stop"}"#,
    ])
}

/// Events as they are sent, without their names.
pub(crate) fn events(data: &[&str]) -> String {
    data.iter().map(|data| format!("data: {data}\n\n")).collect()
}
