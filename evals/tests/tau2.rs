//! The airline and retail tasks of tau2, with verdicts of our graders beside those of its evaluators.
//!
//! `tau2.sh` installs tau2, writes the cases with `tau2/cases.py`, starts `tau2/server.py` for each domain
//! and runs this test. The agent's model is scripted: it makes the calls of the case. The tools are tau2's
//! own, over MCP.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::env;
use std::fs;
use std::sync::Arc;
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_evals::{
    Attempt, CallMatching, Case, Eval, ExpectedCall, Grade, MadeCall, World, graders,
};
use toolwright_mcp::McpClient;
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Module, Reply, Result, Signature, Tool, ToolCall, from_fn_with};
use toolwright_orchestrator::{Agent, Limits};
use toolwright_signature::Policy;

/// Returns the database before any call.
#[derive(Serialize, Deserialize, JsonSchema)]
struct DatabaseAtStart {}

impl Signature for DatabaseAtStart {
    type Output = String;
}

/// Returns the rows that this attempt changed, and ends it.
#[derive(Serialize, Deserialize, JsonSchema)]
struct ChangedRows {}

impl Signature for ChangedRows {
    type Output = String;
}

/// The tools of the server that are not tau2's.
const ADDED: [&str; 2] = ["database_at_start", "changed_rows"];

/// The rows of a database, by their table and key.
#[derive(Clone, Default)]
struct Database(BTreeMap<(String, String), Arc<Value>>);

impl Database {
    /// Replaces rows by those of a JSON text. `null` removes a row.
    fn change(&mut self, json: &str) {
        let tables: BTreeMap<String, BTreeMap<String, Value>> = serde_json::from_str(json).unwrap();
        for (table, rows) in tables {
            for (key, row) in rows {
                let key = (table.clone(), key);
                match row {
                    Value::Null => self.0.remove(&key),
                    row => self.0.insert(key, Arc::new(row)),
                };
            }
        }
    }

    /// Returns the rows that differ from those of another database, in words.
    fn differences(&self, expected: &Self) -> Vec<String> {
        let keys: BTreeSet<_> = self.0.keys().chain(expected.0.keys()).collect();
        let rows = keys.into_iter().map(|key| (key, self.0.get(key), expected.0.get(key)));
        let shown =
            |row: Option<&Arc<Value>>| row.map_or("nothing".to_owned(), |row| row.to_string());
        rows.filter(|(_, row, expected)| row != expected)
            .map(|((table, key), row, expected)| {
                format!("{table} {key}: expected {}, got {}", shown(expected), shown(row))
            })
            .collect()
    }
}

/// Answer a customer.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Conversation {
    /// The name of the attempt at the server.
    attempt: String,
    task: String,
    calls: Vec<Call>,
    answer: String,
    communicate: Vec<String>,
}

impl Signature for Conversation {
    type Output = String;
}

#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Call {
    name: String,
    arguments: Value,
}

/// A line of the cases.
#[derive(Deserialize)]
struct Line {
    task: String,
    kind: String,
    what: String,
    calls: Vec<Call>,
    answer: String,
    gold: Vec<Call>,
    communicate: Vec<String>,
    verdict: Theirs,
}

/// The verdicts of tau2's evaluators.
#[derive(Deserialize)]
struct Theirs {
    database: bool,
    actions: Vec<bool>,
    communicate: Vec<bool>,
    reward: f64,
}

/// The server of a domain, for one attempt.
struct Shop {
    client: McpClient,
}

impl Shop {
    async fn open(url: &str, attempt: &str) -> Result<Self> {
        let builder = McpClient::http(url)?.with_header("attempt", attempt)?;
        Ok(Self { client: builder.connect().await? })
    }

    /// Returns tau2's tools.
    fn tools(&self) -> Vec<Tool> {
        self.client.tools().into_iter().filter(|tool| !ADDED.contains(&tool.name())).collect()
    }

    async fn database_at_start(&self) -> Result<Database> {
        let read = self.client.typed::<DatabaseAtStart>("database_at_start")?;
        let mut database = Database::default();
        database.change(&read.call(DatabaseAtStart {}, &Context::default()).await?);
        Ok(database)
    }

    /// Ends the attempt, and brings the database up to date.
    async fn close(self, database: &mut Database) -> Result<()> {
        let read = self.client.typed::<ChangedRows>("changed_rows")?;
        database.change(&read.call(ChangedRows {}, &Context::default()).await?);
        self.client.close().await;
        Ok(())
    }
}

