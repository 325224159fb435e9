//! From a schema in its normal form to the form that texts are read against.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value};

use crate::reading::date::Format;
use crate::reading::form::{
    Field, Form, Id, ListRule, Node, NumberRule, ObjectRule, Rest, TextRule, Union,
};
use crate::reading::number::Decimal;
use crate::reading::pattern::Pattern;
use crate::schema::keywords::{Role, keyword as known};
use crate::schema::types::Types;
use crate::schema::{normal, resolve};

/// Objects with so many fields look them up by hash.
const MANY: usize = 12;

impl Form {
    /// A schema without a normal form cannot be lowered, so no model is asked for it:
    /// nothing is checked then but that the text is JSON.
    pub(crate) fn of(schema: &Value, typed: bool) -> Self {
        let normal = normal(schema).unwrap_or(Value::Bool(true));
        let mut compiler = Compiler {
            root: &normal,
            nodes: Vec::new(),
            known: HashMap::new(),
            names: HashMap::new(),
            waiting: VecDeque::new(),
        };
        let root = compiler.reference("#");
        compiler.finish();
        let circle = compiler.circle();
        let nodes = compiler.nodes;
        let mut form = Self::new(nodes, root, circle, typed);
        if typed {
            form.open_root();
            form.plain = form.keeps_to_serde();
            form.repeats = form.most_repeats();
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
    /// [`strict`](crate::reading::strict) and [`probe`](crate::reading::probe) look after.
    fn keeps_to_serde(&self) -> bool {
        let root = self.node(self.root);
        let struct_or_nothing = root.kinds == Types::OBJECT && root.union.is_none();
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
            Types::NONE,
            Types::BOOLEAN,
            Types::INTEGER,
            Types::NUMBER,
            Types::TEXT,
            Types::LIST,
            Types::OBJECT,
        ]
        .contains(&self.kinds.without(Types::NULL));
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
            && (!self.kinds.meets(Types::NUMBER) || self.number.implied)
            && self.text.is_free()
            && (!self.kinds.has(Types::LIST)
                || ((tuple || free_list) && !list.unique && list.contains.is_none()))
            && (!self.kinds.has(Types::OBJECT) || is_struct)
    }
}

struct Compiler<'s> {
    root: &'s Value,
    nodes: Vec<Node>,
    /// The node of each schema, by where it is: one that is reached in two ways, or by
    /// way of itself, has one node.
    known: HashMap<*const Value, Id>,
    /// What refers to a node.
    names: HashMap<Id, &'s str>,
    /// Nodes that have a place and no content yet: not by recursion, because a schema
    /// may be deep.
    waiting: VecDeque<(Id, &'s Value)>,
}

impl<'s> Compiler<'s> {
    fn finish(&mut self) {
        while let Some((id, schema)) = self.waiting.pop_front() {
            let node = self.made(schema);
            if let Some(place) = self.nodes.get_mut(id) {
                *place = node;
            }
        }
        for id in 0..self.nodes.len() {
            self.complete(id);
        }
    }

    /// A reference in a circle of nodes that all speak of the same value.
    fn circle(&self) -> Option<String> {
        let beside = |id: Id| {
            let node = self.nodes.get(id);
            let members = node.and_then(|node| node.union.as_deref()).map(|union| &union.members);
            let parts = node.into_iter().flat_map(|node| node.also.iter().chain(&node.never));
            members.into_iter().flatten().chain(parts).copied().collect::<Vec<_>>()
        };
        let mut seen = HashSet::new();
        let mut around = HashSet::new();
        for start in 0..self.nodes.len() {
            // Not by recursion, because a chain may be long.
            let mut way = Vec::new();
            let mut next = vec![start];
            loop {
                match next.pop() {
                    Some(id) if around.contains(&id) => {
                        let circle = way.iter().rev().map(|(id, _)| *id);
                        let name = circle
                            .take_while(|other| *other != id)
                            .chain([id])
                            .find_map(|id| self.names.get(&id));
                        let named = name.filter(|name| **name != "#");
                        return Some((*named.unwrap_or(&"$")).to_owned());
                    }
                    Some(id) if seen.insert(id) => {
                        around.insert(id);
                        way.push((id, std::mem::replace(&mut next, beside(id))));
                    }
                    Some(_) => {}
                    None => {
                        let Some((done, others)) = way.pop() else {
                            break;
                        };
                        around.remove(&done);
                        next = others;
                    }
                }
            }
        }
        None
    }

    /// What a node says of those below it, now that they are there.
    fn complete(&mut self, id: Id) {
        let Some(node) = self.nodes.get(id) else {
            return;
        };
        let kinds_of = |id: &Id| self.nodes.get(*id).map_or(Types::ALL, |node| node.kinds);
        let members = node.union.iter().flat_map(|union| &union.members);
        let kinds = members.map(kinds_of).fold(node.kinds, Types::with);
        let only = |field: &Field| self.nodes.get(field.node).and_then(Node::only_text);
        let tags: Vec<_> =
            node.object.fields.iter().map(|field| only(field).map(Box::from)).collect();
        if let Some(node) = self.nodes.get_mut(id) {
            node.kinds = kinds;
            for (field, only) in node.object.fields.iter_mut().zip(tags) {
                field.only = only;
            }
        }
    }

