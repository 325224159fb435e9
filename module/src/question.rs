//! Asking a model for an output that fits: what `Predict` and `ChainOfThought` share.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use toolwright_signature::{Contract, Dialect};

use crate::context::Context;
use crate::error::{Error, Result, Stage};
use crate::language_model::{Finish, LanguageModel, Reply, Request, Usage};
use crate::message::{Message, ReplyPart};

/// How often a model is asked for one output.
const ATTEMPTS: u32 = 2;

#[derive(Clone)]
pub(crate) struct Question {
    contract: Arc<Contract>,
    model: Option<Arc<dyn LanguageModel>>,
    instructions: Option<String>,
    attempts: u32,
    max_output_tokens: u64,
}

impl Question {
    pub(crate) fn new(
        contract: Contract,
        model: Option<Arc<dyn LanguageModel>>,
    ) -> toolwright_signature::Result<Self> {
        // What the model's provider cannot be asked is found out here, not at the
        // first call in production.
        if let Some(model) = &model {
            contract.lower_output(model.capabilities().dialect)?;
        }
        Ok(Self {
            contract: Arc::new(contract),
            model,
            instructions: None,
            attempts: ATTEMPTS,
            max_output_tokens: Request::MAX_OUTPUT_TOKENS,
        })
    }

    pub(crate) fn contract(&self) -> &Contract {
        &self.contract
    }

    pub(crate) fn set_instructions(&mut self, instructions: String) {
        self.instructions = Some(instructions);
    }

    pub(crate) fn set_attempts(&mut self, attempts: u32) {
        self.attempts = attempts.max(1);
    }

    pub(crate) fn set_max_output_tokens(&mut self, tokens: u64) {
        self.max_output_tokens = tokens;
    }

    /// Asks until the answer fits or the attempts are used up.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, input: String, cx: &Context) -> Result<T> {
        let model = self.model.as_ref().or_else(|| cx.model()).ok_or_else(|| self.no_model())?;
        let mut messages = self.messages(input, &**model)?;
        let mut usage = Usage::default();
        let mut attempt = 1;
        loop {
            let mut request = Request::new(messages.iter().cloned())
                .with_max_output_tokens(self.max_output_tokens);
            if model.capabilities().structured_output {
                request = request.with_output(Arc::clone(&self.contract));
            }
            let reply = match cx.ask(&**model, request, false).await {
                Ok(reply) => reply,
                Err(error) => {
                    let total = usage + error.usage();
                    return Err(error.with_usage(total));
                }
            };
            usage += reply.usage;
            let text = reply.to_text();
            let error = match self.read(&reply, &text) {
                Ok(output) => return Ok(output),
                Err(error) => error.with_raw(text).with_usage(usage),
            };
            if attempt == self.attempts || error.stage() != Stage::Validation {
                return Err(error);
            }
            attempt += 1;
            messages.extend(said(reply.parts));
            messages.push(Message::user(format!(
                "That answer cannot be used: {error}. Answer again, with JSON that fits the schema and nothing else."
            )));
        }
    }

    fn read<T: DeserializeOwned>(&self, reply: &Reply, text: &str) -> Result<T> {
        match reply.finish {
            Finish::Refused => {
                let text =
                    format!("the model refused to answer `{}`: {text}", self.contract.name());
                return Err(Error::other(text).at(Stage::Provider));
            }
            Finish::Length => {
                let text = format!(
                    "the answer to `{}` was cut off after {} tokens; allow more with `with_max_output_tokens`",
                    self.contract.name(),
                    reply.usage.output_tokens,
                );
                return Err(Error::other(text).at(Stage::Limit));
            }
            Finish::Stop | Finish::Other(_) => {}
        }
        self.contract.read_output(text).map_err(|error| Error::other(error).at(Stage::Validation))
    }

    fn messages(&self, input: String, model: &dyn LanguageModel) -> Result<Vec<Arc<Message>>> {
        let capabilities = model.capabilities();
        let lowered = |dialect| {
            self.contract
                .lower_output(dialect)
                .map_err(|error| Error::other(error).at(Stage::Setup))
        };
        let mut system = self.contract.description().to_owned();
        if let Some(instructions) = &self.instructions {
            let _ = write!(system, "\n\n{instructions}");
        }
        let _ = write!(system, "\n\nThe input is JSON of this schema:\n{}", self.contract.input());
        if capabilities.structured_output {
            lowered(capabilities.dialect)?;
            system.push_str("\n\nAnswer with JSON only.");
        } else {
            let schema = &lowered(Dialect::JsonSchema2020)?.schema;
            let _ = write!(
                system,
                "\n\nAnswer with JSON of this schema and nothing else, no explanation around it:\n{schema}"
            );
        }
        Ok(vec![Message::system(system), Message::user(input)])
    }

    fn no_model(&self) -> Error {
        let text = format!(
            "`{}` has no language model: make it with `new(model)`, or call it with `Context::with_model(model)`",
            self.contract.name(),
        );
        Error::stop(text).at(Stage::Setup)
    }
}

/// What the model said, as its provider takes it back: a call that nobody answers is
/// refused, and so is a message without text.
fn said(mut parts: Vec<ReplyPart>) -> Option<Arc<Message>> {
    parts.retain(|part| !matches!(part, ReplyPart::Call(_)));
    let has_text =
        parts.iter().any(|part| matches!(part, ReplyPart::Text(text) if !text.trim().is_empty()));
    has_text.then(|| Arc::new(Message::Assistant { parts }))
}
