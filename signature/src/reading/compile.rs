//! From a schema to its form.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;

use regex_lite::Regex;
use serde_json::{Map, Value};

use crate::reading::date::Format;
use crate::reading::form::{
    Field, Form, Id, Kinds, ListRule, Node, NumberRule, ObjectRule, Rest, TextRule, Union,
};
use crate::reading::merge::{ALSO, constrains, merged};
use crate::reading::number::Decimal;
use crate::schema::resolve;

/// So many places at most: a schema that would unfold into more is not checked there.
const MOST: usize = 20_000;

/// So deep at most, for schemas that unfold without end.
const DEEPEST: usize = 120;

/// Objects with so many fields look them up by hash.
const MANY: usize = 12;

impl Form {
    pub(crate) fn of(schema: &Value, typed: bool) -> Self {
        let mut compiler = Compiler {
            root: schema,
            typed,
            gathered: Cell::new(0),
            nodes: Vec::new(),
            known: HashMap::new(),
        };
        let root = compiler.node(schema, 0);
        let mut form = Self {
            nodes: compiler.nodes,
            root,
            plain: false,
            typed,
            buffered: AtomicBool::new(false),
        };
        if typed {
            form.open_root();
            form.plain = form.is_plain();
        }
        form
    }

    /// A contract closes an input without fields; the type behind it does not mind.
    fn open_root(&mut self) {
        if let Some(root) = self.nodes.get_mut(self.root)
            && root.object.fields.is_empty()
            && root.object.patterns.is_empty()
            && matches!(root.object.rest, Rest::Closed)
        {
            root.object.rest = Rest::Open;
        }
    }

    /// Whether serde alone refuses what the schema refuses, but for what
    /// [`strict`](crate::reading::strict) looks after.
    fn is_plain(&self) -> bool {
        let root = self.node(self.root);
        let struct_or_nothing = root.kinds == Kinds::OBJECT && root.union.is_none();
        let fields_known =
            root.object.patterns.is_empty() && !matches!(root.object.rest, Rest::Of(_));
        // Nodes that nothing leads to are rare; one of them only costs the short way.
        struct_or_nothing
            && fields_known
            && self.nodes.iter().enumerate().all(|(id, node)| {
                node.is_plain(id == self.root)
                    && node.object.fields.iter().all(|field| {
                        // serde takes a missing `Option` for `None`, required or not.
                        !(field.required && self.node(field.node).takes_null())
                    })
            })
    }
}

impl Node {
    fn is_plain(&self, is_root: bool) -> bool {
        let one_kind = [
            Kinds::NONE,
            Kinds::BOOLEAN,
            Kinds::INTEGER,
            Kinds::NUMBER,
            Kinds::TEXT,
            Kinds::LIST,
            Kinds::OBJECT,
        ]
        .contains(&self.kinds.without(Kinds::NULL));
        let values = self.values.as_deref().unwrap_or_default();
        let list = &self.list;
        let tuple = list.closed && list.shortest == list.prefix.len();
        let free_list = list.shortest == 0 && list.longest == usize::MAX && list.prefix.is_empty();
        let object = &self.object;
        let is_struct = matches!(object.rest, Rest::Open | Rest::Closed)
            && object.patterns.is_empty()
            && object.names.is_none()
            && object.depends.is_empty()
            && object.fewest == 0
            && object.most == usize::MAX
            && (is_root || !object.fields.is_empty());
        one_kind
            && self.union.is_none()
            && self.also.is_empty()
            && self.never.is_empty()
            && values.iter().all(Value::is_string)
            && (!self.kinds.meets(Kinds::NUMBER) || self.number.implied)
            && self.text.is_free()
            && (!self.kinds.has(Kinds::LIST)
                || ((tuple || free_list) && !list.unique && list.contains.is_none()))
            && (!self.kinds.has(Kinds::OBJECT) || is_struct)
    }
}

struct Compiler<'s> {
    root: &'s Value,
    /// Whether a Rust type stands behind it.
    typed: bool,
    /// How often a member of a union was looked at.
    gathered: Cell<usize>,
    nodes: Vec<Node>,
    /// What was compiled already, by its text: recursion ends here.
    known: HashMap<String, Id>,
}

