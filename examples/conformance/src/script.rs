//! [`Script`]: steps of the server, and a check of what a provider makes of them.

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::trial::{Mode, Trial};
use crate::{Check, Wire, scripts};

/// A list of steps for the server, and a check.
pub(crate) struct Script {
    pub(crate) name: String,
    steps: Box<dyn Fn(Wire, Mode) -> Vec<Value>>,
    play: Box<dyn Fn(Trial) -> BoxFuture<'static, Check<Saw>>>,
    /// Whether the provider may leave some steps unused.
    pub(crate) may_leave_steps: bool,
}

/// What a script saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saw {
    /// It works.
    Works,
    /// The API or the provider does not have it. The reason is part of the results.
    Lacks(&'static str),
}

impl Script {
    /// Returns a script whose steps are always the same.
    pub(crate) fn new<F>(
        name: impl Into<String>,
        steps: impl IntoIterator<Item = Value>,
        play: impl Fn(Trial) -> F + 'static,
    ) -> Self
    where
        F: Future<Output = Check<Saw>> + Send + 'static,
    {
        let steps: Vec<_> = steps.into_iter().collect();
        Self::with_steps(name, move |_, _| steps.clone(), play)
    }

    /// Returns a script whose steps depend on the API or the mode.
    pub(crate) fn with_steps<F>(
        name: impl Into<String>,
        steps: impl Fn(Wire, Mode) -> Vec<Value> + 'static,
        play: impl Fn(Trial) -> F + 'static,
    ) -> Self
    where
        F: Future<Output = Check<Saw>> + Send + 'static,
    {
        let play = move |trial| -> BoxFuture<'static, Check<Saw>> { Box::pin(play(trial)) };
        let (steps, play) = (Box::new(steps), Box::new(play));
        Self { name: name.into(), steps, play, may_leave_steps: false }
    }

    /// Lets the provider leave steps unused, such as the answer to a retry.
    pub(crate) fn leaving_steps(mut self) -> Self {
        self.may_leave_steps = true;
        self
    }

    /// Returns all scripts.
    pub(crate) fn all() -> Vec<Self> {
        [
            scripts::replies::all(),
            scripts::tools::all(),
            scripts::outputs::all(),
            scripts::media::all(),
            scripts::settings::all(),
            scripts::swaps::all(),
            scripts::cancelled::all(),
            scripts::faults::all(),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    pub(crate) fn steps(&self, wire: Wire, mode: Mode) -> Vec<Value> {
        (self.steps)(wire, mode)
    }

    pub(crate) async fn play(&self, trial: Trial) -> Check<Saw> {
        (self.play)(trial).await
    }
}
