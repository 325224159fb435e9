//! The limits of a run, and the texts about them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use toolwright_module::model::Settings;

use serde_json::json;
use toolwright_module::approval::Decision;
use toolwright_module::budget::{Budget, Exhausted, Ledger, LimitKind, Money, Price, Spent};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::event::{Ending, EventKind};
use toolwright_module::message::{Image, ToolResult};
use toolwright_module::model::Usage;
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Contract, Effect, Error, Message, Reply, Request, Tool, ToolCall, ToolOutput,
    from_fn_with,
};
use toolwright_orchestrator::{
    Agent, ApprovalPolicy, Finished, Limits, Run, RunState, StepKind, StepResult,
};

use crate::support::{
    Log, Look, agent, call, calls, look, run, show, soon, ten_tokens, tidy, tool, within,
};

fn ended(finished: &Finished) -> (Ending, Option<LimitKind>, &str) {
    (finished.ending, finished.limit, &finished.answer)
}

#[tokio::test]
async fn the_last_model_call_of_a_budget_asks_for_the_answer() {
    let said = [calls([("1", "look", "a")]), calls([("2", "look", "b")]), Reply::text("Empty.")];
    let (agent, asked) = agent([look()], said);
    let agent = agent
        .with_limits(within(Budget { model_calls: Some(3), ..Budget::default() }))
        .with_settings(ten_tokens())
        .unwrap();
    let finished = run(&agent).await;
    assert_eq!(ended(&finished), (Ending::LimitReached, Some(LimitKind::ModelCalls), "Empty."));
    assert_eq!(asked.requests()[2].tool_choice, toolwright_module::model::ToolChoice::None);
}