/// Returns a module that lets an agent make the calls of a conversation.
fn subject(url: String) -> impl Module<Signature = Conversation> {
    from_fn_with(move |conversation: Conversation, cx: Context| {
        let url = url.clone();
        async move {
            let shop = Shop::open(&url, &conversation.attempt).await?;
            let calls = conversation.calls.iter().enumerate().map(|(number, call)| {
                let arguments = call.arguments.to_string();
                Reply::calls([ToolCall::new(number.to_string(), &call.name, arguments)])
            });
            let model = Scripted::replies(calls.chain([Reply::text(&conversation.answer)]));
            let rounds = u32::try_from(conversation.calls.len()).unwrap() + 2;
            let limits =
                Limits { max_iterations: rounds, max_same_failures: rounds, ..Limits::default() };
            let agent = Agent::new(model, shop.tools())?.with_limits(limits);
            let finished = agent.run("Please help me.", &cx).await?;
            let world = World::<Database>::of(&cx)?;
            let mut database = world.read(Database::clone);
            shop.close(&mut database).await?;
            world.change(|world| *world = database);
            Ok(finished.answer)
        }
    })
}

/// Makes the gold calls of a task without an agent, and returns the database at the end. As in tau2, a
/// call that fails does not matter.
async fn gold_end(url: &str, task: &str, gold: &[Call], start: &Database) -> Result<Database> {
    let shop = Shop::open(url, &format!("gold of {task}")).await?;
    let tools = shop.tools();
    for call in gold {
        let tool = tools.iter().find(|tool| tool.name() == call.name).unwrap();
        if let Err(error) = tool.call(&call.arguments.to_string(), &Context::default()).await {
            println!(
                "{}, task {task}: the gold call of {} failed: {error}",
                shop.client.name(),
                call.name
            );
        }
    }
    let mut end = start.clone();
    shop.close(&mut end).await?;
    Ok(end)
}

/// Returns whether an answer has all facts. tau2 drops the commas of an answer, as in `1,000`.
async fn communicates(attempt: Attempt<Conversation>, cx: Context) -> Result<Grade> {
    let facts = attempt.case.input.communicate.clone();
    let mut plain = attempt;
    plain.output = plain.output.map(|answer| answer.replace(',', ""));
    for fact in facts {
        let grade = graders::contains(fact).call(plain.clone(), &cx).await?;
        if !grade.passed() {
            return Ok(grade);
        }
    }
    Ok(Grade::pass())
}

/// The verdicts of one kind, ours and tau2's.
#[derive(Default)]
struct Count {
    both_pass: usize,
    both_fail: usize,
    unequal: BTreeMap<&'static str, usize>,
}

