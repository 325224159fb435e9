//! Paths as faults write them.
//!
//! In: a path from the caller. Out: its steps, or `None` where it cannot be parsed:
//!
//! ```text
//! title, $.title   →  field title
//! rows[2].name     →  field rows, item 2, field name
//! $["a.b"]         →  field a.b
//! $                →  no steps: the whole value
//! rows[x]          →  field rows, None
//! ```
//!
//! Begin with [`Steps::of`]. Steps are parsed while the caller walks down, so that a look-up in a
//! long answer allocates nothing.

use std::borrow::Cow;

use crate::reading::tokenizer::TokenKind;

/// One step down.
pub(super) enum PathStep<'a> {
    /// The field of an object; owned if its name had escapes.
    Field(Cow<'a, str>),
    /// The item of a list.
    Item(usize),
}

impl PathStep<'_> {
    /// Returns the kind of value that the step needs.
    pub(super) fn kind(&self) -> TokenKind {
        match self {
            Self::Field(_) => TokenKind::Object,
            Self::Item(_) => TokenKind::List,
        }
    }
}

/// The steps of a path, from the root down; `None` for a step that cannot be parsed.
pub(super) struct Steps<'a> {
    /// The steps that are left.
    rest: &'a str,
    /// Whether the next name needs no dot before it.
    is_first: bool,
}

impl<'a> Steps<'a> {
    /// Returns the steps of a path, with or without `$`.
    pub(super) fn of(path: &'a str) -> Self {
        match path.strip_prefix('$') {
            Some(rest) if rest.is_empty() || rest.starts_with(['.', '[']) => {
                Self { rest, is_first: false }
            }
            _ => Self { rest: path, is_first: true },
        }
    }

    /// Parses a name up to the next dot or bracket.
    fn name(&mut self, from: &'a str) -> Option<PathStep<'a>> {
        let end = from.bytes().position(|byte| matches!(byte, b'.' | b'['));
        let (name, rest) = from.split_at(end.unwrap_or(from.len()));
        self.rest = rest;
        (!name.is_empty()).then_some(PathStep::Field(name.into()))
    }

    /// Parses the index or the quoted name after a bracket.
    ///
    /// ```text
    /// [2]      →  item 2
    /// ["a.b"]  →  field a.b
    /// [+2]     →  None
    /// ```
    fn bracket(&mut self, inside: &'a str) -> Option<PathStep<'a>> {
        if inside.starts_with('"') {
            return self.quoted(inside);
        }
        let (number, rest) = inside.split_once(']')?;
        self.rest = rest;
        // `parse` would accept a sign.
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| number.parse().ok().map(PathStep::Item)).flatten()
    }

    /// Parses a JSON text in brackets.
    fn quoted(&mut self, from: &'a str) -> Option<PathStep<'a>> {
        let mut names = serde_json::Deserializer::from_str(from).into_iter::<String>();
        let name = names.next()?.ok()?;
        self.rest = from.get(names.byte_offset()..)?.strip_prefix(']')?;
        Some(PathStep::Field(name.into()))
    }
}

impl<'a> Iterator for Steps<'a> {
    type Item = Option<PathStep<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() {
            return None;
        }
        let is_first = std::mem::take(&mut self.is_first);
        let step = if let Some(inside) = rest.strip_prefix('[') {
            self.bracket(inside)
        } else if let Some(name) = rest.strip_prefix('.') {
            self.name(name)
        } else if is_first {
            self.name(rest)
        } else {
            None
        };
        Some(step)
    }
}

/// Returns the path with `$`, as in faults.
///
/// ```text
/// title   →  $.title      [2].name  →  $[2].name      $.a  →  $.a
/// ```
pub(super) fn from_root(path: &str) -> String {
    match Steps::of(path) {
        Steps { is_first: false, .. } => path.to_owned(),
        _ if path.is_empty() || path.starts_with('[') => format!("${path}"),
        _ => format!("$.{path}"),
    }
}
