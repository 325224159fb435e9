//! Servers with the faults that servers have.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod support;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use support::{cause, example};
use tempfile::TempDir;
use toolwright_mcp::{McpClient, McpClientBuilder, McpError};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::message::Image;
use toolwright_module::{Cancellation, Context, Effect, Result, Tool, ToolOutput};

/// An odd server, and what it notes.
struct Odd {
    folder: TempDir,
    mode: &'static str,
}

impl Odd {
    fn new(mode: &'static str) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), mode }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("notes")
    }

    fn client(&self) -> McpClientBuilder {
        McpClient::stdio(example("odd"), [self.mode])
            .with_env("ODD_FILE", self.file())
            .with_start_time(Duration::from_secs(20))
            .with_tool_time(Duration::from_secs(10))
    }

    async fn remote(&self) -> McpClient {
        self.client().connect().await.unwrap()
    }

    /// How often something happened.
    fn times(&self, what: &str) -> usize {
        self.notes().lines().filter(|line| *line == what).count()
    }

    fn notes(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap_or_default()
    }

    /// Waits until it happened.
    async fn until(&self, what: &str) {
        until(|| self.times(what) > 0).await;
    }
}

async fn until(done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "it did not happen");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn named(remote: &McpClient, name: &str) -> Tool {
    remote.tools().into_iter().find(|tool| tool.name() == name).unwrap()
}

async fn call(remote: &McpClient, name: &str, arguments: &str) -> Result<ToolOutput> {
    named(remote, name).call(arguments, &Context::default()).await
}

fn runs(process: &str) -> bool {
    Command::new("kill").args(["-0", process]).output().unwrap().status.success()
}

