//! The comparison of calls beside BFCL's own checker: the verdicts on answers to all questions of its AST
//! categories, right ones and mutated ones. See `bfcl.sh`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolwright_evals::{CallMatching, ExpectedCall, MadeCall};
use toolwright_signature::{Contract, Policy};

/// One question of BFCL, with answers and BFCL's verdicts. `verdicts.py` describes the fields.
#[derive(Deserialize)]
struct Entry {
    entry: String,
    category: String,
    tools: Vec<BfclTool>,
    expected: Vec<BTreeMap<String, Map<String, Value>>>,
    variants: Vec<Variant>,
}

#[derive(Deserialize)]
struct BfclTool {
    name: String,
    /// BFCL's type of each argument, and of its items.
    types: BTreeMap<String, (Option<String>, Option<String>)>,
    input: Value,
}

#[derive(Deserialize)]
struct Variant {
    kind: String,
    calls: Vec<Call>,
    parsed: Option<Vec<Call>>,
    valid: Option<bool>,
    #[serde(default)]
    error: String,
    #[serde(default)]
    reordered: bool,
}

#[derive(Deserialize, Clone)]
struct Call {
    tool: String,
    arguments: Map<String, Value>,
}

impl Variant {
    /// The calls with their values: arguments in Java or JavaScript syntax parsed.
    fn values(&self) -> &[Call] {
        self.parsed.as_deref().unwrap_or(&self.calls)
    }
}

/// BFCL compares texts without these marks, in lower case, with one kind of quotes.
fn normalized(text: &str) -> String {
    let text: String = text.chars().filter(|c| !" ,./-_*^".contains(*c)).collect();
    text.to_lowercase().replace('\'', "\"")
}

/// The Python type of a value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "None",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

/// The Python type of one of BFCL's types.
fn python(declared: Option<&str>) -> &'static str {
    match declared.unwrap_or_default() {
        "integer" | "byte" | "short" | "long" | "Bigint" => "int",
        "float" | "double" => "float",
        "boolean" | "Boolean" => "bool",
        "array" | "tuple" | "Array" | "ArrayList" => "list",
        "dict" | "HashMap" => "dict",
        _ => "str",
    }
}

fn exactly(value: &Value) -> Value {
    json!({"$exactly": value})
}

/// Texts are normalized; anything else is compared as it is.
fn loosely(value: &Value) -> Value {
    if value.is_string() { value.clone() } else { exactly(value) }
}

/// BFCL's possible values of one argument, as a rule. `None` if no value is accepted.
fn rule(
    declared: &(Option<String>, Option<String>),
    possible: &[Value],
    required: bool,
) -> Option<Value> {
    let (own, items) =
        (python(declared.0.as_deref()), declared.1.as_deref().map(|kind| python(Some(kind))));
    let is_blank = |value: &Value| value == "";
    let first = possible.iter().find(|value| !is_blank(value));
    // A value of another type than the declared one is the name of a variable, and compared as it is.
    let is_variable = first.is_some_and(|first| kind(first) != own);
    let accepted: Vec<Value> = if is_variable {
        let types = [own, first.map_or(own, kind)];
        possible.iter().filter(|value| types.contains(&kind(value))).map(exactly).collect()
    } else {
        let values = possible.iter();
        match (own, items) {
            ("dict", _) => values.filter_map(object).collect(),
            // A blank is read as a list without items.
            ("list", Some("dict")) => values
                .filter_map(|list| {
                    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
                    items.iter().map(object).collect::<Option<Vec<_>>>()
                })
                .map(Value::from)
                .collect(),
            ("list", _) => values
                .map(|list| {
                    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
                    items.iter().map(loosely).collect()
                })
                .collect(),
            ("str", _) => values.filter(|value| value.is_string()).cloned().collect(),
            _ => values.filter(|value| !is_blank(value)).map(exactly).collect(),
        }
    };
    let is_optional = possible.iter().any(is_blank) && !required;
    let rule = (!accepted.is_empty()).then(|| json!({"$one_of": accepted}))?;
    Some(if is_optional { json!({"$optional": rule}) } else { rule })
}

/// An object with possible values for each of its fields.
fn object(possible: &Value) -> Option<Value> {
    let fields = possible.as_object()?.iter().map(|(name, values)| {
        let values = values.as_array()?;
        let rule = json!({"$one_of": values.iter().map(loosely).collect::<Vec<_>>()});
        let is_optional = values.iter().any(|value| value == "");
        Some((name.clone(), if is_optional { json!({"$optional": rule}) } else { rule }))
    });
    fields.collect::<Option<Map<_, _>>>().map(Value::Object)
}

