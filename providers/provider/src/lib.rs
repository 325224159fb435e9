//! What all providers share: write a provider with it.
//!
//! A provider implements [`LanguageModel`]. It converts a [`Request`] to a body, sends it, and converts
//! what the server sends to a [`Reply`]. `toolwright-http` has the transport. This crate has what needs
//! both the transport and the types of a conversation, so that all providers agree on it:
//!
//! | to | use |
//! |---|---|
//! | hold the address, the key, retries and limits | [`Connection`], [`from_env`] |
//! | write a request's body, with what was written before | [`JsonBody`], [`Kept`], [`KeptTools`] |
//! | send an id of another provider, or the name of a tool that does not exist | [`portable_id`], [`portable_name`] |
//! | send messages in an order that every server accepts | [`order`] |
//! | read a whole reply, or the events of a streamed one | [`read_whole`], [`read_events`], [`Decoder`] |
//! | read a reply whose server streams although it was not asked to | [`read_reply`] |
//! | read the word that says how a reply ended | [`ending`] |
//! | report an error | [`ProviderError`] |
//! | build a reply from streamed pieces, and report them | [`ReplyParts`], [`Deltas`], [`settle`], [`rest_of`] |
//! | separate a model's thoughts from its content, and send them back | [`ReplyParts::content`], [`in_content`] |
//! | make the usage of a server's counts | [`TokenCounts`] |
//! | stream from a server that does not stream | [`deltas_of`] |
//! | write a note for what a model cannot read of a result | [`unread::with_notes`] |
//! | add ids and arguments that a server leaves out | [`complete_reply`], [`takes_fields`] |
//! | deserialize what a server should not have sent | [`lenient`] |
//! | read content, and separate text, thoughts and calls in it | [`lenient::Piece`], [`lenient::Words`] |
//!
//! Arguments that are not an object, images of a result and files without a name have a form for
//! every API in [`toolwright_module::message`].
//!
//! A stream of pieces becomes deltas and a reply:
//!
//! ```
//! use toolwright_module::model::{Delta, Finish, Usage};
//! use toolwright_provider::{Deltas, ReplyParts, complete_reply};
//!
//! let (mut parts, mut deltas) = (ReplyParts::default(), Deltas::default());
//! parts.text("It ".to_owned(), &mut deltas);
//! parts.text("rains.".to_owned(), &mut deltas);
//! let call = parts.begin_call();
//! let (id, name) = (String::new(), "close_window".to_owned());
//! parts.extend_call(call, id, name, String::new(), &mut deltas);
//! assert_eq!(deltas.pop(), Some(Delta::Text("It ".to_owned())));
//!
//! let reply = complete_reply(parts.take(), 3, Finish::Stop, Usage::unknown())?;
//! let calls: Vec<_> = reply.tool_calls().collect();
//! assert_eq!((calls[0].id.as_str(), calls[0].arguments.as_str()), ("call_3_1", "{}"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`LanguageModel`]: toolwright_module::LanguageModel
//! [`Request`]: toolwright_module::Request
//! [`Reply`]: toolwright_module::Reply

#![cfg_attr(docsrs, feature(doc_cfg))]

mod connection;
mod content;
mod counts;
pub mod ending;
mod error;
mod found;
mod json_body;
mod kept;
pub mod lenient;
pub mod order;
mod reply_parts;
mod streaming;
pub mod unread;

use std::borrow::Cow;

use toolwright_module::runner::stable_hash;
pub use toolwright_module::runner::{is_empty_object, is_same_json};

pub use self::connection::{Connection, from_env, mark_lost_halves, read_events, read_whole};
pub use self::content::in_content;
pub use self::counts::TokenCounts;
pub use self::error::ProviderError;
pub use self::found::found_tools;
pub use self::json_body::JsonBody;
pub use self::kept::{Kept, KeptTools};
pub use self::reply_parts::{
    Deltas, ReplyParts, check_has_call, complete_reply, deltas_of, is_result, rest_of, settle,
    takes_fields, text_of,
};
pub use self::streaming::{Decoder, Reader, read_reply};

/// Returns an id in the form that every provider accepts: at most `most` letters, digits, `_` and
/// `-`. An id that has another form, because it comes from another provider, becomes a hash of it.
///
/// ```
/// use toolwright_provider::portable_id;
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
/// use toolwright_provider::portable_name;
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
