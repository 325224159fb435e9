//! Characters that people do not see, for the crates of the workspace. It is not part of the public
//! API.

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
