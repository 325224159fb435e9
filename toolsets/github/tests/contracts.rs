//! The contracts of the tools, and the errors for wrong arguments.

use serde_json::{Value, json};
use toolwright_github::{
    GitHub, GitHubApiRequest, GitHubGetIssue, GitHubGetPr, GitHubListIssues, GitHubListPrs,
    GitHubTrafficClones, GitHubTrafficViews,
};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::{Dialect, Effect, Signature, Tool};

use crate::support::{self, Answer, Server, call};

const NAMES: [&str; 7] = [
    "github_list_issues",
    "github_list_prs",
    "github_get_issue",
    "github_get_pr",
    "github_api_request",
    "github_traffic_views",
    "github_traffic_clones",
];

fn tools() -> Vec<Tool> {
    GitHub::new().unwrap().tools().unwrap()
}

#[test]
fn the_seven_tools_have_the_names_of_their_signatures_in_order() {
    let tools = tools();
    let names: Vec<_> = tools.iter().map(Tool::name).collect();
    assert_eq!(names, NAMES);
    let names = [
        GitHubListIssues::name(),
        GitHubListPrs::name(),
        GitHubGetIssue::name(),
        GitHubGetPr::name(),
        GitHubApiRequest::name(),
        GitHubTrafficViews::name(),
        GitHubTrafficClones::name(),
    ];
    assert_eq!(names, NAMES);
}

#[test]
fn the_effect_of_every_tool_is_read() {
    for tool in tools() {
        assert_eq!(tool.effect(), Effect::Read, "{}", tool.name());
    }
}

#[test]
fn the_contracts_of_the_seven_tools_are_those_of_the_snapshot() {
    let shown: Vec<Value> = tools()
        .iter()
        .map(|tool| {
            let mut shown = tool.contract().tool(Dialect::JsonSchema2020).unwrap();
            shown["effect"] = json!(tool.effect());
            shown
        })
        .collect();
    insta::assert_json_snapshot!("seven_contracts", shown);
}

#[test]
fn every_dialect_keeps_all_keywords_but_bounds() {
    for tool in tools() {
        let contract = tool.contract();
        for dialect in Dialect::ALL {
            contract.tool(dialect).unwrap();
            for lowered in
                [contract.lower(dialect).unwrap(), contract.lower_output(dialect).unwrap()]
            {
                for loss in &lowered.losses {
                    // The description has the bound, and the tool checks it.
                    let bound = matches!(loss.keyword.as_str(), "minimum" | "maximum");
                    assert!(bound, "{} {dialect}: {loss:?}", contract.name());
                }
                let schema: Value = serde_json::from_str(lowered.schema.get()).unwrap();
                assert_eq!(schema["type"], "object", "{} {dialect}", contract.name());
                jsonschema::draft202012::meta::validate(&schema).unwrap();
            }
        }
    }
}

#[test]
fn the_strict_tools_for_openai_are_those_of_the_snapshot() {
    let shown: Vec<Value> =
        tools().iter().map(|tool| tool.contract().tool(Dialect::OpenAiStrict).unwrap()).collect();
    insta::assert_json_snapshot!("seven_strict_tools", shown);
}

/// MCP clients validate outputs with these schemas.
#[tokio::test]
async fn every_output_fits_the_output_schema() {
    let item = json!({"number": 1, "title": "a", "state": "open", "labels": [{"name": "b"}], "body": null});
    for (name, arguments, answer) in [
        ("github_list_issues", json!({}), json!([item])),
        ("github_list_prs", json!({}), json!([item])),
        ("github_get_issue", json!({"issue_number": 1}), item.clone()),
        ("github_get_pr", json!({"pr_number": 1}), item),
        ("github_api_request", json!({"endpoint": "zen"}), json!({})),
        ("github_traffic_views", json!({"repo": "a/b"}), json!({"count": 1, "uniques": 1})),
        ("github_traffic_clones", json!({"repo": "a/b"}), json!({"count": 1, "uniques": 1})),
    ] {
        let server = Server::answering([Answer::json(answer.to_string())]).await;
        let output = call(&server.github(), name, &arguments.to_string()).await.unwrap();
        let value = output.value().unwrap().unwrap();
        let tool = support::tool(&server.github(), name);
        let schema = tool.contract().output_to_write().unwrap();
        let validator = jsonschema::validator_for(schema).unwrap();
        assert!(validator.is_valid(&value), "{name}: {value} in {schema}");
    }
}

