#![allow(unused_variables)]

use toolwright::prelude::*;

/// Generic.
#[tool]
fn generic<T>(
    /// A value.
    value: T,
) {
}

struct Notes;

impl Notes {
    /// Read.
    #[tool]
    fn read(&self) -> u8 {
        1
    }
}

#[tool]
struct Point;

#[tool]
impl Point {}

#[toolset]
fn not_a_block() {}

#[data]
fn not_a_type() {}

/// Unsafe.
#[tool]
unsafe fn danger() {}

/// Without a text.
#[tool]
#[doc = include_str!("functions.rs")]
fn included() {}

/// Borrows.
#[tool]
fn borrows<'a>(
    /// A text.
    text: &'a str,
) -> &'a str {
    text
}

fn main() {}
