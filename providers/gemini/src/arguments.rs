//! Arguments that arrive in pieces, each with the path of its place.
//!
//! Vertex streams `{"city": "Oslo", "days": [3]}` as:
//!
//! ```text
//! {"jsonPath": "$.city", "stringValue": "Os", "willContinue": true}
//! {"jsonPath": "$.city", "stringValue": "lo"}
//! {"jsonPath": "$.days[0]", "numberValue": 3}
//! ```

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use toolwright_provider::lenient;
use toolwright_signature::check_fields_once;

/// Maximum number of steps in a path. It is that of `serde_json` for nested values.
const MAX_DEPTH: usize = 120;

const NO_PATH: &str = "a piece of streamed arguments has a path that cannot be read";
const NO_VALUE: &str = "a piece of streamed arguments has no value";
const TWO_VALUES: &str = "a piece of streamed arguments has two values";
const NO_PLACE: &str = "a piece of streamed arguments has a place that contradicts an earlier one";
const TWICE: &str = "streamed arguments give a field twice";
const GAP: &str = "a list in streamed arguments has a gap";

/// The fault of a piece.
type Fault = &'static str;

/// One piece of a call's arguments.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Piece {
    #[serde(deserialize_with = "lenient::or_default")]
    json_path: String,
    string_value: Option<String>,
    /// The digits as they are.
    number_value: Option<Box<RawValue>>,
    bool_value: Option<bool>,
    /// `null` or `"NULL_VALUE"`.
    #[serde(deserialize_with = "some")]
    null_value: Option<Value>,
    /// Whether another piece of the same string follows.
    #[serde(deserialize_with = "lenient::or_default")]
    will_continue: bool,
}

/// Deserializes `null` as a value that is there.
fn some<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Piece {
    fn into_value(self) -> Result<Option<Node>, Fault> {
        let is_null = self.null_value.as_ref().is_some_and(|value| !value.is_null());
        let given = [
            self.string_value.is_some(),
            self.number_value.is_some(),
            self.bool_value.is_some(),
            is_null,
        ];
        if given.into_iter().filter(|is_given| *is_given).count() > 1 {
            return Err(TWO_VALUES);
        }
        let json = self.number_value.map(|number| number.get().to_owned());
        let json = json.or_else(|| self.bool_value.map(|yes| yes.to_string()));
        let json = json.or_else(|| self.null_value.map(|_| "null".to_owned()));
        Ok(self.string_value.map(Node::Text).or_else(|| json.map(Node::Json)))
    }
}

/// A value under construction.
#[derive(Debug)]
enum Node {
    /// Its first piece has not been added.
    New,
    Object(Vec<(String, Self)>),
    List(Vec<Self>),
    /// A string, which may grow.
    Text(String),
    /// Any other value, as JSON.
    Json(String),
}

/// A step of a path.
#[derive(Debug, PartialEq)]
enum Step {
    Key(String),
    Index(usize),
}

/// The arguments of one call, put together from pieces.
///
/// Pieces normally arrive in the order of the text. As long as they do, [`put`](Self::put) returns
/// the text that each of them adds.
#[derive(Debug)]
pub(crate) struct PartialArguments {
    root: Node,
    told: Told,
    /// The places of the strings that have not ended.
    open: Vec<Vec<Step>>,
}

/// The text that the caller was told.
#[derive(Debug)]
struct Told {
    /// The part since the last piece.
    text: String,
    has_begun: bool,
    is_in_order: bool,
}

impl PartialArguments {
    /// Returns arguments that begin with the fields of a JSON object. Its text may be empty.
    pub(crate) fn beginning_with(object: &str) -> Result<Self, Fault> {
        let mut fields = Vec::new();
        if !object.trim().is_empty() {
            check_fields_once(object.as_bytes(), &[]).map_err(|_| TWICE)?;
            let given: serde_json::Map<String, Value> =
                serde_json::from_str(object).map_err(|_| NO_PLACE)?;
            // Read again, because a `Value` may change the digits of a number.
            let mut raw: std::collections::HashMap<String, Box<RawValue>> =
                serde_json::from_str(object).map_err(|_| NO_PLACE)?;
            for (name, _) in given {
                let value = raw.remove(&name).ok_or(NO_PLACE)?;
                fields.push((name, Node::Json(value.get().to_owned())));
            }
        }
        let is_in_order = fields.is_empty();
        let told = Told { text: String::new(), has_begun: false, is_in_order };
        Ok(Self { root: Node::Object(fields), told, open: Vec::new() })
    }

