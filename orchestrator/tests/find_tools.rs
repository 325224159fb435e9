//! Deferred tools: the search for them, their place in requests, and their way through stored runs.

use toolwright_module::model::{Capabilities, Usage};
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Dialect, Effect, LanguageModel, Message, Reply, Request, Tool, ToolCall,
};
use toolwright_orchestrator::perform::{Replay, with_performer};
use toolwright_orchestrator::{Agent, Change, Compaction, Limits, Run, RunError};

use crate::support::{agent, calls, look, show, soon, tidy, tool};

fn named(name: &str, description: &str) -> Tool {
    let done = format!("{name} is done");
    let work = move |_| {
        let done = done.clone();
        async move { Ok(done) }
    };
    tool(name, Effect::Read, work).described(description)
}

/// A tool that looks at a place, and two that the model has to find.
fn tools() -> Vec<Tool> {
    vec![
        look(),
        named("github_list_issues", "List the open issues of a repository.").deferred(),
        named("slack_send_message", "Send a message to a channel.").deferred(),
    ]
}

fn find(id: &str, query: &str) -> ToolCall {
    ToolCall::new(id, "find_tools", serde_json::json!({ "query": query }).to_string())
}

fn shown(request: &Request) -> Vec<&str> {
    request.tools.iter().map(|contract| contract.name()).collect()
}

#[tokio::test]
async fn a_tool_is_shown_when_it_is_found() {
    let said = [
        Reply::calls([find("1", "which issues are open in the repository?")]),
        calls([("2", "github_list_issues", "a")]),
        Reply::text("None."),
    ];
    let (agent, asked) = agent(tools(), said);
    assert_eq!(agent.tools().len(), 3);
    let mut run = agent.start("Go.").unwrap();
    agent.drive(&mut run, &soon()).await.unwrap();
    insta::assert_snapshot!(show(run.history()));
    let requests = asked.requests();
    assert_eq!(shown(&requests[0]), ["look", "find_tools"]);
    // Behind the others, so that these stay as they are.
    assert_eq!(shown(&requests[1]), ["look", "find_tools", "github_list_issues"]);
    insta::assert_snapshot!(requests[0].tools[1].description());
    assert_eq!(run.tools_used(), ["find_tools", "github_list_issues"]);
}

