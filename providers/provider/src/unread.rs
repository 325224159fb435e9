//! The images, documents and sounds of results that a model cannot read.
//!
//! A tool may return anything, and its result stays in the conversation. If a provider refused the
//! request, every further request of the run would fail, too. So the model gets a note instead. A
//! task's part is refused, because its program can change it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use toolwright_module::message::{Part, Source, ToolResult};
use toolwright_module::{Message, Request};

/// The media types of images that all APIs read.
pub const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Returns which of these media types this one is, whatever its case and parameters.
///
/// ```
/// use toolwright_provider::unread::{IMAGES, type_in};
///
/// assert_eq!(type_in("IMAGE/PNG; charset=binary", &IMAGES), Some("image/png"));
/// assert_eq!(type_in("image/jpg", &IMAGES), Some("image/jpeg"));
/// assert_eq!(type_in("image/svg+xml", &IMAGES), None);
/// ```
#[must_use]
pub fn type_in<'t>(media_type: &str, types: &[&'t str]) -> Option<&'t str> {
    let name = media_type.split(';').next().unwrap_or_default().trim();
    let name = if name.eq_ignore_ascii_case("image/jpg") { "image/jpeg" } else { name };
    types.iter().copied().find(|known| name.eq_ignore_ascii_case(known))
}

/// Returns whether a source has one of these media types, or only its address or id is known.
#[must_use]
pub fn is_of(source: &Source, types: &[&str]) -> bool {
    source.media_type().is_none_or(|media_type| type_in(media_type, types).is_some())
}

/// Returns a request with a note in place of each part of a result that `takes` refuses.
///
/// ```
/// use toolwright_module::message::{Image, Part, ToolResult};
/// use toolwright_module::{Message, Request, ToolCall};
/// use toolwright_provider::unread::with_notes;
///
/// let call = ToolCall::new("1", "draw", "{}");
/// let mut result = ToolResult::new(&call, "A circle: [image 1]");
/// result.parts.push(Part::Image(Image::bytes("image/svg+xml", *b"<svg/>")));
/// let request = Request::new([Message::Tool(result).into()]);
/// let sent = with_notes(&request, |_| false);
/// let Message::Tool(result) = &*sent.messages[0] else { unreachable!() };
/// assert_eq!(
///     result.text,
///     "A circle: [image 1]\n[image 1 is left out: this model does not read the type `image/svg+xml`]",
/// );
/// assert!(result.parts.is_empty());
/// ```
#[must_use]
pub fn with_notes(request: &Request, takes: impl Fn(&Part) -> bool) -> Cow<'_, Request> {
    let is_unread = |message: &Message| match message {
        Message::Tool(result) => !result.parts.iter().all(&takes),
        _ => false,
    };
    if !request.messages.iter().any(|message| is_unread(message)) {
        return Cow::Borrowed(request);
    }
    let mut request = request.clone();
    for message in &mut request.messages {
        if is_unread(message)
            && let Message::Tool(result) = Arc::make_mut(message)
        {
            note(result, &takes);
        }
    }
    Cow::Owned(request)
}

fn note(result: &mut ToolResult, takes: impl Fn(&Part) -> bool) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let ToolResult { text, parts, .. } = result;
    parts.retain(|part| {
        let nth = counts.entry(part.kind()).or_default();
        *nth += 1;
        let is_read = takes(part);
        if !is_read {
            let (kind, media_type) = (part.kind(), part.source().and_then(Source::media_type));
            let why = match media_type {
                Some(media_type) => format!("the type `{media_type}`"),
                None => "it in this form".to_owned(),
            };
            // A `String` takes every text.
            let _ = write!(text, "\n[{kind} {nth} is left out: this model does not read {why}]");
        }
        is_read
    });
}
