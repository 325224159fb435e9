//! A contract as a value: stored, compared, wrapped.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_signature::{Contract, Dialect, MediaKind, SchemaFault, Side, Signature};

use crate::zoo::{self, Bare, Echo, Specimen, Tree, Visitor};

struct StoredAndBack;

impl Visitor for StoredAndBack {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let mut contracts = vec![Contract::of::<Echo<T>>().unwrap()];
        contracts.extend(Contract::of::<Bare<T>>());
        // All that is made of a contract is stored too, for example as the tools of a run.
        for contract in contracts.clone() {
            contracts.extend(contract.finish());
            contracts.push(contract.named("other").unwrap().described("In other words."));
            let reasoned = contract.asking_first("reasoning", json!({"type": "string"}));
            contracts.extend(reasoned.iter().filter_map(|contract| contract.finish().ok()));
            contracts.extend(reasoned);
        }
        for contract in contracts {
            let text = serde_json::to_string(&contract).unwrap();
            let back: Contract = serde_json::from_str(&text).unwrap();
            assert_eq!(back, contract, "{case}");
            assert_eq!(back.fingerprint(), contract.fingerprint(), "{case}");
            assert_eq!(serde_json::to_string(&back).unwrap(), text, "{case}");
            for dialect in Dialect::ALL {
                assert_eq!(tool(&back, dialect), tool(&contract, dialect), "{case}");
                assert_eq!(output(&back, dialect), output(&contract, dialect), "{case}");
            }
        }
    }
}

fn tool(contract: &Contract, dialect: Dialect) -> Result<String, String> {
    let tool = contract.tool(dialect).map_err(|error| error.to_string())?;
    Ok(tool.to_string())
}

fn output(contract: &Contract, dialect: Dialect) -> Result<String, String> {
    let lowered = contract.lower_output(dialect);
    Ok(lowered.map_err(|error| error.to_string())?.schema.get().to_owned())
}

#[test]
fn a_stored_contract_is_the_same_contract() {
    zoo::tour(&mut StoredAndBack);
}

/// Find a task.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct FindTask {
    /// Its name.
    name: String,
}

/// A task, as it was found.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct FoundTask {
    /// Its name.
    name: String,
}

impl Signature for FindTask {
    type Output = FoundTask;
}

#[test]
fn a_stored_contract_keeps_the_description_of_its_schema() {
    let contract = Contract::of::<FindTask>().unwrap();
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Task", "description": "A task.", "type": "object",
        "properties": {"name": {"type": "string", "description": "Its name."}},
    });
    let foreign = Contract::dynamic("find", "Find.", schema.clone(), Some(schema)).unwrap();
    let allowing = contract.allowing("name", ["a", "b"]).unwrap();
    let finish = contract.finish().unwrap();
    assert_eq!(finish.input()["description"], "A task, as it was found.");
    for contract in [&finish, &foreign, &foreign.finish().unwrap(), &allowing, &contract] {
        let text = serde_json::to_string(contract).unwrap();
        let back: Contract = serde_json::from_str(&text).unwrap();
        assert_eq!(&back, contract);
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
        assert_eq!(back.fingerprint(), contract.fingerprint());
    }
}

#[test]
fn a_stored_contract_is_checked_as_a_new_one() {
    let stored = json!({"name": "to finish", "description": "", "input": {"type": "object"}});
    let error = serde_json::from_value::<Contract>(stored).unwrap_err();
    insta::assert_snapshot!(error, @"`to finish` cannot be a tool's name: ' ' is not allowed; use only A-Z a-z 0-9 _ -");
}

#[test]
fn the_fingerprint_changes_with_every_part() {
    let object = |field: &str| json!({"type": "object", "properties": {field: {"type": "string"}}});
    let make = |name, description, input, output| {
        let contract = Contract::dynamic(name, description, object(input), output);
        contract.unwrap().fingerprint()
    };
    let mut prints = vec![
        make("find", "Find.", "a", None),
        make("find2", "Find.", "a", None),
        make("find", "Find!", "a", None),
        make("find", "Find.", "b", None),
        make("find", "Find.", "a", Some(object("a"))),
        make("find", "Find.", "a", Some(object("b"))),
        make("find", "Find.", "a", Some(json!({"type": "string"}))),
        // The same letters, divided differently.
        make("fin", "dFind.", "a", None),
    ];
    let written = |text: &str| {
        let contract = Contract::of::<Echo<zoo::TwoWays>>().unwrap();
        contract.named(text).unwrap().fingerprint()
    };
    prints.push(written("one"));
    prints.push(written("two"));
    let count = prints.len();
    prints.sort();
    prints.dedup();
    assert_eq!(prints.len(), count, "{prints:#?}");
}

