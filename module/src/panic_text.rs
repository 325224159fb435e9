//! The texts of caught panics of user code.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the text of a panic and drops its payload.
///
/// A payload can be any value, and its drop may panic again.
pub fn text_of(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no message").to_owned();
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
    text
}
