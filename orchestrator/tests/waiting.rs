//! Agents that wait for the budget of others, and the model call that is kept for an answer.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use tokio::time::Instant;
use toolwright_module::budget::{Budget, Exhausted, Ledger, LimitKind, Money, Price, Spent};
use toolwright_module::event::Ending;
use toolwright_module::model::{BoxFuture, Capabilities, Settings, Usage};
use toolwright_module::{
    Context, Dialect, Effect, Error, LanguageModel, Message, Reply, Request, Result, Tool,
    ToolCall, from_fn_with,
};
use toolwright_orchestrator::perform::{Replay, with_performer};
use toolwright_orchestrator::{Agent, Limits, Progress};

use crate::support::{Look, look, ten_tokens, within};

/// A model that calls all its tools in its first reply, and answers in its second.
struct Manager;

impl LanguageModel for Manager {
    fn name(&self) -> &str {
        "manager"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        let results = request.messages.iter().filter(|said| matches!(&***said, Message::Tool(_)));
        let answers = results.count() > 0 || request.tools.is_empty();
        let calls = request.tools.iter().enumerate().map(|(place, tool)| {
            let arguments = r#"{"task": "Go.", "place": "here"}"#;
            let arguments = if tool.name() == "look" { r#"{"place": "here"}"# } else { arguments };
            let arguments = arguments.replace(r#", "place": "here""#, "");
            ToolCall::new(format!("call_{place}"), tool.name(), arguments)
        });
        let reply = match answers {
            true => Reply::text("Known."),
            false => Reply::calls(calls.collect::<Vec<_>>()),
        };
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(reply.with_usage(Usage::new(10, 5)))
        })
    }
}

fn agent(tools: impl IntoIterator<Item = Tool>, limits: Limits, most: u64) -> Agent {
    let settings = Settings::default().with_max_output_tokens(most);
    let agent = Agent::new(Manager, tools).unwrap();
    agent.with_limits(limits).with_settings(settings).unwrap()
}

/// Returns agents as tools that run side by side.
fn researchers(count: usize, most: u64) -> Vec<Tool> {
    let tool = |number| {
        let researcher = agent([look()], Limits::default(), most);
        let tool = Tool::new(researcher).unwrap().with_effect(Effect::Read);
        tool.named(&format!("researcher_{number}")).unwrap()
    };
    (0..count).map(tool).collect()
}

fn money(amount: f64) -> Ledger {
    let prices = [("manager", Price::per_million(1.0, 10.0))];
    Ledger::new(Budget { money: Some(Money::new(amount)), ..Budget::default() }).with_prices(prices)
}

#[tokio::test(start_paused = true)]
async fn six_researchers_share_a_budget_that_has_room_for_a_few_at_a_time() {
    // Each model call may cost about 0.01, and costs 0.00006.
    let ledger = money(0.03);
    let cx = Context::default().with_ledger(ledger.clone());
    let outer = agent(researchers(6, 1_000), Limits::default(), 1_000);
    let finished = outer.run("Go.", &cx).await.unwrap();
    assert_eq!((finished.ending, &*finished.answer), (Ending::Answered, "Known."));
    assert_eq!((finished.failures.len(), finished.spent.model_calls), (0, 2 + 6 * 2));
    assert_eq!((ledger.committed(), ledger.spent()), (finished.spent, finished.spent));
}

