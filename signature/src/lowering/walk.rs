//! The walk from a graph of the normal form to a schema that a dialect accepts.
//!
//! Each [`Shape`] has a method of its own in a submodule; `constraints` adds the keywords that do
//! not belong to the shape.

mod constraints;
mod lists;
mod objects;
mod unions;

use std::mem;

use serde_json::{Map, Value, json};

use crate::error::{SchemaFault, Side};
use crate::limits::{LOWERING_STEPS, NORMAL_DEPTH};
use crate::lowering::cycles::Cycles;
use crate::lowering::dialect::Loss;
use crate::lowering::dialect_rules::{Recursion, Rules};
use crate::lowering::value;
use crate::lowering::{Schema, has_type};
use crate::schema::graph::{Graph, Id, Schemas, Shape};
use crate::schema::{DEFINITIONS, NOTHING_FITS, Refusal, keep_used, reference_to};

/// Maximum number of bytes of a constraint that is written into a description.
const LONGEST_TOLD: usize = 300;

pub(crate) const TOLD: &str = "is said in the description only";
const LEFT_OUT: &str = "is left out";

type Lowered<T = Value> = Result<T, Refusal>;

/// The state of one lowering.
pub(crate) struct Walk<'a> {
    rules: &'static Rules,
    schemas: &'a Schemas<'a>,
    side: Side,
    /// Whether the schema has a Rust type.
    typed: bool,
    cycles: Cycles,
    /// The definition that is being lowered, as a reference.
    here: String,
    pub(crate) losses: Vec<Loss>,
    steps: usize,
    depth: usize,
    /// Whether the current node is a member of a union, or part of one: its values must be
    /// distinguishable from those of the other members.
    in_union: bool,
}

