//! Every request against GitHub's OpenAPI description, and every documented reply.
//!
//! `tests/openapi.sh` runs it with a mock server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toolwright_github::GitHub;
use toolwright_module::error::{Audience, Stage};
use toolwright_module::{Result, ToolOutput};

use crate::support::{self, TOKEN, call};

/// A proxy in front of the mock. It keeps the requests and selects the replies.
struct Proxy {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
    wanted: Arc<Mutex<Wanted>>,
}

#[derive(Clone, Default)]
struct Wanted {
    /// The value of the header `prefer`.
    prefer: Option<String>,
    /// Whether to change replies: GitHub's example of an issue is a pull request, and the
    /// description allows negative numbers.
    as_issues: bool,
}

impl Proxy {
    async fn before(mock: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (seen, wanted) = (Arc::new(Mutex::default()), Arc::new(Mutex::default()));
        let proxy = Self { url, seen: Arc::clone(&seen), wanted: Arc::clone(&wanted) };
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let wanted: Wanted = wanted.lock().unwrap().clone();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    assert!(socket.read_buf(&mut head).await.unwrap() > 0);
                }
                let head = String::from_utf8(head).unwrap();
                seen.lock().unwrap().push(head.lines().next().unwrap().to_owned());
                let prefer = wanted.prefer.map(|value| format!("prefer: {value}\r\n"));
                let more = format!("connection: close\r\n{}\r\n", prefer.unwrap_or_default());
                let mut server = TcpStream::connect(&mock).await.unwrap();
                let head = head.trim_end().to_owned() + "\r\n" + &more;
                server.write_all(head.as_bytes()).await.unwrap();
                let mut reply = Vec::new();
                server.read_to_end(&mut reply).await.unwrap();
                if wanted.as_issues {
                    let text = String::from_utf8(reply).unwrap();
                    let text = text.replace("\"pull_request\":", "\"pull-request\":");
                    reply = text.replace("\":-", "\": ").into_bytes();
                }
                socket.write_all(&reply).await.unwrap();
                let _ = socket.shutdown().await;
            }
        });
        proxy
    }

    fn want(&self, prefer: Option<&str>, as_issues: bool) {
        *self.wanted.lock().unwrap() = Wanted { prefer: prefer.map(str::to_owned), as_issues };
    }
}

/// The query parameters of each path in the description.
struct Described(BTreeMap<String, Vec<String>>);

impl Described {
    fn check(&self, first: &str) {
        let target = first.strip_prefix("GET ").and_then(|rest| rest.strip_suffix(" HTTP/1.1"));
        let (path, query) = target.unwrap().split_once('?').unwrap_or((target.unwrap(), ""));
        let described: Vec<_> = self.0.iter().filter(|(known, _)| fits(known, path)).collect();
        assert!(!described.is_empty(), "{path} is not described");
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap();
            assert!(!value.is_empty(), "{first}");
            let known = described.iter().any(|(_, names)| names.iter().any(|known| known == name));
            assert!(known, "{first}: `{name}` is not described");
        }
    }
}

fn fits(known: &str, path: &str) -> bool {
    let (mut known, mut path) = (known.split('/'), path.split('/'));
    loop {
        match (known.next(), path.next()) {
            (None, None) => return true,
            (Some(known), Some(part)) if known == part || known.contains('{') => {}
            _ => return false,
        }
    }
}

/// Every combination of these values. Null leaves the argument out.
fn combinations(arguments: &[(&str, &[Value])]) -> Vec<Value> {
    let mut all = vec![json!({})];
    for (name, values) in arguments {
        let with = |one: &Value, value: &Value| {
            let mut one = one.clone();
            if !value.is_null() {
                one[*name] = value.clone();
            }
            one
        };
        all = all.iter().flat_map(|one| values.iter().map(move |value| with(one, value))).collect();
    }
    all
}

