//! Runs that the simulation drives by hand: with every kind of answer, stored and resumed between
//! steps, and replayed from the answers.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use toolwright_module::model::Settings;

use serde_json::{Value, json};
use toolwright_module::approval::Decision;
use toolwright_module::budget::{Budget, Exhausted, LimitKind, Spent};
use toolwright_module::event::Ending;
use toolwright_module::message::{ReplyPart, ToolResult};
use toolwright_module::model::Usage;
use toolwright_module::{Contract, Dialect, Effect, Message, Request, Tool, ToolCall, from_fn};
use toolwright_orchestrator::{
    ApprovalPolicy, Change, Choosing, Limits, Run, RunState, Step, StepKind, StepResult,
    StepResultKind, ToolSet,
};

use super::cast::{Act, ActWhy, CUT_OFF, CountRooms, Deed, arguments, awaits, says, selects};
use super::chance::Chance;
use super::checks::{self, Printer};
use super::driven::Played;

const EFFECTS: [Effect; 4] = [Effect::Read, Effect::Read, Effect::Write, Effect::Irreversible];

/// The tools of one version of the program.
struct Version {
    tools: Vec<Tool>,
    set: Arc<ToolSet>,
}

/// The version whose tools have other texts, and one more tool.
const REWORDED: usize = 1;
/// The version without `act_0`.
const REMOVED: usize = 2;
/// The version whose `act_2` needs one more argument.
const STRICTER: usize = 3;

/// The tools and unstarted runs, which are made once.
pub(crate) struct Desk {
    versions: Vec<Version>,
    names: Vec<String>,
    runs: Vec<Run>,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let module = from_fn(async |_: Act| Ok(Deed::default()));
        let tool = Tool::new(module).unwrap();
        let tools: Vec<Tool> = EFFECTS
            .iter()
            .enumerate()
            .map(|(n, effect)| {
                tool.clone().with_effect(*effect).named(&format!("act_{n}")).unwrap()
            })
            .collect();
        let mut versions = vec![tools.clone(); 4];
        for tool in &mut versions[REWORDED] {
            *tool = tool.clone().described("Do something else.");
        }
        versions[REWORDED].push(tool.clone().named("extra").unwrap());
        versions[REMOVED].remove(0);
        let stricter = Tool::new(from_fn(async |_: ActWhy| Ok(Deed::default()))).unwrap();
        versions[STRICTER][2] = stricter.with_effect(EFFECTS[2]).named("act_2").unwrap();
        let version = |tools: Vec<Tool>| {
            let set = Arc::new(ToolSet::of(&tools).unwrap());
            Version { tools, set }
        };
        let versions = versions.into_iter().map(version).collect();
        let names = tools.iter().map(|tool| tool.name().to_owned()).collect();
        let contract = Arc::new(Contract::of::<CountRooms>().unwrap());
        let mut runs = Vec::new();
        for choosing in [Choosing::Calls, Choosing::Selector] {
            let run = || Run::new("Go.", &tools, Limits::default()).unwrap();
            let run = || run().with_choosing(choosing).unwrap();
            runs.push(run());
            runs.push(run().with_output(Arc::clone(&contract)).unwrap());
        }
        Self { versions, names, runs }
    }

    pub(crate) fn play(&self, seed: u64, trace: bool) -> Played {
        let mut chance = Chance::of(seed, "by hand");
        let kind = chance.weighed([4, 4, 1, 1]);
        let (typed, selector) = (kind % 2 == 1, kind > 1);
        let limits = limits(&mut chance);
        let settings = Settings::default().with_max_output_tokens(chance.pick(&[64, 4096]));
        let mut approval = ApprovalPolicy::default();
        if chance.percent(40) {
            approval = ApprovalPolicy::from_effect(chance.pick(&EFFECTS)).with_tool("act_1");
        }
        let run = self.runs[kind]
            .clone()
            .with_limits(limits)
            .with_settings(settings)
            .unwrap()
            .with_approval(approval.clone())
            .unwrap();
        let run = if chance.percent(30) { run.with_instructions("Be brief.") } else { run };
        let begun = run.history().len() - 1;
        let mut played = Hand {
            desk: self,
            chance,
            typed,
            selector,
            approval,
            first: run.clone(),
            run,
            begun,
            asked: None,
            questions: 0,
            least: Usage::default(),
            called: HashSet::new(),
            decided: HashSet::new(),
            tasks: 0,
            version: 0,
            acts: Vec::new(),
            trace: trace.then(String::new),
            printer: Printer::default(),
        };
        let wrong = played.plays_on().and_then(|()| played.again());
        Played { wrong: wrong.err().into_iter().collect(), trace: played.trace.unwrap_or_default() }
    }
}