impl Compiler<'_> {
    fn node(&mut self, schema: &Value, depth: usize) -> Id {
        if self.nodes.len() >= MOST || depth > DEEPEST {
            return usize::MAX;
        }
        let Some(map) = schema.as_object() else {
            let mut node = Node::any();
            if schema == &Value::Bool(false) {
                node.kinds = Kinds::NONE;
            }
            return self.push(node);
        };
        let leads_on = ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf"];
        if !leads_on.iter().any(|keyword| map.contains_key(*keyword)) {
            let node = self.simple(map, depth);
            return self.push(node);
        }
        let key = schema.to_string();
        if let Some(id) = self.known.get(&key) {
            return *id;
        }
        // Its place first: what is below may lead back here.
        let id = self.push(Node::any());
        self.known.insert(key, id);
        let node = self.combined(map, depth);
        if let Some(place) = self.nodes.get_mut(id) {
            *place = node;
        }
        id
    }

    fn push(&mut self, node: Node) -> Id {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// A schema with references or combinators: all of them undone.
    fn combined(&mut self, map: &Map<String, Value>, depth: usize) -> Node {
        let mut members = Vec::new();
        let mut nullable = false;
        let is_union = self.gather(map, &Followed::default(), &mut members);
        members.retain(|member| {
            let null = member.get("type").is_some_and(|kind| kind == "null")
                || member.get("const").is_some_and(Value::is_null)
                || member.get("enum").is_some_and(|values| *values == serde_json::json!([null]));
            nullable |= null;
            !null
        });
        if is_union && let Some(texts) = all_texts(&members) {
            members = vec![texts];
        }
        let mut node = match members.as_slice() {
            // Nothing but itself is in it.
            [] if !nullable => Node::any(),
            [] => Node { kinds: Kinds::NULL, ..Node::any() },
            [one] => self.simple(one, depth),
            many => self.union(many, depth),
        };
        if nullable {
            node.kinds = node.kinds.with(Kinds::NULL);
        }
        node
    }

    /// Collects the members of a union, each complete by itself; a schema that is no
    /// union has one. Whether it is a union.
    fn gather(
        &self,
        map: &Map<String, Value>,
        followed: &Followed,
        members: &mut Vec<Map<String, Value>>,
    ) -> bool {
        let mut followed = followed.clone();
        self.gathered.set(self.gathered.get() + 1);
        if self.gathered.get() > MOST {
            return true;
        }
        let Some(mut map) = self.flat(map, &mut followed) else {
            return true;
        };
        let keyword = if map.contains_key("anyOf") { "anyOf" } else { "oneOf" };
        let Some(Value::Array(below)) = map.shift_remove(keyword) else {
            members.push(map);
            return false;
        };
        // What stands beside a union holds for each member.
        let own: Map<_, _> = map.into_iter().filter(|(keyword, _)| constrains(keyword)).collect();
        for member in &below {
            let member = match member {
                Value::Object(member) => merged(member, &own),
                Value::Bool(false) => continue,
                _ => own.clone(),
            };
            self.gather(&member, &followed.below(), members);
        }
        true
    }

    /// The schema with its references and `allOf` merged in; `None` if it only leads
    /// back to itself.
    fn flat(
        &self,
        map: &Map<String, Value>,
        followed: &mut Followed,
    ) -> Option<Map<String, Value>> {
        if followed.depth > DEEPEST {
            return None;
        }
        let mut map = map.clone();
        loop {
            if let Some(reference) = map.shift_remove("$ref") {
                let reference = reference.as_str().unwrap_or_default().to_owned();
                if !followed.references.insert(reference.clone()) {
                    return None;
                }
                // What leads nowhere excludes nothing.
                if let Some(Value::Object(target)) = resolve(self.root, &reference) {
                    map = merged(target, &map);
                }
                continue;
            }
            let Some(Value::Array(all)) = map.shift_remove("allOf") else {
                return Some(map);
            };
            for part in all.iter().filter_map(Value::as_object) {
                let part = self.flat(part, &mut followed.below())?;
                map = merged(&map, &part);
            }
        }
    }

    fn union(&mut self, members: &[Map<String, Value>], depth: usize) -> Node {
        let tag = tag(members);
        let ids: Vec<Id> = members
            .iter()
            .map(|member| self.node(&Value::Object(member.clone()), depth + 1))
            .collect();
        let kinds = ids.iter().fold(Kinds::NONE, |kinds, id| {
            kinds.with(self.nodes.get(*id).map_or(Kinds::ALL, |node| node.kinds))
        });
        let union = Union { members: ids, tag: tag.map(Into::into) };
        Node { kinds, union: Some(Box::new(union)), ..Node::any() }
    }

    fn simple(&mut self, map: &Map<String, Value>, depth: usize) -> Node {
        let mut node = Node {
            kinds: kinds(map),
            number: number(map),
            text: text(map),
            list: self.list(map, depth),
            object: self.object(map, depth),
            ..Node::any()
        };
        self.values(map, &mut node);
        for also in map.get(ALSO).and_then(Value::as_array).into_iter().flatten() {
            let id = self.node(also, depth + 1);
            node.also.push(id);
        }
        if let Some(not) = map.get("not") {
            let id = self.node(not, depth + 1);
            node.never.push(id);
        }
        node
    }

    fn values(&self, map: &Map<String, Value>, node: &mut Node) {
        let listed = map.get("enum").and_then(Value::as_array).cloned();
        let values = match (map.get("const"), listed) {
            (Some(only), listed) => {
                let fits = listed.is_none_or(|listed| listed.contains(only));
                if fits { vec![only.clone()] } else { Vec::new() }
            }
            (None, Some(listed)) => listed,
            (None, None) => return,
        };
        if !values.iter().any(Value::is_null) {
            node.kinds = node.kinds.without(Kinds::NULL);
        }
        let values: Vec<Value> = values.into_iter().filter(|value| !value.is_null()).collect();
        let present = values.iter().fold(Kinds::NULL, |kinds, value| kinds.with(kind_of(value)));
        let narrowed =
            [Kinds::NULL, Kinds::BOOLEAN, Kinds::NUMBER, Kinds::TEXT, Kinds::LIST, Kinds::OBJECT]
                .into_iter()
                .filter(|kind| !present.meets(*kind))
                .fold(node.kinds, Kinds::without);
        node.kinds = narrowed;
        node.values = Some(values.into());
    }

    fn list(&mut self, map: &Map<String, Value>, depth: usize) -> ListRule {
        // In draft-07 a list of schemas under `items` is what `prefixItems` is now.
        let old = map.get("items").and_then(Value::as_array);
        let prefix = map.get("prefixItems").and_then(Value::as_array).or(old);
        let rest = if old.is_some() { map.get("additionalItems") } else { map.get("items") };
        let prefix: Vec<Id> =
            prefix.into_iter().flatten().map(|item| self.node(item, depth + 1)).collect();
        let (shortest, longest) = (size(map, "minItems", 0), size(map, "maxItems", usize::MAX));
        ListRule {
            closed: rest == Some(&Value::Bool(false))
                || !prefix.is_empty() && longest <= prefix.len(),
            items: rest.filter(|rest| !rest.is_boolean()).map(|rest| self.node(rest, depth + 1)),
            prefix,
            shortest,
            longest,
            unique: map.get("uniqueItems") == Some(&Value::Bool(true)),
            contains: map.get("contains").map(|contains| {
                let id = self.node(contains, depth + 1);
                (id, size(map, "minContains", 1), size(map, "maxContains", usize::MAX))
            }),
        }
    }

    fn object(&mut self, map: &Map<String, Value>, depth: usize) -> ObjectRule {
        let required: HashSet<&str> = texts(map.get("required")).collect();
        let mut fields = Vec::new();
        for (name, property) in object_of(map, "properties") {
            let node = self.node(property, depth + 1);
            let only = self.nodes.get(node).and_then(Node::only_text).map(Into::into);
            let required = required.contains(name.as_str());
            fields.push(Field { name: name.as_str().into(), node, required, only });
        }
        // Required without being declared: any value, but there has to be one.
        for name in texts(map.get("required")) {
            if !fields.iter().any(|field| *field.name == *name) {
                let node = self.undeclared(map, name, depth);
                fields.push(Field { name: name.into(), node, required: true, only: None });
            }
        }
        let patterns = object_of(map, "patternProperties")
            .filter_map(|(pattern, schema)| Some((Regex::new(pattern).ok()?, schema)));
        let patterns: Vec<_> =
            patterns.map(|(pattern, schema)| (pattern, self.node(schema, depth + 1))).collect();
        let closed = [map.get("additionalProperties"), map.get("unevaluatedProperties")]
            .contains(&Some(&Value::Bool(false)));
        let rest = match map.get("additionalProperties") {
            _ if closed => Rest::Closed,
            Some(schema @ Value::Object(inner)) if !inner.is_empty() => {
                Rest::Of(self.node(schema, depth + 1))
            }
            // A type that says so keeps what it does not know: a flattened map.
            Some(schema @ Value::Bool(true)) if self.typed && !fields.is_empty() => {
                Rest::Of(self.node(schema, depth + 1))
            }
            _ => Rest::Open,
        };
        let index = (fields.len() > MANY).then(|| {
            fields.iter().enumerate().map(|(at, field)| (field.name.clone(), at)).collect()
        });
        ObjectRule {
            fields,
            index,
            rest,
            names: map.get("propertyNames").map(|names| self.node(names, depth + 1)),
            patterns,
            fewest: size(map, "minProperties", 0),
            most: size(map, "maxProperties", usize::MAX),
            depends: depends(map),
        }
    }

    /// What a required field has to be that `properties` does not declare.
    fn undeclared(&mut self, map: &Map<String, Value>, name: &str, depth: usize) -> Id {
        let matching = object_of(map, "patternProperties")
            .find(|(pattern, _)| Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(name)));
        match matching.map(|(_, schema)| schema).or(map.get("additionalProperties")) {
            Some(schema) => self.node(schema, depth + 1),
            None => self.push(Node::any()),
        }
    }
}

