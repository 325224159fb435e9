use std::future::Future;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use toolwright_module::{Context, Result};

use crate::metadata::function_metadata;

/// A type that a model fills in, with the handler of the call.
///
/// The type is the tool. Its name in snake case is the tool's name, its doc comment the
/// description, its fields the parameters. To change one of them, override a provided function.
///
/// `In` is the value that your program passes to every handler of a
/// [`ToolGroup`](crate::ToolGroup). `Out` is the value that each handler returns beside its text.
/// The compiler checks both.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use toolwright_group::Handle;
/// use toolwright_module::{Context, Error, Result};
///
/// /// Look up how many of an article are left.
/// #[derive(Deserialize, JsonSchema)]
/// struct CheckStock {
///     /// The article's number.
///     article: u32,
/// }
///
/// struct Store {
///     shelves: Vec<u64>,
/// }
///
/// impl Handle<Store, u64> for CheckStock {
///     async fn handle(self, store: &Store, _cx: &Context) -> Result<(String, u64)> {
///         let left = store.shelves.get(self.article as usize);
///         let left = *left.ok_or(Error::retry("There is no such article."))?;
///         Ok((format!("{left} are left."), left))
///     }
/// }
///
/// assert_eq!(CheckStock::name(), "check_stock");
/// ```
///
/// # Precedence of names and descriptions
///
/// | | first that is not empty |
/// |---|---|
/// | name | [`name`](Self::name), [`generate_name`](Self::generate_name), the type's name in snake case |
/// | description | [`description`](Self::description), the one in [`schema`](Self::schema), the doc comment, the name in words |
/// | parameters | [`schema`](Self::schema), the type's own |
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle calls in a group with context `{In}` in and `{Out}` out",
    label = "needs `impl Handle<{In}, {Out}> for {Self}`",
    note = "every handler of a `ToolGroup<In, Out>` takes the same `In` and gives the same `Out`; a module is added with `module`, a custom tool with `custom`"
)]
pub trait Handle<In = (), Out = ()>: DeserializeOwned + JsonSchema + Send + 'static {
    /// Handles one call. Returns a text for the model, and `Out` for the program.
    ///
    /// # Errors
    ///
    /// The model gets the text of [`Error::retry`](toolwright_module::Error::retry) and
    /// [`Error::refuse`](toolwright_module::Error::refuse). Any other error is returned to the
    /// program.
    fn handle(self, cx_in: &In, cx: &Context)
    -> impl Future<Output = Result<(String, Out)>> + Send;

    function_metadata!();
}
