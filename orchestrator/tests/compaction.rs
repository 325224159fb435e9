//! Conversations that get too long for their model: what is left out, what stays, and what survives.

mod faults;
mod generated;

use std::sync::{Arc, Mutex};

use toolwright_module::error::{ContextExceeded, Stage};
use toolwright_module::event::EventKind;
use toolwright_module::message::{Part, ReplyPart};
use toolwright_module::model::{Finish, Settings, Usage};
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Effect, Error, LanguageModel, Message, Reply, Request, Result, Tool, ToolCall, from_fn,
};
use toolwright_orchestrator::perform::{Record, Replay, with_performer};
use toolwright_orchestrator::{
    Agent, Compaction, ConversationSummary, Finished, Limits, Run, RunState, Summarize, Summarizer,
    Task,
};

use crate::support::{call, show, soon, tool};

/// What a counting model does with a request for a summary.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Summaries {
    Good,
    /// It answers with a text that is not a summary.
    Dumb,
    /// Its answer is cut off.
    Endless,
    /// It refuses the request, as a server without schemas for answers does.
    Refused,
}

/// A server that counts tokens and refuses a request above its window.
#[derive(Clone)]
struct Server {
    window: u64,
    rounds: usize,
    summaries: Summaries,
    counts: bool,
    /// Whether the longest reply must fit into the window, too.
    with_reply: bool,
    requests: Arc<Mutex<Vec<Vec<Arc<Message>>>>>,
    refused: Arc<Mutex<usize>>,
    summarized: Arc<Mutex<u64>>,
}

/// Four bytes are a token.
fn tokens(request: &Request) -> u64 {
    let text: usize = request.messages.iter().map(|message| message_bytes(message)).sum();
    let tools: usize = request.tools.iter().map(|tool| tool.description().len() + 100).sum();
    (text + tools).div_ceil(4) as u64
}

fn message_bytes(message: &Message) -> usize {
    16 + match message {
        Message::System { text } => text.len(),
        Message::User { parts } => parts.iter().map(|part| text_of(part).len()).sum(),
        Message::Assistant { parts } => parts
            .iter()
            .map(|part| match part {
                ReplyPart::Text(text) => text.len(),
                ReplyPart::Call(call) => call.name.len() + call.arguments.len(),
                _ => 0,
            })
            .sum(),
        Message::Tool(result) => result.text.len(),
        _ => 0,
    }
}

fn text_of(part: &Part) -> &str {
    match part {
        Part::Text(text) => text,
        _ => "",
    }
}

fn whole_text(messages: &[Arc<Message>]) -> String {
    show(messages)
}

impl Server {
    fn new(window: u64, rounds: usize) -> Self {
        Self {
            window,
            rounds,
            summaries: Summaries::Good,
            counts: true,
            with_reply: false,
            requests: Arc::default(),
            refused: Arc::default(),
            summarized: Arc::default(),
        }
    }

    fn model(&self) -> impl LanguageModel + use<> {
        let server = self.clone();
        Scripted::new(move |request: &Request| server.answer(request))
    }

