//! Replies of both APIs: their text, their calls, and their form in the next request.
use std::collections::HashSet;

use async_openai::types::chat::{
    ChatChoice, ChatCompletionMessageToolCall, ChatCompletionMessageToolCalls,
    ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage,
    ChatCompletionResponseMessage, CreateChatCompletionResponse, FinishReason, FunctionCall,
};
use async_openai::types::responses::{
    InputItem, OutputItem, OutputMessageContent, OutputStatus, Response, Status,
    WebSearchToolCallAction,
};
use toolwright_module::ToolCall;
use toolwright_module::message::CallKind;
use toolwright_module::message::object_of;
use toolwright_module::runner::{canonical_json, is_same_json, stable_hash};
use toolwright_signature::{Repair, Thoughts};

use crate::Outcome;
use crate::async_openai::IntoToolCall;

/// A reply in `async-openai`'s types: its text, its calls, and its form in the next request.
///
/// For a reply of Chat Completions with several choices, the one with index 0 is used.
///
/// ```
/// use async_openai::types::responses::{InputItem, Response};
/// use toolwright_group::async_openai::ReplyExt;
///
/// fn after(reply: &Response, input: &mut Vec<InputItem>) {
///     for call in reply.calls() {
///         println!("{} {}", call.name, call.arguments);
///     }
///     input.extend(reply.to_input());
/// }
/// ```
pub trait ReplyExt {
    /// An entry of a conversation in a request.
    type Input;

    /// Returns the calls of functions and custom tools, in order, without those whose result is in the
    /// reply. If the reply does not end in a way
    /// that shows that it is whole, the calls are marked as [`incomplete`](ToolCall::incomplete), and
    /// a [`ToolGroup`](crate::ToolGroup) does not make them. async-openai 0.43 does not
    /// deserialize custom calls of Chat Completions: see
    /// [`read_call`](crate::async_openai::read_call).
    fn calls(&self) -> Vec<ToolCall>;

    /// Returns the text for the user, if there is any. The thoughts of a model that its server left at
    /// the beginning, as in `<think>…</think>`, are not part of it.
    fn text(&self) -> Option<String>;

    /// Returns the whole reply as the next request has to repeat it, unchanged.
    fn to_input(&self) -> Vec<Self::Input>;

    /// Returns the reply for the next request, with the arguments of its calls as they were read.
    ///
    /// Repaired arguments are those of [`Outcome::repaired`]. Arguments that are not a JSON object
    /// are wrapped in one, `{"invalid_arguments": "…"}`, because some servers fail on anything
    /// else.
    ///
    /// ```
    /// use async_openai::types::responses::{InputItem, Response};
    /// use toolwright_group::ToolGroup;
    /// use toolwright_module::{Context, Result};
    /// use toolwright_group::async_openai::{OutcomeExt, ReplyExt};
    ///
    /// async fn after(reply: &Response, tools: &ToolGroup) -> Result<Vec<InputItem>> {
    ///     let outcomes = tools.dispatch(&reply.calls(), &(), &Context::default()).await;
    ///     let outcomes = outcomes.into_iter().collect::<Result<Vec<_>>>()?;
    ///     let mut input = reply.to_input_with(&outcomes);
    ///     input.extend(outcomes.iter().map(|outcome| outcome.output_item().into()));
    ///     Ok(input)
    /// }
    /// ```
    fn to_input_with<Out>(&self, outcomes: &[Outcome<Out>]) -> Vec<Self::Input>;
}

/// The ids of calls, with their repaired arguments, in the order of the calls. Some servers give
/// several calls the same id.
struct AsRead<'a>(Vec<(&'a str, Option<&'a str>)>);

impl<'a> AsRead<'a> {
    fn of<Out>(outcomes: &'a [Outcome<Out>]) -> Self {
        let read = outcomes.iter().map(|outcome| {
            // If the only repairs are nulls that the dialect asks for, the text is as requested.
            let repaired = outcome
                .repaired()
                .filter(|repaired| !repaired.repairs.iter().all(Repair::is_null_for_default));
            (outcome.id.as_str(), repaired.map(|repaired| repaired.json.as_str()))
        });
        Self(read.collect())
    }

    fn put(&mut self, id: &str, arguments: &mut String) {
        let place = self.0.iter().position(|(known, _)| *known == id);
        let read = place.and_then(|place| self.0.remove(place).1).map(str::to_owned);
        if let Some(read) = read.or_else(|| object_of(arguments).map(Into::into)) {
            *arguments = read;
        }
    }
}

impl ReplyExt for CreateChatCompletionResponse {
    type Input = ChatCompletionRequestMessage;