/// The references that led to a schema: one of them again would lead round in circles.
#[derive(Clone, Default)]
struct Followed {
    references: HashSet<String>,
    depth: usize,
}

impl Followed {
    fn below(&self) -> Self {
        Self { references: self.references.clone(), depth: self.depth + 1 }
    }
}

fn texts(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn object_of<'a>(
    map: &'a Map<String, Value>,
    keyword: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    map.get(keyword).and_then(Value::as_object).into_iter().flatten()
}

fn size(map: &Map<String, Value>, keyword: &str, otherwise: usize) -> usize {
    let size = map.get(keyword).and_then(Value::as_f64).filter(|size| *size >= 0.0);
    size.map_or(otherwise, |size| size as usize)
}

fn depends(map: &Map<String, Value>) -> Vec<(String, Vec<String>)> {
    let keywords = ["dependentRequired", "dependencies"];
    let all = keywords.iter().flat_map(|keyword| object_of(map, keyword));
    all.filter(|(_, names)| names.is_array())
        .map(|(name, names)| (name.clone(), texts(Some(names)).map(str::to_owned).collect()))
        .collect()
}

fn kind_of(value: &Value) -> Kinds {
    match value {
        Value::Null => Kinds::NULL,
        Value::Bool(_) => Kinds::BOOLEAN,
        Value::Number(_) => Kinds::NUMBER,
        Value::String(_) => Kinds::TEXT,
        Value::Array(_) => Kinds::LIST,
        Value::Object(_) => Kinds::OBJECT,
    }
}

