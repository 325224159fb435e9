//! The hooks of one call, from the outermost to the model or the tool.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::future::FutureExt;
use futures_util::stream::{self, StreamExt};
use toolwright_signature::Contract;

use super::{AnyHook, AskNext, CallNext, Frame};
use crate::context::Context;
use crate::effect::Effect;
use crate::error::{Error, Result, Stage};
use crate::model::{Delta, LanguageModel, Reply, Request, pieces};
use crate::model_call::{AnswerSoFar, Pieces};
use crate::panic_text;
use crate::shown_answer::ShownAnswer;
use crate::tool::ToolOutput;

/// A model call on its way through the hooks.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(super) cx: &'a Context,
    /// The hooks that the call has not reached yet.
    pub(super) hooks: &'a [AnyHook],
    pub(super) model: &'a dyn LanguageModel,
    pub(super) stream: bool,
    /// The answer that the arguments of a call are.
    pub(super) answer: Option<&'a ShownAnswer>,
    pub(super) shown: &'a Shown,
}

impl<'a> Asking<'a> {
    pub(super) fn run(self, request: Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            let Self { cx, model, stream, answer, shown, .. } = self;
            let Some((hook, hooks)) = self.hooks.split_first() else {
                let show = Show { stream, answer, shown, run: shown.begin() };
                let reply = cx.ask_model(model, request, show).await;
                return show.end(reply);
            };
            let frame = Frame::new(hook, cx, None);
            let asking = Asking { hooks, ..self };
            let next = AskNext { model, stream, frame: &frame, asking };
            let reply = caught(hook, hook.0.model_boxed(request, next)).await;
            frame.end(&reply);
            reply
        })
    }
}

/// A tool call on its way through the hooks.
#[derive(Clone, Copy)]
pub(crate) struct Calling<'a> {
    cx: &'a Context,
    /// The hooks that the call has not reached yet.
    hooks: &'a [AnyHook],
    contract: &'a Contract,
    effect: Effect,
    work: &'a dyn Innermost,
}

/// A tool call without its hooks. It may be run several times.
pub trait Innermost: Send + Sync {
    /// Calls the tool with these arguments.
    fn call(&self, arguments: String) -> BoxFuture<'_, Result<ToolOutput>>;
}

impl<'a> Calling<'a> {
    pub(super) fn run(self, arguments: String) -> BoxFuture<'a, Result<ToolOutput>> {
        let Some((hook, hooks)) = self.hooks.split_first() else {
            return self.work.call(arguments);
        };
        Box::pin(async move {
            let frame = Frame::new(hook, self.cx, Some(self.contract.name()));
            let Self { contract, effect, .. } = self;
            let calling = Calling { hooks, ..self };
            let next = CallNext { contract, effect, frame: &frame, calling };
            let output = caught(hook, hook.0.tool_boxed(arguments, next)).await;
            frame.end(&output);
            output
        })
    }
}

async fn caught<T>(hook: &AnyHook, work: BoxFuture<'_, Result<T>>) -> Result<T> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
        let (name, panic) = (hook.0.name(), panic_text::text_of(panic));
        Err(Error::other(format!("the hook `{name}` panicked: {panic}")).at(Stage::Panic))
    })
}

/// Sends a request to a model through these hooks.
pub(crate) async fn ask(
    cx: &Context,
    hooks: &[AnyHook],
    model: &dyn LanguageModel,
    request: Request,
    stream: bool,
    answer: Option<&ShownAnswer>,
) -> Result<Reply> {
    let stream = stream && cx.has_events();
    let shown = Shown::default();
    let reply = Asking { cx, hooks, model, stream, answer, shown: &shown }.run(request).await?;
    if stream && !shown.is_complete() {
        let mut answer = AnswerSoFar::of(answer);
        pieces(&reply).for_each(|piece| cx.emit_delta(piece, &mut answer));
    }
    Ok(reply)
}

/// Calls a tool through these hooks.
pub(crate) async fn call(
    cx: &Context,
    hooks: &[AnyHook],
    (contract, effect): (&Contract, Effect),
    arguments: &str,
    work: &dyn Innermost,
) -> Result<ToolOutput> {
    Calling { cx, hooks, contract, effect, work }.run(arguments.to_owned()).await
}