#[tokio::test(start_paused = true)]
async fn researchers_wait_under_every_kind_of_ledger_and_at_every_depth() {
    let ledgers = [
        (Budget { output_tokens: Some(2_500), ..Budget::default() }, 1_000),
        (Budget { input_tokens: Some(3_000), ..Budget::default() }, 1_000),
    ];
    for (budget, most) in ledgers {
        // The budget of the context.
        let cx = Context::default().with_ledger(Ledger::new(budget));
        let outer = agent(researchers(6, most), Limits::default(), most);
        assert_eq!(outer.run("Go.", &cx).await.unwrap().ending, Ending::Answered);
        // The budget of the run, two levels above.
        let middle = Tool::new(agent(researchers(3, most), Limits::default(), most)).unwrap();
        let middle = middle.with_effect(Effect::Read);
        let both = ["left", "right"].map(|name| middle.clone().named(name).unwrap());
        let outer = agent(both, within(budget), most);
        let finished = outer.run("Go.", &Context::default()).await.unwrap();
        assert_eq!((finished.ending, finished.failures.len()), (Ending::Answered, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn agents_that_run_beside_each_other_wait_as_futures_and_as_streams() {
    let outer = agent(researchers(3, 1_000), Limits::default(), 1_000);
    let cx = Context::default().with_ledger(money(0.03));
    let runs = (0..4).map(|_| outer.run("Go.", &cx));
    for finished in join_all(runs).await {
        assert_eq!(finished.unwrap().ending, Ending::Answered);
    }
    let cx = Context::default().with_ledger(money(0.03));
    let runs = (0..4).map(|_| outer.stream("Go.", &cx).collect::<Vec<_>>());
    for mut progress in join_all(runs).await {
        let last = progress.pop().unwrap().unwrap();
        assert!(matches!(last, Progress::Finished(finished) if finished.answer == "Known."));
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_run_ends_its_wait() {
    let limits = Limits { max_time: Some(Duration::from_secs(3)), ..Limits::default() };
    let ledger = Ledger::new(Budget { output_tokens: Some(1_500), ..Budget::default() });
    let cx = Context::default().with_ledger(ledger.clone());
    let outer = agent(researchers(6, 1_000), limits, 1_000);
    let finished = outer.run("Go.", &cx).await.unwrap();
    assert_eq!((finished.ending, finished.limit), (Ending::LimitReached, Some(LimitKind::Time)));
    // What waited holds nothing. Each call that was given up keeps its reservation.
    let unknown = (ledger.committed() - ledger.spent()).usage.output_tokens;
    assert!(unknown <= 1_000, "{unknown}");
}

#[tokio::test(start_paused = true)]
async fn one_model_call_of_a_run_is_kept_for_its_answer() {
    for calls in 2..12 {
        let limits = within(Budget { model_calls: Some(calls), ..Budget::default() });
        let outer = agent(researchers(6, 10), limits, 10);
        let finished = outer.run("Go.", &Context::default()).await.unwrap();
        let ending = (finished.ending, finished.limit);
        let limited = (Ending::LimitReached, Some(LimitKind::ModelCalls));
        assert_eq!((ending, &*finished.answer), (limited, "Known."), "{calls} calls");
        assert_eq!(finished.spent.model_calls, calls);
    }
    // An agent below keeps none of what another agent needs.
    let limits = within(Budget { model_calls: Some(2 + 2 * 6), ..Budget::default() });
    let finished = agent(researchers(6, 10), limits, 10).run("Go.", &Context::default()).await;
    assert_eq!(finished.unwrap().failures, []);
}

#[tokio::test(start_paused = true)]
async fn the_last_call_is_kept_for_an_agent_below_too() {
    let below = within(Budget { model_calls: Some(4), ..Budget::default() });
    let middle = agent(researchers(3, 10), below, 10).with_settings(ten_tokens()).unwrap();
    let middle = Tool::new(middle).unwrap().named("middle").unwrap();
    let outer = agent([middle], Limits::default(), 10);
    let finished = outer.run("Go.", &Context::default()).await.unwrap();
    let Message::Tool(result) = &*finished.history[2] else { panic!("no result") };
    assert!(result.text.starts_with("Known."), "{}", result.text);
}

/// The tool could release its reservation only after the agent, which would wait for it.
#[tokio::test(start_paused = true)]
async fn an_agent_does_not_wait_for_the_tool_call_around_it() {
    for is_performed in [false, true] {
        let work = async |_: Look, cx: Context| {
            let most = Spent::model_call(Usage::new(0, 1_000));
            let _held = cx.ledger().unwrap().reserve(most).map_err(Error::stop)?;
            let finished = agent([], Limits::default(), 1_000).run("Go.", &cx).await?;
            Ok(finished.answer)
        };
        let tool =
            Tool::new(from_fn_with(work).with_effect(Effect::Read)).unwrap().named("look").unwrap();
        let ledger = Ledger::new(Budget { output_tokens: Some(1_500), ..Budget::default() });
        let mut cx = Context::default().with_ledger(ledger);
        if is_performed {
            cx = with_performer(&cx, Replay::in_memory([]));
        }
        let began = Instant::now();
        let error = agent([tool], Limits::default(), 1_000).run("Go.", &cx).await.unwrap_err();
        let exhausted = error.downcast_ref::<Exhausted>().unwrap();
        assert_eq!((exhausted.limit, exhausted.left), (LimitKind::OutputTokens, 495));
        // The manager's first reply takes one second.
        assert_eq!(began.elapsed(), Duration::from_secs(1));
    }
}
