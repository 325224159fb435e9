//! Images, documents and audio, of the user and of tools.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_module::message::{Audio, Document, Image, Part, ReplyPart, ToolResult};
use toolwright_module::{Message, Request, Signature, Tool, ToolCall, from_fn};

use crate::Check;
use crate::script::{Saw, Script};
use crate::trial::{Trial, own, same};

/// The smallest PNG: one pixel.
const PNG: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, 0x49, 0x48, 0x44, 0x52, 0, 0, 0,
    1, 0, 0, 0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89,
];
const PDF: &[u8] = b"%PDF-1.4\n%%EOF\n";
const IMAGE_URL: &str = "https://example.com/crab.png";
const PDF_URL: &str = "https://example.com/crab.pdf";

/// Take a photo.
#[derive(Serialize, Deserialize, JsonSchema)]
struct TakePhoto {
    place: String,
}

impl Signature for TakePhoto {
    type Output = String;
}

/// A part, and how it is found in a body.
type Sample = (&'static str, fn() -> Part, &'static str);

const SAMPLES: [Sample; 6] = [
    ("an image", || Image::bytes("image/png", PNG).into(), "iVBORw0KGgo"),
    ("an image by address", || Image::url(IMAGE_URL).into(), IMAGE_URL),
    ("a PDF", || Document::bytes("application/pdf", PDF).into(), "JVBERi0xLjQKJSVFT0YK"),
    ("a PDF by address", || Document::url(PDF_URL).into(), PDF_URL),
    // As text or in base64.
    ("a text document", || Document::bytes("text/plain", *b"Crab. Crab.").into(), "Crab"),
    ("audio", || Audio::bytes("audio/wav", *b"RIFF$\0\0\0WAVE").into(), "UklGRiQAAABXQVZF"),
];

pub(crate) fn all() -> Vec<Script> {
    let scripts = SAMPLES.into_iter().flat_map(|(name, part, found)| {
        let step = || [json!({"text": "A crab."})];
        [
            Script::new(name, step(), move |trial| async move {
                let request = Request::new([Message::user_parts([
                    "What is it?".into(),
                    part(),
                    "Say!".into(),
                ])]);
                send(&trial, request, part(), found).await
            })
            .leaving_steps(),
            Script::new(format!("{name} in a result"), step(), move |trial| async move {
                let tool = Tool::new(from_fn(async |_: TakePhoto| Ok(String::new())))?;
                let call = ToolCall::new("call_1", "take_photo", r#"{"place": "beach"}"#);
                let other = ToolCall::new("call_2", "take_photo", r#"{"place": "sea"}"#);
                let result = ToolResult::new(&call, "The photo.").with_parts([part()]);
                let calls = [ReplyPart::Call(call), ReplyPart::Call(other.clone())];
                let request = Request::new([
                    Message::user("What is there?"),
                    Message::Assistant { parts: calls.into() }.into(),
                    Message::Tool(result).into(),
                    Message::Tool(ToolResult::new(&other, "Nothing.")).into(),
                ]);
                let request = request.with_tools([Arc::clone(tool.contract())]);
                send(&trial, request, part(), found).await
            })
            .leaving_steps(),
        ]
    });
    scripts.collect()
}

/// Sends a request with a part. It must arrive, or be a typed error, or in a result a note.
async fn send(trial: &Trial, request: Request, part: Part, found: &str) -> Check<Saw> {
    let takes = trial.model.capabilities().takes(&part);
    match trial.ask(request).await? {
        Ok(_) => {
            let seen = trial.seen(1).await?;
            let body = seen.first().map(|seen| seen.body.to_string()).unwrap_or_default();
            if body.contains("is left out: this model does not read") {
                return Ok(Saw::Lacks("a note"));
            }
            // A text in base64 is not searched for: the server checks the form.
            let is_there = body.contains(found) || found == "Crab" && body.contains("Q3JhYi");
            same("whether the body has the part", is_there, true)?;
            match takes {
                true => Ok(Saw::Works),
                false => Err("the capabilities do not have it, but it is sent".into()),
            }
        }
        Err(error) => {
            own(&error)?;
            same("the number of requests", trial.seen(0).await?.len(), 0)?;
            // An address, or the place in a result, may be what the API does not take.
            Ok(Saw::Lacks("a typed error"))
        }
    }
}
