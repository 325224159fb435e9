//! What the model gets: the request, the tools of a round, and edits of the conversation.
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolwright_module::model::{ToolChoice, Usage};
use toolwright_module::{Dialect, Message, Request};
use toolwright_signature::Contract;

use crate::error::{Result, RunError};
use crate::pairing::open_calls;
use crate::read_result::READ_RESULT;
use crate::run::{Run, is_system};
use crate::selector::Selector;
use crate::state::{Phase, RunState};
use crate::tool_choosing::Choosing;

/// The tools that a model was shown from a message on, as a run stores them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Offer {
    /// Number of messages of the conversation before the first request with these tools.
    pub from: usize,
    /// The names of the tools. `None` means all tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
}

/// An edit of the conversation as it is sent: its first messages, and others in their place.
///
/// See [`Run::edit_sent`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Edited {
    /// The number of messages from the start that are not sent.
    pub replaced: usize,
    /// The messages that are sent in their place.
    pub by: Vec<Arc<Message>>,
}

impl Edited {
    /// Returns an edit that replaces the first messages by others. The whole texts of results are left
    /// out: they are stored with the conversation.
    pub fn new(replaced: usize, by: impl IntoIterator<Item = impl Into<Arc<Message>>>) -> Self {
        Self { replaced, by: by.into_iter().map(|message| message.into().to_send()).collect() }
    }

    /// Returns the conversation with this edit.
    fn applied(&self, messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
        let rest = messages.get(self.replaced..).unwrap_or_default();
        self.by.iter().chain(rest).cloned().collect()
    }

    /// Returns the fault of the edit of a conversation, if it has one.
    pub(crate) fn fault(&self, messages: &[Arc<Message>]) -> Option<&'static str> {
        let Some(replaced) = messages.get(..self.replaced) else {
            return Some("it replaces more messages than there are");
        };
        let parts = "it parts a call from its result";
        if open_calls(replaced).map_or(true, |open| !open.is_empty()) {
            return Some(parts);
        }
        match open_calls(&self.by) {
            Err(fault) => return Some(fault),
            Ok(open) if !open.is_empty() => return Some(parts),
            Ok(_) => {}
        }
        let sent = self.applied(messages);
        let mut after_the_first = sent.iter().skip(1);
        if after_the_first.any(|message| is_system(message)) {
            return Some("a system message is not at the start");
        }
        if sent.iter().all(|message| is_system(message)) {
            return Some("it leaves no message to send");
        }
        open_calls(&sent).err()
    }
}

/// Number of found tools that a request has at most.
pub(crate) const MOST_FOUND: usize = 32;

/// The tokens of the first messages that are sent. These messages do not change.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    messages: usize,
    tokens: u64,
}

/// The messages with results that were cut, by their address, and as they are sent. A provider keeps
/// what it wrote of a message, so each request has the same ones.
#[derive(Debug, Clone, Default)]
pub(super) struct CutResults(HashMap<usize, (Arc<Message>, Arc<Message>)>);

impl CutResults {
    /// Remembers a message of the run. It stays in memory, so no other one gets its address.
    pub(super) fn add(&mut self, message: &Arc<Message>) {
        let sent = Arc::clone(message).to_send();
        if !Arc::ptr_eq(message, &sent) {
            self.0.insert(address(message), (Arc::clone(message), sent));
        }
    }

    /// Returns a message as it is sent.
    fn sent(&self, message: &Arc<Message>) -> Arc<Message> {
        match &**message {
            Message::Tool(result) if result.whole.is_some() => {
                let sent = self.0.get(&address(message)).map(|(_, sent)| Arc::clone(sent));
                sent.unwrap_or_else(|| Arc::clone(message).to_send())
            }
            _ => Arc::clone(message),
        }
    }
}

fn address(message: &Arc<Message>) -> usize {
    Arc::as_ptr(message) as usize
}

/// Returns the largest number of input tokens of a request. The run does not know the dialect of
/// its model.
fn tokens_of(request: &Request) -> u64 {
    request.most_usage(Dialect::JsonSchema2020).input_tokens
}

impl RunState {
    /// Returns the messages that are sent.
    fn sent_messages(&self) -> impl Iterator<Item = &Arc<Message>> {
        let edited = self.sent.as_ref();
        let (by, replaced) = edited.map_or((&[][..], 0), |edited| (&*edited.by, edited.replaced));
        by.iter().chain(self.messages.get(replaced..).unwrap_or_default())
    }

