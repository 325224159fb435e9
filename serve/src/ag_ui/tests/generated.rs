//! Runs at random: their events obey the protocol, and their messages have the texts of the run.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::client::Client;
use super::*;

/// What may happen next. The numbers choose among what there is.
#[derive(Debug, Clone)]
enum Step {
    Text(usize, String),
    Reasoning(usize, String),
    NewCall(usize),
    CallText(usize, String, bool),
    Answer(usize),
    Discard(usize),
    Reply(usize, bool),
    Below(usize),
    Result(usize),
    Ask(usize),
    Decide(usize),
    Compact(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = || 0..6_usize;
    let text = || "[a-z\"{]{1,3}";
    let step = prop_oneof![
        4 => (who(), text()).prop_map(|(who, text)| Step::Text(who, text)),
        2 => (who(), text()).prop_map(|(who, text)| Step::Reasoning(who, text)),
        3 => who().prop_map(Step::NewCall),
        3 => (who(), text(), prop::bool::weighted(0.1))
            .prop_map(|(who, text, anew)| Step::CallText(who, text, anew)),
        1 => who().prop_map(Step::Answer),
        1 => who().prop_map(Step::Discard),
        4 => (who(), prop::bool::weighted(0.1)).prop_map(|(who, other)| Step::Reply(who, other)),
        2 => who().prop_map(Step::Below),
        4 => who().prop_map(Step::Result),
        1 => who().prop_map(Step::Ask),
        1 => who().prop_map(Step::Decide),
        1 => who().prop_map(Step::Compact),
    ];
    prop::collection::vec(step, 1..60)
}

/// A run, and what its messages have to be.
#[derive(Default)]
pub(super) struct Generated {
    pub(super) updates: Vec<Update>,
    agents: Vec<Agent>,
    calls: usize,
    is_done: bool,
}

#[derive(Default)]
struct Agent {
    path: Vec<Around>,
    /// The tool of the call around it.
    owner: Option<String>,
    replies: Vec<Reply>,
    is_done: bool,
}

#[derive(Default)]
struct Reply {
    text: String,
    reasoning: Vec<String>,
    is_reasoning: bool,
    calls: Vec<Call>,
    is_whole: bool,
}

struct Call {
    tool: String,
    arguments: String,
    is_asked: bool,
    result: Option<String>,
}

impl Generated {
    fn new(steps: &[Step]) -> Self {
        let agents = vec![Agent::default()];
        let mut run = Self { agents, ..Self::default() };
        run.updates.push(Update::new(started()));
        for step in steps {
            if !run.is_done {
                run.step(step);
            }
        }
        if !run.is_done {
            run.updates.push(Update::new(stopped()));
        }
        run
    }

    fn emit(&mut self, at: usize, kind: UpdateKind) {
        let path = self.agents[at].path.clone();
        self.updates.push(Update { path, kind });
    }

    /// The chosen agent, if it has no open calls.
    fn writer(&self, who: usize) -> Option<usize> {
        let at = who % self.agents.len();
        let agent = &self.agents[at];
        let is_open = |call: &Call| call.result.is_none();
        let waits =
            agent.replies.iter().any(|reply| reply.is_whole && reply.calls.iter().any(is_open));
        (!waits && !agent.is_done).then_some(at)
    }

    /// The reply that the chosen agent writes.
    fn reply(&mut self, who: usize) -> Option<(usize, &mut Reply)> {
        let at = self.writer(who)?;
        let replies = &mut self.agents[at].replies;
        if replies.last().is_none_or(|reply| reply.is_whole) {
            replies.push(Reply::default());
        }
        Some((at, replies.last_mut()?))
    }

    /// An open call, by its agent, reply and place.
    fn open_call(&self, who: usize, fits: impl Fn(&Call) -> bool) -> Option<(usize, usize, usize)> {
        let mut open = Vec::new();
        for (at, agent) in self.agents.iter().enumerate() {
            for (reply, whole) in
                agent.replies.iter().enumerate().filter(|(_, reply)| reply.is_whole)
            {
                for (place, call) in whole.calls.iter().enumerate() {
                    if call.result.is_none() && fits(call) {
                        open.push((at, reply, place));
                    }
                }
            }
        }
        (!open.is_empty()).then(|| open[who % open.len()])
    }

