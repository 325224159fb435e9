//! Hooks of a context, around the calls of agents.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::budget::Ledger;
use toolwright_module::event::EventKind;
use toolwright_module::hook::{AskNext, CallNext, Hook, Retry, refuse};
use toolwright_module::message::Message;
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Effect, Error, Reply, Request, Result, Signature, Tool, ToolCall, ToolOutput,
};
use toolwright_orchestrator::{Agent, Task};

use crate::support::{self, act, agent, calls, look, react, replies, tidy};

/// Notes each call with its path.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, cx: &Context, what: &str) {
        let path: Vec<String> = cx.path().into_iter().map(|call| call.tool).collect();
        self.0.lock().unwrap().push(format!("{} {what}", path.join(" > ")).trim().to_owned());
    }
}

impl Hook for Log {
    fn name(&self) -> &str {
        "log"
    }

    async fn model(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
        self.note(next.cx(), "asks");
        next.run(request).await
    }

    async fn tool(&self, arguments: String, next: CallNext<'_>) -> Result<ToolOutput> {
        self.note(next.cx(), &format!("calls {:?}", next.effect));
        next.run(arguments).await
    }
}

/// An agent whose only tool is an agent that looks at a place.
fn nested() -> Agent {
    let (helper, _) = agent([look()], [calls([("2", "look", "attic")]), Reply::text("Empty.")]);
    let helper = Tool::new(helper).unwrap().named("helper").unwrap();
    let task = ToolCall::new("1", "helper", r#"{"task": "Look at the attic."}"#);
    agent([helper], [Reply::calls([task]), Reply::text("It is empty.")]).0
}

#[tokio::test]
async fn a_hook_sees_every_call_of_an_agent_and_of_the_agents_below_it() {
    let log = Log::default();
    let cx = Context::default().with_hook(log.clone());
    for events in [false, true] {
        // With a listener, replies are streamed.
        let cx = if events { cx.clone().with_events(|_| ()) } else { cx.clone() };
        let finished = nested().run("Look.", &cx).await.unwrap();
        assert_eq!(finished.answer, "It is empty.");
        let seen = std::mem::take(&mut *log.0.lock().unwrap());
        let expected = [
            "asks",
            "helper calls Read",
            "helper asks",
            "helper > look calls Read",
            "helper asks",
            "asks",
        ];
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn the_model_reads_the_reason_of_a_refusal_and_the_run_goes_on() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&events);
    let cx = Context::default()
        .with_hook(refuse(|name, effect, _| {
            (effect > Effect::Read).then(|| format!("`{name}` is closed on Sundays"))
        }))
        .with_events(move |event| {
            if let EventKind::HookActed { hook, tool, did } = &event.kind {
                let path: Vec<_> = event.path.iter().map(|call| call.id.clone()).collect();
                kept.lock().unwrap().push(format!("{path:?} {hook} {tool:?} {did:?}"));
            }
        });
    let turn = calls([("1", "look", "attic"), ("2", "tidy", "attic")]);
    let (agent, asked) = agent([look(), tidy()], [turn, Reply::text("Not today.")]);
    assert_eq!(agent.run("Tidy.", &cx).await.unwrap().answer, "Not today.");
    let results: Vec<_> = asked.requests()[1]
        .messages
        .iter()
        .filter_map(|message| match &**message {
            Message::Tool(result) => Some((result.text.clone(), result.failed)),
            _ => None,
        })
        .collect();
    let expected = [("attic is empty".into(), false), ("`tidy` is closed on Sundays".into(), true)];
    assert_eq!(results, expected);
    assert_eq!(*events.lock().unwrap(), [r#"["2"] refuse Some("tidy") Refused"#]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_keeps_a_run_alive_and_its_ledger_counts_it() {
    let asked = AtomicU32::new(0);
    let model = Scripted::new(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Err(Error::other("overloaded").retryable(true)),
        _ => Ok(Reply::text("Done.")),
    });
    let agent = Agent::new(model, []).unwrap();
    let ledger = Ledger::default();
    let retry = Retry { retries: 2, wait: Duration::from_secs(10), ..Retry::default() };
    let cx = Context::default().with_ledger(ledger.clone()).with_hook(retry);
    let started = tokio::time::Instant::now();
    let finished = agent.run("Do it.", &cx).await.unwrap();
    assert_eq!((finished.answer.as_str(), ledger.spent().model_calls), ("Done.", 3));
    // At least half of 10 and 20 seconds.
    assert!(started.elapsed() >= Duration::from_secs(15));
    assert!(started.elapsed() <= Duration::from_secs(30));
}

#[tokio::test]
async fn a_tool_call_counts_once_however_often_a_hook_runs_it() {
    struct Thrice;
    impl Hook for Thrice {
        fn name(&self) -> &str {
            "thrice"
        }

        async fn tool(&self, arguments: String, next: CallNext<'_>) -> Result<ToolOutput> {
            next.run(arguments.clone()).await?;
            next.run(arguments.clone()).await?;
            next.run(arguments).await
        }
    }
    let (agent, _) = agent([look()], [calls([("1", "look", "attic")]), Reply::text("Empty.")]);
    let finished = agent.run("Look.", &Context::default().with_hook(Thrice)).await.unwrap();
    assert_eq!(finished.spent.tool_calls, 1);
}

#[tokio::test]
async fn the_hooks_of_an_agent_see_its_own_calls_and_none_below() {
    struct Counts(support::Log);
    impl Hook for Counts {
        fn name(&self) -> &str {
            "counts"
        }

        async fn model(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
            self.0.write("model");
            next.run(request).await
        }

        async fn tool(&self, arguments: String, next: CallNext<'_>) -> Result<ToolOutput> {
            self.0.write(next.contract.name());
            next.run(arguments).await
        }
    }
    let (helper, _) =
        agent([look()], [calls([("x", "look", "the hall")]), Reply::text("It is empty.")]);
    let helper = Tool::new(helper).unwrap().named("helper").unwrap();
    let call = ToolCall::new("h", "helper", r#"{"task": "Look."}"#);
    let (outer, _) = agent([helper], [Reply::calls([call]), Reply::text("Done.")]);
    let log = support::Log::default();
    outer.with_hook(Counts(log.clone())).run("Go.", &Context::default()).await.unwrap();
    assert_eq!(log.entries(), ["model", "helper", "model"]);
}

#[tokio::test]
async fn the_rules_of_an_agent_are_read_by_its_model() {
    let (agent, asked) = agent([], [Reply::text("Perhaps."), Reply::text("Yes.")]);
    let agent = agent.with_validator(|task: &Task, answer: &String| {
        assert_eq!(task.task, "Is it late?");
        match answer.as_str() {
            "Yes." => Ok(()),
            _ => Err(Error::retry("say yes or no")),
        }
    });
    let finished = agent.run("Is it late?", &Context::default()).await.unwrap();
    assert_eq!((finished.answer.as_str(), finished.iterations), ("Yes.", 1));
    let last = asked.requests()[1].messages.last().cloned().unwrap();
    let Message::User { parts } = &*last else { panic!() };
    assert_eq!(parts, &["That answer cannot be used: say yes or no".into()]);

    let broken = |_: &Task, _: &String| Err(Error::other("the database is down"));
    let agent = agent.with_model(Scripted::replies([Reply::text("Yes.")])).unwrap();
    let error = agent.with_validator(broken).run("Is it late?", &Context::default()).await;
    assert_eq!(error.unwrap_err().to_string(), "the database is down");
}

#[tokio::test]
async fn the_rules_of_a_typed_agent_get_its_input_and_output() {
    /// Choose a table.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct ChooseTable {
        guests: u32,
    }
    impl Signature for ChooseTable {
        type Output = u32;
    }
    let finish = |id: &str, seats: u32| {
        Reply::calls([ToolCall::new(id, "finish", format!(r#"{{"result": {seats}}}"#))])
    };
    let (model, asked) = replies([finish("1", 2), finish("2", 6)]);
    let agent = react::<ChooseTable>(model, []).unwrap().with_validator(
        |book: &ChooseTable, seats: &u32| {
            if *seats >= book.guests {
                Ok(())
            } else {
                Err(Error::retry("That table is too small."))
            }
        },
    );
    let finished = act(&agent, ChooseTable { guests: 4 }, &Context::default()).await.unwrap();
    assert_eq!(finished.answer, 6);
    let last = asked.requests()[1].messages.last().cloned().unwrap();
    let Message::Tool(result) = &*last else { panic!() };
    assert_eq!(result.text, "That table is too small. Call `finish` again.");
}