/// The types a schema names, or those that its other keywords speak of.
fn kinds(map: &Map<String, Value>) -> Kinds {
    match map.get("type") {
        Some(Value::String(name)) => return Kinds::named(name),
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str);
            return names.fold(Kinds::NONE, |kinds, name| kinds.with(Kinds::named(name)));
        }
        _ => {}
    }
    // Without a type, keywords for objects do not exclude texts; whoever wrote them
    // meant an object all the same, and a reader needs to know what to read.
    let object = ["properties", "required", "additionalProperties", "patternProperties"];
    let list = ["items", "prefixItems"];
    let has = |keywords: &[&str]| keywords.iter().any(|keyword| map.contains_key(*keyword));
    match (has(&object), has(&list)) {
        (true, false) => Kinds::OBJECT,
        (false, true) => Kinds::LIST,
        _ => Kinds::ALL,
    }
}

fn number(map: &Map<String, Value>) -> NumberRule {
    let bound = |keyword: &str| match map.get(keyword) {
        Some(Value::Number(number)) => Decimal::parse(&number.to_string()),
        _ => None,
    };
    let format = map.get("format").and_then(Value::as_str).unwrap_or_default();
    let range = range(format);
    // In draft-04 it was a word beside `minimum`.
    let strict = |keyword: &str| map.get(keyword) == Some(&Value::Bool(true));
    let (mut least, mut greatest) = (bound("minimum"), bound("maximum"));
    let above = bound("exclusiveMinimum")
        .or_else(|| if strict("exclusiveMinimum") { least.take() } else { None });
    let below = bound("exclusiveMaximum")
        .or_else(|| if strict("exclusiveMaximum") { greatest.take() } else { None });
    let step = bound("multipleOf");
    let inside = |bound: &Option<Decimal>, implied: Option<&Decimal>| {
        bound.as_ref().is_none_or(|bound| implied.is_some_and(|implied| implied == bound))
    };
    let ends = range.as_ref();
    let implied = (range.is_some() || matches!(format, "double" | "float"))
        && inside(&least, ends.map(|(low, _)| low))
        && inside(&greatest, ends.map(|(_, high)| high))
        && above.is_none()
        && below.is_none()
        && step.is_none();
    let mut rule = NumberRule {
        least,
        greatest,
        above,
        below,
        step,
        range,
        single: format == "float",
        implied,
        quick: None,
        quick_fraction: None,
    };
    rule.quick = rule.quick();
    rule.quick_fraction = rule.quick_fraction();
    rule
}

