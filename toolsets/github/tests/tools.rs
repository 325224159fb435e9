//! The requests and the outputs of each tool, and the settings of the toolset.

use std::env;
use std::process::Command;

use serde_json::{Value, json};
use toolwright_github::{
    GitHub, GitHubApiRequest, GitHubGetIssue, GitHubGetPr, GitHubListIssues, GitHubListPrs,
    GitHubTrafficClones, GitHubTrafficViews, Mergeable, Per,
};
use toolwright_module::error::Stage;
use toolwright_module::{Cancellation, Context, Module};

use crate::support::{self, Answer, Server, TOKEN, call, said};

fn issue(number: u64) -> Value {
    json!({
        "number": number, "title": format!("Issue {number}"), "state": "open",
        "html_url": format!("https://github.com/octocat/hello-world/issues/{number}"),
        "labels": [{"name": "bug"}, {"name": "help wanted"}], "assignees": [{"login": "kate"}],
        "body": "It **breaks**.",
    })
}

fn pull_request(number: u64) -> Value {
    json!({
        "number": number, "title": format!("Change {number}"), "state": "closed",
        "html_url": format!("https://github.com/octocat/hello-world/pull/{number}"),
        "head": {"ref": "topic"}, "base": {"ref": "main"}, "merged_at": null,
        "mergeable": true, "body": null,
    })
}

fn merged(number: u64) -> Value {
    let mut one = pull_request(number);
    one["merged_at"] = json!("2026-01-01T00:00:00Z");
    one
}

fn page(items: impl IntoIterator<Item = Value>, next: bool) -> Answer {
    let items: Vec<_> = items.into_iter().collect();
    let link = if next { "<https://elsewhere.invalid/2>; rel=\"next\"" } else { "" };
    Answer::new(200, &format!("link: {link}\r\n"), json!(items).to_string())
}

