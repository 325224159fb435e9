//! References of a schema, written out where they are used.
//!
//! Begin with [`inline`]. It is for MCP, whose clients do not all resolve references: some remove
//! `$defs` and leave the references without a target (claude-ai-mcp#591, copilot-cli#1876).
//!
//! ```text
//! {"properties": {"a": {"$ref": "#/$defs/A", "description": "…"}}, "$defs": {"A": {"type": "string"}}}
//! → {"properties": {"a": {"type": "string", "description": "…"}}}
//! ```
//!
//! A type that contains itself has no end. In an input, [`LEVELS`] levels of it are written out, and
//! any value of its type is accepted below them: a model reads the form in the levels above. In an
//! output it stays a reference. A client validates the output with a validator, which resolves
//! references, and a caller learns the exact type.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value, json};

use crate::error::Side;
use crate::limits::{ANALYSIS_STEPS, NORMAL_DEPTH, SCHEMA_DEPTH};
use crate::lowering::dialect::Loss;
use crate::lowering::walk::in_order_of;
use crate::schema::graph::circles;
use crate::schema::keywords::{
    Role, entries, has_role, has_type, keyword as known, map_below, schemas_in, text,
};
use crate::schema::{DEFINITIONS, Keywords, below, is_deeper, pointer_of};

/// Maximum number of times that a type is written out inside itself.
const LEVELS: usize = 3;

/// Maximum number of bytes that a schema may grow. A model pays for the schema with each request.
const ROOM: usize = 16 * 1024;

/// Keywords that identify a schema. A copy does not have them, because they would be there twice.
const IDENTITIES: [&str; 3] = ["$anchor", "$id", "$schema"];

/// Keywords whose effect depends on where a reference leads at run time. A schema with one of them is
/// not changed.
const DYNAMIC: [&str; 3] = ["$dynamicRef", "$recursiveRef", "$dynamicAnchor"];

/// Keywords under which a schema that accepts more values makes the whole accept fewer.
const INVERTING: [&str; 5] = ["not", "if", "contains", "unevaluatedProperties", "unevaluatedItems"];

const KEPT: &str = "stays a reference, because the schema without it would be too large or mean something else; \
     some clients of MCP do not resolve references";
const CIRCULAR: &str = "stays a reference, because the type contains itself; some clients of MCP do not resolve \
     references";

/// Writes out the references of a checked schema. Returns the rules that are lost.
///
/// Every value that fits the schema fits the result. If a reference stays, the loss says why.
pub(super) fn inline(schema: &mut Value, side: Side) -> Vec<Loss> {
    if !schemas_in(schema).any(|(map, _)| map.contains_key("$ref")) {
        return Vec::new();
    }
    let loss = |path: &str, why: String| vec![Loss::new(side, path, "$ref", why)];
    let is_dynamic = |map: &Keywords| DYNAMIC.iter().any(|keyword| map.contains_key(*keyword));
    let circular = circular(schema);
    let levels = match side {
        _ if schemas_in(schema).any(|(map, _)| is_dynamic(map)) => Vec::new(),
        Side::Input if !circular.is_empty() => (1..=LEVELS).rev().map(Some).chain([None]).collect(),
        _ => vec![None],
    };
    for levels in levels {
        let mut copying = Copying {
            root: schema,
            circular: &circular,
            levels,
            open: vec![String::new()],
            is_relaxed: false,
            lost: BTreeSet::new(),
            room: schema.to_string().len() + ROOM,
            depth: 0,
            copies: 0,
        };
        let Some(copy) = copying.whole().filter(|copy| !is_deeper(copy, SCHEMA_DEPTH)) else {
            continue;
        };
        let lost = copying.lost;
        *schema = copy;
        let why = levels.map_or_else(
            || CIRCULAR.to_owned(),
            |levels| {
                format!(
                    "is written out up to {levels} levels deep; below them any value is accepted"
                )
            },
        );
        return lost.iter().flat_map(|pointer| loss(&format!("#{pointer}"), why.clone())).collect();
    }
    loss("$", KEPT.to_owned())
}

/// Returns the pointers of references that lead back to themselves.
fn circular(root: &Value) -> HashSet<String> {
    let pointers = |schema: &Value| -> HashSet<String> {
        let mut found = HashSet::new();
        let mut waiting = vec![schema];
        while let Some(schema) = waiting.pop() {
            let Some(map) = schema.as_object() else { continue };
            found.extend(map.get("$ref").and_then(|reference| pointer_of(root, reference)));
            let parts = below(map).into_iter().filter(|(keyword, ..)| *keyword != DEFINITIONS);
            waiting.extend(parts.map(|(_, _, part)| part));
        }
        found
    };
    let mut places = HashMap::from([(String::new(), 0)]);
    let mut nodes = vec![String::new()];
    let mut edges: Vec<Vec<usize>> = Vec::new();
    while let Some(pointer) = nodes.get(edges.len()) {
        let targets = root.pointer(pointer).map(pointers).unwrap_or_default();
        let place = |target: String| {
            *places.entry(target).or_insert_with_key(|target| {
                nodes.push(target.clone());
                nodes.len() - 1
            })
        };
        edges.push(targets.into_iter().map(place).collect());
    }
    circles(&edges).into_iter().flatten().filter_map(|node| nodes.get(node).cloned()).collect()
}