    /// Returns whether more of a string was announced.
    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Adds a piece. Returns the text that it adds, which is empty if it is not known.
    pub(crate) fn put(&mut self, mut piece: Piece) -> Result<String, Fault> {
        let steps = steps_of(&std::mem::take(&mut piece.json_path)).ok_or(NO_PATH)?;
        self.open.retain(|open| *open != steps);
        let will_continue = piece.will_continue;
        let told = &mut self.told;
        match piece.into_value()? {
            Some(value) => {
                if !told.has_begun {
                    told.text.push('{');
                    told.has_begun = true;
                }
                self.root.put(&steps, value, told)?;
            }
            // The end of a string.
            None if self.root.get(&steps).is_some() => {}
            None => return Err(NO_VALUE),
        }
        let text = std::mem::take(&mut told.text);
        self.open.extend(will_continue.then_some(steps));
        Ok(if told.is_in_order { text } else { String::new() })
    }

    /// Returns the arguments as JSON, and the rest of the text that was not told. Arguments without
    /// a piece are empty. If they are cut off, so is the JSON.
    pub(crate) fn end(mut self, is_cut_off: bool) -> (String, String) {
        if matches!(&self.root, Node::Object(fields) if fields.is_empty()) {
            return (String::new(), String::new());
        }
        let mut json = String::new();
        self.root.write(is_cut_off, &mut json);
        self.told.text.clear();
        if self.told.is_in_order && !is_cut_off {
            self.root.close(&mut self.told.text);
        }
        (json, self.told.text)
    }
}

impl Node {
    /// Puts a value at the end of a path, which is made if it is new.
    fn put(&mut self, steps: &[Step], value: Self, told: &mut Told) -> Result<(), Fault> {
        let Some((step, rest)) = steps.split_first() else { return self.set(value, told) };
        if let Self::New = self {
            let (begin, begun) = match step {
                Step::Key(_) => ('{', Self::Object(Vec::new())),
                Step::Index(_) => ('[', Self::List(Vec::new())),
            };
            told.text.push(begin);
            *self = begun;
        }
        let (known, count) = match (&*self, step) {
            (Self::Object(fields), Step::Key(key)) => {
                (fields.iter().position(|(name, _)| name == key), fields.len())
            }
            (Self::List(items), Step::Index(index)) if *index > items.len() => return Err(GAP),
            (Self::List(items), Step::Index(index)) => {
                (Some(*index).filter(|index| *index < items.len()), items.len())
            }
            _ => return Err(NO_PLACE),
        };
        if let Some(at) = known {
            told.is_in_order &= at + 1 == count;
        } else if let Some(last) = self.last() {
            last.close(&mut told.text);
            told.text.push(',');
        }
        let at = known.unwrap_or(count);
        let child = match (self, step) {
            (Self::Object(fields), Step::Key(key)) => {
                if known.is_none() {
                    write_text(key, true, &mut told.text);
                    told.text.push(':');
                    fields.push((key.clone(), Self::New));
                }
                fields.get_mut(at).map(|(_, child)| child)
            }
            (Self::List(items), _) => {
                items.extend(known.is_none().then_some(Self::New));
                items.get_mut(at)
            }
            _ => None,
        };
        child.ok_or(NO_PLACE)?.put(rest, value, told)
    }

    /// Sets the value at the end of a path. A string is continued.
    fn set(&mut self, value: Self, told: &mut Told) -> Result<(), Fault> {
        match (&mut *self, value) {
            (Self::New, value) => {
                value.write(true, &mut told.text);
                *self = value;
            }
            (Self::Text(text), Self::Text(piece)) => {
                write_inside(&piece, &mut told.text);
                text.push_str(&piece);
            }
            (Self::Json(json), Self::Json(again)) if *json == again => {}
            _ => return Err(NO_PLACE),
        }
        Ok(())
    }

    fn get(&self, steps: &[Step]) -> Option<&Self> {
        steps.iter().try_fold(self, |node, step| match (node, step) {
            (Self::Object(fields), Step::Key(key)) => {
                fields.iter().find(|(name, _)| name == key).map(|(_, child)| child)
            }
            (Self::List(items), Step::Index(index)) => items.get(*index),
            _ => None,
        })
    }

