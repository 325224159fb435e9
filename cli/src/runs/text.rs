//! The runs of a journal as text.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use toolwright_journal::__page::{command, duration, text_of};
use toolwright_journal::{RunStatus, RunSummary};
use toolwright_module::approval::Decision;
use toolwright_module::budget::Spent;
use toolwright_module::message::ReplyPart;
use toolwright_orchestrator::Task;
use toolwright_orchestrator::perform::{Outcome, OutcomeKind, PartId, PartIdKind, Record};

use super::TASK;
use crate::approve::on_one_line;
use crate::assistant::{OPTIONS, options_of};
use crate::keys::without_keys;
use crate::lines::MARK;
use crate::show::{cost_in_words, cost_of, quoted, shortened, shown, summary, visible};
use crate::texts::in_words_of_run;

/// Maximum width of the column with the ids. A longer id moves the rest of its line.
const WIDEST_ID: usize = 40;

/// Maximum number of levels that indent a line.
const MOST_INDENTED: usize = 16;

/// Returns a list of runs, one in each line. If a run has asked models, there is a column for its cost.
#[must_use]
pub fn list(runs: &[RunSummary]) -> String {
    let ids: Vec<String> = runs.iter().map(|run| shortened(&quoted(&run.id))).collect();
    let longest = ids.iter().map(|id| id.chars().count()).max().unwrap_or(0).min(WIDEST_ID);
    let cost = |run: &RunSummary| run.spent.and_then(cost_in_words);
    let costs = runs.iter().map(|run| cost(run).map_or(String::new(), |cost| cost.to_string()));
    let costs: Vec<String> = costs.collect();
    let widest = costs.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for ((run, id), cost) in runs.iter().zip(&ids).zip(&costs) {
        let task = run.metadata.get(TASK).or(run.task.as_ref()).map_or("", String::as_str);
        let task = match (run.status, &run.error) {
            (RunStatus::Unreadable, Some(error)) => &in_words_of_run(error),
            _ => task,
        };
        let task = shortened(&shown(task));
        let (status, age) = (status(run), age(run.changed));
        let _ = write!(text, "{id:longest$}  {status:10}  {age:>8}  ");
        if widest > 0 {
            let _ = write!(text, "{cost:>widest$}  ");
        }
        let _ = writeln!(text, "{task}");
    }
    text
}

/// Returns the whole run: its task, its steps with calls, results, times and costs, what waits, and
/// its whole cost.
#[must_use]
pub fn show(run: &RunSummary, task: &Task, records: &[Record]) -> String {
    let mut text = format!("run     {}\n", quoted(&run.id));
    let _ = writeln!(text, "status  {}, changed {} ago", status(run), age(run.changed).trim());
    for (name, value) in &run.metadata {
        if name != TASK && name != OPTIONS {
            let _ = writeln!(text, "{MARK}{:5} {}", shown(name), shown(value));
        }
    }
    if let Some(options) = options_of(run) {
        let _ = writeln!(text, "options {}", shown(&options.to_string()));
    }
    let _ = writeln!(text, "task    {}\n", lines(&text_of(task)));
    let (mut spent, mut open) = (Spent::default(), Vec::new());
    let mut models = BTreeSet::new();
    // The tools of the calls so far, by the id of the call.
    let mut tools: HashMap<&str, &str> = HashMap::new();
    for record in records {
        match record {
            Record::Begun { part, .. } => open.push(part),
            Record::Failed { part, .. } => open.retain(|other| *other != part),
            Record::Ended { part, outcome, .. } => {
                open.retain(|other| *other != part);
                // The cost of an agent's call is that of its parts.
                if !matches!(part.kind, PartIdKind::Run { .. }) {
                    spent += outcome.spent;
                }
                if let OutcomeKind::Reply(reply) = &outcome.kind {
                    models.extend(reply.model.as_deref().map(shown));
                    let calls = reply.parts.iter().filter_map(|part| match part {
                        ReplyPart::Call(call) => Some((call.id.as_str(), call.name.as_str())),
                        _ => None,
                    });
                    tools.extend(calls);
                }
                write_part(&mut text, &indent(part), &called(part, &tools), outcome);
            }
            _ => {}
        }
    }
    for part in open {
        let (indent, call) = (indent(part), called(part, &tools));
        let _ = writeln!(text, "{indent}?? {call} was begun and has no result");
    }
    for asked in &run.waiting {
        let above: Vec<String> = asked.path.iter().map(|call| shown(&call.tool)).collect();
        let above = above.iter().map(|tool| format!("{tool} > ")).collect::<String>();
        let arguments = without_keys(&on_one_line(&asked.call.arguments));
        let tool = shown(&asked.call.name);
        let what = if asked.unknown { "was begun before; make it again?" } else { "allow it?" };
        let _ = writeln!(text, "waits   {above}{tool} {arguments}: {what}");
        if let Some(reason) = &asked.reason {
            let _ = writeln!(text, "reason  {}", shown(reason));
        }
        let _ = writeln!(text, "decide  {}", command(&run.id, asked));
    }
    if let Some(error) = &run.error {
        let _ = writeln!(text, "error   {}", lines(&in_words_of_run(error)));
    }
    let took = run.changed.duration_since(run.started).unwrap_or_default();
    let models: Vec<String> = models.into_iter().collect();
    let of = if models.is_empty() { String::new() } else { format!(" ({})", models.join(", ")) };
    let _ = writeln!(text, "\n{}, {} tool calls{of}", summary(spent, took), spent.tool_calls);
    text
}