    fn step(&mut self, step: &Step) -> Option<()> {
        match step {
            Step::Text(who, piece) => {
                let (at, reply) = self.reply(*who)?;
                reply.is_reasoning = false;
                reply.text.push_str(piece);
                self.emit(at, text(piece));
            }
            Step::Reasoning(who, piece) => {
                let (at, reply) = self.reply(*who)?;
                if !std::mem::replace(&mut reply.is_reasoning, true) {
                    reply.reasoning.push(String::new());
                }
                reply.reasoning.last_mut()?.push_str(piece);
                self.emit(at, reasoning(piece));
            }
            Step::NewCall(who) => {
                let tool = format!("tool{}", self.calls);
                self.calls += 1;
                let (_, reply) = self.reply(*who)?;
                let arguments = String::new();
                reply.calls.push(Call { tool, arguments, is_asked: false, result: None });
            }
            Step::CallText(who, piece, anew) => {
                let (at, reply) = self.reply(*who)?;
                let place = who % reply.calls.len().max(1);
                let call = reply.calls.get_mut(place)?;
                reply.is_reasoning = false;
                if *anew {
                    call.arguments.clear();
                }
                let from = call.arguments.len();
                call.arguments.push_str(piece);
                let kind = call_text(place, &call.tool, from, piece);
                self.emit(at, kind);
            }
            Step::Answer(who) => {
                let (at, reply) = self.reply(*who)?;
                reply.is_reasoning = false;
                self.emit(at, UpdateKind::Answer { at: 0, text: "{".to_owned() });
            }
            Step::Discard(who) => {
                let at = self.writer(*who)?;
                self.agents[at].replies.pop_if(|reply| !reply.is_whole);
                self.emit(at, UpdateKind::Discarded);
            }
            Step::Reply(who, other) => self.finish_reply(*who, *other)?,
            Step::Below(who) => {
                let (at, reply, place) = self.open_call(*who, |call| !call.is_asked)?;
                let call = &self.agents[at].replies[reply].calls[place];
                let owner = Some(call.tool.clone());
                if self.agents.iter().any(|agent| agent.owner == owner) {
                    return None;
                }
                let mut path = self.agents[at].path.clone();
                path.push(Around { tool: call.tool.clone(), id: format!("id-{}", call.tool) });
                self.agents.push(Agent { path, owner, ..Agent::default() });
            }
            Step::Result(who) => {
                let is_below_done = |call: &Call| {
                    let below =
                        self.agents.iter().find(|agent| agent.owner.as_ref() == Some(&call.tool));
                    below.is_none_or(|below| below.is_done)
                };
                let (at, reply, place) =
                    self.open_call(*who, |call| !call.is_asked && is_below_done(call))?;
                let call = &mut self.agents[at].replies[reply].calls[place];
                let (tool, text) = (call.tool.clone(), format!("result of {}", call.tool));
                call.result = Some(text.clone());
                self.emit(at, result(&format!("id-{tool}"), &tool, &text));
            }
            Step::Ask(who) => {
                let (at, reply, place) = self.open_call(*who, |call| {
                    !call.is_asked
                        && self.agents.iter().all(|agent| agent.owner.as_ref() != Some(&call.tool))
                })?;
                let call = &mut self.agents[at].replies[reply].calls[place];
                call.is_asked = true;
                let question = question(&format!("id-{}", call.tool), &call.tool, &call.arguments);
                self.emit(at, UpdateKind::ApprovalAsked(question));
            }
            Step::Decide(who) => {
                let (at, reply, place) = self.open_call(*who, |call| call.is_asked)?;
                let call = &mut self.agents[at].replies[reply].calls[place];
                call.is_asked = false;
                let id = format!("id-{}", call.tool);
                let kind = match who % 2 {
                    0 => decided(&id),
                    _ => {
                        call.result = Some("No.".to_owned());
                        let decision = Decided::Deny { reason: "No.".to_owned() };
                        UpdateKind::Decided { id, decision, by: None }
                    }
                };
                self.emit(at, kind);
            }
            Step::Compact(who) => {
                let at = self.writer(*who)?;
                self.emit(at, UpdateKind::Compacted { tokens_before: 2, tokens_after: 1 });
            }
        }
        Some(())
    }

