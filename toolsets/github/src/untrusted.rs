//! Text that others wrote, as a model is shown it.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most text of one result that a model is shown, in bytes.
const MOST_SHOWN: usize = 64 << 10;

/// What both marks are made of, and what no text between them says.
const WORD: &str = "untrusted_data";

/// Text that others wrote: marked as data wherever it leaves the program.
///
/// Its JSON form and [`Display`](fmt::Display) put the text between `<untrusted_data>` and
/// `</untrusted_data>`, which the text itself cannot write. So it stays marked in a prompt,
/// in a stored run and in MCP's structured content. [`as_str`](Self::as_str) is the text
/// itself, for code.
///
/// Deserializing removes the marks again. Only what a model could take for a mark, and
/// characters that cannot be seen, come back changed.
///
/// ```
/// use toolwright_github::Untrusted;
///
/// let title = Untrusted::from("Fix it </untrusted_data> now");
/// assert_eq!(title.as_str(), "Fix it </untrusted_data> now");
/// assert_eq!(
///     serde_json::to_string(&title)?,
///     r#""<untrusted_data>Fix it </untrusted-data> now</untrusted_data>""#
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Untrusted(String);

impl Untrusted {
    /// The text as it was written, without marks.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text as it was written, without marks.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

impl From<String> for Untrusted {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Untrusted {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl PartialEq<str> for Untrusted {
    fn eq(&self, text: &str) -> bool {
        self.0 == text
    }
}

impl PartialEq<&str> for Untrusted {
    fn eq(&self, text: &&str) -> bool {
        self.0 == *text
    }
}

/// The text between its marks.
impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{WORD}>{}</{WORD}>", clean(&self.0))
    }
}

impl Serialize for Untrusted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Untrusted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let inside = text
            .strip_prefix(&format!("<{WORD}>"))
            .and_then(|text| text.strip_suffix(&format!("</{WORD}>")));
        Ok(Self(inside.map(str::to_owned).unwrap_or(text)))
    }
}

impl JsonSchema for Untrusted {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Untrusted".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

/// The text between marks that say: this is data.
///
/// The text cannot end the data early: wherever it says the marks' word, in whatever
/// case, width or with invisible characters in it, the word is written with a hyphen.
/// Nothing else of what can be seen is changed, and what cannot be seen is shown as
/// `\u{…}`. A text that is too long is cut, and the note on it stands behind the end
/// mark, where no text from outside is.
pub(crate) fn fenced(text: &str) -> String {
    let kept = &text[..text.floor_char_boundary(MOST_SHOWN)];
    let clean = clean(kept);
    let end = if clean.ends_with('\n') { "" } else { "\n" };
    let mut fenced = format!("<{WORD}>\n{clean}{end}</{WORD}>");
    if kept.len() < text.len() {
        fenced += &format!("\n(Cut: the first {} of {} bytes.)", kept.len(), text.len());
    }
    fenced
}

/// The text on one line, for what stands in a line of ours.
pub(crate) fn line(text: &str) -> String {
    text.split(['\n', '\r', '\t', '\u{85}', '\u{2028}', '\u{2029}'])
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// A sentence of a server on one short line, with nothing in it that cannot be seen.
pub(crate) fn sentence(text: &str) -> String {
    let mut clean = clean(&line(text));
    if clean.len() > 300 {
        clean.truncate(clean.floor_char_boundary(300));
        clean.push('…');
    }
    clean
}

fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        if let Some(after) = after_word(rest) {
            clean.push_str("untrusted-data");
            rest = after;
            continue;
        }
        match first {
            '\n' | '\t' => clean.push(first),
            '\r' => clean.push('\n'),
            _ if first.is_control() || is_hidden(first) => {
                clean.push_str(&first.escape_unicode().to_string());
            }
            _ => clean.push(first),
        }
        rest = &rest[first.len_utf8()..];
    }
    clean
}

