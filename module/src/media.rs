//! Images, documents and audio: the parts of a message that are not text.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toolwright_signature::MediaKind;

use crate::places;

/// The place of an image, a document or audio: an address, its bytes, or a provider's file.
///
/// The serialized form is one string: the address, a `data:` URL with the bytes in base64, or
/// `file-id:PROVIDER:ID`.
///
/// ```
/// use toolwright_module::message::Source;
///
/// let source = Source::Bytes { media_type: "image/png".into(), data: [1, 2, 3].into() };
/// assert_eq!(serde_json::to_string(&source)?, r#""data:image/png;base64,AQID""#);
/// assert_eq!(serde_json::from_str::<Source>(r#""data:image/png;base64,AQID""#)?, source);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// An address from which the provider fetches the content, such as `https:…`. Which schemes a
    /// provider accepts is checked when the request is sent.
    Url(String),
    /// The content itself.
    Bytes {
        /// The media type, such as `image/png` or `application/pdf`.
        media_type: String,
        /// The bytes. A clone shares them.
        data: Arc<[u8]>,
    },
    /// A file that was uploaded to a provider before.
    File {
        /// The provider that has the file, by [`LanguageModel::provider`], such as `openai`.
        ///
        /// [`LanguageModel::provider`]: crate::LanguageModel::provider
        provider: String,
        /// The provider's id of the file.
        id: String,
    },
}

impl Source {
    /// Returns the address: that of [`Url`](Self::Url), or a `data:` URL of the bytes. `None` for a
    /// provider's file.
    #[must_use]
    pub fn to_url(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Url(url) => Some(Cow::Borrowed(url)),
            Self::Bytes { media_type, data } => Some(Cow::Owned(data_url(media_type, data))),
            Self::File { .. } => None,
        }
    }

    /// Returns the media type: that of the bytes or of a `data:` URL. `None` if it is not known.
    #[must_use]
    pub fn media_type(&self) -> Option<&str> {
        match self {
            Self::Url(url) => url.strip_prefix("data:")?.split([';', ',']).next(),
            Self::Bytes { media_type, .. } => Some(media_type),
            Self::File { .. } => None,
        }
    }

    /// Returns the text, if the bytes are text of a type such as `text/plain` in UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Bytes { media_type, data } if is_text(media_type) => {
                std::str::from_utf8(data).ok()
            }
            _ => None,
        }
    }

    /// Returns the source with the text that `edit` returns. `None` if it is not text, or if `edit`
    /// returns nothing.
    pub(crate) fn edited(&self, edit: impl FnOnce(&str) -> Option<String>) -> Option<Self> {
        if let Self::Url(url) = self {
            return bytes_of(url)?.edited(edit);
        }
        let data = edit(self.text()?)?.into_bytes().into();
        Some(Self::Bytes { media_type: self.media_type()?.to_owned(), data })
    }

    /// Returns the size in bytes as far as it is known: the content, or the address.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Url(url) => url.len(),
            Self::Bytes { data, .. } => data.len(),
            Self::File { id, .. } => id.len(),
        }
    }

    /// Returns bytes that are given in base64, or `None` if it is not valid. White space is ignored, and
    /// the alphabet for URLs and a missing padding are understood.
    ///
    /// ```
    /// use toolwright_module::message::Source;
    ///
    /// let bytes = Source::from_base64("image/png", "+/8=");
    /// assert!(bytes.is_some());
    /// assert_eq!(Source::from_base64("image/png", "-_8"), bytes);
    /// assert_eq!(Source::from_base64("image/png", "+/\r\n8=\r\n"), bytes);
    /// assert_eq!(Source::from_base64("image/png", "+/8*"), None);
    /// ```
    #[must_use]
    pub fn from_base64(media_type: &str, base64: &str) -> Option<Self> {
        let data = decoded(base64)?.into();
        Some(Self::Bytes { media_type: media_type.to_owned(), data })
    }

    /// Returns the bytes in base64, with their media type. `None` if the content is elsewhere. Also
    /// understands a `data:` URL, unless its base64 is not valid.
    #[must_use]
    pub fn to_base64(&self) -> Option<(&str, Cow<'_, str>)> {
        match self {
            Self::Bytes { media_type, data } => {
                Some((media_type, Cow::Owned(STANDARD.encode(data))))
            }
            Self::Url(url) => {
                let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
                Some((media_type, Cow::Owned(STANDARD.encode(decoded(data)?))))
            }
            Self::File { .. } => None,
        }
    }

    /// Whether the content is in the source itself.
    pub(crate) fn is_content(&self) -> bool {
        match self {
            Self::Bytes { .. } => true,
            Self::Url(url) => url.starts_with("data:") && url.contains(";base64,"),
            Self::File { .. } => false,
        }
    }

    fn of(text: &str) -> Self {
        if let Some(url) = text.strip_prefix("url:") {
            return Self::Url(url.to_owned());
        }
        let file = text.strip_prefix("file-id:").and_then(|file| file.split_once(':'));
        if let Some((provider, id)) = file {
            return Self::File { provider: provider.to_owned(), id: id.to_owned() };
        }
        bytes_of(text).unwrap_or_else(|| Self::Url(text.to_owned()))
    }
}

