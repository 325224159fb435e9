//! The parts of an agent that do not depend on the type of its answer.

use std::sync::Arc;

use toolwright_module::hook::AnyHook;
use toolwright_module::model::Settings;
use toolwright_module::{Effect, LanguageModel, Message, Policy, Tool};
use toolwright_signature::{Contract, Loss, Lowered, LoweredRequest, Side};

use crate::approval_policy::ApprovalPolicy;
use crate::error;
use crate::limits::Limits;
use crate::run::{Edited, Run};
use crate::tool_choosing::Choosing;
use crate::tools::Tools;

/// An agent without the reading of its answer: what a drive needs.
#[derive(Clone)]
pub(crate) struct Core {
    pub(crate) model: Arc<dyn LanguageModel>,
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
    pub(crate) hooks: Arc<[AnyHook]>,
}

/// Decides whether a tool is shown.
pub(super) type Filter = Arc<dyn Fn(&Run, &Tool) -> bool + Send + Sync>;

/// Edits what is sent.
type Editor = Arc<dyn Fn(&[Arc<Message>]) -> Option<Edited> + Send + Sync>;

impl Core {
    pub(super) fn new(
        model: Arc<dyn LanguageModel>,
        tools: Arc<[Tool]>,
        filter: Option<Filter>,
    ) -> error::Result<Self> {
        let known = Tools::of(&*tools)?;
        let core = Self {
            model,
            tools,
            known: Arc::new(known),
            name: None,
            limits: Limits::default(),
            settings: None,
            approval: ApprovalPolicy::default(),
            policy: Policy::default(),
            choosing: Choosing::default(),
            instructions: None,
            output: None,
            streaming: true,
            filter,
            editor: None,
            hooks: Arc::default(),
        };
        core.lower(|_| ())?;
        core.check_media()?;
        core.note_undeclared();
        Ok(core)
    }

    /// Checks that the model takes the images and files that the tools return.
    pub(super) fn check_media(&self) -> error::Result<()> {
        let capabilities = self.model.capabilities();
        let contracts = self.tools.iter().map(Tool::contract);
        contracts
            .into_iter()
            .try_for_each(|contract| capabilities.check_media(contract, Side::Output))?;
        Ok(())
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.get(self.known.place(name)?)
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("agent")
    }

    /// Returns whether there is a filter or an editor for [`prepare`](Self::prepare).
    pub(crate) fn prepares(&self) -> bool {
        self.filter.is_some() || self.editor.is_some()
    }

    /// Applies the filter and the editor before a request to the model.
    pub(crate) fn prepare(&self, run: &mut Run) -> error::Result<()> {
        if let Some(filter) = &self.filter {
            let shown = self.tools.iter().filter(|tool| filter(run, tool)).map(Tool::name);
            let shown: Vec<&str> = shown.collect();
            if !run.offered().eq(shown.iter().copied()) {
                run.offer(shown)?;
            }
        }
        let edited = self.editor.as_ref().and_then(|editor| editor(&run.sent()));
        edited.map_or(Ok(()), |Edited { replaced, by, .. }| run.edit_sent(replaced, by))
    }

    /// Returns what the schemas of the agent's requests lose; see [`Agent::losses`](super::Agent::losses).
    pub(super) fn losses(&self) -> Vec<(String, Loss)> {
        let mut losses = Vec::new();
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
            Some(output) => self.known.typed(Arc::clone(&self.known.contracts), output)?,
            None => Arc::clone(&self.known.contracts),
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
        }
        Ok(())
    }

    /// Returns the tools whose calls run one after another, with their effects.
    pub(super) fn sequential_tools(&self) -> impl Iterator<Item = (&str, Effect)> {
        let tools = self.tools.iter().map(|tool| (tool.name(), tool.effect()));
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
