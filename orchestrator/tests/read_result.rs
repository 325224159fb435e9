//! Long results: what is kept of them, and the tool that reads it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::hook::redact;
use toolwright_module::message::{Image, ToolResult};
use toolwright_module::testing::Scripted;
use toolwright_module::untrusted::fence;
use toolwright_module::{
    Context, Contract, Dialect, Effect, Message, Reply, Request, Tool, ToolCall, ToolOutput,
};
use toolwright_orchestrator::perform::{Outcome, OutcomeKind, Record, Replay, with_performer};
use toolwright_orchestrator::{
    Agent, ApprovalPolicy, Compaction, Limits, Run, RunError, RunState, StepResult, Task,
};

use crate::support::{agent, call, calls, look, replies, show, soon, tool};

/// A tool with this text as its result.
fn says(text: impl Into<Arc<str>>) -> Tool {
    let text: Arc<str> = text.into();
    tool("look", Effect::Read, move |_| {
        let text = Arc::clone(&text);
        async move { Ok(text.to_string()) }
    })
}

fn limits(most: usize) -> Limits {
    Limits { max_result_bytes: most, max_iterations: 1_000, ..Limits::default() }
}

fn read(id: &str, arguments: Value) -> ToolCall {
    ToolCall::new(id, "read_result", arguments.to_string())
}

/// The results in a conversation.
fn results(messages: &[Arc<Message>]) -> Vec<&ToolResult> {
    let results = messages.iter().filter_map(|message| match &**message {
        Message::Tool(result) => Some(result),
        _ => None,
    });
    results.collect()
}

/// Returns an agent that reads results, and looks first.
fn reader(tools: impl IntoIterator<Item = Tool>, reads: Vec<Value>, limits: Limits) -> Agent {
    let reads = reads.into_iter().enumerate();
    let reads = reads.map(|(nth, asked)| Reply::calls([read(&format!("read_{nth}"), asked)]));
    let said = [calls([("call_7", "look", "here")])].into_iter().chain(reads);
    let (agent, _) = agent(tools, said.chain([Reply::text("Done.")]));
    agent.with_limits(limits).with_result_reading().unwrap()
}

#[tokio::test]
async fn the_rest_of_a_long_result_can_be_read() {
    let text: String = (0..40).map(|line| format!("line {line} of the log\n")).collect();
    let reads = vec![
        json!({"id": "call_7", "from": 250}),
        json!({"id": "call_7", "search": "LINE 3", "from": 100}),
        json!({"id": "call_7", "search": "nothing"}),
        json!({"id": "call_7", "from": 900}),
        json!({"id": "call_8"}),
        json!({"id": "read_0", "from": null, "search": ""}),
    ];
    let agent = reader([says(text.clone())], reads, limits(300));
    let mut run = agent.start("Go.").unwrap();
    agent.drive(&mut run, &soon()).await.unwrap();
    insta::assert_snapshot!(show(run.history()));
    let results = results(run.history());
    assert_eq!(results[0].whole.as_deref(), Some(&*text));
    assert!(results[1..].iter().all(|result| result.whole.is_none()), "no copies of copies");
    assert!(results.iter().all(|result| result.text.len() <= 300));
}

#[tokio::test]
async fn a_whole_text_is_in_no_request_and_no_event() {
    let secret = format!("{} the end of it", "word ".repeat(200));
    let (model, asked) = replies([
        calls([("call_7", "look", "here")]),
        calls([("call_8", "look", "there")]),
        Reply::text("Done."),
    ]);
    let agent = Agent::new(model, [says(secret)]).unwrap();
    let agent = agent.with_limits(limits(300)).with_result_reading().unwrap();
    let events = Arc::new(std::sync::Mutex::new(String::new()));
    let kept = Arc::clone(&events);
    let cx = soon().with_events(move |event| {
        kept.lock().unwrap().push_str(&serde_json::to_string(&event).unwrap());
    });
    let mut run = agent.start("Go.").unwrap();
    agent.drive(&mut run, &cx).await.unwrap();
    let requests = asked.requests();
    assert!(!serde_json::to_string(&requests).unwrap().contains("the end of it"));
    assert!(!events.lock().unwrap().contains("the end of it"));
    // The same message in each request, so that a provider does not write it again.
    assert!(Arc::ptr_eq(&requests[1].messages[2], &requests[2].messages[2]));
    assert_eq!(
        requests[2].tools.iter().map(|tool| tool.name()).collect::<Vec<_>>(),
        ["look", "read_result"]
    );
}