    fn calls(&self) -> Vec<ToolCall> {
        let calls = tool_calls(self).unwrap_or_default();
        let mut calls: Vec<ToolCall> =
            calls.into_iter().map(IntoToolCall::into_tool_call).collect();
        let finish = choice(self).and_then(|choice| choice.finish_reason.as_ref());
        let refusal = message(self).and_then(|message| message.refusal.as_deref());
        let is_refused = refusal.is_some_and(|refusal| !refusal.is_empty());
        for call in &mut calls {
            call.incomplete |= is_refused;
            call.incomplete |= match finish {
                Some(FinishReason::Stop | FinishReason::ToolCalls | FinishReason::FunctionCall) => {
                    false
                }
                Some(_) => true,
                // Some servers have no reason. Then only the arguments show that the call has an
                // end.
                None => !has_end(call),
            };
        }
        calls
    }

    fn text(&self) -> Option<String> {
        message(self)?.content.clone().and_then(answer_of)
    }

    fn to_input(&self) -> Vec<Self::Input> {
        said(self).into_iter().map(Into::into).collect()
    }

    fn to_input_with<Out>(&self, outcomes: &[Outcome<Out>]) -> Vec<Self::Input> {
        let (mut read, mut said) = (AsRead::of(outcomes), said(self));
        let calls = said.iter_mut().filter_map(|message| message.tool_calls.as_mut()).flatten();
        for call in calls {
            if let ChatCompletionMessageToolCalls::Function(call) = call {
                read.put(&call.id, &mut call.function.arguments);
            }
        }
        said.into_iter().map(Into::into).collect()
    }
}

/// Returns a content without the thoughts at its beginning, if anything is left.
fn answer_of(content: String) -> Option<String> {
    let lone_end = Thoughts::lone_end(&content);
    let rest = content.get(lone_end.as_ref().map_or(0, |end| end.end)..)?;
    let mut thoughts = Thoughts::trained();
    thoughts.scan(rest);
    let answer = match thoughts.answer() {
        // It is too short for a mark, or it has nothing but thoughts.
        None if thoughts.end() == 0 && !thoughts.is_open() => rest,
        None => return None,
        Some(0) => rest,
        Some(at) => rest.get(at..)?.trim_start(),
    };
    let end = thoughts.answer_end().and_then(|mark| answer.trim_end().strip_suffix(mark));
    let answer = end.unwrap_or(answer);
    (lone_end.is_none() || !answer.is_empty()).then(|| answer.to_owned())
}

/// Returns whether the arguments of a call are a JSON object.
fn has_end(call: &ToolCall) -> bool {
    call.kind == CallKind::Function && object_of(&call.arguments).is_none()
}

fn said(reply: &CreateChatCompletionResponse) -> Option<ChatCompletionRequestAssistantMessage> {
    message(reply).map(|message| ChatCompletionRequestAssistantMessage {
        content: message.content.clone().map(Into::into),
        refusal: message.refusal.clone(),
        tool_calls: tool_calls(reply),
        ..ChatCompletionRequestAssistantMessage::default()
    })
}

/// Returns the calls of a reply, with that of the first form of the API as one of today's. It has an id
/// here, so that its answer can name it.
fn tool_calls(reply: &CreateChatCompletionResponse) -> Option<Vec<ChatCompletionMessageToolCalls>> {
    let message = message(reply)?;
    let mut calls = message.tool_calls.clone();
    #[expect(deprecated, reason = "some servers still send it")]
    let first_form = message.function_call.as_ref();
    // Some servers send an empty one in every reply, and some send both forms of a call.
    let is_set = |call: &&FunctionCall| !call.name.is_empty() || !call.arguments.trim().is_empty();
    let is_same = |call: &ChatCompletionMessageToolCalls, first: &FunctionCall| match call {
        ChatCompletionMessageToolCalls::Function(call) => {
            call.function.name == first.name
                && is_same_json(&call.function.arguments, &first.arguments)
        }
        ChatCompletionMessageToolCalls::Custom(_) => false,
    };
    if let Some(first) = first_form.filter(is_set)
        && !calls.iter().flatten().any(|call| is_same(call, first))
    {
        let id = stable_hash([&*reply.id, &*first.name, &*first.arguments]);
        let id = format!("call_{id:032x}");
        let call = ChatCompletionMessageToolCall { id, function: first.clone() };
        calls.get_or_insert_default().push(ChatCompletionMessageToolCalls::Function(call));
    }
    let mut seen = Seen::default();
    if let Some(calls) = &mut calls {
        calls.retain(|call| seen.is_new(&call.into_tool_call()));
    }
    calls
}

