//! The walk from a graph of the normal form to a schema that a dialect accepts.
//!
//! Begin with [`Walk::lower`]. It lowers the root and then each definition, and keeps the
//! definitions that are still used. Each schema takes two steps ([`Walk::shape`]):
//!
//! 1. Its [`Shape`] is lowered by a method of its own: `lists` has lists and tuples, `objects`
//!    structs and maps, `unions` unions and listed values. References, and schemas without rules,
//!    are in this file.
//! 2. `constraints` adds all other keywords: it keeps those that the dialect supports, and writes
//!    the others into the description as losses.
//!
//! ```text
//! {"type": "integer", "minimum": 1}, anthropic
//! → {"type": "integer", "description": "minimum: 1."}, loss: `minimum`
//! ```
//!
//! The keywords keep the order of the original schema, so that an unchanged schema keeps its bytes.
//! The submodules add methods to [`Walk`] and call it again for the schemas below, so they and this
//! file use each other.

mod constraints;
mod lists;
mod objects;
mod unions;

use std::collections::HashMap;
use std::mem;

use serde_json::{Map, Value, json};

use crate::error::{Checked, SchemaFault, Side, refuse};
use crate::limits::{LOWERING_STEPS, NORMAL_DEPTH};
use crate::lowering::dialect::Loss;
use crate::lowering::dialect_rules::{Recursion, Rules};
use crate::lowering::value;
use crate::schema::graph::{Graph, Id, Node, Schemas, Shape};
use crate::schema::keywords::{entries, has_type};
use crate::schema::{DEFINITIONS, Keywords, NOTHING_FITS, keep_used, reference_to};

/// Maximum number of bytes of a constraint that is written into a description.
const LONGEST_TOLD: usize = 300;

/// The loss of a rule that a model can still read.
pub(crate) const TOLD: &str = "is written only in the description";
/// The loss of a rule that is too long for a description.
const LEFT_OUT: &str = "is left out";

/// The schema that is being lowered.
#[derive(Clone, Copy)]
struct At<'p> {
    /// The id in the graph: its notation may be a reference.
    id: Id,
    /// The rules, with references resolved.
    node: &'p Node,
    /// Its keywords, for those that the node does not have.
    map: &'p Keywords,
    /// Its path in the value.
    path: &'p str,
}

/// The state of one lowering.
pub(crate) struct Walk<'a> {
    /// The rules of the dialect.
    rules: &'static Rules,
    /// The normal form and its graph.
    schemas: &'a Schemas<'a>,
    /// The side, for the losses.
    side: Side,
    /// Whether the schema has a Rust type.
    typed: bool,
    /// The nodes that contain themselves, unless the dialect accepts all of them.
    recursive: HashMap<Id, usize>,
    /// The definition that is being lowered.
    here: Id,
    /// Sentences for the description of the schema that is being lowered.
    told: Vec<String>,
    /// The losses so far.
    pub(crate) losses: Vec<Loss>,
    steps: usize,
    depth: usize,
    /// Whether the current node is a member of a union, or part of one: its values must be
    /// distinguishable from those of the other members.
    in_union: bool,
}

impl<'a> Walk<'a> {
    /// Starts a lowering at the root.
    pub(crate) fn new(
        rules: &'static Rules,
        schemas: &'a Schemas<'a>,
        side: Side,
        typed: bool,
    ) -> Self {
        Self {
            rules,
            schemas,
            side,
            typed,
            recursive: match rules.recursion {
                Recursion::Accepted => HashMap::new(),
                _ => schemas.graph.recursive(),
            },
            here: schemas.graph.root,
            told: Vec::new(),
            losses: Vec::new(),
            steps: 0,
            depth: 0,
            in_union: false,
        }
    }

    /// Returns the lowered schema, with its definitions. A dialect without recursion rejects the
    /// first definition that contains itself.
    pub(crate) fn lower(&mut self) -> Checked<Value> {
        // Definitions have the lowest ids, and every circle contains one.
        let first = self.recursive.keys().min();
        if let (Recursion::Refused, Some(first)) = (&self.rules.recursion, first) {
            let name = self.graph().name(*first).filter(|name| *name != "#");
            let advice = "it contains itself; make it a few levels deep, or a list of items that name their parent";
            return refuse(SchemaFault::Recursive, name.unwrap_or("$"), advice);
        }
        let mut lowered = self.node(self.graph().root, "$")?;
        let mut done = Map::new();
        // A reference to it may be in a union.
        self.in_union = true;
        for (name, _) in entries(self.schemas.words(self.graph().root), DEFINITIONS) {
            let path = reference_to(name);
            if let Some(definition) = self.graph().named(&path) {
                self.here = definition;
                done.insert(name.clone(), self.node(definition, &path)?);
            }
        }
        keep_used(&lowered, &mut done);
        if let (false, Some(root)) = (done.is_empty(), lowered.as_object_mut()) {
            root.insert(DEFINITIONS.into(), done.into());
        }
        Ok(lowered)
    }

