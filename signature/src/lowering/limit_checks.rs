//! Checks of a lowered schema against limits that a provider enforces with HTTP 400.
//!
//! Begin with [`check`]. It reads the lowered JSON, not the graph, because the provider counts what
//! is sent: a definition that is written out twice counts twice. It returns the schema's part of
//! the limits on a whole request, which [`request`](super::request) sums up.
//!
//! [`check_references`] is for dialects that do not change schemas and have no limits.

use serde_json::Value;

use crate::error::{Checked, SchemaFault, refuse};
use crate::limits::{ANALYSIS_STEPS, HOPS};
use crate::lowering::dialect_rules::{Limits, Rules, Weight};
use crate::schema::keywords::{entries, has_type, items, schemas_in, text};
use crate::schema::{DEFINITIONS, Keywords, below, leads_nowhere, path_below, pointer_of, resolve};

/// Checks a lowered schema by its rules; returns its part of a request's limits.
pub(crate) fn check(schema: &Value, rules: &Rules) -> Checked<Weight> {
    let mut sums = Sums::default();
    for (map, path) in schemas_in(schema) {
        sums.add(&path, map, &rules.limits)?;
    }
    sums.check(&rules.limits)?;
    if let Some(path) = too_deep(schema, rules.limits.levels) {
        let most = rules.limits.levels;
        let advice = format!("more than {most} nested objects; make it flatter");
        return refuse(SchemaFault::TooDeep, &path, advice);
    }
    Ok(sums.weight)
}

/// Checks the references of a schema, for a dialect that does not change schemas.
pub(crate) fn check_references(root: &Value) -> Checked {
    for (map, path) in schemas_in(root) {
        if let Some(reference) = map.get("$ref")
            && pointer_of(root, reference).is_none()
        {
            return leads_nowhere(&path, reference);
        }
    }
    Ok(())
}

/// The counted parts of a schema.
#[derive(Default)]
struct Sums {
    properties: usize,
    values: usize,
    characters: usize,
    weight: Weight,
}

impl Sums {
    /// Counts one schema, without the schemas below it.
    fn add(&mut self, path: &str, node: &Keywords, limits: &Limits) -> Checked {
        let properties = entries(node, "properties").count();
        self.properties += properties;
        self.weight.optional += properties.saturating_sub(items(node, "required").len());
        self.weight.unions += entries(node, "properties").filter(|(_, it)| is_union(it)).count();
        let names = entries(node, "properties").chain(entries(node, DEFINITIONS));
        self.characters += names.map(|(name, _)| name.chars().count()).sum::<usize>();
        self.characters += node.get("const").map_or(0, characters);

        let values = items(node, "enum");
        let texts = values.clone().map(characters).sum::<usize>();
        let Limits { long_enum, long_enum_characters, .. } = limits;
        if values.len() > *long_enum && texts > *long_enum_characters {
            let advice = format!(
                "an enum of more than {long_enum} values with more than {long_enum_characters} characters; shorten the values or use a text without an enum"
            );
            return refuse(SchemaFault::TooLarge, path, advice);
        }
        self.values += values.len();
        self.characters += texts;
        Ok(())
    }

    /// Compares the sums with the limits.
    fn check(&self, limits: &Limits) -> Checked {
        for (count, most, what) in [
            (self.properties, limits.properties, "properties"),
            (self.values, limits.values, "values of enums"),
            (self.characters, limits.characters, "characters of names and values"),
            (self.weight.optional, limits.weight.optional, "optional fields"),
            (self.weight.unions, limits.weight.unions, "fields of several types"),
        ] {
            if count > most {
                let advice = format!("{count} {what}, but at most {most} are accepted; split it");
                return refuse(SchemaFault::TooLarge, "$", advice);
            }
        }
        Ok(())
    }
}

/// Whether a field has several types, in the way Anthropic counts them.
fn is_union(property: &Value) -> bool {
    property.get("anyOf").is_some() || property.get("type").is_some_and(Value::is_array)
}

/// Returns the number of characters of a text; other values do not count.
fn characters(value: &Value) -> usize {
    value.as_str().map_or(0, |text| text.chars().count())
}

/// Returns the path of an object that nests too deeply, following each reference once on a path.
///
/// Without recursion, because a path may be long.
///
/// Definitions count where they are used. A definition that contains itself counts once.
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
        if let Some(reference) = text(map, "$ref") {
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
        let below = below(map).into_iter().filter(|(keyword, ..)| *keyword != DEFINITIONS);
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