    fn node(&mut self, schema: &'s Value) -> Id {
        match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.reference(reference),
            None => self.place(schema),
        }
    }

    fn reference(&mut self, reference: &'s str) -> Id {
        match resolve(self.root, reference) {
            Some(target) => {
                let id = self.place(target);
                self.names.insert(id, reference);
                id
            }
            None => self.push(Node::any()),
        }
    }

    fn place(&mut self, schema: &'s Value) -> Id {
        let address = std::ptr::from_ref(schema);
        if let Some(id) = self.known.get(&address) {
            return *id;
        }
        let id = self.push(Node::any());
        self.known.insert(address, id);
        self.waiting.push_back((id, schema));
        id
    }

    fn push(&mut self, node: Node) -> Id {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn made(&mut self, schema: &'s Value) -> Node {
        let mut members = self.members(schema);
        let before = members.len();
        members.retain(|member| !is_null(member));
        let nullable = members.len() < before;
        let mut node = match members.as_slice() {
            [] if nullable => Node { kinds: Types::NULL, ..Node::any() },
            // Nothing but itself is in it.
            [] => Node::any(),
            [one] => self.simple(one),
            many => match all_texts(many) {
                Some(texts) => texts,
                None => self.union(many),
            },
        };
        if nullable {
            node.kinds = node.kinds.with(Types::NULL);
        }
        node
    }

    /// The members of a union, those of unions in it among them; a schema that is no
    /// union is its only member.
    fn members(&self, schema: &'s Value) -> Vec<&'s Value> {
        let mut members = Vec::new();
        let mut waiting = vec![schema];
        // What leads back to itself adds nothing.
        let mut followed = HashSet::new();
        while let Some(schema) = waiting.pop() {
            if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
                if followed.insert(reference) {
                    waiting.extend(resolve(self.root, reference));
                }
                continue;
            }
            let union = schema.get("anyOf").or_else(|| schema.get("oneOf"));
            match union.and_then(Value::as_array) {
                Some(below) => waiting.extend(below.iter().rev()),
                None => members.push(schema),
            }
        }
        members
    }

    fn union(&mut self, members: &[&'s Value]) -> Node {
        let tag = self.tag(members).map(Into::into);
        let ids = members.iter().map(|member| self.place(member));
        let union = Union { members: ids.collect(), tag };
        // What the members are is not known yet.
        Node { kinds: Types::NONE, union: Some(Box::new(union)), ..Node::any() }
    }

    fn simple(&mut self, schema: &'s Value) -> Node {
        let Some(map) = schema.as_object() else {
            let kinds = if schema == false { Types::NONE } else { Types::ALL };
            return Node { kinds, ..Node::any() };
        };
        let mut node = Node {
            kinds: kinds(map),
            number: number(map),
            text: text(map),
            list: self.list(map),
            object: self.object(map),
            ..Node::any()
        };
        values(map, &mut node);
        let also = map.get("allOf").and_then(Value::as_array).into_iter().flatten();
        node.also = also.map(|part| self.node(part)).collect();
        node.never = map.get("not").map(|not| self.node(not)).into_iter().collect();
        node
    }

    fn list(&mut self, map: &'s Map<String, Value>) -> ListRule {
        let prefix = map.get("prefixItems").and_then(Value::as_array).into_iter().flatten();
        let prefix: Vec<Id> = prefix.map(|item| self.node(item)).collect();
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

    /// Where nothing is said of other fields, one whose name nobody can check is taken for
    /// any, after all others.
    fn patterns(&mut self, map: &'s Map<String, Value>, rest: Rest) -> Vec<(Pattern, Id)> {
        let all = object_of(map, "patternProperties");
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for (text, schema) in all {
            match (Pattern::new(text), Pattern::new("")) {
                (Some(pattern), _) => known.push((pattern, self.node(schema))),
                (None, Some(any)) if !matches!(rest, Rest::Of(_)) => {
                    unknown.push((any, self.node(schema)));
                }
                _ => {}
            }
        }
        known.append(&mut unknown);
        known
    }

    fn object(&mut self, map: &'s Map<String, Value>) -> ObjectRule {
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

    fn fields(
        &mut self,
        map: &'s Map<String, Value>,
        patterns: &[(Pattern, Id)],
        rest: Rest,
    ) -> Vec<Field> {
        let required: HashSet<&str> = texts(map.get("required")).collect();
        let mut fields = Vec::new();
        let mut declared = HashSet::new();
        for (name, property) in object_of(map, "properties") {
            declared.insert(name.as_str());
            let required = required.contains(name.as_str());
            let node = self.node(property);
            fields.push(Field { name: name.as_str().into(), node, required, only: None });
        }
        // Required without being declared: what it has to be stands elsewhere.
        for name in texts(map.get("required")).filter(|name| declared.insert(name)) {
            let matching = patterns.iter().find(|(pattern, _)| pattern.is_match(name));
            let node = match (matching.map(|(_, id)| *id), rest) {
                (Some(id), _) | (None, Rest::Of(id)) => id,
                (None, Rest::Open) => self.push(Node::any()),
                (None, Rest::Closed) => self.push(Node { kinds: Types::NONE, ..Node::any() }),
            };
            fields.push(Field { name: name.into(), node, required: true, only: None });
        }
        fields
    }

    /// The field that each member which is an object fixes to texts of its own.
    fn tag(&self, members: &[&'s Value]) -> Option<String> {
        let maps = members.iter().filter_map(|member| member.as_object());
        let objects: Vec<_> = maps.filter(|map| kinds(map).has(Types::OBJECT)).collect();
        let (first, rest) = objects.split_first()?;
        let differs = |name: &str| {
            let mut seen = HashSet::new();
            objects.iter().all(|member| {
                let property = member.get("properties").and_then(|all| all.get(name));
                property
                    .and_then(|property| self.fixed(property))
                    .is_some_and(|texts| texts.into_iter().all(|text| seen.insert(text)))
            })
        };
        let names = object_of(first, "properties").map(|(name, _)| name);
        names.filter(|_| !rest.is_empty()).find(|name| differs(name)).cloned()
    }

    /// The texts that a property is fixed to.
    fn fixed(&self, property: &'s Value) -> Option<Vec<&'s str>> {
        let property = match property.get("$ref").and_then(Value::as_str) {
            Some(reference) => resolve(self.root, reference)?,
            None => property,
        };
        match (property.get("const"), property.get("enum").and_then(Value::as_array)) {
            (Some(text), _) => Some(vec![text.as_str()?]),
            (None, Some(texts)) if !texts.is_empty() => texts.iter().map(Value::as_str).collect(),
            _ => None,
        }
    }
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
        || schema.get("const").is_some_and(Value::is_null)
        || schema.get("enum").is_some_and(|values| *values == serde_json::json!([null]))
}

fn values(map: &Map<String, Value>, node: &mut Node) {
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
        node.kinds = node.kinds.without(Types::NULL);
    }
    let values: Vec<Value> = values.into_iter().filter(|value| !value.is_null()).collect();
    let present =
        values.iter().fold(Types::NULL, |kinds, value| kinds.with(Types::of_value(value)));
    let narrowed = Types::EACH
        .into_iter()
        .filter(|kind| !present.meets(*kind))
        .fold(node.kinds, Types::without);
    node.kinds = narrowed;
    node.values = Some(values.into());
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

/// The types a schema names, or those that its other keywords speak of.
fn kinds(map: &Map<String, Value>) -> Types {
    if let Some(kind) = map.get("type") {
        return Types::of_keyword(kind);
    }
    // Without a type, keywords for objects do not exclude texts; whoever wrote them
    // meant an object all the same, and a reader needs to know what to read.
    let shapes = map.keys().filter_map(|keyword| known(keyword));
    let shapes = shapes.filter(|known| known.role == Role::Shape && known.of != Types::ALL);
    match shapes.map(|known| known.of).fold(Types::NONE, Types::with) {
        Types::OBJECT => Types::OBJECT,
        Types::LIST => Types::LIST,
        _ => Types::ALL,
    }
}

fn number(map: &Map<String, Value>) -> NumberRule {
    let bound = |keyword: &str| match map.get(keyword) {
        Some(Value::Number(number)) => Decimal::parse(&number.to_string()),
        _ => None,
    };
    let format = map.get("format").and_then(Value::as_str).unwrap_or_default();
    let range = range(format);
    let (least, greatest) = (bound("minimum"), bound("maximum"));
    let (above, below) = (bound("exclusiveMinimum"), bound("exclusiveMaximum"));
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
        float: matches!(format, "double" | "float"),
        implied,
        quick: None,
        quick_fraction: None,
    };
    rule.quick = rule.quick();
    rule.quick_fraction = rule.quick_fraction();
    rule
}

/// The range of a Rust integer, by the name that schemars gives it as a format.
pub(crate) fn range(format: &str) -> Option<(Decimal, Decimal)> {
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
        pattern: pattern.and_then(Pattern::new),
        format: map.get("format").and_then(Value::as_str).and_then(Format::named),
    }
}

/// Members that are each one text or some: together they are one list of texts.
fn all_texts(members: &[&Value]) -> Option<Node> {
    let mut all: Vec<Value> = Vec::new();
    let mut seen = HashSet::new();
    for member in members {
        let map = member.as_object()?;
        let silent = ["type", "const", "enum", "description", "default"];
        if map.keys().any(|keyword| !silent.contains(&keyword.as_str())) {
            return None;
        }
        let texts: Vec<&Value> = match (map.get("const"), map.get("enum")) {
            (Some(only), None) => vec![only],
            (None, Some(Value::Array(some))) => some.iter().collect(),
            _ => return None,
        };
        // One text in two members: serde would pick one of them.
        if !texts.iter().all(|text| text.as_str().is_some_and(|text| seen.insert(text))) {
            return None;
        }
        all.extend(texts.into_iter().cloned());
    }
    Some(Node { kinds: Types::TEXT, values: Some(all.into()), ..Node::any() })
}