    fn finish_reply(&mut self, who: usize, other: bool) -> Option<()> {
        let (at, reply) = self.reply(who)?;
        reply.is_whole = true;
        if other {
            // It was cut off.
            reply.calls.pop();
        }
        let mut kinds = Vec::new();
        for (place, call) in reply.calls.iter_mut().enumerate() {
            if other {
                call.arguments.insert(0, ' ');
            }
            call.arguments.push('}');
            let id = format!("id-{}", call.tool);
            kinds.push(called(place, &id, &call.tool, &call.arguments));
        }
        let is_answer = reply.calls.is_empty();
        let answer = reply.text.clone();
        kinds.push(replied());
        self.agents[at].is_done = is_answer;
        for kind in kinds {
            self.emit(at, kind);
        }
        if is_answer && at == 0 {
            self.is_done = true;
            self.emit(0, done(&answer));
        }
        Some(())
    }

    /// The messages with their owners, sorted.
    fn messages(&self) -> Vec<Value> {
        let mut messages = Vec::new();
        for agent in &self.agents {
            for reply in &agent.replies {
                let shown =
                    reply.calls.iter().filter(|call| reply.is_whole || !call.arguments.is_empty());
                let calls: Vec<_> =
                    shown.map(|call| json!([call.tool, call.arguments, call.result])).collect();
                if !calls.is_empty() || !reply.text.is_empty() {
                    messages.push(json!([agent.owner, "assistant", reply.text, sorted(calls)]));
                }
                let reasoning = reply.reasoning.iter();
                messages.extend(reasoning.map(|text| json!([agent.owner, "reasoning", text, []])));
            }
        }
        sorted(messages)
    }

