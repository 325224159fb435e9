//! The page of `serve`: its headers, who may ask, and the recorded task over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{program, run};

const TASK: &str = "Store the key color with value blue, then retrieve it.";

/// The command, which ends with the test.
struct Page {
    child: Child,
    /// Host and port.
    host: String,
    url: String,
}

struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Response {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Page {
    fn start(journal: Option<&Path>, arguments: &[&str]) -> Self {
        let mut command = program("serve");
        command.args(["--http", "0"]).args(arguments).stderr(Stdio::piped());
        match journal {
            None => command.arg("--no-journal"),
            Some(folder) => command.arg("--journal").arg(folder),
        };
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let (mut line, mut all) = (String::new(), String::new());
        let url = loop {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "the command has ended: {all}");
            all.push_str(&line);
            if let Some(url) = line.trim_end().strip_prefix("at ") {
                break url.to_owned();
            }
        };
        // A full pipe would stop the command.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let host = url.split('/').nth(2).unwrap().to_owned();
        Self { child, host, url }
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut request = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            request.push_str(&format!("host: {}\r\n", self.host));
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            request.push_str("content-type: application/json\r\n");
        }
        request.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Response { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        self.send("GET", path, headers, "")
    }

    /// Says something, and returns the updates of the run.
    fn say(&self, conversation: &str, text: &str) -> Vec<Value> {
        let body = json!({"conversation": conversation, "text": text}).to_string();
        let response = self.send("POST", "/api/messages", &[], &body);
        assert_eq!(response.status, 200, "{}", response.body);
        let data = response.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn without_a_key_the_recorded_task_is_answered_as_often_as_it_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let page = Page::start(Some(folder.path()), &["--offline"]);
    let about: Value = serde_json::from_str(&page.get("/about", &[]).body).unwrap();
    assert_eq!(about["only_task"], TASK);
    for conversation in ["c1", "c2"] {
        let updates = page.say(conversation, TASK);
        let kinds: Vec<_> =
            updates.iter().map(|update| update["update"].as_str().unwrap()).collect();
        assert_eq!(kinds.iter().filter(|kind| **kind == "result").count(), 2, "{kinds:?}");
        assert_eq!(kinds.last(), Some(&"done"), "{updates:#?}");
        assert_eq!(
            updates.last().unwrap()["answer"],
            r#""I stored the key color. Its value is blue.""#
        );
    }
    let updates = page.say("c1", "Something else.");
    let stopped = updates.last().unwrap();
    assert_eq!(stopped["update"], "stopped");
    assert!(stopped["reason"].as_str().unwrap().contains("set OPENAI_API_KEY"), "{stopped}");

    // Each run has a page.
    let run = updates[0]["run"].as_str().unwrap();
    let shown = page.get(&format!("/runs/{}/page", run.replace(':', "%3A")), &[]);
    assert_eq!(shown.status, 200);
    assert!(shown.body.contains("Something else."));
    assert!(shown.header("content-security-policy").unwrap().contains("frame-ancestors 'none'"));
    assert_eq!(page.get("/runs/nobody/page", &[]).status, 404);
    let others: Value = serde_json::from_str(&page.get("/others", &[]).body).unwrap();
    assert_eq!(others, json!({"runs": []}));
}

#[test]
fn other_tools_have_no_recorded_task() {
    let ran =
        run(program("serve").args(["--offline", "--no-journal", "--http", "0", "--tools", "text"]));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("choose a model"), "{}", ran.stderr);
}

#[test]
fn the_page_lets_nothing_but_itself_run() {
    let page = Page::start(None, &["--offline"]);
    let shown = page.get("/", &[]);
    assert_eq!(shown.status, 200);
    let policy = shown.header("content-security-policy").unwrap();
    for part in [
        "default-src 'none'",
        "script-src 'sha256-",
        "style-src 'sha256-",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(shown.header(name), Some(value), "{name}");
    }
    let conversations = page.get("/api/conversations", &[]);
    assert!(
        conversations.header("content-security-policy").unwrap().contains("default-src 'none'")
    );
}

#[test]
fn pages_of_strangers_are_refused() {
    let page = Page::start(None, &["--offline", "--host", "box.example"]);
    let (own, port) = (format!("http://{}", page.host), page.host.split(':').nth(1).unwrap());
    let body = json!({"conversation": "c1", "text": TASK}).to_string();
    let send = |headers: &[(&str, &str)]| page.send("POST", "/api/messages", headers, &body).status;
    // DNS rebinding: the name leads to this machine, and the origin is that of the page.
    let rebound = format!("evil.example:{port}");
    let of_rebound = format!("http://{rebound}");
    assert_eq!(send(&[("host", &rebound), ("origin", &of_rebound)]), 421);
    assert_eq!(send(&[("origin", "http://evil.example")]), 403);
    assert_eq!(send(&[("origin", "null")]), 403);
    assert_eq!(send(&[("origin", "http://localhost:3000")]), 403);
    assert_eq!(page.get("/api/conversations", &[("sec-fetch-site", "cross-site")]).status, 403);
    let listed = page.get("/api/conversations", &[]).body;
    assert_eq!(listed, r#"{"conversations":[]}"#);
    assert_eq!(send(&[("origin", &own)]), 200);
    let named = format!("box.example:{port}");
    let of_named = format!("https://{named}");
    assert_eq!(send(&[("host", &named), ("origin", &of_named)]), 200);
}

#[test]
fn with_a_token_only_its_cookie_opens_the_page() {
    let page = Page::start(None, &["--offline", "--token"]);
    let (_, token) = page.url.split_once("/?token=").unwrap();
    for path in ["/", "/about", "/api/conversations", "/runs/a/page", "/nothing"] {
        assert_eq!(page.get(path, &[]).status, 401, "{path}");
    }
    assert_eq!(page.get(&format!("/api/conversations?token={token}"), &[]).status, 401);
    let opened = page.get(&format!("/?token={token}"), &[]);
    assert_eq!(opened.status, 200);
    let cookie = opened.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    assert_eq!(page.get("/api/conversations", &[("cookie", cookie)]).status, 200);
    let wrong = format!("{}0", &cookie[..cookie.len() - 1]);
    let is_same = wrong == cookie;
    assert!(is_same || page.get("/about", &[("cookie", &wrong)]).status == 401);
}

#[test]
fn it_prints_no_json() {
    let ran = run(program("serve").args(["--json", "--offline", "--no-journal"]));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("leave out --json"), "{}", ran.stdout);
}
