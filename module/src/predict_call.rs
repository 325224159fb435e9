//! The messages of one call of [`Predict`](crate::Predict) or a similar module.
//!
//! A [`PredictCall`] starts with the prompt of a [`Predictor`]. It makes the requests, reads the
//! replies, and asks again with the error if a reply cannot be used.

use std::sync::Arc;
use std::{iter, mem};

use serde::de::DeserializeOwned;
use toolwright_signature::{Contract, Policy, Reading};

use crate::context::Context;
use crate::error::{Audience, Error, Result, Stage};
use crate::event::EventKind;
use crate::message::{CallKind, Message, ReplyPart, ToolCall, ToolResult};
use crate::model::{Finish, LanguageModel, Reply, Request, ToolChoice};
use crate::output_mode::OutputMode;
use crate::predictor::{Predictor, Prompt};
use crate::repaired::Repaired;
use crate::runner::{is_same_json, meant_tool, name_repair, shown};
use crate::usage::Usage;

/// The messages, attempts and usage of one call.
pub(crate) struct PredictCall<'a> {
    predictor: &'a Predictor,
    pub(crate) model: &'a dyn LanguageModel,
    prompt: Arc<Prompt>,
    messages: Vec<Arc<Message>>,
    policy: Policy,
    attempt: u32,
    pauses: u32,
    usage: Usage,
    raws: Vec<String>,
}

/// Maximum number of times that a provider may pause its reply.
const PAUSES: u32 = 32;

impl<'a> PredictCall<'a> {
    pub(crate) fn new(
        predictor: &'a Predictor,
        model: &'a dyn LanguageModel,
        prompt: Arc<Prompt>,
        input: Arc<Message>,
        policy: Policy,
    ) -> Self {
        let mut messages = prompt.messages.clone();
        messages.push(input);
        let (usage, raws) = (Usage::default(), Vec::new());
        Self { predictor, model, prompt, messages, policy, attempt: 0, pauses: 0, usage, raws }
    }

    pub(crate) fn request(&self) -> Request {
        let mut request = Request::new(self.messages.iter().cloned());
        request.settings.clone_from(&self.predictor.settings);
        match self.prompt.mode {
            OutputMode::Schema => request.with_output(Arc::clone(&self.predictor.contract)),
            OutputMode::Tool => request
                .with_tools(Arc::clone(&self.prompt.tools))
                .with_tool_choice(ToolChoice::Required),
            OutputMode::Prompted => request,
        }
    }

    pub(crate) fn contract(&self) -> &Contract {
        &self.predictor.contract
    }

    /// Whether the answer is a call's arguments rather than text.
    pub(crate) fn is_called(&self) -> bool {
        self.prompt.mode == OutputMode::Tool
    }

    /// Reads a reply. Returns the output and the text it was read from, or `None` if the model has
    /// to be asked again.
    pub(crate) fn judge<T: DeserializeOwned>(
        &mut self,
        reply: &Reply,
        cx: &Context,
    ) -> Result<Option<(Reading<T>, String)>> {
        self.usage += reply.usage;
        if reply.finish == Finish::Paused && self.pauses < PAUSES {
            self.pauses += 1;
            self.messages.push(Arc::new(Message::Assistant { parts: reply.parts.clone() }));
            // Providers reject a call without a result.
            let why = reply.finish.why_not_made().unwrap_or_default();
            let results = reply.tool_calls().map(|call| ToolResult::failed(call, &*why));
            self.messages.extend(results.map(|result| Arc::new(Message::Tool(result))));
            return Ok(None);
        }
        self.attempt += 1;
        let text = self.answer(reply);
        let error = match self.read(reply, &text) {
            Ok(reading) => {
                if let Some(repaired) = Repaired::traced(&self.predictor.contract, &reading) {
                    let name = self.predictor.contract.name().to_owned();
                    let repairs = repaired.repairs;
                    cx.emit(|| EventKind::AnswerRepaired { name, repairs });
                }
                return Ok(Some((reading, text)));
            }
            Err(error) => error,
        };
        let retries = error.stage() == Stage::Validation;
        self.again(reply, text, error, retries)?;
        Ok(None)
    }

    /// Handles the error of a validator: the model reads it, or it fails the call.
    pub(crate) fn rejected(&mut self, reply: &Reply, text: String, error: Error) -> Result<()> {
        let retries = error.audience() == Audience::ModelMayRetry;
        // The model of this call has read the text. It is not for the model of a call above.
        let error = if retries { error.for_user().at(Stage::Validation) } else { error };
        self.again(reply, text, error, retries)
    }

    /// Sends an answer back with its error, if it `retries` and attempts are left.
    fn again(&mut self, reply: &Reply, text: String, error: Error, retries: bool) -> Result<()> {
        self.raws.push(text);
        if self.attempt == self.predictor.attempts || !retries {
            return Err(self.failed(error));
        }
        self.send_back(&reply.parts, &error);
        Ok(())
    }

    /// Adds the texts and the usage of all attempts to an error.
    pub(crate) fn failed(&mut self, error: Error) -> Error {
        error.after(mem::take(&mut self.raws), self.usage)
    }

