//! Parts for crates that bring a model: write a provider.
//!
//! A provider implements [`LanguageModel`](crate::LanguageModel). It converts a
//! [`Request`](crate::Request) to a body, sends it, and converts what the server sends to a
//! [`Reply`](crate::Reply). `toolwright-http` has the transport. This module has what needs the
//! types of a conversation, so that all providers agree on it. Most of it is behind the feature
//! `provider`:
//!
//! | to | use |
//! |---|---|
//! | hold the address, the key, retries and limits | `Connection`, `from_env` |
//! | write a request's body, with what was written before | `JsonBody`, `Kept`, `KeptTools` |
//! | send an id of another provider, or the name of a tool that does not exist | [`portable_id`], [`portable_name`] |
//! | read a whole reply, or the events of a streamed one | `read_whole`, `Decoder` |
//! | report an error | `ProviderError` |
//! | send arguments that are not an object | [`object_of`] |
//! | send images of a result as a user message | [`parts_of`] |
//! | send messages in an order that every server accepts | `order` |
//! | build a reply from streamed pieces, and report them | `ReplyParts`, `Deltas` |
//! | separate a model's thoughts from its content, and send them back | `ReplyParts::content`, `in_content` |
//! | make the usage of a server's counts | `Counts` |
//! | stream from a server that does not stream | `deltas_of` |
//! | add ids and arguments that a server leaves out | `complete_calls` |
//! | deserialize what a server should not have sent | `lenient` |
#![cfg_attr(
    feature = "provider",
    doc = r#"
A stream of pieces becomes deltas and a reply:

```
use toolwright_module::Reply;
use toolwright_module::model::{Delta, Finish};
use toolwright_module::provider::{Deltas, ReplyParts, complete_calls};

let (mut parts, mut deltas) = (ReplyParts::default(), Deltas::default());
parts.text("It ".to_owned(), &mut deltas);
parts.text("rains.".to_owned(), &mut deltas);
let call = parts.begin_call();
let (id, name) = (String::new(), "close_window".to_owned());
parts.extend_call(call, id, name, String::new(), &mut deltas);
assert_eq!(deltas.pop(), Some(Delta::Text("It ".to_owned())));

let finish = Finish::Stop;
let parts = complete_calls(parts.take(), 3, &finish)?;
let reply = Reply::new(parts).with_finish(finish);
let calls: Vec<_> = reply.tool_calls().collect();
assert_eq!((calls[0].id.as_str(), calls[0].arguments.as_str()), ("call_3_1", "{}"));
# Ok::<(), Box<dyn std::error::Error>>(())
```
"#
)]

#[cfg(feature = "provider")]
mod connection;
#[cfg(feature = "provider")]
mod content;
#[cfg(feature = "provider")]
mod counts;
#[cfg(feature = "provider")]
mod error;
#[cfg(feature = "provider")]
mod json_body;
#[cfg(feature = "provider")]
mod kept;
#[cfg(feature = "provider")]
pub mod lenient;
#[cfg(feature = "provider")]
pub mod order;
#[cfg(feature = "provider")]
mod reply_parts;
#[cfg(feature = "provider")]
mod retry_info;
#[cfg(feature = "provider")]
mod streaming;

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::json;
use toolwright_signature::{has_lost_half, readable_json};

use crate::message::ReplyPart;
use crate::stable_hash::stable_hash;

#[cfg(feature = "provider")]
pub use self::connection::{Connection, from_env, mark_lost_halves, read_whole};
#[cfg(feature = "provider")]
pub use self::content::in_content;
#[cfg(feature = "provider")]
pub use self::counts::Counts;
#[cfg(feature = "provider")]
pub use self::error::ProviderError;
#[cfg(feature = "provider")]
pub use self::json_body::JsonBody;
#[cfg(feature = "provider")]
pub use self::kept::{Kept, KeptTools};
#[cfg(feature = "provider")]
pub use self::reply_parts::{Deltas, NamelessCall, ReplyParts, complete_calls, deltas_of};
#[cfg(feature = "provider")]
pub use self::streaming::{Decoder, Reader};

/// Marks all calls as [`incomplete`](crate::ToolCall::incomplete), for a reply whose text is complete and
/// whose calls may not be. For an incomplete reply,
/// [`Reply::with_finish`](crate::Reply::with_finish) does it.
pub fn mark_incomplete(parts: &mut [ReplyPart]) {
    for part in parts {
        if let ReplyPart::Call(call) = part {
            call.incomplete = true;
        }
    }
}

