use std::cell::{Cell, RefCell};
use std::error::Error;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use sha2::{Digest, Sha256};
use toolwright_journal::{Journal, RunSummary};
use toolwright_mcp::McpClient;
use toolwright_module::model::{LanguageModel, Settings};
use toolwright_module::{Contract, Effect, Tool};
use toolwright_orchestrator::{Agent, ApprovalPolicy, Choosing, Compaction, Limits};

use crate::assistant::{Assistant, RENEWED, options_of};
use crate::config::{Config, ConfigArgs};
use crate::fresh_tools::FreshTools;
use crate::journal::own_secret;
use crate::model::{Chosen, ModelArgs, NoModel};
use crate::record::{Options, Recorded};
use crate::schema::AnswerSchema;
use crate::servers::McpArgs;
use crate::show::{note, visible};
use crate::signals::Interrupts;
use crate::toolbox::ToolArgs;

/// Maximum number of tokens of a reply, if the arguments have none.
const OUTPUT_TOKENS: u64 = 4096;

/// Arguments that make an agent: its model, its tools and its limits.
#[derive(Clone, Default, Args)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    tools: ToolArgs,

    #[command(flatten)]
    mcp: McpArgs,

    /// Instructions for the model, as its system message
    #[arg(long, help_heading = "Agent", value_name = "TEXT")]
    system: Option<String>,

    /// Form of the answer, which is printed as JSON: fields such as 'name, age int, tags list of
    /// text?', a JSON Schema, or a file with one that ends in .json
    ///
    /// A field is a name with a type: text (the default), int, number, bool, `list of` a type,
    /// words such as `small|large`, or {more fields}. A `?` at its end makes it optional, and a
    /// description may follow after a colon. `list of` a type alone is a list.
    #[arg(long, help_heading = "Agent", value_name = "FIELDS|FILE|JSON")]
    schema: Option<AnswerSchema>,

    /// Let the model select tools in its text, for models that cannot call tools; replies are not
    /// streamed
    #[arg(long, help_heading = "Agent")]
    selector: bool,

    /// Ask before each irreversible call, and before each call of an MCP server's tool; needs a
    /// terminal. Includes --ask-after-untrusted
    #[arg(long, help_heading = "Agent")]
    ask: bool,

    /// Ask before each call that changes something, once the model has read text of strangers: results
    /// of MCP servers and of GitHub; needs a terminal
    ///
    /// Such a text can ask the model to make calls. Every call asks whose effect is not `Read`; writing
    /// a file is `Idempotent`. A tool of a server counts as one that changes something.
    #[arg(long, help_heading = "Agent")]
    ask_after_untrusted: bool,

    /// Maximum number of model calls for one task. Without it: 10 rounds of
    /// tool calls
    #[arg(long, help_heading = "Agent", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_model_calls: Option<u64>,

    /// Maximum time for one task, in seconds
    #[arg(long, help_heading = "Agent", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    max_time: Option<u64>,

    /// Maximum number of tokens of each reply. Default: 4096
    #[arg(long, help_heading = "Agent", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_output_tokens: Option<u64>,

    /// Number of tokens of the model's context. Longer conversations are shortened before they are
    /// sent. Default: they are shortened after the model's server refused them
    #[arg(long, help_heading = "Agent", value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..))]
    window: Option<u64>,

    /// Print only JSON on stdout, one object per line
    ///
    /// Each event is an object with the field `event`. The last object of each task has the field
    /// `result` (answer, output, ending, limit, iterations, spent, tools_used, failures) or `error`
    /// (stage, text, spent). With a journal, the first object of each task has the field `run`, its
    /// id.
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    #[command(flatten)]
    pub(crate) config: ConfigArgs,

    /// Whether the calls of a replayed run are made without a question.
    #[arg(skip)]
    allows_replayed: bool,

    /// The recorded run to replay.
    #[arg(skip)]
    replay: Option<Arc<Recorded>>,

    /// Whether a page asks, so that the task is not known yet and the tools stay as they are.
    #[arg(skip)]
    serves: bool,

    /// Whether the recorded run could not read long results. Its requests had other tools then.
    #[arg(skip)]
    reads_no_results: bool,
}