fn expected(entry: &Entry) -> Vec<ExpectedCall> {
    let calls = entry.expected.iter().flatten();
    let expected = calls.map(|(name, possible)| {
        let tool = entry.tools.iter().find(|tool| tool.name == *name);
        let required = |param: &str| {
            let required = tool.and_then(|tool| tool.input["required"].as_array());
            required.is_some_and(|all| all.iter().any(|name| name == param))
        };
        let arguments = possible.iter().filter_map(|(param, values)| {
            let unknown = (None, None);
            let declared = tool.and_then(|tool| tool.types.get(param)).unwrap_or(&unknown);
            let rule = rule(declared, values.as_array()?, required(param))?;
            Some((param.clone(), rule))
        });
        ExpectedCall::new(name, arguments.collect::<Map<_, _>>().into())
    });
    expected.collect()
}

fn made(calls: &[Call], contracts: &BTreeMap<String, Arc<Contract>>) -> Vec<MadeCall> {
    let call = |call: &Call| {
        let mut made = MadeCall::new(&call.tool, call.arguments.clone().into());
        made.contract = contracts.get(&call.tool).cloned();
        made
    };
    calls.iter().map(call).collect()
}

/// The differences that two notations of the same calls may have.
#[derive(Clone, Copy, Default)]
struct Besides {
    order: bool,
    /// A boolean, and 0 or 1.
    booleans: bool,
    /// A field left out, and its default.
    defaults: bool,
    /// A field left out, and null.
    nulls: bool,
    /// A number, and its text.
    digits: bool,
}

/// Returns a value in the notation that all its equals have. A number is one, however it is written.
fn plain(value: &Value, schema: &Value, besides: Besides) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Bool(truth) if besides.booleans => json!(f64::from(u8::from(*truth))),
        Value::String(text) if besides.digits => {
            text.parse::<f64>().map_or_else(|_| value.clone(), |number| json!(number))
        }
        Value::Array(items) => {
            items.iter().map(|item| plain(item, &schema["items"], besides)).collect()
        }
        Value::Object(fields) => {
            let schemas = &schema["properties"];
            let mut fields = fields.clone();
            fields.retain(|_, value| !besides.nulls || !value.is_null());
            let described = schemas.as_object().into_iter().flatten().filter(|_| besides.defaults);
            for (name, schema) in described {
                if let (Some(default), None) = (schema.get("default"), fields.get(name)) {
                    fields.insert(name.clone(), default.clone());
                }
            }
            let fields = fields.iter();
            let fields: BTreeMap<_, _> =
                fields.map(|(name, value)| (name, plain(value, &schemas[name], besides))).collect();
            json!(fields)
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

fn notation(entry: &Entry, calls: &[Call], besides: Besides) -> Vec<String> {
    let mut calls: Vec<_> = calls
        .iter()
        .map(|call| {
            let tool = entry.tools.iter().find(|tool| tool.name == call.tool);
            let schema = tool.map_or(&Value::Null, |tool| &tool.input);
            let arguments = plain(&call.arguments.clone().into(), schema, besides);
            format!("{}({arguments})", call.tool)
        })
        .collect();
    if besides.order {
        calls.sort();
    }
    calls
}

/// Returns how BFCL's answer contradicts its function, if it does.
fn flaw(entry: &Entry) -> Option<&'static str> {
    entry.expected.iter().flatten().find_map(|(name, possible)| {
        let tool = entry.tools.iter().find(|tool| tool.name == *name)?;
        let required = tool.input["required"].as_array().into_iter().flatten();
        let is_blank = |name: &str| possible.get(name).is_none_or(|values| *values == json!([]));
        let values = possible.values().filter_map(Value::as_array).flatten();
        let mut inner = values.filter_map(Value::as_object).flat_map(Map::values);
        if possible.keys().any(|param| !tool.types.contains_key(param)) {
            Some("BFCL's answer has an argument that its function does not have")
        } else if required.filter_map(Value::as_str).any(is_blank) {
            Some("BFCL's answer has no value for an argument that its function requires")
        } else {
            let has_text = inner.any(Value::is_string);
            has_text
                .then_some("BFCL's answer has a text in place of a list, so BFCL accepts letters")
        }
    })
}

