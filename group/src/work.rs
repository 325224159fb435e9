//! The handlers of a group's tools, and their conversion to plain tools.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::task;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toolwright_module::driver::{
    self, Arguments, Begun, Failed, Handler, Innermost, Place, contained, shown,
};
use toolwright_module::error::Stage;
use toolwright_module::message::CallKind;
use toolwright_module::model::BoxFuture;
use toolwright_module::{Context, Effect, Error, Tool, ToolOutput};
use toolwright_signature::Contract;

use crate::custom::Custom;
use crate::handle::Handle;
use crate::outcome::Outcome;

/// The implementation of one tool.
pub(crate) enum Work<In, Out> {
    Tool(Tool),
    Typed(Arc<dyn Typed<In, Out>>),
}

/// A handler with its type erased. It writes into the outcome; see [`Handler`] for the reason.
pub(crate) trait Typed<In, Out>: Send + Sync {
    fn begin<'a>(
        &'a self,
        arguments: Arguments<'a>,
        cx_in: &'a In,
        cx: &'a Context,
        outcome: &'a mut Outcome<Out>,
        task: &mut task::Context<'_>,
    ) -> Begun<'a>;
}

/// A handler that takes JSON.
struct Function<T>(PhantomData<fn() -> T>);

/// A handler that takes text.
struct FreeText<T>(PhantomData<fn() -> T>);

impl<In: Sync + 'static, Out: Send + 'static> Work<In, Out> {
    pub(crate) fn function<T: Handle<In, Out>>() -> Self {
        Self::Typed(Arc::new(Function::<T>(PhantomData)))
    }

    pub(crate) fn custom<T: Custom<In, Out>>() -> Self {
        Self::Typed(Arc::new(FreeText::<T>(PhantomData)))
    }
}

impl<T: Handle<In, Out>, In: Sync + 'static, Out: Send + 'static> Typed<In, Out> for Function<T> {
    fn begin<'a>(
        &'a self,
        arguments: Arguments<'a>,
        cx_in: &'a In,
        cx: &'a Context,
        outcome: &'a mut Outcome<Out>,
        task: &mut task::Context<'_>,
    ) -> Begun<'a> {
        Begun::of(task, async move {
            let input: T = arguments.read(|repaired| outcome.set_repaired(repaired))?;
            let (content, out) = input.handle(cx_in, cx).await.map_err(Failed::work)?;
            outcome.content = content;
            outcome.context = Some(out);
            Ok(())
        })
    }
}

impl<T: Custom<In, Out>, In: Sync + 'static, Out: Send + 'static> Typed<In, Out> for FreeText<T> {
    fn begin<'a>(
        &'a self,
        arguments: Arguments<'a>,
        cx_in: &'a In,
        cx: &'a Context,
        outcome: &'a mut Outcome<Out>,
        task: &mut task::Context<'_>,
    ) -> Begun<'a> {
        Begun::of(task, async move {
            let input: T = read_text(arguments)?;
            let (content, out) = input.handle(cx_in, cx).await.map_err(Failed::work)?;
            outcome.content = content;
            outcome.context = Some(out);
            Ok(())
        })
    }
}

fn read_text<T: DeserializeOwned>(arguments: Arguments<'_>) -> Result<T, Failed> {
    let Arguments { contract, text, .. } = arguments;
    serde_json::from_value(Value::String(text.to_owned())).map_err(|fault| {
        let fault = fault.to_string();
        let told = format!("input of `{}` does not fit: {}", contract.name(), shown(&fault, 300));
        Failed::arguments(Error::retry(told).at(Stage::Arguments).with_raw(text))
    })
}

/// A call of a group inside the hooks of its context.
pub(crate) struct Hooked<'a, In, Out> {
    pub(crate) work: &'a Work<In, Out>,
    pub(crate) arguments: Arguments<'a>,
    pub(crate) cx_in: &'a In,
    pub(crate) cx: &'a Context,
    /// The handler's value of the last run.
    pub(crate) out: Mutex<Option<Out>>,
}

impl<In: Sync + 'static, Out: Send + 'static> Innermost for Hooked<'_, In, Out> {
    fn call(&self, arguments: String) -> BoxFuture<'_, Result<ToolOutput, Error>> {
        Box::pin(async move {
            let Self { work, cx_in, cx, out, .. } = self;
            let arguments = Arguments { text: &arguments, ..self.arguments };
            let mut output = ToolOutput::default();
            let ended = match work {
                Work::Tool(tool) => {
                    contained(|task| driver::begin(tool, arguments, cx, &mut output, task)).await
                }
                Work::Typed(typed) => {
                    let mut outcome = Outcome::new(String::new(), CallKind::Function);
                    let ended =
                        contained(|task| typed.begin(arguments, cx_in, cx, &mut outcome, task));
                    let ended = ended.await;
                    *out.lock().unwrap_or_else(PoisonError::into_inner) = outcome.context.take();
                    output = outcome.into_output();
                    ended
                }
            };
            let repaired = driver::take_repaired(&mut output);
            match ended {
                Ok(()) => {
                    driver::set_repaired(&mut output, repaired);
                    Ok(output)
                }
                Err(failed) => Err(driver::with_repaired(failed.into(), repaired)),
            }
        })
    }
}

/// The state that the tools of a bound group share.
pub(crate) struct Binding<In, Out> {
    pub(crate) cx_in: In,
    pub(crate) on_out: OnOut<Out>,
}

/// A callback with a tool's name and its handler's `Out`.
type OnOut<Out> = Box<dyn Fn(&str, Out) + Send + Sync>;

/// A handler with the `In` and the callback of its binding.
struct Bound<In, Out> {
    typed: Arc<dyn Typed<In, Out>>,
    binding: Arc<Binding<In, Out>>,
    custom: bool,
}

/// The arguments of a custom tool that is sent as a function.
#[derive(Deserialize)]
struct Input {
    input: String,
}

impl<In: Send + Sync + 'static, Out: Send + 'static> Handler for Bound<In, Out> {
    fn begin<'a>(
        &'a self,
        arguments: Arguments<'a>,
        cx: &'a Context,
        place: Place<'a>,
        task: &mut task::Context<'_>,
    ) -> Begun<'a> {
        Begun::of(task, async move {
            let mut outcome = Outcome::new(String::new(), CallKind::Function);
            let input: Input;
            let mut given = arguments;
            if self.custom {
                input = arguments.read(|repaired| outcome.set_repaired(repaired))?;
                given.text = &input.input;
            }
            let cx_in = &self.binding.cx_in;
            let typed = &self.typed;
            let ended = contained(|task| typed.begin(given, cx_in, cx, &mut outcome, task)).await;
            if let Some(out) = outcome.context.take().filter(|_| ended.is_ok()) {
                (self.binding.on_out)(arguments.contract.name(), out);
            }
            *place.output = outcome.into_output();
            ended
        })
    }
}

impl<In: Send + Sync + 'static, Out: Send + 'static> Work<In, Out> {
    /// Converts the work to a plain tool.
    pub(crate) fn bind(
        &self,
        contract: &Arc<Contract>,
        effect: Effect,
        custom: bool,
        binding: &Arc<Binding<In, Out>>,
    ) -> Tool {
        match self {
            Self::Tool(tool) => tool.clone(),
            Self::Typed(typed) => {
                let (typed, binding) = (Arc::clone(typed), Arc::clone(binding));
                let bound = Bound { typed, binding, custom };
                driver::tool(Arc::clone(contract), effect, Arc::new(bound))
            }
        }
    }
}