/// One item of a stream that passes hooks.
pub(crate) enum Piece {
    Delta(Delta),
    /// The pieces before this one are void, because a hook runs the call again.
    Again,
}

/// Returns the pieces of a reply that passes these hooks. The last one is [`Delta::Done`] with the
/// reply of the outermost hook, or an error.
pub(crate) fn deltas<'a>(
    cx: &'a Context,
    hooks: &'a [AnyHook],
    model: &'a dyn LanguageModel,
    request: Request,
) -> BoxStream<'a, Result<Piece>> {
    let shown = Arc::new(Shown { queue: Some(Mutex::default()), ..Shown::default() });
    let held = Arc::clone(&shown);
    let mut asked: Option<BoxFuture<'a, Result<Reply>>> = Some(Box::pin(async move {
        let (stream, answer) = (true, None);
        Asking { cx, hooks, model, stream, answer, shown: &held }.run(request).await
    }));
    let mut ended = None;
    let next = move |task: &mut std::task::Context<'_>| {
        if let Some(asks) = asked.as_mut().filter(|_| shown.queue().is_none_or(|q| q.is_empty()))
            && let Poll::Ready(reply) = asks.as_mut().poll(task)
        {
            asked = None;
            if let Ok(reply) = &reply
                && !shown.is_complete()
            {
                shown.show(reply);
            }
            ended = Some(reply.map(|reply| Piece::Delta(Delta::Done(Box::new(reply)))));
        }
        match shown.queue().and_then(|mut queue| queue.pop_front()) {
            Some(piece) => Poll::Ready(Some(Ok(piece))),
            None if asked.is_some() => Poll::Pending,
            None => Poll::Ready(ended.take()),
        }
    };
    stream::poll_fn(next).boxed()
}

/// Shows the pieces of one run, until another one begins.
#[derive(Clone, Copy)]
struct Show<'a> {
    stream: bool,
    answer: Option<&'a ShownAnswer>,
    shown: &'a Shown,
    run: u32,
}

impl Show<'_> {
    fn is_last(self) -> bool {
        self.shown.runs.load(Ordering::Relaxed) == self.run
    }

    fn end(self, reply: Result<Reply>) -> Result<Reply> {
        if self.is_last() {
            self.shown.complete.store(self.stream && reply.is_ok(), Ordering::Relaxed);
        }
        reply
    }
}

impl Pieces for Show<'_> {
    fn are_wanted(self, _: &Context) -> bool {
        self.stream
    }

    fn are_read_by_the_program(self) -> bool {
        self.shown.queue.is_some()
    }

    fn answer(&self) -> Option<&ShownAnswer> {
        self.answer
    }

    fn take(self, delta: Delta, cx: &Context, answer: &mut AnswerSoFar<'_>) {
        // A hook may have several runs at the same time.
        if !self.is_last() {
            return;
        }
        self.shown.begun.store(true, Ordering::Relaxed);
        match self.shown.queue() {
            Some(mut queue) => queue.push_back(Piece::Delta(delta)),
            None => cx.emit_delta(delta, answer),
        }
    }
}

/// What listeners have seen of a reply, while its call passes hooks.
#[derive(Default)]
pub(crate) struct Shown {
    /// The pieces that the reader of a stream has not taken yet. `None` if they are emitted as
    /// events.
    queue: Option<Mutex<VecDeque<Piece>>>,
    /// The number of runs.
    runs: AtomicU32,
    /// Whether a piece of the last run was shown.
    begun: AtomicBool,
    /// Whether all pieces of the last reply were shown.
    complete: AtomicBool,
}

impl Shown {
    fn queue(&self) -> Option<MutexGuard<'_, VecDeque<Piece>>> {
        Some(self.queue.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins a run and returns its number.
    fn begin(&self) -> u32 {
        self.complete.store(false, Ordering::Relaxed);
        if self.begun.swap(false, Ordering::Relaxed)
            && let Some(mut queue) = self.queue()
        {
            queue.push_back(Piece::Again);
        }
        self.runs.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Shows a reply whose pieces were not shown, such as a hook's own.
    fn show(&self, reply: &Reply) {
        self.begin();
        if let Some(mut queue) = self.queue() {
            queue.extend(pieces(reply).map(Piece::Delta));
        }
    }

    fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Relaxed)
    }
}