#[tokio::test]
async fn without_the_tool_nothing_is_kept() {
    for (tools, reads) in [(vec![says("word ".repeat(200))], false), (vec![], true)] {
        let has_tools = !tools.is_empty();
        let said = [calls([("call_7", "look", "here")]), Reply::text("Done.")];
        let (mut agent, asked) = agent(tools, said);
        agent = agent.with_limits(limits(300));
        if reads {
            agent = agent.with_result_reading().unwrap();
        }
        let mut run = agent.start("Go.").unwrap();
        agent.drive(&mut run, &soon()).await.unwrap();
        assert!(results(run.history()).iter().all(|result| result.whole.is_none()));
        assert!(has_tools || asked.requests()[0].tools.is_empty());
    }
}

#[test]
fn a_tool_of_the_program_has_another_name() {
    let ours = tool("read_result", Effect::Read, async |_| Ok("read".to_owned()));
    let (agent, _) = agent([ours], []);
    let error = agent.with_result_reading().err().unwrap();
    assert!(matches!(error, RunError::ReservedForReading), "{error}");
}

#[test]
fn a_compaction_goes_on_without_it_if_a_tool_has_its_name() {
    let ours = tool("read_result", Effect::Read, async |_| Ok("read".to_owned()));
    let (agent, _) = agent([ours], []);
    let agent = agent.with_compaction(Compaction::default()).unwrap();
    assert_eq!(agent.start("Go.").unwrap().offered().count(), 1);
    assert!(agent.with_result_reading().is_err());
}

#[tokio::test]
async fn a_filter_does_not_hide_it_and_an_offer_does() {
    let text = "word ".repeat(200);
    let said = || [calls([("call_7", "look", "here")]), Reply::text("Done.")];
    let (filtered, asked) = agent([says(text.clone())], said());
    let filtered = filtered.with_limits(limits(300)).with_result_reading().unwrap();
    let filtered = filtered.with_filter(|_, tool, _| tool.name() == "look").unwrap();
    filtered.run("Go.", &soon()).await.unwrap();
    assert_eq!(asked.requests()[1].tools.len(), 2);

    let (offered, asked) = agent([says(text)], said());
    let offered = offered.with_limits(limits(300)).with_result_reading().unwrap();
    let mut run = offered.start("Go.").unwrap();
    run.offer(["look"]).unwrap();
    offered.drive(&mut run, &soon()).await.unwrap();
    assert_eq!(asked.requests()[1].tools.len(), 1);
    let result = results(run.history())[0];
    assert!(result.whole.is_none() && result.text.ends_with("ask for less]"), "{}", result.text);
}

#[tokio::test]
async fn the_whole_run_keeps_a_number_of_bytes() {
    let texts = ["a", "b", "c"].map(|text| text.repeat(1_000));
    let nth = AtomicUsize::new(0);
    let tool = tool("look", Effect::Write, move |_| {
        let text = texts[nth.fetch_add(1, Ordering::SeqCst)].clone();
        async move { Ok(text) }
    });
    let said = [
        calls([("1", "look", "a"), ("2", "look", "b"), ("3", "look", "c")]),
        Reply::calls([read("4", json!({"id": "2", "from": 400}))]),
        Reply::text("Done."),
    ];
    let (agent, _) = agent([tool], said);
    let limits = Limits { max_kept_bytes: 1_500, ..limits(300) };
    let agent = agent.with_limits(limits).with_result_reading().unwrap();
    let mut run = agent.start("Go.").unwrap();
    agent.drive(&mut run, &soon()).await.unwrap();
    let results = results(run.history());
    let kept = |result: &ToolResult| (result.whole.as_ref().map(|it| it.len()), result.lost_bytes);
    assert_eq!(kept(results[0]), (Some(1_000), 0));
    assert_eq!(kept(results[1]), (Some(500), 500));
    assert_eq!(kept(results[2]), (None, 0));
    assert!(results[2].text.ends_with("ask for less]"), "{}", results[2].text);
    let end = "\n[bytes 400 to 500 of 1000: the rest was not kept; to see more, make the call again and ask for less]";
    assert_eq!(results[3].text, format!("{}{end}", "b".repeat(100)));

    // The next conversation has what was kept in this one.
    let (agent, _) = crate::support::agent(
        [look()],
        [
            Reply::calls([read("5", json!({"id": "1", "search": "aaa", "from": 990}))]),
            Reply::text("Done."),
        ],
    );
    let agent = agent.with_result_reading().unwrap();
    let task = Task::new("Again.").with_history(run.history().to_vec());
    let finished = agent.run(task, &soon()).await.unwrap();
    let last = self::results(&finished.history).last().unwrap().text.clone();
    assert!(last.starts_with("at 990, 993, 996: ") && last.contains("[all 3 matches"), "{last}");
}

