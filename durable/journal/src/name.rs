//! The names of the files: each id has one, on every file system.

use std::fmt::Write as _;
use std::path::Path;

use toolwright_module::runner::stable_hash;

use crate::error::{JournalError, Result};

/// The extension of the file of a run.
pub(crate) const EXTENSION: &str = "journal";

/// Maximum length of an encoded id. Longer ones are cut, and have a hash at the end.
const LONGEST: usize = 180;

/// What is between the start of an id that was cut and its hash.
const CUT: &str = "%%";

/// Names that Windows does not give to files, whatever extension they have.
const RESERVED: [&str; 4] = ["con", "prn", "aux", "nul"];

/// Returns the name of the file of a run.
///
/// Lower-case letters, digits, `-`, `_` and `.` stay. All other bytes are written as `%41`, also
/// capitals, because two ids that differ in the case alone are two runs on every file system.
pub(crate) fn of_run(id: &str) -> String {
    let mut name = encoded(id);
    if name.len() > LONGEST {
        name.truncate(LONGEST);
        // `%%` is in no name of a short id.
        let _ = write!(name, "{CUT}{:032x}", stable_hash([id]));
    }
    format!("{name}.{EXTENSION}")
}

/// Returns whether the id of a run may begin with a text, by the name of its file without the
/// extension. `None` says that the id was cut, and that nothing speaks against it.
pub(crate) fn begins_with(stem: &str, prefix: &str) -> Option<bool> {
    match stem.split_once(CUT) {
        None => Some(id_of(stem).starts_with(prefix)),
        Some((cut, _)) => {
            let prefix = encoded(prefix);
            match prefix.starts_with(cut) || cut.starts_with(&prefix) {
                true => None,
                false => Some(false),
            }
        }
    }
}

/// Returns an id in the characters of all file systems.
fn encoded(id: &str) -> String {
    let mut name = String::with_capacity(id.len() + 8);
    let reserved = is_reserved(id);
    for (place, byte) in id.bytes().enumerate() {
        let plain = match byte {
            b'a'..=b'z' => !(reserved && place == 0),
            b'0'..=b'9' | b'_' => true,
            b'-' | b'.' => place > 0,
            _ => false,
        };
        if plain {
            name.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(name, "%{byte:02x}");
        }
    }
    name
}

/// Checks that a file has the run that its name says. `found` is the id of the run in it.
pub(crate) fn check(path: &Path, found: &str) -> Result<()> {
    let name = of_run(found);
    if path.file_name().is_some_and(|file| *file == *name) {
        return Ok(());
    }
    let id = id_of_file(path);
    Err(JournalError::OtherName { path: path.to_owned(), id, found: shortened(found), name })
}

/// Returns the start of an id for an error.
fn shortened(id: &str) -> String {
    match id.char_indices().nth(LONGEST) {
        None => id.to_owned(),
        Some((end, _)) => format!("{}…", &id[..end]),
    }
}

fn is_reserved(id: &str) -> bool {
    let stem = id.split('.').next().unwrap_or_default();
    let port = |name: &str| {
        stem.strip_prefix(name)
            .is_some_and(|rest| rest.len() == 1 && rest.as_bytes()[0].is_ascii_digit())
    };
    RESERVED.contains(&stem) || port("com") || port("lpt")
}

/// Returns the id of a run from the path of its file.
pub(crate) fn id_of_file(path: &Path) -> String {
    id_of(&path.file_stem().unwrap_or_default().to_string_lossy())
}

/// Returns the id of a run from the name of its file without the extension. It is the name itself if
/// the id was cut.
pub(crate) fn id_of(stem: &str) -> String {
    let mut bytes = Vec::with_capacity(stem.len());
    let mut rest = stem.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (byte, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &after[2..];
            }
            (b'%', None) => return stem.to_owned(),
            _ => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| stem.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_ids_are_their_names_and_others_leave_no_folder() {
        let names = [
            ("order-17.b", "order-17.b.journal"),
            ("Order", "%4frder.journal"),
            ("../../etc/passwd", "%2e.%2f..%2fetc%2fpasswd.journal"),
            (".", "%2e.journal"),
            ("-rf", "%2drf.journal"),
            ("a\\b:c*?\0", "a%5cb%3ac%2a%3f%00.journal"),
            ("con", "%63on.journal"),
            ("lpt1.x", "%6cpt1.x.journal"),
            ("com10", "com10.journal"),
            ("ä", "%c3%a4.journal"),
        ];
        for (id, name) in names {
            assert_eq!(of_run(id), name);
            assert_eq!(id_of(name.strip_suffix(".journal").unwrap()), id);
        }
        let (long, other) = ("A".repeat(10_000), "A".repeat(10_001));
        assert!(of_run(&long).len() < 255);
        assert_ne!(of_run(&long), of_run(&other));
    }

    proptest! {
        #[test]
        fn two_ids_never_have_one_name(ids in prop::collection::vec(".{0,80}|[aA%4.1]{0,6}", 1..40)) {
            let mut names = BTreeMap::new();
            for id in ids {
                let name = of_run(&id);
                prop_assert!(name.len() < 255);
                // As a file system sees it that does not distinguish the case.
                if let Some(other) = names.insert(name.to_lowercase(), id.clone()) {
                    prop_assert_eq!(&other, &id);
                }
                let stem = name.strip_suffix(".journal").unwrap();
                if !stem.contains("%%") {
                    prop_assert_eq!(id_of(stem), id);
                }
            }
        }
    }
}
