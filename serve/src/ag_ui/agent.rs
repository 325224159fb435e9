//! What a client has of one agent: its replies and its calls.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::OWN;
use super::event::{ByAgent, Event};
use super::stream::Stream;

/// An agent of a run.
#[derive(Default)]
pub(super) struct Agent {
    /// The first part of the ids of its messages.
    pub(super) prefix: String,
    /// What it is below another agent. `None` for the agent of the user.
    pub(super) below: Option<Below>,
    /// The number of replies so far.
    replies: usize,
    /// The last reply.
    reply: Option<Reply>,
    /// The calls by the ids that the model gave them.
    calls: BTreeMap<String, Made>,
}

/// An agent that works for another one.
pub(super) struct Below {
    pub(super) id: String,
    pub(super) name: String,
    /// The agent that called it, if that is not the agent of the user.
    pub(super) parent: Option<String>,
    /// The id that the client has for the call.
    pub(super) call: Option<String>,
    pub(super) state: State,
}

/// Whether the client knows that an agent works.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum State {
    Unknown,
    Works,
    Ended,
}

/// A call that is made.
struct Made {
    /// The id that the client has.
    id: String,
    has_result: bool,
}

impl Agent {
    /// Returns an agent below another one, of which the client knows nothing yet.
    pub(super) fn below(below: Below) -> Self {
        Self { prefix: below.id.clone(), below: Some(below), ..Self::default() }
    }

    pub(super) fn by(&self) -> ByAgent<'_> {
        by(self.below.as_ref())
    }

    /// Returns the id that the client has for a call that is made.
    pub(super) fn made(&self, id: &str) -> Option<&str> {
        Some(&*self.calls.get(id)?.id)
    }

    /// Returns the text of the last reply.
    pub(super) fn last_text<'a>(&self, stream: &'a Stream) -> Option<&'a str> {
        stream.text(&self.reply.as_ref()?.id)
    }

    pub(super) fn text(&mut self, stream: &mut Stream, text: &str) {
        if !text.is_empty() {
            let (reply, by) = self.write(stream);
            reply.text(stream, by, text);
        }
    }

    pub(super) fn reasoning(&mut self, stream: &mut Stream, text: &str) {
        if !text.is_empty() {
            let (reply, by) = self.write(stream);
            reply.reasoning(stream, by, text);
        }
    }

    /// Notes that the model wrote something that is not in a message.
    pub(super) fn other(&mut self, stream: &mut Stream) {
        let (reply, _) = self.write(stream);
        reply.stop_reasoning(stream);
        reply.is_shown = true;
    }

    pub(super) fn call_text(
        &mut self,
        stream: &mut Stream,
        place: usize,
        name: &str,
        at: usize,
        arguments: &str,
    ) {
        let (reply, by) = self.write(stream);
        reply.call_text(stream, by, place, name, at, arguments);
    }

    pub(super) fn called(
        &mut self,
        stream: &mut Stream,
        place: usize,
        id: &str,
        name: &str,
        arguments: &str,
    ) {
        if self.calls.contains_key(id) {
            return;
        }
        let is_of = |reply: &Reply| reply.calls.get(&place).is_none_or(|call| !call.is_whole);
        if !self.reply.as_ref().is_some_and(is_of) {
            self.end_calls(stream);
            self.begin_reply(stream);
        }
        let Self { below, reply, calls, .. } = self;
        let reply = reply.get_or_insert_default();
        let shown = reply.called(stream, by(below.as_ref()), place, name, arguments);
        calls.insert(id.to_owned(), Made { id: shown, has_result: false });
    }

    /// Adds a call that is not known, as the only one of a reply. The updates of a run that was begun
    /// elsewhere may lack its reply.
    pub(super) fn add_call(&mut self, stream: &mut Stream, id: &str, name: &str, arguments: &str) {
        if !self.calls.contains_key(id) {
            self.begin_reply(stream);
            self.called(stream, 0, id, name, arguments);
        }
    }

    /// Sends the result of a call, unless it has one already.
    pub(super) fn result(&mut self, stream: &mut Stream, id: &str, text: &str, metadata: Value) {
        let by = by(self.below.as_ref());
        let Some(made) = self.calls.get_mut(id).filter(|made| !made.has_result) else { return };
        made.has_result = true;
        stream.push(&Event::ToolCallResult {
            message_id: &format!("{}-result", made.id),
            tool_call_id: &made.id,
            content: text,
            role: "tool",
            metadata,
            agent: by,
        });
    }

    /// Gives a result to the calls that have none. Those that no tool was asked for get no update: the tool
    /// does not exist, the arguments do not fit, or a limit was reached. Without a result, a client would
    /// take them for calls of its own tools.
    pub(super) fn end_calls(&mut self, stream: &mut Stream) {
        let open = self.calls.iter().filter(|(_, made)| !made.has_result);
        for id in open.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            let metadata = json!({ OWN: { "failed": true } });
            self.result(stream, &id, "The call was not made.", metadata);
        }
    }

    /// Ends the parts of the reply that is whole now. Its calls came before.
    pub(super) fn replied(&mut self, stream: &mut Stream) {
        if let Some(reply) = &mut self.reply {
            reply.end_texts(stream);
            // A call that was cut off is in no whole reply.
            for call in reply.calls.values_mut().filter(|call| !call.is_whole) {
                call.take_back(stream);
                call.is_whole = true;
            }
            reply.is_whole = true;
        }
    }

    /// Takes back what was shown of the reply. Returns whether something was.
    pub(super) fn discard(&mut self, stream: &mut Stream) -> bool {
        let Some(mut reply) = self.reply.take_if(|reply| !reply.is_whole) else { return false };
        // Before they are taken back: a client warns about the end of a message that it does not have.
        reply.end_texts(stream);
        stream.take_back(&reply.id, &reply.reasoning);
        // After they were taken back, so that no client acts on half a call.
        reply.end(stream);
        reply.is_shown
    }

    /// Ends everything that is open.
    pub(super) fn end(&mut self, stream: &mut Stream) {
        if let Some(reply) = &mut self.reply {
            reply.end(stream);
            reply.is_whole = true;
        }
    }

    /// Opens again what is open, for a client that has the messages.
    pub(super) fn reopen(&self, stream: &mut Stream) {
        if let Some(reply) = &self.reply {
            reply.reopen(stream, self.by());
        }
    }

    /// Returns the reply that is being written.
    fn write(&mut self, stream: &mut Stream) -> (&mut Reply, ByAgent<'_>) {
        if self.reply.as_ref().is_none_or(|reply| reply.is_whole) {
            self.end_calls(stream);
            self.begin_reply(stream);
        }
        (self.reply.get_or_insert_default(), by(self.below.as_ref()))
    }

    fn begin_reply(&mut self, stream: &mut Stream) {
        if let Some(last) = &mut self.reply {
            last.end(stream);
        }
        self.replies += 1;
        let id = format!("{}-{}", self.prefix, self.replies);
        self.reply = Some(Reply { id, ..Reply::default() });
    }
}

