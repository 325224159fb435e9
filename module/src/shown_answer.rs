//! An answer as it was shown piece by piece, against the answer as it was read.

use std::borrow::Cow;
use std::fmt;
use std::mem;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use toolwright_signature::{Contract, Dialect, Field, Partial, Reading};

use crate::context::Context;
use crate::event::EventKind;

/// The field of an output that is not an object.
const RESULT: &str = "result";

/// Returns the text from which a [`Partial`] reads the answer: the model's `text` if it has the value
/// that was read, in the contract's shape or that of the dialect; otherwise JSON of the value.
pub(crate) fn to_show<'t, T>(
    contract: &Contract,
    dialect: Dialect,
    text: &'t str,
    reading: &Reading<T>,
) -> Cow<'t, str> {
    let Some(json) = reading.json() else { return text.into() };
    let mut partial = Partial::new();
    partial.push(text);
    let value: Value = serde_json::from_str(json).unwrap_or_default();
    let is_object = contract.output_to_read().is_some_and(|output| output["type"] == "object");
    let result = partial.field::<Value>(RESULT);
    // Some dialects also ask for an object in this field.
    let is_wrapped = !is_object
        || matches!(result, Field::Done(_) | Field::Partial(_)) && value.get(RESULT).is_none();
    let whole = partial.field::<Value>("$");
    let is_same = |value: &Value, found: &Field<Value>| match found {
        Field::Done(found) => is_in(value, found),
        _ => false,
    };
    let lowered = || contract.lower_output_value(dialect, &value);
    let is_shown = is_same(&value, if is_wrapped { &result } else { &whole })
        || lowered().is_ok_and(|value| is_same(&value, &whole));
    match partial.is_done() && is_shown {
        true => text.into(),
        // As text, because a `Value` would change a number with more than 64 bits.
        false if is_wrapped => format!("{{\"{RESULT}\":{json}}}").into(),
        false => json.to_owned().into(),
    }
}

/// Returns whether a value that was found contains another one. It may have additional fields.
fn is_in(value: &Value, found: &Value) -> bool {
    match (value, found) {
        (Value::Object(fields), Value::Object(found)) => fields.iter().all(|(name, value)| {
            found.get(name).map_or(value.is_null(), |found| is_in(value, found))
        }),
        (Value::Array(items), Value::Array(found)) => {
            items.len() == found.len()
                && items.iter().zip(found).all(|(item, found)| is_in(item, found))
        }
        (value, found) => value == found,
    }
}

/// The typed answer of a run, as [`EventKind::AnswerDelta`] has shown it so far.
pub struct ShownAnswer {
    /// The name of the tool whose arguments are the answer.
    tool: &'static str,
    text: Mutex<String>,
}

impl ShownAnswer {
    /// Returns an empty answer. It will be the arguments of this tool.
    #[must_use]
    pub fn of_tool(tool: &'static str) -> Self {
        Self { tool, text: Mutex::default() }
    }

    pub(crate) fn is_of(&self, tool: &str) -> bool {
        self.tool == tool
    }

    /// Adds a piece that is shown.
    pub(crate) fn add(&self, at: usize, piece: &str) {
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        if at == 0 {
            text.clear();
        }
        text.push_str(piece);
    }

    /// Shows the answer that counts, which was read from `text`, unless the pieces so far read as it.
    pub fn end<T>(
        &self,
        cx: &Context,
        (contract, dialect): (&Contract, Dialect),
        text: &str,
        reading: &Reading<T>,
    ) {
        if !cx.has_events() {
            return;
        }
        let text = to_show(contract, dialect, text, reading);
        let mut shown = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        let before = mem::replace(&mut *shown, text.clone().into_owned());
        drop(shown);
        if before != text {
            cx.emit(|| EventKind::AnswerDelta { at: 0, text: text.into_owned() });
        }
    }
}

impl fmt::Debug for ShownAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShownAnswer").field("tool", &self.tool).finish_non_exhaustive()
    }
}
