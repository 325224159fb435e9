//! `McpClient` with real servers, which are started, stopped, killed and restarted.
//!
//! `servers.sh` installs the servers and runs these tests, and `examples/tests/mcp_servers.rs`,
//! in which a model calls the tools.

pub(crate) mod real;

use std::time::{Duration, Instant};
use toolwright_module::message::Part;

use self::real::{
    Case, EVERYTHING, EVERYTHING_HTTP, Expected, FILESYSTEM, HTTP, Kind, MEMORY, PYTHON,
    PYTHON_2025, PYTHON_HTTP, PYTHON_HTTP_2025, PYTHON_PAGED, Real, STDIO, closes, connect,
    is_for_others, recorded, soon,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use toolwright_mcp::{McpClient, McpError};
use toolwright_module::error::Stage;
use toolwright_module::{
    Cancellation, Context, Contract, Module, Result, Signature, Tool, ToolOutput,
};

fn named(remote: &McpClient, name: &str) -> Tool {
    let tools = remote.tools();
    let names: Vec<String> = tools.iter().map(|tool| tool.name().to_owned()).collect();
    let tool = tools.into_iter().find(|tool| tool.name() == name);
    tool.unwrap_or_else(|| panic!("there is no {name}, but {names:?}"))
}

async fn call(remote: &McpClient, name: &str, arguments: Value) -> Result<ToolOutput> {
    let tool = named(remote, name);
    soon(name, tool.call(&arguments.to_string(), &Context::default())).await
}

fn calling(remote: &McpClient, name: &str, arguments: &Value) -> JoinHandle<Result<ToolOutput>> {
    let (tool, arguments) = (named(remote, name), arguments.to_string());
    tokio::spawn(async move { tool.call(&arguments, &Context::default()).await })
}

fn cause(error: &toolwright_module::Error) -> &McpError {
    error.downcast_ref::<McpError>().unwrap_or_else(|| panic!("{error:#}"))
}

/// Counts the calls with a result and the lost ones. Any other outcome fails the test.
async fn ends(what: Kind, calls: Vec<JoinHandle<Result<ToolOutput>>>) -> (usize, usize) {
    let (mut answered, mut lost) = (0, 0);
    for call in calls {
        match soon(what, call).await.unwrap() {
            Ok(_) => answered += 1,
            Err(error) => {
                assert!(matches!(cause(&error), McpError::Lost { .. } | McpError::NotRun { .. }));
                assert_eq!(error.stage(), Stage::Transport);
                lost += 1;
            }
        }
    }
    (answered, lost)
}

/// A call that takes this long, if the server has such a tool.
fn long(kind: Kind, milliseconds: u64) -> Option<(&'static str, Value)> {
    match kind.name {
        "python" => Some(("sleep", json!({"milliseconds": milliseconds}))),
        "everything" => {
            let seconds = milliseconds as f64 / 1000.0;
            Some(("trigger-long-running-operation", json!({"duration": seconds, "steps": 1})))
        }
        _ => None,
    }
}

/// A fast call.
fn short(kind: Kind) -> (&'static str, Value) {
    match kind.name {
        "python" => ("add", json!({"a": 2, "b": 3})),
        "everything" => ("echo", json!({"message": "hello"})),
        "memory" => ("read_graph", json!({})),
        "filesystem" => ("read_text_file", json!({"path": "a.txt"})),
        other => panic!("{other}"),
    }
}

async fn works(remote: &McpClient, kind: Kind) {
    let (name, arguments) = short(kind);
    let output = call(remote, name, arguments).await;
    assert!(output.is_ok(), "{kind}: {:#}", output.unwrap_err());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the servers of tests/servers.sh"]
async fn every_tool_matches_its_recording() {
    for kind in STDIO.into_iter().chain(HTTP).chain([PYTHON_PAGED]) {
        let real = Real::new(kind);
        let remote = connect(real.client(), kind).await;
        assert!(remote.left_out().is_empty(), "{kind}: {:?}", remote.left_out());
        let mut tools = remote.tools().into_iter();
        for form in recorded(kind.name) {
            let name = form["name"].as_str().unwrap();
            if is_for_others(kind, name) {
                continue;
            }
            let (input, output) = (form["inputSchema"].clone(), form.get("outputSchema").cloned());
            let description = form["description"].as_str().unwrap_or_default();
            let there = Contract::dynamic(name, description, input, output).unwrap();
            // The imported tool equals the recorded one that `lowering.rs` tests.
            let tool = tools.next().unwrap_or_else(|| panic!("{kind}: {name} is not there"));
            let here = tool.contract();
            assert_eq!(here.name(), there.name(), "{kind}");
            assert_eq!(here.description(), there.description(), "{kind}, {name}");
            assert_eq!(here.input(), there.input(), "{kind}, {name}");
            assert_eq!(here.output_to_read(), there.output_to_read(), "{kind}, {name}");
        }
        assert_eq!(tools.count(), 0, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the servers of tests/servers.sh"]
async fn valid_calls_get_the_expected_results_and_invalid_ones_are_not_sent() {
    for kind in STDIO.into_iter().chain(HTTP) {
        let real = Real::new(kind);
        let client = if kind.http { real.client() } else { real.overheard() };
        let remote = connect(client, kind).await;
        let tools = remote.tools();
        let names: Vec<&str> = tools.iter().map(Tool::name).collect();
        let cases = Case::all(kind.name, &names);
        for case in &cases {
            let place = format!("{kind}, {} {}", case.tool, case.arguments);
            let outcome = call(&remote, &case.tool, case.arguments.clone()).await;
            match (&case.expected, outcome) {
                (Expected::Answer(part, value), Ok(output)) => {
                    let structured = output.value().unwrap();
                    let images = format!("{:?}", output.parts);
                    let shown = format!("{} {images} {structured:?}", output.text);
                    assert!(shown.contains(part), "{place}: {shown}");
                    if value.is_some() {
                        assert_eq!(structured, *value, "{place}");
                    }
                }
                (Expected::Fails(part), Err(error)) => {
                    assert!(error.for_model().contains(part), "{place}: {error:#}");
                }
                (Expected::Refused(part), Err(error)) => {
                    assert_eq!(error.stage(), Stage::Arguments, "{place}: {error:#}");
                    assert!(error.for_model().contains(part), "{place}: {error:#}");
                }
                (_, outcome) => panic!("{place}: {outcome:?}"),
            }
        }
        let sent = cases.iter().filter(|case| case.is_sent()).count();
        println!("{kind}: {sent} calls as expected, {} not sent", cases.len() - sent);
        if !kind.http {
            assert_eq!(real.sent("tools/call"), sent, "{kind}");
            closes(&real, remote).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the servers of tests/servers.sh"]
async fn each_of_50_running_calls_ends_when_the_server_is_killed() {
    for kind in STDIO {
        let real = Real::new(kind);
        let remote = connect(real.client(), kind).await;
        let before = real.processes();
        let mut calls = Vec::new();
        if long(kind, 0).is_some() {
            for index in 0..50 {
                let (name, arguments) = long(kind, index * 20).unwrap();
                calls.push(calling(&remote, name, &arguments));
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        } else {
            // The server responds fast, so it is stopped before it can.
            let (name, arguments) = short(kind);
            for _ in 0..10 {
                calls.push(calling(&remote, name, &arguments));
            }
            works(&remote, kind).await;
            real.signal("-STOP");
            for _ in 10..50 {
                calls.push(calling(&remote, name, &arguments));
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        real.signal("-KILL");
        let killed = Instant::now();
        let (answered, lost) = ends(kind, calls).await;
        println!("{kind}: {answered} answered, {lost} lost, {:?}", killed.elapsed());
        assert_eq!(answered + lost, 50, "{kind}");
        assert!(answered > 0 && lost > 0, "{kind}: {answered} and {lost}");

        works(&remote, kind).await;
        let after = real.processes();
        assert_eq!(after.len(), before.len(), "{kind}: {before:?}, {after:?}");
        assert!(before.iter().all(|process| !after.contains(process)), "{kind}");
        closes(&real, remote).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the servers of tests/servers.sh"]
async fn calls_of_a_read_only_tool_survive_a_killed_server() {
    for kind in [PYTHON, PYTHON_2025] {
        let real = Real::new(kind);
        // The server declares that `sleep` is read-only.
        let remote = connect(real.client().with_trusted_annotations(), kind).await;
        let calls: Vec<_> = (0..50)
            .map(|index| calling(&remote, "sleep", &json!({"milliseconds": index * 20})))
            .collect();
        tokio::time::sleep(Duration::from_millis(500)).await;
        real.signal("-KILL");
        assert_eq!(ends(kind, calls).await, (50, 0), "{kind}");
        closes(&real, remote).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the servers of tests/servers.sh"]
async fn a_call_that_ends_its_server_is_lost_and_the_next_call_works() {
    for kind in [PYTHON, PYTHON_2025] {
        let real = Real::new(kind);
        let remote = connect(real.client(), kind).await;
        let error = call(&remote, "end", json!({})).await.unwrap_err();
        assert!(matches!(cause(&error), McpError::Lost { .. }), "{kind}: {error:#}");
        works(&remote, kind).await;
        closes(&real, remote).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the servers of tests/servers.sh"]
async fn a_restart_between_calls_is_not_noticed() {
    for kind in HTTP {
        let mut real = Real::new(kind);
        let remote = connect(real.client(), kind).await;
        for _ in 0..3 {
            works(&remote, kind).await;
            real.kill();
            real.start();
            // The restarted server does not know the session.
            works(&remote, kind).await;
        }
        soon(kind, remote.close()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the servers of tests/servers.sh"]
async fn running_calls_end_when_the_server_is_restarted() {
    for kind in HTTP {
        for at_once in [true, false] {
            let mut real = Real::new(kind);
            let remote = connect(real.client(), kind).await;
            let (name, arguments) = long(kind, 60_000).unwrap();
            let calls: Vec<_> = (0..50).map(|_| calling(&remote, name, &arguments)).collect();
            tokio::time::sleep(Duration::from_millis(500)).await;
            real.kill();
            let killed = Instant::now();
            if at_once {
                real.start();
            }
            assert_eq!(ends(kind, calls).await, (0, 50), "{kind}");
            println!("{kind}: 50 lost after {:?}", killed.elapsed());
            if at_once {
                works(&remote, kind).await;
            } else {
                comes_back(&mut real, &remote).await;
            }
            soon(kind, remote.close()).await;
        }
    }
}

/// Calls an unavailable server until it is available again.
async fn comes_back(real: &mut Real, remote: &McpClient) {
    let kind = real.kind;
    // The server is unavailable.
    let (name, arguments) = short(kind);
    let error = call(remote, name, arguments.clone()).await.unwrap_err();
    assert!(matches!(cause(&error), McpError::NotRun { .. }), "{kind}: {error:#}");
    assert!(error.is_retryable(), "{kind}: {error:#}");

    real.start();
    let started = Instant::now();
    soon(kind, async {
        while let Err(error) = call(remote, name, arguments.clone()).await {
            // There is a delay before the next attempt.
            assert!(matches!(cause(&error), McpError::NotRun { .. }), "{kind}: {error:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    println!("{kind}: there again after {:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the servers of tests/servers.sh"]
async fn an_added_tool_is_noticed_and_can_be_called() {
    for kind in [PYTHON, PYTHON_2025, PYTHON_HTTP, PYTHON_HTTP_2025] {
        let real = Real::new(kind);
        let mut remote = connect(real.client(), kind).await;
        for name in ["first", "second"] {
            call(&remote, "add_tool", json!({"name": name})).await.unwrap();
            soon(kind, remote.changed()).await;
            assert_eq!(call(&remote, name, json!({})).await.unwrap().text, name, "{kind}");
        }
        assert_eq!(remote.tools().len(), recorded(kind.name).len() + 2, "{kind}");
        soon(kind, remote.close()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the servers of tests/servers.sh"]
async fn a_cancelled_or_timed_out_call_is_cancelled_at_the_server() {
    for kind in [PYTHON, PYTHON_2025, EVERYTHING] {
        let real = Real::new(kind);
        let remote = connect(real.overheard(), kind).await;
        let (name, arguments) = long(kind, 60_000).unwrap();
        let tool = named(&remote, name);
        let cancellation = Cancellation::default();
        let cx = Context::default().with_cancellation(cancellation.clone());
        let running = {
            let (tool, arguments) = (tool.clone(), arguments.to_string());
            tokio::spawn(async move { tool.call(&arguments, &cx).await })
        };
        soon(kind, until(|| real.sent("tools/call") == 1)).await;
        cancellation.cancel();
        let error = soon(kind, running).await.unwrap().unwrap_err();
        assert_eq!(error.stage(), Stage::Cancelled, "{kind}: {error:#}");
        soon(kind, until(|| real.sent("notifications/cancelled") == 1)).await;

        let cx = Context::default().with_deadline(Instant::now() + Duration::from_millis(200));
        let error = soon(kind, tool.call(&arguments.to_string(), &cx)).await.unwrap_err();
        assert_eq!((error.stage(), error.is_retryable()), (Stage::Limit, false), "{kind}");
        soon(kind, until(|| real.sent("notifications/cancelled") == 2)).await;
        // The server continues after a cancellation.
        works(&remote, kind).await;
        closes(&real, remote).await;
    }
    for kind in HTTP {
        let real = Real::new(kind);
        let client = real.client().with_tool_time(Duration::from_millis(300));
        let remote = connect(client, kind).await;
        let (name, arguments) = long(kind, 60_000).unwrap();
        let error = call(&remote, name, arguments).await.unwrap_err();
        assert_eq!((error.stage(), error.is_retryable()), (Stage::Limit, false), "{kind}");
        works(&remote, kind).await;
        soon(kind, remote.close()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the servers of tests/servers.sh"]
async fn a_stopped_server_runs_into_the_timeouts() {
    for kind in STDIO.into_iter().chain(HTTP) {
        let real = Real::new(kind);
        let client = real.client().with_tool_time(Duration::from_secs(1));
        let remote = connect(client, kind).await;
        let (name, arguments) = short(kind);
        real.signal("-STOP");
        let error = call(&remote, name, arguments).await.unwrap_err();
        assert_eq!((error.stage(), error.is_retryable()), (Stage::Limit, false), "{kind}");
        if kind.http {
            let late = real.client().with_start_time(Duration::from_millis(500)).connect();
            let error = soon(kind, late).await.unwrap_err();
            assert!(matches!(error, McpError::Late { .. }), "{kind}: {error:?}");
        }
        real.signal("-CONT");
        works(&remote, kind).await;
        // A stopped process cannot handle a signal to end.
        real.signal("-STOP");
        soon(kind, remote.close()).await;
        if !kind.http {
            real.gone().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the servers of tests/servers.sh"]
async fn a_lock_file_is_the_same_over_every_transport_and_notices_changes() {
    for kinds in [
        &[MEMORY][..],
        &[FILESYSTEM],
        // The revisions differ in the order of the keys in a schema.
        &[PYTHON, PYTHON_PAGED, PYTHON_2025, PYTHON_HTTP, PYTHON_HTTP_2025],
    ] {
        let lock = connect(Real::new(kinds[0]).client(), kinds[0]).await.lock();
        for &kind in kinds {
            let real = Real::new(kind);
            connect(real.client().with_lock(&lock).unwrap(), kind).await;
        }
    }
    // This server adds its last tool after the first list.
    let [lock, over_http] = [EVERYTHING, EVERYTHING_HTTP].map(|kind| async move {
        let real = Real::new(kind);
        connect(real.client(), kind).await.lock()
    });
    assert_eq!(lock.await, over_http.await);

    let real = Real::new(PYTHON_HTTP);
    let lock = connect(real.client(), PYTHON_HTTP).await.lock();
    let locked = connect(real.client().with_lock(&lock).unwrap(), PYTHON_HTTP).await;
    let other = connect(real.client(), PYTHON_HTTP).await;
    call(&other, "add_tool", json!({"name": "added"})).await.unwrap();
    let again = soon(PYTHON_HTTP, real.client().with_lock(&lock).unwrap().connect()).await;
    let error = again.unwrap_err();
    assert!(
        matches!(&error, McpError::Drift { diff, .. } if diff.contains("\"added\"")),
        "{error}"
    );
    // A connected client notices the change when the server sends a notification.
    soon(PYTHON_HTTP, async {
        while call(&locked, "ping_pong", json!({})).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let error = call(&locked, "ping_pong", json!({})).await.unwrap_err();
    assert!(format!("{error:#}").contains("\"added\""), "{error:#}");
}

/// Count the words of a text.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Summarise {
    text: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Summary {
    words: i64,
    longest: Option<String>,
}

impl Signature for Summarise {
    type Output = Summary;
}

/// Add two numbers.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

impl Signature for Add {
    type Output = i64;
}

/// Say it louder.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Shout {
    text: String,
}

impl Signature for Shout {
    type Output = String;
}

/// Sleep, with schemas that differ from the server's.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Sleep {
    milliseconds: String,
}

impl Signature for Sleep {
    type Output = i64;
}

/// Add two numbers, and return a sentence.
#[derive(Serialize, Deserialize, JsonSchema)]
struct GetSum {
    a: f64,
    b: f64,
}

impl Signature for GetSum {
    type Output = String;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the servers of tests/servers.sh"]
async fn a_real_tool_is_the_module_of_a_signature() {
    for kind in [PYTHON, PYTHON_2025, PYTHON_HTTP, PYTHON_HTTP_2025] {
        let real = Real::new(kind);
        let remote = connect(real.client(), kind).await;
        let summarise = remote.typed::<Summarise>("summarise").unwrap();
        let asked = Summarise { text: "one three two".to_owned() };
        let summary = soon(kind, summarise.call(asked, &Context::default())).await.unwrap();
        assert_eq!(summary, Summary { words: 3, longest: Some("three".to_owned()) }, "{kind}");
        let nothing =
            soon(kind, summarise.call(Summarise { text: String::new() }, &Context::default()))
                .await
                .unwrap();
        assert_eq!(nothing, Summary { words: 0, longest: None }, "{kind}");
        let add = remote.typed::<Add>("add").unwrap();
        assert_eq!(
            soon(kind, add.call(Add { a: 2, b: 3 }, &Context::default())).await.unwrap(),
            5,
            "{kind}"
        );
        let shout = remote.typed::<Shout>("shout").unwrap();
        let louder =
            soon(kind, shout.call(Shout { text: "hello".to_owned() }, &Context::default()))
                .await
                .unwrap();
        assert_eq!(louder, "HELLO", "{kind}");
        let message = remote.typed::<Sleep>("sleep").unwrap_err().to_string();
        assert_eq!(
            message,
            "the server's tool `sleep` does not fit the signature `sleep`: input $.milliseconds: \
             ours: is a string; theirs: takes an integer; output $.result: ours: takes an integer; \
             theirs: is a string",
            "{kind}"
        );
        soon(kind, remote.close()).await;
    }
    let real = Real::new(EVERYTHING);
    let remote = connect(real.client(), EVERYTHING).await;
    let sum = remote.typed::<GetSum>("get-sum").unwrap();
    let text =
        soon(EVERYTHING, sum.call(GetSum { a: 2.0, b: 3.5 }, &Context::default())).await.unwrap();
    assert_eq!(text, "The sum of 2 and 3.5 is 5.5.");
}

async fn until(done: impl Fn() -> bool) {
    while !done() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the servers of tests/servers.sh"]
async fn progress_notifications_do_not_disturb_calls() {
    for kind in [PYTHON, PYTHON_2025, PYTHON_HTTP, PYTHON_HTTP_2025] {
        let real = Real::new(kind);
        let remote = connect(real.client(), kind).await;
        let output = call(&remote, "tell", json!({"times": 500})).await.unwrap();
        assert_eq!(output.text, "told 500", "{kind}");
        soon(kind, remote.close()).await;
    }
    for kind in [EVERYTHING, EVERYTHING_HTTP] {
        let real = Real::new(kind);
        let remote = connect(real.client(), kind).await;
        let name = "trigger-long-running-operation";
        let done = call(&remote, name, json!({"duration": 0.2, "steps": 50})).await.unwrap();
        assert!(done.text.contains("completed"), "{kind}: {}", done.text);
        soon(kind, remote.close()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the servers of tests/servers.sh"]
async fn images_are_imported_as_images() {
    let cases = [
        (PYTHON, "draw", json!({})),
        (PYTHON_HTTP_2025, "draw", json!({})),
        (EVERYTHING, "get-tiny-image", json!({})),
        (FILESYSTEM, "read_media_file", json!({"path": "pixel.png"})),
    ];
    for (kind, name, arguments) in cases {
        let real = Real::new(kind);
        let remote = connect(real.client(), kind).await;
        let output = call(&remote, name, arguments).await.unwrap();
        let [Part::Image(image)] = &*output.parts else { panic!("{kind}: {output:?}") };
        let url = image.source.to_url().unwrap();
        assert!(url.starts_with("data:image/png;base64,iVBOR"), "{kind}: {url}");
        soon(kind, remote.close()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the servers of tests/servers.sh"]
async fn no_process_remains_after_a_close_or_drop() {
    for kind in STDIO {
        let real = Real::new(kind);
        closes(&real, connect(real.client(), kind).await).await;

        let remote = connect(real.client(), kind).await;
        let (name, _) = short(kind);
        let tool = named(&remote, name);
        drop(remote);
        assert!(!real.processes().is_empty(), "{kind}");
        drop(tool);
        real.gone().await;
    }
    // After this call, the server does not end when its input is closed.
    let real = Real::new(EVERYTHING);
    let remote = connect(real.client(), EVERYTHING).await;
    call(&remote, "toggle-simulated-logging", json!({})).await.unwrap();
    closes(&real, remote).await;
    // These do not end either while a call runs.
    for kind in [EVERYTHING, PYTHON, PYTHON_2025] {
        let real = Real::new(kind);
        let remote = connect(real.client(), kind).await;
        let (name, arguments) = long(kind, 60_000).unwrap();
        let running = calling(&remote, name, &arguments);
        tokio::time::sleep(Duration::from_millis(200)).await;
        closes(&real, remote).await;
        assert!(soon(kind, running).await.unwrap().is_err(), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the servers of tests/servers.sh"]
async fn four_servers_work_at_the_same_time() {
    let kinds = [EVERYTHING, MEMORY, FILESYSTEM, PYTHON];
    let reals = kinds.map(Real::new);
    let mut tools: Vec<Tool> = Vec::new();
    for real in &reals {
        let remote = connect(real.client(), real.kind).await;
        tools.extend(remote.tools_beside(&tools).unwrap());
    }
    let cx = Context::default();
    for kind in kinds {
        let (name, arguments) = short(kind);
        let tool = tools.iter().find(|tool| tool.name() == name).unwrap();
        soon(kind, tool.call(&arguments.to_string(), &cx)).await.unwrap();
    }
    drop(tools);
    for real in reals {
        real.gone().await;
    }
}