#[tokio::test]
async fn each_tool_sends_the_specified_request_and_returns_the_specified_text() {
    let traffic = json!({
        "count": 15, "uniques": 4,
        "views": [{"timestamp": "2026-01-01T00:00:00Z", "count": 10, "uniques": 3}],
        "clones": [{"timestamp": "2026-01-01T00:00:00Z", "count": 15, "uniques": 4}],
    });
    let mut bare = issue(7);
    bare["labels"] = json!([]);
    bare["assignees"] = json!([]);
    bare["body"] = Value::Null;
    let mut all = String::new();
    for (name, arguments, answer) in [
        ("github_list_issues", "{}", json!([issue(2), issue(1)])),
        (
            "github_list_issues",
            r#"{"state": "all", "labels": ["bug", "help wanted"], "assignee": "kate", "repo": "a/b", "limit": 3}"#,
            json!([bare]),
        ),
        ("github_list_issues", r#"{"state": "closed", "assignee": "none"}"#, json!([])),
        ("github_list_prs", "{}", json!([pull_request(4), merged(3)])),
        (
            "github_list_prs",
            r#"{"state": "closed", "base": "release/1.0", "repo": "a/b", "limit": 5}"#,
            json!([]),
        ),
        ("github_list_prs", r#"{"state": "merged"}"#, json!([pull_request(4), merged(3)])),
        ("github_get_issue", r#"{"issue_number": 2}"#, issue(2)),
        ("github_get_issue", r#"{"issue_number": 7, "repo": "a/b"}"#, bare),
        ("github_get_pr", r#"{"pr_number": 4}"#, pull_request(4)),
        ("github_get_pr", r#"{"pr_number": 3, "repo": "a/b.c"}"#, merged(3)),
        (
            "github_api_request",
            r#"{"endpoint": "/repos/{owner}/{repo}/releases", "method": "get", "fields": {"per_page": "2", "q": "a b&c=d"}}"#,
            json!([{"tag_name": "v1"}]),
        ),
        (
            "github_api_request",
            r#"{"endpoint": "repos/{owner}/{repo}/compare/main...dev", "repo": "a/b"}"#,
            json!({}),
        ),
        (
            "github_api_request",
            r#"{"endpoint": "zen", "fields": {}}"#,
            json!("Keep it logically awesome."),
        ),
        ("github_traffic_views", r#"{"repo": "a/b"}"#, traffic.clone()),
        (
            "github_traffic_views",
            r#"{"repo": "a/b", "per": "week"}"#,
            json!({"count": 0, "uniques": 0}),
        ),
        (
            "github_traffic_clones",
            r#"{"repo": "a/b", "per": "day"}"#,
            json!({"count": 15, "uniques": 4, "clones": traffic["clones"]}),
        ),
    ] {
        // A reply has either views or clones.
        let mut answer = answer;
        if name == "github_traffic_views" && answer.get("views").is_some() {
            answer.as_object_mut().unwrap().remove("clones");
        }
        let server = Server::answering([Answer::json(answer.to_string())]).await;
        let text = server.text(name, arguments).await;
        all += &format!("{name} {arguments}\n{}\n{text}\n\n", server.asked().join("\n"));
    }
    insta::assert_snapshot!("each_tool", all);
}

#[tokio::test]
async fn a_request_has_the_token_and_the_headers_of_the_api() {
    let server = Server::answering([Answer::json("[]")]).await;
    server.text("github_list_issues", "{}").await;
    let head = server.heads()[0].to_lowercase();
    let mut lines: Vec<_> = head.lines().filter(|line| !line.starts_with("host: ")).collect();
    lines[1..].sort_unstable();
    insta::assert_snapshot!(lines.join("\n").trim(), @r"
    get /repos/octocat/hello-world/issues?state=open&per_page=100&page=1 http/1.1

    accept: application/vnd.github+json, application/json;q=0.9, */*;q=0.1
    authorization: bearer ghp_secretofthetests
    user-agent: toolwright-github/0.1.0
    x-github-api-version: 2022-11-28
    ");
    let github = GitHub::new().unwrap().with_base_url(&server.url).unwrap();
    call(&github, "github_api_request", r#"{"endpoint": "zen"}"#).await.unwrap();
    assert!(!server.heads()[1].to_lowercase().contains("authorization"));
}

#[tokio::test]
async fn each_github_module_works_without_a_language_model() -> toolwright_module::Result<()> {
    let answers = [
        json!([issue(2)]),
        json!([pull_request(4)]),
        issue(2),
        merged(3),
        json!({"a": 1}),
        json!({"count": 1, "uniques": 1, "views": []}),
        json!({"count": 2, "uniques": 1, "clones": []}),
    ];
    let server = Server::answering(answers.map(|answer| Answer::json(answer.to_string()))).await;
    let (github, repo) = (server.github(), || Some("a/b".to_owned()));

    let input: GitHubListIssues = serde_json::from_value(json!({"repo": "a/b"}))?;
    let found = GitHubListIssues::module(&github).call(input, &Context::default()).await?;
    assert_eq!(found.issues[0].labels, ["bug", "help wanted"]);

    let input: GitHubListPrs = serde_json::from_value(json!({}))?;
    let found = GitHubListPrs::module(&github).call(input, &Context::default()).await?;
    assert_eq!(found.pull_requests[0].head, "topic");

    let input = GitHubGetIssue { issue_number: 2, repo: repo() };
    let issue = GitHubGetIssue::module(&github).call(input, &Context::default()).await?;
    assert_eq!(issue.body.unwrap(), "It **breaks**.");

    let input = GitHubGetPr { pr_number: 3, repo: repo() };
    let pr = GitHubGetPr::module(&github).call(input, &Context::default()).await?;
    assert_eq!((pr.state.as_str(), pr.mergeable), ("merged", Mergeable::Yes));

    let input: GitHubApiRequest = serde_json::from_value(json!({"endpoint": "user"}))?;
    let reply = GitHubApiRequest::module(&github).call(input, &Context::default()).await?;
    assert_eq!((reply.status, reply.body.as_str()), (200, r#"{"a":1}"#));

    let input = GitHubTrafficViews { repo: "a/b".to_owned(), per: Some(Per::Week) };
    let views = GitHubTrafficViews::module(&github).call(input, &Context::default()).await?;
    assert_eq!(views.count, 1);

    let input = GitHubTrafficClones { repo: "a/b".to_owned(), per: None };
    let clones = GitHubTrafficClones::module(&github).call(input, &Context::default()).await?;
    assert_eq!(clones.count, 2);
    Ok(())
}

#[tokio::test]
async fn pull_requests_are_not_listed_as_issues() {
    let mut disguised = issue(3);
    disguised["pull_request"] = json!({"url": "x"});
    let answers = [
        page((1..=3).map(|n| if n == 3 { disguised.clone() } else { issue(n) }), true),
        page([issue(4), issue(5)], false),
    ];
    let server = Server::answering(answers).await;
    let text = server.text("github_list_issues", r#"{"limit": 3}"#).await;
    assert!(text.contains("Found 3 issue(s):\n#1: "), "{text}");
    assert!(text.contains("#4: ") && !text.contains("#3: ") && !text.contains("#5: "), "{text}");

    let answer = Answer::json(disguised.to_string());
    let error = support::failed(answer, "github_get_issue", r#"{"issue_number": 3}"#).await;
    assert_eq!(
        error.for_model(),
        "Error getting issue: #3 is a pull request; use the tool for pull requests"
    );
}

#[tokio::test]
async fn pages_are_requested_by_number_up_to_the_limit() {
    let answers = [
        page((0..100).map(|n| merged(999 - n)), true),
        page((0..100).map(|n| merged(899 - n)), true),
    ];
    let server = Server::answering(answers).await;
    let text = server.text("github_list_prs", r#"{"limit": 150}"#).await;
    assert!(text.contains("Found 150 pull request(s):"), "{text}");
    assert_eq!(
        server.asked(),
        [
            "GET /repos/octocat/hello-world/pulls?state=open&per_page=100&page=1",
            "GET /repos/octocat/hello-world/pulls?state=open&per_page=100&page=2",
        ]
    );
}

#[tokio::test]
async fn after_a_full_page_without_a_link_header_the_next_page_is_requested() {
    let full = Answer::json(json!((1..=100).map(issue).collect::<Vec<_>>()).to_string());
    let server = Server::answering([full, Answer::json("[]")]).await;
    let text = server.text("github_list_issues", r#"{"limit": 101}"#).await;
    assert!(text.contains("Found 100 issue(s):"), "{text}");
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn a_list_of_more_than_20_pages_is_cut_with_a_note() {
    let fresh = (0..20).map(|n| page([pull_request(n + 1)], true));
    let server = Server::answering(fresh).await;
    let output = call(&server.github(), "github_list_prs", r#"{"state": "merged"}"#).await.unwrap();
    assert_eq!(
        output.text,
        "No pull requests found\n(The list was too long to read to its end. Narrow the request to see the rest.)"
    );
    assert_eq!(output.value().unwrap().unwrap()["complete"], false);
    assert_eq!(server.asked().len(), 20);

    // A page without new items is the last one.
    let server = Server::answering([page([issue(1)], true)]).await;
    assert!(server.text("github_list_issues", "{}").await.contains("Found 1 issue(s):"));
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn pull_requests_of_an_author_are_found_by_search() {
    let found = json!({"total_count": 1, "incomplete_results": false, "items": [{"number": 3}]});
    let answers = [
        json!({"login": "octocat"}),
        found.clone(),
        merged(3),
        found.clone(),
        merged(3),
        found,
        merged(3),
    ];
    let server = Server::answering(answers.map(|answer| Answer::json(answer.to_string()))).await;
    let me = r#"{"author": "@me", "state": "merged", "base": "main"}"#;
    let text = server.text("github_list_prs", me).await;
    assert!(text.contains("#3: Change 3 (merged)\n  topic → main\n"), "{text}");
    server.text("github_list_prs", r#"{"author": "dependabot[bot]", "state": "all"}"#).await;
    server
        .text("github_list_prs", r#"{"author": "app/dependabot", "state": "closed", "limit": 100}"#)
        .await;
    insta::assert_snapshot!(server.asked().join("\n"), @"
    GET /user
    GET /search/issues?q=repo%3Aoctocat%2Fhello-world+is%3Apr+author%3Aoctocat+is%3Amerged+base%3A%22main%22&sort=created&order=desc&per_page=20&page=1
    GET /repos/octocat/hello-world/pulls/3
    GET /search/issues?q=repo%3Aoctocat%2Fhello-world+is%3Apr+author%3Aapp%2Fdependabot&sort=created&order=desc&per_page=20&page=1
    GET /repos/octocat/hello-world/pulls/3
    GET /search/issues?q=repo%3Aoctocat%2Fhello-world+is%3Apr+author%3Aapp%2Fdependabot+is%3Aclosed&sort=created&order=desc&per_page=100&page=1
    GET /repos/octocat/hello-world/pulls/3
    ");
}

#[tokio::test]
async fn an_incomplete_search_result_has_a_note() {
    let found = json!({"total_count": 0, "incomplete_results": true, "items": []});
    let text = said(Answer::json(found.to_string()), "github_list_prs", r#"{"author": "kate"}"#);
    assert!(text.await.starts_with("No pull requests found\n(The list was too long"));
}

#[tokio::test]
async fn missing_fields_null_and_unknown_words_are_accepted() {
    let odd = json!([
        {"number": 1},
        {"number": 2, "title": null, "state": "dormant", "labels": null, "assignees": null, "html_url": null, "body": null, "new": [{}]},
        {"number": 3, "title": "a\r\nb\tc", "state": "open", "labels": ["plain", {"name": null}, 7, {"name": "x"}], "assignees": [null, {"login": "kate"}]},
    ]);
    insta::assert_snapshot!(said(Answer::json(odd.to_string()), "github_list_issues", "{}").await, @"
    <untrusted_data>
    Found 3 issue(s):
    #1:  (unknown)
      URL: 

    #2:  (dormant)
      URL: 

    #3: a b c (open)
      Labels: plain, x
      Assignees: kate
      URL: 

    </untrusted_data>
    ");
    for (mergeable, expected) in [
        (json!(true), "Yes"),
        (json!(false), "No"),
        (json!(null), "Unknown"),
        (json!("MERGEABLE"), "Yes"),
        (json!("CONFLICTING"), "No"),
        (json!("UNKNOWN"), "Unknown"),
        (json!("SOMETHING_NEW"), "Unknown"),
        (json!({"a": 1}), "Unknown"),
    ] {
        let reply = json!({"number": 1, "mergeable": mergeable, "merged": null, "head": null});
        let text =
            said(Answer::json(reply.to_string()), "github_get_pr", r#"{"pr_number": 1}"#).await;
        assert!(text.contains(&format!("\nMergeable: {expected}\n")), "{mergeable}: {text}");
        assert!(text.contains("\nBranch: unknown → unknown\n"), "{text}");
    }
}

/// The number is the only required field.
#[tokio::test]
async fn any_one_field_may_be_missing_or_null() {
    let mut whole = merged(3);
    for (name, value) in issue(3).as_object().unwrap() {
        whole[name] = value.clone();
    }
    let mut replies = Vec::new();
    for name in whole.as_object().unwrap().keys().filter(|name| *name != "number") {
        let (mut without, mut null) = (whole.clone(), whole.clone());
        without.as_object_mut().unwrap().remove(name);
        null[name] = Value::Null;
        replies.extend([without, null]);
    }
    assert_eq!(replies.len(), 20);
    let both = replies.iter().flat_map(|reply| [reply.clone(), json!([reply])]);
    let server = Server::answering(both.map(|reply| Answer::json(reply.to_string()))).await;
    for _ in &replies {
        assert!(server.text("github_get_pr", r#"{"pr_number": 3}"#).await.contains("Request #3: "));
        assert!(server.text("github_list_issues", "{}").await.contains("Found 1 issue(s):\n#3: "));
    }
}

#[tokio::test]
async fn a_response_without_a_body_has_a_note_with_the_status() {
    let text = said(
        Answer::bytes("HTTP/1.1 204 No Content\r\n\r\n"),
        "github_api_request",
        r#"{"endpoint": "user/starred/a/b"}"#,
    );
    assert_eq!(text.await, "(Status 204, no body.)");
}

#[tokio::test]
async fn the_redirect_of_a_renamed_repository_is_followed() {
    let server = Server::answering([
        Answer::redirect(301, "/repositories/7/issues/2"),
        Answer::json(issue(2).to_string()),
    ])
    .await;
    server.text("github_get_issue", r#"{"issue_number": 2}"#).await;
    assert_eq!(
        server.asked(),
        ["GET /repos/octocat/hello-world/issues/2", "GET /repositories/7/issues/2"]
    );
}

#[tokio::test]
async fn requests_and_redirects_of_an_enterprise_server_stay_below_its_base_url() {
    let server = Server::answering([Answer::json("{}"), Answer::redirect(302, "/login")]).await;
    let github = server.github().with_base_url(&format!("{}/api/v3/", server.url)).unwrap();
    let zen = r#"{"endpoint": "zen"}"#;
    call(&github, "github_api_request", zen).await.unwrap();
    // The same host, but not the API.
    let error = call(&github, "github_api_request", zen).await.err().unwrap();
    assert!(error.for_model().contains("redirects this request to another address"), "{error}");
    assert_eq!(server.asked(), ["GET /api/v3/zen", "GET /api/v3/zen"]);
}

#[tokio::test]
async fn a_request_is_retried_after_the_pause_of_a_rate_limit() {
    let pause = |status, headers: &str| Answer::new(status, headers, r#"{"message": "Slow down"}"#);
    let server = Server::answering([
        pause(429, "retry-after: 0\r\n"),
        pause(403, "retry-after: 0\r\n"),
        Answer::json("[]"),
    ])
    .await;
    assert_eq!(server.text("github_list_issues", "{}").await, "No issues found");
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn a_request_is_retried_after_a_failure_of_github() {
    for status in [408, 425, 502] {
        let server = Server::answering([Answer::failed(status, "x"), Answer::json("[]")]).await;
        assert_eq!(server.text("github_list_issues", "{}").await, "No issues found");
        assert_eq!(server.asked().len(), 2);
    }
}

#[tokio::test]
async fn a_pause_until_a_date_is_read() {
    let over = "retry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let server = Server::answering([Answer::new(429, over, ""), Answer::json("[]")]).await;
    assert_eq!(server.text("github_list_issues", "{}").await, "No issues found");
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn a_cancelled_call_ends_without_waiting() {
    let server = Server::answering([Answer::bytes("").then_hang()]).await;
    let cancellation = Cancellation::default();
    let cx = Context::default().with_cancellation(cancellation.clone());
    let tool = support::tool(&server.github(), "github_list_issues");
    let (result, ()) = tokio::join!(tool.call("{}", &cx), async {
        while server.heads().is_empty() {
            tokio::task::yield_now().await;
        }
        cancellation.cancel();
    });
    assert_eq!(result.err().unwrap().stage(), Stage::Cancelled);
}

#[tokio::test]
async fn no_output_error_or_debug_text_shows_the_token() {
    let echo = json!({"message": format!("bad token {TOKEN}")}).to_string();
    let escaped = echo.replace("ghp_secret", r"ghp\u005fsecret");
    let server = Server::answering([
        Answer::new(401, "", echo.clone()),
        Answer::new(401, "", escaped.clone()),
        Answer::json(echo),
        Answer::json(escaped),
        Answer::new(200, "content-type: text/html\r\n", format!("<html>{TOKEN}")),
    ])
    .await;
    let mut shown = format!("{:?} {:#?}", server.github(), server.github());
    for _ in 0..5 {
        let zen = r#"{"endpoint": "zen"}"#;
        match call(&server.github(), "github_api_request", zen).await {
            Ok(output) => shown += &format!("{} {:?}", output.text, output.value().unwrap()),
            Err(error) => shown += &format!("{error} {error:?} {}", error.for_model()),
        }
    }
    assert!(!shown.contains("secretOfTheTests"), "{shown}");
    assert!(shown.contains("[token]"), "{shown}");
    for wrong in ["", " ", "a\nb", "a b", "ü"] {
        let error = GitHub::new().unwrap().with_token(wrong).unwrap_err();
        assert!(error.to_string().contains("the token is empty"), "{error}");
    }
}

/// The test below runs this one in a process with other environment variables.
#[test]
fn child() {
    if env::var_os("TOOLWRIGHT_TEST_CHILD").is_none() {
        return;
    }
    match GitHub::from_env() {
        Ok(github) => println!("[{github:?}]"),
        Err(error) => println!("[{error}]"),
    }
}

fn in_environment(variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "tools::child", "--nocapture"]).env("TOOLWRIGHT_TEST_CHILD", "1");
    command.env_remove("GH_TOKEN").env_remove("GITHUB_TOKEN");
    command.envs(variables.iter().copied());
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let said = output.split_once('[').and_then(|(_, rest)| rest.rsplit_once(']'));
    said.unwrap().0.to_owned()
}

#[test]
fn the_token_is_read_from_the_environment() {
    let there = r#"GitHub { base_url: "https://api.github.com/", token: true, repo: None, .. }"#;
    assert_eq!(in_environment(&[("GITHUB_TOKEN", TOKEN)]), there);
    assert_eq!(in_environment(&[("GH_TOKEN", TOKEN), ("GITHUB_TOKEN", "a b")]), there);
    assert_eq!(in_environment(&[("GH_TOKEN", " "), ("GITHUB_TOKEN", "ghp_a\n")]), there);
    let missing =
        "there is no token: set GH_TOKEN or GITHUB_TOKEN, or use `GitHub::new` to read public data";
    assert_eq!(in_environment(&[]), missing);
    assert_eq!(in_environment(&[("GH_TOKEN", "")]), missing);
    let wrong = in_environment(&[("GH_TOKEN", "ghp_a\nb")]);
    assert!(wrong.starts_with("the token is empty or contains"), "{wrong}");
}

#[test]
fn an_invalid_base_url_is_rejected_without_showing_it() {
    let github = || GitHub::new().unwrap().with_token(TOKEN).unwrap();
    for (wrong, why) in [
        ("github.com", "not a URL"),
        ("ftp://github.com", "does not begin with"),
        ("https://me:key@github.com", "a user name or a password"),
        ("https://github.com?a=b", "`?` or `#`"),
        ("http://github.example.com", "not sent over http"),
    ] {
        let error = github().with_base_url(wrong).unwrap_err().to_string();
        assert!(error.contains(why) && !error.contains("key"), "{error}");
    }
    github().with_base_url("http://localhost:1").unwrap();
    github().with_base_url("http://[::ffff:127.0.0.1]:1").unwrap();
    let open = GitHub::new().unwrap().with_base_url("http://github.example.com").unwrap();
    assert!(open.with_token(TOKEN).is_err());
}
