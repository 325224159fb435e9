//! Check of a foreign schema: whether the value of each keyword is allowed.
//!
//! It runs first. Without it, a keyword with a value of the wrong kind would be ignored silently,
//! or change the meaning of other keywords. The forms of older drafts and OpenAPI are accepted
//! too; [`modernise`](super::modernise) rewrites them afterwards.

use std::collections::{HashSet, VecDeque};

use regex_lite::Regex;
use serde_json::{Map, Value};

use super::keywords::{Expects, below, keyword, path_below};
use super::older_drafts::may_be_null;
use super::types::{TYPE_NAMES, Types};
use super::{Refusal, percent_decoded, resolve};
use crate::error::{SchemaFault, shown};

impl Expects {
    fn accepts(self, value: &Value) -> bool {
        let list = value.as_array();
        let named = value.as_object();
        match self {
            Self::Anything => true,
            Self::Types => match list {
                Some(kinds) => !kinds.is_empty() && kinds.iter().all(is_type),
                None => is_type(value),
            },
            Self::Text => value.is_string(),
            Self::Pattern => value.as_str().is_some_and(is_pattern),
            Self::Truth => value.is_boolean(),
            Self::Number => value.is_number(),
            Self::NumberOrTruth => value.is_number() || value.is_boolean(),
            Self::Step => value.as_f64().is_some_and(|step| step > 0.0),
            Self::Count => value.as_f64().is_some_and(|count| count >= 0.0 && count.fract() == 0.0),
            Self::Values => list.is_some_and(|values| !values.is_empty()),
            Self::NamesOrTruth => value.is_boolean() || is_names(value),
            Self::Schema => is_schema(value),
            Self::SchemaOrSchemas => list.is_some() || is_schema(value),
            Self::Schemas => list.is_some(),
            Self::Members => list.is_some_and(|members| !members.is_empty()),
            Self::NamedSchemas => named.is_some(),
            Self::PatternSchemas => named.is_some_and(|all| all.keys().all(|key| is_pattern(key))),
            Self::NamedNames => named.is_some_and(|all| all.values().all(is_names)),
            Self::NamedSchemasOrNames => {
                named.is_some_and(|all| all.values().all(|one| is_schema(one) || is_names(one)))
            }
        }
    }

    /// Returns the expected value, for the error message.
    fn words(self) -> String {
        let fixed = match self {
            Self::Types => {
                return format!(
                    "one of {} or a list of them, or leave it out",
                    TYPE_NAMES.join(", ")
                );
            }
            Self::Anything => "any value",
            Self::Text => "a text",
            Self::Pattern => "a text that is a regular expression",
            Self::Truth => "true or false",
            Self::Number | Self::NumberOrTruth => "a number",
            Self::Step => "a number above 0",
            Self::Count => "a whole number, 0 or more",
            Self::Values => "a list of at least one value",
            Self::NamesOrTruth => "a list of names",
            Self::Schema => "a schema: an object or a boolean",
            Self::SchemaOrSchemas => "a schema or a list of schemas",
            Self::Schemas => "a list of schemas",
            Self::Members => "a list of at least one schema",
            Self::NamedSchemas => "an object of schemas by name",
            Self::PatternSchemas => "an object of schemas by regular expression",
            Self::NamedNames => "an object of lists of names",
            Self::NamedSchemasOrNames => "an object of schemas or lists of names",
        };
        fixed.to_owned()
    }
}

/// Checks the keywords of a schema, of all schemas below it, and of all targets of references.
///
/// # Errors
///
/// The error has the path of the first keyword whose value is of the wrong kind.
pub(crate) fn check(root: &Value) -> Result<(), Refusal> {
    let mut check = Check { root, seen: HashSet::new(), waiting: VecDeque::new() };
    check.schema(root, "$")?;
    // Without recursion, because a chain of references may be long.
    while let Some((schema, reference)) = check.waiting.pop_front() {
        check.schema(schema, reference)?;
    }
    Ok(())
}

struct Check<'a> {
    root: &'a Value,
    /// The schemas that were checked, by their address.
    seen: HashSet<*const Value>,
    /// The targets of references, which may be at places where no schema is expected.
    waiting: VecDeque<(&'a Value, &'a str)>,
}

impl<'a> Check<'a> {
    fn schema(&mut self, schema: &'a Value, path: &str) -> Result<(), Refusal> {
        if !self.seen.insert(std::ptr::from_ref(schema)) {
            return Ok(());
        }
        let Value::Object(map) = schema else {
            if schema.is_boolean() {
                return Ok(());
            }
            let advice = "is not a schema; make it an object or a boolean";
            return Err(Refusal::new(
                SchemaFault::Malformed,
                path,
                format!("{} {advice}", shown(&schema.to_string())),
            ));
        };
        keywords(map, path)?;
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            let target = resolve(self.root, reference)
                .or_else(|| resolve(self.root, &percent_decoded(reference)?));
            // A reference to something else leads nowhere, which each dialect reports itself.
            self.waiting
                .extend(target.filter(|target| is_schema(target)).map(|to| (to, reference)));
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

fn keywords(map: &Map<String, Value>, path: &str) -> Result<(), Refusal> {
    for (name, value) in map {
        if value.is_null() && !may_be_null(name) {
            continue;
        }
        if let Some(expects) =
            keyword(name).map(|known| known.expects).filter(|expects| !expects.accepts(value))
        {
            let advice =
                format!("`{name}` is {}; make it {}", shown(&value.to_string()), expects.words());
            return Err(Refusal::new(SchemaFault::Malformed, path, advice));
        }
    }
    Ok(())
}

fn is_type(kind: &Value) -> bool {
    kind.as_str().is_some_and(|kind| Types::named(kind) != Types::NONE)
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

fn is_names(value: &Value) -> bool {
    value.as_array().is_some_and(|names| names.iter().all(Value::is_string))
}

/// Whether some regex engine may accept a pattern. Ours supports less than those of JavaScript
/// and Python, so a pattern that ours rejects is wrong only if it is wrong for all of them.
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
