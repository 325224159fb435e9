//! What must hold of every type of the zoo in every dialect. What becomes of a type is in
//! `docs/dialects.md`, and the rules one by one in `rules/`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_signature::{
    Contract, ContractError, Dialect, Loss, Lowered, Signature, assert_fits,
};

use crate::judge;
use crate::zoo::generate::values;
use crate::zoo::{self, Bare, Echo, Specimen, Visitor};

/// A lowered schema has an object at its root, and its provider accepts it.
struct Sound;

impl Visitor for Sound {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let mut contracts = vec![Contract::of::<Echo<T>>().unwrap()];
        contracts.extend(Contract::of::<Bare<T>>());
        for (contract, dialect) in
            contracts.iter().flat_map(|contract| Dialect::ALL.map(|dialect| (contract, dialect)))
        {
            for lowered in [contract.lower(dialect), contract.lower_output(dialect)] {
                let lowered = lowered.unwrap_or_else(|error| panic!("{case}: {error}"));
                let schema: Value = serde_json::from_str(lowered.schema.get()).unwrap();
                let faults = judge::faults(dialect, lowered.strict, &schema);
                assert!(faults.is_empty(), "{case}, {dialect}: {faults:#?}");
                let resolved = jsonschema::validator_for(&schema);
                assert!(resolved.is_ok(), "{case}, {dialect}: {:?}", resolved.err());
                let refers = lowered.schema.get().contains(r##""$ref":"#"##);
                let is_lost = lowered.losses.iter().any(|loss| loss.keyword == "$ref");
                assert!(dialect != Dialect::Mcp || !refers || is_lost, "{case}: {schema:#}");
            }
        }
    }
}

#[test]
fn every_type_lowers_to_a_schema_that_its_provider_accepts() {
    zoo::tour(&mut Sound);
}

/// Number of values of each type for each dialect.
const VALUES: usize = 40;

/// A value in a dialect's shape fits the schema that its provider holds a model to.
struct Shaped;

impl Visitor for Shaped {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let contract = Contract::of::<Echo<T>>().unwrap();
        let values = values(contract.output_to_read().unwrap());
        let mut runner = TestRunner::deterministic();
        let values: Vec<_> =
            (0..VALUES).map(|_| values.new_tree(&mut runner).unwrap().current()).collect();
        for dialect in Dialect::ALL {
            // MCP shows what is written.
            if dialect != Dialect::Mcp
                && let Ok(lowered) = contract.lower_output(dialect)
            {
                let lower = |value: &Value| contract.lower_output_value(dialect, value);
                fit(case, lowered, &values, lower);
            }
            if let Ok(lowered) = contract.lower(dialect) {
                let lower = |value: &Value| contract.lower_value(dialect, &json!({"given": value}));
                fit(case, lowered, &values, lower);
            }
            let Ok(bare) = Contract::of::<Bare<T>>() else { continue };
            if let Ok(lowered) = bare.lower(dialect) {
                fit(case, lowered, &values, |value| bare.lower_value(dialect, value));
            }
        }
    }
}

fn fit(
    case: &str,
    lowered: &Lowered,
    values: &[Value],
    lower: impl Fn(&Value) -> Result<Value, ContractError>,
) {
    let schema: Value = serde_json::from_str(lowered.schema.get()).unwrap();
    let judge = jsonschema::validator_for(&schema).unwrap();
    for value in values {
        let wire = lower(value).unwrap_or_else(|error| panic!("{case}: {error}\n{schema:#}"));
        if let Err(error) = judge.validate(&wire) {
            panic!("{case}: {error}: {wire}\n{schema:#}");
        }
    }
}

#[test]
fn a_value_in_a_dialects_shape_fits_the_lowered_schema() {
    zoo::tour(&mut Shaped);
}

/// The table of types and dialects.
#[derive(Default)]
struct Table {
    rows: String,
    losses: BTreeSet<String>,
    loose: Vec<(Dialect, String, String)>,
}

