//! Asking a model for an output that fits: what `Predict` and `ChainOfThought` share.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toolwright_signature::{Contract, Dialect, Policy, Reading};

use crate::context::Context;
use crate::conversation::Conversation;
use crate::error::{Error, Result, Stage};
use crate::message::{Message, ReplyPart, ToolCall, ToolResult};
use crate::model::{Capabilities, LanguageModel, Request};
use crate::output_mode::OutputMode;

/// How often a model is asked for one output.
const ATTEMPTS: u32 = 2;

/// Everything about asking that does not change from call to call.
#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) contract: Arc<Contract>,
    model: Option<Arc<dyn LanguageModel>>,
    mode: Option<OutputMode>,
    instructions: Option<String>,
    examples: Arc<[Shown]>,
    policy: Policy,
    pub(crate) attempts: u32,
    pub(crate) max_output_tokens: u64,
    /// How models of these capabilities are asked, those of the first that was met.
    prompt: OnceLock<(Capabilities, Arc<Prompt>)>,
}

/// An example, before it is known in which shape a model is asked.
#[derive(Clone)]
pub(crate) struct Shown {
    input: String,
    output: Value,
    /// The one field of the output that is known, if it is not all of it.
    only: Option<&'static str>,
}

/// What each request begins with, and how the answer is asked for.
pub(crate) struct Prompt {
    pub(crate) mode: OutputMode,
    pub(crate) tools: Arc<[Arc<Contract>]>,
    pub(crate) messages: Vec<Arc<Message>>,
}

impl Question {
    pub(crate) fn new(
        contract: Contract,
        model: Option<Arc<dyn LanguageModel>>,
    ) -> toolwright_signature::Result<Self> {
        let question = Self {
            contract: Arc::new(contract),
            model,
            mode: None,
            instructions: None,
            examples: Arc::default(),
            policy: Policy::default(),
            attempts: ATTEMPTS,
            max_output_tokens: Request::MAX_OUTPUT_TOKENS,
            prompt: OnceLock::new(),
        };
        question.checked()
    }

    pub(crate) fn with_model(
        mut self,
        model: Arc<dyn LanguageModel>,
    ) -> toolwright_signature::Result<Self> {
        self.model = Some(model);
        self.prompt = OnceLock::new();
        self.checked()
    }

    pub(crate) fn with_mode(mut self, mode: OutputMode) -> toolwright_signature::Result<Self> {
        self.mode = Some(mode);
        self.prompt = OnceLock::new();
        self.checked()
    }

    pub(crate) fn with_examples(
        mut self,
        examples: Vec<Shown>,
    ) -> toolwright_signature::Result<Self> {
        self.examples = examples.into();
        self.prompt = OnceLock::new();
        self.checked()
    }

    pub(crate) fn with_instructions(mut self, instructions: String) -> Self {
        self.instructions = Some(instructions);
        self.prompt = OnceLock::new();
        self
    }

    pub(crate) fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    pub(crate) fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    pub(crate) fn with_max_output_tokens(mut self, tokens: u64) -> Self {
        self.max_output_tokens = tokens;
        self
    }

    /// What the model's provider cannot be asked is found out here, not at the first
    /// call in production.
    fn checked(self) -> toolwright_signature::Result<Self> {
        if let Some(model) = &self.model {
            self.prompt(model.capabilities())?;
        }
        Ok(self)
    }

    /// An example whose output reads as a `T`; `only` as in [`Shown`].
    pub(crate) fn example<T: Serialize + DeserializeOwned>(
        &self,
        input: &impl Serialize,
        output: &T,
        only: Option<&'static str>,
    ) -> toolwright_signature::Result<Shown> {
        // Through text: a float as a value of its own is another float.
        let written = serde_json::to_string(output);
        let output: Value =
            written.and_then(|text| serde_json::from_str(&text)).map_err(|source| {
                toolwright_signature::Error::Write {
                    contract: self.contract.name().to_owned(),
                    source,
                }
            })?;
        // A model does what it is shown, so what is shown must itself fit.
        let wire = self.contract.lower_output_value(Dialect::JsonSchema2020, &output)?;
        self.contract.read_output_with::<T>(&wire.to_string(), Policy::Strict)?;
        Ok(Shown { input: self.contract.write_input(input)?, output, only })
    }

