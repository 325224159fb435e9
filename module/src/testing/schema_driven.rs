//! A model that answers with the smallest value that fits a schema.
use std::cell::Cell;

use futures_core::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolwright_signature::{Contract, Dialect};

use crate::error::{Error, Result, Stage};
use crate::message::{Message, ToolCall};
use crate::model::{Capabilities, LanguageModel, Reply, Request, ToolChoice};

/// A model that answers any schema with valid data.
///
/// It first calls each tool once, with arguments that fit. After that it answers: with data if the
/// request has an output contract, by calling `finish` if there is such a tool, otherwise with the
/// text `done`. Equal requests get equal answers.
///
/// Use it to check that a program is wired correctly, and that every tool accepts what its own
/// schema allows.
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # use toolwright_module::testing::SchemaDriven;
/// # use toolwright_module::{Context, Module, Predict, Signature};
/// # /// Rate a text.
/// # #[derive(Serialize, Deserialize, JsonSchema)]
/// # struct Rate { text: String }
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Rating {
///     #[schemars(range(min = 1, max = 5))]
///     stars: u8,
/// }
/// # impl Signature for Rate { type Output = Rating; }
///
/// let rate = Predict::<Rate>::new(SchemaDriven::default())?;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// assert_eq!(rate.call(Rate { text: String::new() }, &Context::default()).await?.stars, 1);
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SchemaDriven;

/// Maximum number of nested references that are followed to find the end of a recursive type.
const MOST_REFERENCES: u32 = 16;

/// Maximum number of list items and characters in a sample. A foreign schema may ask for more than
/// fits into memory.
const LARGEST: u64 = 10_000;

/// Maximum number of values that are tried. Nested choices of references multiply them, and
/// possibly none fits.
const MOST_TRIES: u32 = 100_000;

impl LanguageModel for SchemaDriven {
    fn name(&self) -> &str {
        "schema-driven"
    }

    fn capabilities(&self) -> Capabilities {
        super::all_capabilities()
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move { answer(request) })
    }
}

fn answer(request: &Request) -> Result<Reply> {
    if let Some(output) = &request.output {
        let lowered = output
            .lower_output(Dialect::JsonSchema2020)
            .map_err(|error| Error::other(error).at(Stage::Setup))?;
        let schema: Value = serde_json::from_str(lowered.schema.get())?;
        return Ok(Reply::text(sample(&schema)?.to_string()));
    }
    let called = request.messages.iter().any(|message| matches!(**message, Message::Tool(_)));
    // A second call of `finish` is not the end of a typed run, so `finish` is an ordinary tool
    // then.
    let is_finish = |message: &Message| matches!(message, Message::Tool(result) if result.name == Contract::FINISH && !result.failed);
    let finished = request.messages.iter().any(|message| is_finish(message));
    let (finish, tools): (Vec<_>, Vec<_>) =
        request.tools.iter().partition(|tool| tool.name() == Contract::FINISH && !finished);
    let next = match (called || tools.is_empty(), &request.tool_choice) {
        (_, ToolChoice::None) => Vec::new(),
        (_, ToolChoice::Tool(name)) => {
            request.tools.iter().filter(|tool| tool.name() == name).collect()
        }
        (false, _) => tools,
        (true, _) => finish,
    };
    if next.is_empty() {
        return Ok(Reply::text("done"));
    }
    let call = |(index, tool): (usize, &std::sync::Arc<Contract>)| {
        let arguments = sample(tool.input())?.to_string();
        let id = format!("call_{}_{index}", request.messages.len());
        Ok(ToolCall::new(id, tool.name(), arguments))
    };
    let calls: Vec<ToolCall> = next.into_iter().enumerate().map(call).collect::<Result<_>>()?;
    Ok(Reply::calls(calls))
}

/// Returns the smallest value that fits a schema.
fn sample(schema: &Value) -> Result<Value> {
    // Few references first, so that a recursive type ends as early as possible.
    let found = (0..=MOST_REFERENCES).find_map(|references| {
        let (left, tries) = (Cell::new(LARGEST), Cell::new(MOST_TRIES));
        let sampler = Sampler { root: schema, left, tries };
        sampler.value(schema, references)
    });
    found.ok_or_else(|| {
        let text = format!("no sample value for the schema {schema}; script this model instead");
        Error::other(text).at(Stage::Setup)
    })
}

struct Sampler<'a> {
    root: &'a Value,
    /// List items and characters that may still be used.
    left: Cell<u64>,
    /// Values that may still be tried.
    tries: Cell<u32>,
}

