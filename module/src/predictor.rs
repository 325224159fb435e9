//! The common part of `Predict` and `ChainOfThought`: their settings, and the prompt made of them.
//!
//! Input: the contract, a model, examples and settings. Output: for each call a value of the output
//! type, or an error.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toolwright_signature::{Contract, Dialect, Policy, Reading, SchemaFault, Side, Signature};

use crate::context::Context;
use crate::error::{Error, Result, Stage};
use crate::message::{Message, Part, ReplyPart, ToolCall, ToolResult};
use crate::model::{Capabilities, LanguageModel, Settings, UnsupportedSetting};
use crate::output_mode::OutputMode;
use crate::predict_call::PredictCall;
use crate::runner;
use crate::validator::Validators;

/// Default number of attempts.
const ATTEMPTS: u32 = 2;

/// The settings of a predictor, which are the same for every call.
#[derive(Clone)]
pub(crate) struct Predictor {
    pub(crate) contract: Arc<Contract>,
    model: Option<Arc<dyn LanguageModel>>,
    mode: Option<OutputMode>,
    instructions: Option<String>,
    examples: Arc<[Shown]>,
    policy: Policy,
    pub(crate) attempts: u32,
    pub(crate) settings: Option<Arc<Settings>>,
    /// The prompt for the capabilities that were seen first.
    prompt: OnceLock<(Capabilities, Arc<Prompt>)>,
}

/// An example that is not yet lowered for a dialect and mode.
#[derive(Clone)]
pub(crate) struct Shown {
    /// The JSON of the input, and the images, documents and audio in it.
    input: (String, Vec<Part>),
    output: Value,
    /// The only known field of the output. `None` if all of it is known.
    only: Option<&'static str>,
}

/// The first messages of each request, and the mode in which the answer is requested.
pub(crate) struct Prompt {
    pub(crate) mode: OutputMode,
    pub(crate) tools: Arc<[Arc<Contract>]>,
    pub(crate) messages: Vec<Arc<Message>>,
}

impl Predictor {
    pub(crate) fn new(
        contract: Contract,
        model: Option<Arc<dyn LanguageModel>>,
    ) -> Result<Self, toolwright_signature::ContractError> {
        contract.check_written_by_model(Side::Output)?;
        let predictor = Self {
            contract: Arc::new(contract),
            model,
            mode: None,
            instructions: None,
            examples: Arc::default(),
            policy: Policy::default(),
            attempts: ATTEMPTS,
            settings: None,
            prompt: OnceLock::new(),
        };
        predictor.checked()
    }

    pub(crate) fn with_model(
        mut self,
        model: Arc<dyn LanguageModel>,
    ) -> Result<Self, toolwright_signature::ContractError> {
        self.model = Some(model);
        self.prompt = OnceLock::new();
        self.checked()
    }

    pub(crate) fn with_mode(
        mut self,
        mode: OutputMode,
    ) -> Result<Self, toolwright_signature::ContractError> {
        self.mode = Some(mode);
        self.prompt = OnceLock::new();
        self.checked()
    }

    pub(crate) fn with_examples(
        mut self,
        examples: Vec<Shown>,
    ) -> Result<Self, toolwright_signature::ContractError> {
        self.examples = examples.into();
        self.prompt = OnceLock::new();
        self.checked()
    }

    /// Returns the contract with the instructions in its description, as the model sees them.
    pub(crate) fn contract(&self) -> Contract {
        self.contract.described(&self.instructed())
    }