/// A strict dialect has no maps, so a model writes a list of pairs.
#[tokio::test]
async fn fields_are_read_from_a_map_and_from_pairs_and_null_is_the_default() {
    let server = Server::answering([Answer::json("{}")]).await;
    for arguments in [
        r#"{"endpoint": "zen", "fields": {"a": "1"}}"#,
        r#"{"endpoint": "zen", "method": null, "fields": [{"key": "a", "value": "1"}], "repo": null}"#,
    ] {
        server.text("github_api_request", arguments).await;
    }
    server.text("github_api_request", r#"{"endpoint": "zen", "fields": null}"#).await;
    assert_eq!(server.asked(), ["GET /zen?a=1", "GET /zen?a=1", "GET /zen"]);
}

#[tokio::test]
async fn wrong_arguments_are_errors_for_the_model_without_a_request() {
    let server = Server::answering([Answer::json("{}")]).await;
    let mut all = String::new();
    for (name, arguments) in [
        ("github_list_issues", r#"{"state": "merged"}"#),
        ("github_list_issues", r#"{"limit": 0}"#),
        ("github_list_issues", r#"{"limit": 1001}"#),
        ("github_list_issues", r#"{"limit": "many"}"#),
        ("github_list_issues", r#"{"labels": "bug, \"", "repo": 7}"#),
        ("github_list_issues", r#"{"repo": "octocat"}"#),
        ("github_list_issues", r#"{"labels": ["a,b"]}"#),
        ("github_list_prs", r#"{"author": "octocat", "limit": 101}"#),
        ("github_list_prs", r#"{"state": "draft"}"#),
        ("github_list_prs", r#"{"author": "a b"}"#),
        ("github_list_prs", r#"{"base": "a b"}"#),
        ("github_get_issue", "{}"),
        ("github_get_issue", r#"{"issue_number": -1}"#),
        ("github_get_pr", r#"{"pr_number": 0}"#),
        ("github_api_request", r#"{"endpoint": "https://example.com/x"}"#),
        ("github_api_request", r#"{"endpoint": "user?per_page=1"}"#),
        ("github_api_request", r#"{"endpoint": "user", "fields": {"a b": "1"}}"#),
        ("github_api_request", r#"{"endpoint": "user", "fields": {"a": 1.5}}"#),
        ("github_traffic_views", r#"{"repo": "a/b", "per": "month"}"#),
        ("github_traffic_clones", "{}"),
    ] {
        let error = call(&server.github(), name, arguments).await.err().unwrap();
        assert_eq!(error.audience(), Audience::ModelMayRetry, "{arguments}");
        assert_eq!(error.stage(), Stage::Arguments, "{arguments}");
        all += &format!("{name} {arguments}\n=> {}\n\n", error.for_model());
    }
    // There is no default repository.
    let github = GitHub::new().unwrap().with_base_url(&server.url).unwrap();
    for (name, arguments) in [
        ("github_get_issue", r#"{"issue_number": 1}"#),
        ("github_api_request", r#"{"endpoint": "repos/{owner}/{repo}"}"#),
    ] {
        let error = call(&github, name, arguments).await.err().unwrap();
        all += &format!("{name} {arguments}\n=> {}\n\n", error.for_model());
    }
    insta::assert_snapshot!("wrong_arguments", all);
    assert!(server.asked().is_empty());
}