impl Sampler<'_> {
    fn value(&self, schema: &Value, references: u32) -> Option<Value> {
        self.tries.set(self.tries.get().checked_sub(1)?);
        let Value::Object(map) = schema else {
            return (schema == &Value::Bool(true)).then(|| Value::from("text"));
        };
        if let Some(target) = map.get("$ref").and_then(Value::as_str) {
            let target = self.root.pointer(target.strip_prefix('#')?)?;
            return self.value(target, references.checked_sub(1)?);
        }
        if let Some(value) = map.get("const").or_else(|| map.get("default")) {
            return Some(value.clone());
        }
        if let Some(values) = map.get("enum").and_then(Value::as_array) {
            return values.first().cloned();
        }
        let members = |keyword| map.get(keyword).and_then(Value::as_array);
        let (any, all) = (members("anyOf").or_else(|| members("oneOf")), members("allOf"));
        if any.is_none() && all.is_none() {
            return self.plain(map, references);
        }
        let mut parts = Vec::new();
        if map.contains_key("properties") {
            parts.push(self.object(map, references)?);
        }
        if let Some(any) = any {
            parts.push(any.iter().find_map(|member| self.value(member, references))?);
        }
        for member in all.into_iter().flatten() {
            parts.push(self.value(member, references)?);
        }
        parts.into_iter().reduce(together)
    }

    fn plain(&self, map: &Map<String, Value>, references: u32) -> Option<Value> {
        let kind = match map.get("type") {
            Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
            Some(kind) => kind.as_str(),
            None if map.contains_key("properties") => Some("object"),
            None => Some("string"),
        };
        match kind? {
            "object" => self.object(map, references),
            "array" => self.array(map, references),
            "string" => {
                self.take(map, "minLength")?;
                Some(string(map).into())
            }
            "integer" => number(map, 0.0, 1.0).map(|n| match n < 0.0 {
                true => json!(n as i64),
                false => json!(n as u64),
            }),
            "number" => number(map, 0.5, 0.0).map(|n| json!(n)),
            "boolean" => Some(true.into()),
            "null" => Some(Value::Null),
            _ => None,
        }
    }

    fn object(&self, map: &Map<String, Value>, references: u32) -> Option<Value> {
        let required = map.get("required").and_then(Value::as_array);
        let mut object = Map::new();
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            let property = map.get("properties").and_then(|properties| properties.get(name));
            let value = match property {
                Some(property) => self.value(property, references)?,
                None => Value::from("text"),
            };
            object.insert(name.to_owned(), value);
        }
        Some(object.into())
    }

    fn array(&self, map: &Map<String, Value>, references: u32) -> Option<Value> {
        if let Some(items) = map.get("prefixItems").and_then(Value::as_array) {
            return items.iter().map(|item| self.value(item, references)).collect();
        }
        let Some(items) = map.get("items") else {
            return Some(json!([]));
        };
        let fewest = self.take(map, "minItems")?;
        (0..fewest).map(|_| self.value(items, references)).collect()
    }

    /// Returns the amount that a schema requires, if as much is left.
    fn take(&self, map: &Map<String, Value>, keyword: &str) -> Option<u64> {
        let wanted = map.get(keyword).and_then(Value::as_u64).unwrap_or(0);
        self.left.set(self.left.get().checked_sub(wanted)?);
        Some(wanted)
    }
}

fn string(map: &Map<String, Value>) -> String {
    let by_format = map.get("format").and_then(Value::as_str).and_then(|format| {
        Some(match format {
            "date" => "2026-01-31",
            "date-time" => "2026-01-31T12:00:00Z",
            "time" => "12:00:00Z",
            "duration" => "PT1H",
            "email" => "someone@example.com",
            "uri" | "url" => "https://example.com/",
            "uuid" => "00000000-0000-4000-8000-000000000000",
            "ipv4" => "127.0.0.1",
            "ipv6" => "::1",
            "hostname" => "example.com",
            _ => return None,
        })
    });
    if let Some(text) = by_format {
        return text.to_owned();
    }
    let bound = |keyword| map.get(keyword).and_then(Value::as_u64).and_then(|n| n.try_into().ok());
    let (shortest, longest) = (bound("minLength").unwrap_or(0), bound("maxLength"));
    let mut text = "text".to_owned();
    while text.len() < shortest {
        text.push('x');
    }
    text.truncate(longest.unwrap_or(usize::MAX));
    text
}

/// Returns a number within all bounds that is close to `usual`. A `unit` of 0 allows fractions.
fn number(map: &Map<String, Value>, usual: f64, unit: f64) -> Option<f64> {
    let bound = |keyword| map.get(keyword).and_then(Value::as_f64);
    let (least, above) = (bound("minimum"), bound("exclusiveMinimum"));
    let (most, below) = (bound("maximum"), bound("exclusiveMaximum"));
    let multiple = bound("multipleOf");
    let fits = |n: &f64| {
        least.is_none_or(|least| *n >= least)
            && above.is_none_or(|above| *n > above)
            && most.is_none_or(|most| *n <= most)
            && below.is_none_or(|below| *n < below)
            && multiple.is_none_or(|multiple| (n / multiple).fract() == 0.0)
            && (unit == 0.0 || n.fract() == 0.0)
    };
    let step = multiple.unwrap_or(if unit == 0.0 { 0.5 } else { unit });
    let (low, high) = (least.or(above), most.or(below));
    let from_low = low.map(|n| [n, (n / step).ceil() * step, (n / step).floor() * step + step]);
    let from_high = high.map(|n| [n, (n / step).floor() * step, (n / step).ceil() * step - step]);
    let middle = low.zip(high).map(|(low, high)| (low + high) / 2.0);
    let near = from_low.into_iter().chain(from_high).flatten();
    let fitting = [usual].into_iter().chain(near).chain(middle).filter(fits);
    fitting.min_by(|one, other| (one - usual).abs().total_cmp(&(other - usual).abs()))
}

/// Merges two parts of one value: the fields of both objects, otherwise the right part.
fn together(left: Value, right: Value) -> Value {
    match (left, right) {
        (Value::Object(mut left), Value::Object(right)) => {
            left.extend(right);
            Value::Object(left)
        }
        (_, right) => right,
    }
}
