//! From a schema of the normal form to one that a dialect accepts.

mod lists;
mod objects;
mod unions;
mod words;

use std::mem;

use serde_json::{Map, Value, json};

use crate::error::{SchemaFault, Side};
use crate::limits::{LOWERING_STEPS, NORMAL_DEPTH};
use crate::lowering::cycles::Cycles;
use crate::lowering::dialect::Loss;
use crate::lowering::rules::{Recursion, Rules};
use crate::lowering::shape::{Schema, Shape, definitions, has_type};
use crate::lowering::value;
use crate::schema::{DEFINITIONS, NOTHING_FITS, Refusal, keep_used, resolve};

/// A constraint longer than this is not said in a description.
const LONGEST_TOLD: usize = 300;

pub(crate) const TOLD: &str = "is said in the description only";
const LEFT_OUT: &str = "is left out";

type Lowered<T = Value> = Result<T, Refusal>;

/// One lowering on its way through a schema.
pub(crate) struct Walk<'a> {
    rules: &'static Rules,
    root: &'a Value,
    side: Side,
    /// Whether a Rust type stands behind the schema.
    typed: bool,
    cycles: Cycles,
    /// The definition that is being lowered, as references say it.
    here: String,
    pub(crate) losses: Vec<Loss>,
    steps: usize,
    depth: usize,
    /// What is lowered may be, or be part of, one of several: its values must stay apart
    /// from those of the others.
    in_union: bool,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(rules: &'static Rules, root: &'a Value, side: Side, typed: bool) -> Self {
        Self {
            rules,
            root,
            side,
            typed,
            cycles: Cycles::of(root),
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
        let mut lowered = self.node(self.root, "$")?;
        let mut done = Map::new();
        // Whoever refers to it may be in a union.
        self.in_union = true;
        for (name, definition) in definitions(self.root).into_iter().flatten() {
            self.here = format!("#/{DEFINITIONS}/{name}");
            let path = self.here.clone();
            done.insert(name.clone(), self.node(definition, &path)?);
        }
        keep_used(&lowered, &mut done);
        if let (false, Some(root)) = (done.is_empty(), lowered.as_object_mut()) {
            root.insert(DEFINITIONS.into(), done.into());
        }
        Ok(lowered)
    }

    fn node(&mut self, schema: &Value, path: &str) -> Lowered {
        self.steps += 1;
        // Written out where it is used, a definition nests in each that uses it.
        if self.steps > LOWERING_STEPS || self.depth > NORMAL_DEPTH {
            return Err(Refusal::new(
                SchemaFault::TooLarge,
                path,
                "it grows too large there; make it smaller",
            ));
        }
        let Some(map) = schema.as_object() else {
            return Err(Refusal::new(SchemaFault::Contradiction, path, NOTHING_FITS));
        };
        self.depth += 1;
        let lowered = self.shape(map, path);
        self.depth -= 1;
        lowered
    }

    fn shape(&mut self, map: &Schema, path: &str) -> Lowered {
        let mut told = Vec::new();
        let mut out = match Shape::of(map) {
            Shape::Reference(reference) => return self.reference(reference, map, path),
            Shape::Any => self.any(map, path)?,
            Shape::Union(members) => self.union(members, map, path)?,
            Shape::Values(values) => self.values(&values, map, path, &mut told)?,
            Shape::Struct(this) => self.structure(this, map, path, &mut told)?,
            Shape::Map(pairs) => self.map(&pairs, map, path, &mut told)?,
            Shape::Tuple(items) => self.tuple(items, map, path)?,
            Shape::List(items) => self.list(items, map, path)?,
            Shape::Scalar => typed(map.get("type").cloned().unwrap_or_default()),
        };
        self.words(map, &mut out, told, path)?;
        Ok(in_order_of(map, out).into())
    }

    /// Lowers what may be one of several.
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

    fn reference(&mut self, reference: &str, map: &Schema, path: &str) -> Lowered {
        let told = map.keys().any(|keyword| keyword != "$ref" && keyword != DEFINITIONS);
        if told && self.rules.recursion == Recursion::Refused {
            // Written out: there are no keywords left that could hold it as it is.
            let target = resolve(self.root, reference).and_then(Value::as_object).cloned();
            let mut target = target.unwrap_or_default();
            for annotation in ["description", "default"] {
                target.extend(map.get(annotation).map(|text| (annotation.into(), text.clone())));
            }
            return self.among_others(|walk| walk.node(&target.into(), path));
        }
        let mut out = Map::from_iter([("$ref".to_owned(), json!(reference))]);
        if told {
            if !self.rules.told_references {
                out = Map::from_iter([("anyOf".to_owned(), json!([out]))]);
            }
            self.words(map, &mut out, Vec::new(), path)?;
        }
        Ok(out.into())
    }

    /// A value in this dialect's shape.
    fn rendered(&self, schema: &Schema, value: &Value) -> Option<Value> {
        value::render(self.rules, self.root, &schema.clone().into(), value).ok()
    }

    fn lose(&mut self, path: &str, keyword: &str, why: &'static str) {
        let (path, keyword) = (path.to_owned(), keyword.to_owned());
        self.losses.push(Loss { side: self.side, path, keyword, why: why.into(), fault: None });
    }
}

fn typed(kind: Value) -> Schema {
    Map::from_iter([("type".to_owned(), kind)])
}

/// The keywords in the order of the schema they come from, new ones last: what nothing
/// changed in keeps its bytes.
fn in_order_of(schema: &Schema, mut lowered: Schema) -> Schema {
    let mut ordered = Map::new();
    for keyword in schema.keys() {
        ordered.extend(lowered.shift_remove_entry(keyword));
    }
    ordered.extend(lowered);
    ordered
}

/// The type, or the type and null where the schema takes null.
fn type_like(map: &Schema, kind: &str) -> Value {
    if has_type(map, "null") { json!([kind, "null"]) } else { kind.into() }
}