/// Runs store it, so every version of this crate must compute the same.
#[test]
fn the_fingerprint_of_a_known_contract_never_changes() {
    let input = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let contract = Contract::dynamic("get_weather", "Say the weather.", input, None).unwrap();
    assert_eq!(contract.fingerprint(), "8fbc74d5bd2d68edf9e9ab5f58d6f037");
    assert_eq!(contract.clone().fingerprint(), contract.fingerprint());
}

/// The dialects that accept recursion.
fn recursive() -> impl Iterator<Item = Dialect> {
    Dialect::ALL.into_iter().filter(|dialect| *dialect != Dialect::Anthropic)
}

/// A signature whose output refers to its own root.
fn schema(contract: &Contract, dialect: Dialect) -> Value {
    let lowered = contract.lower_output(dialect).unwrap();
    serde_json::from_str(lowered.schema.get()).unwrap()
}

#[test]
fn recursion_at_the_root_survives_wrapping() {
    let contract = Contract::of::<Echo<Tree>>().unwrap();
    let leaf = json!({"leaf": 1});
    let tree =
        json!({"branch": {"left": leaf, "right": {"branch": {"left": leaf, "right": leaf}}}});
    for dialect in recursive() {
        let schema = schema(&contract, dialect);
        let judge = jsonschema::validator_for(&schema).unwrap();
        assert!(judge.is_valid(&json!({"result": tree})), "{dialect}: {schema:#}");
        let cut =
            json!({"result": {"branch": {"left": leaf, "right": {"branch": {"left": leaf}}}}});
        // Gemini takes recursion in optional fields only, which is a loss.
        let is_loss = dialect == Dialect::Gemini;
        assert_eq!(judge.is_valid(&cut), is_loss, "{dialect}: {schema:#}");
    }
}

/// A definition may have the name of the wrapper, or that of a definition of the other property.
#[test]
fn definitions_of_the_same_name_are_kept_apart() {
    #[expect(non_camel_case_types, reason = "the name is the point")]
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct result {
        next: Option<Box<result>>,
    }
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[schemars(rename = "outer")]
    enum Outer {
        L(Box<Outer>),
        R(result),
    }
    let contract = Contract::of::<Echo<Outer>>().unwrap();
    let good = json!({"L": {"R": {"next": {"next": null}}}});
    for dialect in recursive() {
        let schema = schema(&contract, dialect);
        let judge = jsonschema::validator_for(&schema).unwrap();
        assert!(judge.is_valid(&json!({ "result": good })), "{dialect}: {schema:#}");
        let bad = json!({"result": {"R": {"next": "b"}}});
        assert!(!judge.is_valid(&bad), "{dialect}: {schema:#}");
    }

    let first = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/result"}},
        "$defs": {"result": {"type": "string"}, "output": {"type": "boolean"}},
        "required": ["a"],
    });
    let asking = contract.asking_first("reasoning", first).unwrap();
    let judge = jsonschema::validator_for(asking.output_to_read().unwrap()).unwrap();
    assert!(judge.is_valid(&json!({"reasoning": {"a": "b"}, "output": good})));
    assert!(!judge.is_valid(&json!({"reasoning": {"a": good}, "output": good})));
    assert!(!judge.is_valid(&json!({"reasoning": {"a": "b"}, "output": {"R": "b"}})));
    assert!(!judge.is_valid(&json!({"reasoning": {"a": "b"}, "output": {"L": true}})));
}

/// `"$ref": "#"` in data is data.
#[test]
fn wrapping_changes_no_data() {
    let output = json!({"type": "array", "items": {"$ref": "#"}, "default": [{"$ref": "#"}]});
    let contract =
        Contract::dynamic("nest", "", json!({"type": "object"}), Some(output.clone())).unwrap();
    let lowered = schema(&contract, Dialect::JsonSchema2020);
    assert_eq!(lowered["$defs"]["result"]["items"], json!({"$ref": "#/$defs/result"}));
    assert_eq!(lowered["$defs"]["result"]["default"], output["default"]);
}

