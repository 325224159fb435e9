//! The effects of answers on a run: replies, tool results, decisions and rejections.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;
use toolwright_module::approval::Decision;
use toolwright_module::budget::LimitKind;
use toolwright_module::event::Ending;
use toolwright_module::message::{Part, ReplyPart, ToolResult};
use toolwright_module::model::Finish;
use toolwright_module::runner::{is_same_json, meant_tool, name_repair};
use toolwright_module::{Message, Repaired, Reply, ToolCall};
use toolwright_signature::{Contract, Policy, Repair};

use crate::compaction::SHORTENED;
use crate::limits::cut;
use crate::repaired_call::RepairedCall;
use crate::repeated_mistakes::Mistake;
use crate::run::{Run, calls_of, edit_of};
use crate::selector::{Selection, Selector, Selects};
use crate::state::{Decided, DecidedCall, Phase};
use crate::step::RunResult;
use crate::tool_names::available_tools;

/// The original text of a repaired selection, and its repairs.
type Written = Option<(String, Vec<Repair>)>;

/// The model's provider could not read a call, so there is none in the reply.
const MALFORMED_CALL: &str = "Your tool call could not be read, so it was not made. Call again, with arguments that are one JSON object.";

/// The end of what the run says of a reply that is not a selection.
const SELECT_AGAIN: &str = " Answer with one JSON object as described above, and nothing else.";

/// The beginning of what the run says of an answer that a validator rejected.
const REJECTED: &str = "That answer cannot be used: ";

const TELL_THE_USER: &str =
    "Now tell the user in one sentence or more what was done, and what the answer is.";
const CALL_FINISH: &str =
    "Call the tool `finish` with the answer, or another tool if you still need one.";
const EMPTY_ANSWER: &str = "Your answer was empty. Answer the task.";
const NO_CALLS_LEFT: &str =
    "You have used up your tool calls. Answer the task now from what you know, without tools.";

/// Returns whether a text of a message of the user is one of the run. Such a text may quote the model,
/// which may quote a stranger.
pub(super) fn is_of_the_run(text: &str) -> bool {
    let whole = [MALFORMED_CALL, TELL_THE_USER, CALL_FINISH, EMPTY_ANSWER, NO_CALLS_LEFT];
    whole.contains(&text)
        || text.starts_with(REJECTED)
        || text.ends_with(SELECT_AGAIN)
        || text.starts_with(SHORTENED)
}

impl Run {
    pub(super) fn take_reply(&mut self, mut reply: Reply) {
        let mut written = None;
        if let Some((selector, _)) = &self.selector {
            let selector = Arc::clone(selector);
            match self.selected(&selector, reply) {
                Some((selected, repaired)) => (reply, written) = (selected, repaired),
                None => return,
            }
        }
        if reply.finish == Finish::Refused {
            // The calls will not be made, and providers reject a call without a result.
            reply.parts.retain(|part| !matches!(part, ReplyPart::Call(_)));
        }
        // Not the number of the step, which an interruption changes.
        self.ids.complete(&mut reply.parts, self.state.asked.saturating_sub(1));
        self.repair_names(&mut reply.parts);
        let text = reply.to_text();
        let (finish, reason, is_cut) = (reply.finish, reply.reason, reply.has_lost_half);
        self.say_parts(reply.parts);
        if let Some((arguments, repairs)) = written {
            let calls = self.calls().map(|call| ToolCall::new(&call.id, &call.name, &arguments));
            let calls: Vec<_> =
                calls.map(|call| RepairedCall { call, repairs: repairs.clone() }).collect();
            self.state.repaired.extend(calls);
        }
        if finish == Finish::Refused {
            return self.end_refused(text, reason);
        }
        if self.calls().next().is_none() {
            return self.take_text(text, &finish, is_cut);
        }
        if let Some(output) = self.final_output(&finish) {
            return self.end(output, Ending::Answered);
        }
        let (mut left, mut accepted) = (self.tool_calls_left(), BTreeMap::new());
        let most = self.state.limits.max_calls_per_reply.max(1);
        let results = self.calls().enumerate().map(|(place, call)| {
            if place >= most {
                let text = format!(
                    "The call was not made: a reply may make at most {most} calls. Make it in your next reply."
                );
                return Some(ToolResult::failed(call, text));
            }
            let now = self.answer_now(call, &finish);
            now.or_else(|| self.over_limit(call, &mut accepted)).or_else(|| match left.checked_sub(1) {
                Some(fewer) => {
                    left = fewer;
                    None
                }
                None => Some(ToolResult::failed(call, self.no_calls_left())),
            })
        });
        let results: Vec<Option<ToolResult>> = self
            .calls()
            .zip(results)
            .map(|(call, refused)| self.refused_before(call, refused))
            .collect();
        let hidden = self
            .calls()
            .filter(|call| self.tools.is_deferred(&call.name) && self.may_use(&call.name));
        let hidden: Vec<String> = hidden.map(|call| call.name.clone()).collect();
        self.show_found(hidden);
        self.state.own_results = self
            .calls()
            .zip(&results)
            .filter_map(|(call, result)| result.clone().map(|result| (call.clone(), result)))
            .collect();
        self.state.used_before = self.state.tools_used.len();
        self.go_on_with(results);
    }

