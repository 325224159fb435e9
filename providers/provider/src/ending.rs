//! The words that say how a reply ended.
//!
//! Every API has its own words, and a gateway often sends those of another API, in another case or
//! with other separators. So there is one list for all providers, and `MAX_TOKENS`, `max-tokens` and
//! `maxTokens` are one word.

use serde_json::Value;
use toolwright_module::model::Finish;

/// The words for a reply that is whole.
const WHOLE: [&str; 11] = [
    "stop",
    "tool_calls",
    "tool_call",
    "tool_use",
    "function_call",
    "end_turn",
    "stop_sequence",
    "eos",
    "eos_token",
    "complete",
    "completed",
];

/// The words for a reply that reached a maximum of tokens.
const TOO_LONG: [&str; 4] = ["length", "max_tokens", "max_output_tokens", "model_length"];

/// The words for a reply that ended because the model's context was full.
const WINDOW_FULL: [&str; 3] =
    ["model_context_window_exceeded", "context_length_exceeded", "context_window_exceeded"];

/// The words for a reply that the model refused or its provider filtered.
const REFUSED: [&str; 14] = [
    "content_filter",
    "content_filtered",
    "refusal",
    "safety",
    "recitation",
    "blocklist",
    "prohibited_content",
    "spii",
    "model_armor",
    "image_safety",
    "image_prohibited_content",
    "image_recitation",
    "guardrail_intervened",
    "error_toxic",
];

/// The words for a reply that the server did not finish.
const UNFINISHED: [&str; 8] =
    ["queued", "in_progress", "cancelled", "canceled", "failed", "error", "abort", "aborted"];

/// Returns whether two words are one, whatever their case and the separators in them.
///
/// ```
/// use toolwright_provider::ending::is_same;
///
/// assert!(is_same("MAX_TOKENS", "max-tokens") && is_same("endTurn", "end_turn"));
/// assert!(!is_same("stop", "stop_sequence"));
/// ```
#[must_use]
pub fn is_same(word: &str, other: &str) -> bool {
    letters(word).eq(letters(other))
}

/// Returns a word without what two spellings of it differ in.
fn letters(word: &str) -> impl Iterator<Item = u8> {
    let letters = word.bytes().filter(|byte| !matches!(byte, b'_' | b'-' | b' '));
    letters.map(|byte| byte.to_ascii_lowercase())
}

fn is_in(word: &str, words: &[&str]) -> bool {
    words.iter().any(|known| is_same(word, known))
}

/// Converts a server's word for the end of a reply. An unknown word is [`Finish::Other`].
///
/// [`Finish::Paused`] is for the provider to decide, because only some APIs continue a reply.
///
/// ```
/// use toolwright_module::model::Finish;
/// use toolwright_provider::ending::finish;
///
/// assert_eq!([finish("STOP"), finish("End_Turn")], [Finish::Stop, Finish::Stop]);
/// assert_eq!(finish("MaxTokens"), Finish::Length);
/// assert_eq!(finish("network_error"), Finish::Other("network_error".to_owned()));
/// ```
#[must_use]
pub fn finish(word: &str) -> Finish {
    match () {
        () if is_in(word, &WHOLE) => Finish::Stop,
        () if is_in(word, &TOO_LONG) => Finish::Length,
        () if is_in(word, &REFUSED) => Finish::Refused,
        () => Finish::Other(word.to_owned()),
    }
}

/// Converts the reason of a reply whose server says that it is incomplete. The word of a whole reply does
/// not make it whole.
///
/// ```
/// use toolwright_module::model::Finish;
/// use toolwright_provider::ending::incomplete;
///
/// assert_eq!(incomplete("max_output_tokens"), Finish::Length);
/// assert_eq!(incomplete("stop"), Finish::Other("stop".to_owned()));
/// assert_eq!(incomplete(""), Finish::Other("incomplete".to_owned()));
/// ```
#[must_use]
pub fn incomplete(reason: &str) -> Finish {
    match finish(reason) {
        // The server does not say why.
        Finish::Other(reason) if reason.is_empty() => Finish::Other("incomplete".to_owned()),
        Finish::Stop => Finish::Other(reason.to_owned()),
        finish => finish,
    }
}

/// Returns whether a word means that the model's context was full. [`finish`] leaves it as it is,
/// because it is an error if the reply has no content; see [`complete_reply`](crate::complete_reply).
///
/// ```
/// use toolwright_provider::ending::is_window_full;
///
/// assert!(is_window_full("model_context_window_exceeded") && !is_window_full("max_tokens"));
/// ```
#[must_use]
pub fn is_window_full(word: &str) -> bool {
    is_in(word, &WINDOW_FULL)
}

/// Returns whether a word means that the server did not finish the reply, so that it must not be used.
///
/// ```
/// use toolwright_provider::ending::is_unfinished;
///
/// assert!(is_unfinished("ABORTED") && !is_unfinished("stop"));
/// ```
#[must_use]
pub fn is_unfinished(word: &str) -> bool {
    is_in(word, &UNFINISHED)
}

/// Returns whether the status of a reply, or of a call in it, says that it is whole. Most servers have
/// none, which is an empty word here.
///
/// ```
/// use toolwright_provider::ending::is_whole;
///
/// assert!(is_whole("") && is_whole("Completed") && !is_whole("incomplete"));
/// ```
#[must_use]
pub fn is_whole(status: &str) -> bool {
    is_in(status, &["", "completed", "complete", "succeeded", "success"])
}

/// Returns whether a word means that the reply ended for a call.
#[must_use]
pub fn is_for_calls(word: &str) -> bool {
    is_in(word, &["tool_calls", "tool_call", "tool_use", "function_call"])
}

/// Returns whether a choice of Chat Completions may have ended inside a call, although its finish
/// reason says that the reply is whole.
///
/// A stop text of the request may end a call anywhere. `native` is `native_finish_reason`, in which
/// gateways such as OpenRouter send the word of the model's own server. An unknown word there does not
/// show that a call is whole. `stops` are the fields in which vLLM (`stop_reason`) and SGLang
/// (`matched_stop`) send the stop text; a number is a token at a normal end.
///
/// ```
/// use serde_json::{Value, json};
/// use toolwright_provider::ending::may_cut_calls;
///
/// assert!(may_cut_calls("tool_calls", "MAX_TOKENS", []));
/// assert!(may_cut_calls("stop", "", [&json!("</answer>")]));
/// assert!(!may_cut_calls("stop", "STOP", [&Value::Null, &json!("<|im_end|>")]));
/// ```
#[must_use]
pub fn may_cut_calls<'a>(
    word: &str,
    native: &str,
    stops: impl IntoIterator<Item = &'a Value>,
) -> bool {
    // Some servers send another word for the finish reason there, or the text of a token that ends
    // every reply.
    let is_stop_text = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        !text.is_empty() && !text.starts_with("<|") && finish(text) != Finish::Stop
    };
    let is_whole = |word: &str| finish(word) == Finish::Stop && !is_same(word, "stop_sequence");
    is_same(word, "stop_sequence")
        || !native.is_empty() && !is_whole(native)
        || stops.into_iter().any(is_stop_text)
}