/// Returns the JSON object to send in place of arguments that are not an object. Returns `None` if
/// they are one.
///
/// Some servers fail on any other arguments. The model can still read what it wrote.
///
/// ```
/// use toolwright_module::provider::object_of;
///
/// assert_eq!(object_of(r#"{"a": 1}"#), None);
/// assert_eq!(object_of("").as_deref(), Some("{}"));
/// assert_eq!(object_of("[1").as_deref(), Some(r#"{"invalid_arguments":"[1"}"#));
/// // Half of a character is not JSON for every server.
/// assert!(object_of(r#"{"a": "\ud83d"}"#).unwrap().contains("invalid_arguments"));
/// ```
#[must_use]
pub fn object_of(arguments: &str) -> Option<Cow<'static, str>> {
    let text = arguments.trim();
    if text.is_empty() {
        Some(Cow::Borrowed("{}"))
    } else if text.starts_with('{')
        && serde_json::from_str::<IgnoredAny>(text).is_ok()
        && !(text.contains("\\u") && has_lost_half(&readable_json(text.as_bytes())))
    {
        None
    } else {
        Some(Cow::Owned(json!({"invalid_arguments": arguments}).to_string()))
    }
}

/// Returns an id in the form that every provider accepts: at most `most` letters, digits, `_` and
/// `-`. An id that has another form, because it comes from another provider, becomes a hash of it.
///
/// ```
/// use toolwright_module::provider::portable_id;
///
/// assert_eq!(portable_id("call_1", 64), "call_1");
/// assert_eq!(portable_id("functions.look:0", 64), portable_id("functions.look:0", 64));
/// assert!(portable_id("functions.look:0", 64).starts_with("call_"));
/// ```
#[must_use]
pub fn portable_id(id: &str, most: usize) -> Cow<'_, str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    match !id.is_empty() && id.len() <= most && id.bytes().all(fits) {
        true => Cow::Borrowed(id),
        false => Cow::Owned(format!("call_{:032x}", stable_hash([id]))),
    }
}

/// Returns the name of a called tool in the form that most providers accept: at most `most` letters,
/// digits, `_` and `-`. Other characters become `_`. Only a call of a tool that does not exist has
/// such a name, because contracts refuse it.
///
/// ```
/// use toolwright_module::provider::portable_name;
///
/// assert_eq!(portable_name("read_file", 64), "read_file");
/// assert_eq!(portable_name("files.read:all", 64), "files_read_all");
/// ```
#[must_use]
pub fn portable_name(name: &str, most: usize) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if (1..=most).contains(&name.len()) && name.chars().all(fits) {
        return Cow::Borrowed(name);
    }
    let name = name.chars().take(most).map(|c| if fits(c) { c } else { '_' });
    let name: String = name.collect();
    Cow::Owned(if name.is_empty() { "_".to_owned() } else { name })
}

/// Returns the text before the images and documents of a call's result, for APIs that accept them
/// only in a user message.
///
/// ```
/// use toolwright_module::provider::parts_of;
///
/// assert_eq!(parts_of("call_1"), "Images and documents of the result of call call_1:");
/// ```
#[must_use]
pub fn parts_of(call: &str) -> String {
    format!("Images and documents of the result of call {call}:")
}

/// Returns a name for a file without one, for APIs that require it. Its ending is the usual one of
/// the media type, because some servers choose how to read a file by that.
///
/// ```
/// use toolwright_module::provider::file_name;
///
/// assert_eq!(file_name("application/pdf"), "file.pdf");
/// assert_eq!(file_name("text/plain; charset=utf-8"), "file.txt");
/// assert_eq!(file_name("application/vnd.unknown"), "file.bin");
/// ```
#[must_use]
pub fn file_name(media_type: &str) -> String {
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    format!("file.{}", ending_of(&media_type))
}

/// Returns the ending of a file of a media type in lower case. The name of a registered format
/// (`application/json`) or of its syntax (`application/vnd.api+json`) is an ending; others are in the
/// list, or have the ending for any bytes.
fn ending_of(media_type: &str) -> &str {
    let known = ENDINGS.iter().find(|(_, types)| types.contains(&media_type));
    if let Some((ending, _)) = known {
        return ending;
    }
    let (kind, name) = media_type.split_once('/').unwrap_or(("", media_type));
    let name = name.rsplit_once('+').map_or(name, |(_, syntax)| syntax);
    let name = name.strip_prefix("x-").unwrap_or(name);
    let is_ending =
        (1..=8).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric());
    match kind {
        _ if is_ending => name,
        "text" => "txt",
        _ => "bin",
    }
}