/// An unequal verdict whose reason is not known.
const UNKNOWN: &str = "for an unknown reason";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs tau2: run tau2.sh"]
async fn airline_verdicts_equal_those_of_tau2() {
    assert_eq!(unknown_verdicts("airline").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs tau2: run tau2.sh"]
async fn retail_verdicts_equal_those_of_tau2() {
    assert_eq!(unknown_verdicts("retail").await, 0);
}

/// Returns the number of verdicts that are unequal for an unknown reason.
async fn unknown_verdicts(domain: &str) -> usize {
    let variable = |name: &str| {
        let name = format!("TAU2_{}_{name}", domain.to_uppercase());
        env::var(&name).unwrap_or_else(|_| panic!("{name} is not set; run tau2.sh"))
    };
    let url = &variable("URL");
    let began = Instant::now();
    let lines: Vec<Line> = fs::read_to_string(variable("CASES"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();

    let shop = Shop::open(url, "start").await.unwrap();
    let start = shop.database_at_start().await.unwrap();
    shop.client.close().await;
    let mut gold = HashMap::new();
    for line in &lines {
        if !gold.contains_key(&line.task) {
            let end = gold_end(url, &line.task, &line.gold, &start).await.unwrap();
            gold.insert(line.task.clone(), end);
        }
    }
    println!("{domain}: {} tasks, {} cases", gold.len(), lines.len());

    let gold = Arc::new(gold);
    let same_end = graders::end_state(move |end: &Database, attempt: &Attempt<Conversation>| {
        let differences = end.differences(&gold[&attempt.case.input.task]);
        match differences.is_empty() {
            true => Grade::pass(),
            false => Grade::fail(differences.join("; ")),
        }
    });
    let eval = Eval::module(domain, subject(url.to_owned()))
        .with_world(start)
        .with_concurrency(4)
        .with_grader("database", same_end)
        .with_grader("calls", graders::makes_expected_calls(CallMatching::new().allowing_others()))
        .with_grader("communicate", from_fn_with(communicates))
        .with_cases(lines.iter().enumerate().map(|(number, line)| {
            let name = format!("{domain} {number}");
            let conversation = Conversation {
                attempt: name.clone(),
                task: line.task.clone(),
                calls: line.calls.clone(),
                answer: line.answer.clone(),
                communicate: line.communicate.clone(),
            };
            let gold = line.gold.iter();
            let gold = gold.map(|call| ExpectedCall::new(&call.name, call.arguments.clone()));
            Case::new(name, conversation).expecting_calls(gold)
        }));
    let report = eval.run(&Context::default()).await.unwrap();
    assert_eq!(report.outcomes.len(), lines.len());

    let mut counts: BTreeMap<(&str, &str), Count> = BTreeMap::new();
    for (line, outcome) in lines.iter().zip(&report.outcomes) {
        let case = format!("{domain} task {}, {} {}", line.task, line.kind, line.what);
        if let Some(error) = &outcome.error {
            println!("{case}: {error}");
        }
        let [database, calls, communicate] = &outcome.grades[..] else { panic!("three graders") };
        let actions = actions_made(&line.gold, &outcome.calls);
        let reward = database.passed() && communicate.passed();
        let theirs = &line.verdict;
        let has_actions = theirs.actions.iter().all(|made| *made);
        let has_facts = theirs.communicate.iter().all(|met| *met);
        let verdicts = [
            ("database", database.passed(), theirs.database, &*database.reason),
            ("calls", calls.passed(), has_actions, &calls.reason),
            ("actions", actions.is_empty(), has_actions, &actions),
            ("communicate", communicate.passed(), has_facts, &communicate.reason),
            ("reward", reward, theirs.reward == 1.0, ""),
        ];
        for (what, ours, theirs, text) in verdicts {
            let count = counts.entry((&line.kind, what)).or_default();
            match (ours, theirs) {
                (true, true) => count.both_pass += 1,
                (false, false) => count.both_fail += 1,
                _ => {
                    let reason = reason(what, ours, line, &outcome.calls);
                    *count.unequal.entry(reason).or_default() += 1;
                    let text: String = text.chars().take(500).collect();
                    println!("{case}: {what}: {theirs} in tau2, {ours} here, {reason}: {text}");
                }
            }
        }
    }
    let mut unknown = 0;
    for ((kind, what), Count { both_pass, both_fail, unequal }) in &counts {
        print!("{domain}: {kind}: {what}: {both_pass} pass, {both_fail} fail");
        for (reason, count) in unequal {
            print!(", {count} unequal {reason}");
            unknown += if *reason == UNKNOWN { *count } else { 0 };
        }
        println!();
    }
    println!("{domain}: {:.0} s", began.elapsed().as_secs_f64());
    unknown
}

/// Returns why a verdict is another one in tau2.
fn reason(what: &str, ours: bool, line: &Line, made: &[MadeCall]) -> &'static str {
    // What the tool got. A call of a tool that does not exist has no contract.
    let read = |call: &MadeCall| {
        let contract = call.contract.as_ref()?;
        Some(contract.read_with::<Value>(&call.arguments.to_string(), Policy::Coerce))
    };
    let is_changed = made
        .iter()
        .any(|call| matches!(read(call), Some(Ok(reading)) if reading.value != call.arguments));
    let is_refused = made.iter().any(|call| matches!(read(call), Some(Err(_))));
    let is_twice = |call: &Call| line.gold.iter().filter(|other| *other == call).count() > 1;
    match (what, ours) {
        ("database" | "reward" | "calls", true) if is_changed => {
            "because the agent repaired the arguments by the tool's contract"
        }
        ("database" | "reward", false) if is_refused => {
            "because the agent refused arguments that break the tool's contract"
        }
        ("actions" | "calls", false) if is_refused => {
            "because a call without a required argument is the gold call in tau2"
        }
        ("calls", false) if line.gold.iter().any(is_twice) => {
            "because one call is two equal gold calls in tau2"
        }
        _ => UNKNOWN,
    }
}

/// Returns what is missing of the gold calls, by the rule of tau2: one call may be that of several gold
/// calls, an argument that is left out does not matter, and further calls do not matter.
fn actions_made(gold: &[Call], made: &[MadeCall]) -> String {
    let matching = CallMatching::new().allowing_others().with_policy(Policy::Exact);
    let missing = gold.iter().flat_map(|call| {
        let arguments = call.arguments.as_object().unwrap().iter();
        let arguments =
            arguments.map(|(name, value)| (name.clone(), json!({ "$optional": value })));
        let expected = ExpectedCall::new(&call.name, Value::Object(arguments.collect()));
        matching.compare(&[expected], made).unwrap().differences
    });
    missing.map(|difference| difference.to_string()).collect::<Vec<_>>().join("; ")
}
