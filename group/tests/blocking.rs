//! Groups for programs without `async`.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use toolwright_group::blocking::{
    Context, Custom, Error, FailReason, Format, Handle, InsideRuntime, Result, ToolCall, ToolGroup,
};
use toolwright_module::error::Stage;
use toolwright_module::{Signature, from_fn};

/// Say hello to somebody.
#[derive(Deserialize, JsonSchema)]
struct SayHello {
    name: String,
}

impl Handle<u32, usize> for SayHello {
    fn handle(self, cx_in: &u32, _cx: &Context) -> Result<(String, usize)> {
        match self.name.as_str() {
            "nobody" => Err(Error::retry("Greet somebody.")),
            "panic" => panic!("hello"),
            name => Ok((format!("Message {cx_in} delivered to {name}."), name.len())),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Bio(String);

impl Custom<u32, usize> for Bio {
    fn format() -> Option<Format> {
        Some(Format::Text)
    }

    fn handle(self, _cx_in: &u32, _cx: &Context) -> Result<(String, usize)> {
        Ok(("Thanks.".to_owned(), self.0.len()))
    }
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

fn group() -> ToolGroup<u32, usize> {
    let add = from_fn(async |Add { a, b }: Add| {
        // An async module may wait.
        tokio::task::yield_now().await;
        Ok(a + b)
    });
    let group = ToolGroup::new().handler::<SayHello>().unwrap();
    group.custom::<Bio>().unwrap().module(add).unwrap()
}

fn calls() -> Vec<ToolCall> {
    vec![
        ToolCall::new("1", "say_hello", r#"{"name": "Kate"}"#),
        ToolCall::custom("2", "bio", "I am Kate."),
        ToolCall::new("3", "add", r#"{"a": 1, "b": 2}"#),
        ToolCall::new("4", "say_hello", r#"{"name": "nobody"}"#),
        ToolCall::new("5", "say_hello", r#"{"name": "panic"}"#),
        ToolCall::new("6", "say_hello", r#"{"name": 6}"#),
        ToolCall::new("7", "say_hi", "{}"),
    ]
}

#[test]
fn blocking_handlers_have_outcomes_in_call_order() {
    let (group, cx) = (group(), Context::default());
    let outcomes = group.dispatch(&calls(), &7, &cx).unwrap();
    let reported: Vec<_> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Ok(done) => (done.content.as_str(), done.context, done.fail_reason),
            Err(error) => {
                assert_eq!(error.stage(), Stage::Panic);
                ("panicked", None, None)
            }
        })
        .collect();
    assert_eq!(
        reported,
        [
            ("Message 7 delivered to Kate.", Some(4), None),
            ("Thanks.", Some(10), None),
            ("3", None, None),
            ("Greet somebody.", None, Some(FailReason::ExplicitHandlerError)),
            ("panicked", None, None),
            (
                outcomes[5].as_ref().unwrap().content.as_str(),
                None,
                Some(FailReason::InvalidArguments)
            ),
            ("Tool, `say_hi` not found.", None, Some(FailReason::InvalidName)),
        ]
    );
    let one = group.run(&calls()[0], &8, &cx).unwrap();
    assert_eq!(one.content, "Message 8 delivered to Kate.");
}

#[derive(Deserialize, JsonSchema)]
struct Step {
    number: u8,
}

type Steps = std::sync::Mutex<Vec<(u8, &'static str, thread::ThreadId)>>;

impl Handle<Steps> for Step {
    fn handle(self, steps: &Steps, _cx: &Context) -> Result<(String, ())> {
        for what in ["begins", "ends"] {
            steps.lock().unwrap().push((self.number, what, thread::current().id()));
            // Gives another handler time to start.
            thread::sleep(Duration::from_millis(1));
        }
        Ok((String::new(), ()))
    }
}

/// Handlers run in sequence on the calling thread, and the call returns an outcome and no future.
#[test]
fn blocking_handlers_run_in_sequence_on_the_calling_thread() {
    let group = ToolGroup::<Steps>::new().handler::<Step>().unwrap();
    let call = |number: u8| ToolCall::new("", "step", format!(r#"{{"number": {number}}}"#));
    let steps = Steps::default();
    let outcomes = group.dispatch(&[1, 2, 3].map(call), &steps, &Context::default()).unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.is_ok()));
    let here = thread::current().id();
    let expected =
        [1, 2, 3].map(|number| [(number, "begins", here), (number, "ends", here)]).concat();
    assert_eq!(*steps.lock().unwrap(), expected);
}

#[test]
fn a_blocking_group_inside_a_runtime_is_an_error_and_can_be_dropped() {
    let group = group();
    // The group's runtime exists and is idle.
    group.run(&calls()[0], &8, &Context::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async move {
        let error = group.dispatch(&calls(), &7, &Context::default()).unwrap_err();
        assert!(error.downcast_ref::<InsideRuntime>().is_some());
        assert_eq!(error.stage(), Stage::Setup);
        insta::assert_snapshot!(error, @"a blocking group cannot run inside an async runtime; use `toolwright_group::ToolGroup` there and await it, or give this one a plain thread (`std::thread`)");
        let error = group.run(&calls()[0], &7, &Context::default()).unwrap_err();
        assert!(error.downcast_ref::<InsideRuntime>().is_some());
        drop(group);
    });
}

/// Work that needs the runtime itself, like a timer or a socket: a task.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Wake {}

impl Signature for Wake {
    type Output = String;
}

/// A group that its own handlers can call.
#[derive(Default)]
struct Nest(OnceLock<ToolGroup<Nest>>);

impl Nest {
    fn run(&self, name: &str) -> Result<String> {
        let call = ToolCall::new("1", name, "{}");
        let outcome = self.0.get().unwrap().run(&call, self, &Context::default())?;
        Ok(outcome.content)
    }
}

#[derive(Deserialize, JsonSchema)]
struct Nested {}

impl Handle<Nest> for Nested {
    fn handle(self, nest: &Nest, _cx: &Context) -> Result<(String, ())> {
        let content = thread::scope(|scope| scope.spawn(|| nest.run("wake")).join().unwrap())?;
        Ok((content, ()))
    }
}

#[test]
fn a_handler_may_call_its_own_group_on_another_thread() {
    let wake = from_fn(async |_: Wake| Ok(tokio::spawn(async { "awake".to_owned() }).await?));
    let group = ToolGroup::new().handler::<Nested>().unwrap().module(wake).unwrap();
    let nest = Nest::default();
    nest.0.set(group).unwrap();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(nest.run("nested").unwrap()));
    // Without the thread it would deadlock.
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)).as_deref(), Ok("awake"));
}

/// Ask a task that an earlier call started, like a connection of a pool.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Ask {}

impl Signature for Ask {
    type Output = String;
}

#[derive(Deserialize, JsonSchema)]
struct First {}

impl Handle<Nest> for First {
    fn handle(self, nest: &Nest, _cx: &Context) -> Result<(String, ())> {
        // The first call to ask while another call runs.
        let content = thread::scope(|scope| scope.spawn(|| nest.run("ask")).join().unwrap())?;
        Ok((content, ()))
    }
}

#[test]
fn tasks_of_one_call_continue_during_later_calls() {
    let server = Arc::new(OnceLock::<tokio::sync::mpsc::Sender<oneshot::Sender<String>>>::new());
    let ask = from_fn(move |_: Ask| {
        let server = Arc::clone(&server);
        async move {
            let requests = server.get_or_init(|| {
                let (requests, mut asked) = tokio::sync::mpsc::channel::<oneshot::Sender<_>>(1);
                tokio::spawn(async move {
                    while let Some(answer) = asked.recv().await {
                        let _ = answer.send("here".to_owned());
                    }
                });
                requests
            });
            let (answer, answered) = oneshot::channel();
            requests.send(answer).await?;
            Ok(answered.await?)
        }
    });
    let group = ToolGroup::new().handler::<First>().unwrap().module(ask).unwrap();
    let nest = Nest::default();
    nest.0.set(group).unwrap();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for name in ["first", "ask"] {
            sender.send(nest.run(name).unwrap()).unwrap();
        }
    });
    for _ in 0..2 {
        // Without the thread it would deadlock.
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)).as_deref(), Ok("here"));
    }
}

