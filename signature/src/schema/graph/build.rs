//! Makes a [`Graph`] from a schema in the normal form.
//!
//! [`Builder::finish`] works in two stages:
//!
//! 1. Every schema gets a node with its own rules ([`Builder::made`]). A queue takes the place of
//!    recursion, because a schema may be deep.
//! 2. Rules that depend on other nodes follow: references to references lead to their end
//!    ([`Graph::end_chains`]), and unions get the rules of their leaves ([`Graph::join_unions`]).
//!
//! ```text
//! anyOf [{"const": "a"}, {"const": "b"}] → values "a", "b", as of an enum
//! anyOf [A, null]                        → the rules of A, and null fits
//! anyOf [A, B]                           → a union of A and B, with a tag if a field tells them apart
//! ```

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::super::keywords::{
    DEFINITIONS, Keywords, Role, entries, items, keyword as known, text as text_of, texts,
};
use super::super::types::Types;
use super::super::{reference_to, resolve};
use super::{
    FieldRule, Graph, Id, ListRule, Node, NumberRule, ObjectRule, Rest, Schemas, Shape, TextRule,
    Union,
};
use crate::reading::date::Format;
use crate::reading::number::Decimal;
use crate::reading::pattern::Pattern;

/// Objects with more fields than this look them up by hash.
const MANY: usize = 12;

/// The source of a node without a schema.
static TRUE: Value = Value::Bool(true);

/// The nodes so far, and the schemas that wait for one.
pub(super) struct Builder<'s> {
    /// The normal form.
    root: &'s Value,
    /// The nodes, by their ids.
    nodes: Vec<Node>,
    /// The schema of each node.
    sources: Vec<&'s Value>,
    /// The targets of references.
    targets: HashMap<String, Id>,
    /// Nodes that have an id and no content yet. A queue instead of recursion, because a schema may
    /// be deep.
    waiting: VecDeque<(Id, &'s Value)>,
}

impl<'s> Builder<'s> {
    /// Starts a graph without nodes.
    pub(super) fn new(root: &'s Value) -> Self {
        let (nodes, sources, targets) = (Vec::new(), Vec::new(), HashMap::new());
        Self { root, nodes, sources, targets, waiting: VecDeque::new() }
    }

