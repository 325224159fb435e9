//! Texts of others on a page.

use maud::{Markup, html};
use serde_json::Value;
use toolwright_module::__text::visible;
use toolwright_module::testing::Mask;

use super::words;

/// Texts up to this length are shown whole at once.
const SHORT: usize = 700;

/// Number of lines of a text that are shown at once.
const LINES: usize = 14;

/// Texts of models, tools and people on a page. A page is passed on, so it has no keys.
#[derive(Clone)]
pub struct Texts(Mask);

impl Default for Texts {
    fn default() -> Self {
        Self::new(Mask::from_env_and(&[]))
    }
}

impl Texts {
    /// Returns texts in which this mask hides keys.
    pub fn new(mask: Mask) -> Self {
        Self(mask)
    }

    /// Returns the text without keys.
    pub fn without_keys(&self, text: &str) -> String {
        self.0.masked(text)
    }

    /// Returns the text without keys and with hidden characters escaped, so that a reader sees what is
    /// there. Lines stay.
    pub fn shown(&self, text: &str) -> String {
        let text = self.without_keys(text);
        let mut shown = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(at) = rest.find(['\n', '\t']) {
            let (line, end) = rest.split_at(at);
            shown.push_str(&visible(line.strip_suffix('\r').unwrap_or(line)));
            shown.push_str(&end[..1]);
            rest = &end[1..];
        }
        shown.push_str(&visible(rest));
        shown
    }

    /// Returns the first characters of a text on one line.
    pub fn first_words(&self, text: &str, most: usize) -> String {
        visible(&words::first_words(&self.without_keys(text), most))
    }

    /// A sentence with names in backticks.
    pub fn with_code(&self, text: &str) -> Markup {
        let pieces: Vec<&str> = text.split('`').collect();
        html! {
            @if pieces.len().is_multiple_of(2) { (self.shown(text)) }
            @else {
                @for (at, piece) in pieces.iter().enumerate() {
                    @if at % 2 == 1 { code { (self.shown(piece)) } } @else { (self.shown(piece)) }
                }
            }
        }
    }

    /// A text of a model or a tool. A long one starts shortened.
    pub fn block(&self, text: &str) -> Markup {
        // A key that is cut would not be found later.
        let text = &self.without_keys(text);
        let long = text.len() > SHORT || text.lines().count() > LINES;
        if !long {
            return html! { pre { (self.shown(text)) } };
        }
        let start: String = text.lines().take(LINES / 2).collect::<Vec<_>>().join("\n");
        let start = match start.char_indices().nth(SHORT / 2) {
            Some((end, _)) => &start[..end],
            None => &start,
        };
        html! {
            details.long {
                summary { pre { (self.shown(start)) "…" } span.link { "Show all " (words::bytes(text.len())) } }
                pre tabindex="0" { (self.shown(text)) }
            }
        }
    }

    /// The fields of a JSON object, with texts as they are.
    pub fn fields(&self, value: &Value) -> Markup {
        // A field may be secret because of its name.
        let value = &self.0.masked_json(value);
        let Value::Object(fields) = value else {
            return self.block(&serde_json::to_string_pretty(value).unwrap_or_default());
        };
        html! {
            dl.fields {
                @for (name, value) in fields {
                    div {
                        dt { (self.shown(name)) }
                        dd { @match value { Value::String(text) => (self.block(text)), Value::Object(_) | Value::Array(_) => (self.block(&serde_json::to_string_pretty(value).unwrap_or_default())), other => (self.block(&other.to_string())) } }
                    }
                }
            }
        }
    }
}