#[tokio::test]
async fn tool_calls_beyond_the_budget_are_not_made() {
    let said = [
        calls([("1", "look", "a")]),
        calls([("2", "tidy", "b"), ("3", "tidy", "c"), ("4", "tidy", "d")]),
        Reply::text("Half done."),
    ];
    let (agent, _) = agent([look(), tidy()], said);
    let agent = agent
        .with_limits(within(Budget { tool_calls: Some(3), ..Budget::default() }))
        .with_settings(ten_tokens())
        .unwrap();
    let finished = run(&agent).await;
    assert_eq!(ended(&finished), (Ending::LimitReached, Some(LimitKind::ToolCalls), "Half done."));
    assert_eq!((finished.spent.tool_calls, finished.iterations), (3, 2));
    insta::assert_snapshot!(show(&finished.history[4..]), @r"
    tool 2: b is tidy
    tool 3: c is tidy
    tool 4 failed: The call was not made: there are no tool calls left. Answer with what you know.
    user: You have used up your tool calls. Answer the task now from what you know, without tools.
    assistant: Half done.
    ");
}

#[tokio::test]
async fn token_and_money_budgets_end_a_run_in_advance() {
    let prices = [("scripted", Price::per_million(1.0, 1_000.0))];
    let budgets = [
        (Budget { input_tokens: Some(5), ..Budget::default() }, LimitKind::InputTokens, 0),
        (Budget { output_tokens: Some(4 + 9), ..Budget::default() }, LimitKind::OutputTokens, 1),
        (Budget { tokens: Some(4 + 9), ..Budget::default() }, LimitKind::Tokens, 0),
        // An output token costs a thousand millionths.
        (
            Budget { money: Some(Money { micros: 14_000 }), ..Budget::default() },
            LimitKind::Money,
            1,
        ),
    ];
    for (budget, limit, replies) in budgets {
        let said = [
            Reply::new([
                toolwright_module::message::ReplyPart::text("Let me look."),
                toolwright_module::message::ReplyPart::Call(call("1", "look", "a")),
            ])
            .with_usage(Usage::new(7, 4)),
            Reply::text("never"),
        ];
        let (agent, asked) = agent([look()], said);
        let agent = agent.with_limits(within(budget)).with_settings(ten_tokens()).unwrap();
        let cx = soon().with_ledger(Ledger::default().with_prices(prices.clone()));
        let log = Log::default();
        let heard = log.clone();
        let cx = cx.with_events(move |event| {
            if let EventKind::LimitReached { limit, .. } = &event.kind {
                heard.write(limit.to_string());
            }
        });
        let finished = agent.run("Go.", &cx).await.unwrap();
        let answer = if replies == 0 { "" } else { "Let me look." };
        assert_eq!(ended(&finished), (Ending::LimitReached, Some(limit), answer));
        assert_eq!(asked.requests().len(), replies);
        assert_eq!(log.entries().last().unwrap(), &limit.to_string());
    }
}

#[tokio::test]
async fn a_run_at_a_limit_continues_with_a_higher_one() {
    let said = [calls([("1", "look", "a")]).with_usage(Usage::new(1, 9)), Reply::text("Done.")];
    let (agent, _) = agent([look()], said);
    let agent = agent
        .with_limits(within(Budget { output_tokens: Some(12), ..Budget::default() }))
        .with_settings(ten_tokens())
        .unwrap();
    let mut run = agent.start("Go.").unwrap();
    let finished = agent.drive(&mut run, &soon()).await.unwrap();
    assert_eq!(finished.limit, Some(LimitKind::OutputTokens));
    let mut run = run
        .with_limits(within(Budget { output_tokens: Some(30), ..Budget::default() }))
        .with_settings(ten_tokens())
        .unwrap();
    let finished = agent.drive(&mut run, &soon()).await.unwrap();
    assert_eq!(ended(&finished), (Ending::Answered, None, "Done."));
    assert_eq!(finished.spent.usage.output_tokens, 9);
}

#[test]
fn the_limits_apply_to_a_run_driven_by_hand() {
    let budget = Budget { output_tokens: Some(15), ..Budget::default() };
    let mut run =
        Run::new("Go.", &[look()], within(budget)).unwrap().with_settings(ten_tokens()).unwrap();
    let asks = calls([("1", "look", "a")]).with_usage(Usage::new(1, 6));
    run.apply(StepResult::model(0, asks)).unwrap();
    let StepKind::CallTools(calls) = run.next().kind else { panic!("no calls") };
    let results = calls.iter().map(|call| toolwright_module::message::ToolResult::new(call, "ok"));
    run.apply(StepResult::tools(1, results)).unwrap();
    let step = run.next();
    let StepKind::Done(result) = step.kind else { panic!("it goes on") };
    assert_eq!(
        (result.ending, result.limit),
        (Ending::LimitReached, Some(LimitKind::OutputTokens))
    );
    let error = run.apply(StepResult::model(step.number, Reply::text("still"))).unwrap_err();
    insta::assert_snapshot!(error, @"the answer does not fit: step 2 expects nothing: the run is done");

    let limits = Limits { max_time: Some(Duration::from_secs(5)), ..Limits::default() };
    let mut run = Run::new("Go.", &[], limits).unwrap();
    let empty =
        StepResult { elapsed: Duration::from_secs(5), ..StepResult::model(0, Reply::text("")) };
    run.apply(empty).unwrap();
    assert!(
        matches!(run.next().kind, StepKind::Done(result) if result.limit == Some(LimitKind::Time))
    );
}

/// A tool that asks the model of its context.
fn asking(name: &str) -> Tool {
    let module = from_fn_with(|_: Look, cx: Context| async move {
        let model = Arc::clone(cx.model().unwrap());
        let request = Request::new([Message::user("?")])
            .with_settings(Settings::default().with_max_output_tokens(10));
        Ok(cx.ask(&model, request, false).await?.to_text())
    });
    Tool::new(module.with_effect(Effect::Read)).unwrap().named(name).unwrap()
}

fn four_tokens(replies: Vec<Reply>) -> Vec<Reply> {
    replies.into_iter().map(|reply| reply.with_usage(Usage::new(1, 4))).collect()
}

#[tokio::test]
async fn a_limit_reached_below_a_tool_fails_that_call_only() {
    let said =
        four_tokens(vec![calls([("1", "ask", "a"), ("2", "ask", "b")]), Reply::text("below")]);
    // The run used 4 tokens, and a call below reserves 10. A second call below exceeds the budget.
    let (agent, asked) = agent([asking("ask")], said);
    let agent = agent
        .with_limits(within(Budget { output_tokens: Some(4 + 10), ..Budget::default() }))
        .with_settings(ten_tokens())
        .unwrap();
    let above = Ledger::default();
    let finished = agent.run("Go.", &soon().with_ledger(above.clone())).await.unwrap();
    assert_eq!(
        (finished.ending, finished.limit),
        (Ending::LimitReached, Some(LimitKind::OutputTokens))
    );
    insta::assert_snapshot!(show(&finished.history[2..]), @r"
    tool 1: below
    tool 2 failed: The call could not go on: the run has too few output tokens left.
    ");
    insta::assert_snapshot!(finished.failures[0].error, @r"
    `agent` has 6 of 14 output tokens left, and `ask` may take 10; allow more in its budget
    stage: limit
    ");
    assert_eq!(asked.requests().len(), 2);
    assert_eq!(above.spent(), finished.spent);
}

#[tokio::test]
async fn an_exhausted_shared_ledger_ends_every_run_below_it() {
    let helper = {
        let said = four_tokens(vec![calls([("1", "look", "a")]), Reply::text("never")]);
        let (helper, _) = agent([look()], said);
        let helper =
            helper.with_limits(within(Budget::default())).with_settings(ten_tokens()).unwrap();
        Tool::new(helper).unwrap().named("helper").unwrap()
    };
    let ask = Reply::calls([ToolCall::new("h", "helper", r#"{"task": "Go."}"#)]);
    let (outer, _) = agent([helper], four_tokens(vec![ask]));
    let outer = outer.with_limits(within(Budget::default())).with_settings(ten_tokens()).unwrap();
    let shared = Ledger::new(Budget { output_tokens: Some(4 + 4 + 9), ..Budget::default() });
    let mut run = outer.start("Go.").unwrap();
    let error = outer.drive(&mut run, &soon().with_ledger(shared.clone())).await.unwrap_err();
    assert_eq!((error.stage(), error.audience()), (Stage::Limit, Audience::Run));
    insta::assert_snapshot!(error, @"the context's ledger has 9 of 17 output tokens left, and `helper` may take 10; allow more in its budget");
    let exhausted: &Exhausted = error.downcast_ref().unwrap();
    assert_eq!((exhausted.limit, exhausted.left), (LimitKind::OutputTokens, 9));
    assert_eq!(shared.spent().usage.output_tokens, 8);
    // The run is charged for the call below, although the call failed.
    assert_eq!(run.spent(), shared.spent());
}

#[tokio::test]
async fn the_limit_of_an_agent_below_is_not_an_error_of_its_caller() {
    let said = four_tokens(vec![calls([("1", "look", "a")]), Reply::text("never")]);
    let (helper, _) = agent([look()], said);
    let helper = helper
        .with_limits(within(Budget { output_tokens: Some(13), ..Budget::default() }))
        .with_settings(ten_tokens())
        .unwrap();
    let helper = Tool::new(helper).unwrap().named("helper").unwrap();
    let ask = Reply::calls([ToolCall::new("h", "helper", r#"{"task": "Go."}"#)]);
    let (outer, _) = agent([helper], [ask, Reply::text("ok")]);
    let finished = run(&outer).await;
    assert_eq!(finished.ending, Ending::Answered);
    insta::assert_snapshot!(show(&finished.history[2..3]), @r"
    tool h: 
    (A limit was reached: this answer may not be complete.)
    ");
}

#[tokio::test]
async fn three_nested_agents_share_a_ledger_and_have_their_own() {
    let deepest = {
        let (agent, _) =
            agent([look()], four_tokens(vec![calls([("1", "look", "a")]), Reply::text("deep")]));
        Tool::new(agent).unwrap().named("deepest").unwrap()
    };
    let task = |name: &str, id: &str| ToolCall::new(id, name, r#"{"task": "Go."}"#);
    let (middle, _) = agent(
        [deepest],
        four_tokens(vec![Reply::calls([task("deepest", "d")]), Reply::text("middle")]),
    );
    // Two agents of one kind run concurrently, under different names.
    let other = agent([look()], four_tokens(vec![Reply::text("other")])).0;
    let tools = [
        Tool::new(middle).unwrap().named("left").unwrap().with_effect(Effect::Read),
        Tool::new(other).unwrap().named("right").unwrap().with_effect(Effect::Read),
    ];
    let top = Reply::calls([task("left", "l"), task("right", "r")]);
    let (top, _) = agent(tools, four_tokens(vec![top, Reply::text("top")]));
    let (ledger, log) = (Ledger::default(), Log::default());
    let heard = log.clone();
    let cx = soon().with_ledger(ledger.clone()).with_events(move |event| {
        if let EventKind::Started { agent, .. } = &event.kind {
            let path: Vec<&str> = event.path.iter().map(|call| call.id.as_str()).collect();
            heard.write(format!("{agent} in [{}]", path.join(", ")));
        }
    });
    let finished = top.run("Go.", &cx).await.unwrap();
    assert_eq!(ledger.spent(), finished.spent);
    let Spent { model_calls, tool_calls, usage, .. } = finished.spent;
    assert_eq!((model_calls, tool_calls, usage), (7, 4, Usage::new(7, 28)));
    assert_eq!(log.entries(), ["agent in []", "left in [l]", "deepest in [l, d]", "right in [r]"]);
}

#[tokio::test]
async fn concurrent_calls_stay_within_the_limit() {
    for most in [0, 1, 3, 8] {
        let (now, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (under_way, highest) = (Arc::clone(&now), Arc::clone(&peak));
        let work = tool("work", Effect::Read, move |look: Look| {
            let (now, peak) = (Arc::clone(&under_way), Arc::clone(&highest));
            async move {
                peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(look.place)
            }
        });
        let ids: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        let many = Reply::calls(ids.iter().map(|id| call(id, "work", id)));
        let (agent, _) = agent([work], [many, Reply::text("ok")]);
        let limits = Limits { max_parallel: most, ..Limits::default() };
        let finished = run(&agent.with_limits(limits)).await;
        assert_eq!(peak.load(Ordering::SeqCst), most.max(1));
        let results: Vec<&str> = finished.history[2..22]
            .iter()
            .map(|message| match &**message {
                Message::Tool(result) => result.text.as_str(),
                _ => panic!("no result"),
            })
            .collect();
        assert_eq!(results, ids);
    }
}

#[tokio::test]
async fn a_long_result_is_cut_with_a_note() {
    let long = tool("long", Effect::Read, async |_: Look| Ok("ä".repeat(1000)));
    let (agent, _) = agent([long], [calls([("1", "long", "a")]), Reply::text("ok")]);
    let log = Log::default();
    let heard = log.clone();
    let cx = soon().with_events(move |event| {
        if let EventKind::ToolFinished { text, .. } = &event.kind {
            heard.write(text.clone());
        }
    });
    let agent = agent.with_limits(Limits { max_result_bytes: 60, ..Limits::default() });
    let finished = agent.run("Go.", &cx).await.unwrap();
    insta::assert_snapshot!(show(&finished.history[2..3]), @r"
    tool 1: ääääää
    [cut: 12 of 2000 bytes are shown; ask for less]
    ");
    assert_eq!(format!("tool 1: {}\n", log.entries()[0]), show(&finished.history[2..3]));
}

#[tokio::test]
async fn the_same_mistake_in_three_rounds_ends_the_run() {
    let failing = tool("fail", Effect::Read, async |look: Look| {
        Err(toolwright_module::Error::retry(format!("there is no {}", look.place)))
    });
    let fail = |place| calls([("", "fail", place)]);
    // Other arguments, or a round in between, make it a different mistake.
    let said =
        [fail("a"), fail("a"), fail("b"), fail("a"), fail("a"), fail("a"), Reply::text("never")];
    let (agent, asked) = agent([failing], said);
    let error = agent.with_name("keeper").run("Go.", &soon()).await.unwrap_err();
    assert_eq!((error.stage(), error.audience()), (Stage::Limit, Audience::User));
    insta::assert_snapshot!(error, @"`keeper` got stuck: 3 rounds in a row made the same call to `fail`, which failed: there is no a; change the tool or the instructions, or raise `max_same_failures`");
    let unfinished: &toolwright_orchestrator::Unfinished = error.downcast_ref().unwrap();
    assert_eq!((unfinished.finished.ending, unfinished.finished.iterations), (Ending::Stuck, 6));
    assert_eq!((unfinished.finished.failures.len(), asked.requests().len()), (6, 6));

    // A call that is repeated with success is not a mistake.
    let look_again = || calls([("", "look", "a")]);
    let said = [look_again(), look_again(), look_again(), look_again(), Reply::text("ok")];
    assert_eq!(run(&crate::support::agent([look()], said).0).await.answer, "ok");
}

#[tokio::test]
async fn a_follow_up_continues_the_conversation_with_new_iterations() {
    let said = [
        calls([("1", "look", "a")]),
        Reply::text("Empty."),
        calls([("2", "look", "b")]),
        Reply::text("Empty too."),
    ];
    let (agent, asked) = agent([look()], said);
    let agent = agent.with_limits(Limits { max_iterations: 2, ..Limits::default() });
    let mut run = agent.start("Look at a.").unwrap();
    agent.drive(&mut run, &soon()).await.unwrap();
    run.follow_up("And b?").unwrap();
    let finished = agent.drive(&mut run, &soon()).await.unwrap();
    assert_eq!((finished.answer.as_str(), finished.iterations), ("Empty too.", 1));
    assert_eq!(finished.spent.model_calls, 4);
    let requests = asked.requests();
    for two in requests.windows(2) {
        assert_eq!(two[1].messages[..two[0].messages.len()], two[0].messages[..]);
    }
}

#[tokio::test]
async fn every_request_extends_the_one_before() {
    let said = [
        calls([("1", "look", "a"), ("2", "tidy", "b")]),
        Reply::text(""),
        calls([("3", "sweep", "c")]),
        Reply::text("ok"),
    ];
    let (agent, asked) = agent([look(), tidy()], said);
    run(&agent.with_instructions("Be brief.")).await;
    let texts: Vec<(String, String)> = asked
        .requests()
        .iter()
        .map(|request| {
            let messages = serde_json::to_string(&request.messages).unwrap();
            (messages, serde_json::to_string(&request.tools).unwrap())
        })
        .collect();
    for two in texts.windows(2) {
        assert_eq!(two[0].1, two[1].1);
        assert!(two[1].0.starts_with(two[0].0.trim_end_matches(']')));
    }
}

#[tokio::test]
async fn a_run_with_a_money_budget_rejects_a_model_without_a_price() {
    let model = Scripted::new(|_| Ok(Reply::text("never")));
    let budget = Budget { money: Some(Money::new(1.0)), ..Budget::default() };
    let agent = Agent::new(model, [])
        .unwrap()
        .with_limits(within(budget))
        .with_settings(ten_tokens())
        .unwrap();
    let error = agent.run("Go.", &soon()).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Setup);
    insta::assert_snapshot!(error, @"a budget limits money, but the price of `scripted` is unknown; set it with `Ledger::with_prices`, and pass the ledger with `Context::with_ledger`");
}

#[tokio::test]
async fn the_only_model_call_of_a_budget_has_no_tools() {
    let (agent, asked) = agent([look()], [Reply::text("I would have to look.")]);
    let agent = agent
        .with_limits(within(Budget { model_calls: Some(1), ..Budget::default() }))
        .with_settings(ten_tokens())
        .unwrap();
    let finished = run(&agent).await;
    let answer = "I would have to look.";
    assert_eq!(ended(&finished), (Ending::LimitReached, Some(LimitKind::ModelCalls), answer));
    assert_eq!(asked.requests()[0].tool_choice, toolwright_module::model::ToolChoice::None);
}

#[tokio::test]
async fn a_run_without_money_continues_with_more() {
    let said = [Reply::text("").with_usage(Usage::new(0, 4)), Reply::text("ok")];
    let (agent, _) = agent([], said);
    let money = |micros| within(Budget { money: Some(Money { micros }), ..Budget::default() });
    // The first call reserves 10,000 and costs 4,000. The rest is too little for another.
    let agent = agent.with_limits(money(13_000)).with_settings(ten_tokens()).unwrap();
    let prices = [("scripted", Price::per_million(0.0, 1_000.0))];
    let cx = || soon().with_ledger(Ledger::default().with_prices(prices.clone()));
    let mut run = agent.start("Go.").unwrap();
    assert_eq!(agent.drive(&mut run, &cx()).await.unwrap().limit, Some(LimitKind::Money));
    let mut run = run.with_limits(money(20_000));
    let finished = agent.drive(&mut run, &cx()).await.unwrap();
    assert_eq!(ended(&finished), (Ending::Answered, None, "ok"));
}

#[tokio::test]
async fn a_stop_whose_text_panics_still_ends_the_run() {
    #[derive(Debug)]
    struct Bomb;
    impl std::fmt::Display for Bomb {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("nothing to see")
        }
    }
    impl std::error::Error for Bomb {}
    let stop =
        tool("stop", Effect::Read, async |_: Look| Err(toolwright_module::Error::stop(Bomb)));
    let (agent, asked) = agent([stop], [calls([("1", "stop", "a")]), Reply::text("went on")]);
    let error = agent.run("Go.", &soon()).await.unwrap_err();
    assert_eq!((error.audience(), asked.requests().len()), (Audience::Run, 1));
    std::mem::forget(error);
}

/// A tool that returns this text and these images, and a tool that fails with a long error.
fn lavish(text: &'static str, images: Vec<usize>) -> [Tool; 2] {
    let input = json!({"type": "object", "properties": {}});
    let contract = |name| Contract::dynamic(name, "Do it.", input.clone(), None).unwrap();
    let paint = Tool::dynamic(contract("paint"), Effect::Read, move |_, _| {
        let image = |size: &usize| Image::url(format!("data:{}", "a".repeat(size - 5))).into();
        let output = ToolOutput::text_only(text).with_parts(images.iter().map(image));
        async move { Ok(output) }
    });
    let fail = Tool::dynamic(contract("fail"), Effect::Read, async |_, _| {
        Err(Error::other("no ".repeat(100_000)).at(Stage::Module))
    });
    [paint, fail]
}

#[tokio::test]
async fn images_errors_and_events_are_cut_to_the_limit_of_a_result() {
    let reply = Reply::calls([ToolCall::new("1", "paint", "{}"), ToolCall::new("2", "fail", "{}")]);
    let (agent, asked) = agent(lavish("A house.", vec![100, 300, 50]), [reply, Reply::text("ok")]);
    let limits = Limits { max_result_bytes: 200, max_part_bytes: 200, ..Limits::default() };
    let heard = Log::default();
    let reported = heard.clone();
    let cx = soon().with_events(move |event| {
        reported.write(serde_json::to_string(event).unwrap());
    });
    let finished = agent.with_limits(limits).run("Go.", &cx).await.unwrap();
    let Message::Tool(painted) = &*asked.requests()[1].messages[2] else { panic!("no result") };
    // The third one has room. But it would be the second one for the model.
    assert_eq!(painted.parts.len(), 1);
    insta::assert_snapshot!(painted.text, @r"
    A house.
    [2 of 3 images or files are left out: 350 bytes are too many; ask for smaller ones]
    ");
    let [failure] = &finished.failures[..] else { panic!("{:?}", finished.failures) };
    assert!(failure.error.len() <= 4096, "{}", failure.error.len());
    for event in heard.entries() {
        assert!(event.len() < 5_000, "{} bytes: {}", event.len(), &event[..300]);
    }
}

#[test]
fn the_limit_of_images_applies_to_a_run_driven_by_hand() {
    let tools = lavish("", Vec::new());
    let limits = Limits { max_result_bytes: 20, max_part_bytes: 0, ..Limits::default() };
    let mut run = Run::new("Go.", &tools, limits).unwrap();
    let call = ToolCall::new("1", "paint", "{}");
    run.apply(StepResult::model(0, Reply::calls([call.clone()]))).unwrap();
    let image = Image::url("https://example.com/a.png");
    run.apply(StepResult::tools(1, [ToolResult::new(&call, "x").with_parts([image.into()])]))
        .unwrap();
    let Some(Message::Tool(result)) = run.history().last().map(|said| &**said) else { panic!() };
    assert!(result.parts.is_empty());
    insta::assert_snapshot!(result.text, @"[cut: 0 of 83 bytes");
}

#[test]
fn after_a_part_without_room_none_is_kept_not_even_an_empty_one() {
    let limits = Limits { max_part_bytes: 100, ..Limits::default() };
    let mut run = Run::new("Go.", &lavish("", Vec::new()), limits).unwrap();
    let call = ToolCall::new("1", "paint", "{}");
    run.apply(StepResult::model(0, Reply::calls([call.clone()]))).unwrap();
    let parts = [60, 60, 30, 0].map(|size| Image::bytes("image/png", vec![1; size]).into());
    let result = ToolResult::new(&call, "[image 1] to [image 4]").with_parts(parts.clone());
    run.apply(StepResult::tools(1, [result])).unwrap();
    let Some(Message::Tool(result)) = run.history().last().map(|said| &**said) else { panic!() };
    assert_eq!(result.parts, parts[..1]);
    assert!(result.text.contains("3 of 4 images or files are left out: 90 bytes"));
}

#[tokio::test]
async fn a_long_error_of_a_drive_is_cut_in_events() {
    let model = Scripted::new(|_: &Request| Err(Error::other("no ".repeat(100_000))));
    let agent = Agent::new(model, []).unwrap();
    let heard = Log::default();
    let reported = heard.clone();
    let cx = soon().with_events(move |event| reported.write(serde_json::to_string(event).unwrap()));
    let error = agent.run("Go.", &cx).await.unwrap_err();
    assert_eq!(error.to_string().len(), 300_000);
    assert!(heard.entries().iter().all(|event| event.len() < 70_000));
}

#[tokio::test]
async fn a_budget_holds_without_reported_usage() {
    let budget = Budget { output_tokens: Some(25), ..Budget::default() };
    let unknown = || calls([("", "look", "a")]).with_usage(Usage::unknown());
    // Each model call reserves ten tokens and reports no usage.
    let (agent, asked) = agent([look()], (0..9).map(|_| unknown()));
    let finished =
        run(&agent.with_limits(within(budget)).with_settings(ten_tokens()).unwrap()).await;
    assert_eq!(ended(&finished), (Ending::LimitReached, Some(LimitKind::OutputTokens), ""));
    assert_eq!((asked.requests().len(), finished.spent.usage.output_tokens), (2, 20));
    assert!(finished.spent.usage.incomplete);

    let mut by_hand =
        Run::new("Go.", &[look()], within(budget)).unwrap().with_settings(ten_tokens()).unwrap();
    let mut questions = 0;
    loop {
        let step = by_hand.next();
        let answer = match step.kind {
            StepKind::CallModel(_) => {
                questions += 1;
                StepResult::model(step.number, unknown())
            }
            StepKind::CallTools(calls) => {
                StepResult::tools(step.number, calls.iter().map(|call| ToolResult::new(call, "x")))
            }
            _ => break,
        };
        by_hand.apply(answer).unwrap();
    }
    assert_eq!((questions, by_hand.spent().usage.output_tokens), (2, 20));
}

#[tokio::test]
async fn calls_of_a_tool_beyond_its_limit_are_answered_by_the_run() {
    let said = [
        calls([("1", "tidy", "a"), ("2", "look", "a")]),
        calls([("3", "tidy", "b"), ("4", "tidy", "c"), ("5", "look", "b")]),
        calls([("6", "tidy", "d")]),
        Reply::text("ok"),
    ];
    let (agent, _) = agent([look(), tidy()], said);
    let agent = agent.with_limits(Limits::default().with_tool("tidy", 2));
    let mut run = agent.start("Go.").unwrap();
    let finished = agent.drive(&mut run, &soon()).await.unwrap();
    insta::assert_snapshot!(show(&finished.history), @r#"
    user: Go.
    assistant: 1 tidy({"place":"a"}) | 2 look({"place":"a"})
    tool 1: a is tidy
    tool 2: a is empty
    assistant: 3 tidy({"place":"b"}) | 4 tidy({"place":"c"}) | 5 look({"place":"b"})
    tool 3: b is tidy
    tool 4 failed: The call was not made: `tidy` may be called at most 2 times in this run.
    tool 5: b is empty
    assistant: 6 tidy({"place":"d"})
    tool 6 failed: The call was not made: `tidy` may be called at most 2 times in this run.
    assistant: ok
    "#);
    assert_eq!(finished.spent.tool_calls, 4);

    let typo = agent.with_limits(Limits::default().with_tool("tidi", 1));
    insta::assert_snapshot!(typo.start("Go.").unwrap_err(), @"the limit names the tool `tidi`, which does not exist; the tools are: look, tidy");
}

#[test]
fn the_calls_of_a_limited_tool_are_stored_and_denied_ones_do_not_count() {
    let tools = [look(), tidy()];
    let limits = Limits::default().with_tool("tidy", 1);
    let policy = ApprovalPolicy::default().with_tool("tidy");
    let mut run = Run::new("Go.", &tools, limits).unwrap().with_approval(policy).unwrap();
    run.apply(StepResult::model(0, calls([("1", "tidy", "a")]))).unwrap();
    run.apply(StepResult::decisions(1, [("1", Decision::deny("Not now."))])).unwrap();
    run.apply(StepResult::model(2, calls([("2", "tidy", "a")]))).unwrap();
    run.apply(StepResult::decisions(3, [("2", Decision::Approve)])).unwrap();
    // The call is interrupted. It may have taken effect, so it counts.
    run.follow_up("Stop.").unwrap();
    let state: RunState = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    let mut run = Run::resume(state, &tools).unwrap().run;
    run.apply(StepResult::model(5, calls([("3", "tidy", "a")]))).unwrap();
    assert!(matches!(run.next().kind, StepKind::CallModel(_)));
    insta::assert_snapshot!(show(&run.history()[7..]), @"tool 3 failed: The call was not made: `tidy` may be called at most once in this run.");
}

/// A tool may say "call again" until something is ready.
#[tokio::test]
async fn a_repeated_failure_beside_a_success_is_no_standstill() {
    let failing = tool("poll", Effect::Read, async |_: Look| {
        Err(toolwright_module::Error::retry("not ready; call again"))
    });
    let both =
        |n: usize| calls([(&*format!("p{n}"), "poll", "a"), (&*format!("l{n}"), "look", "a")]);
    let said = (0..6).map(both).chain([Reply::text("ok")]);
    assert_eq!(run(&crate::support::agent([failing, look()], said).0).await.answer, "ok");
}