    /// Returns the calls that are read as the answer. If text was asked for, calls count only in a
    /// reply without text.
    fn calls<'r>(&self, reply: &'r Reply) -> impl Iterator<Item = &'r ToolCall> + Clone {
        let count = self.is_called() || reply.to_text().trim().is_empty();
        let calls = move |part: &'r ReplyPart| match part {
            ReplyPart::Call(call) if count => Some(call),
            _ => None,
        };
        reply.parts.iter().filter_map(calls)
    }

    /// Returns the part of a reply that is read as the answer. If its calls cannot be the answer,
    /// returns all of them as evidence.
    fn answer(&self, reply: &Reply) -> String {
        match self.calls(reply).next() {
            None => reply.to_text(),
            Some(call) if self.misplaced(reply).is_none() => call.arguments.clone(),
            Some(_) => {
                let all =
                    self.calls(reply).map(|call| format!("{}({})", call.name, call.arguments));
                all.collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// Returns whether a call is one of `finish`, perhaps in a model's own notation.
    fn is_finish(&self, call: &ToolCall) -> bool {
        call.name == Contract::FINISH
            || self.policy >= Policy::Repair && meant_tool(&call.name, [Contract::FINISH]).is_some()
    }

    /// Returns what is wrong with the calls of a reply, apart from their arguments.
    fn misplaced(&self, reply: &Reply) -> Option<String> {
        let calls = self.calls(reply);
        let name = self.predictor.contract.name();
        if let Some(other) = calls.clone().find(|call| !self.is_finish(call)) {
            let other = shown(&other.name, 100);
            return Some(if self.is_called() {
                format!("for `{name}` there is no tool {other:?}")
            } else {
                format!("for `{name}` there are no tools, and {other:?} was called")
            });
        }
        let mut arguments = calls.map(|call| &call.arguments);
        let first = arguments.next()?;
        let differ = arguments.any(|other| !is_same_json(other, first));
        differ.then(|| format!("`{name}` got several different answers in one reply"))
    }

    fn read<T: DeserializeOwned>(&self, reply: &Reply, text: &str) -> Result<Reading<T>> {
        let contract = &self.predictor.contract;
        match reply.finish {
            Finish::Refused => {
                let said = reply.to_text();
                let said = match (said.trim().is_empty(), &reply.reason) {
                    (true, Some(reason)) => shown(reason, 200),
                    (true, None) => "the reply has no text and no reason".into(),
                    (false, Some(reason)) => format!("{said} ({})", shown(reason, 200)).into(),
                    (false, None) => said.into(),
                };
                let text = format!("the model refused to answer `{}`: {said}", contract.name());
                return Err(Error::other(text).at(Stage::Provider).with_request_refused());
            }
            Finish::Length => {
                let after = match reply.usage.output_tokens {
                    // Some servers do not report the number.
                    0 => String::new(),
                    tokens => format!(" after {tokens} tokens"),
                };
                let text = format!(
                    "the answer to `{}` was cut off{after}; allow more with `Settings::with_max_output_tokens`",
                    contract.name(),
                );
                return Err(Error::other(text).at(Stage::Limit));
            }
            ref finish if finish.is_malformed_call() => {
                let text = "the call could not be read; its arguments must be one JSON object";
                return Err(Error::other(text).at(Stage::Validation));
            }
            Finish::Other(ref word) => {
                let text = format!(
                    "the model stopped with {:?}, which this version does not know, so its answer to `{}` may be incomplete; ask again or try another model",
                    shown(word, 100),
                    contract.name(),
                );
                return Err(Error::other(text).at(Stage::Provider).with_request_refused());
            }
            Finish::Paused => {
                let text = format!(
                    "the model paused its answer to `{}` {PAUSES} times and did not end it; ask again or request less",
                    contract.name(),
                );
                return Err(Error::other(text).at(Stage::Provider).with_request_refused());
            }
            Finish::Stop => {}
        }
        if let Some(text) = self.calls(reply).find_map(ToolCall::why_not_made) {
            return Err(Error::other(text).at(Stage::Validation));
        }
        if let Some(text) = self.misplaced(reply) {
            return Err(Error::other(text).at(Stage::Validation));
        }
        let reading = match reply.has_lost_half && self.calls(reply).next().is_none() {
            true => contract.read_cut_output(text, self.policy),
            false => contract.read_output_with(text, self.policy),
        };
        let mut reading = reading.map_err(|error| Error::other(error).at(Stage::Validation))?;
        if let Some(call) = self.calls(reply).find(|call| call.name != Contract::FINISH) {
            reading.repairs.insert(0, name_repair(&call.name, Contract::FINISH));
        }
        Ok(reading)
    }

    /// Adds the reply and the error to the messages, in a form that providers accept. They reject
    /// messages without content and calls without a result.
    fn send_back(&mut self, parts: &[ReplyPart], error: &Error) {
        let is_called = self.is_called();
        let mut parts = parts.to_vec();
        parts.retain(|part| match part {
            ReplyPart::Call(call) => is_called && call.kind == CallKind::Function,
            _ => true,
        });
        let calls: Vec<ToolCall> = parts
            .iter()
            .filter_map(|part| match part {
                ReplyPart::Call(call) => Some(call.clone()),
                _ => None,
            })
            .collect();
        let says = |part: &ReplyPart| match part {
            ReplyPart::Text(text) => !text.trim().is_empty(),
            ReplyPart::Call(_) => true,
            ReplyPart::Reasoning(_) | ReplyPart::Other(_) => false,
        };
        if parts.iter().any(says) {
            self.messages.push(Arc::new(Message::Assistant { parts }));
        }
        let how = if is_called {
            format!("by calling `{}` once, with arguments that fit its schema", Contract::FINISH)
        } else {
            "with JSON that fits the schema and nothing else".to_owned()
        };
        let text = format!("That answer cannot be used: {error}. Answer again, {how}.");
        if calls.is_empty() {
            self.messages.push(Message::user(&text));
        }
        // Every call needs a result. The first one holds the full text.
        let texts = iter::once(text.as_str()).chain(iter::repeat("Not this one either."));
        let results = calls
            .iter()
            .zip(texts)
            .map(|(call, text)| Message::Tool(ToolResult::failed(call, text)));
        self.messages.extend(results.map(Arc::new));
    }
}