    /// Replaces the names of calls in a model's own notation, if the tool's policy allows repairs.
    fn repair_names(&mut self, parts: &mut [ReplyPart]) {
        let mut repaired = Vec::new();
        for part in parts {
            let ReplyPart::Call(call) = part else { continue };
            if self.tools.has(&call.name) {
                continue;
            }
            let names = self.contracts.iter().map(|contract| contract.name());
            let Some(tool) = meant_tool(&call.name, names) else { continue };
            if self.policy_of(tool) < Policy::Repair {
                continue;
            }
            let repairs = vec![name_repair(&call.name, tool)];
            let name = tool.to_owned();
            repaired.push(RepairedCall { call: call.clone(), repairs });
            call.name = name;
        }
        self.state.repaired.extend(repaired);
    }

    /// Returns the refusal of a call. An earlier drive has decided on a recorded call, and the current
    /// tools and limits do not change that.
    fn refused_before(&self, call: &ToolCall, refused: Option<ToolResult>) -> Option<ToolResult> {
        match &self.earlier {
            Some(earlier) if earlier.calls.contains_key(&call.id) => None,
            // The model was asked again after this reply, so the call is not open.
            Some(earlier) if self.state.asked < earlier.replies => {
                refused.or_else(|| Some(ToolResult::failed(call, "The call was not made.")))
            }
            _ => refused,
        }
    }

    /// Starts a round: its open calls are made, or wait for approval.
    fn go_on_with(&mut self, results: Vec<Option<ToolResult>>) {
        self.state.phase = Phase::Tools { results, begun: None };
        self.find_next();
        self.require_approvals();
        self.close_round();
    }