impl Visitor for Table {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let contract = Contract::of::<Echo<T>>().unwrap();
        write!(self.rows, "| {} |", case.replace('_', " ")).unwrap();
        for dialect in Dialect::ALL {
            let sides = [contract.lower(dialect), contract.lower_output(dialect)];
            let sides = sides.into_iter().collect::<Result<Vec<_>, ContractError>>();
            let sides = sides.unwrap_or_else(|error| panic!("{case}, {dialect}: {error}"));
            let losses = || sides.iter().flat_map(|side| &side.losses);
            let cell = match losses().find(|loss| loss.keyword == "strict") {
                Some(loss) => {
                    let why = format!("at `{}`, {}", loss.path, loss.why);
                    self.loose.push((dialect, case.to_owned(), why));
                    "**not strict**".to_owned()
                }
                None => self.losses(losses()),
            };
            write!(self.rows, " {cell} |").unwrap();
        }
        self.rows.push('\n');
    }
}

impl Table {
    fn losses<'a>(&mut self, losses: impl Iterator<Item = &'a Loss>) -> String {
        let mut keywords = BTreeSet::new();
        for loss in losses {
            keywords.insert(format!("`{}`", loss.keyword));
            self.losses.insert(format!("`{}` {}", loss.keyword, loss.why));
        }
        if keywords.is_empty() {
            return "exact".to_owned();
        }
        format!("loss: {}", Vec::from_iter(keywords).join(", "))
    }

    fn text(&self) -> String {
        let mut text = String::from(
            "# Types and dialects\n\n\
            This page shows how much of each Rust type a dialect can express when a contract is lowered.\n\
            Use it to see which parts of your types a provider enforces. Each type is lowered as a field of\n\
            an input and as an output.\n\n\
            - *exact*: the provider enforces everything that the type declares.\n\
            - *loss*: the schema leaves something out, or only its description has it; reading enforces it.\n\
            - *not strict*: a strict dialect cannot express the type.\n\n\
            A contract that is *not strict* is sent whole to the same provider without `strict`. This is\n\
            listed as a loss, too.\n\n\
            The types are defined in `signature/tests/zoo`. A test generates this page:\n\
            `UPDATE_DOCS=1 cargo test -p toolwright-signature --test main -- dialects::`.\n\n",
        );
        let names = Dialect::ALL.map(|dialect| dialect.to_string());
        writeln!(text, "| type | {} |", names.join(" | ")).unwrap();
        writeln!(text, "|---|{}", "---|".repeat(names.len())).unwrap();
        text += &self.rows;
        text += "\n## Losses\n\n";
        for loss in &self.losses {
            writeln!(text, "- {loss}").unwrap();
        }
        text += "\n## Not strict\n\n";
        for (dialect, case, why) in &self.loose {
            writeln!(text, "- {}, {dialect}, {why}", case.replace('_', " ")).unwrap();
        }
        text
    }
}

/// The types that are not strict in a strict dialect, and why.
const LOOSE: [(&str, &[Dialect], &str); 14] = [
    ("any_value", STRICT, ANY),
    ("map_of_any_value", STRICT, ANY),
    ("flattened_map_of_any_value", STRICT, ANY),
    ("union_of_a_map_and_pairs", STRICT, "a map is pairs there: which of the two was meant?"),
    ("map_of_lists", STRICT, "at the root: an empty list may be the map or its one entry"),
    ("recursive_struct", ANTHROPIC, RECURSION),
    ("recursive_union", ANTHROPIC, RECURSION),
    ("recursion_below_the_root", ANTHROPIC, RECURSION),
    ("mutual_recursion", ANTHROPIC, RECURSION),
    ("recursive_map", ANTHROPIC, RECURSION),
    ("recursive_union_without_a_tag", ANTHROPIC, RECURSION),
    ("recursive_union_with_a_tag_beside", ANTHROPIC, RECURSION),
    ("odd_names", ANTHROPIC, NAMES),
    ("map_with_look_alike_keys", ANTHROPIC, NAMES),
];
const STRICT: &[Dialect] = &[Dialect::OpenAiStrict, Dialect::Anthropic];
const ANTHROPIC: &[Dialect] = &[Dialect::Anthropic];
const ANY: &str = "objects must name their fields, and JSON in a text would be a value in hiding";
const RECURSION: &str = "recursion is refused by the provider";
const NAMES: &str = "the provider takes fields of plain names only";

#[test]
fn only_types_that_are_named_here_are_not_strict() {
    let mut table = Table::default();
    zoo::tour(&mut table);
    for (dialect, case, why) in &table.loose {
        let named = |(name, dialects, _): &(&str, &[Dialect], &str)| {
            name == case && dialects.contains(dialect)
        };
        assert!(LOOSE.iter().any(named), "{case}, {dialect}: {why}");
    }
    let count: usize = LOOSE.iter().map(|(_, dialects, _)| dialects.len()).sum();
    assert_eq!(table.loose.len(), count, "{:#?}", table.loose);
}