    /// Makes all nodes. The root has the first id, then the definitions, in order.
    pub(super) fn finish(mut self) -> Schemas<'s> {
        let root = self.target("#");
        let definitions = self.root.get(DEFINITIONS).and_then(Value::as_object);
        for (name, _) in definitions.into_iter().flatten() {
            self.target(&reference_to(name));
        }
        while let Some((id, schema)) = self.waiting.pop_front() {
            let node = self.made(schema);
            if let Some(place) = self.nodes.get_mut(id) {
                *place = node;
            }
        }
        let Self { nodes, mut sources, targets, .. } = self;
        let mut graph = Graph { nodes, root, typed: false, targets };
        graph.end_chains();
        graph.join_unions();
        graph.refuse_names(&mut sources);
        Schemas { graph, sources }
    }

    /// Returns the node of a schema. Its content is complete once `waiting` is empty.
    fn node(&mut self, schema: &'s Value) -> Id {
        let id = self.push(Node::any(), schema);
        self.waiting.push_back((id, schema));
        id
    }

    /// Adds a node, and returns its id.
    fn push(&mut self, node: Node, source: &'s Value) -> Id {
        self.nodes.push(node);
        self.sources.push(source);
        self.nodes.len() - 1
    }

    /// Returns the node that a reference leads to.
    fn target(&mut self, reference: &str) -> Id {
        if let Some(id) = self.targets.get(reference) {
            return *id;
        }
        let id = self.node(resolve(self.root, reference).unwrap_or(&TRUE));
        self.targets.insert(reference.to_owned(), id);
        id
    }

    /// Returns the node of a schema, with ids for the schemas below it.
    fn made(&mut self, schema: &'s Value) -> Node {
        let map = match schema {
            Value::Object(map) => map,
            Value::Bool(false) => return Node { shape: Shape::Nothing, ..Node::none() },
            _ => return Node::any(),
        };
        if let Some(reference) = text_of(map, "$ref") {
            return Node { shape: Shape::Reference(self.target(reference)), ..Node::any() };
        }
        let members = map.get("anyOf").or_else(|| map.get("oneOf")).and_then(Value::as_array);
        if let Some(members) = members {
            // Nothing is beside a union in the normal form. Before it, rules may be.
            self.plain(map);
            let members = members.iter().map(|member| self.node(member)).collect();
            return Node { shape: Shape::Union(members), ..Node::any() };
        }
        self.plain(map)
    }

    /// Makes the node of a schema that is not a union or a reference.
    fn plain(&mut self, map: &'s Keywords) -> Node {
        let mut node = Node {
            types: types_of(map),
            number: number(map),
            text: text(map),
            list: self.list(map),
            object: self.object(map),
            ..Node::any()
        };
        values(map, &mut node);
        node.shape = shape(map, &node);
        node.also = items(map, "allOf").map(|part| self.node(part)).collect();
        node.never = map.get("not").map(|not| self.node(not)).into_iter().collect();
        node
    }

    /// Reads the keywords for lists.
    fn list(&mut self, map: &'s Keywords) -> ListRule {
        let prefix: Vec<Id> = items(map, "prefixItems").map(|item| self.node(item)).collect();
        let rest = map.get("items");
        let (shortest, longest) = (size(map, "minItems", 0), size(map, "maxItems", usize::MAX));
        ListRule {
            closed: rest == Some(&Value::Bool(false))
                || !prefix.is_empty() && longest <= prefix.len(),
            items: rest.filter(|rest| !rest.is_boolean()).map(|rest| self.node(rest)),
            prefix,
            shortest,
            longest,
            unique: map.get("uniqueItems") == Some(&Value::Bool(true)),
            contains: map.get("contains").map(|contains| {
                let id = self.node(contains);
                (id, size(map, "minContains", 1), size(map, "maxContains", usize::MAX))
            }),
        }
    }

    /// Returns the patterns of keys, with patterns that the regex engine does not support last.
    /// Such a pattern matches every key if there is no schema for other fields, otherwise no key.
    ///
    /// It is a guess in both cases: the rule for undeclared fields is the better one if there is
    /// one.
    fn patterns(&mut self, map: &'s Keywords, rest: Rest) -> Vec<(Pattern, Id)> {
        let all = entries(map, "patternProperties");
        let all = all.map(|(text, schema)| (Pattern::new(text), self.node(schema)));
        let (mut known, unknown): (Vec<_>, Vec<_>) =
            all.partition(|(pattern, _)| pattern.is_known());
        let takes = !matches!(rest, Rest::Of(_));
        known.extend(unknown.into_iter().map(|(pattern, id)| (pattern.unknown_takes(takes), id)));
        known
    }

    /// Reads the keywords for objects.
    fn object(&mut self, map: &'s Keywords) -> ObjectRule {
        let rest = match map.get("additionalProperties") {
            Some(Value::Bool(false)) => Rest::Closed,
            Some(schema) => Rest::Of(self.node(schema)),
            None => Rest::Open,
        };
        let patterns = self.patterns(map, rest);
        let fields = self.fields(map, &patterns, rest);
        let index = (fields.len() > MANY).then(|| {
            fields.iter().enumerate().map(|(at, field)| (field.name.clone(), at)).collect()
        });
        ObjectRule {
            fields,
            index,
            rest,
            names: map.get("propertyNames").map(|names| self.node(names)),
            patterns,
            fewest: size(map, "minProperties", 0),
            most: size(map, "maxProperties", usize::MAX),
            depends: depends(map),
        }
    }

    /// Returns the declared fields, and then those that are only required.
    fn fields(
        &mut self,
        map: &'s Keywords,
        patterns: &[(Pattern, Id)],
        rest: Rest,
    ) -> Vec<FieldRule> {
        let required: HashSet<&str> = texts(map, "required").collect();
        let field = |name: &str, node, described| FieldRule {
            name: name.into(),
            node,
            required: required.contains(name),
            described,
        };
        let mut fields = Vec::new();
        let mut declared = HashSet::new();
        for (name, property) in entries(map, "properties") {
            declared.insert(name.as_str());
            fields.push(field(name, self.node(property), true));
        }
        // Required without being declared: a pattern or `rest` has its schema.
        for name in texts(map, "required").filter(|name| declared.insert(name)) {
            let matching = patterns.iter().find(|(pattern, _)| pattern.is_match(name));
            let node = match (matching, rest) {
                (Some((_, id)), _) => *id,
                (None, Rest::Of(id)) => id,
                (None, Rest::Open) => self.push(Node::any(), &TRUE),
                (None, Rest::Closed) => self.push(Node::none(), &TRUE),
            };
            fields.push(field(name, node, false));
        }
        fields
    }
}

