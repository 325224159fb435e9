//! Faults of servers and networks. Each ends in the whole answer or in a typed error, in time.

use serde_json::{Value, json};
use toolwright_http::ErrorKind;
use toolwright_module::model::Finish;
use toolwright_module::{Error, Reply};
use toolwright_provider::ProviderError;

use super::hi;
use crate::Check;
use crate::script::{Saw, Script};
use crate::trial::{Mode, own};

const TEXT: &str = "A text that is longer than one piece.";

/// A fault, and how a call may end: `answer`, or the name of an error with its status.
struct Fault {
    name: &'static str,
    steps: Vec<Value>,
    whole: &'static [&'static str],
    streamed: &'static [&'static str],
}

const ANSWER: &[&str] = &["answer"];
/// A reply that was cut off. A provider may try again, but must not use the part.
const CUT: &[&str] = &["answer", "Truncated", "Transport"];
const NO_REPLY: &[&str] = &["Decoding", "Truncated", "Empty", "Reported"];
/// The server does not name the error's status within a stream.
const REPORTED: &[&str] = &["Reported"];

/// Returns a fault that has the same end in both modes.
fn both(name: &'static str, steps: Vec<Value>, ends: &'static [&'static str]) -> Fault {
    Fault { name, steps, whole: ends, streamed: ends }
}

fn faults() -> Vec<Fault> {
    let answer = || json!({"text": TEXT});
    let with = |fault: Value| json!({"text": TEXT, "fault": fault});
    let status = |status: u16| with(json!({"kind": "http", "status": status}));
    let body = |body: Value| with(json!({"kind": "http", "status": 200, "body": body}));
    let cut = |fault: Value| vec![with(fault), answer()];
    vec![
        both("status 400", vec![status(400)], &["Status 400"]),
        both("status 401", vec![status(401)], &["Status 401"]),
        both("status 403", vec![status(403)], &["Status 403"]),
        both("status 404", vec![status(404)], &["Status 404"]),
        both("status 413", vec![status(413)], &["Status 413"]),
        both("status 422", vec![status(422)], &["Status 422"]),
        both(
            "a redirect to another server",
            vec![with(
                json!({"kind": "http", "status": 307, "headers": {"location": "http://127.0.0.2:9/v1"}}),
            )],
            &["Status 307"],
        ),
        both("status 408, then success", vec![status(408), answer()], ANSWER),
        both("status 409, then success", vec![status(409), answer()], ANSWER),
        both("status 429, then success", vec![status(429), answer()], ANSWER),
        both(
            "status 429 with a pause, then success",
            vec![with(json!({"kind": "http", "status": 429, "retry_after": "1"})), answer()],
            ANSWER,
        ),
        both(
            "status 429 for an hour",
            vec![with(json!({"kind": "http", "status": 429, "retry_after": "3600"}))],
            &["Status 429"],
        ),
        both("status 500 and 503, then success", vec![status(500), status(503), answer()], ANSWER),
        both("status 529, then success", vec![status(529), answer()], ANSWER),
        both("status 500, again and again", vec![status(500); 8], &["Status 500"]),
        both(
            "the page of a proxy, then success",
            vec![with(json!({"kind": "html", "status": 502})), answer()],
            ANSWER,
        ),
        both(
            "the page of a proxy, again and again",
            vec![with(json!({"kind": "html", "status": 504})); 8],
            &["Status 504"],
        ),
        both(
            "a page with status 200",
            vec![with(json!({"kind": "html", "status": 200}))],
            NO_REPLY,
        ),
        both(
            "an error with status 200",
            vec![body(
                json!({"error": {"message": "No.", "code": 5, "type": "no", "status": "NO"}}),
            )],
            REPORTED,
        ),
        both("an empty body", vec![body(json!(""))], NO_REPLY),
        both("an empty object", vec![body(json!({}))], NO_REPLY),
        both("an empty list", vec![body(json!([]))], NO_REPLY),
        both("a word", vec![body(json!("null"))], NO_REPLY),
        both("a reset, then success", vec![with(json!({"kind": "reset"})), answer()], ANSWER),
        both(
            "a reset, again and again",
            vec![with(json!({"kind": "reset"})); 8],
            &["Transport", "Connect"],
        ),
        both("a reset in the answer", cut(json!({"kind": "reset_mid", "after": 4})), CUT),
        both("a cut answer", cut(json!({"kind": "truncate", "after": 4})), CUT),
        both(
            "an answer that is cut within an event",
            cut(json!({"kind": "truncate", "after": 4, "mid_event": true})),
            CUT,
        ),
        both(
            "an answer that ends without its last chunk",
            cut(json!({"kind": "truncate", "after": 4, "abrupt": true})),
            CUT,
        ),
        Fault {
            name: "half a body",
            steps: cut(json!({"kind": "bad_json"})),
            whole: &["answer", "Truncated", "Decoding"],
            streamed: ANSWER,
        },
        Fault {
            // After the first piece of text: before it, the request is made again.
            name: "an error in the stream",
            steps: vec![with(
                json!({"kind": "stream_error", "after": 5, "type": "overloaded_error"}),
            )],
            whole: ANSWER,
            streamed: REPORTED,
        },
        both("a stream without its end mark", vec![with(json!({"kind": "no_done"}))], ANSWER),
        both("silence", vec![with(json!({"kind": "hang", "ms": 20_000}))], &["Timeout"]),
        Fault {
            name: "silence in the answer",
            steps: vec![json!({"text": TEXT, "delay_ms": 20_000})],
            whole: ANSWER,
            streamed: &["Timeout"],
        },
        both("a late answer", vec![json!({"text": TEXT, "first_delay_ms": 500})], ANSWER),
        both("a slow answer", vec![json!({"text": TEXT, "delay_ms": 100})], ANSWER),
    ]
}

pub(crate) fn all() -> Vec<Script> {
    let scripts = faults().into_iter().map(|Fault { name, steps, whole, streamed }| {
        Script::new(format!("fault: {name}"), steps, move |trial| async move {
            let expected = match trial.mode {
                Mode::Whole => whole,
                Mode::Streamed => streamed,
            };
            let end = end(trial.ask(hi()).await?)?;
            match expected.contains(&&*end) {
                true => Ok(Saw::Works),
                false => {
                    Err(format!("it ends with {end}, expected {}", expected.join(" or ")).into())
                }
            }
        })
        .leaving_steps()
    });
    scripts.collect()
}

/// Returns how a call ended.
fn end(result: Result<Reply, Error>) -> Check<String> {
    let error = match result {
        Ok(reply) if reply.to_text() == TEXT && reply.finish == Finish::Stop => {
            return Ok("answer".to_owned());
        }
        Ok(reply) => return Ok(format!("another answer: {reply:?}")),
        Err(error) => error,
    };
    let word = match own(&error)? {
        ProviderError::Status { status, .. } => return Ok(format!("Status {status}")),
        ProviderError::Http { error, .. } => match error.kind() {
            ErrorKind::Connect { .. } => "Connect",
            ErrorKind::Transport => "Transport",
            ErrorKind::Silent { .. } => "Timeout",
            _ => return Ok(format!("another error: {error:#}")),
        },
        ProviderError::Reported { .. } => "Reported",
        ProviderError::Decoding { .. } => "Decoding",
        ProviderError::Truncated { .. } => "Truncated",
        ProviderError::Empty { .. } => "Empty",
        _ => return Ok(format!("another error: {error:#}")),
    };
    Ok(word.to_owned())
}