/// The parts of an agent, to make it again when the tools of a server change.
pub(crate) struct AgentMaker {
    args: AgentArgs,
    model: Arc<dyn LanguageModel>,
    /// The tools of the toolsets.
    ours: Vec<Tool>,
    pub(crate) limits: Limits,
    pub(crate) streams: bool,
    /// The contract whose output is the answer, if the answer is not text.
    pub(crate) output: Option<Arc<Contract>>,
    asks_from: Option<Effect>,
}

impl AgentMaker {
    /// Makes the agent with the present tools of the servers.
    ///
    /// # Errors
    ///
    /// If the model's provider does not accept the tools.
    pub(crate) fn agent(&self, servers: &[McpClient]) -> Result<Agent, Box<dyn Error>> {
        // Made first, so that no later change is overlooked.
        let fresh = FreshTools::of(servers);
        let mut tools = self.ours.clone();
        for server in servers {
            let theirs = server.tools_beside(&tools)?;
            tools.extend(theirs);
        }
        let args = &self.args;
        let mut approval = ApprovalPolicy::default();
        if let Some(least) = self.asks_from {
            approval.from_effect = Some(least);
            let theirs = tools.iter().skip(self.ours.len()).map(|tool| tool.name().to_owned());
            approval.tools.extend(theirs);
        }
        if args.ask || args.ask_after_untrusted {
            approval = approval.with_after_untrusted(Effect::Idempotent);
        }
        let tokens = args.max_output_tokens.unwrap_or(OUTPUT_TOKENS);
        let mut agent = Agent::new(Arc::clone(&self.model), tools)?
            .with_limits(self.limits.clone())
            .with_settings(Settings::default().with_max_output_tokens(tokens))?
            .with_streaming(self.streams);
        if !args.reads_no_results {
            let compaction = Compaction { window: args.window, ..Compaction::default() };
            agent = agent.with_compaction(compaction)?;
        }
        let theirs = args.mcp.instructions(servers);
        let system: Vec<&str> = args.system.iter().chain(&theirs).map(String::as_str).collect();
        if !system.is_empty() {
            agent = agent.with_instructions(&system.join("\n\n"));
        }
        if args.selector {
            agent = agent.with_choosing(Choosing::Selector)?;
        }
        if let Some(output) = &self.output {
            agent = agent.with_output(Arc::clone(output))?;
        }
        if approval != ApprovalPolicy::default() {
            agent = agent.with_approval(approval)?;
        }
        Ok(if servers.is_empty() || args.serves { agent } else { agent.with_hook(fresh) })
    }
}

impl AgentArgs {
    /// Returns the arguments, with the defaults of the configuration file for options that the
    /// command line leaves out.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or has an unknown key.
    pub(crate) fn configured(self) -> Result<Self, Box<dyn Error>> {
        let config = self.config.load()?;
        self.or(config).map_err(|error| format!("the configuration: {error}").into())
    }

    /// Uses these defaults for what the command line leaves out.
    ///
    /// # Errors
    ///
    /// If a default is not valid.
    pub(crate) fn or(mut self, config: Config) -> Result<Self, String> {
        // A recording has its own tools and options.
        if self.replay.is_none() {
            self.tools = self.tools.or(&config.tools)?;
            self.mcp = self.mcp.or(&config);
            self.model = self.model.or(&config)?;
            self.system = self.system.or(config.system);
            self.selector |= config.selector;
            self.max_output_tokens =
                self.max_output_tokens.or(config.max_output_tokens.map(NonZeroU64::get));
        }
        self.window = self.window.or(config.window.map(NonZeroU64::get));
        self.ask |= config.ask;
        self.ask_after_untrusted |= config.ask_after_untrusted;
        self.max_model_calls = self.max_model_calls.or(config.max_model_calls.map(NonZeroU64::get));
        self.max_time = self.max_time.or(config.max_time.map(NonZeroU64::get));
        Ok(self)
    }