    fn last(&self) -> Option<&Self> {
        match self {
            Self::Object(fields) => fields.last().map(|(_, child)| child),
            Self::List(items) => items.last(),
            _ => None,
        }
    }

    /// Writes what closes the value, from the inside out.
    fn close(&self, out: &mut String) {
        self.last().into_iter().for_each(|last| last.close(out));
        match self {
            Self::Object(_) => out.push('}'),
            Self::List(_) => out.push(']'),
            Self::Text(_) => out.push('"'),
            Self::Json(_) | Self::New => {}
        }
    }

    /// Writes the value as JSON. An open value lacks what closes it and its last child.
    fn write(&self, is_open: bool, out: &mut String) {
        let comma = |at: usize| if at > 0 { "," } else { "" };
        match self {
            Self::Object(fields) => {
                out.push('{');
                for (at, (name, child)) in fields.iter().enumerate() {
                    out.push_str(comma(at));
                    write_text(name, true, out);
                    out.push(':');
                    child.write(is_open && at + 1 == fields.len(), out);
                }
                out.push_str(if is_open { "" } else { "}" });
            }
            Self::List(items) => {
                out.push('[');
                for (at, child) in items.iter().enumerate() {
                    out.push_str(comma(at));
                    child.write(is_open && at + 1 == items.len(), out);
                }
                out.push_str(if is_open { "" } else { "]" });
            }
            Self::Text(text) => write_text(text, !is_open, out),
            Self::Json(json) => out.push_str(json),
            Self::New => {}
        }
    }
}

fn write_text(text: &str, closes: bool, out: &mut String) {
    out.push('"');
    write_inside(text, out);
    if closes {
        out.push('"');
    }
}

/// Writes a text as it stands between the quotes of a JSON string.
fn write_inside(text: &str, out: &mut String) {
    let quoted = Value::from(text).to_string();
    out.push_str(&quoted[1..quoted.len() - 1]);
}

/// Returns the steps of a path such as `$.recipe.steps[2]` or `$['a b'][0]` (RFC 9535).
fn steps_of(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let step;
        (step, rest) = step_of(rest)?;
        steps.push(step);
        if steps.len() > MAX_DEPTH {
            return None;
        }
    }
    Some(steps).filter(|steps| !steps.is_empty())
}

