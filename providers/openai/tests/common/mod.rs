//! The server of `providers/tests/server.rs`, for models of this crate.

#[path = "../../../tests/bare_errors.rs"]
pub(crate) mod bare_errors;
#[path = "../../../tests/beside.rs"]
pub(crate) mod beside;
#[path = "../../../tests/server.rs"]
mod server;

pub(crate) use self::server::*;
use toolwright_openai::{Api, OpenAi};

const VERSION: &str = "/v1";

pub(crate) const APIS: [Api; 2] = [Api::Chat, Api::Responses];

impl Server {
    pub(crate) fn model(&self, api: Api) -> OpenAi {
        OpenAi::at(&self.url, "test-model").unwrap().with_api(api)
    }
}

/// A whole reply with the text `ok`.
pub(crate) fn ok(api: Api) -> Answer {
    Answer::json(match api {
        Api::Chat => r#"{"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}"#,
        _ => {
            r#"{"status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": "ok"}]}]}"#
        }
    })
}

/// A stream with the text `ok`.
pub(crate) fn ok_stream(api: Api) -> String {
    match api {
        Api::Chat => concat!(
            "data: {\"choices\": [{\"delta\": {\"content\": \"o\"}}]}\n\n",
            "data: {\"choices\": [{\"delta\": {\"content\": \"k\"}, \"finish_reason\": \"stop\"}]}\n\n",
            "data: [DONE]\n\n",
        ),
        _ => concat!(
            "event: response.output_text.delta\n",
            "data: {\"type\": \"response.output_text.delta\", \"delta\": \"o\"}\n\n",
            "event: response.output_text.delta\n",
            "data: {\"type\": \"response.output_text.delta\", \"delta\": \"k\"}\n\n",
            "event: response.completed\n",
            "data: {\"type\": \"response.completed\", \"response\": {\"status\": \"completed\"}}\n\n",
        ),
    }
    .to_owned()
}