fn limits(chance: &mut Chance) -> Limits {
    let mut limits = Limits {
        max_iterations: chance.pick(&[0, 1, 2, 4, 8]),
        max_result_bytes: chance.pick(&[0, 60, 65_536]),
        max_same_failures: chance.pick(&[1, 2, 3]),
        max_calls_per_reply: chance.pick(&[0, 1, 2, 3, 128, 128]),
        ..Limits::default()
    };
    let mut budget = limits.budget;
    if chance.percent(25) {
        budget.model_calls = Some(chance.below(8));
    }
    if chance.percent(25) {
        budget.tool_calls = Some(chance.below(8));
    }
    if chance.percent(20) {
        budget.input_tokens = Some(chance.below(20_000));
    }
    if chance.percent(20) {
        budget.output_tokens = Some(chance.below(30_000));
    }
    if chance.percent(20) {
        limits.max_time = Some(Duration::from_millis(chance.below(3_000)));
    }
    limits.budget = budget;
    limits
}

/// A recorded operation on the run, for the replay.
enum Deal {
    Answer {
        step: String,
        answer: Box<StepResult>,
    },
    FollowUp(String),
    /// The program was killed during its calls, and resumed the run.
    Killed,
    /// Another version of the program resumed the run.
    Deployed(usize),
}

struct Hand<'a> {
    desk: &'a Desk,
    chance: Chance,
    typed: bool,
    selector: bool,
    approval: ApprovalPolicy,
    first: Run,
    run: Run,
    /// The index of the task in the history.
    begun: usize,
    asked: Option<Request>,
    questions: u64,
    /// The smallest usage that the run must have counted.
    least: Usage,
    called: HashSet<String>,
    decided: HashSet<String>,
    tasks: u32,
    /// The version of the program.
    version: usize,
    acts: Vec<Deal>,
    trace: Option<String>,
    printer: Printer,
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn text(run: &Run) -> String {
    serde_json::to_string(run).unwrap()
}

/// Returns a step as text.
fn bytes(printer: &mut Printer, step: &Step) -> String {
    let kind = match &step.kind {
        StepKind::CallModel(request) => Ok(printer.print(request)),
        StepKind::CallTools(calls) | StepKind::AwaitApproval(calls) => serde_json::to_string(calls),
        StepKind::Done(result) => serde_json::to_string(result),
        other => return format!("{other:?}"),
    };
    format!("{} {}", step.number, kind.unwrap())
}