#[test]
fn the_page_on_dialects_says_what_lowering_does() {
    let mut table = Table::default();
    zoo::tour(&mut table);
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/dialects.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&page, table.text()).unwrap();
    }
    let written = std::fs::read_to_string(&page).unwrap_or_default();
    assert_eq!(written, table.text(), "run it with UPDATE_DOCS=1 and read the difference");
}

#[test]
fn assert_fits_panics_for_a_signature_that_is_not_strict() {
    assert!(assert_fits::<Bare<zoo::Plain>>(Dialect::OpenAiStrict).is_empty());
    let losses = assert_fits::<Echo<zoo::Bounded>>(Dialect::OpenAiStrict);
    assert_eq!(
        losses[0].to_string(),
        "input $.given.code: `minLength` is written only in the description"
    );
    let panicked = std::panic::catch_unwind(|| {
        assert_fits::<Bare<zoo::Anything>>(Dialect::OpenAiStrict);
    });
    let text = *panicked.unwrap_err().downcast::<String>().unwrap();
    insta::assert_snapshot!(text, @"the input of `main::zoo::Bare<main::zoo::maps::Anything>` cannot be sent strict to openai-strict: input $.value: `strict` is off: it accepts any value; give it a type");
}

#[test]
fn a_contract_is_lowered_once_per_dialect() {
    let contract = Contract::of::<Echo<zoo::Nested>>().unwrap();
    for dialect in Dialect::ALL {
        let first = contract.lower(dialect).unwrap();
        assert!(std::ptr::eq(first, contract.lower(dialect).unwrap()));
        let clone = contract.clone();
        assert_eq!(clone.lower(dialect).unwrap().schema.get(), first.schema.get());
    }
}

#[test]
fn the_mcp_form_has_a_name_a_description_and_both_schemas() {
    let contract = Contract::of::<Bare<zoo::Documented>>().unwrap();
    let tool = contract.tool(Dialect::Mcp).unwrap();
    let keys: Vec<_> = tool.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["name", "description", "inputSchema", "outputSchema"]);
    assert_eq!(tool["inputSchema"], *contract.input());
    assert_eq!(tool["outputSchema"], *contract.output_to_write().unwrap());
    insta::assert_json_snapshot!(tool);
}

#[test]
fn the_mcp_form_has_the_title_of_the_type() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[schemars(title = "Weather, now")]
    struct GetWeather {}
    impl Signature for GetWeather {
        type Output = ();
    }
    let contract = Contract::of::<GetWeather>().unwrap();
    let tool = contract.tool(Dialect::Mcp).unwrap();
    let keys: Vec<_> = tool.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["name", "title", "description", "inputSchema", "outputSchema"]);
    assert_eq!(tool["title"], "Weather, now");
    let stored: Contract = serde_json::from_value(json!(contract)).unwrap();
    assert_eq!(stored.tool(Dialect::Mcp).unwrap(), tool);
    assert!(!tool["inputSchema"].to_string().contains("Weather"));
}

#[test]
fn gemini_rejects_a_tool_name_that_starts_with_a_digit_also_after_a_rename() {
    let contract = Contract::of::<Bare<zoo::Plain>>().unwrap();
    contract.lower(Dialect::Gemini).unwrap();
    let renamed = contract.named("3d_view").unwrap();
    renamed.lower(Dialect::Anthropic).unwrap();
    let error = renamed.lower(Dialect::Gemini).unwrap_err();
    insta::assert_snapshot!(error, @"`3d_view` does not fit gemini at $: a tool's name must start with a letter or `_` there; rename it");
}

/// A tool returns what serde writes, and a model has to produce what serde reads.
#[test]
fn the_output_schema_is_what_is_written_in_mcp_and_what_is_read_elsewhere() {
    let contract = Contract::of::<Echo<zoo::TwoWays>>().unwrap();
    let properties = |dialect| {
        let lowered = contract.lower_output(dialect).unwrap();
        let schema: Value = serde_json::from_str(lowered.schema.get()).unwrap();
        schema["properties"].clone()
    };
    assert!(properties(Dialect::Mcp).get("written").is_some());
    assert!(properties(Dialect::Mcp).get("only_read").is_none());
    assert!(properties(Dialect::OpenAiStrict).get("read").is_some());
    assert!(properties(Dialect::OpenAiStrict).get("only_written").is_none());
}