#[tokio::test]
async fn all_pages_are_read_and_what_is_no_tool_is_left_out() {
    let odd = Odd::new("paged");
    let remote = odd.remote().await;
    let tools = remote.tools();
    let names: Vec<&str> = tools.iter().map(Tool::name).collect();
    assert_eq!(names, ["dotted_name", "no-arguments", "hinted"]);
    let left_out = remote.left_out();
    let told: Vec<String> =
        left_out.iter().map(|(name, error)| format!("{name}: {error}")).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    root-is-a-text: the input schema of `root-is-a-text` cannot be used at $: it is not an object; put the value in a field of a struct
    no-schema: `no-schema` is no tool as its server describes it
    : `` is no tool as its server describes it
    leads-elsewhere: `leads-elsewhere` does not fit mcp at $.at: the reference "https://example.com/at.json" leads nowhere in this schema; put what it means under `$defs`
    "#);
    let pair = tools[0].contract().input();
    insta::assert_snapshot!(pair.to_string(), @r#"{"type":"object","properties":{"at":{"type":"array","prefixItems":[{"type":"number"},{"type":"number"}]}}}"#);
}

#[tokio::test]
async fn lists_without_end_are_refused() {
    for mode in ["endless", "circular", "heavy"] {
        let error = Odd::new(mode).client().connect().await.unwrap_err();
        assert!(matches!(error, McpError::Endless { .. }), "{error}");
    }
}

#[tokio::test]
async fn whoever_has_several_servers_reads_which_of_them_lists_no_tools_that_can_be_used() {
    let mut told = Vec::new();
    for mode in ["twice", "listless", "endless"] {
        told.push(shown(&Odd::new(mode).client().connect().await.unwrap_err()));
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    odd has two tools called `same`, which only the server can mend
    odd did not say what tools it has
    the list of the tools of odd does not end, or is far too long
    ");
}

/// Without the folder of the program.
fn shown(error: &McpError) -> String {
    error.to_string().replace(&example("odd").display().to_string(), "odd")
}

#[tokio::test]
async fn a_server_that_does_not_know_the_new_way_is_begun_with_the_old() {
    for mode in ["", "dying-at-discover", "chatty"] {
        let odd = Odd::new(mode);
        let remote = odd.remote().await;
        assert_eq!(remote.name(), "odd/server");
        assert_eq!(remote.instructions().as_deref(), Some("Handle with care."));
        let said = call(&remote, "echo", r#"{"text": "hello"}"#).await.unwrap();
        assert_eq!(said.text(), "hello");
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_started_says_why() {
    let error = McpClient::stdio("no-such-program", [""; 0]).connect().await.unwrap_err();
    insta::assert_snapshot!(error, @"`no-such-program` could not be started; is it installed, and in the PATH?");
    let error = Odd::new("crashing").client().connect().await.unwrap_err();
    let told = error.to_string();
    assert!(told.ends_with("; it said: no licence for you"), "{told}");
    let patient = Odd::new("paged").client().with_start_time(Duration::ZERO);
    assert!(matches!(patient.connect().await.unwrap_err(), McpError::Late { .. }));
}

#[tokio::test]
async fn a_call_whose_connection_is_lost_is_made_again_only_if_it_may_be() {
    let odd = Odd::new("");
    let remote = odd.remote().await;
    let error = call(&remote, "die", "{}").await.unwrap_err();
    assert!(matches!(cause(&error), McpError::Lost { .. }), "{error:#}");
    assert_eq!((error.stage(), error.audience()), (Stage::Transport, Audience::ModelFinal));
    assert!(error.for_model().contains("Whether it took effect is not known"));
    assert!(!error.is_retryable());
    assert_eq!(odd.times("die"), 1);
    // The next call finds another server.
    assert_eq!(call(&remote, "echo", r#"{"text": "a"}"#).await.unwrap().text(), "a");
    assert_eq!(odd.times("started"), 2);

    for effect in [Effect::Read, Effect::Idempotent] {
        let odd = Odd::new("");
        let remote = odd.client().with_effect("die_once", effect).with_effect("die", effect);
        let remote = remote.connect().await.unwrap();
        assert_eq!(call(&remote, "die_once", "{}").await.unwrap().text(), "alive");
        assert_eq!(odd.times("die_once"), 2);
        let error = call(&remote, "die", "{}").await.unwrap_err();
        assert!(
            matches!(cause(&error), McpError::Lost { .. }) && error.is_retryable(),
            "{error:#}"
        );
        assert_eq!(odd.times("die"), 3);
    }
}

#[tokio::test]
async fn servers_that_nobody_understands_or_that_do_not_listen_end_their_calls() {
    for (mode, name) in [("", "garble"), ("with-a-child", "die"), ("", "ask_and_not_listen")] {
        let odd = Odd::new(mode);
        let remote = odd.remote().await;
        let error = call(&remote, name, "{}").await.unwrap_err();
        assert!(matches!(cause(&error), McpError::Lost { .. }), "{error:#}");
        assert_eq!(call(&remote, "echo", r#"{"text": "a"}"#).await.unwrap().text(), "a");
        assert_eq!((odd.times(name), odd.times("started")), (1, 2));
    }
}

/// No roots are declared: an empty list of them would say that there is a list.
#[tokio::test]
async fn a_server_that_asks_for_roots_is_told_that_there_are_none_to_ask_for() {
    let odd = Odd::new("");
    let remote = odd.remote().await;
    assert_eq!(call(&remote, "ask_for_roots", "{}").await.unwrap().text(), "asked");
    odd.until("roots -32601").await;
}

#[tokio::test]
async fn a_tool_that_became_another_is_not_called() {
    let odd = Odd::new("");
    let mut remote = odd.remote().await;
    let before = named(&remote, "echo");
    let lock = remote.lock();
    call(&remote, "change", "{}").await.unwrap();
    remote.changed().await;

    let cx = Context::default();
    let error = before.call(r#"{"text": "a"}"#, &cx).await.unwrap_err();
    assert_eq!(error.for_model(), "`echo` changed at its server, and was not called.");
    assert!(matches!(cause(&error), McpError::Changed { .. }), "{error:#}");
    assert_eq!(odd.times("echo"), 0);
    // Whoever takes it anew has seen what it is.
    assert_eq!(call(&remote, "echo", r#"{"text": "a"}"#).await.unwrap().text(), "a");
    // Other tools are what they were.
    call(&remote, "process", "{}").await.unwrap();
    assert_ne!(lock, remote.lock());
}

#[tokio::test]
async fn a_lock_holds_a_server_to_what_it_was() {
    let odd = Odd::new("");
    let remote = odd.client().with_only(["echo", "change"]).connect().await.unwrap();
    let lock = remote.lock();
    insta::assert_snapshot!(lock, @r#"
    {
      "instructions": "Handle with care.",
      "tools": [
        {
          "name": "change",
          "description": "A tool, change.",
          "inputSchema": {
            "properties": {
              "text": {
                "type": "string"
              }
            },
            "type": "object"
          }
        },
        {
          "name": "echo",
          "description": "Echo.",
          "inputSchema": {
            "properties": {
              "text": {
                "type": "string"
              }
            },
            "required": [
              "text"
            ],
            "type": "object"
          }
        }
      ]
    }
    "#);
    let locked = odd.client().with_only(["echo", "change"]).with_lock(&lock).unwrap();
    let held = locked.connect().await.unwrap();
    assert_eq!(held.lock(), lock);

    // It changes while it runs: there is no way to it until it is what it was.
    let started = odd.times("started");
    call(&held, "change", "{}").await.unwrap();
    let echo = named(&held, "echo");
    while odd.times("started") == started {
        echo.call(r#"{"text": "a"}"#, &Context::default()).await.unwrap();
    }
    assert_eq!(held.lock(), lock);

    let other = lock.replace("Echo.", "Repeat.").replace("A tool, change.", "Change it.");
    let error = odd.client().with_only(["echo", "change"]).with_lock(&other).unwrap();
    insta::assert_snapshot!(shown(&error.connect().await.unwrap_err()), @r#"
    odd is not what was locked; if that is right, lock it anew:
    --- locked
    +++ now
    @@ -3,7 +3,7 @@
       "tools": [
         {
           "name": "change",
    -      "description": "Change it.",
    +      "description": "A tool, change.",
           "inputSchema": {
             "properties": {
               "text": {
    @@ -15,7 +15,7 @@
         },
         {
           "name": "echo",
    -      "description": "Repeat.",
    +      "description": "Echo.",
           "inputSchema": {
             "properties": {
               "text": {
    "#);
    // A lock of the whole holds for a part.
    let whole = odd.remote().await.lock();
    let part = odd.client().with_only(["echo"]).with_lock(&whole).unwrap();
    part.connect().await.unwrap();
    let more = odd.client().with_lock(&lock).unwrap().connect().await.unwrap_err();
    assert!(matches!(more, McpError::Drift { .. }), "{more}");
    assert!(matches!(odd.client().with_lock("{}").unwrap_err(), McpError::Lock(_)));

    // A difference of any size is found in time, and shown as far as somebody would read.
    let lines = |word: &str| (0..50_000).map(|n| format!("{word} {n}")).collect::<Vec<_>>();
    let large = json!({"tools": [{"name": "echo", "inputSchema": {"enum": lines("locked")}}]});
    let error = odd.client().with_lock(&large.to_string()).unwrap().connect().await.unwrap_err();
    let McpError::Drift { diff, .. } = error else { panic!("{error}") };
    assert!(diff.lines().count() <= 201 && diff.ends_with("… and more"));
}

#[tokio::test]
async fn what_is_taken_and_how_is_the_users_word() {
    let odd = Odd::new("paged");
    let tools = odd.remote().await.tools();
    assert!(tools.iter().all(|tool| tool.effect() == Effect::Write));
    let remote = odd
        .client()
        .with_only(["hinted", "dotted.name"])
        .with_prefix("odd")
        .with_effect("dotted.name", Effect::Irreversible)
        .with_trusted_annotations()
        .connect()
        .await
        .unwrap();
    let taken: Vec<_> =
        remote.tools().iter().map(|tool| (tool.name().to_owned(), tool.effect())).collect();
    let expected = [
        ("odd_dotted_name".to_owned(), Effect::Irreversible),
        ("odd_hinted".to_owned(), Effect::Read),
    ];
    assert_eq!(taken, expected);
    let error = odd.client().with_only(["hinted", "dotted"]).connect().await.unwrap_err();
    insta::assert_snapshot!(error, @"the server has no tool `dotted`; it has dotted.name, hinted, leads-elsewhere, no-arguments, no-schema, root-is-a-text");
    let error = odd.client().with_only(["no-schema"]).connect().await.unwrap_err();
    insta::assert_snapshot!(error, @"`no-schema` of the server cannot be used: `no-schema` is no tool as its server describes it");

    let error = odd.client().with_effect("hintd", Effect::Read).connect().await.unwrap_err();
    assert!(matches!(error, McpError::NoSuchTool { .. }), "{error}");
    for prefix in ["", "my files.", &"a".repeat(70)] {
        let error = odd.client().with_prefix(prefix).connect().await.unwrap_err();
        assert!(matches!(error, McpError::Contract(_)), "{error}");
    }

    let beside = odd.remote().await.tools_beside(&tools[..1]).unwrap();
    let names: Vec<&str> = beside.iter().map(Tool::name).collect();
    assert_eq!(names, ["odd_server_dotted_name", "no-arguments", "hinted"]);
    let both: Vec<Tool> = tools.into_iter().chain(beside).collect();
    let third = odd.remote().await.tools_beside(&both).unwrap();
    let names: Vec<&str> = third.iter().map(Tool::name).collect();
    let numbered = ["odd_server_2_dotted_name", "odd_server_no-arguments", "odd_server_hinted"];
    assert_eq!(names, numbered);
}

#[tokio::test]
async fn results_of_all_kinds_are_told_and_failures_too() {
    let odd = Odd::new("");
    let remote = odd.remote().await;
    let content = call(&remote, "content", "{}").await.unwrap();
    insta::assert_snapshot!(content.text(), @r"
    A house.
    [a sound of type audio/wav, 8 bytes of base64, is not shown]
    A text.
    [a file of type application/json, 4 bytes of base64, is not shown]
    readme: file:///readme
    ");
    let png = "data:image/png;base64,iVBORw0KGgo=";
    assert_eq!(content.images(), [png, png].map(|url| Image::Url(url.to_owned())));

    let error = call(&remote, "fail", "{}").await.unwrap_err();
    assert_eq!((error.audience(), &*error.for_model()), (Audience::ModelMayRetry, "no such day"));
    let error = call(&remote, "refuse", "{}").await.unwrap_err();
    assert_eq!(error.for_model(), "the day is missing");
    let error = call(&remote, "unknown", "{}").await.unwrap_err();
    assert_eq!((error.audience(), error.stage()), (Audience::User, Stage::Decoding));
}

#[tokio::test]
async fn structured_results_are_held_to_their_schema() {
    let odd = Odd::new("");
    let remote = odd.remote().await;
    let said = |text: &str| json!({"text": text}).to_string();
    let structured = call(&remote, "structured", &said(r#"{"n": 3}"#)).await.unwrap();
    assert_eq!(
        (structured.text(), structured.value().unwrap()),
        (r#"{"n":3}"#, Some(json!({"n": 3})))
    );
    for wrong in [r#"{"n": "3"}"#, "{}", "7", "three"] {
        let error = call(&remote, "structured", &said(wrong)).await.unwrap_err();
        assert_eq!((error.audience(), error.stage()), (Audience::User, Stage::Decoding), "{wrong}");
    }
}

#[tokio::test]
async fn what_is_too_large_is_refused_and_what_is_far_too_large_is_not_read() {
    let odd = Odd::new("");
    let small = odd.client().with_max_result_bytes(1000).connect().await.unwrap();
    let tool = named(&small, "long");
    let cx = Context::default();
    assert_eq!(
        tool.call("{}", &cx).await.unwrap_err().for_model(),
        "It ran, but the result has 1000000 bytes, and 1000 are taken: ask for less."
    );
    // More than four times as much and a MiB.
    let error = tool.call(r#"{"text": "5000000"}"#, &cx).await.unwrap_err();
    assert!(matches!(cause(&error), McpError::Lost { .. }), "{error:#}");
}

#[tokio::test]
async fn a_server_learns_little_of_this_process() {
    let odd = Odd::new("");
    let remote = odd.client().with_env("GREETING", "hi").connect().await.unwrap();
    let environment = call(&remote, "environment", "{}").await.unwrap();
    assert!(environment.text().contains("GREETING=hi"));
    assert!(environment.text().contains("PATH="));
    // Cargo sets it for tests, and a key could stand there as well.
    assert!(std::env::var("CARGO_MANIFEST_DIR").is_ok());
    assert!(!environment.text().contains("CARGO_MANIFEST_DIR"), "{}", environment.text());
}

#[tokio::test]
async fn a_call_ends_when_it_is_cancelled_or_out_of_time_and_the_server_is_told() {
    let odd = Odd::new("");
    let remote = odd.remote().await;
    let never = named(&remote, "never");
    let cancellation = Cancellation::default();
    let cx = Context::default().with_cancellation(cancellation.clone());
    let calling = tokio::spawn(async move { never.call("{}", &cx).await });
    odd.until("never").await;
    cancellation.cancel();
    let error = calling.await.unwrap().unwrap_err();
    assert_eq!(error.stage(), Stage::Cancelled);
    odd.until("cancelled").await;

    let odd = Odd::new("");
    let hasty = odd.client().with_tool_time(Duration::from_millis(300)).connect().await.unwrap();
    let error = call(&hasty, "never", "{}").await.unwrap_err();
    // It may have run, and does who knows what.
    assert_eq!((error.stage(), error.is_retryable()), (Stage::Limit, false));
    odd.until("cancelled").await;

    let odd = Odd::new("");
    let never = named(&odd.remote().await, "never");
    let past = Context::default().with_deadline(Instant::now());
    assert_eq!(never.call("{}", &past).await.unwrap_err().stage(), Stage::Limit);
    assert_eq!(odd.times("never"), 0);
    let soon = Context::default().with_deadline(Instant::now() + Duration::from_millis(300));
    assert_eq!(never.call("{}", &soon).await.unwrap_err().stage(), Stage::Limit);
}

#[tokio::test]
async fn a_server_and_what_it_started_end_with_its_toolset() {
    for (mode, gracefully) in [("", true), ("with-a-child", true), ("with-a-child", false)] {
        let odd = Odd::new(mode);
        let remote = odd.remote().await;
        let process = call(&remote, "process", "{}").await.unwrap().text().to_owned();
        assert!(runs(&process));
        let notes = odd.notes();
        let child = notes.lines().find_map(|line| line.strip_prefix("child "));
        let tool = named(&remote, "echo");
        if gracefully {
            remote.close().await;
            assert!(!runs(&process));
            // It was asked to, and had the time.
            assert_eq!(odd.times("ended"), 1);
            let error = tool.call(r#"{"text": "a"}"#, &Context::default()).await.unwrap_err();
            assert!(format!("{error:#}").contains("the connection is closed"), "{error:#}");
        } else {
            drop(remote);
            tokio::time::sleep(Duration::from_millis(100)).await;
            // A tool is there still.
            assert!(runs(&process));
            drop(tool);
        }
        until(|| !runs(&process)).await;
        if let Some(child) = child {
            until(|| !runs(child)).await;
        }
    }
}

#[test]
fn a_server_ends_with_the_runtime_that_it_was_started_in() {
    let odd = Odd::new("with-a-child");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (remote, process) = runtime.block_on(async {
        let remote = odd.remote().await;
        let process = call(&remote, "process", "{}").await.unwrap().text().to_owned();
        (remote, process)
    });
    drop(runtime);
    let gone = Instant::now();
    while runs(&process) && gone.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(
        !runs(&process)
            || std::fs::read_to_string(format!("/proc/{process}/stat"))
                .is_ok_and(|stat| stat.contains(") Z "))
    );
    drop(remote);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_50_calls_ends_when_the_server_is_killed_under_them() {
    let odd = Odd::new("");
    let remote = odd.client().with_effect("echo", Effect::Read).connect().await.unwrap();
    let process = call(&remote, "process", "{}").await.unwrap().text().to_owned();
    let calls: Vec<_> = (0..50)
        .map(|index| {
            let name = if index % 2 == 0 { "never" } else { "echo" };
            let tool = named(&remote, name);
            tokio::spawn(async move { tool.call(r#"{"text": "a"}"#, &Context::default()).await })
        })
        .collect();
    until(|| odd.times("never") == 25).await;
    assert!(Command::new("kill").args(["-9", &process]).status().unwrap().success());
    let (mut answered, mut lost) = (0, 0);
    for call in calls {
        match call.await.unwrap() {
            Ok(_) => answered += 1,
            Err(error) if matches!(cause(&error), McpError::Lost { .. }) => lost += 1,
            Err(error) => panic!("{error:#}"),
        }
    }
    assert_eq!((answered, lost), (25, 25));
    assert!(!runs(&process));
    assert_eq!(call(&remote, "echo", r#"{"text": "a"}"#).await.unwrap().text(), "a");
    assert_eq!(odd.times("started"), 2);
}
