//! `McpClient` with faulty servers as child processes: see `examples/odd.rs`.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use toolwright_module::message::Audio;

use crate::support::{cause, example};
use serde_json::json;
use tempfile::TempDir;
use toolwright_mcp::{McpClient, McpClientBuilder, McpError};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::message::Image;
use toolwright_module::{Cancellation, Context, Dialect, Effect, Result, Tool, ToolOutput};

/// A faulty server, and the file in which it records events.
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
            .with_trusted_results()
            .with_start_time(Duration::from_secs(20))
            .with_tool_time(Duration::from_secs(10))
    }

    async fn remote(&self) -> McpClient {
        self.client().connect().await.unwrap()
    }

    /// The number of times that the server recorded an event.
    fn times(&self, what: &str) -> usize {
        self.notes().lines().filter(|line| *line == what).count()
    }

    fn notes(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap_or_default()
    }

    /// Waits until the server recorded an event.
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
async fn all_pages_are_read_and_unusable_tools_are_left_out() {
    let odd = Odd::new("paged");
    let remote = odd.remote().await;
    let tools = remote.tools();
    let names: Vec<&str> = tools.iter().map(Tool::name).collect();
    assert_eq!(names, ["dotted_name", "no-arguments", "hinted"]);
    let left_out = remote.left_out();
    let errors: Vec<String> =
        left_out.iter().map(|(name, error)| format!("{name}: {error}")).collect();
    insta::assert_snapshot!(errors.join("\n"), @r#"
    root-is-a-text: the input schema of `root-is-a-text` cannot be used at $: it is not an object; put the value in a field of a struct
    no-schema: the server's definition of `no-schema` is not a valid tool
    : the server's definition of `` is not a valid tool
    leads-elsewhere: `leads-elsewhere` does not fit mcp at $.at: the reference "https://example.com/at.json" leads nowhere in this schema; put its target under `$defs`
    "#);
    let pair = tools[0].contract().input();
    insta::assert_snapshot!(pair.to_string(), @r#"{"type":"object","properties":{"at":{"type":"array","prefixItems":[{"type":"number"},{"type":"number"}]}}}"#);
}

#[tokio::test]
async fn endless_tool_lists_are_rejected() {
    for mode in ["endless", "circular", "heavy"] {
        let error = Odd::new(mode).client().connect().await.unwrap_err();
        assert!(matches!(error, McpError::Endless { .. }), "{error}");
    }
}

#[tokio::test]
async fn errors_of_a_tool_list_name_the_server() {
    let mut errors = Vec::new();
    for mode in ["listless", "endless"] {
        errors.push(shown(&Odd::new(mode).client().connect().await.unwrap_err()));
    }
    insta::assert_snapshot!(errors.join("\n"), @r"
    odd did not list its tools
    the tool list of odd is too long, or repeats a page
    ");
}

#[tokio::test]
async fn a_tool_that_is_listed_twice_is_used_once_and_two_of_a_name_are_left_out() {
    let odd = Odd::new("twice");
    let remote = odd.remote().await;
    let tools = remote.tools();
    assert_eq!(tools.iter().map(Tool::name).collect::<Vec<_>>(), ["same", "one"]);
    let left_out: Vec<_> = remote.left_out().iter().map(|(_, why)| shown(why)).collect();
    assert_eq!(
        left_out,
        ["odd lists two tools with the name `two`; this must be fixed in the server"]
    );
}

#[tokio::test]
async fn names_that_providers_do_not_accept_are_changed_and_stay_apart() {
    let odd = Odd::new("alike");
    let remote = odd.remote().await;
    assert!(remote.left_out().is_empty(), "{:?}", remote.left_out());
    let tools = remote.tools();
    let names: Vec<&str> = tools.iter().map(Tool::name).collect();
    insta::assert_snapshot!(names.join("\n"), @r"
    a_b_b93968a7
    a_b_c4c0cb39
    a_b
    _3d
    __22fcf4b5
    _
    long_long_long_long_long_long_long_long_long_long_long__c350e0d2
    ");
    for tool in &tools {
        tool.contract().lower(Dialect::Gemini).unwrap();
    }
    for (tool, definition) in tools.iter().zip(remote.definitions()) {
        // Without the other tools, it does not know which names are taken.
        let alone = McpClient::contract_of(definition).unwrap();
        assert!(tool.name().starts_with(alone.name()), "{}, {}", tool.name(), alone.name());
    }
    let again = odd.client().with_prefix("odd").connect().await.unwrap();
    let mut names: Vec<String> = again.tools().iter().map(|tool| tool.name().to_owned()).collect();
    names.dedup();
    assert_eq!(names.len(), 7, "{names:?}");
    let beside = odd.remote().await.tools_beside(&tools).unwrap();
    let all = tools.iter().chain(&beside).map(Tool::name).collect::<HashSet<_>>();
    assert_eq!(all.len(), 14, "{all:?}");
}

#[tokio::test]
async fn a_server_without_tools_has_none() {
    let odd = Odd::new("without-tools");
    let remote = odd.remote().await;
    assert_eq!(remote.name(), "odd/server");
    assert!(remote.tools().is_empty());
}

/// Without the folder of the program.
fn shown(error: &McpError) -> String {
    error.to_string().replace(&example("odd").display().to_string(), "odd")
}

#[tokio::test]
async fn a_server_without_the_newest_revision_gets_a_handshake() {
    for mode in ["", "dying-at-discover", "chatty"] {
        let odd = Odd::new(mode);
        let remote = odd.remote().await;
        assert_eq!(remote.name(), "odd/server");
        assert_eq!(remote.instructions().as_deref(), Some("Handle with care."));
        let said = call(&remote, "echo", r#"{"text": "hello"}"#).await.unwrap();
        assert_eq!(said.text, "hello");
    }
}

#[tokio::test]
async fn a_server_that_does_not_start_gives_an_error_with_the_reason() {
    let error = McpClient::stdio("no-such-program", [""; 0]).connect().await.unwrap_err();
    insta::assert_snapshot!(error, @"`no-such-program` could not be started; check that it is installed and in the PATH");
    let error = Odd::new("crashing").client().connect().await.unwrap_err();
    let message = error.to_string();
    assert!(message.ends_with("; its standard error was: no licence for you"), "{message}");
    let patient = Odd::new("paged").client().with_start_time(Duration::ZERO);
    assert!(matches!(patient.connect().await.unwrap_err(), McpError::Late { .. }));
}

#[tokio::test]
async fn a_lost_call_is_repeated_only_if_its_effect_allows_it() {
    let odd = Odd::new("");
    let remote = odd.remote().await;
    let error = call(&remote, "die", "{}").await.unwrap_err();
    assert!(matches!(cause(&error), McpError::Lost { .. }), "{error:#}");
    assert_eq!((error.stage(), error.audience()), (Stage::Transport, Audience::ModelFinal));
    assert!(error.for_model().contains("may have taken effect"));
    assert!(!error.is_retryable());
    assert_eq!(odd.times("die"), 1);
    // The next call starts the server again.
    assert_eq!(call(&remote, "echo", r#"{"text": "a"}"#).await.unwrap().text, "a");
    assert_eq!(odd.times("started"), 2);

    for effect in [Effect::Read, Effect::Idempotent] {
        let odd = Odd::new("");
        let remote = odd.client().with_effect("die_once", effect).with_effect("die", effect);
        let remote = remote.connect().await.unwrap();
        assert_eq!(call(&remote, "die_once", "{}").await.unwrap().text, "alive");
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
async fn a_lost_server_or_unread_input_fails_the_call() {
    for (mode, name) in [("with-a-child", "die"), ("", "ask_and_not_listen")] {
        let odd = Odd::new(mode);
        let remote = odd.remote().await;
        let error = call(&remote, name, "{}").await.unwrap_err();
        assert!(matches!(cause(&error), McpError::Lost { .. }), "{error:#}");
        assert_eq!(call(&remote, "echo", r#"{"text": "a"}"#).await.unwrap().text, "a");
        assert_eq!((odd.times(name), odd.times("started")), (1, 2));
    }
}

/// An empty list of roots would mean that the client supports roots.
#[tokio::test]
async fn a_request_for_roots_gets_method_not_found() {
    let odd = Odd::new("");
    let remote = odd.remote().await;
    assert_eq!(call(&remote, "ask_for_roots", "{}").await.unwrap().text, "asked");
    odd.until("roots -32601").await;
}

#[tokio::test]
async fn a_changed_tool_is_not_called() {
    let odd = Odd::new("");
    let mut remote = odd.remote().await;
    let before = named(&remote, "echo");
    let lock = remote.lock();
    call(&remote, "change", "{}").await.unwrap();
    remote.changed().await;

    let cx = Context::default();
    let error = before.call(r#"{"text": "a"}"#, &cx).await.unwrap_err();
    assert_eq!(error.for_model(), "`echo` was not called, because its server changed it.");
    assert!(matches!(cause(&error), McpError::Changed { .. }), "{error:#}");
    assert_eq!(odd.times("echo"), 0);
    // The tool of a new import can be called.
    assert_eq!(call(&remote, "echo", r#"{"text": "a"}"#).await.unwrap().text, "a");
    // Unchanged tools can still be called.
    call(&remote, "process", "{}").await.unwrap();
    assert_ne!(lock, remote.lock());
}

#[tokio::test]
async fn a_lock_file_rejects_changed_tools() {
    let odd = Odd::new("");
    let remote = odd.client().with_only(["echo", "change"]).connect().await.unwrap();
    let lock = remote.lock();
    insta::assert_snapshot!(lock, @r#"
    {
      "server": "odd/server",
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

    // It changes while it runs: calls fail until a new process matches the lock file.
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
    the tools of odd differ from the lock file; review the changes, then create a new lock file with `McpClient::lock`:
    --- locked
    +++ now
    @@ -4,7 +4,7 @@
       "tools": [
         {
           "name": "change",
    -      "description": "Change it.",
    +      "description": "A tool, change.",
           "inputSchema": {
             "properties": {
               "text": {
    @@ -16,7 +16,7 @@
         },
         {
           "name": "echo",
    -      "description": "Repeat.",
    +      "description": "Echo.",
           "inputSchema": {
             "properties": {
               "text": {
    "#);
    // A lock file of all tools can be used with some of them.
    let whole = odd.remote().await.lock();
    let part = odd.client().with_only(["echo"]).with_lock(&whole).unwrap();
    part.connect().await.unwrap();
    let more = odd.client().with_lock(&lock).unwrap().connect().await.unwrap_err();
    assert!(matches!(more, McpError::Drift { .. }), "{more}");
    assert!(matches!(odd.client().with_lock("{}").unwrap_err(), McpError::Lock(_)));

    // The diff of a large change is computed in time, and cut off.
    let lines = |word: &str| (0..50_000).map(|n| format!("{word} {n}")).collect::<Vec<_>>();
    let large = json!({"tools": [{"name": "echo", "inputSchema": {"enum": lines("locked")}}]});
    let error = odd.client().with_lock(&large.to_string()).unwrap().connect().await.unwrap_err();
    let McpError::Drift { diff, .. } = error else { panic!("{error}") };
    assert!(diff.lines().count() <= 201 && diff.ends_with("… more lines are not shown"));
}

#[tokio::test]
async fn a_list_that_is_requested_again_has_the_present_tools_or_the_locked_ones() {
    let odd = Odd::new("");
    let remote = odd.remote().await;
    let locked = odd.client().with_lock(&remote.lock()).unwrap().connect().await.unwrap();
    call(&remote, "change", "{}").await.unwrap();
    remote.refresh().await.unwrap();
    assert_eq!(call(&remote, "echo", r#"{"text": "a"}"#).await.unwrap().text, "a");

    let echo = named(&locked, "echo");
    locked.refresh().await.unwrap();
    call(&locked, "change", "{}").await.unwrap();
    let error = locked.refresh().await.unwrap_err();
    assert!(matches!(*error, McpError::Drift { .. }), "{error}");
    // The next call starts the server again, whose tools are those of the lock file.
    assert_eq!(echo.call(r#"{"text": "a"}"#, &Context::default()).await.unwrap().text, "a");
    assert_eq!(named(&locked, "echo").contract().description(), "Echo.");
}

#[tokio::test]
async fn the_users_settings_decide_which_tools_are_imported_and_their_effects() {
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
    insta::assert_snapshot!(error, @"the server has no tool `dotted`; its tools are: dotted.name, hinted, leads-elsewhere, no-arguments, no-schema, root-is-a-text");
    let error = odd.client().with_only(["no-schema"]).connect().await.unwrap_err();
    insta::assert_snapshot!(error, @"the server's tool `no-schema` cannot be used: the server's definition of `no-schema` is not a valid tool: missing field `inputSchema`");

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
async fn all_kinds_of_content_and_failures_reach_the_model() {
    let odd = Odd::new("");
    let remote = odd.remote().await;
    let content = call(&remote, "content", "{}").await.unwrap();
    insta::assert_snapshot!(content.text, @r"
    A house.
    A text.
    [a file of type application/json, 4 bytes of base64, is not shown]
    readme: file:///readme
    ");
    let png = "data:image/png;base64,iVBORw0KGgo=";
    let wav = Audio::url("data:audio/wav;base64,UklGRg==").into();
    assert_eq!(content.parts, [Image::url(png).into(), wav, Image::url(png).into()]);

    let error = call(&remote, "fail", "{}").await.unwrap_err();
    assert_eq!((error.audience(), &*error.for_model()), (Audience::ModelMayRetry, "no such day"));
    let error = call(&remote, "refuse", "{}").await.unwrap_err();
    assert_eq!(error.for_model(), "the day is missing");
    let error = call(&remote, "unknown", "{}").await.unwrap_err();
    assert_eq!((error.audience(), error.stage()), (Audience::ModelFinal, Stage::Decoding));
    let start = Instant::now();
    let error = call(&remote, "nameless_error", "{}").await.unwrap_err();
    assert_eq!(error.for_model(), "the request cannot be read");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn structured_results_are_validated_against_their_schema() {
    let odd = Odd::new("");
    let remote = odd.remote().await;
    let said = |text: &str| json!({"text": text}).to_string();
    let structured = call(&remote, "structured", &said(r#"{"n": 3}"#)).await.unwrap();
    assert_eq!(
        (&*structured.text, structured.value().unwrap()),
        (r#"{"n":3}"#, Some(json!({"n": 3})))
    );
    // Some servers write `null` for a value that they do not send.
    let null = call(&remote, "structured", &said(r#"null beside {"n": 3}"#)).await.unwrap();
    assert_eq!((&*null.text, null.value().unwrap()), (r#"{"n": 3}"#, Some(json!({"n": 3}))));
    for wrong in [r#"{"n": "3"}"#, "{}", "7", "three", "null beside three", "null beside {}"] {
        let error = call(&remote, "structured", &said(wrong)).await.unwrap_err();
        assert_eq!((error.audience(), error.stage()), (Audience::User, Stage::Decoding), "{wrong}");
    }
}

#[tokio::test]
async fn oversized_results_are_rejected_and_oversized_messages_are_not_read() {
    let odd = Odd::new("");
    let small = odd.client().with_max_result_bytes(1000).connect().await.unwrap();
    let tool = named(&small, "long");
    let cx = Context::default();
    assert_eq!(
        tool.call("{}", &cx).await.unwrap_err().for_model(),
        "The tool ran, but the result has 1000000 bytes and the maximum is 1000. Request less."
    );
    // More than four times the maximum and 1 MiB.
    let error = tool.call(r#"{"text": "5000000"}"#, &cx).await.unwrap_err();
    assert!(error.for_model().starts_with("The result of `long` is too large"), "{error:#}");
}

#[tokio::test]
async fn a_child_process_inherits_few_environment_variables() {
    let odd = Odd::new("");
    let remote = odd.client().with_env("GREETING", "hi").connect().await.unwrap();
    let environment = call(&remote, "environment", "{}").await.unwrap();
    assert!(environment.text.contains("GREETING=hi"));
    assert!(environment.text.contains("PATH="));
    // Cargo sets this variable for tests. It stands for a secret.
    assert!(std::env::var("CARGO_MANIFEST_DIR").is_ok());
    assert!(!environment.text.contains("CARGO_MANIFEST_DIR"), "{}", environment.text);
}

#[tokio::test]
async fn a_cancelled_or_timed_out_call_ends_and_is_cancelled_at_the_server() {
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
    // The call may have run, so it must not be repeated.
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
async fn a_child_process_and_its_own_children_end_with_the_last_tool() {
    for (mode, gracefully) in [("", true), ("with-a-child", true), ("with-a-child", false)] {
        let odd = Odd::new(mode);
        let remote = odd.remote().await;
        let process = call(&remote, "process", "{}").await.unwrap().text;
        assert!(runs(&process));
        let notes = odd.notes();
        let child = notes.lines().find_map(|line| line.strip_prefix("child "));
        let tool = named(&remote, "echo");
        if gracefully {
            remote.close().await;
            assert!(!runs(&process));
            // It ended by itself before the timeout.
            assert_eq!(odd.times("ended"), 1);
            let error = tool.call(r#"{"text": "a"}"#, &Context::default()).await.unwrap_err();
            assert!(format!("{error:#}").contains("the connection is closed"), "{error:#}");
        } else {
            drop(remote);
            tokio::time::sleep(Duration::from_millis(100)).await;
            // A tool still holds the connection.
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
fn a_child_process_ends_with_the_runtime() {
    let odd = Odd::new("with-a-child");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (remote, process) = runtime.block_on(async {
        let remote = odd.remote().await;
        let process = call(&remote, "process", "{}").await.unwrap().text;
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
async fn each_of_50_running_calls_ends_when_the_server_is_killed() {
    let odd = Odd::new("");
    let remote = odd.client().with_effect("echo", Effect::Read).connect().await.unwrap();
    let process = call(&remote, "process", "{}").await.unwrap().text;
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
    assert_eq!(call(&remote, "echo", r#"{"text": "a"}"#).await.unwrap().text, "a");
    assert_eq!(odd.times("started"), 2);
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_one_calls_error() {
    let odd = Odd::new("");
    let remote = odd.remote().await;
    let text = call(&remote, "bad_text", "{}").await.unwrap();
    assert_eq!(text.text, "cut \u{fffd}\nbytes \u{fffd}\0");
    for name in ["nested", "huge", "garble"] {
        let error = call(&remote, name, "{}").await.unwrap_err();
        assert_eq!((error.stage(), error.audience()), (Stage::Decoding, Audience::ModelFinal));
        assert!(error.for_model().contains("may have taken effect"), "{error:#}");
        assert_eq!(odd.times(name), 1);
    }
    // The server was not restarted.
    assert_eq!(call(&remote, "echo", r#"{"text": "a"}"#).await.unwrap().text, "a");
    assert_eq!(odd.times("started"), 1);
}

#[tokio::test]
async fn a_message_on_several_lines_and_the_second_on_a_line_are_read() {
    let odd = Odd::new("");
    let remote = odd.remote().await;
    assert_eq!(call(&remote, "pretty", "{}").await.unwrap().text, "pretty");
    assert_eq!(call(&remote, "two_at_once", "{}").await.unwrap().text, "second");
    assert_eq!(odd.times("started"), 1);
}

#[tokio::test]
async fn integers_with_more_than_64_bits_are_not_rounded() {
    let odd = Odd::new("");
    let remote = odd.remote().await;
    let output = call(&remote, "wide", "{}").await.unwrap();
    assert_eq!(output.text, r#"{"wei":123456789012345678901234567890}"#);
    assert_eq!(output.value().unwrap(), None);
    let text = r#"{"text": "a", "wei": 123456789012345678901234567890}"#;
    let error = call(&remote, "echo", text).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Arguments);
    assert!(error.for_model().contains("more than 64 bits"), "{error:#}");
}

#[tokio::test]
async fn servers_that_other_clients_accept_are_accepted() {
    let odd = Odd::new("nameless");
    let nameless = odd.remote().await;
    assert_eq!(nameless.name(), "");
    assert_eq!(call(&nameless, "echo", r#"{"text": "a"}"#).await.unwrap().text, "a");
}

/// rmcp would wait for ten seconds.
#[tokio::test]
async fn a_server_that_ignores_discover_gets_a_handshake_soon_and_then_at_once() {
    let odd = Odd::new("deaf-to-discover");
    let start = Instant::now();
    let remote = odd.remote().await;
    // The wait for the response, and the start of the program.
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    call(&remote, "die", "{}").await.unwrap_err();
    let start = Instant::now();
    assert_eq!(call(&remote, "echo", r#"{"text": "a"}"#).await.unwrap().text, "a");
    assert!(start.elapsed() < Duration::from_millis(1900), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_late_answer_to_discover_is_used() {
    for mode in ["slow", "slow-and-deaf-to-initialize"] {
        let odd = Odd::new(mode);
        let remote = odd.remote().await;
        assert_eq!(call(&remote, "echo", r#"{"text": "a"}"#).await.unwrap().text, "a");
        // Not also for the handshake alone.
        assert_eq!(odd.times("started"), 2, "{mode}");
    }
}

#[tokio::test]
async fn a_change_before_the_subscription_is_noticed() {
    let mut remote = Odd::new("modern").remote().await;
    tokio::time::timeout(Duration::from_secs(10), remote.changed()).await.unwrap();
    assert!(remote.definitions()[0]["description"].as_str().unwrap().contains("it all to me"));
}

#[tokio::test]
async fn the_data_of_an_error_reaches_the_model() {
    let odd = Odd::new("");
    let error = call(&odd.remote().await, "data", "{}").await.unwrap_err();
    let text = error.for_model();
    assert!(text.starts_with(r#"Invalid params: {"#), "{text}");
    assert!(text.contains("unknown city Xanadu") || text.ends_with('…'), "{text}");
    assert!(text.chars().count() < 2100, "{}", text.len());
}

#[tokio::test]
async fn progress_extends_the_time_of_a_call() {
    let odd = Odd::new("");
    let client = odd.client().with_tool_time(Duration::from_millis(600));
    let remote = client.connect().await.unwrap();
    assert_eq!(call(&remote, "slow", "{}").await.unwrap().text, "slow");
    // Not beyond ten times the limit.
    let client = odd.client().with_tool_time(Duration::from_millis(110));
    let error = call(&client.connect().await.unwrap(), "slow", "{}").await.unwrap_err();
    assert_eq!(error.stage(), Stage::Limit);
}

#[tokio::test]
async fn the_standard_error_is_in_the_error_of_a_lost_or_slow_call() {
    for (script, start) in
        [("read a; echo out of memory >&2; exit 3", 20), ("echo out of memory >&2; sleep 30", 1)]
    {
        let client = McpClient::stdio("sh", ["-c", script]);
        let error = client.with_start_time(Duration::from_secs(start)).connect().await.unwrap_err();
        let text = error.to_string();
        assert!(text.ends_with("; its standard error was: out of memory"), "{text}");
    }
    let odd = Odd::new("");
    let error = call(&odd.remote().await, "die", "{}").await.unwrap_err();
    assert!(format!("{error:#}").contains("its standard error was: I die"), "{error:#}");
    let client = odd.client().with_tool_time(Duration::from_millis(300)).connect().await.unwrap();
    let error = call(&client, "never", "{}").await.unwrap_err();
    assert!(format!("{error:#}").contains("standard error was: I wait"), "{error:#}");
}

#[tokio::test]
async fn a_server_that_ends_while_it_lists_its_tools_gives_its_standard_error_at_once() {
    let odd = Odd::new("dying-at-list");
    let start = Instant::now();
    let error = odd.client().connect().await.unwrap_err();
    let text = format!("{error:?}").replace(&example("odd").display().to_string(), "odd");
    insta::assert_snapshot!(text, @r"
    odd did not list its tools
    cause: Transport closed; its standard error was: out of memory
    ");
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}
