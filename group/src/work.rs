//! The handlers of a group's tools, and their conversion to plain tools.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toolwright_module::error::Stage;
use toolwright_module::model::BoxFuture;
use toolwright_module::runner::{self, Arguments, Contained, Handler, Innermost, of_work, shown};
use toolwright_module::{Context, Effect, Error, Repaired, Result, Tool, ToolOutput};
use toolwright_signature::Contract;

use crate::custom::Custom;
use crate::handle::Handle;

/// The implementation of one tool.
pub(crate) enum Work<In, Out> {
    Tool(Tool),
    /// A handler that takes JSON.
    Function(Typed<In, Out>),
    /// A handler that takes text.
    Custom(Typed<In, Out>),
}

/// The output of a call, and the handler's value for the program.
pub(crate) type Answer<Out> = (ToolOutput, Option<Out>);

/// The call of a handler whose type is erased.
pub(crate) type Typed<In, Out> =
    for<'a> fn(Arguments<'a>, &'a In, &'a Context) -> BoxFuture<'a, Result<Answer<Out>>>;

impl<In: Sync + 'static, Out: Send + 'static> Work<In, Out> {
    pub(crate) fn function<T: Handle<In, Out>>() -> Self {
        Self::Function(call_function::<T, In, Out>)
    }

    pub(crate) fn custom<T: Custom<In, Out>>() -> Self {
        Self::Custom(call_custom::<T, In, Out>)
    }

    /// Makes a call, without the hooks of the context.
    pub(crate) async fn call(
        &self,
        arguments: Arguments<'_>,
        cx_in: &In,
        cx: &Context,
    ) -> Result<Answer<Out>> {
        match self {
            Self::Tool(tool) => Ok((runner::call_with(tool, arguments, cx).await?, None)),
            Self::Function(call) => {
                Contained::new(call(arguments, cx_in, cx), Some(arguments)).await
            }
            Self::Custom(call) => Contained::new(call(arguments, cx_in, cx), None).await,
        }
    }

    /// Marks the output or the error of an untrusted tool. This is outside of all hooks.
    pub(crate) fn marked(&self, output: Result<ToolOutput>, cx: &Context) -> Result<ToolOutput> {
        match self {
            Self::Tool(tool) => runner::marked(tool, output, cx),
            Self::Function(_) | Self::Custom(_) => output,
        }
    }
}

/// Calls a handler that takes JSON.
fn call_function<'a, T: Handle<In, Out>, In: Sync, Out: Send>(
    arguments: Arguments<'a>,
    cx_in: &'a In,
    cx: &'a Context,
) -> BoxFuture<'a, Result<Answer<Out>>> {
    Box::pin(async move {
        let (input, repaired) = arguments.read::<T>()?;
        match input.handle(cx_in, cx).await {
            Ok((text, out)) => Ok((with_repairs(ToolOutput::text_only(text), repaired), Some(out))),
            Err(error) => Err(of_work(error, repaired)),
        }
    })
}

/// Calls a handler that takes text.
fn call_custom<'a, T: Custom<In, Out>, In: Sync, Out: Send>(
    arguments: Arguments<'a>,
    cx_in: &'a In,
    cx: &'a Context,
) -> BoxFuture<'a, Result<Answer<Out>>> {
    Box::pin(async move {
        let input: T = read_text(arguments)?;
        let handled = input.handle(cx_in, cx).await;
        let (text, out) = handled.map_err(|error| of_work(error, None))?;
        Ok((ToolOutput::text_only(text), Some(out)))
    })
}

fn with_repairs(mut output: ToolOutput, repaired: Option<Box<Repaired>>) -> ToolOutput {
    output.repaired = repaired;
    output
}

fn read_text<T: DeserializeOwned>(arguments: Arguments<'_>) -> Result<T> {
    let Arguments { contract, text, .. } = arguments;
    serde_json::from_value(Value::String(text.to_owned())).map_err(|fault| {
        let fault = fault.to_string();
        let told = format!("input of `{}` does not fit: {}", contract.name(), shown(&fault, 300));
        runner::of_arguments(Error::retry(told).at(Stage::Arguments).with_raw(text))
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
    fn call(&self, arguments: String) -> BoxFuture<'_, Result<ToolOutput>> {
        Box::pin(async move {
            let arguments = Arguments { text: &arguments, ..self.arguments };
            let answer = self.work.call(arguments, self.cx_in, self.cx).await;
            let (output, out) = match answer {
                Ok((output, out)) => (Ok(output), out),
                // A hook may answer in its place. The value of an earlier run is not that answer's.
                Err(error) => (Err(error), None),
            };
            *self.out.lock().unwrap_or_else(PoisonError::into_inner) = out;
            output
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
    call: Typed<In, Out>,
    binding: Arc<Binding<In, Out>>,
    custom: bool,
}

/// The arguments of a custom tool that is sent as a function.
#[derive(Deserialize)]
struct Input {
    input: String,
}

impl<In: Send + Sync + 'static, Out: Send + 'static> Handler for Bound<In, Out> {
    fn call<'a>(
        &'a self,
        arguments: Arguments<'a>,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<ToolOutput>> {
        Box::pin(async move {
            let cx_in = &self.binding.cx_in;
            let (output, out) = match self.custom {
                false => (self.call)(arguments, cx_in, cx).await?,
                true => {
                    let (input, repaired) = arguments.read::<Input>()?;
                    let given = Arguments { text: &input.input, ..arguments };
                    match (self.call)(given, cx_in, cx).await {
                        Ok((output, out)) => (with_repairs(output, repaired), out),
                        Err(error) => return Err(of_work(error, repaired)),
                    }
                }
            };
            if let Some(out) = out {
                (self.binding.on_out)(arguments.contract.name(), out);
            }
            Ok(output)
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
            Self::Function(call) | Self::Custom(call) => {
                let bound = Bound { call: *call, binding: Arc::clone(binding), custom };
                runner::tool(Arc::clone(contract), effect, Arc::new(bound))
            }
        }
    }
}
