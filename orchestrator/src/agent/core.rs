//! The parts of an agent that do not depend on the type of its answer.

use std::sync::Arc;

use toolwright_module::hook::AnyHook;
use toolwright_module::model::Settings;
use toolwright_module::{Context, Dialect, Effect, LanguageModel, Policy, Request, Tool, ToolCall};
use toolwright_signature::{Contract, Loss, Lowered, LoweredRequest, Side};

use crate::approval_policy::ApprovalPolicy;
use crate::call_check::CallCheck;
use crate::compaction::Compaction;
use crate::error;
use crate::find_tools::{FIND_TOOLS, find_tools, is_search};
use crate::limits::Limits;
use crate::read_result::{READ_RESULT, read_result};
use crate::run::{Edited, MOST_FOUND, Run};
use crate::task::Task;
use crate::tool_choosing::Choosing;
use crate::tools::Tools;

/// An agent without the reading of its answer: what a drive needs.
#[derive(Clone)]
pub(crate) struct Core {
    pub(crate) model: Arc<dyn LanguageModel>,
    /// The tools, `read_result` if results can be read, and `find_tools` if some are deferred.
    pub(super) with_search: Arc<[Tool]>,
    /// The tools that the program gave.
    pub(super) tools: Arc<[Tool]>,
    pub(super) known: Arc<Tools>,
    pub(crate) name: Option<Arc<str>>,
    pub(super) limits: Limits,
    pub(super) settings: Option<Arc<Settings>>,
    pub(super) approval: ApprovalPolicy,
    /// How far the arguments of the agent's calls may be repaired.
    pub(crate) policy: Policy,
    pub(super) choosing: Choosing,
    pub(crate) instructions: Option<Arc<str>>,
    pub(crate) output: Option<Arc<Contract>>,
    pub(crate) streaming: bool,
    pub(super) filter: Option<Filter>,
    pub(super) editor: Option<Editor>,
    pub(crate) next_task: Option<NextTask>,
    pub(crate) compaction: Option<Compaction>,
    /// Whether the model can read results with `read_result`.
    pub(super) read_results: bool,
    pub(crate) rule: Option<Rule>,
    pub(crate) check: Option<CallCheck>,
    pub(crate) hooks: Arc<[AnyHook]>,
}

/// Decides whether a tool is shown.
pub(super) type Filter = Arc<dyn Fn(&Run, &Tool, &Context) -> bool + Send + Sync>;

/// Returns why a call waits for a person, if it does.
type Rule = Arc<dyn Fn(&Run, &ToolCall, &Context) -> Option<String> + Send + Sync>;

/// Edits what is sent.
type Editor = Arc<dyn Fn(&Run) -> Option<Edited> + Send + Sync>;

/// Gives the next task of a conversation.
pub(crate) type NextTask = Arc<dyn Fn(&Run) -> Option<Task> + Send + Sync>;

/// Number of tools that an agent with too many shows from the start: the first ones of its list.
const FIRST_SHOWN: usize = 16;

impl Core {
    pub(super) fn new(model: Arc<dyn LanguageModel>, tools: Arc<[Tool]>) -> error::Result<Self> {
        let mut core = Self {
            model,
            with_search: Arc::default(),
            tools,
            known: Arc::new(Tools::of([])?),
            name: None,
            limits: Limits::default(),
            settings: None,
            approval: ApprovalPolicy::default(),
            policy: Policy::default(),
            choosing: Choosing::default(),
            instructions: None,
            output: None,
            streaming: true,
            filter: None,
            editor: None,
            next_task: None,
            compaction: None,
            read_results: false,
            rule: None,
            check: None,
            hooks: Arc::default(),
        };
        core.choose_deferred()?;
        core.lower(|_| ())?;
        core.check_media()?;
        core.note_undeclared();
        Ok(core)
    }

    /// Adds `read_result` if results can be read, and `find_tools` if tools are deferred. Above the
    /// maximum of the model's provider, or if they would fill its window, all but the first tools are.
    pub(super) fn choose_deferred(&mut self) -> error::Result<()> {
        let most = self.model.capabilities().dialects().filter_map(Dialect::max_tools).min();
        // An agent without tools has no results to read.
        let reads = self.read_results && !self.tools.is_empty();
        let added = usize::from(self.output.is_some()) + usize::from(reads);
        let shown = self.tools.iter().filter(|tool| !tool.is_deferred()).count();
        let has_search = self.tools.iter().any(is_search);
        let is_deferred = shown < self.tools.len();
        let search = usize::from(is_deferred && !has_search);
        let found = if is_deferred { MOST_FOUND } else { 0 };
        // A filter leaves out tools by itself.
        let is_too_many = self.filter.is_none()
            && (most.is_some_and(|most| shown + added + search + found > most)
                || self.fills_window());
        let mut first = if is_too_many { FIRST_SHOWN } else { usize::MAX };
        let tools = self.tools.iter().map(|tool| {
            if tool.is_deferred() || is_search(tool) {
                return tool.clone();
            }
            match first.checked_sub(1) {
                Some(fewer) => {
                    first = fewer;
                    tool.clone()
                }
                None => tool.clone().deferred(),
            }
        });
        let mut tools: Vec<Tool> = tools.collect();
        if !has_search && tools.iter().any(Tool::is_deferred) {
            tools.push(find_tools(&tools)?);
        }
        if reads {
            tools.push(read_result()?);
        }
        self.with_search = tools.into();
        let mut known = Tools::of(&*self.with_search).map_err(|error| match error {
            error::RunError::DuplicateTool { name } if reads && name == READ_RESULT => {
                error::RunError::ReservedForReading
            }
            error::RunError::DuplicateTool { name } if !has_search && name == FIND_TOOLS => {
                error::RunError::ReservedForFinding
            }
            error => error,
        })?;
        known.reads_results = reads;
        self.known = Arc::new(known);
        Ok(())
    }