/// Returns why our verdict is another one than BFCL's. The order of the reasons is from BFCL's faults to
/// what a contract adds.
fn reason(entry: &Entry, variant: &Variant, ours: bool, by_contract: bool) -> Option<&'static str> {
    // Whether BFCL accepts the same calls in another notation.
    let is_right = |besides: Besides| {
        let own = notation(entry, variant.values(), besides);
        let right = entry.variants.iter().filter(|other| other.valid == Some(true));
        ours && right.into_iter().any(|other| notation(entry, other.values(), besides) == own)
    };
    let besides = Besides { order: true, ..Besides::default() };
    if ours && variant.reordered {
        return Some("BFCL takes the first call that fits, and so misses the right pairs");
    }
    if let Some(flaw) = flaw(entry) {
        return Some(flaw);
    }
    if is_right(besides) {
        return Some("BFCL accepts 5 and not 5.0, or 5.0 and not 5");
    }
    let booleans = Besides { booleans: true, ..Besides::default() };
    let own = notation(entry, variant.values(), booleans);
    let mut right = entry.variants.iter().filter(|other| other.kind == "right");
    if !ours && right.any(|other| notation(entry, other.values(), booleans) == own) {
        return Some(
            "BFCL accepts true for 1 and 0 for false inside objects, which are equal in Python",
        );
    }
    let defaults = Besides { defaults: true, ..besides };
    let nulls = Besides { nulls: true, ..defaults };
    let digits = Besides { digits: true, ..besides };
    match by_contract {
        true if is_right(defaults) => {
            Some("by contract: an argument with a default is the same left out and written out")
        }
        true if is_right(nulls) => {
            Some("by contract: null for an optional argument, as strict dialects ask for it")
        }
        true if is_right(digits) => {
            Some("by contract: a listed number as a text, as a dialect asks for it")
        }
        _ => None,
    }
}

/// Returns our verdict.
fn passes(
    entry: &Entry,
    variant: &Variant,
    expected: &[ExpectedCall],
    contracts: &BTreeMap<String, Arc<Contract>>,
) -> bool {
    let matching = CallMatching::new().normalizing(normalized).with_policy(Policy::Strict);
    let made = made(variant.values(), contracts);
    let fits = matching.compare(expected, &made).unwrap().differences.is_empty();
    match entry.category.as_str() {
        // Some call has to be made.
        "live_relevance" => !fits,
        // Arguments are texts in the syntax of the language.
        "simple_java" | "simple_javascript" => {
            let mut arguments = variant.calls.iter().flat_map(|call| call.arguments.values());
            fits && arguments.all(Value::is_string)
        }
        _ => fits,
    }
}

#[derive(Default)]
struct Count {
    answers: usize,
    /// Number of verdicts that differ: without contracts, and by contract.
    differ: [usize; 2],
}

#[test]
#[ignore = "run by tests/bfcl.sh"]
fn verdicts_are_those_of_bfcl() {
    let path = std::env::var("BFCL_VERDICTS").expect("BFCL_VERDICTS names the file of verdicts.py");
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    let mut reasons: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    let mut unknown = Vec::new();
    for line in BufReader::new(File::open(path).unwrap()).lines() {
        let entry: Entry = serde_json::from_str(&line.unwrap()).unwrap();
        let expected = expected(&entry);
        let is_used = |tool: &&BfclTool| expected.iter().any(|call| call.tool == tool.name);
        let contracts = entry.tools.iter().filter(is_used).map(|tool| {
            let contract = Contract::dynamic(&tool.name, "", tool.input.clone(), None);
            (tool.name.clone(), Arc::new(contract.unwrap()))
        });
        let contracts = [BTreeMap::new(), contracts.collect()];
        let count = counts.entry(entry.category.clone()).or_default();
        for variant in &entry.variants {
            let bfcl = variant.valid.expect("BFCL's checker raised an exception");
            count.answers += 1;
            for (by_contract, contracts) in contracts.iter().enumerate() {
                let ours = passes(&entry, variant, &expected, contracts);
                if ours == bfcl {
                    continue;
                }
                count.differ[by_contract] += 1;
                let Some(reason) = reason(&entry, variant, ours, by_contract == 1) else {
                    unknown.push(format!(
                        "{}, {}: ours {ours}, BFCL {bfcl} {}: {:?}",
                        entry.entry,
                        variant.kind,
                        variant.error,
                        notation(&entry, variant.values(), Besides::default()),
                    ));
                    continue;
                };
                reasons.entry(reason).or_default()[by_contract] += 1;
            }
        }
    }
    println!(
        "| category | answers | different verdicts | different by contract |\n|---|---|---|---|"
    );
    let mut all = Count::default();
    for (category, Count { answers, differ: [without, with] }) in &counts {
        println!("| {category} | {answers} | {without} | {with} |");
        all.answers += answers;
        all.differ[0] += without;
        all.differ[1] += with;
    }
    println!("| all | {} | {} | {} |", all.answers, all.differ[0], all.differ[1]);
    println!("\n| reason | different verdicts | different by contract |\n|---|---|---|");
    for (reason, [without, with]) in &reasons {
        println!("| {reason} | {without} | {with} |");
    }
    let text = unknown.join("\n");
    assert!(
        unknown.is_empty(),
        "{} verdicts differ without a known reason:\n{text}",
        unknown.len()
    );
    assert!(all.answers > 80_000, "only {} answers", all.answers);
}