    /// Converts a selection to a reply with a tool call. Also returns the original text and the
    /// repairs of the selection, if it was repaired. Returns `None` if the reply needs no further
    /// processing.
    fn selected(&mut self, selector: &Selector, reply: Reply) -> Option<(Reply, Written)> {
        let text = reply.to_text();
        if reply.finish == Finish::Refused {
            self.say_parts(vec![ReplyPart::text(&*text)]);
            self.end_refused(text, reply.reason);
            return None;
        }
        if reply.finish == Finish::Paused {
            // A native call in the reply is not a selection and would get no result.
            let is_kept = |part: &ReplyPart| !matches!(part, ReplyPart::Call(_));
            self.say_parts(reply.parts.into_iter().filter(is_kept).collect());
            self.next_round([]);
            return None;
        }
        let read = selector.read(&text, self.policy, |tool| self.policy_of(tool));
        if let Finish::Other(word) = &reply.finish
            && !reply.finish.is_malformed_call()
            && !matches!(&read, Ok(Selection { selects: Selects::Call { .. }, .. }))
        {
            self.say_parts(vec![ReplyPart::text(&*text)]);
            self.end_unclear(text, word);
            return None;
        }
        // A native call in the reply is not a selection and would get no result.
        let kept = |part: &ReplyPart| matches!(part, ReplyPart::Reasoning(_) | ReplyPart::Other(_));
        let mut parts: Vec<ReplyPart> = reply.parts.into_iter().filter(kept).collect();
        let mistake = match read {
            // The selection may be cut off, even if it can be read.
            _ if reply.finish == Finish::Length => format!(
                "Your answer was cut off after {} tokens. Give a shorter one.",
                self.max_output_tokens(),
            ),
            _ if let Some(why) = reply.finish.why_not_made() => why.into_owned(),
            Ok(Selection { selects: Selects::Call { name, arguments }, thought, repairs }) => {
                parts.extend(thought.map(ReplyPart::text));
                // An empty id is replaced by one of the run's own.
                let mut call = ToolCall::new("", name, arguments);
                call.incomplete = reply.has_lost_half;
                parts.push(ReplyPart::Call(call));
                let written = (!repairs.is_empty()).then_some((text, repairs));
                return Some((Reply::new(parts).with_usage(reply.usage), written));
            }
            Ok(Selection { selects: Selects::Finish, .. }) => {
                parts.push(ReplyPart::text(text));
                self.say_parts(parts);
                self.say_user(TELL_THE_USER);
                self.state.phase = Phase::LastWord { limit: None };
                return None;
            }
            Err(_) if text.trim().is_empty() => "Your answer was empty.".to_owned(),
            Err(fault) => format!("That is not a valid selection: {fault}."),
        };
        parts.push(ReplyPart::text(text));
        self.say_parts(parts);
        self.nudge(&format!("{mistake}{SELECT_AGAIN}"));
        None
    }

    /// Returns the number of tool calls that the budget still allows.
    fn tool_calls_left(&self) -> u64 {
        let allowed = self.state.limits.budget.tool_calls;
        allowed.map_or(u64::MAX, |allowed| allowed.saturating_sub(self.state.spent.tool_calls))
    }

    /// Returns the result of a call beyond the limit of its tool. `accepted` are the calls of this
    /// reply so far.
    fn over_limit(
        &self,
        call: &ToolCall,
        accepted: &mut BTreeMap<String, u64>,
    ) -> Option<ToolResult> {
        let (name, most) = self.state.limits.tools.get_key_value(&call.name)?;
        let made = self.state.calls.get(name).copied().unwrap_or(0);
        let accepted = accepted.entry(name.clone()).or_default();
        if made.saturating_add(*accepted) < *most {
            *accepted += 1;
            return None;
        }
        let times = if *most == 1 { "once".to_owned() } else { format!("{most} times") };
        let text =
            format!("The call was not made: `{name}` may be called at most {times} in this run.");
        Some(ToolResult::failed(call, text))
    }

    /// Counts a call of a tool that has a limit.
    pub(super) fn count_call(&mut self, tool: &str) {
        if self.state.limits.tools.contains_key(tool) {
            let count = self.state.calls.entry(tool.to_owned()).or_default();
            *count = count.saturating_add(1);
        }
    }