/// The state of one attempt.
struct Copying<'a> {
    root: &'a Value,
    /// The pointers that lead back to themselves.
    circular: &'a HashSet<String>,
    /// How many levels of a type inside itself are written out. `None`: its references stay.
    levels: Option<usize>,
    /// The targets around the schema that is copied. The first one is the root.
    open: Vec<String>,
    /// Whether a part of the schema that is copied accepts more values than the original.
    is_relaxed: bool,
    /// The pointers of types that are not written out as a whole.
    lost: BTreeSet<String>,
    /// The number of bytes that are left.
    room: usize,
    depth: usize,
    /// The number of copies around the schema that is copied.
    copies: usize,
}

impl Copying<'_> {
    /// Copies the root, with the definitions that are still used.
    fn whole(&mut self) -> Option<Value> {
        let root = self.root.as_object()?;
        let mut copy = self.keywords(root)?;
        let mut definitions = Map::new();
        let circular: HashSet<String> =
            self.circular.iter().filter_map(|pointer| definition_of(pointer)).collect();
        for (name, definition) in entries(root, DEFINITIONS) {
            self.open = vec![String::new(), format!("/{DEFINITIONS}/{name}")];
            let stays = self.levels.is_none() && circular.contains(name);
            if let Some(map) = definition.as_object().filter(|map| stays || has_anchor(map)) {
                definitions.insert(name.clone(), self.keywords(map)?.into());
            }
        }
        keep_used(&copy, &mut definitions);
        if !definitions.is_empty() {
            copy.insert(DEFINITIONS.into(), definitions.into());
        }
        Some(in_order_of(root, copy).into())
    }

    /// Copies a schema. Returns `None` if the copy would be too large.
    fn schema(&mut self, schema: &Value) -> Option<Value> {
        let Some(map) = schema.as_object() else { return Some(schema.clone()) };
        let target = map.get("$ref").and_then(|reference| self.target(reference));
        self.depth += 1;
        let copy = match target {
            _ if self.depth > NORMAL_DEPTH => None,
            Some(target) => self.reference(map, target),
            None => self.keywords(map).map(Value::Object),
        };
        self.depth -= 1;
        copy
    }

    /// Returns the pointer to which a reference leads, behind all references that have no other rule.
    fn target(&self, reference: &Value) -> Option<String> {
        let mut pointer = pointer_of(self.root, reference)?;
        // Without recursion, because a chain of references may be long.
        for _ in 0..ANALYSIS_STEPS {
            let next = match self.root.pointer(&pointer).and_then(Value::as_object) {
                Some(map) if map.len() == 1 => map.get("$ref"),
                _ => None,
            };
            match next.and_then(|reference| pointer_of(self.root, reference)) {
                Some(next) => pointer = next,
                None => break,
            }
        }
        Some(pointer)
    }

    /// Copies the keywords of a schema, without its definitions.
    fn keywords(&mut self, map: &Keywords) -> Option<Keywords> {
        let was_relaxed = std::mem::take(&mut self.is_relaxed);
        let mut relaxed = Vec::new();
        let is_identity = |keyword: &str| self.copies > 0 && IDENTITIES.contains(&keyword);
        let stays = |keyword: &str| keyword != DEFINITIONS && !is_identity(keyword);
        let own = map.iter().filter(|(keyword, _)| stays(keyword));
        let own: Keywords = own.map(|(keyword, value)| (keyword.clone(), value.clone())).collect();
        let mut copy = map_below(&own, |keyword, part| {
            let copy = self.schema(part)?;
            if std::mem::take(&mut self.is_relaxed) {
                relaxed.push(keyword.to_owned());
            }
            Some(copy)
        })?;
        for (keyword, value) in &copy {
            let size = match known(keyword) {
                Some(known) if known.holds_schemas() => 0,
                _ => value.to_string().len(),
            };
            self.room = self.room.checked_sub(keyword.len() + size + 4)?;
        }
        self.is_relaxed = was_relaxed || !relaxed.is_empty();
        if self.is_relaxed && copy.keys().any(|keyword| INVERTING.contains(&keyword.as_str())) {
            return None;
        }
        if relaxed.iter().any(|keyword| keyword == "oneOf") {
            // A value may fit several members now.
            let members = copy.shift_remove("oneOf")?;
            match copy.contains_key("anyOf") {
                true => return None,
                false => copy.insert("anyOf".into(), members),
            };
        }
        Some(copy)
    }

    /// Copies the target of a reference in its place.
    fn reference(&mut self, map: &Keywords, target: String) -> Option<Value> {
        let is_circular = self.circular.contains(&target);
        let around = self.open.iter().filter(|open| self.circular.contains(*open));
        // Each target after its first time is one more level.
        let level = around.clone().count() - around.collect::<HashSet<_>>().len();
        let is_open = self.open.contains(&target);
        if is_circular && self.levels.is_none() {
            let mut own = self.keywords(map)?;
            own.insert("$ref".into(), format!("#{target}").into());
            self.lost.insert(target);
            return Some(own.into());
        }
        let schema = self.root.pointer(&target)?;
        let copy = if is_open && self.levels.is_some_and(|levels| level + 1 >= levels) {
            self.lost.insert(target);
            self.is_relaxed = true;
            any_of_type(schema)
        } else {
            self.open.push(target);
            self.copies += 1;
            let copy = self.schema(schema);
            self.copies -= 1;
            self.open.pop();
            copy?
        };
        let mut own = self.keywords(map)?;
        own.shift_remove("$ref");
        Some(beside(copy, own))
    }
}