    /// Connects to the servers.
    ///
    /// # Errors
    ///
    /// If an argument is not valid, or a server cannot be reached.
    pub(crate) async fn servers(&self) -> toolwright_module::Result<Vec<McpClient>> {
        let mut tools = self.tools.tools(self.model.key_file()).await?;
        self.mcp.connect(&mut tools, self.model.key_file()).await
    }

    /// Makes an agent that asks nobody, with toolsets of its own.
    ///
    /// # Errors
    ///
    /// If an argument is not valid, or the model's provider does not accept the tools.
    pub(crate) async fn agent(
        &self,
        model: Arc<dyn LanguageModel>,
        servers: &[McpClient],
    ) -> toolwright_module::Result<Agent> {
        let ours = self.tools.tools(self.model.key_file()).await?;
        let (limits, output) = (self.limits(), self.schema.as_ref().map(AnswerSchema::contract));
        let args = self.clone();
        let maker =
            AgentMaker { args, model, ours, limits, streams: false, output, asks_from: None };
        maker.agent(servers).map_err(|error| toolwright_module::Error::other(error.to_string()))
    }

    fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.budget.model_calls = self.max_model_calls;
        if let Some(calls) = self.max_model_calls {
            // Each round has a model call. The default limit of rounds must not end a run before.
            let rounds = u32::try_from(calls).unwrap_or(u32::MAX);
            limits.max_iterations = limits.max_iterations.max(rounds);
        }
        limits.max_time = self.max_time.map(Duration::from_secs);
        limits
    }

    /// Makes the assistant, and connects to its servers. It can ask for approvals if `asks`. Returns
    /// `None` if the user ends the program with Ctrl-C meanwhile.
    ///
    /// # Errors
    ///
    /// If an argument is not valid, or there is no model for this prompt.
    pub(crate) async fn assistant(
        &self,
        prompt: Option<&str>,
        asks: bool,
        journal: Option<&Path>,
    ) -> Result<Option<Assistant>, Box<dyn Error>> {
        let args = self.clone().configured()?;
        let journal = journal.map(Journal::open).transpose()?;
        let keeps = journal.is_some();
        let journal = journal.map(|journal| {
            journal.with_options(toolwright_journal::Options {
                change_listener: Some(Arc::new(|id, change| {
                    note(&format!("(run {id}: {change})"))
                })),
                ..toolwright_journal::Options::default()
            })
        });
        let asks_from = args.asks_from();
        let replays = args.replay.is_some();
        let (args, chosen) = args.chosen(prompt).await?;
        note(&chosen.line);

        let limits = args.limits();
        // A selection and a structured answer are JSON for the program, not text for the user.
        let streams = !args.model.no_stream && !args.selector && args.schema.is_none();
        let ours = args.tools.tools(args.model.key_file()).await?;
        let mut tools = ours.clone();
        let servers = tokio::select! {
            servers = args.mcp.connect(&mut tools, args.model.key_file()) => servers?,
            _ = tokio::signal::ctrl_c() => return Ok(None),
        };
        let output = args.schema.as_ref().map(AnswerSchema::contract);
        let (options, json, model) = (args.options(keeps), args.json, Arc::clone(&chosen.model));
        let maker = AgentMaker { args, model, ours, limits, streams, output, asks_from };
        Ok(Some(Assistant {
            agent: RefCell::new(maker.agent(&servers)?),
            maker,
            chosen,
            options,
            approves: asks,
            replays,
            json,
            journal,
            servers,
            interrupts: Interrupts::listen(),
            started: Cell::new(0),
        }))
    }

    /// Returns the arguments with the options of a run in the journal, for what the command line leaves
    /// out, so that its answer has the same form and its tools are there.
    ///
    /// # Errors
    ///
    /// If the run used folders, files or servers, and the arguments name none or other ones.
    pub(crate) fn of_run(self, run: &RunSummary) -> Result<Self, Box<dyn Error>> {
        // A run of another program has no options, and no places.
        let options = options_of(run).unwrap_or_default();
        let args = match options_of(run) {
            Some(options) => self.with_options_of_run(options)?,
            None => self,
        };
        // Results of one server or account must not lead to calls of another.
        if !args.clone().configured()?.options(true).has_same_places(&options) {
            return Err(format!(
                "run {} used other servers, folders, files or accounts than these, or another user \
                 started it; a run goes on with the same ones only: with the same user, home folder, \
                 command and arguments, variables, tokens, URL, and folder in which it was started. \
                 {RENEWED}. It used {}",
                visible(&run.id),
                match options.outside.is_empty() {
                    true => "none".to_owned(),
                    false => visible(&options.outside.join(", ")),
                },
            )
            .into());
        }
        Ok(args)
    }

    fn with_options_of_run(self, mut options: Options) -> Result<Self, Box<dyn Error>> {
        let now = self.clone().configured()?.options(false);
        if !options.outside.is_empty() && now.outside == options.outside {
            // The configuration names them, and what is not named here comes from there.
            options.outside.clear();
            options.tools.clear();
        }
        self.with_options(options, "a stored run")
    }

    /// Finds the model. Without one, the recording of this program answers its own task.
    async fn chosen(mut self, prompt: Option<&str>) -> Result<(Self, Chosen), Box<dyn Error>> {
        if let Some(recorded) = self.replay.take() {
            return Ok((self.recorded_with(&recorded)?, Chosen::replay(&recorded)));
        }
        if let Some(chosen) = self.model.find().await? {
            return Ok((self, chosen));
        }
        let first = Recorded::first()?;
        let task = first.task();
        let no_model = NoModel { recorded: task, reason: self.model.reason() };
        if self.serves {
            let args = self.recorded_with(&first)?;
            // With other options, no request is a recorded one.
            return match first.options == Some(args.options(false)) {
                true => Ok((args, Chosen::recorded_task(&first, no_model))),
                false => Err(Box::new(no_model)),
            };
        }
        if prompt != Some(no_model.recorded.as_str()) {
            return Err(Box::new(no_model));
        }
        Ok((self.recorded_with(&first)?, Chosen::replay(&first)))
    }

    fn recorded_with(mut self, recorded: &Recorded) -> Result<Self, Box<dyn Error>> {
        self.reads_no_results = !recorded.reads_results();
        self.with_options(recorded.options.clone().unwrap_or_default(), "a recording")
    }

    /// Returns the arguments with these options, for what the command line leaves out. Toolsets and
    /// servers of the command line stay.
    fn with_options(mut self, options: Options, source: &str) -> Result<Self, Box<dyn Error>> {
        if self.tools.is_default() && self.mcp.shown().is_empty() {
            // A file from someone else may name others than its command wrote.
            let (_, mut outside) = ToolArgs::default().or(&options.tools)?.written();
            outside.extend(options.outside);
            if !outside.is_empty() {
                let outside = outside.join(", ");
                return Err(format!(
                    "this run used {outside}; {source} does not choose them for you, so name them \
                     with --tools and --mcp"
                )
                .into());
            }
            self.tools = self.tools.or(&options.tools)?;
        }
        self.system = self.system.or(options.system);
        self.selector |= options.selector;
        self.max_output_tokens = self.max_output_tokens.or(options.max_output_tokens);
        self.max_model_calls = self.max_model_calls.or(options.max_model_calls);
        if let (None, Some(schema)) = (&self.schema, options.schema) {
            self.schema = Some(schema.to_string().parse()?);
        }
        Ok(self)
    }

    /// Returns the options that a recording keeps. A journal `keeps` the places too.
    fn options(&self, keeps: bool) -> Options {
        let (tools, mut outside) = self.tools.written();
        outside.extend(self.mcp.shown());
        Options {
            tools,
            outside,
            places: keeps.then(|| self.places()).flatten(),
            system: self.system.clone(),
            selector: self.selector,
            schema: self.schema.as_ref().and_then(AnswerSchema::schema).cloned(),
            max_output_tokens: self.max_output_tokens,
            max_model_calls: self.max_model_calls,
        }
    }

    /// Returns the hash of the servers, folders, files and accounts that the tools reach, if there are
    /// any.
    /// Arguments and variables may be secrets, so only the hash is kept. It has a secret of this user
    /// in it: a file from someone else cannot have the hash, so the calls that it holds are not made.
    fn places(&self) -> Option<String> {
        let key_file = self.model.key_file();
        let places = [self.tools.places(key_file), self.mcp.places(key_file)].concat();
        if places.is_empty() {
            return None;
        }
        let all = json!(places).to_string();
        let hash = Sha256::new().chain_update(own_secret()).chain_update(all).finalize();
        Some(hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect())
    }

    /// Returns whether calls may wait for a person.
    pub(crate) fn asks(&self) -> bool {
        self.asks_from().is_some() || self.ask_after_untrusted
    }

    /// Returns the effect from which on a call waits for a person, if any does.
    ///
    /// The calls of a recording come from a file, which may be from someone else. So each of them
    /// that does more than read waits.
    fn asks_from(&self) -> Option<Effect> {
        match &self.replay {
            Some(_) if !self.allows_replayed => Some(Effect::Idempotent),
            _ => self.ask.then_some(Effect::Irreversible),
        }
    }

    /// Replays this run. If `allowed`, its calls are made without a question.
    pub(crate) fn replaying(mut self, recorded: Recorded, allowed: bool) -> Self {
        self.allows_replayed = allowed;
        self.replay = Some(Arc::new(recorded));
        self
    }

    /// Makes an agent for a page.
    pub(crate) fn serving(mut self) -> Self {
        self.serves = true;
        self
    }

    /// Records the replies of the model in this file.
    pub(crate) fn recording_in(mut self, file: PathBuf) -> Self {
        self.model.record = Some(file);
        self
    }
}

