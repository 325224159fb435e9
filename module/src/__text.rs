//! Texts that several crates of the workspace check. It is not part of the public API.

pub use crate::panic_text::text_of as panic_text;

/// Returns whether a character is invisible although a model reads it: control characters, direction
/// marks, joiners, fillers, variation selectors, tags.
///
/// Spaces of other widths are not among them, because people see that a space is there.
#[must_use]
pub fn is_hidden(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns whether a character is hidden, is a space of another width, or is a visible one that
/// changes its neighbours.
#[must_use]
pub fn is_misleading(char: char) -> bool {
    is_hidden(char)
        || (char.is_whitespace() && char != ' ')
        || matches!(char,
            '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
            | '\u{2800}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1345f}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}')
}

/// Returns the text with invisible characters escaped, so that the user sees all of it before a
/// decision. Characters that change the order of visible text are escaped too.
///
/// The escapes are those of JSON, such as `\\u202e`, so that arguments in JSON keep their value and
/// can be edited.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for char in text.chars() {
        if is_misleading(char) {
            visible.push_str(&escaped(char));
        } else {
            visible.push(char);
        }
    }
    visible
}

/// Returns the escape of a character in JSON.
#[must_use]
pub fn escaped(char: char) -> String {
    let mut units = [0; 2];
    char.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// Returns what is wrong with the URL of a PostgreSQL database, without a part of the password. `fault`
/// is that of the parser.
#[must_use]
pub fn database_url_fault(url: &str, fault: &str) -> String {
    // After a `?` in a password that is not percent-encoded, the parser takes the rest of the URL for
    // options, and its fault names them.
    let is_safe = url.rsplit_once('?').is_some_and(|(_, options)| !options.contains('@'));
    if !is_safe || fault.len() > 80 {
        return "needs the form `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with special characters \
                percent-encoded"
            .to_owned();
    }
    match fault.contains("`sslmode`") {
        true => format!(
            "has an {fault}; instead of `sslmode=verify-full`, set `sslmode=require`, and connect \
             with a TLS connector that verifies certificates"
        ),
        false => format!("has an {fault}; change or remove it"),
    }
}