/// Returns the shape of a schema that is not a union or a reference.
///
/// The types are those of the keyword and not of the node, whose types are narrowed by listed
/// values. An object is a struct if it declares fields, and a map if it only has rules for
/// undeclared ones.
fn shape(map: &Keywords, node: &Node) -> Shape {
    let types = map.get("type").map_or(Types::NONE, Types::of_keyword);
    let object = &node.object;
    let mut patterns = entries(map, "patternProperties");
    if node.values.is_some() {
        Shape::Values
    } else if types.has(Types::OBJECT) {
        let silent = ["properties", "additionalProperties"];
        if object.described().next().is_some() {
            Shape::Struct
        } else if matches!(object.rest, Rest::Of(_)) || patterns.any(|(_, it)| *it != false) {
            Shape::Map
        } else if silent.iter().any(|keyword| map.contains_key(*keyword)) {
            Shape::Struct
        } else {
            Shape::Any
        }
    } else if types.has(Types::LIST) {
        if node.list.prefix.is_empty() { Shape::List } else { Shape::Tuple }
    } else if map.contains_key("type") {
        Shape::Scalar
    } else {
        Shape::Any
    }
}

impl Graph {
    /// Replaces references to references by their final target.
    ///
    /// ```text
    /// A → B → C → an object: A and B refer to C
    /// A → B → A:             both accept any value, because no rule is left
    /// ```
    /// Contracts reject such circles where a value would have to be checked ([`Graph::circle`]).
    fn end_chains(&mut self) {
        // From the last one: references lead forward, so most chains are short by then.
        for id in (0..self.nodes.len()).rev() {
            let mut end = id;
            // A chain with more steps than there are nodes is circular.
            for _ in 0..self.nodes.len() {
                match self.shape(end) {
                    Shape::Reference(next) => end = *next,
                    _ => break,
                }
            }
            let is_circle = matches!(self.shape(end), Shape::Reference(_));
            if let Some(node) = self.nodes.get_mut(id)
                && let Shape::Reference(target) = &mut node.shape
            {
                *target = end;
                if is_circle {
                    node.shape = Shape::Any;
                }
            }
        }
    }

    /// Sets the content of unions: all values that fit one of their leaves.
    ///
    /// Unions that are only members of other unions get no content. A chain of them would
    /// otherwise list its last members once for each union.
    ///
    /// ```text
    /// anyOf [A, anyOf [B, null]] → content: a union of A and B, and null fits
    /// shape: as before, for lowering
    /// ```
    fn join_unions(&mut self) {
        let is_union = |id: Id| matches!(self.shape(id), Shape::Union(_));
        let targets = self.targets.values().copied();
        let mut waiting: Vec<Id> = targets.filter(|id| !is_union(*id)).chain([self.root]).collect();
        let mut seen: HashSet<Id> = waiting.iter().copied().collect();
        while let Some(id) = waiting.pop() {
            let id = self.target(id);
            if let Shape::Union(_) = self.shape(id) {
                let joined = self.joined(id);
                if let Some(node) = self.nodes.get_mut(id) {
                    let shape = std::mem::replace(&mut node.shape, Shape::Any);
                    *node = Node { shape, ..joined };
                }
            }
            waiting.extend(self.below(id).filter(|below| seen.insert(*below)));
        }
    }

    /// Returns the rules for all values that fit one of the leaves of a union.
    fn joined(&self, id: Id) -> Node {
        let mut members = self.leaves(id);
        let before = members.len();
        members.retain(|id| self.node(*id).types != Types::NULL);
        let nullable = members.len() < before;
        let mut node = match members.as_slice() {
            [] if nullable => Node { types: Types::NULL, ..Node::any() },
            // The union only contains itself.
            [] => Node::any(),
            [one] => self.node(*one).clone(),
            many => self.all_texts(many).unwrap_or_else(|| self.union(many)),
        };
        if nullable {
            node.types = node.types.with(Types::NULL);
        }
        node
    }

