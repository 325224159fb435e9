//! Hooks around model calls and tool calls.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_module::budget::Ledger;
use toolwright_module::error::{Audience, Stage};
use toolwright_module::event::{EventKind, HookAct};
use toolwright_module::hook::{
    AnyHook, AskNext, CallCounts, CallLimit, CallNext, Hook, Retry, limit_calls, redact, refuse,
};
use toolwright_module::message::{Document, Part, Source, ToolResult};
use toolwright_module::model::{BoxFuture, BoxStream, Capabilities, Delta, Usage};
use toolwright_module::predict::PredictEvent;
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Cancellation, Context, Contract, Dialect, Effect, Error, LanguageModel, Message, Predict,
    Reply, Request, Result, Signature, Tool, ToolCall, ToolOutput, from_fn, runner,
};

use crate::support::{SUMMARY, Summarize, summarize};

/// Look up a customer.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Lookup {
    name: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Customer {
    mail: String,
}

impl Signature for Lookup {
    type Output = Customer;
}

/// A tool with this effect, and the number of its calls.
fn lookup(effect: Effect) -> (Tool, Arc<AtomicU32>) {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let module = from_fn(move |lookup: Lookup| {
        let nth = counted.fetch_add(1, Ordering::Relaxed);
        async move {
            match lookup.name.as_str() {
                "late" if nth == 0 => Err(Error::other("timeout").retryable(true)),
                "nobody" => Err(Error::retry("kate@example.com is not nobody")),
                name => Ok(Customer { mail: format!("{name}@example.com") }),
            }
        }
    });
    (Tool::new(module.with_effect(effect)).unwrap(), calls)
}

fn hi() -> Request {
    Request::new([Message::user("Hi!")])
}

/// A context whose hook events are recorded as `hook tool did`.
fn recorded() -> (Context, Arc<Mutex<Vec<String>>>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&events);
    let cx = Context::default().with_events(move |event| {
        let text = match &event.kind {
            EventKind::HookActed { hook, tool, did } => {
                format!("{hook} {} {did:?}", tool.as_deref().unwrap_or("-"))
            }
            EventKind::TextDelta { text } => text.clone(),
            _ => return,
        };
        kept.lock().unwrap().push(text);
    });
    (cx, events)
}

fn taken(events: &Mutex<Vec<String>>) -> Vec<String> {
    std::mem::take(&mut events.lock().unwrap())
}

/// Fails with a retryable error as often as `failures` says.
fn failing(failures: u32) -> Scripted<impl Fn(&Request) -> Result<Reply> + Send + Sync + 'static> {
    let calls = AtomicU32::new(0);
    Scripted::new(move |_| {
        if calls.fetch_add(1, Ordering::Relaxed) < failures {
            return Err(Error::other("overloaded").at(Stage::Provider).retryable(true));
        }
        Ok(Reply::text("Hello there.").with_usage(Usage::new(3, 2)))
    })
}

fn quick(retries: u32) -> Retry {
    Retry { retries, wait: Duration::from_millis(1), ..Retry::default() }
}

#[tokio::test]
async fn each_retry_is_counted_and_emits_an_event() {
    let (cx, events) = recorded();
    let ledger = Ledger::default();
    let cx = cx.with_ledger(ledger.clone()).with_hook(quick(2));
    let reply = cx.ask(&failing(2), hi(), false).await.unwrap();
    assert_eq!(reply.to_text(), "Hello there.");
    assert_eq!(ledger.spent().model_calls, 3);
    assert_eq!(taken(&events), ["retry - Retried", "retry - Retried"]);

    let error = cx.ask(&failing(3), hi(), false).await.unwrap_err();
    assert_eq!((error.to_string().as_str(), ledger.spent().model_calls), ("overloaded", 6));
}