#[cfg(test)]
mod tests {
    use toolwright_journal::RunStatus;

    use super::*;

    fn run(options: &str) -> RunSummary {
        let mut run = RunSummary::new("a", RunStatus::Open);
        run.metadata.insert("options".to_owned(), options.to_owned());
        run
    }

    fn bare() -> AgentArgs {
        AgentArgs { config: ConfigArgs::none(), ..AgentArgs::default() }
    }

    #[test]
    fn a_run_has_its_options_again() {
        let options = r#"{"tools":["text"],"system":"Be brief.","selector":true,"schema":{"type":"integer"}}"#;
        let args = bare().of_run(&run(options)).unwrap();
        assert_eq!(serde_json::to_string(&args.options(false)).unwrap(), options);
        // Arguments win.
        let named = AgentArgs { system: Some("Be kind.".to_owned()), ..bare() };
        assert_eq!(named.of_run(&run(options)).unwrap().system.as_deref(), Some("Be kind."));
        // A run of another program.
        let other = bare().of_run(&RunSummary::new("a", RunStatus::Open)).unwrap();
        assert_eq!(other.options(false), bare().options(false));
    }

    #[test]
    fn folders_and_servers_of_a_run_are_named_again() {
        let options = r#"{"tools":["text"],"outside":["files:.","npx"]}"#;
        let told = bare().of_run(&run(options)).err().unwrap().to_string();
        assert_eq!(
            told,
            "this run used files:., npx; a stored run does not choose them for you, so name them with \
             --tools and --mcp"
        );
    }
}