fn step_of(path: &str) -> Option<(Step, &str)> {
    if let Some(name) = path.strip_prefix('.') {
        let end = name.find(['.', '[']).unwrap_or(name.len());
        let (name, rest) = name.split_at(end);
        return (!name.is_empty()).then(|| (Step::Key(name.to_owned()), rest));
    }
    let inner = path.strip_prefix('[')?;
    let Some(quote) = inner.chars().next().filter(|first| matches!(first, '\'' | '"')) else {
        let (index, rest) = inner.split_once(']')?;
        return Some((Step::Index(index.parse().ok()?), rest));
    };
    let quoted = &inner[1..];
    let (mut end, mut is_escaped) = (None, false);
    for (at, character) in quoted.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if character == quote => {
                end = Some(at);
                break;
            }
            _ => {}
        }
    }
    let (name, rest) = quoted.split_at(end?);
    let rest = rest.get(1..)?.strip_prefix(']')?;
    // The escapes are those of JSON, and `\'`.
    let json = match quote {
        '"' => format!("\"{name}\""),
        _ => format!("\"{}\"", name.replace("\\'", "'").replace('"', "\\\"")),
    };
    Some((Step::Key(serde_json::from_str(&json).ok()?), rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn piece(path: &str, field: &str, value: &Value) -> Piece {
        serde_json::from_value(json!({"jsonPath": path, field: value})).unwrap()
    }

    #[test]
    fn a_path_has_names_and_places() {
        let key = |name: &str| Step::Key(name.to_owned());
        let steps = vec![key("a"), Step::Index(2), key("b c"), key("d'\"e"), key("é")];
        assert_eq!(steps_of(r#"$.a[2]['b c']["d'\"e"].é"#), Some(steps));
        assert_eq!(steps_of(r"$['it\'s']"), Some(vec![key("it's")]));
        for path in ["", "$", "a", "$.", "$..a", "$[", "$[x]", "$[-1]", "$['a'", "$['a'x", "$[*]"] {
            assert_eq!(steps_of(path), None, "{path}");
        }
        assert_eq!(steps_of(&format!("${}", "[0]".repeat(1_000_000))), None);
    }

    #[test]
    fn the_digits_of_a_number_stay() {
        let piece: Piece =
            serde_json::from_str(r#"{"jsonPath": "$.a", "numberValue": 1.10}"#).unwrap();
        let mut arguments =
            PartialArguments::beginning_with(r#"{"b": 12345678901234567890123}"#).unwrap();
        assert_eq!(arguments.put(piece), Ok(String::new()));
        let (json, _) = arguments.end(false);
        assert_eq!(json, r#"{"b":12345678901234567890123,"a":1.10}"#);
    }

    #[test]
    fn arguments_that_are_cut_off_are_not_completed() {
        let mut arguments = PartialArguments::beginning_with("").unwrap();
        arguments.put(piece("$.steps[0].text", "stringValue", &json!("mix"))).unwrap();
        let (json, told) = arguments.end(true);
        assert_eq!((json.as_str(), told.as_str()), (r#"{"steps":[{"text":"mix"#, ""));
    }

    #[test]
    fn a_piece_that_contradicts_is_a_fault() {
        let faults = [
            ("$.a", "stringValue", json!("x"), NO_PLACE),
            ("$.a.b", "stringValue", json!("x"), NO_PLACE),
            ("$.list.b", "stringValue", json!("x"), NO_PLACE),
            ("$.list[2]", "boolValue", json!(true), GAP),
            ("$.new[1]", "boolValue", json!(true), GAP),
            ("$.new", "structValue", json!({}), NO_VALUE),
            ("new", "stringValue", json!("x"), NO_PATH),
        ];
        for (path, field, value, fault) in faults {
            let mut arguments = PartialArguments::beginning_with("").unwrap();
            arguments.put(piece("$.a", "numberValue", &json!(1))).unwrap();
            arguments.put(piece("$.list[0]", "nullValue", &json!(null))).unwrap();
            assert_eq!(arguments.put(piece(path, field, &value)), Err(fault), "{path}");
        }
    }

    /// Returns the pieces of a value, in its order.
    fn pieces(path: &str, value: &Value, out: &mut Vec<(String, &'static str, Value)>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let name = Value::from(name.as_str());
                    pieces(&format!("{path}[{name}]"), value, out);
                }
            }
            Value::Array(items) => {
                for (at, value) in items.iter().enumerate() {
                    pieces(&format!("{path}[{at}]"), value, out);
                }
            }
            Value::String(text) => {
                let half = text.floor_char_boundary(text.len() / 2);
                out.push((path.to_owned(), "stringValue", text[..half].into()));
                out.push((path.to_owned(), "stringValue", text[half..].into()));
            }
            Value::Number(_) => out.push((path.to_owned(), "numberValue", value.clone())),
            Value::Bool(_) => out.push((path.to_owned(), "boolValue", value.clone())),
            Value::Null => out.push((path.to_owned(), "nullValue", value.clone())),
        }
    }

    /// Values without empty lists and objects, which have no piece.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 1..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_pieces_of_a_value_give_the_value(
            fields in prop::collection::btree_map(any::<String>(), value(), 1..4),
            order in any::<prop::sample::Index>(),
        ) {
            let whole = Value::Object(fields.into_iter().collect());
            let mut all = Vec::new();
            pieces("$", &whole, &mut all);
            let mut arguments = PartialArguments::beginning_with("").unwrap();
            let mut told = String::new();
            for (path, field, value) in &all {
                told += &arguments.put(piece(path, field, value)).unwrap();
            }
            let (json, rest) = arguments.end(false);
            prop_assert_eq!(&serde_json::from_str::<Value>(&json).unwrap(), &whole);
            prop_assert_eq!(told + &rest, json);

            // A piece again at the end of the others belongs to a place that is closed.
            let (path, field, value) = &all[order.index(all.len())];
            let mut arguments = PartialArguments::beginning_with("").unwrap();
            for (path, field, value) in &all {
                arguments.put(piece(path, field, value)).unwrap();
            }
            if arguments.put(piece(path, field, value)).is_ok() {
                let (json, _) = arguments.end(false);
                prop_assert!(serde_json::from_str::<Value>(&json).is_ok());
            }
        }

        #[test]
        fn any_path_is_read_or_refused(path in any::<String>(), more in r"\$?[.\[\]'a0\\]{0,12}") {
            let _ = (steps_of(&path), steps_of(&more), steps_of(&format!("${more}")));
        }
    }
}
