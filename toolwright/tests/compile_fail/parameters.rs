#![allow(unused_variables)]

use toolwright::prelude::*;

struct Db;

/// Patterns.
#[tool]
fn patterns(
    /// Two.
    (a, b): (u8, u8),
    /// One.
    _: u8,
    /// One.
    ref c: u8,
) {
}

/// Borrowed.
#[tool]
fn borrowed(
    /// A text.
    a: &'static str,
    /// Texts.
    b: &[&str],
    /// A text.
    c: Option<&'static str>,
    /// A text.
    d: &mut String,
    /// A text.
    e: impl Into<String>,
) {
}

/// Contexts.
#[tool]
fn contexts(a: Context, #[context] b: Db, #[context(Db)] c: &Db, #[context] #[serde(default)] d: &Db) {
}

/// More contexts.
#[tool]
fn more(a: &mut Context, b: Option<&Context>, #[context] c: &Context, #[context] d: std::sync::Arc<Db>) {
}

/// Attributes.
#[tool]
fn attributes(
    /// A number.
    #[cfg(any())]
    a: u8,
    /// A number.
    #[default(5)]
    b: u8,
    #[doc = include_str!("parameters.rs")] c: u8,
) {
}

fn main() {}