    /// Returns the node of leaves that cannot be joined to a plain one.
    fn union(&self, members: &[Id]) -> Node {
        let types = members.iter().map(|id| self.node(*id).types).fold(Types::NONE, Types::with);
        let union = Union { members: members.to_vec(), tag: self.tag(members).map(Into::into) };
        Node { types, union: Some(Box::new(union)), ..Node::any() }
    }

    /// Returns the tag: a field for which each member that is an object has texts of its own.
    ///
    /// Reading uses it to pick the member that a value is meant for, and to report faults of that
    /// member only.
    /// ```text
    /// {"kind": const "circle", …}, {"kind": const "square", …} → "kind"
    /// ```
    fn tag(&self, members: &[Id]) -> Option<&str> {
        let members = members.iter().map(|id| self.node(*id));
        let objects: Vec<_> = members.filter(|node| node.types.has(Types::OBJECT)).collect();
        let (first, rest) = objects.split_first()?;
        let differs = |name: &str| {
            let mut seen = HashSet::new();
            objects.iter().all(|member| {
                let field = member.object.described_field(name);
                field
                    .and_then(|field| self.fixed(field.node))
                    .is_some_and(|texts| texts.into_iter().all(|text| seen.insert(text)))
            })
        };
        let names = first.object.described().map(|field| &*field.name);
        names.filter(|_| !rest.is_empty()).find(|name| differs(name))
    }

    /// Returns the texts that a field is restricted to.
    fn fixed(&self, id: Id) -> Option<Vec<&str>> {
        let node = self.node(id);
        let texts = node.values.as_deref().filter(|_| node.shape == Shape::Values)?;
        let only_texts = !texts.is_empty() && node.types == Types::TEXT;
        only_texts.then(|| texts.iter().filter_map(Value::as_str).collect())
    }

    /// Merges members that all list texts into one list of texts.
    fn all_texts(&self, members: &[Id]) -> Option<Node> {
        let mut all: Vec<Value> = Vec::new();
        let mut seen = HashSet::new();
        for node in members.iter().map(|id| self.node(*id)) {
            let simple = node.text.is_free() && node.also.is_empty() && node.never.is_empty();
            let texts = node.values.as_deref().filter(|_| simple && node.types == Types::TEXT)?;
            // The same text in two members: serde would pick one of them.
            if !texts.iter().all(|text| seen.insert(text.as_str())) {
                return None;
            }
            all.extend(texts.iter().cloned());
        }
        Some(Node { types: Types::TEXT, values: Some(all.into()), ..Node::any() })
    }

    /// Declared fields whose names do not fit the schema of names take no value.
    ///
    /// ```text
    /// {"properties": {"long": A}, "propertyNames": {"maxLength": 2}} → no value fits `long`
    /// ```
    /// Reading then needs no look at the names of declared fields.
    fn refuse_names(&mut self, sources: &mut Vec<&Value>) {
        static FALSE: Value = Value::Bool(false);
        let refused = |node: &Node| -> Vec<usize> {
            let Some(names) = node.object.names else {
                return Vec::new();
            };
            let takes = |field: &FieldRule| self.takes(names, &Value::from(&*field.name));
            let fields = node.object.fields.iter().enumerate();
            fields.filter(|(_, field)| !takes(field)).map(|(i, _)| i).collect()
        };
        let refused: Vec<_> = self.nodes.iter().map(refused).collect();
        if refused.iter().all(Vec::is_empty) {
            return;
        }
        let nothing = self.nodes.len();
        self.nodes.push(Node { shape: Shape::Nothing, ..Node::none() });
        sources.push(&FALSE);
        for (node, refused) in self.nodes.iter_mut().zip(refused) {
            for field in refused {
                if let Some(field) = node.object.fields.get_mut(field) {
                    field.node = nothing;
                }
            }
        }
    }
}