#[tokio::test]
async fn a_retry_waits_neither_beyond_the_deadline_nor_after_a_cancellation() {
    let slow = Retry { retries: 3, wait: Duration::from_secs(60), ..Retry::default() };
    let cx = Context::default().with_hook(slow.clone());
    let soon = cx.clone().with_deadline(Instant::now() + Duration::from_secs(1));
    let error = soon.ask(&failing(1), hi(), false).await.unwrap_err();
    assert_eq!(error.to_string(), "overloaded");

    let cancellation = Cancellation::default();
    let cx = cx.with_cancellation(cancellation.clone());
    let model = failing(1);
    let asked = async { cx.ask(&model, hi(), false).await.unwrap_err().stage() };
    let cancels = async {
        tokio::task::yield_now().await;
        cancellation.cancel();
    };
    assert_eq!(tokio::join!(asked, cancels).0, Stage::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_as_long_as_the_server_asks_but_not_longer_than_its_maximum() {
    for (asked, calls, waited) in [(20, 2, 20), (31, 1, 0)] {
        let ledger = Ledger::default();
        let cx = Context::default()
            .with_ledger(ledger.clone())
            .with_hook(Retry { retries: 1, ..Retry::default() });
        let model = Scripted::new(move |_| {
            Err(Error::other("later").with_retry_after(Duration::from_secs(asked)))
        });
        let started = tokio::time::Instant::now();
        cx.ask(&model, hi(), false).await.unwrap_err();
        assert_eq!(ledger.spent().model_calls, calls);
        assert_eq!(started.elapsed().as_secs(), waited);
    }
}

#[tokio::test]
async fn only_tool_calls_that_may_be_repeated_are_retried() {
    let cx = Context::default().with_hook(quick(1));
    for (effect, calls) in [(Effect::Read, 2), (Effect::Idempotent, 2), (Effect::Write, 1)] {
        let (tool, made) = lookup(effect);
        let called = tool.call(r#"{"name": "late"}"#, &cx).await;
        assert_eq!((called.is_ok(), made.load(Ordering::Relaxed)), (calls == 2, calls));
    }
}

#[tokio::test]
async fn a_refused_call_does_not_reach_its_tool_and_the_model_reads_the_reason() {
    let (cx, events) = recorded();
    let rule = |name: &str, effect: Effect, arguments: &str| {
        (effect == Effect::Write && arguments.contains("kate"))
            .then(|| format!("`{name}` is closed for Kate"))
    };
    let cx = cx.with_hook(refuse(rule));
    let (tool, calls) = lookup(Effect::Write);
    let error = tool.call(r#"{"name": "kate"}"#, &cx).await.unwrap_err();
    assert_eq!(error.audience(), Audience::ModelFinal);
    assert_eq!(error.for_model(), "`lookup` is closed for Kate");
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    assert_eq!(taken(&events), ["refuse lookup Refused"]);
    tool.call(r#"{"name": "john"}"#, &cx).await.unwrap();
    assert_eq!((calls.load(Ordering::Relaxed), taken(&events).len()), (1, 0));
}

fn without_kate(text: &str) -> Cow<'_, str> {
    match text.contains("kate") {
        true => Cow::Owned(text.replace("kate", "[name]")),
        false => Cow::Borrowed(text),
    }
}

#[tokio::test]
async fn redaction_replaces_what_a_model_reads_and_keeps_the_value() {
    let (cx, events) = recorded();
    let cx = cx.with_hook(redact(without_kate));
    let (tool, _) = lookup(Effect::Read);
    let output = tool.call("{'name': 'kate'}", &cx).await.unwrap();
    assert_eq!(output.text, r#"{"mail":"[name]@example.com"}"#);
    assert_eq!(output.value().unwrap().unwrap(), json!({"mail": "kate@example.com"}));
    assert!(output.repaired.is_some(), "the repairs stay too");
    assert_eq!(taken(&events), ["redact lookup Changed"]);
    let error = tool.call(r#"{"name": "nobody"}"#, &cx).await.unwrap_err();
    assert_eq!(error.for_model(), "[name]@example.com is not nobody");

    taken(&events);
    let call = ToolCall::new("1", "lookup", "{}");
    let messages = [
        Message::system("You help kate."),
        Message::user_parts([Part::from("I am kate."), Part::from("Hi!")]),
        Arc::new(Message::Tool(ToolResult::new(&call, "kate is known"))),
        Message::user("Who am I?"),
    ];
    let model = Scripted::new(|_| Ok(Reply::text("You.")));
    cx.ask(&model, Request::new(messages.clone()), false).await.unwrap();
    let sent = &model.requests()[0].messages;
    let expected = [
        Message::system("You help [name]."),
        Message::user_parts([Part::from("I am [name]."), Part::from("Hi!")]),
        Arc::new(Message::Tool(ToolResult::new(&call, "[name] is known"))),
    ];
    assert_eq!(sent[..3], expected);
    assert!(Arc::ptr_eq(&sent[3], &messages[3]), "a message without a match stays shared");
    assert_eq!(taken(&events), ["redact - Changed"]);
}

#[tokio::test]
async fn redaction_leaves_out_a_whole_text_that_was_put_into_a_request() {
    let cx = Context::default().with_hook(redact(without_kate));
    let mut result = ToolResult::new(&ToolCall::new("1", "lookup", "{}"), "The start");
    (result.whole, result.lost_bytes) = (Some("The start, and kate".into()), 5);
    let mut request = Request::new([Message::user("Hi!")]);
    request.messages.push(Arc::new(Message::Tool(result.clone())));
    let model = Scripted::new(|_| Ok(Reply::text("Hi.")));
    cx.ask(&model, request, false).await.unwrap();
    (result.whole, result.lost_bytes) = (None, 0);
    assert_eq!(*model.requests()[0].messages[1], Message::Tool(result));
}

#[tokio::test]
async fn redaction_replaces_the_text_of_documents() {
    let (cx, events) = recorded();
    let cx = cx.with_hook(redact(without_kate));
    let notes = |text: &str| Part::from(Document::bytes("text/csv", text.as_bytes()));
    let url = "data:text/plain;base64,SSBhbSBrYXRlLg==".to_owned();
    let picture = Part::from(Document::bytes("application/pdf", *b"kate"));
    let parts = [notes("kate,1"), Part::from(Document::from(Source::Url(url))), picture.clone()];
    let redacted =
        [notes("[name],1"), Part::from(Document::bytes("text/plain", *b"I am [name].")), picture];

    let contract = Contract::dynamic("notes", "Notes.", json!({"type": "object"}), None).unwrap();
    let found = parts.clone();
    let tool = Tool::dynamic(contract, Effect::Read, move |_, _| {
        let output = ToolOutput::text_only("here").with_parts(found.clone());
        async move { Ok(output) }
    });
    assert_eq!(tool.call("{}", &cx).await.unwrap().parts, redacted);
    assert_eq!(taken(&events), ["redact notes Changed"]);

    let call = ToolCall::new("1", "notes", "{}");
    let result = ToolResult::new(&call, "here").with_parts(parts.clone());
    let model = Scripted::new(|_| Ok(Reply::text("Done.")));
    let request = Request::new([Message::user_parts(parts), Arc::new(Message::Tool(result))]);
    cx.ask(&model, request, false).await.unwrap();
    let sent = &model.requests()[0].messages;
    assert_eq!(sent[0], Message::user_parts(redacted.clone()));
    let Message::Tool(result) = &*sent[1] else { panic!("not a result: {:?}", sent[1]) };
    assert_eq!(result.parts, redacted);
}

/// A hook that notes its calls, and may answer them.
#[derive(Default)]
struct Note {
    name: &'static str,
    seen: Arc<Mutex<Vec<String>>>,
    answers: bool,
}

impl Note {
    fn see(&self, what: &str) {
        self.seen.lock().unwrap().push(format!("{}: {what}", self.name));
    }
}

impl Hook for Note {
    fn name(&self) -> &str {
        self.name
    }

    async fn model(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
        self.see(next.model.name());
        if self.answers {
            return Ok(Reply::text("instead"));
        }
        let reply = next.run(request).await;
        self.see("replied");
        reply
    }

    async fn tool(&self, arguments: String, next: CallNext<'_>) -> Result<ToolOutput> {
        self.see(&format!("{} {:?} {arguments}", next.contract.name(), next.effect));
        match self.answers {
            true => Ok(ToolOutput::text_only("instead")),
            false => next.run(arguments).await,
        }
    }
}

#[tokio::test]
async fn hooks_nest_in_the_order_in_which_they_were_added() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = |name| Note { name, seen: Arc::clone(&seen), answers: false };
    // A handle stays with the program.
    let inner = Arc::new(note("inner"));
    let cx = Context::default().with_hook(AnyHook::new(note("outer"))).with_hook(inner.clone());
    cx.ask(&failing(0), hi(), false).await.unwrap();
    let (tool, _) = lookup(Effect::Read);
    tool.call(r#"{"name":"a"}"#, &cx).await.unwrap();
    assert_eq!(
        *inner.seen.lock().unwrap(),
        [
            "outer: scripted",
            "inner: scripted",
            "inner: replied",
            "outer: replied",
            r#"outer: lookup Read {"name":"a"}"#,
            r#"inner: lookup Read {"name":"a"}"#,
        ],
    );
}

#[tokio::test]
async fn a_hook_may_answer_in_place_of_the_model_and_of_a_tool() {
    let (cx, events) = recorded();
    let ledger = Ledger::default();
    let note = Note { name: "cache", answers: true, ..Note::default() };
    let cx = cx.with_ledger(ledger.clone()).with_hook(note);
    let reply = cx.ask(&failing(9), hi(), true).await.unwrap();
    assert_eq!((reply.to_text().as_str(), ledger.spent().model_calls), ("instead", 0));
    // The listener sees the text that no model streamed.
    assert_eq!(taken(&events), ["cache - Answered", "instead"]);
    let (tool, calls) = lookup(Effect::Read);
    assert_eq!(tool.call("{}", &cx).await.unwrap().text, "instead");
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    assert_eq!(taken(&events), ["cache lookup Answered"]);
}

/// Asks a model about each request, and calls a tool around each tool call.
struct Judge(Arc<AtomicU32>);

impl Hook for Judge {
    fn name(&self) -> &str {
        "judge"
    }

    async fn model(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
        self.0.fetch_add(1, Ordering::Relaxed);
        next.cx().ask(next.model, request.clone(), false).await?;
        next.run(request).await
    }
}

#[tokio::test]
async fn a_hooks_own_calls_pass_the_other_hooks_and_not_the_hook_itself() {
    let (seen, judged) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU32::new(0)));
    let note = Note { name: "note", seen: Arc::clone(&seen), answers: false };
    let cx = Context::default().with_hook(note).with_hook(Judge(Arc::clone(&judged)));
    cx.ask(&failing(0), hi(), false).await.unwrap();
    assert_eq!((judged.load(Ordering::Relaxed), seen.lock().unwrap().len()), (1, 4));
}

/// Shouts the text of a reply, and refuses a certain one.
struct Shout {
    whole: bool,
}

impl Hook for Shout {
    fn name(&self) -> &str {
        "shout"
    }

    async fn model(&self, request: Request, mut next: AskNext<'_>) -> Result<Reply> {
        next.stream &= !self.whole;
        let reply = next.run(request).await?;
        let text = reply.to_text();
        if text == "bad" {
            return Err(Error::refuse("not this"));
        }
        let text = text.replace("rained", "POURED").replace("there", "THERE");
        Ok(Reply::text(text).with_usage(reply.usage))
    }
}

#[tokio::test]
async fn listeners_get_pieces_unless_a_hook_wants_the_whole_reply() {
    for (whole, pieces) in [(false, vec!["Hello ", "there."]), (true, vec!["Hello THERE."])] {
        let (cx, events) = recorded();
        let cx = cx.with_hook(Shout { whole });
        let reply = cx.ask(&failing(0), hi(), true).await.unwrap();
        assert_eq!(reply.to_text(), "Hello THERE.");
        assert_eq!(taken(&events), pieces);
    }
    let (cx, events) = recorded();
    let cx = cx.with_hook(Shout { whole: true });
    let bad = Scripted::new(|_| Ok(Reply::text("bad")));
    assert_eq!(cx.ask(&bad, hi(), true).await.unwrap_err().for_model(), "not this");
    assert_eq!(taken(&events), ["shout - Refused"]);
}

/// Streams these deltas, one list for each request.
struct Streams(Mutex<Vec<Vec<Result<Delta>>>>);

impl LanguageModel for Streams {
    fn name(&self) -> &str {
        "streams"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async { Ok(Reply::text(SUMMARY)) })
    }

    fn stream<'a>(&'a self, _: Request) -> BoxStream<'a, Result<Delta>> {
        let deltas = stream::iter(self.0.lock().unwrap().remove(0));
        let one_by_one = |delta| async {
            tokio::task::yield_now().await;
            delta
        };
        deltas.then(one_by_one).boxed()
    }
}

fn text(text: &str) -> Result<Delta> {
    Ok(Delta::Text(text.to_owned()))
}

fn done() -> Result<Delta> {
    Ok(Delta::Done(Box::new(Reply::text(SUMMARY))))
}

/// The events of a predictor's stream, and the sentence at its end.
async fn streamed(streams: Vec<Vec<Result<Delta>>>, cx: &Context) -> (Vec<String>, String) {
    let predict = Predict::<Summarize>::new(Streams(Mutex::new(streams))).unwrap();
    let mut stream = predict.stream(summarize(), cx);
    let (mut events, mut sentence) = (Vec::new(), String::new());
    while let Some(event) = stream.next().await {
        match event.unwrap() {
            PredictEvent::Text(text) => events.push(text),
            PredictEvent::Discard => events.push("(discard)".to_owned()),
            PredictEvent::Done(summary) => sentence = summary.sentence,
            _ => {}
        }
    }
    (events, sentence)
}

#[tokio::test]
async fn a_predictors_stream_passes_the_hooks() {
    let (start, end) = SUMMARY.split_at(12);
    let whole = || vec![text(start), text(end), done()];
    let changed = SUMMARY.replace("rained", "POURED");

    let cx = Context::default().with_hook(Note { name: "note", ..Note::default() });
    assert_eq!(
        streamed(vec![whole()], &cx).await,
        (vec![start.into(), end.into()], "It rained.".into())
    );
    // A changed reply replaces the pieces that were shown.
    let cx = Context::default().with_hook(Shout { whole: false });
    let expected = vec![start.into(), end.into(), "(discard)".into(), changed.clone()];
    assert_eq!(streamed(vec![whole()], &cx).await, (expected, "It POURED.".into()));
    // Or none are shown.
    let cx = Context::default().with_hook(Shout { whole: true });
    assert_eq!(streamed(vec![], &cx).await, (vec![changed], "It POURED.".into()));
    // A stream that breaks off is started again.
    let cx = Context::default().with_hook(quick(1));
    let broken = vec![text(start), Err(Error::other("connection lost").retryable(true))];
    let expected = vec![start.into(), "(discard)".into(), start.into(), end.into()];
    assert_eq!(streamed(vec![broken, whole()], &cx).await, (expected, "It rained.".into()));
}

/// Runs a call twice at the same time, and returns one of the replies.
struct Both {
    first: bool,
}

impl Hook for Both {
    fn name(&self) -> &str {
        "both"
    }

    async fn model(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
        let (first, second) = tokio::join!(next.run(request.clone()), next.run(request));
        if self.first { first } else { second }
    }
}

#[tokio::test]
async fn the_pieces_of_two_runs_at_the_same_time_are_not_mixed() {
    let (start, end) = SUMMARY.split_at(12);
    let other = SUMMARY.replace("rained", "snowed");
    let (other_start, other_end) = other.split_at(12);
    let replied = |text: &str| Ok(Delta::Done(Box::new(Reply::text(text))));
    let both = || {
        let one = vec![text(start), text(end), replied(SUMMARY)];
        vec![one, vec![text(other_start), text(other_end), replied(&other)]]
    };
    let second = [other_start, other_end].map(String::from);
    let then_first = second.iter().cloned().chain(["(discard)".into(), SUMMARY.into()]);
    for (first, pieces) in [(false, second.to_vec()), (true, then_first.collect())] {
        let cx = Context::default().with_hook(Both { first });
        let sentence = if first { "It rained." } else { "It snowed." };
        assert_eq!(streamed(both(), &cx).await, (pieces, sentence.into()));

        let (cx, events) = recorded();
        let cx = cx.with_hook(Both { first });
        cx.ask(&Streams(Mutex::new(both())), hi(), true).await.unwrap();
        assert_eq!(taken(&events), ["both - Retried", other_start, other_end]);
    }
}

#[tokio::test]
async fn a_reader_of_a_stream_gets_the_text_of_a_hook_that_answers() {
    struct Cached(Mutex<Vec<&'static str>>);
    impl Hook for Cached {
        fn name(&self) -> &str {
            "cached"
        }

        async fn model(&self, _: Request, _: AskNext<'_>) -> Result<Reply> {
            Ok(Reply::text(self.0.lock().unwrap().remove(0)))
        }
    }
    let cx = Context::default().with_hook(Cached(Mutex::new(vec![SUMMARY])));
    assert_eq!(streamed(vec![], &cx).await, (vec![SUMMARY.into()], "It rained.".into()));
    // Also that of an answer that does not fit.
    let cx = Context::default().with_hook(Cached(Mutex::new(vec!["Rain.", SUMMARY])));
    let pieces = ["Rain.", "(discard)", SUMMARY].map(String::from).to_vec();
    assert_eq!(streamed(vec![], &cx).await, (pieces, "It rained.".into()));
}

/// Fails or panics, before or after its call.
struct Broken {
    panics: bool,
    after: bool,
}

impl Broken {
    fn end<T>(&self) -> Result<T> {
        assert!(!self.panics, "no rules");
        Err(Error::other("rules.txt: no such file"))
    }
}

impl Hook for Broken {
    fn name(&self) -> &str {
        "broken"
    }

    async fn model(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
        if self.after {
            next.run(request).await?;
        }
        self.end()
    }

    async fn tool(&self, arguments: String, next: CallNext<'_>) -> Result<ToolOutput> {
        if self.after {
            next.run(arguments).await?;
        }
        self.end()
    }
}

#[tokio::test]
async fn a_hook_that_fails_or_panics_fails_its_call_only() {
    let (tool, calls) = lookup(Effect::Read);
    for (panics, stage, says) in [
        (true, Stage::Panic, "the hook `broken` panicked: no rules"),
        (false, Stage::Module, "rules.txt: no such file"),
    ] {
        for after in [false, true] {
            let cx = Context::default().with_hook(Broken { panics, after });
            for stream in [false, true] {
                let error = cx.ask(&failing(0), hi(), stream).await.unwrap_err();
                assert_eq!((error.stage(), error.to_string().as_str()), (stage, says));
            }
            let predict = Predict::<Summarize>::new(failing(0)).unwrap();
            let mut events: Vec<_> = predict.stream(summarize(), &cx).collect().await;
            assert_eq!(events.pop().unwrap().unwrap_err().stage(), stage);
            let before = calls.load(Ordering::Relaxed);
            let error = tool.call(r#"{"name": "a"}"#, &cx).await.unwrap_err();
            assert_eq!(error.stage(), stage);
            assert_eq!(error.for_model(), "The tool failed. The reason is not shown to you.");
            assert_eq!(calls.load(Ordering::Relaxed) - before, u32::from(after));
        }
    }
}

#[tokio::test]
async fn an_agents_own_hooks_are_inside_those_of_the_context() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = |name| Note { name, seen: Arc::clone(&seen), answers: false };
    let (cx, own) = (Context::default().with_hook(note("context")), [AnyHook::new(note("own"))]);
    // The tool's own calls pass the hooks of the context, and not those of the agent.
    let contract = Contract::dynamic("outer", "", json!({"type": "object"}), None).unwrap();
    let tool = Tool::dynamic(contract, Effect::Read, |_, cx| async move {
        cx.ask(&failing(0), hi(), false).await?;
        Ok(ToolOutput::text_only("done"))
    });
    runner::ask(&cx, &own, &failing(0), hi(), false, None).await.unwrap();
    runner::call(&tool, &own, "{}", &cx).await.unwrap();
    let expected = [
        "context: scripted",
        "own: scripted",
        "own: replied",
        "context: replied",
        "context: outer Read {}",
        "own: outer Read {}",
        "context: scripted",
        "context: replied",
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[test]
fn the_event_of_a_hook_is_one_json_object() {
    let kind = EventKind::HookActed {
        hook: "retry".to_owned(),
        tool: Some("lookup".to_owned()),
        did: HookAct::Retried,
    };
    let json = json!({"event": "hook_acted", "hook": "retry", "tool": "lookup", "did": "retried"});
    assert_eq!(serde_json::to_value(kind).unwrap(), json);
}

/// A context of this user with a limit of calls of `lookup`.
fn limited(limit: CallLimit, counts: &Arc<CallCounts>, user: &str) -> Context {
    let hook = limit_calls(limit, Arc::clone(counts), |tool, cx| {
        let user = cx.metadata()?.get("user")?;
        (tool == "lookup").then(|| format!("{tool} {user}"))
    });
    Context::default().with_run("run", [("user", user)]).with_hook(hook)
}

#[tokio::test]
async fn calls_are_limited_for_each_user_across_contexts() {
    let (tool, calls) = lookup(Effect::Write);
    let other = tool.clone().named("other").unwrap();
    let counts = Arc::default();
    let limit = CallLimit { calls: 2, time: Duration::from_secs(3600) };
    let kate = || limited(limit, &counts, "kate");
    let ask = r#"{"name": "kate"}"#;
    tool.call(ask, &kate()).await.unwrap();
    // It did not begin: the arguments do not fit.
    tool.call("{}", &kate()).await.unwrap_err();
    tool.call(ask, &kate()).await.unwrap();
    let error = tool.call(ask, &kate()).await.unwrap_err();
    assert_eq!(
        error.for_model(),
        "This call was not made: `lookup` may be called 2 times in 3600s, and was. Do without it."
    );
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    // Another user, another tool, and a context without a user.
    tool.call(ask, &limited(limit, &counts, "bob")).await.unwrap();
    other.call(ask, &kate()).await.unwrap();
    // A failed call counts: it may have changed something.
    let once = CallLimit { calls: 1, ..limit };
    let eve = limited(once, &counts, "eve");
    tool.call(r#"{"name": "nobody"}"#, &eve).await.unwrap_err();
    let error = tool.call(ask, &eve).await.unwrap_err();
    assert!(error.for_model().contains("was not made"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_side_by_side_are_counted_once_each_and_a_limit_moves_with_the_clock() {
    let (tool, calls) = lookup(Effect::Write);
    let counts = Arc::default();
    let limit = CallLimit { calls: 7, time: Duration::from_secs(3600) };
    let made: Vec<_> = (0..50)
        .map(|_| {
            let (tool, cx) = (tool.clone(), limited(limit, &counts, "kate"));
            tokio::spawn(async move { tool.call(r#"{"name": "kate"}"#, &cx).await.is_ok() })
        })
        .collect();
    let mut ok = 0;
    for made in made {
        ok += u32::from(made.await.unwrap());
    }
    assert_eq!((ok, calls.load(Ordering::Relaxed)), (7, 7));
    let brief = CallLimit { calls: 1, time: Duration::from_millis(20) };
    let cx = limited(brief, &Arc::default(), "kate");
    tool.call(r#"{"name": "kate"}"#, &cx).await.unwrap();
    tokio::time::sleep(Duration::from_millis(30)).await;
    tool.call(r#"{"name": "kate"}"#, &cx).await.unwrap();
}