/// Returns the space before a part of an agent below.
fn indent(part: &PartId) -> String {
    "  ".repeat(part.path.len().min(MOST_INDENTED))
}

/// Names the call of a part: its tool, if it is known, and its id.
fn called(part: &PartId, tools: &HashMap<&str, &str>) -> String {
    let id = part.call().unwrap_or_default();
    match tools.get(id) {
        Some(tool) => format!("{} ({})", shown(tool), shown(id)),
        None => format!("call {}", shown(id)),
    }
}

fn write_part(text: &mut String, indent: &str, call: &str, outcome: &Outcome) {
    let time = duration(outcome.elapsed);
    let _ = match &outcome.kind {
        OutcomeKind::Reply(reply) => {
            let usage = outcome.spent.usage;
            let model = reply.model.as_deref().map_or("model".to_owned(), shown);
            let (read, written) = (usage.input_tokens, usage.output_tokens);
            let cost = cost_of(outcome.spent);
            let _ =
                writeln!(text, "{indent}== {model}: {time}, {read} tokens in, {written} out{cost}");
            for part in &reply.parts {
                match part {
                    ReplyPart::Call(call) => {
                        let (name, id) = (shown(&call.name), shown(&call.id));
                        let arguments = shortened(&shown(&call.arguments));
                        let _ = writeln!(text, "{indent}-> {name} {arguments} ({id})");
                    }
                    ReplyPart::Text(said) if !said.trim().is_empty() => {
                        let _ = writeln!(text, "{indent}   {MARK}{}", lines(said));
                    }
                    _ => {}
                }
            }
            Ok(())
        }
        OutcomeKind::Called { result, error } => {
            let (mark, said) = match error {
                Some(error) => ("failed: ", &in_words_of_run(error)),
                None => ("", &result.text),
            };
            let (name, said) = (shown(&result.name), shortened(&lines(said)));
            let cost = cost_of(outcome.spent);
            let kept = match &result.whole {
                Some(whole) => format!(", {} bytes kept", whole.len()),
                None => String::new(),
            };
            writeln!(text, "{indent}<- {name} {mark}{said} ({time}{cost}{kept})")
        }
        OutcomeKind::Compacted { compacted, .. } => {
            let (before, after) = (compacted.tokens_before, compacted.tokens_after);
            let cost = cost_of(outcome.spent);
            writeln!(
                text,
                "{indent}~~ the conversation was shortened from about {before} to {after} tokens ({time}{cost})"
            )
        }
        OutcomeKind::Decided(decision) => {
            let decided = match decision {
                Decision::Approve => "approved".to_owned(),
                Decision::Edit { arguments } => {
                    format!("approved with {}", shown(arguments))
                }
                Decision::Deny { reason } => format!("denied: {}", lines(reason)),
                Decision::Happened { result } => {
                    format!("said to have happened: {}", lines(result))
                }
                Decision::CallAgain => "to be made again".to_owned(),
                _ => "decided".to_owned(),
            };
            writeln!(text, "{indent}!! {}: {decided}", call)
        }
        OutcomeKind::Unknown => {
            writeln!(text, "{indent}?? {} was running when the program ended", call)
        }
        OutcomeKind::Exhausted { limit, allowed } => {
            writeln!(text, "{indent}   the limit of {allowed} {limit} was reached")
        }
        _ => Ok(()),
    };
}

/// The words of [`status`], and `finished` for all runs with a result. They are those of `--json`.
pub(super) const STATUSES: [&str; 11] = [
    "open",
    "waiting",
    "finished",
    "failed",
    "unreadable",
    "answered",
    "limit_reached",
    "cut_off",
    "refused",
    "stuck",
    "unclear",
];

/// Returns whether a run has one of the statuses.
pub(super) fn has_status(run: &RunSummary, word: &str) -> bool {
    status(run) == word || (word == "finished" && run.status == RunStatus::Finished)
}

pub(super) fn status(run: &RunSummary) -> String {
    let word = match (run.status, run.ending) {
        (RunStatus::Finished, Some(ending)) => serde_json::to_value(ending),
        (status, _) => serde_json::to_value(status),
    };
    word.ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

pub(super) fn age(at: SystemTime) -> String {
    let seconds = SystemTime::now().duration_since(at).unwrap_or(Duration::ZERO).as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Returns the text with visible characters only and without keys. Further lines have a mark.
fn lines(text: &str) -> String {
    let text = without_keys(text);
    let lines: Vec<String> = text.trim().lines().map(visible).collect();
    lines.join(&format!("\n   {MARK}"))
}