#[test]
fn lowering_the_output_of_a_contract_without_one_is_an_error() {
    let input = json!({"type": "object", "properties": {}});
    let contract = Contract::dynamic("ping", "", input, None).unwrap();
    let error = contract.lower_output(Dialect::OpenAiStrict).unwrap_err();
    insta::assert_snapshot!(error, @"the output schema of `ping` cannot be used at $: there is no output schema, so a model cannot be asked for the output");
    assert!(contract.tool(Dialect::Mcp).unwrap().get("outputSchema").is_none());
}

#[test]
fn a_field_that_is_required_and_not_described_stays_required() {
    let object = json!({"type": "object", "required": ["a"]});
    let input = json!({"type": "object", "properties": {"v": object}});
    let contract = Contract::dynamic("take", "", input, None).unwrap();
    for dialect in [Dialect::Gemini, Dialect::OpenAiLoose] {
        let lowered = contract.lower(dialect).unwrap();
        let schema: Value = serde_json::from_str(lowered.schema.get()).unwrap();
        assert_eq!(schema["properties"]["v"]["required"], json!(["a"]), "{dialect:?}");
        assert!(lowered.losses.is_empty(), "{dialect:?}: {:?}", lowered.losses);
    }
}

fn lowered(contract: &Contract, dialect: Dialect) -> (Value, Vec<String>) {
    let lowered = contract.lower(dialect).unwrap();
    let losses = lowered.losses.iter().map(ToString::to_string).collect();
    (serde_json::from_str(lowered.schema.get()).unwrap(), losses)
}