/// Reads `const` and `enum`, and narrows the types to those of the values.
fn values(map: &Keywords, node: &mut Node) {
    // The normal form lists a `const` in the `enum` beside it.
    let values = match (map.get("const"), map.get("enum").and_then(Value::as_array)) {
        (Some(only), _) => std::slice::from_ref(only),
        (None, Some(listed)) => listed,
        (None, None) => return,
    };
    let present = values.iter().map(Types::of_value).fold(Types::NONE, Types::with);
    node.types = node.types.common(present);
    node.values = Some(values.iter().filter(|value| !value.is_null()).cloned().collect());
}

/// Returns the count of a keyword.
fn size(map: &Keywords, keyword: &str, otherwise: usize) -> usize {
    let size = map.get(keyword).and_then(Value::as_f64).filter(|size| *size >= 0.0);
    size.map_or(otherwise, |size| size as usize)
}

/// Reads `dependentRequired`.
fn depends(map: &Keywords) -> Vec<(String, Vec<String>)> {
    let names = |list: &Value| {
        let names = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    };
    let all = entries(map, "dependentRequired");
    all.map(|(name, needed)| (name.clone(), names(needed))).collect()
}

/// Returns the types that a schema names, or else the types that its other keywords apply to.
///
/// In the normal form only constraints, such as the members of `allOf`, have no type.
fn types_of(map: &Keywords) -> Types {
    if let Some(kind) = map.get("type") {
        return Types::of_keyword(kind);
    }
    // Without a type, keywords for objects do not exclude texts. Schemas with such keywords are
    // intended for objects all the same, and reading needs the type.
    let shapes = map.keys().filter_map(|keyword| known(keyword));
    let shapes = shapes.filter(|known| known.role == Role::Shape && known.of != Types::ALL);
    match shapes.map(|known| known.of).fold(Types::NONE, Types::with) {
        Types::OBJECT => Types::OBJECT,
        Types::LIST => Types::LIST,
        _ => Types::ALL,
    }
}

/// Reads the keywords for numbers.
///
/// `implied` is true if all bounds are those of the Rust type: serde then rejects the same numbers,
/// and reading needs no check of its own.
fn number(map: &Keywords) -> NumberRule {
    let bound = |keyword: &str| match map.get(keyword) {
        Some(Value::Number(number)) => Decimal::parse(&number.to_string()),
        _ => None,
    };
    let format = text_of(map, "format").unwrap_or_default();
    let mut rule = NumberRule {
        least: bound("minimum"),
        greatest: bound("maximum"),
        above: bound("exclusiveMinimum"),
        below: bound("exclusiveMaximum"),
        step: bound("multipleOf"),
        range: range(format),
        single: format == "float",
        float: matches!(format, "double" | "float"),
        ..NumberRule::default()
    };
    let (low, high) = rule.range.clone().unzip();
    rule.implied = (rule.range.is_some() || rule.float)
        && (rule.least.is_none() || rule.least == low)
        && (rule.greatest.is_none() || rule.greatest == high)
        && [&rule.above, &rule.below, &rule.step].iter().all(|bound| bound.is_none());
    rule.quick = rule.quick();
    rule
}

/// Returns the range of a Rust integer, by the format that schemars writes for it.
fn range(format: &str) -> Option<(Decimal, Decimal)> {
    let (low, high): (i128, u128) = match format {
        "int8" => (i8::MIN.into(), 127),
        "int16" => (i16::MIN.into(), i16::MAX as u128),
        "int32" => (i32::MIN.into(), i32::MAX as u128),
        "int64" | "int" => (i64::MIN.into(), i64::MAX as u128),
        "int128" => (i128::MIN, i128::MAX as u128),
        "uint8" => (0, u8::MAX.into()),
        "uint16" => (0, u16::MAX.into()),
        "uint32" => (0, u32::MAX.into()),
        "uint64" | "uint" => (0, u64::MAX.into()),
        "uint128" => (0, u128::MAX),
        _ => return None,
    };
    Some((Decimal::parse(&low.to_string())?, Decimal::parse(&high.to_string())?))
}

/// Reads the keywords for texts.
fn text(map: &Keywords) -> TextRule {
    TextRule {
        shortest: size(map, "minLength", 0),
        longest: size(map, "maxLength", usize::MAX),
        pattern: text_of(map, "pattern").map(Pattern::new).filter(Pattern::is_known),
        format: text_of(map, "format").and_then(Format::named),
    }
}