/// Returns the name of the definition to which a pointer leads, or into which.
fn definition_of(pointer: &str) -> Option<String> {
    let name = pointer.strip_prefix("/$defs/")?.split('/').next()?;
    Some(name.replace("~1", "/").replace("~0", "~"))
}

/// Whether something may refer to a schema, or to one below it, by its anchor.
fn has_anchor(map: &Keywords) -> bool {
    map.contains_key("$anchor")
        || below(map).iter().any(|(_, _, part)| part.as_object().is_some_and(has_anchor))
}

/// Keeps the definitions to which a reference leads, and those with an anchor.
fn keep_used(root: &Keywords, definitions: &mut Keywords) {
    let name_in = |(map, _): (&Keywords, _)| definition_of(text(map, "$ref")?.strip_prefix('#')?);
    let used_in = |schema: &Value| schemas_in(schema).filter_map(name_in).collect::<Vec<_>>();
    let below = below(root).into_iter();
    let mut waiting: Vec<String> = below.flat_map(|(_, _, part)| used_in(part)).collect();
    let anchors = definitions.iter().filter(|(_, it)| it.as_object().is_some_and(has_anchor));
    waiting.extend(anchors.map(|(name, _)| name.clone()));
    let mut kept = HashSet::new();
    while let Some(name) = waiting.pop() {
        if let Some(definition) = definitions.get(&name)
            && kept.insert(name)
        {
            waiting.extend(used_in(definition));
        }
    }
    definitions.retain(|name, _| kept.contains(name));
}

/// Returns the schema of any value of the type of another one.
fn any_of_type(schema: &Value) -> Value {
    let mut any = Map::new();
    any.extend(schema.get("type").map(|kind| ("type".to_owned(), kind.clone())));
    if has_type(&any, "object") {
        any.insert("properties".into(), json!({}));
        any.insert("additionalProperties".into(), true.into());
    }
    // OpenAI refuses a list without.
    if has_type(&any, "array") {
        any.insert("items".into(), json!({}));
    }
    let description = schema.get("description").cloned();
    any.insert(
        "description".into(),
        description.unwrap_or_else(|| "In the same form as above.".into()),
    );
    any.into()
}

/// Returns the copy of a target with the keywords beside the reference. Descriptions replace its own;
/// other rules apply in addition.
fn beside(copy: Value, own: Keywords) -> Value {
    let mut copy = match copy {
        Value::Object(copy) => copy,
        Value::Bool(true) => Map::new(),
        other if own.is_empty() => return other,
        other => Map::from_iter([("allOf".to_owned(), json!([other]))]),
    };
    let says_nothing = |keyword: &String, value: &Value| {
        let has_rule = [Role::Shape, Role::Constraint, Role::Least, Role::Most, Role::Rule]
            .iter()
            .any(|role| has_role(keyword, *role));
        !has_rule || copy.get(keyword) == Some(value)
    };
    if own.iter().all(|(keyword, value)| says_nothing(keyword, value)) {
        copy.extend(own);
        return copy.into();
    }
    let mut own = own;
    match own.get_mut("allOf") {
        Some(Value::Array(parts)) => parts.push(copy.into()),
        _ => {
            own.insert("allOf".into(), json!([copy]));
        }
    }
    own.into()
}
