//! Fields of a type that hold an image, a document or audio.
//!
//! The schema of such a type has the keyword `x-part`. It is read when the schema is made, and
//! removed before the schema is used: providers and MCP clients never get it.

use std::fmt;

use schemars::{Schema, json_schema};
use serde_json::Value;

use super::keywords::{below, below_mut, path_below};

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
        f.write_str(match self {
            Self::Image => "image",
            Self::Document => "document",
            Self::Audio => "audio",
        })
    }
}

impl MediaKind {
    /// Returns the schema of a type whose values are media of this kind, for its `JsonSchema`.
    ///
    /// A [`Contract`](crate::Contract) lists the fields with this schema, and shows a model that the
    /// content is beside the JSON.
    #[must_use]
    pub fn schema(self) -> Schema {
        let description = match self {
            Self::Image => "An image, beside this JSON.",
            Self::Document => "A document, beside this JSON.",
            Self::Audio => "A recording of sound, beside this JSON.",
        };
        json_schema!({"type": "string", "description": description, MARKER: self.to_string()})
    }

    fn of(marker: &Value) -> Option<Self> {
        match marker.as_str()? {
            "image" => Some(Self::Image),
            "document" => Some(Self::Document),
            "audio" => Some(Self::Audio),
            _ => None,
        }
    }

    /// Returns the kind for a sentence: `an image`.
    pub(crate) fn with_article(self) -> &'static str {
        match self {
            Self::Image => "an image",
            Self::Document => "a document",
            Self::Audio => "audio",
        }
    }

    /// Returns the kind for a sentence: `images`.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Image => "images",
            Self::Document => "documents",
            Self::Audio => "audio",
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
    let mut fields = Vec::new();
    find(schema, "$", &mut fields);
    if !fields.is_empty() {
        remove(schema);
    }
    fields
}

fn find(schema: &Value, path: &str, fields: &mut Vec<MediaField>) {
    let Some(map) = schema.as_object() else { return };
    if let Some(kind) = map.get(MARKER).and_then(MediaKind::of) {
        fields.push(MediaField { path: path.to_owned(), kind });
    }
    for (keyword, name, schema) in below(map) {
        find(schema, &path_below(path, keyword, name), fields);
    }
}

fn remove(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    map.shift_remove(MARKER);
    below_mut(map).into_iter().for_each(remove);
}
