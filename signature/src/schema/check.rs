//! Check of a foreign schema: whether the value of each keyword is allowed.
//!
//! ```text
//! {"properties": {"a": {"type": "text"}}}
//! → $.a: `type` is "text"; make it one of string, number, …
//! ```
//!
//! Begin with [`check`]. It runs first. Without it, a keyword with a value of the wrong kind would
//! be ignored silently, or change the meaning of other keywords. The forms of older drafts and
//! OpenAPI are accepted too; [`modernise`](super::modernise) rewrites them afterwards. The kind of
//! value for each keyword is in the [table](super::keywords) ([`Expects`]).

use std::collections::{HashSet, VecDeque};

use regex_lite::Regex;
use serde_json::Value;

use super::keywords::{Expects, Keywords, below, keyword, path_below, text};
use super::older_drafts::may_be_null;
use super::types::Types;
use super::{is_schema, pointer_of};
use crate::error::{Checked, SchemaFault, refuse, shown};

impl Expects {
    /// Returns whether a value is accepted, and the accepted values for the error message.
    fn accepts(self, value: &Value) -> (bool, &'static str) {
        let list = value.as_array();
        let named = value.as_object();
        let whole = |count: f64| count >= 0.0 && count.fract() == 0.0;
        let some = list.is_some_and(|list| !list.is_empty());
        let all = |is: fn(&Value) -> bool| named.is_some_and(|named| named.values().all(is));
        match self {
            Self::Anything => (true, "any value"),
            Self::Types => {
                let kinds = list.map_or(std::slice::from_ref(value), Vec::as_slice);
                (!kinds.is_empty() && kinds.iter().all(is_type), ONE_OF_TYPES)
            }
            Self::Text => (value.is_string(), "a text"),
            Self::Pattern => {
                (value.as_str().is_some_and(is_pattern), "a text that is a regular expression")
            }
            Self::Truth => (value.is_boolean(), "true or false"),
            Self::Number => (value.is_number(), "a number"),
            Self::NumberOrTruth => (value.is_number() || value.is_boolean(), "a number"),
            Self::Step => (value.as_f64().is_some_and(|step| step > 0.0), "a number above 0"),
            Self::Count => (value.as_f64().is_some_and(whole), "a whole number, 0 or more"),
            Self::Values => (some, "a list of at least one value"),
            Self::NamesOrTruth => (value.is_boolean() || is_names(value), "a list of names"),
            Self::Schema => (is_schema(value), "a schema: an object or a boolean"),
            Self::SchemaOrSchemas => {
                (list.is_some() || is_schema(value), "a schema or a list of schemas")
            }
            Self::Schemas => (list.is_some(), "a list of schemas"),
            Self::Members => (some, "a list of at least one schema"),
            Self::NamedSchemas => (named.is_some(), "an object of schemas by name"),
            Self::PatternSchemas => {
                let patterns = named.is_some_and(|all| all.keys().all(|key| is_pattern(key)));
                (patterns, "an object of schemas by regular expression")
            }
            Self::NamedNames => (all(is_names), "an object of lists of names"),
            Self::NamedSchemasOrNames => {
                let accepted = all(|one| is_schema(one) || is_names(one));
                (accepted, "an object of schemas or lists of names")
            }
        }
    }
}

/// The values of `type`, for the error message.
const ONE_OF_TYPES: &str = "one of string, number, integer, boolean, object, array, null or a list of them, or leave it out";

/// Checks the keywords of a schema, of all schemas below it, and of all targets of references.
///
/// # Errors
///
/// The error has the path of the first keyword whose value is of the wrong kind.
pub(crate) fn check(root: &Value) -> Checked {
    let mut check = Check { root, seen: HashSet::new(), waiting: VecDeque::new() };
    check.schema(root, "$")?;
    // Without recursion, because a chain of references may be long.
    while let Some((schema, reference)) = check.waiting.pop_front() {
        check.schema(schema, reference)?;
    }
    Ok(())
}

