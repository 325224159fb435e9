//! Checks of a lowered schema against limits that a provider enforces with HTTP 400.

use serde_json::{Map, Value};

use crate::error::{SchemaFault, shown};
use crate::limits::{ANALYSIS_STEPS, HOPS};
use crate::lowering::dialect_rules::{Limits, Rules, Weight};
use crate::lowering::has_type;
use crate::schema::types::{TYPE_NAMES, Types};
use crate::schema::{Refusal, below, leads_nowhere, path_below, percent_decoded, resolve};

type Checked<T = ()> = Result<T, Refusal>;

/// Checks a lowered schema by its rules; returns its part of a request's limits.
pub(crate) fn check(schema: &Value, rules: &Rules) -> Checked<Weight> {
    every(schema, "$", &mut |path, node| types(path, node))?;
    let mut sums = Sums::default();
    every(schema, "$", &mut |path, node| sums.add(path, node, &rules.limits))?;
    sums.check(&rules.limits)?;
    if let Some(path) = too_deep(schema, rules.limits.levels) {
        return refuse(
            SchemaFault::TooDeep,
            &path,
            format!("more than {} objects in each other; make it flatter", rules.limits.levels),
        );
    }
    Ok(sums.weight)
}

fn refuse<T>(fault: SchemaFault, path: &str, advice: String) -> Checked<T> {
    Err(Refusal::new(fault, path, advice))
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

/// Checks the references and types of a schema, for a dialect that does not change schemas.
pub(crate) fn check_words(schema: &Value) -> Checked {
    every(schema, "$", &mut |path, node| {
        leads_somewhere(schema, path, node)?;
        types(path, node)
    })
}

fn leads_somewhere(root: &Value, path: &str, node: &Map<String, Value>) -> Checked {
    let Some(reference) = node.get("$ref") else {
        return Ok(());
    };
    let leads = |pointer: &str| {
        let target = resolve(root, pointer);
        target.is_some_and(|target| target.is_object() || target.is_boolean())
    };
    let text = reference.as_str();
    if text
        .is_some_and(|text| leads(text) || percent_decoded(text).is_some_and(|text| leads(&text)))
    {
        return Ok(());
    }
    Err(leads_nowhere(path, reference))
}

/// Checks the names of types.
fn types(path: &str, node: &Map<String, Value>) -> Checked {
    if let Some(kind) = node.get("type") {
        let known =
            |kind: &Value| kind.as_str().is_some_and(|kind| Types::named(kind) != Types::NONE);
        let fits = match kind {
            Value::Array(kinds) => !kinds.is_empty() && kinds.iter().all(known),
            one => known(one),
        };
        if !fits {
            let kind = shown(&kind.to_string());
            return refuse(
                SchemaFault::Malformed,
                path,
                format!(
                    "{kind} is not a type of JSON Schema; choose one of {}",
                    TYPE_NAMES.join(", ")
                ),
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
    weight: Weight,
}

impl Sums {
    fn add(&mut self, path: &str, node: &Map<String, Value>, limits: &Limits) -> Checked {
        let named = |keyword| node.get(keyword).and_then(Value::as_object).into_iter().flatten();
        let required = node.get("required").and_then(Value::as_array).map_or(0, Vec::len);
        let properties = named("properties").count();
        self.properties += properties;
        self.weight.optional += properties.saturating_sub(required);
        self.weight.unions +=
            named("properties").filter(|(_, property)| is_union(property)).count();
        let names = named("properties").chain(named("$defs"));
        self.characters += names.map(|(name, _)| name.chars().count()).sum::<usize>();
        self.characters += node.get("const").map_or(0, characters);

        let values = node.get("enum").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let texts = values.iter().map(characters).sum::<usize>();
        if values.len() > limits.long_enum && texts > limits.long_enum_characters {
            return refuse(
                SchemaFault::TooLarge,
                path,
                format!(
                    "an enum of more than {} values with more than {} characters; shorten the values or take text",
                    limits.long_enum, limits.long_enum_characters,
                ),
            );
        }
        self.values += values.len();
        self.characters += texts;
        Ok(())
    }

    fn check(&self, limits: &Limits) -> Checked {
        for (count, most, what) in [
            (self.properties, limits.properties, "properties"),
            (self.values, limits.values, "values of enums"),
            (self.characters, limits.characters, "characters of names and values"),
            (self.weight.optional, limits.weight.optional, "optional fields"),
            (self.weight.unions, limits.weight.unions, "fields of several types"),
        ] {
            if count > most {
                return refuse(
                    SchemaFault::TooLarge,
                    "$",
                    format!("{count} {what} where {most} are accepted; split it"),
                );
            }
        }
        Ok(())
    }
}

fn is_union(property: &Value) -> bool {
    property.get("anyOf").is_some() || property.get("type").is_some_and(Value::is_array)
}

fn characters(value: &Value) -> usize {
    value.as_str().map_or(0, |text| text.chars().count())
}

/// Returns the path of an object that nests too deeply, following each reference once on a path.
///
/// Without recursion, because a path may be long.
fn too_deep(root: &Value, levels_accepted: usize) -> Option<String> {
    if levels_accepted == usize::MAX {
        return None;
    }
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
        if has_type(map, "object") {
            levels += 1;
        }
        if levels > levels_accepted {
            return Some(path);
        }
        let below = below(map).into_iter().filter(|(keyword, ..)| *keyword != "$defs");
        for (keyword, name, schema) in below.rev() {
            steps += 1;
            if steps > ANALYSIS_STEPS {
                return None;
            }
            waiting.push((schema, path_below(&path, keyword, name), levels, followed.clone()));
        }
    }
    None
}
