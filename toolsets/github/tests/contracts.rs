//! What a model is shown of the tools, and told when it calls one wrongly.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod support;

use serde_json::{Value, json};
use support::{Answer, Server, call};
use toolwright_github::{
    GitHub, GithubApiRequest, GithubGetIssue, GithubGetPr, GithubListIssues, GithubListPrs,
    GithubTrafficClones, GithubTrafficViews,
};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::{Dialect, Effect, Signature, Tool};

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
fn s147_the_seven_names_stand_in_order_and_each_is_one_signature() {
    let tools = tools();
    let names: Vec<_> = tools.iter().map(Tool::name).collect();
    assert_eq!(names, NAMES);
    let names = [
        GithubListIssues::name(),
        GithubListPrs::name(),
        GithubGetIssue::name(),
        GithubGetPr::name(),
        GithubApiRequest::name(),
        GithubTrafficViews::name(),
        GithubTrafficClones::name(),
    ];
    assert_eq!(names, NAMES);
}

#[test]
fn all_seven_only_read() {
    for tool in tools() {
        assert_eq!(tool.effect(), Effect::Read, "{}", tool.name());
    }
}

#[test]
fn s70_the_interface_of_all_seven_is_held_in_a_snapshot() {
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
fn every_dialect_says_everything_but_bounds() {
    for tool in tools() {
        let contract = tool.contract();
        for dialect in Dialect::ALL {
            contract.tool(dialect).unwrap();
            for lowered in
                [contract.lower(dialect).unwrap(), contract.lower_output(dialect).unwrap()]
            {
                for loss in &lowered.losses {
                    // Its description says it, and the tool checks it.
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
fn strict_openai_tools_are_held_in_a_snapshot() {
    let shown: Vec<Value> =
        tools().iter().map(|tool| tool.contract().tool(Dialect::OpenAiStrict).unwrap()).collect();
    insta::assert_json_snapshot!("seven_strict_tools", shown);
}

/// What the tools really give fits the schema that MCP clients hold them to.
#[tokio::test]
async fn outputs_fit_their_own_schemas() {
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

/// A map of fields is read as itself and as the pairs that strict dialects write.
#[tokio::test]
async fn fields_may_be_pairs_and_what_is_null_is_left_out() {
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
async fn wrong_arguments_are_told_to_the_model_and_nothing_is_asked() {
    let server = Server::answering([Answer::json("{}")]).await;
    let mut told = String::new();
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
        told += &format!("{name} {arguments}\n=> {}\n\n", error.for_model());
    }
    // Without a repository of its own.
    let github = GitHub::new().unwrap().with_base_url(&server.url).unwrap();
    for (name, arguments) in [
        ("github_get_issue", r#"{"issue_number": 1}"#),
        ("github_api_request", r#"{"endpoint": "repos/{owner}/{repo}"}"#),
    ] {
        let error = call(&github, name, arguments).await.err().unwrap();
        told += &format!("{name} {arguments}\n=> {}\n\n", error.for_model());
    }
    insta::assert_snapshot!("wrong_arguments", told);
    assert!(server.asked().is_empty());
}