fn by(below: Option<&Below>) -> ByAgent<'_> {
    ByAgent { subagent_run_id: below.map(|below| &*below.id) }
}

/// A reply of a model, which is one message of the client.
#[derive(Default)]
struct Reply {
    id: String,
    has_text_open: bool,
    /// The ids of its pieces of reasoning.
    reasoning: Vec<String>,
    has_reasoning_open: bool,
    /// Its calls by their places.
    calls: BTreeMap<usize, Call>,
    /// Whether the client got something of it.
    is_shown: bool,
    is_whole: bool,
}

/// A call of a reply.
#[derive(Default)]
struct Call {
    /// The id that the client has. Empty until it has one.
    id: String,
    name: String,
    arguments: String,
    /// The number of times that it was taken back.
    void: usize,
    is_whole: bool,
}

impl Reply {
    fn text(&mut self, stream: &mut Stream, agent: ByAgent<'_>, delta: &str) {
        self.stop_reasoning(stream);
        let message_id = &*self.id;
        if !self.has_text_open {
            stream.push(&Event::TextMessageStart { message_id, role: "assistant", agent });
        }
        stream.push(&Event::TextMessageContent { message_id, delta });
        (self.has_text_open, self.is_shown) = (true, true);
    }

    fn reasoning(&mut self, stream: &mut Stream, agent: ByAgent<'_>, delta: &str) {
        if !self.has_reasoning_open {
            self.reasoning.push(format!("{}-reasoning-{}", self.id, self.reasoning.len() + 1));
        }
        let Some(message_id) = self.reasoning.last().map(|id| &**id) else { return };
        if !self.has_reasoning_open {
            start_reasoning(stream, message_id, agent);
        }
        stream.push(&Event::ReasoningMessageContent { message_id, delta });
        (self.has_reasoning_open, self.is_shown) = (true, true);
    }

    fn stop_reasoning(&mut self, stream: &mut Stream) {
        if let Some(message_id) = self.reasoning.last().filter(|_| self.has_reasoning_open) {
            stream.push(&Event::ReasoningMessageEnd { message_id });
            stream.push(&Event::ReasoningEnd { message_id });
            self.has_reasoning_open = false;
        }
    }