    /// Returns the signature's description and the instructions.
    fn instructed(&self) -> String {
        let mut text = self.contract.description().to_owned();
        if let Some(instructions) = &self.instructions {
            let _ = write!(text, "\n\n{instructions}");
        }
        text
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

    pub(crate) fn with_settings(mut self, settings: Settings) -> Result<Self, UnsupportedSetting> {
        if let Some(model) = &self.model {
            settings.check(model.capabilities().settings)?;
        }
        self.settings = Some(Arc::new(settings));
        Ok(self)
    }

    /// Makes the prompt, so that a schema that the provider does not accept is an error here and
    /// not at the first call.
    fn checked(self) -> Result<Self, toolwright_signature::ContractError> {
        if let Some(model) = &self.model {
            self.prompt(model.capabilities())?;
        }
        Ok(self)
    }

    /// Returns an example whose output deserializes as a `T`. `only` is as in [`Shown`].
    pub(crate) fn example<T: Serialize + DeserializeOwned>(
        &self,
        input: &impl Serialize,
        output: &T,
        only: Option<&'static str>,
    ) -> Result<Shown, toolwright_signature::ContractError> {
        // Through text, because `serde_json::to_value` represents a float differently.
        let (written, example) = (serde_json::to_string(output), output);
        let output: Value =
            written.and_then(|text| serde_json::from_str(&text)).map_err(|source| {
                toolwright_signature::ContractError::Write {
                    contract: self.contract.name().to_owned(),
                    source,
                }
            })?;
        self.contract.check_finite(example)?;
        // Models imitate examples, so an example itself must fit the schema.
        let wire = self.contract.lower_output_value(Dialect::JsonSchema2020, &output)?;
        self.contract.read_output_with::<T>(&wire.to_string(), Policy::Strict)?;
        if only.is_some() {
            self.check_listed()?;
        }
        Ok(Shown { input: runner::written_input(&self.contract, input)?, output, only })
    }

    /// Checks that an example can be listed in the system message, which has only text.
    fn check_listed(&self) -> Result<(), toolwright_signature::ContractError> {
        let Some(media) = self.contract.media(Side::Input).first() else { return Ok(()) };
        Err(toolwright_signature::ContractError::Schema {
            contract: self.contract.name().to_owned(),
            side: Side::Input,
            fault: SchemaFault::Media,
            path: media.path.clone(),
            reason: format!("an example with this {} needs a reasoning; add one", media.kind),
        })
    }

    /// Asks until the answer fits, or until the attempts or the ledger are exhausted. `output`
    /// returns the part of an answer that the validators check.
    pub(crate) async fn ask<S: Signature, T: DeserializeOwned>(
        &self,
        input: &S,
        cx: &Context,
        validators: &Validators<S, S::Output>,
        output: fn(&T) -> &S::Output,
    ) -> Result<Reading<T>> {
        let mut call = self.begin(input, cx)?;
        loop {
            let reply = match cx.ask(call.model, call.request(), false).await {
                Ok(reply) => reply,
                Err(error) => return Err(call.failed(error)),
            };
            let Some((reading, text)) = call.judge(&reply, cx)? else { continue };
            if validators.is_empty() {
                return Ok(reading);
            }
            let checked = Box::pin(validators.check(input, output(&reading.value), cx)).await;
            match checked {
                Ok(()) => return Ok(reading),
                Err(error) => call.rejected(&reply, text, error)?,
            }
        }
    }

    pub(crate) fn begin<'a>(
        &'a self,
        input: &impl Serialize,
        cx: &'a Context,
    ) -> Result<PredictCall<'a>> {
        let input = runner::written_input(&self.contract, input)
            .map_err(|error| Error::other(error).at(Stage::Module))?;
        let model = self.model.as_ref().or_else(|| cx.model()).ok_or_else(|| self.no_model())?;
        let prompt = self
            .prompt(model.capabilities())
            .map_err(|error| Error::other(error).at(Stage::Setup))?;
        if let Some(settings) = &self.settings {
            let checked = settings.check(model.capabilities().settings);
            checked.map_err(|error| Error::stop(error).at(Stage::Setup))?;
        }
        let policy = self.policy.min(cx.policy());
        Ok(PredictCall::new(self, &**model, prompt, asked(input), policy))
    }

    fn no_model(&self) -> Error {
        let text = format!(
            "`{}` has no language model: make it with `new(model)`, or call it with `Context::with_model(model)`",
            self.contract.name(),
        );
        Error::stop(text).at(Stage::Setup)
    }

    fn prompt(
        &self,
        capabilities: Capabilities,
    ) -> Result<Arc<Prompt>, toolwright_signature::ContractError> {
        match self.prompt.get() {
            Some((met, prompt)) if *met == capabilities => Ok(Arc::clone(prompt)),
            _ => {
                let prompt = Arc::new(self.make_prompt(capabilities)?);
                // If the cell holds the prompt for other capabilities, this one is made again each
                // time.
                let _ = self.prompt.set((capabilities, Arc::clone(&prompt)));
                Ok(prompt)
            }
        }
    }

    fn make_prompt(
        &self,
        capabilities: Capabilities,
    ) -> Result<Prompt, toolwright_signature::ContractError> {
        capabilities.check_media(&self.contract, Side::Input)?;
        let mode = self.mode.unwrap_or_else(|| OutputMode::from(capabilities));
        let dialect = match mode {
            OutputMode::Prompted => Dialect::JsonSchema2020,
            OutputMode::Schema | OutputMode::Tool => capabilities.dialect,
        };
        let schema = &self.contract.lower_output(dialect)?.schema;
        let mut tools: Arc<[Arc<Contract>]> = Arc::default();

        let mut system = self.instructed();
        let _ = write!(system, "\n\nThe input is JSON of this schema:\n{}", self.contract.input());
        let mut turns = Vec::new();
        let mut known = String::new();
        for (number, Shown { input, output, only }) in self.examples.iter().enumerate() {
            let output = self.contract.lower_output_value(dialect, output)?;
            match only {
                None => turns.extend(turn(mode, number, asked(input.clone()), &output)),
                Some(field) => {
                    let (input, output) = (&input.0, &output[*field]);
                    let _ = write!(known, "\n{{\"input\":{input},\"{field}\":{output}}}");
                }
            }
        }
        if !known.is_empty() {
            let _ = write!(
                system,
                "\n\nFor these inputs the output is known, but not the reasoning:{known}"
            );
        }
        match mode {
            OutputMode::Tool => {
                let finish = self.contract.finish()?;
                capabilities.dialects().try_for_each(|each| finish.lower(each).map(drop))?;
                tools = Arc::new([Arc::new(finish)]);
                let _ = write!(system, "\n\nAnswer by calling `{}`.", Contract::FINISH);
            }
            OutputMode::Schema if capabilities.structured_output => {
                let mut dialects = capabilities.dialects();
                dialects.try_for_each(|each| self.contract.lower_output(each).map(drop))?;
                system.push_str("\n\nAnswer with JSON only.");
            }
            // The model cannot take the schema any other way, so the prompt contains it.
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

/// Returns the user's message with an input: the JSON, and then the parts that belong to it.
fn asked((json, parts): (String, Vec<Part>)) -> Arc<Message> {
    Message::user_parts([Part::Text(json)].into_iter().chain(parts))
}

/// Returns an example as messages of the user and the model.
fn turn(mode: OutputMode, number: usize, input: Arc<Message>, output: &Value) -> Vec<Arc<Message>> {
    let output = output.to_string();
    let mut turn = vec![input];
    let said = |part| Arc::new(Message::Assistant { parts: vec![part] });
    if mode == OutputMode::Tool {
        // Nine letters and digits, because a strict server accepts no other ids.
        let call = ToolCall::new(format!("ex{number:07}"), Contract::FINISH, output);
        let result = ToolResult::new(&call, "Accepted.");
        turn.extend([said(ReplyPart::Call(call)), Arc::new(Message::Tool(result))]);
    } else {
        turn.push(Message::assistant(output));
    }
    turn
}