    fn no_calls_left(&self) -> &'static str {
        if self.state.output.is_some() {
            "The call was not made: there are no tool calls left. Call `finish` with what you know."
        } else {
            "The call was not made: there are no tool calls left. Answer with what you know."
        }
    }

    /// Returns the output of a typed run, if the last reply calls `finish` and nothing else. Some
    /// models repeat the call in one reply.
    fn final_output(&self, finish: &Finish) -> Option<String> {
        self.state.output.as_ref()?;
        let mut calls = self.calls();
        let first = calls
            .next()
            .filter(|call| call.name == Contract::FINISH && is_complete(call, finish))?;
        calls
            .all(|call| {
                call.name == Contract::FINISH
                    && is_same_json(&call.arguments, &first.arguments)
                    && is_complete(call, finish)
            })
            .then(|| first.arguments.clone())
    }

    /// Handles a reply without calls. It is the answer, unless it is empty, or the run is typed and
    /// the text is not an output. `is_cut` is whether it has half of a character.
    fn take_text(&mut self, text: String, finish: &Finish, is_cut: bool) {
        match finish {
            Finish::Length => return self.end(text, Ending::CutOff),
            finish if finish.is_malformed_call() => return self.nudge(MALFORMED_CALL),
            Finish::Other(word) => return self.end_unclear(text, word),
            // The model gets its reply back and continues it.
            Finish::Paused => return self.next_round([]),
            _ => {}
        }
        let nudge = if let Some(output) = &self.state.output {
            // Small models write the output instead of calling `finish` with it.
            let is_output = text.trim_start().starts_with('{')
                && !is_cut
                && output.read_output_with::<Value>(&text, Policy::Exact).is_ok();
            if is_output {
                return self.end(text, Ending::Answered);
            }
            CALL_FINISH
        } else if text.trim().is_empty() {
            EMPTY_ANSWER
        } else {
            return self.end(text, Ending::Answered);
        };
        self.nudge(nudge);
    }

    /// Sends the model the fault of its answer, and starts the next round.
    fn nudge(&mut self, text: &str) {
        self.say_user(text);
        let mistake = Mistake {
            tool: String::new(),
            arguments: String::new(),
            text: text.to_owned(),
            times: 0,
        };
        self.next_round([mistake]);
    }

    /// Returns the run's own result for a call that no tool can get.
    fn answer_now(&self, call: &ToolCall, finish: &Finish) -> Option<ToolResult> {
        // If the provider refused a call of an unknown tool, the model needs the names.
        let is_unknown =
            finish.is_malformed_call() && !self.shows(&call.name) && call.name != Contract::FINISH;
        let text = if !is_complete(call, finish) && !is_unknown {
            let why = finish.why_not_made().or_else(|| call.why_not_made().map(Cow::Borrowed));
            why.unwrap_or_default().into_owned()
        } else if self.shows(&call.name) {
            return None;
        } else if call.name == Contract::FINISH && self.state.output.is_some() {
            match self.calls().all(|call| call.name == Contract::FINISH) {
                true => "The calls of `finish` differ. Call `finish` once, with the whole answer.",
                false => "Not yet: call `finish` alone, once you have seen the other results.",
            }
            .to_owned()
        } else {
            let name = &call.name[..call.name.floor_char_boundary(100)];
            let known: Vec<&str> = self.contracts.iter().map(|contract| contract.name()).collect();
            match known.as_slice() {
                [] => {
                    format!("There is no tool `{name}`. There are no tools: answer without them.")
                }
                _ if self.may_use(&call.name) => format!(
                    "You did not see the parameters of `{name}`. Now you do: call it again, as its schema says."
                ),
                known if self.tools.has(&call.name) => format!(
                    "The tool `{name}` is not available now. {}.",
                    available_tools(known, name)
                ),
                known => format!("There is no tool `{name}`. {}.", available_tools(known, name)),
            }
        };
        Some(ToolResult::failed(call, text))
    }

    pub(super) fn take_decisions(&mut self, decisions: Vec<(String, Decision)>) {
        let Phase::Approval { results, unknown, .. } = &mut self.state.phase else { return };
        let (mut results, unknown) = (std::mem::take(results), unknown.take());
        let limits = self.state.limits.clone();
        let step = self.state.step.saturating_sub(1);
        let mut decisions: HashMap<String, Decision> = decisions.into_iter().collect();
        let mut decided = Vec::with_capacity(decisions.len());
        let mut made = Vec::with_capacity(decisions.len());
        for (call, result) in self.calls().zip(&mut results) {
            let Some((id, decision)) = decisions.remove_entry(&call.id) else { continue };
            let is_unknown = unknown.as_deref() == Some(&*id);
            made.push(Decided {
                call: call.clone(),
                decision: decision.clone(),
                unknown: is_unknown.then(|| self.lost(&id).saturating_sub(1)),
            });
            match &decision {
                Decision::Deny { reason } => {
                    let text = match is_unknown {
                        true => format!(
                            "Whether the call took effect is not known, and it is not made again: {reason}"
                        ),
                        false => format!("The call was not allowed: {reason}"),
                    };
                    *result = Some(ToolResult::failed(call, limits.cut(&text)));
                }
                Decision::Happened { result: text } => {
                    *result = Some(ToolResult::new(call, limits.cut(text)));
                }
                _ => {}
            }
            let (tool, arguments) = (call.name.clone(), call.arguments.clone());
            decided.push((id, DecidedCall { step, tool, arguments, decision }));
        }
        self.state.decided = made;
        // Repeating a call keeps the decision that allowed it, with the arguments of that decision.
        let repeats =
            |call: &DecidedCall| matches!(call.decision, Decision::Approve | Decision::CallAgain);
        decided.retain(|(id, call)| {
            let before = self.state.decisions.get(id);
            !(repeats(call) && before.is_some_and(|before| before.allows_same(call)))
        });
        self.state.decisions.extend(decided);
        self.go_on_with(results);
    }

    /// Takes the results of all calls of the step, or of some.
    pub(super) fn take_results(&mut self, answers: Vec<ToolResult>) {
        self.unmark_begun();
        let places = self.places_of(&answers);
        let mut placed: Vec<(usize, ToolResult)> = places.into_iter().zip(answers).collect();
        placed.sort_by_key(|(place, _)| *place);
        let mut found = Vec::new();
        for (place, mut answer) in placed {
            self.uses(&answer.name);
            self.bound(&mut answer);
            found.extend_from_slice(&answer.found);
            if let Phase::Tools { results, .. } = &mut self.state.phase
                && let Some(slot) = results.get_mut(place)
            {
                *slot = Some(answer);
            }
        }
        self.show_found(found);
        self.go_on();
        self.close_round();
    }

    /// Answers all open calls, none of which was begun: a limit of the run forbids them.
    pub(super) fn take_forbidden(&mut self, limit: LimitKind) {
        self.unmark_begun();
        let text = match limit {
            LimitKind::Time => "The call was not made: the run has no time left.".to_owned(),
            LimitKind::ToolCalls => self.no_calls_left().to_owned(),
            limit => format!("The call was not made: the run has too few {limit} left."),
        };
        let Phase::Tools { results, .. } = &mut self.state.phase else { return };
        let mut results = std::mem::take(results);
        let open: Vec<_> = self.calls().zip(&mut results).filter(|(_, it)| it.is_none()).collect();
        let mut own = Vec::with_capacity(open.len());
        for (call, result) in open {
            let forbidden = ToolResult::failed(call, &*text);
            own.push((call.clone(), forbidden.clone()));
            *result = Some(forbidden);
        }
        self.state.own_results = own;
        self.state.phase = Phase::Tools { results, begun: None };
        self.go_on();
        self.close_round();
    }

    /// Returns the number of each result's call in the last reply. [`fits`](Self::fits) has checked
    /// that the calls are open.
    fn places_of(&self, answers: &[ToolResult]) -> Vec<usize> {
        let Phase::Tools { results, .. } = &self.state.phase else { return Vec::new() };
        let open = || {
            let calls = calls_of(self.last_parts().get(self.next.part..).unwrap_or_default());
            let open = calls.zip(self.next.call..);
            open.filter(|(_, place)| results.get(*place).is_some_and(Option::is_none))
        };
        let in_order = || open().zip(answers).map(|((call, place), answer)| (call, place, answer));
        if in_order().all(|(call, _, answer)| call.id == answer.id) {
            return in_order().map(|(_, place, _)| place).collect();
        }
        let places: HashMap<&str, usize> =
            open().map(|(call, place)| (call.id.as_str(), place)).collect();
        answers.iter().filter_map(|answer| places.get(answer.id.as_str()).copied()).collect()
    }

    /// Cuts a result to the limits, and notes in it if a person changed the arguments. The result of
    /// a program that calls the tools itself is marked, if its tool is untrusted.
    fn bound(&self, answer: &mut ToolResult) {
        let (limits, room) = (&self.state.limits, self.room_for_texts());
        if !answer.untrusted && self.is_untrusted(answer) {
            // Another tool has put the marks itself.
            if self.tools.is_untrusted(&answer.name) {
                *answer = answer.clone().untrusted();
            }
            answer.untrusted = true;
        }
        if let Some(arguments) = edit_of(&self.state.decisions, &answer.id) {
            // The note gets at most half, so that it does not displace the result.
            let arguments = cut(arguments, limits.max_result_bytes / 2);
            let note = format!("[A person changed the arguments to {arguments}]\n");
            limits.put_before(answer, &note, room);
        }
        limits.bound(answer, room);
    }

    fn uses(&mut self, tool: &str) {
        self.count_call(tool);
        let is_new = match self.tools.place(tool) {
            Some(place) => self.used.insert(place),
            None => !self.state.tools_used.iter().any(|name| name == tool),
        };
        if is_new {
            self.state.tools_used.push(tool.to_owned());
        }
    }

    /// Sorts the tools that were first used in this round in the order of its calls, because their
    /// results may come in any order.
    fn order_used(&mut self) {
        let mut used = self
            .state
            .tools_used
            .split_off(self.state.used_before.min(self.state.tools_used.len()));
        if used.len() > 1 {
            let calls: Vec<&ToolCall> = self.calls().collect();
            let mut places: HashMap<&str, usize> = HashMap::with_capacity(calls.len());
            for (place, call) in calls.into_iter().enumerate() {
                places.entry(&call.name).or_insert(place);
            }
            used.sort_by_key(|name| places.get(name.as_str()).copied());
        }
        self.state.tools_used.append(&mut used);
    }

    /// Returns the repairs of a call before its arguments are read: of its selection or its name.
    pub(crate) fn repairs_of(&self, id: &str) -> &[Repair] {
        let calls = self.calls().count();
        let mut known = self.state.repaired.iter().rev().take(calls);
        known.find(|known| known.call.id == id).map_or(&[], |known| &known.repairs)
    }

    /// Replaces the arguments of the last reply's calls by their repaired form, which the model
    /// gets in its next requests.
    pub(super) fn keep_as_read(&mut self, results: &mut [Option<ToolResult>]) {
        if results.iter().flatten().all(|result| result.repaired.is_none()) {
            return;
        }
        // Of this round there are at most as many as there are calls.
        let before = self.state.repaired.len().saturating_sub(results.len());
        let Some(last) = self.state.messages.last_mut() else { return };
        if let Message::Assistant { parts } = Arc::make_mut(last) {
            let calls = parts.iter_mut().filter_map(|part| match part {
                ReplyPart::Call(call) => Some(call),
                _ => None,
            });
            for (call, result) in calls.zip(results.iter_mut().flatten()) {
                let Some(repaired) = result.repaired.take() else { continue };
                let Repaired { json, repairs, .. } = *repaired;
                let mut written = call.clone();
                match edit_of(&self.state.decisions, &call.id) {
                    // The repaired text was the person's.
                    Some(edited) => edited.clone_into(&mut written.arguments),
                    // The only repairs are nulls that the dialect asks for, so the text is as
                    // requested.
                    None if repairs.iter().all(Repair::is_null_for_default) => {}
                    None => call.arguments = json,
                }
                let known = self.state.repaired.get_mut(before..).unwrap_or_default();
                match known.iter_mut().find(|known| known.call.id == call.id) {
                    // The selection or the name of the call was repaired too.
                    Some(known) => known.repairs.extend(repairs),
                    None => self.state.repaired.push(RepairedCall { call: written, repairs }),
                }
            }
        }
        if let Some((selector, shown)) = &mut self.selector
            && let Some(place) = shown.last_mut()
        {
            *place = selector.show(last);
        }
    }

    /// Stores the answer of a typed run in its repaired form.
    pub(crate) fn take_repaired_answer(&mut self, repaired: Repaired) {
        let json = repaired.json.clone();
        let result = self.calls().next().map(|call| ToolResult::new(call, ""));
        if let Some(mut result) = result {
            result.repaired = Some(Box::new(repaired));
            self.keep_as_read(&mut [Some(result)]);
        }
        if let Phase::Done(result) = &mut self.state.phase {
            result.answer = json;
        }
    }

    /// Ends the round once every call has its result.
    fn close_round(&mut self) {
        let Phase::Tools { results, .. } = &mut self.state.phase else {
            return;
        };
        if self.next.call < results.len() {
            return;
        }
        let mut results = std::mem::take(results);
        self.state.reasons.clear();
        self.order_used();
        self.keep_as_read(&mut results);
        // A round in which a call succeeds is progress: a tool may say "call again" before another
        // one is done.
        let goes_on = results.iter().flatten().any(|result| !result.failed);
        let failed = self.calls().zip(results.iter().flatten());
        let failed = failed.filter(|(call, _)| !goes_on && !self.is_denied(call));
        let mistakes: Vec<Mistake> =
            failed.map(|(call, result)| mistake(call, &result.text)).collect();
        for result in results.into_iter().flatten() {
            self.say(Arc::new(Message::Tool(result)));
        }
        self.next_round(mistakes);
    }

    fn next_round(&mut self, mistakes: impl IntoIterator<Item = Mistake>) {
        self.state.iterations = self.state.iterations.saturating_add(1);
        let most = self.state.limits.max_same_failures;
        if let Some(mistake) = self.state.mistakes.take_round(mistakes, most) {
            let what = match mistake.tool.as_str() {
                "" => "an answer that could not be used".to_owned(),
                tool => format!("the same call to `{tool}`, which failed"),
            };
            let answer = format!("{} rounds in a row made {what}: {}", mistake.times, mistake.text);
            return self.end(answer, Ending::Stuck);
        }
        let typed = self.state.output.is_some();
        let limit = if self.state.iterations >= self.state.limits.max_iterations {
            Some(LimitKind::Iterations)
        } else if typed {
            // A typed run answers by a call, so it may still make one.
            None
        } else if self.tool_calls_left() == 0 {
            Some(LimitKind::ToolCalls)
        } else if self.has_one_request_left() {
            Some(LimitKind::ModelCalls)
        } else {
            None
        };
        match limit {
            None => self.state.phase = Phase::Model,
            // Smaller limits do not end the steps of earlier drives.
            Some(_) if self.has_earlier_round() => self.state.phase = Phase::Model,
            // A typed run cannot use an answer in prose.
            Some(limit) if typed => self.state.phase = Phase::Done(self.at_limit(limit)),
            Some(limit) => {
                self.say_user(NO_CALLS_LEFT);
                self.state.phase = Phase::LastWord { limit: Some(limit) };
            }
        }
    }

    /// Returns whether an earlier drive has recorded another round of this task. The next recorded
    /// reply may be the answer at a limit, if neither a call nor another reply to the task follows it.
    fn has_earlier_round(&self) -> bool {
        let Some(earlier) = &self.earlier else { return false };
        if let Some(task) = earlier.tasks.get(&(self.state.asked + 1)) {
            return *task == self.task_hash();
        }
        let results = self.state.messages.iter().filter_map(|message| match &**message {
            Message::Tool(result) => Some(result.id.as_str()),
            _ => None,
        });
        let known: BTreeSet<&str> = results.collect();
        earlier.calls.keys().any(|id| !known.contains(id.as_str()))
    }

    pub(super) fn take_last_word(&mut self, reply: Reply, limit: Option<LimitKind>) {
        let text = reply.to_text();
        let reason = reply.reason;
        // Calls in the reply will not be made, and providers reject a call without a result.
        let mut parts = reply.parts;
        parts.retain(|part| !matches!(part, ReplyPart::Call(_)));
        self.say_parts(parts);
        let ending = match (&reply.finish, limit) {
            (Finish::Refused, _) => return self.end_refused(text, reason),
            (_, Some(_)) => Ending::LimitReached,
            (Finish::Length, None) => Ending::CutOff,
            (Finish::Other(word), None) => return self.end_unclear(text, word),
            (Finish::Paused, None) => {
                self.state.phase = Phase::Model;
                return self.next_round([]);
            }
            (_, None) if text.trim().is_empty() => {
                // The model had announced that it knows the answer.
                self.state.phase = Phase::Model;
                return self.nudge(EMPTY_ANSWER);
            }
            (_, None) => Ending::Answered,
        };
        self.end_with(text, ending, limit.filter(|_| ending == Ending::LimitReached), None);
    }

    pub(super) fn take_rejection(&mut self, why: &str) {
        if self.state.output.is_none() {
            return self.nudge(&format!("{REJECTED}{why}"));
        }
        let rejected: Vec<ToolCall> = self.calls().cloned().collect();
        let mistakes: Vec<Mistake> = rejected.iter().map(|call| mistake(call, why)).collect();
        for call in rejected {
            self.say(Arc::new(Message::Tool(ToolResult::failed(&call, why))));
        }
        self.next_round(mistakes);
    }

    pub(super) fn say(&mut self, message: Arc<Message>) {
        self.cut.add(&message);
        if let Some((selector, shown)) = &mut self.selector {
            shown.push(selector.show(&message));
        }
        self.state.messages.push(message);
    }

    fn say_user(&mut self, text: &str) {
        self.say(Arc::new(Message::User { parts: vec![Part::Text(text.to_owned())] }));
    }

    /// Adds the model's message, unless it has no text and no call. Providers reject an empty
    /// message.
    fn say_parts(&mut self, parts: Vec<ReplyPart>) {
        let says_something = parts.iter().any(|part| match part {
            ReplyPart::Text(text) => !text.trim().is_empty(),
            ReplyPart::Call(_) | ReplyPart::Other(_) => true,
            _ => false,
        });
        if says_something {
            self.say(Arc::new(Message::Assistant { parts }));
        }
    }

    fn end(&mut self, answer: String, ending: Ending) {
        self.end_with(answer, ending, None, None);
    }

    /// Ends the run with a refusal, and the provider's words for it.
    fn end_refused(&mut self, answer: String, reason: Option<String>) {
        let reason = reason.map(|words| words[..words.floor_char_boundary(300)].to_owned());
        self.end_with(answer, Ending::Refused, None, reason);
    }

    /// Ends the run with a text that may be incomplete, and the provider's word for the reason.
    fn end_unclear(&mut self, answer: String, word: &str) {
        let reason = Some(word[..word.floor_char_boundary(100)].to_owned());
        self.end_with(answer, Ending::Unclear, None, reason);
    }

    fn end_with(
        &mut self,
        answer: String,
        ending: Ending,
        limit: Option<LimitKind>,
        reason: Option<String>,
    ) {
        self.state.phase = Phase::Done(RunResult { answer, ending, limit, reason });
    }
}

pub(super) fn text_of(parts: &[ReplyPart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        ReplyPart::Text(text) => Some(&**text),
        _ => None,
    });
    texts.collect()
}

fn mistake(call: &ToolCall, text: &str) -> Mistake {
    Mistake {
        tool: call.name.clone(),
        arguments: call.arguments.clone(),
        text: text.to_owned(),
        times: 0,
    }
}

/// Returns whether a call may be made. One place decides it for all providers: the reply ended in a
/// way that shows that it is whole, and the provider did not mark the call. Valid JSON shows nothing.
fn is_complete(call: &ToolCall, finish: &Finish) -> bool {
    finish.is_complete() && !call.incomplete
}
