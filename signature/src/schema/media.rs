//! Fields of a type that hold an image, a document or audio.
//!
//! The schema of such a type has the keyword `x-part`. It is read when the schema is made, and
//! removed before the schema is used: providers and MCP clients never get it.

use std::fmt;

use schemars::{Schema, json_schema};
use serde_json::Value;

use super::keywords::{Keywords, below_mut, schemas_in};

/// The keyword with which the schema of a type says that its values are media.
const MARKER: &str = "x-part";

/// A kind of media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MediaKind {
    /// An image.
    Image,
    /// A document, such as a PDF.
    Document,
    /// A recording of sound.
    Audio,
}

impl fmt::Display for MediaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words()[0])
    }
}

impl MediaKind {
    const ALL: [Self; 3] = [Self::Image, Self::Document, Self::Audio];

    /// Returns the schema of a type whose values are media of this kind, for its `JsonSchema`.
    ///
    /// A [`Contract`](crate::Contract) lists the fields with this schema, and shows a model that the
    /// content is beside the JSON.
    #[must_use]
    pub fn schema(self) -> Schema {
        let what = match self {
            Self::Image => "An image",
            Self::Document => "A document",
            Self::Audio => "A recording of sound",
        };
        let description = format!("{what}, beside this JSON.");
        json_schema!({"type": "string", "description": description, MARKER: self.to_string()})
    }

    /// Returns the name of the kind, and the words for one and for many of it.
    pub(crate) fn words(self) -> [&'static str; 3] {
        match self {
            Self::Image => ["image", "an image", "images"],
            Self::Document => ["document", "a document", "documents"],
            Self::Audio => ["audio", "audio", "audio"],
        }
    }
}

/// A field of a contract that holds media.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MediaField {
    /// The path in the value, from `$`.
    pub path: String,
    /// The kind of media.
    pub kind: MediaKind,
}

/// Takes the markers out of a schema, and returns the fields that had one.
pub(crate) fn take(schema: &mut Value) -> Vec<MediaField> {
    let marked = |(map, path): (&Keywords, String)| {
        let marker = map.get(MARKER)?;
        let kind = MediaKind::ALL.into_iter().find(|kind| marker == kind.words()[0])?;
        Some(MediaField { path, kind })
    };
    let fields: Vec<_> = schemas_in(schema).filter_map(marked).collect();
    if !fields.is_empty() {
        remove(schema);
    }
    fields
}

/// Removes the markers of a schema and of all schemas below it.
fn remove(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    map.shift_remove(MARKER);
    below_mut(map).into_iter().for_each(remove);
}
