//! Paths as faults write them: `title`, `$.title`, `rows[2].name`, `$["a.b"]`.

use std::borrow::Cow;

use super::tree::ValueKind;

/// One step down.
pub(super) enum PathStep<'a> {
    Field(Cow<'a, str>),
    Item(usize),
}

impl PathStep<'_> {
    /// Returns the kind of value that the step needs.
    pub(super) fn kind(&self) -> ValueKind {
        match self {
            Self::Field(_) => ValueKind::Object,
            Self::Item(_) => ValueKind::List,
        }
    }
}

/// The steps of a path, from the root down; `None` for a step that cannot be parsed.
pub(super) struct Steps<'a> {
    rest: &'a str,
    is_first: bool,
}

impl<'a> Steps<'a> {
    pub(super) fn of(path: &'a str) -> Self {
        match path.strip_prefix('$') {
            Some(rest) if rest.is_empty() || rest.starts_with(['.', '[']) => {
                Self { rest, is_first: false }
            }
            _ => Self { rest: path, is_first: true },
        }
    }

    #[inline]
    fn name(&mut self, from: &'a str) -> Option<PathStep<'a>> {
        let end = from.bytes().position(|byte| matches!(byte, b'.' | b'['));
        let (name, rest) = from.split_at(end.unwrap_or(from.len()));
        self.rest = rest;
        (!name.is_empty()).then_some(PathStep::Field(name.into()))
    }

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
        let mut escaped = false;
        let end = from.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        })?;
        let (text, rest) = from.split_at_checked(end + 2)?;
        self.rest = rest.strip_prefix(']')?;
        serde_json::from_str(text).ok().map(|name: String| PathStep::Field(name.into()))
    }
}

impl<'a> Iterator for Steps<'a> {
    type Item = Option<PathStep<'a>>;

    #[inline]
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
pub(super) fn from_root(path: &str) -> String {
    match Steps::of(path) {
        Steps { is_first: false, .. } => path.to_owned(),
        _ if path.is_empty() || path.starts_with('[') => format!("${path}"),
        _ => format!("$.{path}"),
    }
}

/// Adds a step to a path.
pub(super) fn push_field(path: &mut String, name: &str) {
    if name.is_empty() || name.contains(['.', '[', ']', '"']) {
        path.push_str(&format!("[{}]", serde_json::Value::from(name)));
    } else {
        path.push('.');
        path.push_str(name);
    }
}