/// Many readers take a reference for a JSON pointer as it stands, without decoding.
#[test]
fn references_to_names_outside_ascii_resolve_as_they_stand() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Nöde {
        kinder: Vec<Nöde>,
        #[serde(default)]
        last: u8,
    }
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Holds {
        node: Nöde,
    }
    fn resolve_all(node: &Value, root: &Value) {
        if let Some(reference) = node.get("$ref").and_then(Value::as_str) {
            let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
            assert!(target.is_some(), "{reference} in {root:#}");
        }
        let below = node.as_object().into_iter().flat_map(|map| map.values());
        below.chain(node.as_array().into_iter().flatten()).for_each(|node| resolve_all(node, root));
    }

    let contract = Contract::of::<Echo<Holds>>().unwrap();
    resolve_all(contract.input(), contract.input());
    for dialect in recursive() {
        let schema = schema(&contract, dialect);
        resolve_all(&schema, &schema);
        let judge = jsonschema::validator_for(&schema).unwrap();
        let node = json!({"node": {"kinder": [{"kinder": [], "last": 1}], "last": 1}});
        assert!(judge.is_valid(&node), "{dialect}: {schema:#}");
    }
    let nulls = r#"{"node": {"kinder": [{"kinder": [], "last": null}], "last": null}}"#;
    assert!(contract.read_output::<Holds>(nulls).is_ok());

    // The same where the schema comes from elsewhere; what is data stays.
    let data = json!({"properties": {"e/": {}}, "const": {"$ref": "#/$defs/a%20b"}});
    let input = json!({
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/a%20b"},
            "b": {"$ref": "#/$defs/a%b"},
            "c": {"$ref": "#/$defs/c"},
            "d": {"$ref": "#/$defs/a%20b/properties/e~1"},
        },
        "$defs": {"a b": data, "a%b": {"type": "string"}, "c": {"type": "null"}},
    });
    let contract = Contract::dynamic("take", "", input, None).unwrap();
    resolve_all(&contract.input()["properties"], contract.input());
    let expected = json!({"a_b": data, "a_b_2": {"type": "string"}, "c": {"type": "null"}});
    assert_eq!(contract.input()["$defs"], expected);
    assert_eq!(contract.input()["properties"]["b"], json!({"$ref": "#/$defs/a_b_2"}));
    let stored: Contract = serde_json::from_value(json!(contract)).unwrap();
    assert_eq!(stored, contract);
}

#[test]
fn a_contract_that_asks_for_reasoning_first_keeps_a_recursive_output() {
    let contract = Contract::of::<Echo<Tree>>().unwrap();
    let asking = contract.asking_first("reasoning", json!({"type": "string"})).unwrap();
    let leaf = json!({"leaf": 1});
    for dialect in recursive() {
        let schema = schema(&asking, dialect);
        let judge = jsonschema::validator_for(&schema).unwrap();
        let tree = json!({"branch": {"left": leaf, "right": leaf}});
        assert!(judge.is_valid(&json!({"reasoning": "So.", "output": tree})));
        let cut = json!({"reasoning": "So.", "output": {"branch": {"left": leaf}}});
        assert_eq!(judge.is_valid(&cut), dialect == Dialect::Gemini);
        assert!(!judge.is_valid(&json!({"output": leaf})));
    }
    // The reasoning comes first, and the contract keeps its own name and input.
    let properties = asking.output_to_read().unwrap()["properties"].clone();
    let names: Vec<_> = properties.as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["reasoning", "output"]);
    assert_eq!(asking.name(), contract.name());
    assert_eq!(asking.input(), contract.input());
}

#[test]
fn a_contract_that_asks_for_reasoning_first_keeps_definitions_and_descriptions() {
    let contract = Contract::of::<Echo<zoo::Forest>>().unwrap();
    let asking = contract.asking_first("reasoning", json!({"type": "string"})).unwrap();
    insta::assert_json_snapshot!(asking.output_to_read().unwrap());
    let text = r#"{"reasoning": "So.", "output": {"tallest": {"leaf": 1}, "others": [], "path": {"name": "a", "next": null, "weight": null}}}"#;
    #[derive(Deserialize)]
    struct Both {
        reasoning: String,
        output: zoo::Forest,
    }
    let both: Both = asking.read_output(text).unwrap();
    assert_eq!(both.reasoning, "So.");
    drop(both.output);
}

