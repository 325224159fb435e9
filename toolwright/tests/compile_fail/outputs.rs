use std::fmt::Display;

use toolwright::prelude::*;

/// Unnamed.
#[tool]
fn unnamed() -> impl Display {
    1
}

/// Unnamed.
#[tool]
fn unnamed_result() -> Result<impl Display> {
    Ok(1)
}

/// Borrowed.
#[tool]
fn borrowed() -> Option<&'static str> {
    None
}

fn main() {}
