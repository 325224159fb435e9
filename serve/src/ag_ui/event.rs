//! The events of AG-UI that we write.

use serde::Serialize;
use serde_json::Value;

use crate::update::Cost;

/// An event, as it is sent.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub(super) enum Event<'a> {
    RunStarted {
        thread_id: &'a str,
        run_id: &'a str,
        protocol_version: &'static str,
        metadata: Value,
    },
    RunFinished {
        thread_id: &'a str,
        run_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a Value>,
        outcome: Outcome<'a>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<TokenUsage>,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<&'a Value>,
    },
    RunError {
        message: &'a str,
        code: &'static str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<TokenUsage>,
    },
    MessagesSnapshot {
        messages: Vec<&'a Value>,
    },
    TextMessageStart {
        message_id: &'a str,
        role: &'static str,
        #[serde(flatten)]
        agent: ByAgent<'a>,
    },
    TextMessageContent {
        message_id: &'a str,
        delta: &'a str,
    },
    TextMessageEnd {
        message_id: &'a str,
    },
    ReasoningStart {
        message_id: &'a str,
        #[serde(flatten)]
        agent: ByAgent<'a>,
    },
    ReasoningMessageStart {
        message_id: &'a str,
        role: &'static str,
        #[serde(flatten)]
        agent: ByAgent<'a>,
    },
    ReasoningMessageContent {
        message_id: &'a str,
        delta: &'a str,
    },
    ReasoningMessageEnd {
        message_id: &'a str,
    },
    ReasoningEnd {
        message_id: &'a str,
    },
    ToolCallStart {
        tool_call_id: &'a str,
        tool_call_name: &'a str,
        parent_message_id: &'a str,
        #[serde(flatten)]
        agent: ByAgent<'a>,
    },
    ToolCallArgs {
        tool_call_id: &'a str,
        delta: &'a str,
    },
    ToolCallEnd {
        tool_call_id: &'a str,
    },
    ToolCallResult {
        message_id: &'a str,
        tool_call_id: &'a str,
        content: &'a str,
        role: &'static str,
        metadata: Value,
        #[serde(flatten)]
        agent: ByAgent<'a>,
    },
    SubagentStarted {
        subagent_run_id: &'a str,
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_subagent_run_id: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_tool_call_id: Option<&'a str>,
    },
    SubagentFinished {
        subagent_run_id: &'a str,
        outcome: SubagentOutcome,
    },
    SubagentError {
        subagent_run_id: &'a str,
        message: &'static str,
        code: &'static str,
    },
    Custom {
        name: String,
        value: Value,
        #[serde(flatten)]
        agent: ByAgent<'a>,
    },
}

/// The agent of an event. Empty for the agent that the user talks to.
#[derive(Serialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
pub(super) struct ByAgent<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subagent_run_id: Option<&'a str>,
}

/// How a run ended.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Outcome<'a> {
    Success,
    Interrupt { interrupts: &'a [Interrupt] },
    Cancelled,
}

/// How the work of an agent below ended.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum SubagentOutcome {
    Success,
    Suspended { interrupt_ids: Vec<String> },
}

/// A question.
#[derive(Serialize, Clone)]
#[serde(rename_all = "camelCase")]
pub(super) struct Interrupt {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subagent_run_id: Option<String>,
    pub(super) id: String,
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) tool_call_id: String,
    pub(super) response_schema: Value,
    pub(super) metadata: Value,
}

/// What the calls of one model took.
#[derive(Serialize, Clone, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct TokenUsage {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    input_tokens: u64,
    output_tokens: u64,
    total_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_input_tokens: Option<u64>,
}

impl TokenUsage {
    pub(super) fn of(model: Option<&String>) -> Self {
        Self { model: model.cloned(), ..Self::default() }
    }

    pub(super) fn add(&mut self, cost: &Cost) {
        self.input_tokens = self.input_tokens.saturating_add(cost.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(cost.output_tokens);
        self.total_tokens = self.input_tokens.saturating_add(self.output_tokens);
        // 0 also stands for a server that reports none.
        if cost.cached_tokens > 0 {
            let cached = self.cached_input_tokens.unwrap_or_default();
            self.cached_input_tokens = Some(cached.saturating_add(cost.cached_tokens));
        }
    }
}
