use std::marker::PhantomData;
use std::task;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use toolwright_module::driver::{Arguments, Begun, Failed};
use toolwright_module::{Context, Result};

use crate::metadata::{custom_metadata, function_metadata};
use crate::outcome::Outcome;
use crate::work::{Typed, read_text};

/// A type that a model fills in, with a blocking handler. Otherwise as [`Handle`](crate::Handle).
///
/// The handler runs on the thread that calls the group, inside the group's own runtime, so it must
/// not start another runtime. Code that does, such as `reqwest::blocking` or a blocking group, has
/// to run on a thread of its own: spawn it with `std::thread::scope` and wait for it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle calls in a blocking group with context `{In}` in and `{Out}` out",
    label = "needs `impl blocking::Handle<{In}, {Out}> for {Self}`",
    note = "an async `Handle` goes into an async `ToolGroup`"
)]
pub trait Handle<In = (), Out = ()>: DeserializeOwned + JsonSchema + Send + 'static {
    /// Handles one call. Returns a text for the model, and `Out` for the program.
    ///
    /// # Errors
    ///
    /// The model gets the text of [`Error::retry`](toolwright_module::Error::retry) and
    /// [`Error::refuse`](toolwright_module::Error::refuse). Any other error is returned to the
    /// program.
    fn handle(self, cx_in: &In, cx: &Context) -> Result<(String, Out)>;

    function_metadata!();
}

/// A tool that takes text, with a blocking handler. Otherwise as [`Custom`](crate::Custom).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a custom tool for a blocking group with context `{In}` in and `{Out}` out",
    label = "needs `impl blocking::Custom<{In}, {Out}> for {Self}`",
    note = "an async `Custom` goes into an async `ToolGroup`"
)]
pub trait Custom<In = (), Out = ()>: DeserializeOwned + JsonSchema + Send + 'static {
    /// Handles one call. Returns a text for the model, and `Out` for the program.
    ///
    /// # Errors
    ///
    /// The errors of [`Handle::handle`](crate::Handle::handle).
    fn handle(self, cx_in: &In, cx: &Context) -> Result<(String, Out)>;

    custom_metadata!();
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