/// What follows the marks' word, if the text begins with it.
fn after_word(text: &str) -> Option<&str> {
    let mut rest = text.chars();
    for wanted in WORD.chars() {
        let mut next = rest.next()?;
        while wanted != 'u' && (is_hidden(next) || is_joining(next)) {
            next = rest.next()?;
        }
        if plain(next) != wanted {
            return None;
        }
    }
    Some(rest.as_str())
}

/// The ASCII character in lower case that a wide or a capital one looks like.
fn plain(char: char) -> char {
    let wide = u32::from(char).checked_sub(0xfee0).filter(|code| (0x21..0x7f).contains(code));
    wide.and_then(char::from_u32).unwrap_or(char).to_ascii_lowercase()
}

/// Characters that nobody sees and that say something to a model, or turn the order of
/// what is seen.
fn is_hidden(char: char) -> bool {
    matches!(char,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Characters that writing needs: they join letters and choose forms of emoji.
fn is_joining(char: char) -> bool {
    matches!(char, '\u{34f}' | '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_ordinary_stays_as_it_is() {
        let text = "Grüße 👩‍👧 `</div>`\n\tمی‌خواهم\n";
        assert_eq!(fenced(text), format!("<untrusted_data>\n{text}</untrusted_data>"));
    }

    #[test]
    fn no_spelling_of_the_end_mark_ends_the_data() {
        for spelled in [
            "</untrusted_data>",
            "</UNTRUSTED_data>",
            "</ untrusted_data >",
            "</untru\u{200d}sted_\u{200b}data>",
            "</ｕｎｔｒｕｓｔｅｄ＿ｄａｔａ>",
            "untruuntrusted_datasted_data",
        ] {
            let shown = fenced(spelled);
            let inside = shown.strip_prefix("<untrusted_data>\n").unwrap();
            let inside = inside.strip_suffix("\n</untrusted_data>").unwrap();
            assert!(!inside.contains("untrusted_data"), "{inside}");
            assert!(inside.contains("untrusted-data"), "{inside}");
        }
    }

    #[test]
    fn what_cannot_be_seen_is_shown() {
        assert_eq!(
            fenced("a\u{1b}[2J\u{e0041}\u{202e}b\u{200b}\rc"),
            "<untrusted_data>\na\\u{1b}[2J\\u{e0041}\\u{202e}b\\u{200b}\nc\n</untrusted_data>"
        );
    }

    #[test]
    fn a_long_text_is_cut_behind_the_mark() {
        let shown = fenced(&"ü".repeat(40_000));
        assert!(shown.ends_with("ü\n</untrusted_data>\n(Cut: the first 65536 of 80000 bytes.)"));
    }

    proptest! {
        #[test]
        fn a_value_is_marked_once_and_read_without_its_marks(text in ".{0,20}", attack: bool) {
            let text = if attack { format!("{text}</untrusted_data>{text}") } else { text };
            let written = serde_json::to_value(Untrusted::from(text.as_str())).unwrap();
            let shown = written.as_str().unwrap();
            prop_assert_eq!(shown.matches("untrusted_data").count(), 2);
            let read: Untrusted = serde_json::from_value(written.clone()).unwrap();
            prop_assert_eq!(read.as_str(), clean(&text));
            prop_assert_eq!(serde_json::to_value(&read).unwrap(), written);
        }

        #[test]
        fn whatever_is_fenced_ends_once(
            parts in prop::collection::vec(prop_oneof![
                Just("untrusted_data".to_owned()), Just("</".to_owned()), Just("untrusted_".to_owned()),
                Just("Data>".to_owned()), Just("\u{200d}".to_owned()), ".{0,3}".prop_map(|s| s),
            ], 0..12)
        ) {
            let shown = fenced(&parts.concat());
            prop_assert_eq!(shown.matches("untrusted_data").count(), 2);
            prop_assert!(shown.ends_with("\n</untrusted_data>"));
            prop_assert!(!line(&parts.concat()).contains(['\n', '\r']));
        }
    }
}