    /// Returns the conversation as it is sent.
    pub(crate) fn sent(&self) -> Cow<'_, [Arc<Message>]> {
        match &self.sent {
            None => Cow::Borrowed(&self.messages),
            Some(edited) => Cow::Owned(edited.applied(&self.messages)),
        }
    }
}

impl Run {
    pub(crate) fn request(&self) -> Request {
        let last = self.last_word().is_some();
        if let Some((selector, shown)) = &self.selector {
            let mut request = Request::new(shown.iter().cloned());
            request.settings.clone_from(&self.state.settings);
            let asked = || Arc::clone(&selector.asked);
            return if last { request } else { request.with_output(asked()) };
        }
        let messages = self.state.sent();
        let messages = messages.iter().map(|message| self.cut.sent(message));
        let mut request = Request::new(messages).with_tools(Arc::clone(&self.contracts));
        request.settings.clone_from(&self.state.settings);
        // The tools stay in the request, so that the provider's prompt cache stays valid.
        let none = last && !self.contracts.is_empty();
        if none { request.with_tool_choice(ToolChoice::None) } else { request }
    }

    /// Returns the largest usage of the next request. It is the same as that of
    /// [`request`](Self::request), as a running sum.
    pub(super) fn most_usage(&self) -> Usage {
        let last = self.last_word().is_some();
        let messages = self.counted.tokens.saturating_add(self.tokens_after(self.counted));
        let contracts = if last && self.selector.is_some() { 0 } else { self.contracts_tokens() };
        let most = Usage::new(messages.saturating_add(contracts), self.max_output_tokens());
        debug_assert_eq!(most, self.request().most_usage(Dialect::JsonSchema2020));
        most
    }

    /// Returns the tokens of the messages that are not counted yet.
    fn tokens_after(&self, counted: Counted) -> u64 {
        let new: Vec<_> = match &self.selector {
            Some((_, shown)) => shown.iter().skip(counted.messages).cloned().collect(),
            None => self.state.sent_messages().skip(counted.messages).cloned().collect(),
        };
        if new.is_empty() { 0 } else { tokens_of(&Request::new(new)) }
    }

    pub(super) fn contracts_tokens(&self) -> u64 {
        let request = || match &self.selector {
            Some((selector, _)) => Request::new([]).with_output(Arc::clone(&selector.asked)),
            None => Request::new([]).with_tools(Arc::clone(&self.contracts)),
        };
        *self.contracts_tokens.get_or_init(|| tokens_of(&request()))
    }

    /// Adds the new messages to the running sum. Only the messages of a whole round are final.
    pub(super) fn count_messages(&mut self) {
        if !self.counts_tokens() || !self.asks_the_model() {
            return;
        }
        let messages = match &self.selector {
            Some((_, shown)) => shown.len(),
            None => self.state.sent_messages().count(),
        };
        let tokens = self.counted.tokens.saturating_add(self.tokens_after(self.counted));
        self.counted = Counted { messages, tokens };
    }

    /// Returns whether the tokens of requests are counted: for the budget, or for a compaction.
    pub(super) fn counts_tokens(&self) -> bool {
        let budget = &self.state.limits.budget;
        self.measures || budget.input_tokens.is_some() || budget.output_tokens.is_some()
    }

