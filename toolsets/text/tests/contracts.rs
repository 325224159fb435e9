//! The contracts of the tools, and the errors of invalid arguments.

use crate::support::{call, output, tool, wait};
use serde_json::{Value, json};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::{Context, Dialect, Effect, Signature};
use toolwright_text::{
    Text, TextExtractLines, TextFilterLines, TextGrep, TextRg, TextSortLines, TextSummarizeText,
    TextUniqueLines, TextWc,
};

const NAMES: [&str; 8] = [
    "text_grep",
    "text_wc",
    "text_rg",
    "text_extract_lines",
    "text_filter_lines",
    "text_unique_lines",
    "text_sort_lines",
    "text_summarize_text",
];

#[test]
fn the_eight_tools_are_listed_in_order() {
    let tools = Text::default().tools().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool.name()).collect();
    assert_eq!(names, NAMES);
    let signatures = [
        TextGrep::name(),
        TextWc::name(),
        TextRg::name(),
        TextExtractLines::name(),
        TextFilterLines::name(),
        TextUniqueLines::name(),
        TextSortLines::name(),
        TextSummarizeText::name(),
    ];
    assert_eq!(signatures, NAMES);
}

#[test]
fn the_eight_contracts_match_their_snapshot() {
    let tools = Text::default().tools().unwrap();
    let shown: Vec<Value> = tools
        .iter()
        .map(|tool| {
            let mut shown = tool.contract().tool(Dialect::JsonSchema2020).unwrap();
            shown["effect"] = json!(tool.effect());
            shown
        })
        .collect();
    insta::assert_json_snapshot!("eight_contracts", shown);
}

#[test]
fn strict_openai_tools_are_held_in_a_snapshot() {
    let tools = Text::default().tools().unwrap();
    let shown: Vec<Value> =
        tools.iter().map(|tool| tool.contract().tool(Dialect::OpenAiStrict).unwrap()).collect();
    insta::assert_json_snapshot!("eight_strict_tools", shown);
}

#[test]
fn every_parameter_has_a_description() {
    for tool in Text::default().tools().unwrap() {
        let input = tool.contract().input();
        assert_eq!(input["required"][0], "text", "{}", tool.name());
        for (name, property) in input["properties"].as_object().unwrap() {
            let description = property["description"].as_str();
            assert!(description.is_some_and(|text| text.ends_with('.')), "{name}");
        }
    }
}

#[test]
fn every_dialect_says_everything() {
    for tool in Text::default().tools().unwrap() {
        let contract = tool.contract();
        for dialect in Dialect::ALL {
            contract.tool(dialect).unwrap();
            for lowered in
                [contract.lower(dialect).unwrap(), contract.lower_output(dialect).unwrap()]
            {
                // Anthropic's dialect has no bounds of numbers; the description has them.
                let mut losses = lowered.losses.iter();
                let in_description =
                    |keyword| dialect == Dialect::Anthropic && keyword == "minimum";
                assert!(
                    losses.all(|loss| in_description(&loss.keyword)),
                    "{} {dialect}",
                    contract.name()
                );
                let schema: Value = serde_json::from_str(lowered.schema.get()).unwrap();
                assert_eq!(schema["type"], "object", "{} {dialect}", contract.name());
                jsonschema::draft202012::meta::validate(&schema).unwrap();
            }
        }
    }
}

#[test]
fn every_tool_only_reads() {
    let tools = Text::default().tools().unwrap();
    assert!(tools.iter().all(|tool| tool.effect() == Effect::Read));
}

/// Outputs match the output schema, against which MCP clients validate them.
#[test]
fn outputs_fit_their_own_schemas() {
    for (name, arguments) in [
        ("text_grep", json!({"text": "a", "pattern": "a"})),
        ("text_grep", json!({"text": "a", "pattern": "b"})),
        ("text_grep", json!({"text": "a", "pattern": "a", "count_only": true})),
        ("text_wc", json!({"text": "a"})),
        ("text_wc", json!({"text": "a", "lines_only": true})),
        ("text_rg", json!({"text": "a\nb", "pattern": "a", "context": 1})),
        ("text_extract_lines", json!({"text": "a\nb", "start_line": 2})),
        ("text_filter_lines", json!({"text": "a\nb", "pattern": "a"})),
        ("text_unique_lines", json!({"text": "a\na"})),
        ("text_sort_lines", json!({"text": "b\na"})),
        ("text_summarize_text", json!({"text": "some words"})),
        ("text_summarize_text", json!({"text": ""})),
    ] {
        let tool = tool(&Text::default(), name);
        let output = wait(tool.call(&arguments.to_string(), &Context::default())).unwrap();
        let value = output.value().unwrap().unwrap();
        let schema = tool.contract().output_to_write().unwrap();
        let validator = jsonschema::validator_for(schema).unwrap();
        assert!(validator.is_valid(&value), "{name}: {value} in {schema}");
    }
}

/// Strict providers send null for missing arguments.
#[test]
fn null_means_the_default() {
    let grep = json!({"text": "A\nb", "pattern": "a", "ignore_case": null, "count_only": null});
    assert_eq!(output("text_grep", grep), "A\n");
    let rg = json!({"text": "a\nb", "pattern": "a", "context": null});
    assert_eq!(output("text_rg", rg), "a\n");
    let unique = json!({"text": "b\na", "preserve_order": null});
    assert_eq!(output("text_unique_lines", unique), "b\na\n");
}

#[test]
fn invalid_arguments_are_reported_to_the_model() {
    let mut all = String::new();
    for (name, arguments) in [
        ("text_grep", json!({"text": "a"})),
        ("text_grep", json!({"text": "a", "pattern": "a", "ignore_case": "maybe"})),
        ("text_wc", json!({"text": null})),
        ("text_rg", json!({"text": "a", "pattern": "a", "context": 1.5})),
        ("text_rg", json!({"text": "a", "pattern": "a", "context": 1e300})),
        ("text_extract_lines", json!({"text": "a"})),
        ("text_extract_lines", json!({"text": "a", "start_line": "first"})),
        (
            "text_extract_lines",
            json!({"text": "a", "start_line": 1, "end_line": 9_223_372_036_854_775_808_u64}),
        ),
        ("text_filter_lines", json!({"text": ["a"], "pattern": "a"})),
        ("text_summarize_text", json!(7)),
    ] {
        let error = call(name, arguments.clone()).unwrap_err();
        assert_eq!(error.audience(), Audience::ModelMayRetry, "{arguments}");
        assert_eq!(error.stage(), Stage::Arguments, "{arguments}");
        all += &format!("{name} {arguments}\n=> {}\n\n", error.for_model());
    }
    insta::assert_snapshot!("wrong_arguments", all);
}