#[tokio::test]
async fn reads_side_by_side_keep_no_more_than_the_run_may() {
    let said =
        [calls([("1", "look", "a"), ("2", "look", "b"), ("3", "look", "c")]), Reply::text("Done.")];
    let (agent, _) = agent([says("a".repeat(1_000))], said);
    let limits = Limits { max_kept_bytes: 2_500, ..limits(300) };
    let agent = agent.with_limits(limits).with_result_reading().unwrap();
    let mut run = agent.start("Go.").unwrap();
    agent.drive(&mut run, &soon()).await.unwrap();
    let all = results(run.history());
    let kept: Vec<_> = all.iter().map(|it| it.whole.as_ref().map(|whole| whole.len())).collect();
    assert_eq!(kept, [Some(1_000), Some(1_000), Some(500)]);
    for result in all {
        assert_eq!(
            result.text.contains("read more with"),
            result.whole.is_some(),
            "{}",
            result.text
        );
    }
}

#[tokio::test]
async fn notes_about_a_person_and_about_images_are_not_cut() {
    let contract = Contract::dynamic("draw", "Draw.", json!({"type": "object"}), None).unwrap();
    let draw = Tool::dynamic(contract, Effect::Write, |_, _| async {
        let image = Image::bytes("image/png", vec![1; 1_000]);
        Ok(ToolOutput::text_only("word ".repeat(300)).with_parts([image.into()]))
    });
    let said = [
        Reply::calls([ToolCall::new("call_7", "draw", "{}")]),
        Reply::calls([read("call_8", json!({"id": "call_7", "from": 1_490}))]),
        Reply::text("Done."),
    ];
    let model = Scripted::replies(said);
    let limits = Limits { max_part_bytes: 10, ..limits(400) };
    let agent = Agent::new(model, [draw]).unwrap().with_limits(limits);
    let agent = agent.with_result_reading().unwrap();
    let agent = agent.with_approval(ApprovalPolicy::from_effect(Effect::Write)).unwrap();
    let cx = soon().with_approver(async |_: Approval| {
        Ok(Decision::Edit { arguments: r#"{"a":1}"#.to_owned() })
    });
    let mut run = agent.start("Go.").unwrap();
    agent.drive(&mut run, &cx).await.unwrap();
    insta::assert_snapshot!(show(run.history()));
    assert!(results(run.history()).iter().all(|result| result.text.len() <= 400));
}

#[tokio::test]
async fn images_of_a_result_are_there_again() {
    let contract = Contract::dynamic("draw", "Draw.", json!({"type": "object"}), None).unwrap();
    let draw = Tool::dynamic(contract, Effect::Read, |_, _| async {
        let image = Image::bytes("image/png", vec![1; 100]);
        Ok(ToolOutput::text_only("Here: [image 1]").with_parts([image.into()]))
    });
    let model = Scripted::replies([
        Reply::calls([ToolCall::new("1", "draw", "{}")]),
        Reply::calls([read("2", json!({"id": "1"})), read("3", json!({"id": "1", "from": 5}))]),
        Reply::text("Done."),
    ]);
    let agent = Agent::new(model, [draw]).unwrap().with_result_reading().unwrap();
    let finished = agent.run("Go.", &soon()).await.unwrap();
    let parts: Vec<usize> =
        results(&finished.history).iter().map(|result| result.parts.len()).collect();
    assert_eq!(parts, [1, 1, 0]);
}

#[tokio::test]
async fn a_secret_is_redacted_before_it_is_kept() {
    let text = format!("{}sk-live-1 {}", "word ".repeat(100), "word ".repeat(100));
    let agent = reader([says(text)], vec![json!({"id": "call_7", "search": "key"})], limits(300));
    let agent = agent.with_hook(redact(|text| text.replace("sk-live-1", "[key]").into()));
    let mut run = agent.start("Go.").unwrap();
    agent.drive(&mut run, &soon()).await.unwrap();
    assert!(!serde_json::to_string(&run).unwrap().contains("sk-live"));
    let found = &results(run.history())[1].text;
    assert!(found.contains("[key]"), "{found}");
}

#[tokio::test]
async fn a_stored_run_reads_on_and_edits_store_no_copy() {
    let text = "word ".repeat(2_000);
    let agent =
        reader([says(text.clone())], vec![json!({"id": "call_7", "from": 9_990})], limits(300));
    let mut run = agent.start("Go.").unwrap();
    agent.step(&mut run, &soon()).await.unwrap();
    agent.step(&mut run, &soon()).await.unwrap();
    // A copy of the result is sent in place of it, as an editor may do.
    let sent = run.sent().to_vec();
    run.edit_sent(3, sent).unwrap();
    let stored = serde_json::to_string(&run).unwrap();
    assert!(stored.len() < 2 * text.len(), "{}", stored.len());
    let state: RunState = serde_json::from_str(&stored).unwrap();

    let said =
        [Reply::calls([read("8", json!({"id": "call_7", "from": 9_990}))]), Reply::text("Done.")];
    let (next, asked) = crate::support::agent([says("")], said);
    let next = next.with_result_reading().unwrap();
    let mut resumed = next.resume(state).unwrap();
    assert!(resumed.changes.is_empty(), "{:?}", resumed.changes);
    next.drive(&mut resumed.run, &soon()).await.unwrap();
    let last = results(resumed.run.history())[1].text.clone();
    assert_eq!(last, "word word \n[bytes 9990 to 10000 of 10000: the end]");
    assert!(
        asked
            .requests()
            .iter()
            .all(|request| { !serde_json::to_string(request).unwrap().contains(&text) })
    );
}

/// A run that was cut after each record goes on in the same way.
#[tokio::test]
async fn a_replay_keeps_and_reads_the_same() {
    let said = || {
        Scripted::new(|request: &Request| {
            let replied = |message: &&Arc<Message>| matches!(***message, Message::Assistant { .. });
            Ok(match request.messages.iter().filter(replied).count() {
                0 => calls([("1", "look", "a"), ("2", "look", "b"), ("3", "look", "c")]),
                1 => Reply::calls([
                    read("4", json!({"id": "1", "from": 900})),
                    read("5", json!({"id": "2", "search": "b"})),
                    read("6", json!({"id": "3", "from": 900})),
                ]),
                _ => Reply::text("Done."),
            })
        })
    };
    let looks = || tool("look", Effect::Read, async |look| Ok(look.place.repeat(1_000)));
    let limits = || Limits { max_kept_bytes: 2_400, ..limits(300) };
    let agent = || {
        let agent = Agent::new(said(), [looks()]).unwrap().with_limits(limits());
        agent.with_result_reading().unwrap()
    };
    let journal = Replay::in_memory([]);
    let cx = with_performer(&Context::default(), journal.clone());
    let whole = agent().run("Go.", &cx).await.unwrap();
    let records: Vec<Record> = journal.records();
    for cut in 0..=records.len() {
        let text = serde_json::to_string(&records[..cut]).unwrap();
        let records: Vec<Record> = serde_json::from_str(&text).unwrap();
        let cx = with_performer(&Context::default(), Replay::in_memory(records));
        let again = agent().run("Go.", &cx).await.unwrap();
        assert_eq!(again.history, whole.history, "{cut}");
    }
    let kept: Vec<_> = results(&whole.history)[..3]
        .iter()
        .map(|result| result.whole.as_ref().map_or(0, |whole| whole.len()))
        .collect();
    assert_eq!(kept, [1_000, 1_000, 400]);
}

#[test]
fn a_performer_keeps_the_start_of_a_whole_text() {
    let (mut run, _) = cut_run("\u{1}é\"".repeat(1_000), 300);
    let result = results(run.history())[0].clone();
    let call = call("call_7", "look", "here");
    let outcome = |result: &ToolResult| {
        Outcome::new(OutcomeKind::Called { result: result.clone(), error: None })
    };
    // Without it, the result is small enough.
    let same = outcome(&result).with_most_bytes(&call, 2_000).unwrap();
    assert_eq!(same, outcome(&result));
    let kept = |most: usize| {
        let OutcomeKind::Called { result, .. } = outcome(&result).with_most_whole_bytes(most).kind
        else {
            panic!()
        };
        result
    };
    assert_eq!(kept(10_000), result);
    let shorter = kept(5_000);
    let whole = shorter.whole.unwrap();
    assert_eq!(shorter.lost_bytes as usize + whole.len(), 4_000);
    let json = serde_json::to_string(&*whole).unwrap().len();
    assert!((4_990..=5_002).contains(&json), "{json}");
    let none = kept(100);
    assert!(none.whole.is_none() && none.lost_bytes == 0);
    assert!(none.text.ends_with("ask for less]"), "{}", none.text);
    // A run that cannot read it drops it, too.
    run = Run::resume(run.state().clone(), &[look()]).unwrap().run;
    assert!(!run.history().is_empty());
}

/// Returns a run with one long result, and its agent.
fn cut_run(text: String, most: usize) -> (Run, Agent) {
    let text: Arc<str> = text.into();
    let contract = Contract::dynamic("look", "Look.", json!({"type": "object"}), None).unwrap();
    let look = Tool::dynamic(contract, Effect::Read, move |_, _| {
        let text = Arc::clone(&text);
        async move { Ok(ToolOutput::text_only(&*text)) }
    });
    let agent = reader([look], vec![], limits(most));
    let mut run = agent.start("Go.").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(agent.drive(&mut run, &soon())).unwrap();
    (run, agent)
}

/// Reads a result with the tool, and returns the output.
fn ask(run: &Run, most: usize, asked: Value) -> Result<String, String> {
    let (agent, _) = agent([look()], [Reply::calls([read("asked", asked)]), Reply::text("Done.")]);
    let agent = agent.with_limits(limits(most)).with_result_reading().unwrap();
    let task = Task::new("Go on.").with_history(run.history().to_vec());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let finished = runtime.block_on(agent.run(task, &soon())).unwrap();
    let result = results(&finished.history).last().copied().unwrap().clone();
    assert!(result.text.len() <= most, "{}", result.text);
    if result.failed { Err(result.text) } else { Ok(result.text) }
}

/// Splits an output in the text and the arguments with which its note says to go on.
fn next(output: &str) -> (&str, Option<Value>) {
    let (text, note) = output.rsplit_once("\n[").unwrap_or_else(|| ("", &output[1..]));
    let next = note.split_once("go on with read_result ");
    (text, next.map(|(_, next)| serde_json::from_str(next.strip_suffix(']').unwrap()).unwrap()))
}

fn pages(run: &Run, most: usize) -> String {
    let (mut asked, mut whole) = (json!({"id": "call_7"}), String::new());
    loop {
        let page = ask(run, most, asked).unwrap();
        let (text, next) = next(&page);
        whole.push_str(text);
        match next {
            None => return whole,
            Some(next) => asked = next,
        }
    }
}

/// Follows a search to its end, and returns the places of all matches.
fn places(run: &Run, most: usize, words: &str) -> BTreeSet<usize> {
    let (mut asked, mut places) = (json!({"id": "call_7", "search": words}), BTreeSet::new());
    loop {
        let page = ask(run, most, asked).unwrap();
        for line in page.lines().filter(|line| line.starts_with("at ")) {
            let list = line["at ".len()..].split(": ").next().unwrap();
            for place in list.split(", ") {
                assert!(places.insert(place.parse().unwrap()), "{place} twice");
            }
        }
        match next(&page).1 {
            None => return places,
            Some(next) => asked = next,
        }
    }
}

fn odd_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,400}",
        "[a-c\n]{0,2000}",
        "(İ|Ⱥ|K|ß|ς|Σ|a|\u{0}|\u{1}|😀|\n|\r\n|\"){0,300}",
        "\n{0,900}",
        Just(String::new()),
        Just("at 1: x\n[bytes 0 to 3 of 4]".repeat(30)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn following_the_notes_gives_the_whole_text(text in odd_text(), most in 250..600_usize) {
        let (run, _) = cut_run(text.clone(), most);
        let result = results(run.history())[0];
        prop_assert!(result.text.len() <= most);
        prop_assert_eq!(result.whole.is_some(), text.len() > most);
        if let Some(whole) = &result.whole {
            prop_assert_eq!(&**whole, &*text);
        }
        prop_assert_eq!(pages(&run, most), text);
    }

    #[test]
    fn a_search_finds_every_match(
        text in "([a-cA-C \n]|É|é|😀){0,1500}",
        words in "([a-c ]|é){1,3}",
        most in 250..600_usize,
    ) {
        let (run, _) = cut_run(text.clone(), most);
        // No character of these changes its length.
        let lower = text.to_lowercase();
        let expected: BTreeSet<usize> = lower.match_indices(&words).map(|(at, _)| at).collect();
        prop_assert_eq!(places(&run, most, &words), expected);
    }

    #[test]
    fn any_arguments_have_an_answer(
        text in odd_text(),
        from in prop_oneof![Just(None), (0..700_u64).prop_map(Some), Just(Some(u64::MAX))],
        search in prop::option::of("\\PC{0,40}"),
        most in prop_oneof![Just(0), 1..250_usize, Just(10_000)],
    ) {
        let (run, _) = cut_run(text, most);
        let _ = ask(&run, most, json!({"id": "call_7", "from": from, "search": search}));
    }
}

/// The text of strangers is cleaned and put between marks when it is read, so that it may get longer.
#[test]
fn pages_and_matches_of_untrusted_text_that_grows_go_on_where_they_ended() {
    for (odd, most) in [("\u{200b}", 300), ("\u{1}", 400), ("a\u{202e} ", 1_000), ("\u{1}", 250)] {
        let text = format!("{}fog{}", odd.repeat(500), odd.repeat(300));
        // The mail is between marks, and what stands before it is not.
        let text = format!("{text}\n{}", fence("A mail about fog."));
        let (run, _) = cut_run(text.clone(), most);
        assert!(results(run.history())[0].untrusted);
        let (mut asked, mut end) = (json!({"id": "call_7"}), 0);
        loop {
            let page = ask(&run, most, asked).unwrap();
            let (_, note) = page.rsplit_once("\n[bytes ").unwrap_or_else(|| panic!("{page}"));
            let (start, note) = note.split_once(" to ").unwrap();
            assert_eq!(start, end.to_string(), "{page}");
            end = note.split_once(" of ").unwrap().0.parse().unwrap();
            match next(&page).1 {
                None => break,
                Some(next) => asked = next,
            }
        }
        assert_eq!(end, text.len());
        let expected: BTreeSet<usize> = text.match_indices("fog").map(|(at, _)| at).collect();
        assert_eq!(places(&run, most, "fog"), expected, "{odd:?}");
    }
}

#[test]
fn odd_letters_are_found_where_they_are() {
    let text = format!("{}İstanbul, ⱥ and K{}", "x".repeat(400), "y".repeat(400));
    let (run, _) = cut_run(text.clone(), 300);
    for (words, at) in [("stanbul", 402), ("i", 400), ("Ⱥ", 411), ("k", 419), ("Ky", 419)] {
        assert_eq!(places(&run, 300, words).into_iter().collect::<Vec<_>>(), [at], "{words}");
    }
}

#[test]
fn a_line_of_ten_megabytes_is_read() {
    let text = "0123456789".repeat(1_000_000);
    let (run, _) = cut_run(text, 65_536);
    let page = ask(&run, 65_536, json!({"id": "call_7", "from": 9_999_995})).unwrap();
    assert_eq!(page, "56789\n[bytes 9999995 to 10000000 of 10000000: the end]");
    let found = ask(&run, 65_536, json!({"id": "call_7", "search": "90", "from": 9_999_980}));
    let found = found.unwrap();
    assert!(found.starts_with("at 9999989: "), "{found}");
    let all = ask(&run, 2_000, json!({"id": "call_7", "search": "5678"})).unwrap();
    assert!(all.contains("of 1000000 matches from byte 0 on"), "{all}");
}

#[test]
fn a_huge_result_is_kept_up_to_the_limit() {
    let (run, _) = cut_run("a line of the log\n".repeat(1_000_000), 1_000);
    let result = results(run.history())[0];
    assert_eq!(result.whole.as_ref().unwrap().len(), 16 * 1024 * 1024);
    let page = ask(&run, 1_000, json!({"id": "call_7", "from": 16_777_200})).unwrap();
    assert!(page.contains("of 18000000: the rest was not kept"), "{page}");
}

#[test]
fn results_by_hand_are_kept_for_a_later_agent_only() {
    // A loop by hand has no `read_result`, so its results are cut as before.
    let mut run = Run::new("Go.", &[look()], limits(300)).unwrap();
    let asked = call("1", "look", "a");
    run.apply(StepResult::model(0, Reply::calls([asked.clone()]))).unwrap();
    let mut result = ToolResult::new(&asked, "a".repeat(1_000));
    result.whole = Some("b".into());
    run.apply(StepResult::tools(1, [result])).unwrap();
    let result = results(run.history())[0];
    assert!(result.whole.is_none() && result.text.ends_with("ask for less]"));
}

#[test]
fn an_agent_with_too_many_tools_does_not_defer_it() {
    let model = Scripted::replies([])
        .with_capabilities(toolwright_module::model::Capabilities::new(Dialect::OpenAiStrict));
    let tools = (0..200).map(|nth| look().named(&format!("look_{nth}")).unwrap());
    let agent = Agent::new(model, tools).unwrap().with_result_reading().unwrap();
    let run = agent.start("Go.").unwrap();
    let shown: Vec<_> = run.offered().collect();
    assert_eq!(&shown[15..], ["look_15", "find_tools", "read_result"]);
    assert!(agent.losses().iter().all(|(name, _)| name != "read_result"));
}

#[tokio::test]
async fn what_a_compaction_cleared_is_read_again() {
    let said = |request: &Request| {
        let replied = |message: &&Arc<Message>| matches!(***message, Message::Assistant { .. });
        Ok(match request.messages.iter().filter(replied).count() {
            round @ 0..12 => calls([(&*format!("call_{round}"), "look", &*format!("{round}"))]),
            12 => Reply::calls([read("again", json!({"id": "call_0", "search": "END"}))]),
            _ => Reply::text("Done."),
        })
    };
    let looks = tool("look", Effect::Read, async |look| {
        Ok(format!("room {} {}the end", look.place, "word ".repeat(400)))
    });
    let agent = Agent::new(Scripted::new(said), [looks]).unwrap().with_limits(limits(1_000));
    let rules = Compaction { window: Some(14_000), keep_rounds: 1, ..Compaction::default() };
    let agent = agent.with_compaction(rules).unwrap();
    let journal = Replay::in_memory([]);
    let mut run = agent.start("Go.").unwrap();
    let cx = with_performer(&Context::default(), journal.clone());
    agent.drive(&mut run, &cx).await.unwrap();
    let cleared = Message::Tool(results(&run.sent())[0].clone());
    assert!(show(&[cleared.into()]).contains(r#"read_result {"id": "call_0"}"#));
    let found = results(run.history()).last().unwrap().text.clone();
    assert!(found.contains("the end\n[1 match"), "{found}");

    // A whole text is in the record of its call only.
    let records = journal.records();
    let with_end = records
        .iter()
        .filter(|record| serde_json::to_string(record).unwrap().contains(r#""whole":"room 0"#));
    assert_eq!(with_end.count(), 1);
}