    fn answer(&self, request: &Request) -> Result<Reply> {
        let tokens = tokens(request);
        let reply = if self.with_reply { request.max_output_tokens() } else { 0 };
        if tokens + reply > self.window {
            *self.refused.lock().unwrap() += 1;
            let exceeded = ContextExceeded::new(Some(tokens), Some(self.window));
            return Err(Error::other("the prompt is too long").with_context_exceeded(exceeded));
        }
        let usage = if self.counts { Usage::new(tokens, 20) } else { Usage::unknown() };
        if request.tools.iter().all(|tool| tool.name() != "look") {
            *self.summarized.lock().unwrap() += 1;
            let text = match self.summaries {
                Summaries::Good => r#"{"summary": "Rooms were looked at."}"#,
                Summaries::Dumb => "ok",
                Summaries::Endless => {
                    let reply = Reply::text(r#"{"summary": "So this is"#).with_usage(usage);
                    return Ok(reply.with_finish(Finish::Length));
                }
                Summaries::Refused => {
                    let error = Error::other("response_format is not supported");
                    return Err(error.at(Stage::Provider).with_request_refused());
                }
            };
            return Ok(Reply::text(text).with_usage(usage));
        }
        check(&request.messages);
        let mut requests = self.requests.lock().unwrap();
        requests.push(request.messages.to_vec());
        let nth = requests.len();
        if nth > self.rounds {
            return Ok(Reply::text("Done.").with_usage(usage));
        }
        // In a run that goes on, the number of the round is in the conversation, not in this program.
        Ok(Reply::calls([call("", "look", &format!("room {nth}"))]).with_usage(usage))
    }
}

/// Checks that each call has its result, and that the order of the roles is one that every provider
/// takes.
fn check(messages: &[Arc<Message>]) {
    let mut open: Vec<&str> = Vec::new();
    let mut before = "";
    for message in messages {
        let is_result = matches!(**message, Message::Tool(_));
        assert!(is_result || open.is_empty(), "a call has no result");
        let role = match &**message {
            Message::System { .. } => "system",
            Message::User { .. } => "user",
            Message::Assistant { parts } => {
                open.extend(parts.iter().filter_map(|part| match part {
                    ReplyPart::Call(call) => Some(&*call.id),
                    _ => None,
                }));
                "assistant"
            }
            Message::Tool(result) => {
                let place = open.iter().position(|id| *id == result.id);
                open.remove(place.expect("a result has its call before it"));
                "tool"
            }
            _ => "",
        };
        assert!(role != "user" || before != "user", "two messages of the user in a row");
        assert!(role != "system" || before.is_empty(), "a system message inside");
        before = role;
    }
    assert!(open.is_empty(), "a call has no result");
}

/// A tool whose results are long. Each tenth asks to keep something.
fn look() -> Tool {
    tool("look", Effect::Read, async |look: crate::support::Look| {
        let filler = format!("{} is empty. ", look.place).repeat(60);
        let number: usize = look.place.trim_start_matches("room ").parse().unwrap_or(1);
        Ok(match number % 10 {
            0 => format!("{filler}\nKeep this: the code of {} is {}.", look.place, number * 7919),
            _ => filler,
        })
    })
}

/// Returns the lines of a message that ask to be kept.
fn keep_lines(message: &Message) -> Vec<String> {
    let texts: Vec<&str> = match message {
        Message::Tool(result) => vec![&result.text],
        Message::User { parts } => parts.iter().map(text_of).collect(),
        _ => Vec::new(),
    };
    let lines = texts.into_iter().flat_map(str::lines);
    lines.filter(|line| line.starts_with("Keep this:")).map(str::to_owned).collect()
}

fn rules(window: Option<u64>) -> Compaction {
    Compaction { window, keep: Some(Arc::new(keep_lines)), ..Compaction::default() }
}

fn agent(server: &Server, rules: Compaction) -> Agent {
    let limits = Limits { max_iterations: 5000, ..Limits::default() };
    let agent = Agent::new(server.model(), [look()]).unwrap().with_limits(limits);
    let agent = agent
        .with_settings(toolwright_module::model::Settings::default().with_max_output_tokens(500));
    agent.unwrap().with_instructions("Be brief.").with_compaction(rules).unwrap()
}

fn lost(messages: &[Arc<Message>], rounds: usize) -> Vec<usize> {
    let text = whole_text(messages);
    let fact = |number: &usize| format!("the code of room {number} is {}.", number * 7919);
    (1..=rounds).filter(|number| number % 10 == 0 && !text.contains(&fact(number))).collect()
}

async fn go(agent: &Agent, cx: &Context) -> (Run, Finished) {
    let mut run = agent.start("Look at every room.").unwrap();
    let finished = agent.drive(&mut run, cx).await.unwrap();
    (run, finished)
}

#[tokio::test]
async fn a_long_conversation_stays_in_its_window_and_keeps_what_was_asked() {
    for (summaries, counts) in [
        (Summaries::Good, true),
        (Summaries::Dumb, true),
        (Summaries::Endless, true),
        (Summaries::Refused, true),
        (Summaries::Good, false),
    ] {
        let server = Server { summaries, counts, ..Server::new(8000, 300) };
        let (run, _) = go(&agent(&server, rules(Some(8000))), &Context::default()).await;
        let requests = server.requests.lock().unwrap();
        assert_eq!((requests.len(), *server.refused.lock().unwrap()), (301, 0));
        assert_eq!(run.history().len(), 603, "the run keeps everything");
        let last = requests.last().unwrap();
        assert_eq!(lost(last, 300), Vec::<usize>::new());
        assert!(run.compactions().len() > 10, "{}", run.compactions().len());
        let first = whole_text(&last[..2]);
        assert!(first.contains("Be brief.") && first.contains("Look at every room."), "{first}");
        // Between two compactions the prefix does not change.
        let mut changes = 0;
        for pair in requests.windows(2) {
            changes += usize::from(!pair[1].starts_with(&pair[0]));
        }
        assert_eq!(changes, run.compactions().len(), "{summaries:?}");
    }
}

#[tokio::test]
async fn a_request_has_room_for_the_longest_reply() {
    let server = Server { with_reply: true, ..Server::new(7000, 100) };
    let (run, _) = go(&agent(&server, rules(Some(7000))), &Context::default()).await;
    let made = run.compactions().len();
    assert!(made > 5, "{made}");
    assert_eq!(*server.refused.lock().unwrap(), 0);
}

/// Some servers refuse a request whose longest reply does not fit beside it.
#[tokio::test]
async fn a_summary_has_room_in_a_small_window() {
    for window in [2500, 4000, 7000, 20_000] {
        let server = Server { with_reply: true, ..Server::new(window, 60) };
        let rules = Compaction { clears_results: false, ..rules(Some(window)) };
        let settings = Settings::default().with_max_output_tokens(200);
        let agent = agent(&server, rules).with_settings(settings).unwrap();
        let (run, _) = go(&agent, &Context::default()).await;
        let made = run.compactions();
        assert!(!made.is_empty(), "{window}");
        for made in made {
            assert_eq!(made.summary.as_deref(), Some("Rooms were looked at."), "{window}");
        }
        assert_eq!(*server.refused.lock().unwrap(), 0, "{window}");
    }
}

#[tokio::test]
async fn old_results_are_cleared_first() {
    let server = Server::new(8000, 40);
    let (run, _) = go(&agent(&server, rules(Some(8000))), &Context::default()).await;
    let first = &run.compactions()[0];
    assert!(first.summary.is_none() && first.cleared > 5, "{first:?}");
    assert!(first.tokens_after < first.tokens_before / 2, "{first:?}");
    let requests = server.requests.lock().unwrap();
    let sent = requests.iter().find(|sent| whole_text(sent).contains("[cleared:")).unwrap();
    insta::assert_snapshot!(whole_text(&sent[..4]));
}

#[tokio::test]
async fn a_summary_stands_behind_the_task() {
    let server = Server::new(4000, 40);
    let rules = Compaction { clears_results: false, ..rules(Some(4000)) };
    let (run, _) = go(&agent(&server, rules), &Context::default()).await;
    assert!(run.compactions().iter().all(|made| made.summary.is_some()));
    let requests = server.requests.lock().unwrap();
    let last = requests.last().unwrap();
    insta::assert_snapshot!(whole_text(&last[..2]));
}

#[tokio::test]
async fn a_refused_request_is_shortened_and_tried_once_more() {
    let server = Server::new(3000, 30);
    let (run, finished) = go(&agent(&server, rules(None)), &Context::default()).await;
    assert_eq!(finished.answer, "Done.");
    // The window is known after the first refusal.
    assert_eq!(*server.refused.lock().unwrap(), 1);
    assert_eq!(run.compactions()[0].window, Some(3000));
    assert_eq!(lost(server.requests.lock().unwrap().last().unwrap(), 30), Vec::<usize>::new());
}

#[tokio::test]
async fn a_task_that_is_too_long_is_an_error_after_one_try() {
    let server = Server::new(1000, 5);
    let agent = agent(&server, rules(None));
    let error = agent.run("Long. ".repeat(2000), &Context::default()).await.unwrap_err();
    assert_eq!(error.context_exceeded().unwrap().window, Some(1000));
    assert_eq!(*server.refused.lock().unwrap(), 1);
}

#[tokio::test]
async fn without_rules_the_error_reaches_the_caller() {
    let server = Server::new(2000, 30);
    let agent = Agent::new(server.model(), [look()]).unwrap();
    let error = agent.run("Look at every room.", &Context::default()).await.unwrap_err();
    assert!(error.context_exceeded().is_some());
}

#[tokio::test]
async fn one_result_that_is_larger_than_the_window_is_cut() {
    let big = tool("look", Effect::Read, async |_| Ok("A very long line. ".repeat(3000)));
    let server = Server::new(4000, 3);
    let agent = Agent::new(server.model(), [big]).unwrap();
    let agent = agent.with_compaction(rules(Some(4000))).unwrap();
    let (run, finished) = go(&agent, &Context::default()).await;
    assert_eq!((finished.answer.as_str(), *server.refused.lock().unwrap()), ("Done.", 0));
    assert!(run.compactions().is_empty(), "it is cut when it comes");
    let text = whole_text(server.requests.lock().unwrap().last().unwrap());
    assert!(text.contains("[cut: ") && text.contains(" of 54000 bytes"), "{text}");
}

#[tokio::test]
async fn a_compaction_is_an_event_and_its_cost_counts() {
    let server = Server::new(4000, 30);
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let cx = soon().with_events(move |event| seen.lock().unwrap().push(event.kind.clone()));
    let rules = Compaction { clears_results: false, ..rules(Some(4000)) };
    let (run, finished) = go(&agent(&server, rules), &cx).await;
    let events = events.lock().unwrap();
    let made = events.iter().filter(|event| matches!(event, EventKind::Compacted { .. })).count();
    assert_eq!(made, run.compactions().len());
    let summarized = *server.summarized.lock().unwrap();
    assert!(summarized >= made as u64);
    assert_eq!(finished.spent.model_calls, 31 + summarized);
}

#[tokio::test]
async fn a_program_can_bring_its_own_summarizer() {
    let server = Server::new(4000, 30);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    let own = from_fn(move |ask: Summarize| {
        kept.lock().unwrap().push(ask.clone());
        let summary = format!("Own summary of {} bytes.", ask.conversation.len());
        async { Ok(ConversationSummary { summary }) }
    });
    let summarizer = Some(Summarizer::new(own));
    let rules = Compaction { clears_results: false, summarizer, ..rules(Some(4000)) };
    let (_, finished) = go(&agent(&server, rules), &Context::default()).await;
    assert_eq!(finished.spent.model_calls, 31);
    let asked = asked.lock().unwrap();
    assert_eq!((&*asked[0].task, &asked[0].earlier), ("Look at every room.", &None));
    assert!(asked[1].earlier.as_ref().unwrap().starts_with("Own summary of"));
    assert!(asked[0].conversation.contains("Result of call"), "{}", asked[0].conversation);
    let text = whole_text(server.requests.lock().unwrap().last().unwrap());
    assert_eq!(text.matches("Own summary of").count(), 1, "{text}");
}

#[tokio::test]
async fn a_run_that_was_killed_anywhere_goes_on_with_the_same_conversation() {
    for clears_results in [true, false] {
        let whole = Server::new(4000, 30);
        let rules = || Compaction { clears_results, ..rules(Some(4000)) };
        let journal = Replay::in_memory([]);
        let cx = with_performer(&Context::default(), journal.clone());
        let (run, _) = go(&agent(&whole, rules()), &cx).await;
        let records: Vec<Record> = journal.records();
        let sent = whole.requests.lock().unwrap().clone();
        assert!(run.compactions().len() > 2);
        for kept in 0..=records.len() {
            let server = Server::new(4000, 30);
            // The server goes on with the rooms where the records end.
            let replies = records[..kept].iter().filter(|record| {
                matches!(record, Record::Ended { part, .. } if part.to_string().contains("ask"))
            });
            let replies = replies.count();
            *server.requests.lock().unwrap() = sent[..replies].to_vec();
            let cx =
                with_performer(&Context::default(), Replay::in_memory(records[..kept].to_vec()));
            let (again, _) = go(&agent(&server, rules()), &cx).await;
            assert_eq!(*server.requests.lock().unwrap(), sent, "after {kept} records");
            assert_eq!(again.compactions(), run.compactions());
            assert_eq!(again.spent().model_calls, run.spent().model_calls);
        }
    }
}

#[tokio::test]
async fn a_deploy_with_other_rules_does_not_change_what_was_sent() {
    let first = Server::new(4000, 30);
    let journal = Replay::in_memory([]);
    let cx = with_performer(&Context::default(), journal.clone());
    let (run, _) = go(&agent(&first, rules(Some(4000))), &cx).await;
    // Without the last records, so that the next version asks again.
    let mut records: Vec<Record> = journal.records();
    records.truncate(records.len() - 4);
    let bare = |server: &Server| {
        let limits = Limits { max_iterations: 5000, ..Limits::default() };
        Agent::new(server.model(), [look()])
            .unwrap()
            .with_limits(limits)
            .with_instructions("Be brief.")
    };
    for other in [None, Some(2000), Some(100_000)] {
        let server = Server::new(100_000, 0);
        let agent = match other {
            None => bare(&server),
            window => bare(&server).with_compaction(rules(window)).unwrap(),
        };
        let cx = with_performer(&Context::default(), Replay::in_memory(records.clone()));
        let (again, finished) = go(&agent, &cx).await;
        assert_eq!(finished.answer, "Done.");
        let made = run.compactions().len();
        let same = |run: &Run| -> Vec<(u64, u64)> {
            let made = run.compactions()[..made - 1].iter();
            made.map(|made| (made.request, made.tokens_after)).collect()
        };
        assert_eq!(same(&again), same(&run));
    }
}

#[tokio::test]
async fn a_stored_run_goes_on_with_what_was_sent() {
    let server = Server::new(4000, 40);
    let agent = agent(&server, rules(Some(4000)));
    let mut run = agent.start("Look at every room.").unwrap();
    while agent.step(&mut run, &soon()).await.unwrap().is_none() {
        let state: RunState = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
        run = agent.resume(state).unwrap().run;
    }
    assert_eq!(*server.refused.lock().unwrap(), 0);
    let other = Server::new(4000, 40);
    let (whole, _) = go(&self::agent(&other, rules(Some(4000))), &soon()).await;
    assert_eq!(*server.requests.lock().unwrap(), *other.requests.lock().unwrap());
    assert_eq!(run.compactions(), whole.compactions());
}

#[tokio::test]
async fn the_next_run_of_a_conversation_sends_what_was_sent() {
    for instructions in [None, Some("Be brief."), Some("Be long.")] {
        let server = Server::new(4000, 30);
        let first = agent(&server, rules(Some(4000)));
        let (run, finished) = go(&first, &soon()).await;
        let stored = serde_json::to_string(&finished).unwrap();
        let finished: Finished = serde_json::from_str(&stored).unwrap();
        let mut conversation = finished.conversation();
        let settings = Settings::default().with_max_output_tokens(500);
        let mut next = Agent::new(server.model(), [look()]).unwrap();
        next = next.with_settings(settings).unwrap();
        next = next.with_compaction(rules(Some(4000))).unwrap();
        match instructions {
            None => conversation = conversation.without_instructions(),
            Some(text) => next = next.with_instructions(text),
        }
        let task = Task::new("And once more.").with_conversation(conversation);
        let mut again = next.start(task).unwrap();
        next.drive(&mut again, &soon()).await.unwrap();
        assert!(again.compactions().is_empty(), "it is short already");
        let requests = server.requests.lock().unwrap();
        let last = requests.last().unwrap();
        assert_eq!(lost(last, 30), Vec::<usize>::new());
        let text = whole_text(last);
        assert!(text.len() < whole_text(run.history()).len() / 2);
        let system = instructions.map_or_else(String::new, |text| format!("system: {text}\n"));
        assert!(text.starts_with(&format!("{system}user: Look at every room.")), "{text}");
        assert!(text.ends_with("user: And once more.\n"), "{text}");
        assert_eq!(
            again.history().len(),
            run.history().len() + 2 - usize::from(instructions.is_none())
        );
    }
}

#[tokio::test]
async fn the_next_task_keeps_the_summary_and_what_was_kept() {
    let server = Server::new(4000, 30);
    let agent = agent(&server, rules(Some(4000)));
    let mut run = agent.start("Look at every room.").unwrap();
    agent.drive(&mut run, &soon()).await.unwrap();
    run.follow_up("And once more.").unwrap();
    *server.requests.lock().unwrap() = Vec::new();
    agent.drive(&mut run, &soon()).await.unwrap();
    let requests = server.requests.lock().unwrap();
    let last = requests.last().unwrap();
    assert_eq!(lost(last, 30), Vec::<usize>::new());
    let text = whole_text(last);
    assert_eq!(text.matches("And once more.").count(), 1, "{text}");
}

#[tokio::test]
async fn a_cleared_result_can_be_read_again() {
    let server = Server::new(8000, 40);
    let agent = agent(&server, rules(Some(8000)));
    let (run, _) = go(&agent, &Context::default()).await;
    let texts =
        server.requests.lock().unwrap().iter().map(|sent| whole_text(sent)).collect::<Vec<_>>();
    let note = texts.iter().find(|text| text.contains("[cleared:")).unwrap();
    assert!(
        note.contains(r#"[cleared: 1020 bytes; read more with read_result {"id": "call_0_0"}]"#)
    );
    let call = ToolCall::new("again", "read_result", r#"{"id": "call_0_0"}"#);
    let model = Scripted::replies([Reply::calls([call]), Reply::text("Empty.")]);
    let agent = agent.with_model(model).unwrap();
    let mut again = agent.resume(run.state().clone()).unwrap().run;
    again.follow_up("What was in room 1?").unwrap();
    agent.drive(&mut again, &soon()).await.unwrap();
    let read = show(&again.history()[again.history().len() - 2..]);
    assert!(read.contains("room 1 is empty. room 1 is empty."), "{read}");
}

/// A model that follows the notes of results, and counts the lines that it has seen.
fn reader(
    window: u64,
    seen: &Arc<Mutex<std::collections::BTreeSet<String>>>,
) -> impl LanguageModel + use<> {
    let seen = Arc::clone(seen);
    Scripted::new(move |request: &Request| {
        let tokens = tokens(request);
        if tokens > window {
            let exceeded = ContextExceeded::new(Some(tokens), Some(window));
            return Err(Error::other("too long").with_context_exceeded(exceeded));
        }
        let usage = Usage::new(tokens, 20);
        if request.tools.is_empty() {
            return Ok(Reply::text(r#"{"summary": "It reads."}"#).with_usage(usage));
        }
        let Some(Message::Tool(last)) = request.messages.last().map(|last| &**last) else {
            return Ok(Reply::calls([call("log", "look", "log")]).with_usage(usage));
        };
        let lines =
            last.text.lines().filter(|line| line.starts_with("line ") && line.ends_with('.'));
        seen.lock().unwrap().extend(lines.map(str::to_owned));
        let note = last.text.lines().last().unwrap_or_default();
        Ok(match note.split_once("read_result ") {
            Some((_, arguments)) => {
                let arguments = arguments.trim_end_matches(']');
                Reply::calls([ToolCall::new("", "read_result", arguments)])
            }
            None => Reply::text("Read."),
        }
        .with_usage(usage))
    })
}

#[tokio::test]
async fn a_long_result_can_be_read_to_its_end_in_any_window() {
    for window in [3_000, 8_000, 32_000, 128_000] {
        let seen = Arc::default();
        let log = tool("look", Effect::Read, async |_| {
            Ok((0..10_000).map(|nth| format!("line {nth}.\n")).collect::<String>())
        });
        let limits = Limits { max_iterations: 5000, ..Limits::default() };
        let agent = Agent::new(reader(window, &seen), [log]).unwrap().with_limits(limits);
        let settings = Settings::default().with_max_output_tokens(500);
        let agent = agent.with_settings(settings).unwrap();
        let agent =
            agent.with_compaction(Compaction { window: Some(window), ..Compaction::default() });
        agent.unwrap().run("Read it.", &Context::default()).await.unwrap();
        let seen = seen.lock().unwrap().len();
        // A line that is parted by two pages is in neither.
        assert!(seen > 9_500, "{seen} lines in a window of {window}");
    }
}