impl<'a> Walk<'a> {
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
            cycles: Cycles::of(schemas.root),
            here: "#".to_owned(),
            losses: Vec::new(),
            steps: 0,
            depth: 0,
            in_union: false,
        }
    }

    pub(crate) fn lower(&mut self) -> Lowered {
        if let (Recursion::Refused, Some(reference)) = (&self.rules.recursion, self.cycles.first())
        {
            let path = if reference == "#" { "$" } else { reference };
            return Err(Refusal::new(
                SchemaFault::Recursive,
                path,
                "it contains itself; make it a few levels deep, or a list of items that name their parent",
            ));
        }
        let mut lowered = self.node(self.graph().root, "$")?;
        let mut done = Map::new();
        // A reference to it may be in a union.
        self.in_union = true;
        let definitions = self.schemas.root.get(DEFINITIONS).and_then(Value::as_object);
        for (name, _) in definitions.into_iter().flatten() {
            self.here = reference_to(name);
            if let Some(definition) = self.graph().named(&self.here) {
                let path = self.here.clone();
                done.insert(name.clone(), self.node(definition, &path)?);
            }
        }
        keep_used(&lowered, &mut done);
        if let (false, Some(root)) = (done.is_empty(), lowered.as_object_mut()) {
            root.insert(DEFINITIONS.into(), done.into());
        }
        Ok(lowered)
    }

    fn graph(&self) -> &'a Graph {
        &self.schemas.graph
    }

    fn node(&mut self, id: Id, path: &str) -> Lowered {
        self.node_as(id, self.schemas.words(id), path)
    }

    /// Lowers a node with other keywords than its own.
    fn node_as(&mut self, id: Id, map: &Schema, path: &str) -> Lowered {
        self.steps += 1;
        // A definition that is inlined is repeated in each definition that uses it.
        if self.steps > LOWERING_STEPS || self.depth > NORMAL_DEPTH {
            let advice = "it grows too large there; make it smaller";
            return Err(Refusal::new(SchemaFault::TooLarge, path, advice));
        }
        self.depth += 1;
        let lowered = self.shape(id, map, path);
        self.depth -= 1;
        lowered
    }

    fn shape(&mut self, id: Id, map: &Schema, path: &str) -> Lowered {
        let mut told = Vec::new();
        let node = self.graph().node(id);
        let mut out = match self.graph().shape(id) {
            Shape::Nothing => {
                return Err(Refusal::new(SchemaFault::Contradiction, path, NOTHING_FITS));
            }
            Shape::Reference(target) => return self.reference(id, *target, map, path),
            Shape::Any => self.any(map, path)?,
            Shape::Union(members) => self.union(members, map, path)?,
            Shape::Values => self.values(node, map, path, &mut told)?,
            Shape::Struct => self.structure(node, map, path, &mut told)?,
            Shape::Map => self.map(node, map, path, &mut told)?,
            Shape::Tuple => self.tuple(node, map, path)?,
            Shape::List => self.list(node, map, path)?,
            Shape::Scalar => typed(map.get("type").cloned().unwrap_or_default()),
        };
        self.words(id, map, &mut out, told, path)?;
        Ok(in_order_of(map, out).into())
    }

    /// Lowers a schema in the normal form that is not in the graph and has no references.
    fn another(&mut self, schema: &Value, path: &str) -> Lowered {
        let schemas = Schemas::of(schema);
        let mut walk = Walk {
            schemas: &schemas,
            cycles: Cycles::default(),
            here: String::new(),
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

    fn any(&mut self, map: &Schema, path: &str) -> Lowered<Schema> {
        if !self.rules.any {
            return Err(self.no_any(map, path));
        }
        let mut out = Map::new();
        out.extend(map.get("type").map(|kind| ("type".to_owned(), kind.clone())));
        if path == "$" {
            out.insert("properties".into(), json!({}));
        }
        Ok(out)
    }

    fn no_any(&self, map: &Schema, path: &str) -> Refusal {
        let object = has_type(map, "object");
        let any = "any value at all; give it a type";
        Refusal::new(
            SchemaFault::Undescribed,
            path,
            if object { "an object with any fields; name its fields" } else { any },
        )
    }

    fn reference(&mut self, id: Id, target: Id, map: &Schema, path: &str) -> Lowered {
        let told = map.keys().any(|keyword| keyword != "$ref" && keyword != DEFINITIONS);
        if told && self.rules.recursion == Recursion::Refused {
            // Inlined, because no keyword is left that could wrap the reference.
            let mut words = self.schemas.words(target).clone();
            for annotation in ["description", "default"] {
                words.extend(map.get(annotation).map(|text| (annotation.into(), text.clone())));
            }
            return self.among_others(|walk| walk.node_as(target, &words, path));
        }
        let reference = map.get("$ref").cloned().unwrap_or_default();
        let mut out = Map::from_iter([("$ref".to_owned(), reference)]);
        if told {
            if !self.rules.told_references {
                out = Map::from_iter([("anyOf".to_owned(), json!([out]))]);
            }
            self.words(id, map, &mut out, Vec::new(), path)?;
        }
        Ok(out.into())
    }

    /// Returns a value in this dialect's shape.
    fn rendered(&self, id: Id, value: &Value) -> Option<Value> {
        value::render(self.rules, self.graph(), id, value).ok()
    }

    fn lose(&mut self, path: &str, keyword: &str, why: &'static str) {
        let (path, keyword) = (path.to_owned(), keyword.to_owned());
        self.losses.push(Loss { side: self.side, path, keyword, why: why.into(), fault: None });
    }
}

fn typed(kind: Value) -> Schema {
    Map::from_iter([("type".to_owned(), kind)])
}

/// Returns the keywords in the order of the original schema, with new ones at the end: an
/// unchanged schema keeps its bytes.
fn in_order_of(schema: &Schema, mut lowered: Schema) -> Schema {
    let mut ordered = Map::new();
    for keyword in schema.keys() {
        ordered.extend(lowered.shift_remove_entry(keyword));
    }
    ordered.extend(lowered);
    ordered
}

/// Returns the type, or the type and null if the schema is nullable.
fn type_like(map: &Schema, kind: &str) -> Value {
    if has_type(map, "null") { json!([kind, "null"]) } else { kind.into() }
}