/// Gemini refuses a whole request for it.
#[test]
fn gemini_gets_no_empty_text_in_an_enum_and_no_empty_name() {
    let cases = [
        (
            json!({"enum": ["", "fast"]}),
            json!({"anyOf": [
                {"type": "string", "enum": ["fast"]},
                {"type": "string", "description": "Always an empty text."},
            ]}),
        ),
        (
            json!({"enum": ["", "fast", null]}),
            json!({"anyOf": [
                {"type": "string", "enum": ["fast"]},
                {"type": "string", "description": "Always an empty text."},
                {"type": "null"},
            ]}),
        ),
        (json!({"const": ""}), json!({"type": "string", "description": "Always an empty text."})),
    ];
    for (mode, expected) in cases {
        let input = json!({"type": "object", "properties": {"mode": mode}});
        let contract = Contract::dynamic("go", "", input, None).unwrap();
        let (schema, losses) = lowered(&contract, Dialect::Gemini);
        assert_eq!(schema["properties"]["mode"], expected);
        assert_eq!(losses.len(), 1, "{losses:?}");
        assert!(losses[0].contains("lists no empty text"), "{losses:?}");
        for value in [json!({"mode": ""}), json!({})] {
            let shown = contract.lower_value(Dialect::Gemini, &value).unwrap().to_string();
            assert_eq!(contract.read::<Value>(&shown).unwrap(), value);
        }
        assert!(contract.read::<Value>(r#"{"mode": "slow"}"#).is_err());
    }
    let input = json!({"type": "object", "properties": {"": {"type": "string"}}, "required": [""]});
    let contract = Contract::dynamic("go", "", input, None).unwrap();
    let (schema, losses) = lowered(&contract, Dialect::Gemini);
    assert_eq!((&schema["properties"], losses.len()), (&json!({}), 1));
    assert!(schema["description"].as_str().unwrap().contains("Required field \"\""), "{schema}");
    assert_eq!(contract.read::<Value>(r#"{"": "a"}"#).unwrap(), json!({"": "a"}));
}

/// Claude drops a tool whose root has a combinator, Copilot one with an object without `properties`.
#[test]
fn mcp_has_a_plain_object_at_the_root_and_properties_in_each_object() {
    let object = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    let union = json!({"type": "object", "anyOf": [object("a"), object("b")]});
    let contract = Contract::dynamic("go", "", union.clone(), Some(union.clone())).unwrap();
    let tool = contract.tool(Dialect::Mcp).unwrap();
    for (side, wrapper) in [("inputSchema", "input"), ("outputSchema", "result")] {
        let fields = &tool[side]["properties"];
        assert_eq!(tool[side]["required"], json!([wrapper]));
        assert_eq!(fields[wrapper]["anyOf"].as_array().map(Vec::len), Some(2), "{tool}");
    }
    let value = json!({"a": "x"});
    let sent = contract.lower_value(Dialect::Mcp, &value).unwrap();
    assert_eq!(sent, json!({"input": value}));
    assert_eq!(contract.read::<Value>(&sent.to_string()).unwrap(), value);
    let sent = contract.lower_output_value(Dialect::Mcp, &value).unwrap();
    assert_eq!(sent, json!({"result": value}));
    assert_eq!(contract.read_output::<Value>(&sent.to_string()).unwrap(), value);
    // A client that knows the union finds that the served tool takes its values.
    let served = Contract::dynamic(
        "go",
        "",
        tool["inputSchema"].clone(),
        Some(tool["outputSchema"].clone()),
    );
    assert_eq!(contract.differences(&served.unwrap()), []);
    let other = Contract::dynamic("go", "", object("c"), None).unwrap();
    assert!(!contract.differences(&other).is_empty());

    // A wrapper that would look like a value of the union.
    let clash = json!({"type": "object", "anyOf": [object("a"), object("input")]});
    let contract = Contract::dynamic("go", "", clash, None).unwrap();
    let (schema, losses) = lowered(&contract, Dialect::Mcp);
    assert_eq!((&schema["properties"], losses.len()), (&json!({}), 1));
    assert!(schema.get("anyOf").is_none(), "{schema}");

    let free = json!({"type": "object"});
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let input = json!({"type": "object", "properties": {"free": free, "map": map}});
    let contract = Contract::dynamic("go", "", input, None).unwrap();
    let (schema, losses) = lowered(&contract, Dialect::Mcp);
    assert_eq!(losses, [""; 0]);
    let free = json!({"type": "object", "properties": {}, "additionalProperties": true});
    assert_eq!(schema["properties"]["free"], free);
    assert_eq!(schema["properties"]["map"]["properties"], json!({}));
    let contract = Contract::dynamic("go", "", json!({"type": "object"}), None).unwrap();
    assert_eq!(lowered(&contract, Dialect::Mcp).0, json!({"type": "object", "properties": {}}));
}

/// The official checks of MCP require it.
#[test]
fn mcp_keeps_the_further_rules_of_an_object_as_they_were_written() {
    let input = json!({
        "type": "object",
        "$defs": {"street": {"$anchor": "street", "type": "string"}},
        "properties": {"phone": {"type": "string"}, "street": {"$ref": "#/$defs/street"}},
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["street"]}]}],
        "if": {"required": ["phone"]},
        "then": {"required": ["street"]},
        "additionalProperties": false,
    });
    let contract = Contract::dynamic("go", "", input.clone(), None).unwrap();
    let mut sent = input;
    sent["properties"]["street"] = json!({"type": "string"});
    assert_eq!(lowered(&contract, Dialect::Mcp), (sent, Vec::new()));
}

/// Clients remove `$defs` (claude-ai-mcp#591) or do not resolve references (copilot-cli#1876).
#[test]
fn mcp_has_references_written_out_where_they_are_used() {
    let input = json!({
        "type": "object",
        "$defs": {
            "Color": {"type": "string", "description": "A color.", "enum": ["red", "blue"]},
            "Pen": {"type": "object", "properties": {"color": {"$ref": "#/$defs/Color"}}},
            "unused": {"type": "null"},
        },
        "properties": {
            "pen": {"$ref": "#/$defs/Pen"},
            "ink": {"$ref": "#/$defs/Color", "description": "Of the ink.", "default": "red"},
            "size": {"type": "integer", "minimum": 1},
            "width": {"$ref": "#/properties/size", "maximum": 5, "minimum": 1},
        },
    });
    let contract = Contract::dynamic("draw", "", input, None).unwrap();
    let (schema, losses) = lowered(&contract, Dialect::Mcp);
    assert_eq!(losses, [""; 0]);
    let color = json!({"type": "string", "description": "A color.", "enum": ["red", "blue"]});
    let mut ink = color.clone();
    (ink["description"], ink["default"]) = (json!("Of the ink."), json!("red"));
    assert_eq!(
        schema,
        json!({
            "type": "object",
            "properties": {
                "pen": {"type": "object", "properties": {"color": color}},
                "ink": ink,
                "size": {"type": "integer", "minimum": 1},
                "width": {
                    "maximum": 5, "minimum": 1, "allOf": [{"type": "integer", "minimum": 1}],
                },
            },
        })
    );
}

