//! The places of media in a text: `[image 1]` where an image was.
//!
//! An image, a document and audio serialize as their source. Inside [`collect`] they serialize as a
//! place, and are collected for the message that the text is part of. Inside [`restore`] a place is
//! deserialized as the part that belongs there.
//!
//! Only the media types themselves look here, so a string that looks like a place stays a string.
//! The state is the thread's, not a serializer's, so that `Signature::render`, `serialize_with` and
//! `serde_json::to_value` are covered too, and no content is copied.

use std::cell::RefCell;
use std::mem;

use crate::message::{Part, Source};

thread_local! {
    static WORK: RefCell<Work> = const { RefCell::new(Work::Plain) };
}

/// The work of the thread's innermost [`collect`] or [`restore`].
enum Work {
    Plain,
    Collect {
        parts: Vec<Part>,
        /// Which media serialize as places. The others serialize as their source.
        which: fn(&Source) -> bool,
    },
    Restore(Vec<Part>),
}

/// The work from before, which is set again when this is dropped.
struct Before(Work);

impl Drop for Before {
    fn drop(&mut self) {
        WORK.set(mem::replace(&mut self.0, Work::Plain));
    }
}

/// Returns the result of `write`, in which the media that `which` accepts serialize as places, and
/// the parts of these media in order.
pub(crate) fn collect<T>(which: fn(&Source) -> bool, write: impl FnOnce() -> T) -> (T, Vec<Part>) {
    let _before = Before(WORK.replace(Work::Collect { parts: Vec::new(), which }));
    let written = write();
    let parts = WORK.with_borrow_mut(|work| match work {
        Work::Collect { parts, .. } => mem::take(parts),
        _ => Vec::new(),
    });
    (written, parts)
}

/// Returns the result of `read`, in which places deserialize as these parts.
pub(crate) fn restore<T>(parts: &[Part], read: impl FnOnce() -> T) -> T {
    let _before = Before(WORK.replace(Work::Restore(parts.to_vec())));
    read()
}

/// Returns the place of a part and collects the part, inside [`collect`].
pub(crate) fn place(kind: &str, source: &Source, part: impl FnOnce() -> Part) -> Option<String> {
    WORK.with_borrow_mut(|work| match work {
        Work::Collect { parts, which } if which(source) => {
            parts.push(part());
            let number = parts.iter().filter(|part| part.kind() == kind).count();
            Some(format!("[{kind} {number}]"))
        }
        _ => None,
    })
}

/// Returns the source of the part that a place stands for, inside [`restore`]. `None` if the text is
/// no place.
///
/// # Errors
///
/// There is no such part.
pub(crate) fn source_at<E: serde::de::Error>(kind: &str, text: &str) -> Result<Option<Source>, E> {
    let Some(number) = number_of(kind, text) else { return Ok(None) };
    WORK.with_borrow(|work| match work {
        Work::Restore(parts) => {
            let mut of_kind = parts.iter().filter(|part| part.kind() == kind);
            let part = number.checked_sub(1).and_then(|index| of_kind.nth(index));
            let source = part.and_then(Part::source).cloned();
            let missing = || E::custom(format_args!("the result has no {kind} for `{text}`"));
            source.ok_or_else(missing).map(Some)
        }
        _ => Ok(None),
    })
}

fn number_of(kind: &str, text: &str) -> Option<usize> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    inner.strip_prefix(kind)?.strip_prefix(' ')?.parse().ok()
}
