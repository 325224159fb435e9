//! The server of `providers/tests/server.rs`, for models of this crate.

#[path = "../../../tests/bare_errors.rs"]
pub(crate) mod bare_errors;
#[path = "../../../tests/beside.rs"]
pub(crate) mod beside;
#[path = "../../../tests/server.rs"]
mod server;

pub(crate) use self::server::*;
use toolwright_gemini::Gemini;

const VERSION: &str = "/v1beta";

impl Server {
    pub(crate) fn model(&self) -> Gemini {
        self.model_of("gemini-2.5-flash")
    }

    pub(crate) fn model_of(&self, name: &str) -> Gemini {
        Gemini::at(&self.url, name).unwrap()
    }
}

pub(crate) const OK: &str =
    r#"{"candidates": [{"content": {"parts": [{"text": "ok"}]}, "finishReason": "STOP"}]}"#;

/// A whole reply with the text `ok`.
pub(crate) fn ok() -> Answer {
    Answer::json(OK)
}

/// A stream with the text `ok`.
pub(crate) fn ok_stream() -> Answer {
    let events = concat!(
        "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"o\"}]}}]}\n\n",
        "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"k\"}]}, \"finishReason\": \"STOP\"}]}\n\n",
    );
    Answer::events(events, 64)
}
