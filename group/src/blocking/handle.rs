use std::borrow::Cow;
use std::future::{Future, ready};

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toolwright_module::{Context, Effect, Policy, Result};

use crate::Format;
use crate::metadata::{custom_metadata, function_metadata};

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

/// Answers what the type inside answers.
macro_rules! same_metadata {
    ($inner:ty) => {
        fn name() -> Cow<'static, str> {
            <$inner>::name()
        }

        fn generate_name(type_name: &str) -> Cow<'static, str> {
            <$inner>::generate_name(type_name)
        }

        fn description() -> Cow<'static, str> {
            <$inner>::description()
        }

        fn effect() -> Effect {
            <$inner>::effect()
        }
    };
}

/// A blocking handler as an async one, whose future is ready at once.
///
/// It looks like the type inside it to serde and to schemars, and so to the model.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Blocking<T>(T);

impl<T: Handle<In, Out>, In: Sync, Out: Send> crate::Handle<In, Out> for Blocking<T> {
    fn handle(self, cx_in: &In, cx: &Context) -> impl Future<Output = Result<(String, Out)>> {
        ready(self.0.handle(cx_in, cx))
    }

    same_metadata!(T);

    fn schema() -> Option<Value> {
        T::schema()
    }

    fn strict() -> bool {
        T::strict()
    }

    fn policy() -> Policy {
        T::policy()
    }
}

impl<T: Custom<In, Out>, In: Sync, Out: Send> crate::Custom<In, Out> for Blocking<T> {
    fn handle(self, cx_in: &In, cx: &Context) -> impl Future<Output = Result<(String, Out)>> {
        ready(self.0.handle(cx_in, cx))
    }

    same_metadata!(T);

    fn format() -> Option<Format> {
        T::format()
    }
}