fn calls() -> Vec<(&'static str, Value)> {
    let null = Value::Null;
    let repo = [null.clone(), json!("a/b.c")];
    let mut calls = Vec::new();
    let mut add = |name, arguments: &[(&str, &[Value])]| {
        calls.extend(combinations(arguments).into_iter().map(|arguments| (name, arguments)));
    };
    add(
        "github_list_issues",
        &[
            ("state", &[null.clone(), json!("open"), json!("closed"), json!("all")]),
            ("labels", &[null.clone(), json!([]), json!(["bug"]), json!(["bug", "help wanted"])]),
            (
                "assignee",
                &[
                    null.clone(),
                    json!("kate"),
                    json!("none"),
                    json!("*"),
                    json!("@me"),
                    json!("a[bot]"),
                ],
            ),
            ("limit", &[null.clone(), json!(1), json!(1000)]),
            ("repo", &repo),
        ],
    );
    add(
        "github_list_prs",
        &[
            (
                "state",
                &[null.clone(), json!("open"), json!("closed"), json!("merged"), json!("all")],
            ),
            ("author", &[null.clone(), json!("kate"), json!("@me"), json!("app/a")]),
            ("base", &[null.clone(), json!("main"), json!("feature/ü")]),
            ("limit", &[null.clone(), json!(1), json!(100)]),
            ("repo", &repo),
        ],
    );
    add("github_list_prs", &[("limit", &[json!(1000)])]);
    add("github_get_issue", &[("issue_number", &[json!(1), json!(1347)]), ("repo", &repo)]);
    add("github_get_pr", &[("pr_number", &[json!(1), json!(1347)]), ("repo", &repo)]);
    let per = [null.clone(), json!("day"), json!("week")];
    add("github_traffic_views", &[("repo", &[json!("a/b")]), ("per", &per)]);
    add("github_traffic_clones", &[("repo", &[json!("a/b")]), ("per", &per)]);
    add(
        "github_api_request",
        &[
            (
                "endpoint",
                &[json!("/repos/{owner}/{repo}/issues"), json!("repos/{owner}/{repo}/pulls")],
            ),
            ("method", &[null.clone(), json!("GET"), json!("get")]),
            (
                "fields",
                &[
                    null,
                    json!({}),
                    json!({"state": "all", "per_page": "5"}),
                    json!([{"key": "page", "value": "2"}]),
                ],
            ),
            ("repo", &repo),
        ],
    );
    calls
}

/// The required parameters of a path.
fn required(path: &str) -> Value {
    match path {
        "/search/labels" => json!({"q": "a", "repository_id": "1"}),
        _ if path.starts_with("/search/") => json!({"q": "a"}),
        _ if path.ends_with("-1-day") => json!({"day": "2026-01-01"}),
        _ if path.contains("/insights/api/time-stats") => {
            json!({"min_timestamp": "2026-01-01T00:00:00Z", "timestamp_increment": "1d"})
        }
        _ if path.contains("/insights/api/") => json!({"min_timestamp": "2026-01-01T00:00:00Z"}),
        _ if path.ends_with("/packages") => json!({"package_type": "npm"}),
        _ if path.ends_with("/permissions_check") => json!({"ref": "a", "devcontainer_path": "a"}),
        _ => json!({}),
    }
}

/// A valid value for a placeholder in a path.
fn part(part: &str) -> String {
    match part {
        "{package_type}" => "npm".to_owned(),
        "{actor_type}" => "oauth_app".to_owned(),
        "{version}" => "1.0.0".to_owned(),
        "{subject_digest}" => format!("sha256:{}", "0".repeat(64)),
        "{workflow_id}" | "{pages_deployment_id}" => "a.yml".to_owned(),
        _ if part.contains('{') => "1".to_owned(),
        _ => part.to_owned(),
    }
}

async fn ask(github: &GitHub, name: &str, arguments: &Value) -> Result<ToolOutput> {
    call(github, name, &arguments.to_string()).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "heavy: needs a mock of GitHub's description; run tests/openapi.sh"]