#[test]
fn a_blocking_group_works_on_many_threads_at_once() {
    let group = group();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let group = &group;
            scope.spawn(move || {
                let outcome = group.run(&calls()[2], &number, &Context::default()).unwrap();
                assert_eq!(outcome.content, "3");
            });
        }
    });
}

/// A program moves from one form to the other by a change of its imports.
#[test]
fn the_blocking_and_the_async_module_have_the_same_names() {
    let [root, blocking] = ["lib.rs", "blocking.rs"].map(exported);
    assert!(root.contains("ToolGroup") && root.contains("Context"), "{root:?}");
    // Only a blocking call can find that it stands inside a runtime.
    let only_blocking = BTreeSet::from(["InsideRuntime".to_owned()]);
    assert_eq!(&root | &only_blocking, blocking);

    // A blocking group dereferences to the async one for what needs no runtime.
    let by_deref = &["bind", "definitions", "get", "wire_form"][..];
    for (name, form, blocking_form, by_deref) in [
        ("ToolGroup", "tool_group.rs", "blocking/tool_group.rs", by_deref),
        ("Handle and Custom", "handle.rs custom.rs", "blocking/handle.rs", &[]),
    ] {
        let [form, mut blocking_form] = [form, blocking_form].map(methods);
        assert!(!form.is_empty(), "{name}");
        blocking_form.extend(by_deref.iter().copied().map(str::to_owned));
        assert_eq!(form, blocking_form, "{name}");
    }
}

fn source(path: &str) -> String {
    std::fs::read_to_string(format!("{}/src/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Returns the names that the `pub use` lines of a module list, and those of its own public items.
fn exported(path: &str) -> BTreeSet<String> {
    let source = source(path);
    let paths = source.split("\npub use ").skip(1).filter_map(|rest| rest.split(';').next());
    let listed = paths.flat_map(|path| {
        let last = path.rsplit_once("::").map_or(path, |(_, last)| last);
        let names = path.split_once('{').map_or(last, |(_, names)| names.trim_end_matches('}'));
        names.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>()
    });
    let own = ["struct", "enum", "trait", "type", "const", "fn", "async fn"];
    let own = own.into_iter().flat_map(|kind| names(&source, &format!("pub {kind} ")));
    listed.filter(|name| !name.is_empty()).chain(own).collect()
}

/// Returns the names of the public methods, and of those of traits, in some files.
fn methods(paths: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in paths.split(' ') {
        let source = source(path);
        let of_traits = source.split("\npub trait ").skip(1);
        let of_traits = of_traits.filter_map(|rest| rest.split("\n}").next());
        for start in ["    pub fn ", "    pub async fn "] {
            found.extend(names(&source, start));
        }
        for body in of_traits {
            for start in ["    fn ", "    async fn "] {
                found.extend(names(body, start));
            }
        }
    }
    found
}

/// Returns the names that follow `start` at the start of a line.
fn names(text: &str, start: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(start));
    lines
        .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
        .collect()
}