    /// Shows the model only these tools from now on, for example by the rights of a user.
    ///
    /// The run records the tools and the message from which they hold ([`offers`](Self::offers)). A
    /// call of another tool is answered like one of a tool that does not exist. Calls that the
    /// model has already made are not affected. The model gets the tools in the agent's order.
    ///
    /// A change of the tools makes a provider's prompt cache invalid, so change them rarely.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use toolwright_module::{Signature, Tool, from_fn};
    /// # use toolwright_orchestrator::{Limits, Run, StepKind};
    /// # /// Say the time.
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct GetTime {}
    /// # impl Signature for GetTime { type Output = String; }
    /// # let get_time = Tool::new(from_fn(async |_: GetTime| Ok("noon".to_owned())))?;
    /// let set_time = get_time.clone().named("set_time")?;
    /// let mut run = Run::new("What time is it?", &[get_time, set_time], Limits::default())?;
    /// run.offer(["get_time"])?;
    /// let StepKind::CallModel(request) = run.next().kind else { panic!() };
    /// assert_eq!(request.tools.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunError::NoSuchTool`] for a name that is not one of the run's tools.
    pub fn offer(&mut self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Result<()> {
        let mut places = BTreeSet::new();
        for name in names {
            let name = name.as_ref();
            let place = self.tools.place(name);
            places.insert(place.ok_or_else(|| self.tools.missing("offer", name))?);
        }
        let all = &self.tools.contracts;
        let names = places.iter().filter_map(|place| all.get(*place));
        let names = names.map(|contract| contract.name().to_owned());
        let tools = (places.len() < all.len()).then(|| names.collect());
        if self.offered_names() == tools.as_ref() {
            return Ok(());
        }
        let from = self.state.messages.len();
        // Nothing was answered with these.
        self.state.offers.retain(|offer| offer.from < from);
        if self.offered_names() != tools.as_ref() {
            self.state.offers.push(Offer { from, tools });
        }
        self.make_contracts()
    }

    /// Returns the names of the tools that the model is shown.
    pub fn offered(&self) -> impl Iterator<Item = &str> {
        let shown = self.contracts.iter().map(|contract| contract.name());
        shown.filter(|name| self.state.output.is_none() || *name != Contract::FINISH)
    }

    /// Returns which tools the model was shown from which message on. Empty means that it was
    /// always shown all tools.
    #[must_use]
    pub fn offers(&self) -> &[Offer] {
        &self.state.offers
    }

    /// Returns the names of the last offer. `None` means all tools.
    pub(crate) fn offered_names(&self) -> Option<&Vec<String>> {
        self.state.offers.last().and_then(|offer| offer.tools.as_ref())
    }

    /// Returns whether the model is shown this tool.
    pub(super) fn shows(&self, name: &str) -> bool {
        self.may_use(name) && (!self.tools.is_deferred(name) || self.has_found(name))
    }

    /// Returns whether a tool exists and the filter allows it. The model may have to find it first.
    pub(super) fn may_use(&self, name: &str) -> bool {
        let offered = |names: &Vec<String>| names.iter().any(|offered| offered == name);
        self.tools.has(name) && self.offered_names().is_none_or(offered)
    }

    fn has_found(&self, name: &str) -> bool {
        self.state.found.iter().any(|found| found == name)
    }

    /// Shows deferred tools to the model from now on. If there are too many, those that were found
    /// first are hidden again.
    pub(super) fn show_found(&mut self, names: impl IntoIterator<Item = String>) {
        let mut is_changed = false;
        for name in names {
            if self.tools.is_deferred(&name) && !self.has_found(&name) {
                self.state.found.push(name);
                is_changed = true;
            }
        }
        if is_changed {
            let excess = self.state.found.len().saturating_sub(MOST_FOUND);
            self.state.found.drain(..excess);
            // The agent has made all contracts before, so none fails.
            let _ = self.make_contracts();
        }
    }

    /// Makes the contracts of the requests: the tools that are shown, and `finish`.
    pub(super) fn make_contracts(&mut self) -> Result<()> {
        let names = self.offered_names();
        let names: Option<BTreeSet<&str>> =
            names.map(|names| names.iter().map(String::as_str).collect());
        let is_offered = |contract: &&Arc<Contract>| {
            names.as_ref().is_none_or(|names| names.contains(contract.name()))
        };
        let first = &self.tools.first;
        let shown = match names.is_some() {
            false => Arc::clone(first),
            true => first.iter().filter(is_offered).cloned().collect(),
        };
        let mut shown = match &self.state.output {
            Some(output) => self.tools.typed(shown, output)?,
            None => shown,
        };
        let found = self.state.found.iter().filter(|name| self.tools.is_deferred(name));
        let found = found.filter_map(|name| self.tools.contract(name)).filter(is_offered);
        let mut found = found.peekable();
        if found.peek().is_some() {
            // At the end, so that the tools before them stay as they were.
            shown = shown.iter().chain(found).cloned().collect();
        }
        self.contracts = shown;
        self.make_selector()
    }

    pub(super) fn make_selector(&mut self) -> Result<()> {
        self.counted = Counted::default();
        self.contracts_tokens.take();
        self.selector = match self.state.choosing {
            Choosing::Calls => None,
            Choosing::Selector => {
                let output = self.state.output.as_deref();
                let selector = match self.offered_names() {
                    None if self.state.found.is_empty() => {
                        self.tools.selector(&self.contracts, output)?
                    }
                    _ => Arc::new(Selector::new(&self.contracts, output.is_some())?),
                };
                let shown = selector.show_all(&self.state.sent());
                Some((selector, shown))
            }
        };
        Ok(())
    }

    /// Updates what depends on all messages that are sent.
    pub(super) fn show_all(&mut self) {
        self.counted = Counted::default();
        if let Some((selector, shown)) = &mut self.selector {
            *shown = selector.show_all(&self.state.sent());
        }
    }

    /// Returns the conversation as the model gets it: [`history`](Self::history) with the edits of
    /// [`edit_sent`](Self::edit_sent).
    #[must_use]
    pub fn sent(&self) -> Cow<'_, [Arc<Message>]> {
        self.state.sent()
    }

