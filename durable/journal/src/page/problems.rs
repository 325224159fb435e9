//! What went wrong in a run, and what a person decided in it: lists with the places in the tree.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use toolwright_module::budget::Spent;
use toolwright_module::model::Finish;

use super::tree::{Agent, Asked, Call, Step};
use super::words;

/// A place in the tree.
#[derive(Clone)]
pub(super) struct Location {
    /// The id of the element on the page.
    pub(super) id: String,
    /// The place in words, such as `3 › research › 2`.
    pub(super) label: String,
}

impl Location {
    pub(super) fn step(above: Option<&Location>, agent: &str, index: usize, step: &Step) -> Self {
        let number = step.number();
        match above {
            None => Self { id: format!("s{index}"), label: number.to_string() },
            Some(above) => Self {
                id: format!("{}s{index}", above.id),
                label: format!("{} › {agent} › {number}", above.label),
            },
        }
    }

    pub(super) fn call(&self, index: usize) -> Self {
        Self { id: format!("{}c{index}", self.id), label: self.label.clone() }
    }
}

/// Something that went wrong, with all the places where it did.
pub(super) struct Problem {
    /// The tool or the part of the run.
    pub(super) what: String,
    pub(super) text: String,
    /// Whether the outcome is unknown, instead of a failure.
    pub(super) is_doubt: bool,
    pub(super) places: Vec<Location>,
    /// Whether the other texts differ from this one in their numbers.
    pub(super) is_like_others: bool,
}

/// The calls of one tool.
#[derive(Default)]
pub(super) struct ToolUse {
    pub(super) calls: usize,
    pub(super) failed: usize,
    /// Whether a call was marked as begun, as calls are that change something.
    pub(super) is_begun: bool,
    pub(super) time: Duration,
    pub(super) spent: Spent,
}

/// What a list of a run shows beside its tree.
#[derive(Default)]
pub(super) struct Found<'a> {
    pub(super) problems: Vec<Problem>,
    /// The calls that a person was asked about, in order.
    pub(super) asked: Vec<(Location, &'a Call, &'a Asked)>,
    /// The prompts that were shorter than the one before.
    pub(super) shorter: Vec<(Location, u64, u64)>,
    /// Number of tool calls, without the one that gave the answer.
    pub(super) calls: usize,
    /// Number of calls that failed.
    pub(super) failed: usize,
    /// Number of failed calls that no tool got.
    pub(super) unmade: usize,
    pub(super) repaired: usize,
    /// The models that answered.
    pub(super) models: Vec<String>,
    /// The use of each tool, by its name.
    pub(super) tools: BTreeMap<&'a str, ToolUse>,
    known: HashMap<(String, String), usize>,
}

impl<'a> Found<'a> {
    pub(super) fn of(root: &'a Agent) -> Self {
        let mut found = Self::default();
        found.agent(root, "", None);
        found
    }

    fn agent(&mut self, agent: &'a Agent, name: &str, above: Option<&Location>) {
        let mut before = 0;
        for (index, step) in agent.steps.iter().enumerate() {
            let place = Location::step(above, name, index, step);
            for problem in of_step(step) {
                self.add("model", problem, false, &place);
            }
            let model = step.reply.as_ref().and_then(|reply| reply.model.as_ref());
            if let Some(model) = model.filter(|model| !self.models.contains(model)) {
                self.models.push(model.clone());
            }
            let read = step.reply.as_ref().map_or(0, |reply| reply.usage.input_tokens);
            if read > 0 && read < before {
                self.shorter.push((place.clone(), before, read));
            }
            before = if read > 0 { read } else { before };
            for (index, call) in step.calls.iter().enumerate() {
                self.call(call, place.call(index));
            }
        }
    }

    fn call(&mut self, call: &'a Call, place: Location) {
        if !call.is_answer {
            self.calls += 1;
            let tool = self.tools.entry(&call.name).or_default();
            tool.calls += 1;
            tool.failed += usize::from(call.failure().is_some());
            tool.is_begun |= call.attempts.iter().any(|attempt| attempt.begun.is_some());
            tool.time += call.elapsed();
            tool.spent += call.spent();
        }
        self.repaired += usize::from(!repairs(call).is_empty());
        self.asked.extend(call.asked.iter().map(|asked| (place.clone(), call, asked)));
        if let Some(below) = &call.below {
            self.agent(below, &call.name, Some(&place));
        }
        if let Some(error) = call.failure() {
            self.failed += 1;
            self.unmade += usize::from(call.is_unmade());
            self.add(&call.name, error.to_owned(), false, &place);
        } else if call.is_lost() {
            let text = "The call was begun. Nobody knows whether it took effect.".to_owned();
            self.add(&call.name, text, true, &place);
        } else if call.attempts.iter().any(|attempt| attempt.failed.is_some())
            && call.result().is_none()
        {
            let text = "An error stopped the run during this call. A resumed run makes it again."
                .to_owned();
            self.add(&call.name, text, false, &place);
        }
    }

    fn add(&mut self, what: &str, text: String, is_doubt: bool, place: &Location) {
        // Texts that differ only in their numbers are one problem.
        let digits = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c });
        let mut like: String = digits.collect();
        while like.contains("00") {
            like = like.replace("00", "0");
        }
        let key = (what.to_owned(), like);
        if let Some(problem) = self.known.get(&key).and_then(|at| self.problems.get_mut(*at)) {
            problem.is_like_others |= problem.text != text;
            problem.places.push(place.clone());
            return;
        }
        self.known.insert(key, self.problems.len());
        let (what, places) = (what.to_owned(), vec![place.clone()]);
        self.problems.push(Problem { what, text, is_doubt, places, is_like_others: false });
    }
}

/// Returns what went wrong with a model call.
pub(super) fn of_step(step: &Step) -> Vec<String> {
    let limits = step.exhausted.iter().map(|&(limit, allowed)| {
        format!("The limit of {} did not allow this model call.", words::limit(limit, allowed))
    });
    let mut problems: Vec<String> = limits.collect();
    match step.reply.as_ref().map(|reply| &reply.finish) {
        Some(Finish::Length) => {
            problems.push("The reply was cut off at its maximum length.".into())
        }
        Some(Finish::Refused) => problems.push("The model refused.".into()),
        Some(Finish::Other(word)) => {
            problems.push(format!(
                "The model stopped with “{word}”, which this version does not know."
            ));
        }
        _ => {}
    }
    problems
}

/// Returns the repairs of the arguments of a call.
pub(super) fn repairs(call: &Call) -> Vec<String> {
    let repaired = call.result().and_then(|(result, _)| result.repaired.as_deref());
    let repairs = repaired.map(|repaired| &*repaired.repairs).unwrap_or_default();
    let repairs = repairs.iter().map(ToString::to_string);
    repairs.chain(call.own_repairs.iter().cloned()).collect()
}

/// Returns whether something went wrong in a step or below it.
pub(super) fn is_bad(step: &Step) -> bool {
    !of_step(step).is_empty() || step.calls.iter().any(is_bad_call)
}

/// Returns whether a call failed, or a call below it did.
pub(super) fn is_bad_call(call: &Call) -> bool {
    call.failure().is_some()
        || call.is_lost()
        || call.attempts.iter().any(|attempt| attempt.failed.is_some())
        || call.below.as_ref().is_some_and(|below| below.steps.iter().any(is_bad))
}