#[test]
fn a_string_is_rendered_as_text_and_everything_else_as_json() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Say {}
    impl Signature for Say {
        type Output = String;
    }
    assert_eq!(Say::render(&"\"Hi\"\n".to_owned()).unwrap(), "\"Hi\"\n");
    assert_eq!(Echo::<Vec<u8>>::render(&vec![1, 2]).unwrap(), "[1,2]");
    assert_eq!(Echo::<()>::render(&()).unwrap(), "null");
}

#[test]
fn the_finish_tool_can_be_stored_although_its_name_is_reserved() {
    let finish = Contract::of::<Echo<Tree>>().and_then(|contract| contract.finish()).unwrap();
    let stored = serde_json::to_string(&finish).unwrap();
    assert_eq!(serde_json::from_str::<Contract>(&stored).unwrap(), finish);
}

/// `$schema` says by which rules a schema is read: it comes out of a contract as it went in,
/// or as what the schema was rewritten in.
#[test]
fn a_schema_from_outside_keeps_its_dollar_schema() {
    let modern = "https://json-schema.org/draft/2020-12/schema";
    let seventh = "http://json-schema.org/draft-07/schema#";
    let shown = |marker: Option<&str>, city: Value| {
        let mut schema = json!({"type": "object", "properties": {"city": city}});
        if let Some(marker) = marker {
            schema["$schema"] = json!(marker);
        }
        let contract =
            Contract::dynamic("weather", "", schema.clone(), Some(schema.clone())).unwrap();
        // Nothing else depends on it: providers get schemas without it, as before.
        assert!(!contract.tool(Dialect::OpenAiStrict).unwrap().to_string().contains("$schema"));
        assert!(contract.input().get("$schema").is_none());
        let stored = serde_json::to_string(&contract).unwrap();
        let again: Contract = serde_json::from_str(&stored).unwrap();
        assert_eq!(again.tool(Dialect::Mcp).unwrap(), contract.tool(Dialect::Mcp).unwrap());
        let tool = contract.tool(Dialect::Mcp).unwrap();
        let both = [&tool["inputSchema"], &tool["outputSchema"]];
        both.map(|schema| schema["$schema"].as_str().map(str::to_owned))
    };
    let both = |marker: &str| [Some(marker.to_owned()), Some(marker.to_owned())];
    assert_eq!(shown(None, json!({"type": "string"})), [None, None]);
    assert_eq!(shown(Some(modern), json!({"type": "string"})), both(modern));
    assert_eq!(shown(Some(seventh), json!({"type": "string"})), both(seventh));
    // A tuple is said in another way since 2020-12: under the old name it would mean nothing.
    let tuple = json!({"type": "array", "items": [{"type": "number"}, {"type": "number"}]});
    assert_eq!(shown(Some(seventh), tuple), both(modern));
}

#[test]
fn a_malformed_schema_cannot_be_asked_first() {
    let output = json!({"type": "string"});
    let contract = Contract::dynamic("find", "", json!({"type": "object"}), Some(output)).unwrap();
    let error = contract.asking_first("why", json!({"type": "text"})).unwrap_err();
    assert_eq!(error.schema_fault(), Some(SchemaFault::Malformed));
}

/// A picture, as a type says it.
#[derive(Serialize, Deserialize)]
struct Picture(String);

impl JsonSchema for Picture {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Picture".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        MediaKind::Image.schema()
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Album {
    cover: Option<Picture>,
    /// A field that is called like the marker is an ordinary field.
    #[serde(rename = "x-part")]
    named: String,
    albums: Vec<Album>,
    by_name: std::collections::BTreeMap<String, Picture>,
}

/// Find an album.
#[derive(Serialize, Deserialize, JsonSchema)]
struct FindAlbum {}

impl Signature for FindAlbum {
    type Output = Album;
}

#[test]
fn media_are_found_in_recursive_types_and_their_markers_removed() {
    let contract = Contract::of::<FindAlbum>().unwrap();
    let paths: Vec<_> =
        contract.media(Side::Output).iter().map(|field| field.path.as_str()).collect();
    assert_eq!(paths, ["$.cover", "$.by_name.*"]);
    assert!(contract.media(Side::Input).is_empty());
    let schema = contract.output_to_write().unwrap();
    assert!(!schema.to_string().contains(r#""x-part":"image""#), "{schema}");
    assert_eq!(schema["properties"]["x-part"]["type"], "string");
    let first = contract.asking_first("why", json!({"type": "string"})).unwrap();
    assert_eq!(first.media(Side::Output)[0].path, "$.output.cover");
    assert_eq!(contract.finish().unwrap().media(Side::Input)[0].path, "$.cover");
}