async fn every_request_is_in_the_description_and_every_documented_reply_is_read() {
    let mock = std::env::var("GITHUB_MOCK").expect("GITHUB_MOCK=127.0.0.1:PORT");
    let described =
        std::env::var("GITHUB_MOCK_PARAMS").expect("GITHUB_MOCK_PARAMS=query-params.json");
    let described = std::fs::read_to_string(described).unwrap();
    let described = Described(serde_json::from_str(&described).unwrap());
    let proxy = Proxy::before(mock).await;
    let github = GitHub::new().unwrap().with_base_url(&proxy.url).unwrap();
    let github = github.with_token(TOKEN).unwrap().with_repo("octocat/hello-world").unwrap();
    let github = github.with_retries(0);

    let calls = calls();
    for as_issues in [false, true] {
        proxy.want(None, as_issues);
        for (name, arguments) in &calls {
            match ask(&github, name, arguments).await {
                Ok(output) => {
                    let tool = support::tool(&github, name);
                    let schema = tool.contract().output_to_write().unwrap();
                    let validator = jsonschema::validator_for(schema).unwrap();
                    assert!(validator.is_valid(&output.value().unwrap().unwrap()));
                }
                Err(error) => {
                    let text = error.for_model();
                    assert!(
                        !as_issues && text.ends_with("use the tool for pull requests"),
                        "{arguments}: {error:#}"
                    );
                }
            }
        }
    }
    let requests = proxy.seen.lock().unwrap().clone();
    requests.iter().for_each(|first| described.check(first));
    println!("{} calls, {} requests, all in the description", 2 * calls.len(), requests.len());

    // One call of each tool, with every documented reply.
    let mut first: BTreeMap<_, _> = calls.iter().rev().map(|(name, call)| (*name, call)).collect();
    let by_author = json!({"author": "kate"});
    let mut cases: Vec<_> = first.iter().map(|(name, call)| (*name, *call)).collect();
    cases.push(("github_list_prs", &by_author));
    first.clear();
    let (mut failures, mut texts) = (0, BTreeMap::<String, u32>::new());
    for code in [301, 304, 401, 403, 404, 410, 422, 500, 503] {
        proxy.want(Some(&format!("code={code}")), false);
        for (name, arguments) in &cases {
            let error = ask(&github, name, arguments).await.err().unwrap();
            assert!(matches!(error.audience(), Audience::ModelMayRetry | Audience::ModelFinal));
            assert!(matches!(error.stage(), Stage::Provider | Stage::Limit), "{error:#}");
            failures += 1;
            *texts.entry(error.for_model().into_owned()).or_default() += 1;
        }
    }
    println!("{failures} failures, each an error for the model");
    texts.iter().for_each(|(text, count)| println!("{count}x {text}"));

    let mut generated = 0;
    proxy.want(Some("dynamic=true"), true);
    for _ in 0..50 {
        for (name, arguments) in &cases {
            let result = ask(&github, name, arguments).await;
            assert!(result.is_ok(), "{name}: {:#}", result.err().unwrap());
            generated += 1;
        }
    }
    println!("{generated} replies of generated data, each read");

    // Any path of the API: data, or a redirect to a server of files.
    proxy.want(None, false);
    let mut outcomes = BTreeMap::<String, u32>::new();
    for path in described.0.keys().filter(|path| *path != "/") {
        let endpoint: Vec<_> = path.split('/').map(part).collect();
        let arguments = json!({"endpoint": endpoint.join("/"), "fields": required(path)});
        let end = match ask(&github, "github_api_request", &arguments).await {
            Ok(output) => format!("status {}", output.value().unwrap().unwrap()["status"]),
            Err(error) => {
                let text = error.for_model().into_owned();
                assert!(
                    text.contains("redirects this request to another address"),
                    "{path}: {text}"
                );
                "redirect elsewhere, not followed".to_owned()
            }
        };
        *outcomes.entry(end).or_default() += 1;
    }
    println!("{} paths: {outcomes:?}", outcomes.values().sum::<u32>());
    proxy.seen.lock().unwrap().iter().for_each(|first| described.check(first));
}
