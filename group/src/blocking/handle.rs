use std::borrow::Cow;
use std::marker::PhantomData;
use std::task;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toolwright_signature::Policy;

use crate::custom::Format;
use crate::definition::{default_description, default_name};
use crate::outcome::Outcome;
use crate::work::{Typed, read_text};
use toolwright_module::Context;
use toolwright_module::Effect;
use toolwright_module::Result;
use toolwright_module::driver::Arguments;
use toolwright_module::driver::{Begun, Failed};

/// Arguments that know what to do, without `async`; all else is as in
/// [`Handle`](crate::Handle).
///
/// It runs on the thread that calls the group, inside the group's own runtime, so it must
/// not start another: for what does, such as `reqwest::blocking` or a blocking group (its own
/// one too), let it spawn a thread with `std::thread::scope` and wait for that.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle calls in a blocking group with context `{In}` in and `{Out}` out",
    label = "needs `impl blocking::Handle<{In}, {Out}> for {Self}`",
    note = "an async `Handle` goes into an async `ToolGroup`"
)]
pub trait Handle<In = (), Out = ()>: DeserializeOwned + JsonSchema + Send + 'static {
    /// Does the work with arguments that fit: text for the model, and `Out` for the
    /// program.
    ///
    /// # Errors
    ///
    /// [`Error::retry`](toolwright_module::Error::retry) and [`Error::refuse`](toolwright_module::Error::refuse)
    /// tell the model; every other error is the program's to deal with.
    fn handle(self, cx_in: &In, cx: &Context) -> Result<(String, Out)>;

    /// What the model calls it by.
    fn name() -> Cow<'static, str> {
        default_name::<Self>(Self::generate_name)
    }

    /// Makes a name of the type's name, for a rule that many tools share; empty for none.
    #[must_use]
    fn generate_name(type_name: &str) -> Cow<'static, str> {
        let _ = type_name;
        Cow::Borrowed("")
    }

    /// What it is for, as the model reads it.
    fn description() -> Cow<'static, str> {
        default_description::<Self>(Self::schema().as_ref())
    }

    /// A JSON Schema that the model is shown instead of the type's own, unchanged. What
    /// the model sends is still read into the type.
    #[must_use]
    fn schema() -> Option<Value> {
        None
    }

    /// Whether the provider has to guarantee that arguments fit the schema, which it can
    /// for some schemas only.
    #[must_use]
    fn strict() -> bool {
        false
    }

    /// What a call does to the world, for whoever drives the tools.
    #[must_use]
    fn effect() -> Effect {
        Effect::Write
    }

    /// How far arguments may be repaired. Default: [`Policy::Coerce`].
    ///
    /// The strictest policy holds of this one, the group's and the context's.
    #[must_use]
    fn policy() -> Policy {
        Policy::default()
    }
}

/// A tool that is called with text, without `async`; all else is as in
/// [`Custom`](crate::Custom).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no custom tool for a blocking group with context `{In}` in and `{Out}` out",
    label = "needs `impl blocking::Custom<{In}, {Out}> for {Self}`",
    note = "an async `Custom` goes into an async `ToolGroup`"
)]
pub trait Custom<In = (), Out = ()>: DeserializeOwned + JsonSchema + Send + 'static {
    /// Does the work with text that could be read: text for the model, and `Out` for the
    /// program.
    ///
    /// # Errors
    ///
    /// As [`Handle::handle`](crate::Handle::handle).
    fn handle(self, cx_in: &In, cx: &Context) -> Result<(String, Out)>;

    /// What the model calls it by.
    fn name() -> Cow<'static, str> {
        default_name::<Self>(Self::generate_name)
    }

    /// Makes a name of the type's name, for a rule that many tools share; empty for none.
    #[must_use]
    fn generate_name(type_name: &str) -> Cow<'static, str> {
        let _ = type_name;
        Cow::Borrowed("")
    }

    /// What it is for, as the model reads it.
    fn description() -> Cow<'static, str> {
        default_description::<Self>(None)
    }

    /// What the text has to look like, for the provider to see to; nothing is said of it
    /// if this is `None`.
    #[must_use]
    fn format() -> Option<Format> {
        None
    }

    /// What a call does to the world, for whoever drives the tools.
    #[must_use]
    fn effect() -> Effect {
        Effect::Write
    }
}

/// Handles JSON where the async one does.
pub(crate) struct Function<T>(pub(crate) PhantomData<fn() -> T>);

/// Handles text where the async one does.
pub(crate) struct FreeText<T>(pub(crate) PhantomData<fn() -> T>);

impl<T: Handle<In, Out>, In: Sync + 'static, Out: Send + 'static> Typed<In, Out> for Function<T> {
    fn begin<'a>(
        &'a self,
        arguments: Arguments<'a>,
        cx_in: &'a In,
        cx: &'a Context,
        outcome: &'a mut Outcome<Out>,
        _task: &mut task::Context<'_>,
    ) -> Begun<'a> {
        let mut handle = || {
            let input: T = arguments.read(|repaired| outcome.set_repaired(repaired))?;
            let (content, out) = input.handle(cx_in, cx).map_err(Failed::work)?;
            outcome.content = content;
            outcome.context = Some(out);
            Ok(())
        };
        Begun::Ended(handle())
    }
}

impl<T: Custom<In, Out>, In: Sync + 'static, Out: Send + 'static> Typed<In, Out> for FreeText<T> {
    fn begin<'a>(
        &'a self,
        arguments: Arguments<'a>,
        cx_in: &'a In,
        cx: &'a Context,
        outcome: &'a mut Outcome<Out>,
        _task: &mut task::Context<'_>,
    ) -> Begun<'a> {
        let mut handle = || {
            let input: T = read_text(arguments)?;
            let (content, out) = input.handle(cx_in, cx).map_err(Failed::work)?;
            outcome.content = content;
            outcome.context = Some(out);
            Ok(())
        };
        Begun::Ended(handle())
    }
}