/// The endings of files whose media type does not have them.
#[rustfmt::skip]
const ENDINGS: &[(&str, &[&str])] = &[
    ("bin", &["application/octet-stream", "binary/octet-stream"]),
    ("bmp", &["image/x-ms-bmp"]),
    ("c", &["text/x-c", "text/x-csrc"]),
    ("cpp", &["text/x-c++", "text/x-c++src"]),
    ("cs", &["text/x-csharp"]),
    ("csv", &["application/csv", "text/comma-separated-values"]),
    ("doc", &["application/msword"]),
    ("docx", &["application/vnd.openxmlformats-officedocument.wordprocessingml.document"]),
    ("eml", &["message/rfc822"]),
    ("epub", &["application/epub+zip"]),
    ("gz", &["application/gzip", "application/x-gzip"]),
    ("html", &["application/xhtml+xml"]),
    ("ico", &["image/vnd.microsoft.icon", "image/x-icon"]),
    ("ics", &["text/calendar"]),
    ("java", &["text/x-java", "text/x-java-source"]),
    ("jpg", &["image/jpeg", "image/pjpeg"]),
    ("js", &["application/javascript", "application/x-javascript", "text/javascript"]),
    ("jsonl", &["application/jsonlines", "application/x-ndjson"]),
    ("kt", &["text/x-kotlin"]),
    ("m4a", &["audio/mp4", "audio/x-m4a"]),
    ("md", &["text/markdown", "text/x-markdown"]),
    ("mov", &["video/quicktime"]),
    ("mp3", &["audio/mpeg", "audio/mpeg3", "audio/x-mpeg-3"]),
    ("mpg", &["video/mpeg"]),
    ("odp", &["application/vnd.oasis.opendocument.presentation"]),
    ("ods", &["application/vnd.oasis.opendocument.spreadsheet"]),
    ("odt", &["application/vnd.oasis.opendocument.text"]),
    ("php", &["application/x-httpd-php", "text/x-php"]),
    ("ppt", &["application/vnd.ms-powerpoint"]),
    ("pptx", &["application/vnd.openxmlformats-officedocument.presentationml.presentation"]),
    ("py", &["text/x-python", "application/x-python", "application/x-python-code"]),
    ("rb", &["text/x-ruby", "application/x-ruby"]),
    ("rs", &["text/rust", "text/x-rust"]),
    ("rtf", &["text/richtext"]),
    ("sh", &["application/x-sh", "application/x-shellscript", "text/x-sh", "text/x-shellscript"]),
    ("svg", &["image/svg+xml"]),
    ("tex", &["application/x-tex", "application/x-latex", "text/x-tex"]),
    ("tif", &["image/tiff"]),
    ("ts", &["application/typescript", "application/x-typescript", "text/x-typescript"]),
    ("tsv", &["text/tab-separated-values"]),
    ("txt", &["text/plain"]),
    ("wav", &["audio/vnd.wave", "audio/wave", "audio/x-pn-wav"]),
    ("xls", &["application/vnd.ms-excel"]),
    ("xlsx", &["application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"]),
    ("yaml", &["application/vnd.yaml"]),
    ("zip", &["application/x-zip-compressed"]),
];

/// Returns whether the text is `{}`, which some servers send before the arguments.
#[must_use]
pub fn is_empty_object(text: &str) -> bool {
    let inside = text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    inside.is_some_and(|inside| inside.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn a_file_has_the_ending_of_its_media_type() {
        const OFFICE: &str = "application/vnd.openxmlformats-officedocument";
        let types = [
            (&*format!("{OFFICE}.wordprocessingml.document"), "docx"),
            (&format!("{OFFICE}.spreadsheetml.sheet"), "xlsx"),
            (&format!("{OFFICE}.presentationml.presentation"), "pptx"),
            ("application/msword", "doc"),
            ("application/vnd.ms-excel", "xls"),
            ("application/vnd.oasis.opendocument.text", "odt"),
            ("application/vnd.unknown.format", "bin"),
            ("application/octet-stream", "bin"),
            ("application/vnd.api+json", "json"),
            ("application/x-tar", "tar"),
            ("image/svg+xml", "svg"),
            ("image/JPEG", "jpg"),
            ("text/plain; charset=utf-8", "txt"),
            ("text/markdown", "md"),
            ("text/x-python", "py"),
            ("text/x-something-long", "txt"),
            ("text/csv", "csv"),
            ("audio/mpeg", "mp3"),
            ("", "bin"),
            ("../../etc/passwd", "bin"),
        ];
        for (media_type, ending) in types {
            assert_eq!(file_name(media_type), format!("file.{ending}"), "{media_type}");
        }
    }
}