    fn call_text(
        &mut self,
        stream: &mut Stream,
        agent: ByAgent<'_>,
        place: usize,
        name: &str,
        at: usize,
        arguments: &str,
    ) {
        self.stop_reasoning(stream);
        self.is_shown = true;
        let call = self.calls.entry(place).or_default();
        if at == 0 && !call.arguments.is_empty() {
            call.take_back(stream);
        }
        // A piece is missing. The whole call follows.
        if at != call.arguments.len() || call.is_whole {
            return;
        }
        call.arguments.push_str(arguments);
        if call.is_begun() {
            call.send(stream, arguments);
        } else {
            name.clone_into(&mut call.name);
            // The name is whole when the arguments begin.
            if !name.is_empty() && !call.arguments.is_empty() {
                call.begin(stream, agent, &self.id, place);
                call.send(stream, &call.arguments);
            }
        }
    }

    /// Completes a call, and returns the id that the client has for it.
    fn called(
        &mut self,
        stream: &mut Stream,
        agent: ByAgent<'_>,
        place: usize,
        name: &str,
        arguments: &str,
    ) -> String {
        // Calls are made of whole replies only.
        self.end_texts(stream);
        (self.is_shown, self.is_whole) = (true, true);
        let call = self.calls.entry(place).or_default();
        let shown = match call.is_begun() {
            true => &*call.arguments,
            false => "",
        };
        let rest = match arguments.strip_prefix(shown) {
            Some(rest) if !call.is_begun() || call.name == name => rest,
            _ => {
                call.take_back(stream);
                arguments
            }
        };
        if !call.is_begun() {
            name.clone_into(&mut call.name);
            call.begin(stream, agent, &self.id, place);
        }
        if !rest.is_empty() {
            call.send(stream, rest);
        }
        call.end(stream);
        call.id.clone()
    }

    /// Ends the text and the reasoning.
    fn end_texts(&mut self, stream: &mut Stream) {
        self.stop_reasoning(stream);
        if std::mem::take(&mut self.has_text_open) {
            stream.push(&Event::TextMessageEnd { message_id: &self.id });
        }
    }

    fn end(&mut self, stream: &mut Stream) {
        self.end_texts(stream);
        for call in self.calls.values_mut() {
            call.end(stream);
        }
    }

    fn reopen(&self, stream: &mut Stream, agent: ByAgent<'_>) {
        let message_id = &*self.id;
        if self.has_text_open {
            stream.push(&Event::TextMessageStart { message_id, role: "assistant", agent });
        }
        if let Some(message_id) = self.reasoning.last().filter(|_| self.has_reasoning_open) {
            start_reasoning(stream, message_id, agent);
        }
        for call in self.calls.values().filter(|call| call.is_begun() && !call.is_whole) {
            call.start(stream, agent, message_id);
        }
    }
}

fn start_reasoning(stream: &mut Stream, message_id: &str, agent: ByAgent<'_>) {
    stream.push(&Event::ReasoningStart { message_id, agent });
    stream.push(&Event::ReasoningMessageStart { message_id, role: "reasoning", agent });
}

impl Call {
    fn is_begun(&self) -> bool {
        !self.id.is_empty()
    }

    fn begin(&mut self, stream: &mut Stream, agent: ByAgent<'_>, message: &str, place: usize) {
        self.id = match self.void {
            0 => format!("{message}-call-{place}"),
            void => format!("{message}-call-{place}-{void}"),
        };
        self.start(stream, agent, message);
    }

    fn start(&self, stream: &mut Stream, agent: ByAgent<'_>, message: &str) {
        stream.push(&Event::ToolCallStart {
            tool_call_id: &self.id,
            tool_call_name: &self.name,
            parent_message_id: message,
            agent,
        });
    }

    fn send(&self, stream: &mut Stream, delta: &str) {
        stream.push(&Event::ToolCallArgs { tool_call_id: &self.id, delta });
    }

    fn end(&mut self, stream: &mut Stream) {
        if self.is_begun() && !self.is_whole {
            stream.push(&Event::ToolCallEnd { tool_call_id: &self.id });
        }
        self.is_whole = true;
    }

    /// Takes back what was shown of the call, which begins anew.
    fn take_back(&mut self, stream: &mut Stream) {
        if self.is_begun() {
            stream.take_back_call(&self.id);
            self.end(stream);
        }
        *self = Self { void: self.void + 1, ..Self::default() };
    }
}