    /// Returns the graph of the normal form.
    fn graph(&self) -> &'a Graph {
        &self.schemas.graph
    }

    /// Lowers a node of the graph.
    fn node(&mut self, id: Id, path: &str) -> Checked<Value> {
        self.node_as(id, self.schemas.words(id), path)
    }

    /// Lowers a node with other keywords than its own.
    fn node_as(&mut self, id: Id, map: &Keywords, path: &str) -> Checked<Value> {
        self.steps += 1;
        // A definition that is inlined is repeated in each definition that uses it.
        if self.steps > LOWERING_STEPS || self.depth > NORMAL_DEPTH {
            let advice = "it grows too large there; make it smaller";
            return refuse(SchemaFault::TooLarge, path, advice);
        }
        self.depth += 1;
        let told = mem::take(&mut self.told);
        let lowered = self.shape(At { id, node: self.graph().node(id), map, path });
        self.told = told;
        self.depth -= 1;
        lowered
    }

    /// Lowers the shape of a schema, and then all other keywords.
    fn shape(&mut self, at: At<'_>) -> Checked<Value> {
        let mut out = match self.graph().shape(at.id) {
            Shape::Nothing => return refuse(SchemaFault::Contradiction, at.path, NOTHING_FITS),
            Shape::Reference(target) => return self.reference(*target, at),
            Shape::Any => self.any(at)?,
            Shape::Union(members) => self.union(members, at)?,
            Shape::Values => self.values(at)?,
            Shape::Struct => self.structure(at)?,
            Shape::Map => self.map(at)?,
            Shape::Tuple => self.tuple(at)?,
            Shape::List => self.list(at)?,
            Shape::Scalar => typed(at.map.get("type").cloned().unwrap_or_default()),
        };
        self.words(at, &mut out);
        Ok(in_order_of(at.map, out).into())
    }

    /// Lowers a schema in the normal form that is not in the graph and has no references.
    fn another(&mut self, schema: &Value, path: &str) -> Checked<Value> {
        let schemas = Schemas::of(schema);
        let mut walk = Walk {
            schemas: &schemas,
            recursive: HashMap::new(),
            told: Vec::new(),
            losses: mem::take(&mut self.losses),
            ..*self
        };
        let lowered = walk.node(schemas.graph.root, path);
        (self.losses, self.steps) = (walk.losses, walk.steps);
        lowered
    }

    /// Lowers a schema that may be a member of a union.
    fn among_others<T>(&mut self, lower: impl FnOnce(&mut Self) -> T) -> T {
        let outer = mem::replace(&mut self.in_union, true);
        let lowered = lower(self);
        self.in_union = outer;
        lowered
    }

    /// Lowers a schema without rules, except that it may require fields. At the root it needs
    /// `properties`, although it has none.
    fn any(&mut self, at: At<'_>) -> Checked<Keywords> {
        if !self.rules.any {
            return no_any(at);
        }
        let mut out = Map::new();
        out.extend(at.map.get("type").map(|kind| ("type".to_owned(), kind.clone())));
        if at.path == "$" {
            out.insert("properties".into(), json!({}));
        }
        out.extend(at.map.get("required").map(|names| ("required".to_owned(), names.clone())));
        Ok(out)
    }

    /// Lowers a reference, with the description and default beside it. A dialect that rejects these
    /// gets the reference as the only member of a union, or its target.
    fn reference(&mut self, target: Id, at: At<'_>) -> Checked<Value> {
        let map = at.map;
        let told = map.keys().any(|keyword| keyword != "$ref" && keyword != DEFINITIONS);
        if told && self.rules.recursion == Recursion::Refused {
            // Inlined, because no keyword is left that could wrap the reference.
            let mut words = self.schemas.words(target).clone();
            for annotation in ["description", "default"] {
                words.extend(map.get(annotation).map(|text| (annotation.into(), text.clone())));
            }
            return self.among_others(|walk| walk.node_as(target, &words, at.path));
        }
        let reference = map.get("$ref").cloned().unwrap_or_default();
        let mut out = Map::from_iter([("$ref".to_owned(), reference)]);
        if told {
            if !self.rules.told_references {
                out = Map::from_iter([("anyOf".to_owned(), json!([out]))]);
            }
            self.words(at, &mut out);
        }
        Ok(out.into())
    }

    /// Returns a value in this dialect's shape.
    fn rendered(&self, id: Id, value: &Value) -> Option<Value> {
        value::render(self.rules, self.graph(), id, value).ok()
    }

    /// Reports a rule that the dialect cannot express.
    fn lose(&mut self, path: &str, keyword: &str, why: &'static str) {
        let (path, keyword) = (path.to_owned(), keyword.to_owned());
        self.losses.push(Loss::new(self.side, path, keyword, why));
    }
}

/// Returns the error of a schema without rules.
fn no_any<T>(at: At<'_>) -> Checked<T> {
    let advice = match has_type(at.map, "object") {
        true => "it is an object with any fields; name its fields",
        false => "it accepts any value; give it a type",
    };
    refuse(SchemaFault::Undescribed, at.path, advice)
}

/// Returns a schema with a type and no other rule.
fn typed(kind: Value) -> Keywords {
    Map::from_iter([("type".to_owned(), kind)])
}

/// Returns the keywords in the order of the original schema, with new ones at the end: an
/// unchanged schema keeps its bytes.
pub(super) fn in_order_of(schema: &Keywords, mut lowered: Keywords) -> Keywords {
    let mut ordered = Map::new();
    for keyword in schema.keys() {
        ordered.extend(lowered.shift_remove_entry(keyword));
    }
    ordered.extend(lowered);
    ordered
}

/// Returns the type, or the type and null if the schema is nullable.
fn type_like(at: At<'_>, kind: &str) -> Value {
    if has_type(at.map, "null") { json!([kind, "null"]) } else { kind.into() }
}
