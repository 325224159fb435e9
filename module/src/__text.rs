//! Texts that several crates of the workspace check. It is not part of the public API.

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
