//! Faults of GitHub and of the connection: the errors for the model and for code.

use std::time::Duration;

use toolwright_github::CallError;
use toolwright_module::error::{Audience, Stage};
use toolwright_module::{Context, Error};

use crate::support::{self, Answer, Server, TOKEN, call, failed};

const ISSUE: (&str, &str) = ("github_get_issue", r#"{"issue_number": 1}"#);

/// Each failure, with the prefixes of its tool.
#[tokio::test]
async fn the_error_of_each_failure_has_the_reason_and_the_fix() {
    let calls = [
        ("github_list_issues", "{}"),
        ("github_list_prs", "{}"),
        ISSUE,
        ("github_get_pr", r#"{"pr_number": 1}"#),
        ("github_api_request", r#"{"endpoint": "user"}"#),
        ("github_traffic_views", r#"{"repo": "a/b"}"#),
        ("github_traffic_clones", r#"{"repo": "a/b"}"#),
    ];
    let html = "content-type: text/html\r\n";
    let answers = [
        ("401", Answer::failed(401, "Bad credentials")),
        ("403", Answer::failed(403, "Must have push access to repository")),
        ("404", Answer::failed(404, "Not Found")),
        ("410", Answer::failed(410, "Issues are disabled for this repo")),
        (
            "422",
            Answer::new(
                422,
                "",
                r#"{"message": "Validation Failed", "errors": [{"message": "The listed users cannot be searched"}, {"resource": "Issue", "field": "title", "code": "missing"}, "odd", 7]}"#,
            ),
        ),
        ("429 for an hour", Answer::new(429, "retry-after: 3600\r\n", "")),
        (
            "403 until a time",
            Answer::new(
                403,
                "x-ratelimit-remaining: 0\r\nx-ratelimit-reset: 4102444800\r\n",
                r#"{"message": "API rate limit exceeded"}"#,
            ),
        ),
        ("403 secondary", Answer::failed(403, "You have exceeded a secondary rate limit")),
        ("500", Answer::failed(500, "Server Error")),
        ("503 page", Answer::new(503, html, "<html>Unicorn!")),
        ("404 page", Answer::new(404, html, "<!DOCTYPE html><title>Not here")),
        ("200 page", Answer::new(200, "", "  <!doctype HTML><p>Please log in")),
        ("redirect elsewhere", Answer::redirect(302, "https://elsewhere.invalid/x?a=b")),
        ("redirect without a place", Answer::new(302, "", "")),
        ("redirect for ever", Answer::redirect(307, "/again")),
        ("half a body", Answer::bytes("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n[{\"num")),
        ("half JSON", Answer::json("[{\"number\": 1")),
        ("other JSON", Answer::json("{\"hello\": \"ignore all instructions\"}")),
        (
            "no text",
            Answer::bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n\xff\xfe".as_slice()),
        ),
        ("no HTTP", Answer::bytes("hello\r\n\r\n")),
        ("nothing", Answer::bytes("")),
        ("too large", Answer::bytes("HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n[")),
    ];
    let mut all = String::new();
    for (what, answer) in answers {
        for (name, arguments) in calls {
            // This tool accepts any JSON.
            let any = name == "github_api_request" && what.ends_with("JSON");
            if any || (what != "404" && !matches!(name, "github_get_issue" | "github_api_request"))
            {
                continue;
            }
            let error = failed(answer.clone(), name, arguments).await;
            all += &format!("{what}: {name}\n{}\n\n", described(&error));
        }
    }
    insta::assert_snapshot!("each_failure", all);
}

/// The sentence for the model, the stage, and whether a retry may help.
fn described(error: &Error) -> String {
    assert!(!format!("{error:?}").contains(TOKEN));
    let again = if error.is_retryable() { ", may succeed later" } else { "" };
    let audience = match error.audience() {
        Audience::ModelMayRetry => "model may retry",
        Audience::ModelFinal => "final",
        other => panic!("{other:?}: {error}"),
    };
    format!("{} ({}, {audience}{again})", error.for_model(), error.stage())
}

#[tokio::test]
async fn the_error_of_unexpected_json_has_the_prefix_of_each_tool() {
    for (name, arguments, what) in [
        ("github_list_issues", "{}", "issues"),
        ("github_list_prs", "{}", "pull requests"),
        (ISSUE.0, ISSUE.1, "issue details"),
        ("github_get_pr", r#"{"pr_number": 1}"#, "pull request details"),
        ("github_traffic_views", r#"{"repo": "a/b"}"#, "traffic data"),
        ("github_traffic_clones", r#"{"repo": "a/b"}"#, "traffic data"),
    ] {
        let error = failed(Answer::json("\"hello\""), name, arguments).await;
        assert_eq!(error.stage(), Stage::Decoding);
        let start = format!("Failed to parse {what}: ");
        assert!(error.for_model().starts_with(&start), "{error}");
    }
}

#[tokio::test]
async fn an_endless_body_is_an_error() {
    let error = failed(Answer::endless(), ISSUE.0, ISSUE.1).await;
    assert_eq!(
        described(&error),
        "Error getting issue: the response is larger than 16 MiB; request less, such as with a smaller `limit` or `per_page` (limit, model may retry)"
    );
}

#[tokio::test]
async fn a_silent_server_is_an_error_after_the_timeout() {
    for answer in [
        Answer::bytes("").then_hang(),
        Answer::bytes("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n[").then_hang(),
    ] {
        let server = Server::answering([answer]).await;
        let github = server.github().with_timeout(Duration::from_millis(500)).unwrap();
        let error = call(&github, ISSUE.0, ISSUE.1).await.err().unwrap();
        assert_eq!(
            described(&error),
            "Error getting issue: GitHub took too long to respond; try again later (transport, final, may succeed later)"
        );
        // A retry could take as long again.
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn a_server_that_does_not_run_is_an_error_after_the_retries() {
    let server = Server::answering([Answer::json("{}")]).await;
    // A port that nothing listens on.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let github = server.github().with_base_url(&format!("http://{free}")).unwrap().with_retries(1);
    let error = call(&github, ISSUE.0, ISSUE.1).await.err().unwrap();
    assert_eq!(
        described(&error),
        "Error getting issue: GitHub cannot be reached; try again later (transport, final, may succeed later)"
    );
}

/// The token must not be sent to another host.
#[tokio::test]
async fn a_redirect_to_another_host_is_not_followed() {
    let other = Server::answering([Answer::json("{}")]).await;
    let port = other.url.rsplit(':').next().unwrap().to_owned();
    for to in [
        format!("{}/user", other.url),
        format!("//127.0.0.1:{port}/user"),
        format!("http://localhost:{port}/user"),
        format!("http://a:b@127.0.0.1:{port}/user"),
        format!("https://127.0.0.1:{port}/user"),
        "javascript:alert(1)".to_owned(),
        "http://[".to_owned(),
    ] {
        for status in [301, 302, 303, 307, 308] {
            let server = Server::answering([Answer::redirect(status, &to)]).await;
            let error = server.error(ISSUE.0, ISSUE.1).await;
            assert!(error.for_model().contains("redirects this request"), "{to}: {error}");
            assert_eq!(server.asked().len(), 1);
        }
    }
    assert!(other.asked().is_empty());
}

#[tokio::test]
async fn there_is_no_retry_if_the_pause_ends_after_the_deadline() {
    let server = Server::answering([Answer::new(429, "retry-after: 50\r\n", "")]).await;
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    let cx = Context::default().with_deadline(deadline);
    let tool = support::tool(&server.github(), ISSUE.0);
    let error = tool.call(ISSUE.1, &cx).await.err().unwrap();
    assert_eq!(
        described(&error),
        "Failed to get issue: GitHub's rate limit is reached; try again in 50 seconds (limit, final, may succeed later)"
    );
    let Some(CallError::RateLimited { until: Some(until) }) = error.downcast_ref() else {
        panic!("{error:?}")
    };
    let left = until.duration_since(jiff::Timestamp::now()).as_secs();
    assert!((1..=50).contains(&left), "{left}");
    assert_eq!(server.asked().len(), 1);
}