#[tokio::test]
async fn a_typed_agent_keeps_finish_before_the_tools_that_were_found() {
    let said = [
        Reply::calls([find("1", "send a message")]),
        Reply::calls([ToolCall::new("2", "finish", r#"{"result": 4}"#)]),
    ];
    let (agent, asked) = agent(tools(), said);
    let finished = agent.answering::<u32>().unwrap().run("Go.", &soon()).await.unwrap();
    assert_eq!(finished.answer, 4);
    let requests = asked.requests();
    assert_eq!(shown(&requests[0]), ["look", "find_tools", "finish"]);
    assert_eq!(shown(&requests[1]), ["look", "find_tools", "finish", "slack_send_message"]);
}

#[tokio::test]
async fn a_hidden_tool_that_is_called_by_its_name_is_shown_and_not_made() {
    let said = [
        calls([("1", "slack_send_message", "a")]),
        calls([("2", "slack_send_message", "a")]),
        Reply::text("Sent."),
    ];
    let (agent, asked) = agent(tools(), said);
    let mut run = agent.start("Go.").unwrap();
    agent.drive(&mut run, &soon()).await.unwrap();
    insta::assert_snapshot!(show(run.history()), @r#"
    user: Go.
    assistant: 1 slack_send_message({"place":"a"})
    tool 1 failed: You did not see the parameters of `slack_send_message`. Now you do: call it again, as its schema says.
    assistant: 2 slack_send_message({"place":"a"})
    tool 2: slack_send_message is done
    assistant: Sent.
    "#);
    assert_eq!(shown(&asked.requests()[1]), ["look", "find_tools", "slack_send_message"]);
}

#[tokio::test]
async fn what_was_found_survives_a_stop_and_a_deploy() {
    let said = |said: Reply| Scripted::replies([said]);
    let first = Reply::calls([find("1", "list issues")]);
    let agent = Agent::new(said(first), tools()).unwrap();
    let mut run = agent.start("Go.").unwrap();
    agent.step(&mut run, &soon()).await.unwrap();
    agent.step(&mut run, &soon()).await.unwrap();
    let stored = serde_json::to_string(&run).unwrap();
    assert!(!stored.contains("Where to look."), "no copy of a schema: {stored}");

    // The deploy changed the tool.
    let changed = || named("github_list_issues", "List the issues of a repository.").deferred();
    let next = Agent::new(
        Scripted::replies([calls([("2", "github_list_issues", "a")]), Reply::text("None.")]),
        [look(), changed()],
    )
    .unwrap();
    let state: toolwright_orchestrator::RunState = serde_json::from_str(&stored).unwrap();
    let mut resumed = next.resume(state.with_tool_set(agent.tool_set())).unwrap();
    let is_said = |change: &Change| matches!(change, Change::Reworded { tool } if tool == "github_list_issues");
    assert!(resumed.changes.iter().any(is_said), "{:?}", resumed.changes);
    assert_eq!(resumed.run.offered().last(), Some("github_list_issues"));
    next.drive(&mut resumed.run, &soon()).await.unwrap();
    assert_eq!(resumed.run.tools_used(), ["find_tools", "github_list_issues"]);
}

#[tokio::test]
async fn a_replay_shows_the_tools_that_were_found_then() {
    let said = || {
        Scripted::new(|request: &Request| {
            let replied = |message: &&std::sync::Arc<Message>| {
                matches!(***message, Message::Assistant { .. })
            };
            let reply = match request.messages.iter().filter(replied).count() {
                0 => Reply::calls([find("1", "list issues")]),
                1 => calls([("2", "github_list_issues", "a")]),
                _ => Reply::text("None."),
            };
            Ok(reply.with_usage(Usage::new(1, 1)))
        })
    };
    let journal = Replay::in_memory([]);
    let cx = with_performer(&soon(), journal.clone());
    let agent = Agent::new(said(), tools()).unwrap();
    let whole = agent.run("Go.", &cx).await.unwrap();
    let records = journal.records();
    // Killed after each record, and driven again by an agent whose words for the tools are others.
    for kept in 0..=records.len() {
        let cx = with_performer(&soon(), Replay::in_memory(records[..kept].to_vec()));
        let other = [
            look(),
            named("github_list_issues", "Something about tickets.").deferred(),
            named("slack_send_message", "List issues.").deferred(),
        ];
        // Once the search is recorded, it is not made again.
        let is_found = serde_json::to_string(&records[..kept]).unwrap().contains("\"found\"");
        let tools = if is_found { other.to_vec() } else { tools() };
        let again = Agent::new(said(), tools).unwrap().run("Go.", &cx).await.unwrap();
        assert_eq!(again.answer, whole.answer, "{kept}");
        assert_eq!(again.tools_used, whole.tools_used, "{kept}");
    }
}

struct User(&'static str);

/// One agent serves everybody: a user neither sees nor finds the tools of others.
#[tokio::test]
async fn a_filter_by_the_user_hides_tools_from_the_search() {
    for (user, finds) in [("ada", true), ("bob", false)] {
        let said = [
            Reply::calls([find("1", "send a message to a channel")]),
            calls([("2", "slack_send_message", "a")]),
            Reply::text("Done."),
        ];
        let (agent, asked) = agent(tools(), said);
        let agent = agent
            .with_filter(|_, tool, cx: &Context| {
                !tool.name().starts_with("slack")
                    || cx.get::<User>().is_some_and(|it| it.0 == "ada")
            })
            .unwrap();
        let mut run = agent.start("Go.").unwrap();
        agent.drive(&mut run, &soon().with(User(user))).await.unwrap();
        let shown_then = shown(&asked.requests()[1]).join(" ");
        assert_eq!(shown_then.contains("slack"), finds, "{user}: {shown_then}");
        assert_eq!(run.tools_used().contains(&"slack_send_message".to_owned()), finds, "{user}");
        assert!(finds || !show(&run.history()[2..3]).contains("slack"), "{}", show(run.history()));
    }
}

fn model(dialect: Dialect, said: impl IntoIterator<Item = Reply>) -> impl LanguageModel {
    let capabilities = Capabilities { tools: true, ..Capabilities::new(dialect) };
    Scripted::replies(said).with_capabilities(capabilities)
}

#[tokio::test]
async fn an_agent_with_too_many_tools_defers_them() {
    let many = |count: usize| (0..count).map(|nth| tidy().named(&format!("tidy_{nth}")).unwrap());
    let said = || [Reply::text("Done.")];
    let most = Dialect::OpenAiStrict.max_tools().unwrap();
    let whole = Agent::new(model(Dialect::OpenAiStrict, said()), many(most)).unwrap();
    assert_eq!(whole.start("Go.").unwrap().offered().count(), most);

    let agent = Agent::new(model(Dialect::OpenAiStrict, said()), many(1_000)).unwrap();
    let run = agent.start("Go.").unwrap();
    let shown: Vec<&str> = run.offered().collect();
    assert_eq!(
        (shown.len(), shown[0], shown[15], shown[16]),
        (17, "tidy_0", "tidy_15", "find_tools")
    );
    let losses = agent.losses();
    let deferred = losses.iter().filter(|(_, loss)| loss.keyword == "tools");
    assert_eq!(deferred.count(), 984);
    insta::assert_snapshot!(losses.last().unwrap().1);

    // They would also fill a small window.
    let window = |tokens| Compaction { window: Some(tokens), ..Compaction::default() };
    let hundred = Agent::new(model(Dialect::OpenAiStrict, said()), many(100)).unwrap();
    let small = hundred.clone().with_compaction(window(4_000)).unwrap();
    assert_eq!(small.start("Go.").unwrap().offered().count(), 18);
    let large = hundred.with_compaction(window(100_000)).unwrap();
    assert_eq!(large.start("Go.").unwrap().offered().count(), 101);

    // With one more for the answer, it is too many.
    let typed = whole.answering::<u32>().unwrap();
    assert_eq!(typed.start("Go.").unwrap().offered().count(), 17);
    // A filter chooses itself, and another provider may take all.
    let filtered = agent.with_filter(|_, tool, _| tool.name() == "tidy_999").unwrap();
    assert_eq!(filtered.run("Go.", &soon()).await.unwrap().answer, "Done.");
    let other = filtered.with_model(model(Dialect::Anthropic, said())).unwrap();
    assert!(other.losses().iter().all(|(_, loss)| loss.keyword != "tools"));
}

/// A request never has more than the provider's maximum, however much the model searches.
#[tokio::test]
async fn the_tools_that_were_found_first_leave_when_there_are_too_many() {
    let word =
        |nth: u8| format!("{0}{1}zorb", char::from(b'a' + nth / 20), char::from(b'a' + nth % 20));
    let many = (0..200)
        .map(|nth| named(&format!("tool_{nth}"), &format!("Makes a {}.", word(nth))).deferred());
    let said = (0..40).map(|nth| Reply::calls([find(&nth.to_string(), &word(nth))]));
    let said: Vec<Reply> = said.chain([Reply::text("Done.")]).collect();
    let (agent, asked) = agent(many.collect::<Vec<_>>(), said);
    let agent = agent.with_limits(Limits { max_iterations: 100, ..Limits::default() });
    agent.run("Go.", &soon()).await.unwrap();
    let requests = asked.requests();
    let last = shown(requests.last().unwrap());
    assert_eq!(last.len(), 1 + 32);
    assert_eq!((last[1], last[32]), ("tool_8", "tool_39"));
}

/// A program may search in its own way, and a loop of one's own has the tool by itself.
#[tokio::test]
async fn a_search_of_ones_own_takes_the_place_of_ours() {
    use toolwright_module::ToolOutput;
    let ours = toolwright_orchestrator::find_tools(&tools()).unwrap();
    let contract = (**ours.contract()).clone();
    let search = Tool::dynamic(contract, Effect::Read, |_, _| async {
        let found = ["slack_send_message", "no_such_tool", "look"].map(str::to_owned);
        Ok(ToolOutput::text_only("Found.").with_found(found))
    });
    let said = [Reply::calls([find("1", "x")]), Reply::text("Done.")];
    let (agent, asked) = agent(tools().into_iter().chain([search]), said);
    agent.run("Go.", &soon()).await.unwrap();
    assert_eq!(shown(&asked.requests()[1]), ["look", "find_tools", "slack_send_message"]);

    let all: Vec<Tool> = tools().into_iter().chain([ours]).collect();
    let run = Run::new("Go.", &all, Limits::default()).unwrap();
    assert_eq!(run.offered().collect::<Vec<_>>(), ["look", "find_tools"]);
    // Without a search nobody could find them.
    let run = Run::new("Go.", &tools(), Limits::default()).unwrap();
    assert_eq!(run.offered().count(), 3);
}

#[test]
fn a_tool_of_a_server_is_not_the_search_of_the_agent() {
    let theirs = || tool("find_tools", Effect::Read, async |_| Ok("A museum.".to_owned()));
    for theirs in [theirs().untrusted(), theirs().untrusted().deferred(), theirs().deferred()] {
        let model = Scripted::replies([]);
        let error = Agent::new(model, tools().into_iter().chain([theirs])).unwrap_err();
        assert!(matches!(error, RunError::ReservedForFinding), "{error}");
    }
    // No other tool is deferred.
    let (agent, _) = agent([look(), theirs().untrusted()], []);
    assert_eq!(agent.start("Go.").unwrap().offered().collect::<Vec<_>>(), ["look", "find_tools"]);
}

#[test]
fn a_search_finds_nothing_in_odd_words() {
    let ours = toolwright_orchestrator::find_tools(&tools()).unwrap();
    for query in ["", "…", "\u{0}", "zzzz", &"a ".repeat(100_000)] {
        let arguments = serde_json::json!({ "query": query }).to_string();
        let found =
            futures_util::FutureExt::now_or_never(ours.call(&arguments, &Context::default()));
        let found = found.unwrap().unwrap();
        assert!(found.found.is_empty() && found.text.starts_with("No tool fits"), "{query:?}");
    }
}