impl Hand<'_> {
    fn plays_on(&mut self) -> Result<(), String> {
        for _ in 0..300 {
            // Making a selector is slow.
            if self.chance.percent(if self.selector { 3 } else { 8 }) {
                self.resume()?;
            }
            // Making a selector is slow.
            if self.chance.percent(if self.selector { 2 } else { 6 }) {
                self.deploy()?;
            }
            self.look()?;
            if self.chance.percent(if self.selector { 2 } else { 10 }) {
                self.tamper()?;
            }
            let step = self.run.next();
            if self.chance.percent(8) {
                self.misuse(&step)?;
            }
            if matches!(step.kind, StepKind::CallTools(_)) && self.chance.percent(8) {
                self.is_killed(&step)?;
                continue;
            }
            let Some(kind) = self.answer(&step)? else { return Ok(()) };
            if let Move::FollowUp(task) = kind {
                self.run.follow_up(task.as_str()).map_err(|error| error.to_string())?;
                self.begun = self.run.history().len() - 1;
                self.acts.push(Deal::FollowUp(task));
                continue;
            }
            let Move::Answer(answer) = kind else { continue };
            let answer = *answer;
            let answer = if self.chance.percent(50) {
                let time = Duration::from_millis(self.chance.below(800));
                StepResult { elapsed: time, ..answer }
            } else {
                answer
            };
            let step = bytes(&mut self.printer, &step);
            if let Some(trace) = &mut self.trace {
                let _ = writeln!(trace, "{step}\n  {answer:?}");
            }
            self.acts.push(Deal::Answer { step, answer: Box::new(answer.clone()) });
            self.run.apply(answer).map_err(|error| format!("refused: {error}"))?;
        }
        Err("no end in 300 steps".to_owned())
    }

    /// Kills the program during its calls. Only a call that changes something is asked about.
    fn is_killed(&mut self, step: &Step) -> Result<(), String> {
        let StepKind::CallTools(calls) = &step.kind else { return Ok(()) };
        self.run = killed(&self.run, self.todays())?;
        self.acts.push(Deal::Killed);
        let changes = EFFECTS[self.place(&calls[0])] >= Effect::Write;
        let asked = self.run.unknown_outcome();
        let expected = changes.then_some(calls[0].id.as_str());
        check(asked == expected, || format!("asks about {asked:?}, not {expected:?}"))
    }

    fn todays(&self) -> &[Tool] {
        &self.desk.versions[self.version].tools
    }

    /// Resumes the run with the tools of another version. It is refused only if an open call needs
    /// what changed.
    fn deploy(&mut self) -> Result<(), String> {
        let (was, now) = (self.version, self.chance.size(self.desk.versions.len()));
        let state: RunState = serde_json::from_str(&text(&self.run)).map_err(|e| e.to_string())?;
        let stored = serde_json::to_value(&self.run).unwrap();
        let removed = self.open_calls(&stored).any(|call| call.name == "act_0");
        let stricter = self.open_calls(&stored).any(|call| {
            let edited = self.run.decisions().get(&call.id).map(|decided| &decided.decision);
            let arguments = match edited {
                Some(Decision::Edit { arguments }) => arguments,
                _ => &call.arguments,
            };
            // What the tool could not read before is the model's mistake.
            call.name == "act_2" && arguments.contains("\"what\":\"")
        });
        let refused = (now == REMOVED && was != REMOVED && removed)
            || (now == STRICTER && was != STRICTER && stricter);
        let state = state.with_tool_set(Arc::clone(&self.desk.versions[was].set));
        let resumed = match Run::resume(state, &self.desk.versions[now].tools) {
            Ok(resumed) => resumed,
            Err(error) => return check(refused, || format!("a deploy is refused: {error}")),
        };
        check(!refused, || format!("a deploy from {was} to {now} with {stored} is not refused"))?;
        let (mut changed, mut expected) = (BTreeSet::new(), BTreeSet::new());
        for change in &resumed.changes {
            changed.insert(match change {
                Change::Reworded { tool } => ("is other", tool.clone()),
                Change::Schema { tool, .. } if now == STRICTER => ("is stricter", tool.clone()),
                Change::Schema { tool, .. } => ("is other", tool.clone()),
                Change::Added { tool } => ("is new", tool.clone()),
                Change::Removed { tool } => ("is gone", tool.clone()),
                other => return Err(format!("{other:?}")),
            });
        }
        for name in self.desk.names.iter().map(String::as_str).chain(["extra"]) {
            let has = |version| match name {
                "act_0" => version != REMOVED,
                "extra" => version == REWORDED,
                _ => true,
            };
            let texts = (was == REWORDED) != (now == REWORDED);
            let schema = name == "act_2" && (was == STRICTER) != (now == STRICTER);
            let what = match (has(was), has(now)) {
                (true, true) if schema && now == STRICTER => "is stricter",
                (true, true) if schema || texts => "is other",
                (true, false) => "is gone",
                (false, true) => "is new",
                _ => continue,
            };
            expected.insert((what, name.to_owned()));
        }
        check(changed == expected, || {
            format!("from {was} to {now} {changed:?}, not {expected:?}")
        })?;
        check(resumed.run.history() == self.run.history(), || "another history".to_owned())?;
        self.run = resumed.run;
        self.version = now;
        self.acts.push(Deal::Deployed(now));
        // A selection prompt contains the tools.
        self.asked = self.asked.take().filter(|_| !self.selector && was == now);
        Ok(())
    }

    /// Returns the calls of the last reply that have no result.
    fn open_calls(&self, stored: &Value) -> impl Iterator<Item = &ToolCall> {
        let phase = &stored["phase"];
        let results =
            phase["tools"]["results"].as_array().or(phase["approval"]["results"].as_array());
        let open: Vec<bool> = results.into_iter().flatten().map(Value::is_null).collect();
        let said = self.run.history().last().map(|said| &**said);
        let parts = match said {
            Some(Message::Assistant { parts }) => parts.as_slice(),
            _ => &[],
        };
        let calls = parts.iter().filter_map(|part| match part {
            ReplyPart::Call(call) => Some(call),
            _ => None,
        });
        calls.zip(open).filter(|(_, open)| *open).map(|(call, _)| call)
    }

    fn resume(&mut self) -> Result<(), String> {
        let stored = text(&self.run);
        let state: RunState = serde_json::from_str(&stored).map_err(|error| error.to_string())?;
        let resumed = Run::resume(state, self.todays()).map_err(|error| error.to_string())?;
        check(resumed.changes.is_empty(), || "the tools are taken for others".to_owned())?;
        let resumed = resumed.run;
        check(text(&resumed) == stored, || "another state after it was stored".to_owned())?;
        check(resumed.next() == self.run.next(), || "another step after it was stored".to_owned())?;
        self.run = resumed;
        Ok(())
    }

    /// Checks the properties before each step.
    fn look(&self) -> Result<(), String> {
        let run = &self.run;
        let history = run.history();
        checks::pairs(history, false)?;
        checks::bounded(history, run.limits().max_calls_per_reply)?;
        let usage = run.spent().usage;
        let counts = usage.input_tokens >= self.least.input_tokens
            && usage.output_tokens >= self.least.output_tokens;
        check(counts, || format!("{usage:?} is less than {:?}", self.least))?;
        let (rounds, most) = (run.iterations(), run.limits().max_iterations.max(1));
        check(rounds <= most, || format!("{rounds} rounds, {most} are allowed"))?;
        let counted = checks::count_rounds(&history[self.begun + 1..]);
        check(counted == rounds as usize, || format!("{rounds} rounds, counted {counted}"))?;
        let same = run.limits().max_same_failures.max(1);
        let (last, before) = checks::same_failures(run, &history[self.begun + 1..]);
        let stuck = matches!(run.next().kind, StepKind::Done(it) if it.ending == Ending::Stuck);
        check(before < same && (last < same || stuck), || format!("failed {last} times in a row"))
    }

    /// Edits the stored run so that a call would skip its approval. The run must wait again.
    fn tamper(&mut self) -> Result<(), String> {
        let stored = serde_json::to_value(&self.run).unwrap();
        let resume = |edited: &Value| -> Result<Run, String> {
            let state: RunState = serde_json::from_value(edited.clone()).unwrap();
            let resumed = Run::resume(state, self.todays());
            resumed.map(|resumed| resumed.run).map_err(|error| error.to_string())
        };
        let waits = |run: &Run| match run.next().kind {
            StepKind::AwaitApproval(calls) => calls.into_iter().map(|call| call.id).collect(),
            _ => Vec::new(),
        };
        let mut edited = stored.clone();
        if self.run.unknown_outcome().is_some() {
            return Ok(());
        }
        if let Some(phase) = stored["phase"].get("approval") {
            edited["phase"] = json!({"tools": {"results": phase["results"]}});
            let run = resume(&edited)?;
            check(text(&run) == text(&self.run), || "it skips an approval".to_owned())?;
            let awaits = phase["awaits"].as_array().cloned().unwrap_or_default();
            edited["phase"] =
                json!({"approval": {"results": phase["results"], "awaits": [awaits[0]]}});
            let run = resume(&edited)?;
            return check(text(&run) == text(&self.run), || "it forgets a call".to_owned());
        }
        let Some(phase) = stored["phase"].get("tools") else { return Ok(()) };
        let results = phase["results"].as_array().cloned().unwrap_or_default();
        let said = self.run.history().last().map(|said| &**said);
        let Some(Message::Assistant { parts }) = said else { return Ok(()) };
        let calls = parts.iter().filter_map(|part| match part {
            ReplyPart::Call(call) => Some(call),
            _ => None,
        });
        let open: Vec<&ToolCall> =
            calls.zip(&results).filter(|(_, result)| result.is_null()).map(|(it, _)| it).collect();
        let by = |policy: &ApprovalPolicy, decided: bool| -> Vec<String> {
            let waits = open.iter().filter(|call| {
                let decided = decided && self.decided.contains(&call.id);
                !decided && awaits(policy, &call.name, EFFECTS[self.place(call)])
            });
            waits.map(|call| call.id.clone()).collect()
        };
        edited.as_object_mut().unwrap().remove("decisions");
        let (run, expected) = (resume(&edited)?, by(&self.approval, false));
        check(waits(&run) == expected, || format!("without decisions {:?} wait", waits(&run)))?;
        // Another call under an id with a decision.
        let text = stored.to_string().replace(r#"\"n\":1"#, r#"\"n\":2"#);
        let other: Value = serde_json::from_str(&text).unwrap();
        if open.iter().any(|call| call.arguments.contains("\"n\":1")) {
            let mut edited = stored.clone();
            edited["messages"] = other["messages"].clone();
            let run = resume(&edited)?;
            let changed = |id: &String| {
                open.iter().any(|call| call.id == *id && call.arguments.contains("\"n\":1"))
            };
            let expected: Vec<String> =
                by(&self.approval, false).into_iter().filter(changed).collect();
            let waiting = waits(&run);
            check(waiting == expected, || format!("another call: {waiting:?}, not {expected:?}"))?;
        }
        let strict = ApprovalPolicy::from_effect(Effect::Read);
        let run = self.run.clone().with_approval(strict.clone()).unwrap();
        let (waiting, expected) = (waits(&run), by(&strict, true));
        check(waiting == expected, || format!("stricter: {waiting:?}, not {expected:?}"))
    }

    /// Checks that answers for another step are rejected and change nothing.
    fn misuse(&mut self, step: &Step) -> Result<(), String> {
        let before = text(&self.run);
        let number = step.number;
        let call = ToolCall::new("nobody", "act_0", "{}");
        let mut wrong = vec![
            StepResult::model(number + 1, toolwright_module::Reply::text("late")),
            StepResult::tools(number, [ToolResult::new(&call, "ok")]),
            StepResult::decisions(number, [("nobody", Decision::Approve)]),
        ];
        if !matches!(step.kind, StepKind::CallModel(_)) {
            wrong.push(StepResult::model(number, toolwright_module::Reply::text("early")));
        }
        match &step.kind {
            StepKind::CallTools(calls) => {
                let result = ToolResult::new(&calls[0], "ok");
                wrong.push(StepResult::tools(number, vec![result; calls.len() + 1]));
                wrong.push(StepResult::tools(number, []));
            }
            StepKind::AwaitApproval(calls) => {
                let odd = calls
                    .iter()
                    .map(|call| (call.id.clone(), Decision::Edit { arguments: "[".to_owned() }));
                wrong.push(StepResult::decisions(number, odd));
                wrong.push(StepResult::decisions::<String>(number, []));
            }
            StepKind::Done(result) if result.ending != Ending::Answered => {
                wrong.push(StepResult::rejected(number, "no"));
            }
            _ => {}
        }
        for answer in wrong {
            let reported = format!("{answer:?}");
            check(self.run.apply(answer).is_err(), || format!("taken: {reported}"))?;
            check(text(&self.run) == before, || format!("changed by {reported}"))?;
        }
        Ok(())
    }

    fn answer(&mut self, step: &Step) -> Result<Option<Move>, String> {
        let number = step.number;
        let answer = match &step.kind {
            StepKind::CallModel(request) => self.model(number, request)?,
            StepKind::CallTools(calls) => self.tools(number, calls)?,
            StepKind::AwaitApproval(calls) => self.approves(number, calls)?,
            StepKind::Done(result) => {
                let answered = result.ending == Ending::Answered;
                if answered && self.chance.percent(if self.typed { 60 } else { 20 }) {
                    StepResult::rejected(number, self.chance.pick(&["no", "not that"]))
                } else if self.tasks < 2 && self.chance.percent(50) {
                    self.tasks += 1;
                    return Ok(Some(Move::FollowUp("And then?".to_owned())));
                } else {
                    return Ok(None);
                }
            }
            other => return Err(format!("{other:?}")),
        };
        Ok(Some(Move::Answer(Box::new(answer))))
    }

    fn model(&mut self, number: u64, request: &Request) -> Result<StepResult, String> {
        checks::pairs(&request.messages, true)?;
        check(checks::is_last_word_kept(request), || "a last word with tools".to_owned())?;
        if let Some(before) = &self.asked {
            check(request.messages.starts_with(&before.messages), || {
                "the prompt changed in its middle".to_owned()
            })?;
            check(request.tools == before.tools, || "the tools changed".to_owned())?;
        }
        if !self.selector {
            check(request.messages == self.run.history(), || "another history".to_owned())?;
        }
        let (limits, spent) = (self.run.limits(), self.run.spent());
        let most = Spent::model_call(request.most_usage(Dialect::JsonSchema2020));
        for limit in [LimitKind::ModelCalls, LimitKind::InputTokens, LimitKind::OutputTokens] {
            if let Some(allowed) = limits.budget.allows(limit) {
                let all = limit.of(spent) + limit.of(most);
                check(all <= allowed, || format!("may take {all} of {allowed} {limit}"))?;
            }
        }
        let late = limits.max_time.is_some_and(|time| self.run.elapsed() >= time);
        check(!late, || "a question after the time was over".to_owned())?;
        self.asked = Some(request.clone());
        self.questions += 1;
        if self.chance.percent(2) {
            return Ok(StepResult::exhausted(number, &exhausted()));
        }
        let reply = match &request.output {
            Some(_) => selects(&mut self.chance, &self.desk.names, 0),
            None => says(&mut self.chance, &self.desk.names, self.typed, 0),
        };
        let mut usage = Usage::new(self.chance.below(300), self.chance.below(300));
        let Budget { input_tokens, output_tokens, .. } = limits.budget;
        if self.chance.percent(10) {
            usage += Usage::unknown();
            if input_tokens.is_some() || output_tokens.is_some() {
                self.least += most.usage;
            }
        }
        Ok(StepResult::model(number, reply.with_usage(usage)))
    }

    fn tools(&mut self, number: u64, calls: &[ToolCall]) -> Result<StepResult, String> {
        let reads = |call: &ToolCall| EFFECTS[self.place(call)] == Effect::Read;
        check(!calls.is_empty(), || "no calls".to_owned())?;
        check(calls.len() == 1 || calls.iter().all(reads), || format!("beside: {calls:?}"))?;
        for call in calls {
            check(!call.arguments.contains(CUT_OFF), || format!("{} is incomplete", call.id))?;
            if awaits(&self.approval, &call.name, EFFECTS[self.place(call)]) {
                check(self.decided.contains(&call.id), || format!("{} undecided", call.id))?;
            }
        }
        if let Some(allowed) = self.run.limits().budget.tool_calls {
            let all = self.run.spent().tool_calls + calls.len() as u64;
            check(all <= allowed, || format!("{all} calls of {allowed}"))?;
        }
        let mut results: Vec<ToolResult> = calls
            .iter()
            .map(|call| match self.chance.weighed([5, 3, 2]) {
                0 => ToolResult::new(call, "ok"),
                1 => ToolResult::failed(call, "no"),
                _ => ToolResult::new(call, "word ".repeat(40)),
            })
            .collect();
        let place = self.chance.size(results.len());
        results.rotate_left(place);
        if self.chance.percent(40) {
            results.truncate(1 + self.chance.size(results.len()));
        }
        for result in &results {
            check(self.called.insert(result.id.clone()), || format!("{} again", result.id))?;
        }
        let made = results.len();
        let answer = StepResult::tools(number, results);
        if self.chance.percent(30) {
            let mut spent = Spent::model_call(Usage::new(1, 1));
            for _ in 0..made {
                spent += Spent::tool_call();
            }
            return Ok(StepResult { spent: Some(spent), ..answer });
        }
        Ok(answer)
    }

    fn place(&self, call: &ToolCall) -> usize {
        self.desk.names.iter().position(|name| *name == call.name).expect("a tool that exists")
    }

    fn approves(&mut self, number: u64, calls: &[ToolCall]) -> Result<StepResult, String> {
        let mut decisions = Vec::new();
        let unknown = self.run.unknown_outcome().map(ToOwned::to_owned);
        for call in calls {
            if unknown.as_deref() == Some(&*call.id) {
                let decision = match self.chance.weighed([5, 3, 2]) {
                    0 => Decision::CallAgain,
                    1 => Decision::Happened { result: "It was done.".to_owned() },
                    _ => Decision::deny("Not again."),
                };
                if decision == Decision::CallAgain {
                    self.decided.insert(call.id.clone());
                }
                decisions.push((call.id.clone(), decision));
                continue;
            }
            let awaits = awaits(&self.approval, &call.name, EFFECTS[self.place(call)]);
            check(awaits, || format!("{} waits for nothing", call.id))?;
            // A person's arguments must fit the current tool.
            let edits = if self.version == STRICTER && call.name == "act_2" { 0 } else { 3 };
            let decision = match self.chance.weighed([4, 3, edits]) {
                0 => Decision::Approve,
                1 => Decision::deny("Not today."),
                _ => loop {
                    let arguments = arguments(&mut self.chance, "act");
                    if arguments.contains("\"what\":\"") {
                        break Decision::Edit { arguments };
                    }
                },
            };
            if !matches!(decision, Decision::Deny { .. }) {
                self.decided.insert(call.id.clone());
            }
            decisions.push((call.id.clone(), decision));
        }
        decisions.reverse();
        Ok(StepResult::decisions(number, decisions))
    }

    /// Replays the stored answers without interruption, which must give the same run.
    fn again(&mut self) -> Result<(), String> {
        let (mut run, mut printer) = (self.first.clone(), Printer::default());
        let mut version = &self.desk.versions[0];
        for act in &self.acts {
            match act {
                Deal::Answer { step, answer } => {
                    let now = bytes(&mut printer, &run.next());
                    check(now == *step, || format!("played again, it asks\n{now}\nnot\n{step}"))?;
                    let stored = serde_json::to_string(answer).unwrap();
                    let answer: StepResult = serde_json::from_str(&stored).unwrap();
                    run.apply(answer).map_err(|error| format!("again: {error}"))?;
                }
                Deal::Killed => run = killed(&run, &version.tools)?,
                Deal::Deployed(now) => {
                    let state: RunState =
                        serde_json::from_str(&text(&run)).map_err(|error| error.to_string())?;
                    let state = state.with_tool_set(Arc::clone(&version.set));
                    version = &self.desk.versions[*now];
                    let resumed = Run::resume(state, &version.tools);
                    run = resumed.map_err(|error| error.to_string())?.run;
                }
                Deal::FollowUp(task) => run.follow_up(task.as_str()).map_err(|e| e.to_string())?,
            }
        }
        check(text(&run) == text(&self.run), || "played again, its state is another".to_owned())?;
        let said = run.history().iter().filter(|said| matches!(***said, Message::Tool(_)));
        check(said.count() >= self.called.len(), || "a call without its result".to_owned())?;
        let models = run.spent().model_calls;
        check(models >= self.replies(), || format!("{models} questions counted"))
    }

    fn replies(&self) -> u64 {
        let model = |act: &&Deal| matches!(act, Deal::Answer { answer, .. } if matches!(answer.kind, StepResultKind::Model(_)));
        self.acts.iter().filter(model).count() as u64
    }
}

/// Returns the run as another program resumes it after a kill during its calls.
fn killed(run: &Run, tools: &[toolwright_module::Tool]) -> Result<Run, String> {
    let mut stored: Value = serde_json::from_str(&text(run)).map_err(|error| error.to_string())?;
    // A drive that was dropped during a call leaves this mark.
    if let StepKind::CallTools(calls) = run.next().kind
        && let Some(tool) = tools.iter().find(|tool| calls.iter().any(|c| c.name == tool.name()))
        && tool.effect() >= Effect::Write
    {
        stored["phase"]["tools"]["begun"] = serde_json::to_value(tool.effect()).unwrap();
    }
    let state: RunState = serde_json::from_value(stored).map_err(|error| error.to_string())?;
    let resumed = Run::resume(state, tools).map_err(|error| error.to_string())?;
    Ok(resumed.run)
}

enum Move {
    Answer(Box<StepResult>),
    FollowUp(String),
}

fn exhausted() -> Exhausted {
    let ledger = toolwright_module::budget::Ledger::new(Budget {
        model_calls: Some(0),
        ..Budget::default()
    });
    ledger.reserve(Spent::model_call(Usage::default())).unwrap_err()
}