fn is_text(media_type: &str) -> bool {
    media_type.get(..5).is_some_and(|kind| kind.eq_ignore_ascii_case("text/"))
}

/// The padding may be missing.
const DECODER: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns the bytes of base64. Programs that write mails break it into lines, and those that write
/// URLs have two other letters and no padding.
fn decoded(base64: &str) -> Option<Vec<u8>> {
    let is_usual = |byte: u8| !byte.is_ascii_whitespace() && !matches!(byte, b'-' | b'_');
    if base64.bytes().all(is_usual) {
        return DECODER.decode(base64).ok();
    }
    let usual = |byte: u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => byte,
    };
    let bytes = base64.bytes().filter(|byte| !byte.is_ascii_whitespace()).map(usual);
    DECODER.decode(bytes.collect::<Vec<u8>>()).ok()
}

fn data_url(media_type: &str, data: &[u8]) -> String {
    let mut url = format!("data:{media_type};base64,");
    STANDARD.encode_string(data, &mut url);
    url
}

/// Returns the bytes of a `data:` URL. A URL in another form stays a URL, so that a stored message
/// keeps what it said.
fn bytes_of(url: &str) -> Option<Source> {
    let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    Source::from_base64(media_type, data)
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // A URL that looks like another form stays a URL.
            Self::Url(url) if url.starts_with("file-id:") || url.starts_with("url:") => {
                serializer.collect_str(&format_args!("url:{url}"))
            }
            Self::Url(url) => serializer.serialize_str(url),
            Self::Bytes { media_type, data } => {
                serializer.serialize_str(&data_url(media_type, data))
            }
            Self::File { provider, id } => {
                serializer.collect_str(&format_args!("file-id:{provider}:{id}"))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Source;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address, a `data:` URL or `file-id:PROVIDER:ID`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Source, E> {
                Ok(Source::of(text))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// Defines a kind of media: a type that contains a [`Source`].
macro_rules! media {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $url:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub struct $name {
            /// The place of the content.
            pub source: Source,
        }

        impl $name {
            /// The name of the kind in a text: the part at `[image 1]` is an `image`.
            pub(crate) const KIND: &'static str = $kind;

            #[doc = concat!("Returns the one at an address, such as `", $url, "`. A `data:` URL gives its bytes.")]
            pub fn url(url: impl Into<String>) -> Self {
                let url = url.into();
                Self { source: bytes_of(&url).unwrap_or(Source::Url(url)) }
            }

            /// Returns the one with these bytes of a media type.
            pub fn bytes(media_type: impl Into<String>, data: impl Into<Arc<[u8]>>) -> Self {
                let (media_type, data) = (media_type.into(), data.into());
                Self { source: Source::Bytes { media_type, data } }
            }

            /// Returns the one in a file that was uploaded to a provider before.
            pub fn file(provider: impl Into<String>, id: impl Into<String>) -> Self {
                Self { source: Source::File { provider: provider.into(), id: id.into() } }
            }
        }

        impl From<Source> for $name {
            fn from(source: Source) -> Self {
                Self { source }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match places::place(Self::KIND, &self.source, || self.clone().into()) {
                    Some(place) => serializer.serialize_str(&place),
                    None => self.source.serialize(serializer),
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let source = Source::deserialize(deserializer)?;
                let part = match &source {
                    Source::Url(text) => places::source_at(Self::KIND, text)?,
                    _ => None,
                };
                Ok(Self { source: part.unwrap_or(source) })
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                MediaKind::$name.schema()
            }
        }
    };
}

media! {
    /// An image.
    ///
    /// ```
    /// use toolwright_module::message::Image;
    ///
    /// let image = Image::bytes("image/png", *b"\x89PNG");
    /// assert_eq!(image.source.to_url().unwrap(), "data:image/png;base64,iVBORw==");
    /// ```
    Image, "image", "https://example.com/a.png"
}

media! {
    /// A document, such as a PDF or a text.
    ///
    /// ```
    /// use toolwright_module::message::Document;
    ///
    /// let report = Document::url("https://example.com/report.pdf");
    /// let notes = Document::bytes("text/plain", *b"Call Ada.");
    /// assert_eq!(notes.source.media_type(), Some("text/plain"));
    /// # let _ = report;
    /// ```
    Document, "document", "https://example.com/a.pdf"
}

media! {
    /// A recording of sound.
    ///
    /// ```
    /// use toolwright_module::message::Audio;
    ///
    /// let question = Audio::file("gemini", "files/abc");
    /// assert_eq!(question.source.to_url(), None);
    /// ```
    Audio, "audio", "https://example.com/a.mp3"
}