/// The calls of a reply. Some servers send one twice, which is one call all the same.
#[derive(Default)]
struct Seen(HashSet<(String, String, CallKind, String)>);

impl Seen {
    /// Returns whether a call is not there with its id, name and arguments.
    fn is_new(&mut self, call: &ToolCall) -> bool {
        let ToolCall { id, name, kind, .. } = call;
        let arguments = canonical_json(&call.arguments);
        id.is_empty() || self.0.insert((id.clone(), name.clone(), *kind, arguments))
    }
}

fn message(reply: &CreateChatCompletionResponse) -> Option<&ChatCompletionResponseMessage> {
    choice(reply).map(|ChatChoice { message, .. }| message)
}

fn choice(reply: &CreateChatCompletionResponse) -> Option<&ChatChoice> {
    let first = reply.choices.iter().find(|choice| choice.index == 0);
    first.or_else(|| reply.choices.first())
}

/// Returns the items of a reply, each call once.
fn items(reply: &Response) -> impl Iterator<Item = &OutputItem> {
    let mut seen = Seen::default();
    reply.output.iter().filter(move |item| match item {
        OutputItem::FunctionCall(call) => seen.is_new(&call.into_tool_call()),
        OutputItem::CustomToolCall(call) => seen.is_new(&call.into_tool_call()),
        _ => true,
    })
}

impl ReplyExt for Response {
    type Input = InputItem;

    fn calls(&self) -> Vec<ToolCall> {
        let calls = items(self).filter_map(|item| match item {
            OutputItem::FunctionCall(call) => {
                let mut call = call.into_tool_call();
                // The API sends `{}` for a call without arguments.
                call.incomplete |= call.arguments.trim().is_empty();
                Some(call)
            }
            OutputItem::CustomToolCall(call) => Some(call.into_tool_call()),
            _ => None,
        });
        // A server that sends the result has made the call itself.
        let is_made = |call: &ToolCall| {
            self.output.iter().any(|item| match item {
                OutputItem::FunctionCallOutput(output) => output.call_id.as_ref() == Some(&call.id),
                OutputItem::CustomToolCallOutput(output) => output.call_id == call.id,
                _ => false,
            })
        };
        let mut calls: Vec<ToolCall> = calls.filter(|call| !is_made(call)).collect();
        let details = self.incomplete_details.as_ref();
        let is_cut = details.is_some_and(|details| !details.reason.is_empty());
        // A message that is a refusal shows the same of the calls beside it, and so does a message or
        // reasoning that is not whole.
        let is_item_cut = self.output.iter().any(|item| match item {
            OutputItem::Message(message) => {
                let is_refusal =
                    |piece: &_| matches!(piece, OutputMessageContent::Refusal(piece) if !piece.refusal.is_empty());
                message.status != OutputStatus::Completed || message.content.iter().any(is_refusal)
            }
            OutputItem::Reasoning(item) => item.status == Some(OutputStatus::Incomplete),
            _ => false,
        });
        let is_whole = self.status == Status::Completed && self.error.is_none();
        for call in &mut calls {
            call.incomplete |= !is_whole || is_cut || is_item_cut;
        }
        calls
    }

    fn text(&self) -> Option<String> {
        self.output_text().and_then(answer_of)
    }

    fn to_input(&self) -> Vec<Self::Input> {
        items(self).cloned().map(|item| sendable(item).into()).collect()
    }

    fn to_input_with<Out>(&self, outcomes: &[Outcome<Out>]) -> Vec<Self::Input> {
        let mut read = AsRead::of(outcomes);
        let items = items(self).cloned().map(|item| {
            let mut item = sendable(item);
            if let OutputItem::FunctionCall(call) = &mut item {
                read.put(&call.call_id, &mut call.arguments);
            }
            item.into()
        });
        items.collect()
    }
}

/// Replaces the lists that `async-openai` 0.43 serializes as `null`, which OpenAI's API description
/// does not allow.
fn sendable(mut item: OutputItem) -> OutputItem {
    match &mut item {
        OutputItem::Message(message) => {
            for content in &mut message.content {
                if let OutputMessageContent::OutputText(text) = content {
                    text.logprobs.get_or_insert_default();
                }
            }
        }
        OutputItem::WebSearchCall(call) => {
            if let Some(WebSearchToolCallAction::Search(search)) = &mut call.action {
                search.queries.get_or_insert_default();
                search.sources.get_or_insert_default();
            }
        }
        _ => {}
    }
    item
}