/// The state of one check.
struct Check<'a> {
    /// The whole schema, for references.
    root: &'a Value,
    /// The schemas that were checked, by their address.
    seen: HashSet<*const Value>,
    /// The targets of references, which may be at places where no schema is expected.
    waiting: VecDeque<(&'a Value, &'a str)>,
}

impl<'a> Check<'a> {
    /// Checks a schema and all schemas below it, each once.
    fn schema(&mut self, schema: &'a Value, path: &str) -> Checked {
        if schema.is_boolean() || !self.seen.insert(std::ptr::from_ref(schema)) {
            return Ok(());
        }
        let Value::Object(map) = schema else {
            let schema = shown(&schema.to_string());
            let advice = format!("{schema} is not a schema; make it an object or a boolean");
            return refuse(SchemaFault::Malformed, path, advice);
        };
        keywords(map, path)?;
        // A reference to something else leads nowhere, which each dialect reports itself.
        if let Some(reference) = text(map, "$ref")
            && let Some(pointer) = pointer_of(self.root, &reference.into())
        {
            self.waiting.extend(self.root.pointer(&pointer).map(|target| (target, reference)));
        }
        for (keyword, name, schema) in below(map) {
            let names = keyword == "dependencies" && schema.is_array();
            if names || map.get(keyword).is_some_and(Value::is_null) {
                continue;
            }
            self.schema(schema, &path_below(path, keyword, name))?;
        }
        Ok(())
    }
}

/// Checks the values of keywords, but not the schemas in them.
fn keywords(map: &Keywords, path: &str) -> Checked {
    for (name, value) in map {
        if value.is_null() && !may_be_null(name) {
            continue;
        }
        let found = keyword(name).map(|known| known.expects.accepts(value));
        if let Some((false, expected)) = found {
            let found = shown(&value.to_string());
            let advice = format!("`{name}` is {found}; make it {expected}");
            return refuse(SchemaFault::Malformed, path, advice);
        }
    }
    Ok(())
}

/// Whether a value is the name of a type.
fn is_type(kind: &Value) -> bool {
    kind.as_str().is_some_and(|kind| Types::named(kind) != Types::NONE)
}

/// Whether a value is a list of texts.
fn is_names(value: &Value) -> bool {
    value.as_array().is_some_and(|names| names.iter().all(Value::is_string))
}

/// Whether some regex engine may accept a pattern. Ours supports less than those of JavaScript
/// and Python, so a pattern that ours rejects is wrong only if it is wrong for all of them.
///
/// An unclosed group or class is wrong in all engines; look-around is not.
fn is_pattern(text: &str) -> bool {
    // Quotes and comments may contain anything.
    let quotes = [r"\Q", "(?#", "(?x"].iter().any(|start| text.contains(start));
    // Python treats a bracket at the start of a class as one of its characters.
    quotes || !is_broken(text, false) || !is_broken(text, true) || Regex::new(text).is_ok()
}

/// Whether a group or a class is unclosed or closed twice, an escape has no character, or a
/// repetition has no operand.
fn is_broken(pattern: &str, bracket_first: bool) -> bool {
    let mut groups: usize = 0;
    let mut nothing_yet = true;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '*' | '+' | '?' if nothing_yet => return true,
            '\\' if chars.next().is_none() => return true,
            '(' => groups += 1,
            ')' if groups == 0 => return true,
            ')' => groups -= 1,
            '[' => {
                chars.next_if_eq(&'^');
                if bracket_first {
                    chars.next_if_eq(&']');
                }
                loop {
                    match chars.next() {
                        Some(']') => break,
                        Some('\\') => drop(chars.next()),
                        Some(_) => {}
                        None => return true,
                    }
                }
            }
            _ => {}
        }
        nothing_yet = c == '|';
    }
    groups > 0
}