    /// Asks until the answer fits, or the attempts or the ledger are used up.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        input: &impl Serialize,
        cx: &Context,
    ) -> Result<Reading<T>> {
        let mut conversation = self.begin(input, cx)?;
        loop {
            let reply = match cx.ask(conversation.model, conversation.request(), false).await {
                Ok(reply) => reply,
                Err(error) => return Err(conversation.failed(error)),
            };
            if let Some((reading, _)) = conversation.judge(&reply, cx)? {
                return Ok(reading);
            }
        }
    }

    pub(crate) fn begin<'a>(
        &'a self,
        input: &impl Serialize,
        cx: &'a Context,
    ) -> Result<Conversation<'a>> {
        let input = self
            .contract
            .write_input(input)
            .map_err(|error| Error::other(error).at(Stage::Module))?;
        let model = self.model.as_ref().or_else(|| cx.model()).ok_or_else(|| self.no_model())?;
        let prompt = self
            .prompt(model.capabilities())
            .map_err(|error| Error::other(error).at(Stage::Setup))?;
        let policy = self.policy.min(cx.policy());
        Ok(Conversation::new(self, &**model, prompt, input, policy))
    }

    fn no_model(&self) -> Error {
        let text = format!(
            "`{}` has no language model: make it with `new(model)`, or call it with `Context::with_model(model)`",
            self.contract.name(),
        );
        Error::stop(text).at(Stage::Setup)
    }

    fn prompt(&self, capabilities: Capabilities) -> toolwright_signature::Result<Arc<Prompt>> {
        match self.prompt.get() {
            Some((met, prompt)) if *met == capabilities => Ok(Arc::clone(prompt)),
            _ => {
                let prompt = Arc::new(self.make_prompt(capabilities)?);
                // Others came first: then theirs is kept, and this made again each time.
                let _ = self.prompt.set((capabilities, Arc::clone(&prompt)));
                Ok(prompt)
            }
        }
    }

    fn make_prompt(&self, capabilities: Capabilities) -> toolwright_signature::Result<Prompt> {
        let mode = self.mode.unwrap_or_else(|| OutputMode::of(capabilities));
        let dialect = match mode {
            OutputMode::Prompted => Dialect::JsonSchema2020,
            OutputMode::Schema | OutputMode::Tool => capabilities.dialect,
        };
        let schema = &self.contract.lower_output(dialect)?.schema;
        let mut tools: Arc<[Arc<Contract>]> = Arc::default();

        let mut system = self.contract.description().to_owned();
        if let Some(instructions) = &self.instructions {
            let _ = write!(system, "\n\n{instructions}");
        }
        let _ = write!(system, "\n\nThe input is JSON of this schema:\n{}", self.contract.input());
        let mut turns = Vec::new();
        let mut known = String::new();
        for (number, Shown { input, output, only }) in self.examples.iter().enumerate() {
            let output = self.contract.lower_output_value(dialect, output)?;
            match only {
                None => turns.extend(turn(mode, number, input, &output)),
                Some(field) => {
                    let output = &output[*field];
                    let _ = write!(known, "\n{{\"input\":{input},\"{field}\":{output}}}");
                }
            }
        }
        if !known.is_empty() {
            let _ = write!(
                system,
                "\n\nFor these inputs the output is known, the way to it is not told:{known}"
            );
        }
        match mode {
            OutputMode::Tool => {
                let finish = self.contract.finish()?;
                finish.lower(dialect)?;
                tools = Arc::new([Arc::new(finish)]);
                let _ = write!(system, "\n\nAnswer by calling `{}`.", Contract::FINISH);
            }
            OutputMode::Schema if capabilities.structured_output => {
                system.push_str("\n\nAnswer with JSON only.");
            }
            // A model that cannot be given the schema otherwise still gets it.
            OutputMode::Schema | OutputMode::Prompted => {
                let _ = write!(
                    system,
                    "\n\nAnswer with JSON of this schema and nothing else, no explanation around it:\n{schema}"
                );
            }
        }
        let mut messages = vec![Message::system(system)];
        messages.append(&mut turns);
        Ok(Prompt { mode, tools, messages })
    }
}

/// An example as it would have gone between user and model.
fn turn(mode: OutputMode, number: usize, input: &str, output: &Value) -> Vec<Arc<Message>> {
    let output = output.to_string();
    let mut turn = vec![Message::user(input)];
    let said = |part| Arc::new(Message::Assistant { parts: vec![part] });
    if mode == OutputMode::Tool {
        // Nine letters and digits: a strict server takes nothing else as an id.
        let call = ToolCall::new(format!("ex{number:07}"), Contract::FINISH, output);
        let result = ToolResult::new(&call, "Accepted.");
        turn.extend([said(ReplyPart::Call(call)), Arc::new(Message::Tool(result))]);
    } else {
        turn.push(said(ReplyPart::Text(output)));
    }
    turn
}