/// The range of a Rust integer, by the name that schemars gives it as a format.
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

fn text(map: &Map<String, Value>) -> TextRule {
    let pattern = map.get("pattern").and_then(Value::as_str);
    TextRule {
        shortest: size(map, "minLength", 0),
        longest: size(map, "maxLength", usize::MAX),
        pattern: pattern.and_then(|text| Some((text.to_owned(), Regex::new(text).ok()?))),
        format: map.get("format").and_then(Value::as_str).and_then(Format::named),
    }
}

/// Members that are each one text or some: together they are one list of texts.
fn all_texts(members: &[Map<String, Value>]) -> Option<Map<String, Value>> {
    let mut all: Vec<Value> = Vec::new();
    for member in members {
        let silent = ["type", "const", "enum", "description", "title", "deprecated"];
        if member.keys().any(|keyword| !silent.contains(&keyword.as_str())) {
            return None;
        }
        let texts: Vec<&Value> = match (member.get("const"), member.get("enum")) {
            (Some(only), None) => vec![only],
            (None, Some(Value::Array(some))) => some.iter().collect(),
            _ => return None,
        };
        // One text in two members: serde would pick one of them.
        if texts.iter().any(|text| !text.is_string() || all.contains(text)) {
            return None;
        }
        all.extend(texts.into_iter().cloned());
    }
    let enumeration = serde_json::json!({"type": "string", "enum": all});
    enumeration.as_object().filter(|_| !all.is_empty()).cloned()
}

/// The field that each member which is an object fixes to texts of its own.
fn tag(members: &[Map<String, Value>]) -> Option<String> {
    let objects: Vec<_> =
        members.iter().filter(|member| kinds(member).has(Kinds::OBJECT)).collect();
    let fixed = |property: &Value| -> Option<Vec<Value>> {
        match (property.get("const"), property.get("enum")) {
            (Some(text), _) => Some(vec![text.clone()]),
            (None, Some(Value::Array(texts))) if !texts.is_empty() => Some(texts.clone()),
            _ => None,
        }
        .filter(|texts| texts.iter().all(Value::is_string))
    };
    let (first, rest) = objects.split_first()?;
    object_of(first, "properties")
        .find(|(name, property)| {
            let Some(mut seen) = fixed(property).filter(|_| !rest.is_empty()) else {
                return false;
            };
            rest.iter().all(|member| {
                let property = member.get("properties").and_then(|all| all.get(name.as_str()));
                let Some(texts) = property.and_then(fixed) else {
                    return false;
                };
                let new = texts.iter().all(|text| !seen.contains(text));
                seen.extend(texts);
                new
            })
        })
        .map(|(name, _)| name.clone())
}
