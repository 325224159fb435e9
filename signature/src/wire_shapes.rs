//! Names of the fields in wire shapes, which replace values that a dialect cannot express.
//!
//! Lowering writes these shapes into schemas and example values, and reading reverses them
//! (`docs/adr/0008-reading-does-not-know-the-dialect.md`). Both use the names from here, so that
//! they are exact inverses.
//!
//! | in the type | on the wire |
//! |---|---|
//! | map | list of `{"key", "value"}` |
//! | further fields of a struct | field `additional_properties`, such a list |
//! | tuple | object of `item_0`, `item_1`, … |
//! | input that is not a plain object | `{"input": …}` |
//! | output that is not a plain object | `{"result": …}` |

use crate::error::Side;

/// Key of one entry of a map.
pub(crate) const KEY: &str = "key";

/// Value of one entry of a map.
pub(crate) const VALUE: &str = "value";

/// Further fields of a struct, as a list of entries.
pub(crate) const FURTHER: &str = "additional_properties";

/// The one field of an input that a dialect does not take at the root.
pub(crate) const INPUT: &str = "input";

/// The one field of an output that is not a plain object.
pub(crate) const RESULT: &str = "result";

/// Returns the field of a tuple's item.
pub(crate) fn item(index: usize) -> String {
    format!("item_{index}")
}

impl Side {
    /// Returns the field for a value that is not a plain object.
    pub(crate) fn wrapper(self) -> &'static str {
        match self {
            Self::Input => INPUT,
            Self::Output => RESULT,
        }
    }
}