    /// Replaces the first messages of what is [`sent`](Self::sent) by others, for example by a
    /// summary. The run keeps the whole history, and records the edit.
    ///
    /// A system message at the start is sent further on, unless `by` begins with another one.
    ///
    /// ```
    /// # use toolwright_module::{Message, Reply};
    /// # use toolwright_orchestrator::{Limits, Run, StepResult};
    /// let mut run = Run::new("Say hello.", &[], Limits::default())?;
    /// run.apply(StepResult::model(0, Reply::text("Hello.")))?;
    /// run.follow_up("And goodbye.")?;
    /// run.edit_sent(2, [Message::user("[You have said hello.]")])?;
    /// assert_eq!((run.sent().len(), run.history().len()), (2, 3));
    /// # Ok::<(), toolwright_orchestrator::RunError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunError::Edit`] if a call would be sent without its result, a result without its call,
    /// or no message at all. The run is unchanged then.
    pub fn edit_sent(
        &mut self,
        replaced: usize,
        by: impl IntoIterator<Item = impl Into<Arc<Message>>>,
    ) -> Result<()> {
        let mut edited = Edited::new(replaced, by);
        let sent = self.state.sent();
        let system = sent.first().filter(|first| replaced > 0 && is_system(first));
        if let Some(system) = system
            && !edited.by.first().is_some_and(|first| is_system(first))
        {
            edited.by.insert(0, Arc::clone(system));
        }
        if let Some(what) = edited.fault(&sent) {
            return Err(RunError::Edit { what });
        }
        for message in &edited.by {
            self.ids.add(super::parts_of(message));
        }
        // The edit is of what is sent, and stored as one of the history.
        if let Some(before) = &self.state.sent {
            let rest = before.by.get(replaced..).unwrap_or_default();
            edited.by.extend_from_slice(rest);
            edited.replaced = before.replaced + replaced.saturating_sub(before.by.len());
        }
        self.state.sent = Some(edited);
        self.show_all();
        Ok(())
    }

    /// Returns whether the model can read results with `read_result`.
    pub(crate) fn reads_results(&self) -> bool {
        self.tools.reads_results && self.may_use(READ_RESULT)
    }

    /// Returns how many bytes of whole texts the run can still keep. `None` if nothing reads them.
    pub(crate) fn room_for_texts(&self) -> Option<usize> {
        if !self.reads_results() {
            return None;
        }
        let results = match &self.state.phase {
            Phase::Tools { results, .. } | Phase::Approval { results, .. } => results.as_slice(),
            _ => &[],
        };
        let said = self.state.messages.iter().filter_map(|message| match &**message {
            Message::Tool(result) => Some(result),
            _ => None,
        });
        let all = said.chain(results.iter().flatten()).filter_map(|result| result.whole.as_ref());
        let kept = all.fold(0, |kept: usize, whole| kept.saturating_add(whole.len()));
        Some(self.state.limits.max_kept_bytes.saturating_sub(kept))
    }

    /// Returns whether the run waits for a reply of the model.
    pub(crate) fn asks_the_model(&self) -> bool {
        matches!(self.state.phase, Phase::Model | Phase::LastWord { .. })
    }

    pub(super) fn offer_finish(&mut self, contract: Arc<Contract>) -> Result<()> {
        let before = self.state.output.replace(contract);
        let made = self.make_contracts();
        if made.is_err() {
            self.state.output = before;
        }
        made
    }
}
