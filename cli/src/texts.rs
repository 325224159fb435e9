//! Texts from outside.

use std::io;
use std::path::Path;

use toolwright_module::__files::{self, Link};

/// Maximum length of a file that is read as text, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Returns bytes as text. A wrong letter is worse than an error, so nothing is replaced. The byte
/// order mark that some editors write is not a part of the text.
///
/// # Errors
///
/// The bytes are not UTF-8: [`io::ErrorKind::InvalidData`], with the place of the first wrong byte.
pub(crate) fn from_utf8(bytes: Vec<u8>, what: &str) -> io::Result<String> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let byte = error.as_bytes()[at];
        let text = format!(
            "{what} is not UTF-8 text: byte {} is 0x{byte:02x}; convert it, for example with \
             `iconv -f LATIN1 -t UTF-8`",
            at + 1
        );
        io::Error::new(io::ErrorKind::InvalidData, text)
    })?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(text) => text.to_owned(),
        None => text,
    })
}

/// Reads a file as text.
///
/// # Errors
///
/// The file cannot be read, is not a regular file, is too large, or is not UTF-8.
pub(crate) fn read_file(path: &Path) -> io::Result<String> {
    from_utf8(__files::read(path, Link::Follow, MAX_BYTES)?, "the file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_not_a_part_of_a_text() {
        assert_eq!(from_utf8("\u{feff}{}".into(), "it").unwrap(), "{}");
        assert_eq!(from_utf8("{}\u{feff}".into(), "it").unwrap(), "{}\u{feff}");
    }
}