    /// Returns whether the tools that are shown take more than half of the model's window, at four bytes
    /// a token.
    fn fills_window(&self) -> bool {
        let Some(window) = self.compaction.as_ref().and_then(|rules| rules.window) else {
            return false;
        };
        let shown = self.tools.iter().filter(|tool| !tool.is_deferred());
        let contracts: Arc<[_]> = shown.map(|tool| Arc::clone(tool.contract())).collect();
        let request = Request::new([]).with_tools(contracts);
        request.most_usage(Dialect::JsonSchema2020).input_tokens / 4 > window / 2
    }

    /// Checks that the model takes the images and files that the tools return.
    pub(super) fn check_media(&self) -> error::Result<()> {
        let capabilities = self.model.capabilities();
        let contracts = self.with_search.iter().map(Tool::contract);
        contracts
            .into_iter()
            .try_for_each(|contract| capabilities.check_media(contract, Side::Output))?;
        Ok(())
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.with_search.get(self.known.place(name)?)
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("agent")
    }

    /// Returns whether there is a filter or an editor for [`prepare`](Self::prepare).
    pub(crate) fn prepares(&self) -> bool {
        self.filter.is_some() || self.editor.is_some()
    }

    /// Applies the filter and the editor before a request to the model.
    pub(crate) fn prepare(&self, run: &mut Run, cx: &Context) -> error::Result<()> {
        if let Some(filter) = &self.filter {
            let is_own = |tool: &Tool| {
                [FIND_TOOLS, READ_RESULT].contains(&tool.name())
                    && self.tools.iter().all(|given| given.name() != tool.name())
            };
            let may_use = |tool: &&Tool| is_own(tool) || filter(run, tool, cx);
            let names: Vec<&str> =
                self.with_search.iter().filter(may_use).map(Tool::name).collect();
            run.offer(names)?;
        }
        let edited = self.editor.as_ref().and_then(|editor| editor(run));
        edited.map_or(Ok(()), |Edited { replaced, by, .. }| run.edit_sent(replaced, by))
    }

    /// Returns what the schemas of the agent's requests lose; see [`Agent::losses`](super::Agent::losses).
    /// Returns the names of the tools that the agent deferred, because its provider takes fewer.
    pub(super) fn deferred(&self) -> impl Iterator<Item = &str> {
        let both = self.with_search.iter().zip(&*self.tools);
        let deferred = both.filter(|(tool, given)| tool.is_deferred() && !given.is_deferred());
        deferred.map(|(tool, _)| tool.name())
    }

    pub(super) fn losses(&self) -> Vec<(String, Loss)> {
        let why = "has more tools than the model's provider takes or than fit into its window, so the model has to find this one; defer others with `Tool::deferred`, or put this one first";
        let loss = || Loss::new(Side::Input, "$", "tools", why);
        let mut losses: Vec<_> = self.deferred().map(|name| (name.to_owned(), loss())).collect();
        // The constructor has rejected schemas that cannot be lowered.
        let _ = self.lower(|(contract, lowered)| {
            for loss in &lowered.losses {
                let loss = (contract.name().to_owned(), loss.clone());
                // Several dialects may lose the same.
                if !losses.contains(&loss) {
                    losses.push(loss);
                }
            }
        });
        losses
    }

    /// Lowers every schema of the agent's requests.
    pub(super) fn lower(&self, mut each: impl FnMut((&Contract, &Lowered))) -> error::Result<()> {
        let contracts = match &self.output {
            Some(output) => self.known.typed(Arc::clone(&self.known.first), output)?,
            None => Arc::clone(&self.known.first),
        };
        for dialect in self.model.capabilities().dialects() {
            if self.choosing == Choosing::Selector {
                let selector = self.known.selector(&contracts, self.output.as_deref())?;
                each((&selector.asked, selector.asked.lower_output(dialect)?));
            } else if self.filter.is_some() {
                // A request has only some of the tools.
                for contract in &*contracts {
                    each((contract, contract.lower(dialect)?));
                }
            } else {
                let lowered = LoweredRequest::new(dialect, &*contracts, None)?;
                contracts.iter().map(|contract| &**contract).zip(lowered.tools).for_each(&mut each);
            }
            for contract in self.known.deferred() {
                each((contract, contract.lower(dialect)?));
            }
        }
        Ok(())
    }

    /// Returns the tools whose calls run one after another, with their effects.
    pub(super) fn sequential_tools(&self) -> impl Iterator<Item = (&str, Effect)> {
        let tools = self.with_search.iter().map(|tool| (tool.name(), tool.effect()));
        tools.filter(|(_, effect)| *effect != Effect::Read)
    }

    /// Tells which tools may have no declared effect.
    fn note_undeclared(&self) {
        let tools = self.sequential_tools();
        let writes = tools.filter(|(_, effect)| *effect == Effect::Write).map(|(name, _)| name);
        let writes: Vec<&str> = writes.collect();
        if !writes.is_empty() {
            tracing::info!(
                tools = writes.join(", "),
                "calls of these tools run one after another, because their effect is `Write`, the default; declare `Effect::Read` for those that only read"
            );
        }
    }
}