    fn questions(&self) -> Vec<Value> {
        let replies = self.agents.iter().flat_map(|agent| &agent.replies);
        let asked = replies.flat_map(|reply| &reply.calls).filter(|call| call.is_asked);
        sorted(asked.map(|call| json!(format!("q-id-{}", call.tool))).collect())
    }
}

fn sorted(mut values: Vec<Value>) -> Vec<Value> {
    values.sort_by_key(ToString::to_string);
    values
}

/// The messages of a client in the same form. Reasoning without a text is void.
fn of_client(client: &Client) -> Vec<Value> {
    let calls = client.messages.iter().filter_map(|message| message["toolCalls"].as_array());
    let calls: Vec<_> = calls.flatten().collect();
    let tool = |id: &Value| {
        calls.iter().find(|call| call["id"] == *id).map(|call| &call["function"]["name"])
    };
    let result = |id: &Value| {
        let of = |message: &&Value| message["role"] == "tool" && message["toolCallId"] == *id;
        let results: Vec<_> = client.messages.iter().filter(of).collect();
        assert!(results.len() <= 1, "{results:?}");
        results.first().map(|message| &message["content"])
    };
    let is_own = |message: &&Value| match message["role"].as_str() {
        Some("assistant") => true,
        Some("reasoning") => message["content"] != "",
        _ => false,
    };
    let of = |message: &Value| {
        let function = |call: &Value| {
            let function = &call["function"];
            json!([function["name"], function["arguments"], result(&call["id"])])
        };
        let calls = message["toolCalls"].as_array().into_iter().flatten().map(function).collect();
        let text = message["content"].as_str().unwrap_or_default();
        json!([tool(&message["subagentRunId"]), message["role"], text, sorted(calls)])
    };
    sorted(client.messages.iter().filter(is_own).map(of).collect())
}

fn base() -> Vec<Value> {
    vec![
        json!({ "id": "a0", "role": "assistant", "content": "" }),
        json!({ "id": "u1", "role": "user", "content": "Pay Ann." }),
    ]
}

/// A client that loses its connection at an update, and comes back at a later one. Also returns the
/// events of its two answers.
fn come_back(run: &Generated, lost: usize, back: usize) -> (Client, [Vec<String>; 2]) {
    let mut client = Client { messages: base(), ..Client::default() };
    let mut writer = AgUi::new("t", asked(&json!(base())).unwrap());
    let first: Vec<_> =
        run.updates[..lost].iter().flat_map(|update| writer.write(update)).collect();
    first.iter().for_each(|event| client.apply(event));
    client.next_answer();
    let mut writer = AgUi::new("t", asked(&json!(client.messages)).unwrap());
    run.updates[..back].iter().for_each(|update| writer.absorb(update));
    let rest = &run.updates[back..];
    let mut second = writer.begin(rest.is_empty());
    second.extend(rest.iter().flat_map(|update| writer.write(update)));
    second.iter().for_each(|event| client.apply(event));
    (client, [first, second])
}

/// Writes generated runs for `tests/ag_ui.sh`, which gives them to the real clients.
#[test]
#[ignore = "run by tests/ag_ui.sh"]
fn heavy_runs_for_the_real_clients() {
    let folder = std::path::PathBuf::from(std::env::var_os("AG_UI_FOLDER").unwrap());
    let count = std::env::var("AG_UI_CASES").map_or(300, |count| count.parse().unwrap());
    let mut runner = TestRunner::deterministic();
    let mut lines = String::new();
    for _ in 0..count {
        let steps = steps().new_tree(&mut runner).unwrap().current();
        let run = Generated::new(&steps);
        let mut next = |limit: usize| (0..limit).new_tree(&mut runner).unwrap().current();
        let all = run.updates.len();
        let back = next(all + 1);
        for (lost, back) in [(all, all), (next(back + 1), back)] {
            let (client, answers) = come_back(&run, lost, back);
            let case = json!({
                "base": base(),
                "answers": answers,
                "messages": client.messages,
                "end": client.end,
            });
            writeln!(lines, "{case}").unwrap();
        }
    }
    std::fs::write(folder.join("cases.jsonl"), lines).unwrap();
}

fn json_values() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "id",
        "role",
        "content",
        "type",
        "source",
        "value",
        "mimeType",
        "data",
        "interruptId",
        "status",
        "payload",
        "approved",
        "toolwright",
        "again",
    ]);
    let texts = prop::sample::select(vec![
        "",
        "user",
        "reasoning",
        "image",
        "url",
        "data",
        "file",
        "binary",
        "text",
        "resolved",
        "AQID",
        "data:,",
        "https://",
        "image/png",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        texts.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |value| {
        let fields = prop::collection::vec((names.clone(), value.clone()), 0..4);
        prop_oneof![
            prop::collection::vec(value, 0..4).prop_map(Value::from),
            fields.prop_map(|fields| Value::Object(
                fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn any_request_is_read_or_refused(
        name in prop::sample::select(vec!["threadId", "messages", "tools", "context", "state",
            "forwardedProps", "resume", "protocolVersion"]),
        value in json_values(),
    ) {
        let mut body = json!({ "threadId": "t", "runId": "r", "messages": base() });
        body[name] = value;
        if let Ok(input) = read_json(body) {
            AgUi::new("t", input).begin(true);
        }
    }

    #[test]
    fn runs_at_random(
        steps in steps(), lost: prop::sample::Index, back: prop::sample::Index,
    ) {
        let run = Generated::new(&steps);
        let all = run.updates.len();
        let back = back.index(all + 1);
        let lost = lost.index(back + 1);
        for (lost, back) in [(0, 0), (all, all), (lost, back)] {
            let (client, _) = come_back(&run, lost, back);
            let mut expected = run.messages();
            expected.push(json!([null, "assistant", "", []]));
            prop_assert_eq!(of_client(&client), sorted(expected));
            let end = client.end.unwrap();
            let interrupts = end["outcome"]["interrupts"].as_array().into_iter().flatten();
            let ids = interrupts.map(|interrupt| interrupt["id"].clone()).collect();
            prop_assert_eq!(sorted(ids), run.questions());
        }
    }
}