#[test]
fn mcp_has_a_few_levels_of_a_recursive_input_and_takes_any_value_below() {
    let node = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "below": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
        "required": ["name"],
    });
    let schema = json!({
        "type": "object",
        "$defs": {"Node": &node},
        "properties": {"top": {"$ref": "#/$defs/Node"}},
        "required": ["top"],
    });
    let contract = Contract::dynamic("plant", "", schema.clone(), Some(schema.clone())).unwrap();
    let (input, losses) = lowered(&contract, Dialect::Mcp);
    let any = json!({
        "type": "object",
        "properties": {},
        "additionalProperties": true,
        "description": "In the same form as above.",
    });
    let mut written = any;
    for _ in 0..3 {
        let mut level = node.clone();
        level["properties"]["below"]["items"] = written;
        written = level;
    }
    assert_eq!(input["properties"], json!({"top": written}));
    insta::assert_snapshot!(losses.join("\n"), @"input #/$defs/Node: `$ref` is written out up to 3 levels deep; below them any value is accepted");
    let judge = jsonschema::validator_for(&input).unwrap();
    let mut value = json!({"name": "leaf"});
    for level in 0..12 {
        let sent = json!({"top": value});
        assert!(judge.is_valid(&sent), "{level}");
        assert_eq!(contract.read::<Value>(&sent.to_string()).unwrap(), sent);
        value = json!({"name": "n", "below": [value]});
    }
    assert!(!judge.is_valid(&json!({"top": {"name": "n", "below": [{"name": 1}]}})));

    // A caller learns the exact type of the output.
    let output = contract.lower_output(Dialect::Mcp).unwrap();
    assert_eq!(serde_json::from_str::<Value>(output.schema.get()).unwrap(), schema);
    insta::assert_snapshot!(output.losses[0].to_string(), @"output #/$defs/Node: `$ref` stays a reference, because the type contains itself; some clients of MCP do not resolve references");
}

/// A member that accepts more would make `oneOf` and `not` accept less.
#[test]
fn mcp_writes_no_recursion_out_where_a_value_would_not_fit_any_more() {
    let schema = |rule: Value| {
        json!({
            "type": "object",
            "$defs": {"Expr": rule},
            "properties": {"e": {"$ref": "#/$defs/Expr"}},
        })
    };
    let list = json!({"type": "array", "items": {"$ref": "#/$defs/Expr"}});
    let texts = json!({"type": "array", "items": {"type": "string"}, "minItems": 1});
    let one_of = schema(json!({"oneOf": [{"type": "null"}, list, texts]}));
    let not =
        schema(json!({"type": "object", "properties": {"e": {"not": {"$ref": "#/$defs/Expr"}}}}));
    let values =
        [json!({"e": [[[[["a"]]]]]}), json!({"e": [[[[null]]]]}), json!({"e": {"e": {"e": 1}}})];
    for (schema, why) in [(one_of, "written out"), (not, "contains itself")] {
        let contract = Contract::dynamic("go", "", schema.clone(), None).unwrap();
        let (sent, losses) = lowered(&contract, Dialect::Mcp);
        assert!(losses[0].contains(why), "{losses:?}");
        let (before, after) = (
            jsonschema::validator_for(&schema).unwrap(),
            jsonschema::validator_for(&sent).unwrap(),
        );
        for value in &values {
            assert!(after.is_valid(value) || !before.is_valid(value), "{value}: {sent:#}");
        }
    }
}

#[test]
fn mcp_keeps_references_that_would_make_a_schema_too_large() {
    let mut input = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}});
    for level in 0..30 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        input["$defs"][format!("d{level}")] =
            json!({"type": "object", "properties": {"a": next, "b": next}});
    }
    input["$defs"]["d30"] = json!({"type": "string"});
    let contract = Contract::dynamic("go", "", input.clone(), None).unwrap();
    let (schema, losses) = lowered(&contract, Dialect::Mcp);
    assert_eq!(schema, input);
    assert!(losses[0].contains("too large"), "{losses:?}");
}
