//! What OpenAI would refuse with HTTP 400, found when a contract is lowered.

use serde_json::{Map, Value};

use crate::error::shown;
use crate::lowering::dialect::Dialect;
use crate::lowering::may_be;
use crate::schema::{below, resolve};

/// How much a schema may hold in strict mode, all of it together.
///
/// Source: OpenAI's guide "Structured Outputs", section "Supported schemas".
mod most {
    /// Objects in each other.
    pub(super) const LEVELS: usize = 10;
    /// Properties of all objects.
    pub(super) const PROPERTIES: usize = 5_000;
    /// Values of all enums.
    pub(super) const VALUES: usize = 1_000;
    /// Values of one enum whose texts have more than [`LONG_ENUM_CHARACTERS`].
    pub(super) const LONG_ENUM: usize = 250;
    pub(super) const LONG_ENUM_CHARACTERS: usize = 15_000;
    /// Characters of the names of properties and definitions and the texts of enums
    /// and consts.
    pub(super) const CHARACTERS: usize = 120_000;
}

/// What a pattern may not have in strict mode; the source is the same.
const LOOKAROUND: [&str; 4] = ["(?=", "(?!", "(?<=", "(?<!"];

const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];

/// Where a schema is refused, and what to do instead.
pub(crate) struct Refusal {
    pub(crate) path: String,
    pub(crate) advice: String,
}

type Checked = Result<(), Refusal>;

/// Checks a schema that was lowered to one of OpenAI's dialects.
pub(crate) fn check(schema: &Value, dialect: Dialect) -> Checked {
    every(schema, "$", &mut |path, node| sound(schema, path, node))?;
    if dialect == Dialect::OpenAiStrict {
        let mut sums = Sums::default();
        every(schema, "$", &mut |path, node| sums.add(path, node))?;
        sums.check()?;
        if let Some(path) = too_deep(schema) {
            return refuse(
                &path,
                format!("more than {} objects in each other; make it flatter", most::LEVELS),
            );
        }
    }
    Ok(())
}

fn refuse(path: &str, advice: String) -> Checked {
    Err(Refusal { path: path.to_owned(), advice })
}

/// Visits a schema and every schema below it.
fn every(
    schema: &Value,
    path: &str,
    visit: &mut impl FnMut(&str, &Map<String, Value>) -> Checked,
) -> Checked {
    let Some(map) = schema.as_object() else {
        return Ok(());
    };
    visit(path, map)?;
    for (keyword, name, schema) in below(map) {
        every(schema, &path_below(path, keyword, name), visit)?;
    }
    Ok(())
}

fn path_below(path: &str, keyword: &str, name: Option<&str>) -> String {
    match (keyword, name) {
        ("properties", Some(name)) => format!("{path}.{name}"),
        ("$defs" | "definitions", Some(name)) => format!("#/{keyword}/{name}"),
        ("items" | "prefixItems", None) => format!("{path}[]"),
        _ => path.to_owned(),
    }
}

/// References lead somewhere and types are spelled right.
fn sound(root: &Value, path: &str, node: &Map<String, Value>) -> Checked {
    if let Some(reference) = node.get("$ref") {
        let target = reference.as_str().and_then(|reference| resolve(root, reference));
        if !target.is_some_and(|target| target.is_object() || target.is_boolean()) {
            let reference = shown(&reference.to_string());
            return refuse(
                path,
                format!(
                    "the reference {reference} leads nowhere in this schema; put what it means under `$defs`"
                ),
            );
        }
    }
    if let Some(kind) = node.get("type") {
        let known = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
        let fits = match kind {
            Value::Array(kinds) => !kinds.is_empty() && kinds.iter().all(known),
            one => known(one),
        };
        if !fits {
            let kind = shown(&kind.to_string());
            return refuse(
                path,
                format!("{kind} is no type of JSON Schema; choose from {}", TYPES.join(", ")),
            );
        }
    }
    Ok(())
}

#[derive(Default)]
struct Sums {
    properties: usize,
    values: usize,
    characters: usize,
}

impl Sums {
    fn add(&mut self, path: &str, node: &Map<String, Value>) -> Checked {
        if let Some(pattern) = node.get("pattern").and_then(Value::as_str)
            && LOOKAROUND.iter().any(|group| pattern.contains(group))
        {
            return refuse(
                path,
                "a pattern that looks around; say it in the description instead".into(),
            );
        }
        let names = |keyword| node.get(keyword).and_then(Value::as_object).into_iter().flatten();
        self.properties += names("properties").count();
        let names = names("properties").chain(names("$defs"));
        self.characters += names.map(|(name, _)| name.chars().count()).sum::<usize>();
        self.characters += node.get("const").map_or(0, characters);

        let values = node.get("enum").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let texts = values.iter().map(characters).sum::<usize>();
        if values.len() > most::LONG_ENUM && texts > most::LONG_ENUM_CHARACTERS {
            return refuse(
                path,
                format!(
                    "an enum of more than {} values with more than {} characters; shorten the values or take text",
                    most::LONG_ENUM,
                    most::LONG_ENUM_CHARACTERS,
                ),
            );
        }
        self.values += values.len();
        self.characters += texts;
        Ok(())
    }

    fn check(&self) -> Checked {
        for (count, most, what) in [
            (self.properties, most::PROPERTIES, "properties"),
            (self.values, most::VALUES, "values of enums"),
            (self.characters, most::CHARACTERS, "characters of names and values"),
        ] {
            if count > most {
                return refuse(
                    "$",
                    format!(
                        "{count} {what} where {most} are accepted; split it, or send the loose dialect"
                    ),
                );
            }
        }
        Ok(())
    }
}

fn characters(value: &Value) -> usize {
    value.as_str().map_or(0, |text| text.chars().count())
}

/// How many schemas are looked at for the deepest: definitions that all refer to each
/// other have more ways through them than there is time.
const STEPS: usize = 100_000;

/// How many references are followed on one way.
const HOPS: usize = 32;

/// The path of an object in too many others, following each reference once on a way.
///
/// Without recursion, because a way may be long.
fn too_deep(root: &Value) -> Option<String> {
    let mut steps = 0;
    let mut waiting = vec![(root, "$".to_owned(), 0, Vec::new())];
    while let Some((schema, path, mut levels, mut followed)) = waiting.pop() {
        let Some(map) = schema.as_object() else {
            continue;
        };
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            let target = resolve(root, reference)
                .filter(|_| followed.len() < HOPS && !followed.contains(&reference));
            followed.push(reference);
            waiting.extend(target.map(|target| (target, path, levels, followed)));
            continue;
        }
        if may_be(map, "object") {
            levels += 1;
        }
        if levels > most::LEVELS {
            return Some(path);
        }
        let below = below(map).into_iter().filter(|(keyword, ..)| *keyword != "$defs");
        for (keyword, name, schema) in below.rev() {
            steps += 1;
            if steps > STEPS {
                return None;
            }
            waiting.push((schema, path_below(&path, keyword, name), levels, followed.clone()));
        }
    }
    None
}
