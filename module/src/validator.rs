use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::context::Context;
use crate::error::Result;
use futures_core::future::BoxFuture;

/// A rule for the outputs of a model that their schema cannot express: `I` is the input, `O` the
/// output.
///
/// [`Predict::with_validator`](crate::Predict::with_validator) adds one, and so do agents, whose input
/// is their task. It runs after an answer was read, with the input and the output as values. With [`Error::retry`](crate::Error::retry) the
/// model reads the text and answers again, within the attempts. Any other error fails the call.
///
/// A closure that takes the input and the output is a validator. Write the types of its parameters:
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # use toolwright_module::testing::Scripted;
/// use toolwright_module::{Context, Error, Module, Predict, Reply, Signature};
///
/// /// Choose a table. There are tables of 2, 4 and 6 seats.
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct ChooseTable {
///     guests: u32,
/// }
///
/// impl Signature for ChooseTable {
///     type Output = u32;
/// }
///
/// # let model = Scripted::new(|request| {
/// #     let text = if request.messages.len() == 2 { "2" } else { "4" };
/// #     Ok(Reply::text(format!(r#"{{"result": {text}}}"#)))
/// # });
/// let choose = Predict::<ChooseTable>::new(model)?.with_validator(
///     |table: &ChooseTable, seats: &u32| match *seats >= table.guests {
///         true => Ok(()),
///         false => Err(Error::retry(format!("{} guests need more seats", table.guests))),
///     },
/// );
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// // The model answers 2, reads "3 guests need more seats", and answers 4.
/// assert_eq!(choose.call(ChooseTable { guests: 3 }, &Context::default()).await?, 4);
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A validator that needs the context or is async implements the trait:
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// use toolwright_module::predict::Validator;
/// use toolwright_module::{Context, Error, Result, Signature};
///
/// # /// Choose a table.
/// # #[derive(Serialize, Deserialize, JsonSchema)]
/// # struct ChooseTable { guests: u32 }
/// # impl Signature for ChooseTable { type Output = u32; }
/// # struct Tables;
/// # impl Tables { async fn is_free(&self, _: u32) -> Result<bool> { Ok(true) } }
/// struct IsFree;
///
/// impl Validator<ChooseTable, u32> for IsFree {
///     async fn check(&self, _: &ChooseTable, seats: &u32, cx: &Context) -> Result<()> {
///         let tables = cx.get::<Tables>().ok_or_else(|| Error::other("no tables in the context"))?;
///         match tables.is_free(*seats).await? {
///             true => Ok(()),
///             false => Err(Error::retry(format!("the table of {seats} is taken"))),
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a validator of an output `{O}` for an input `{I}`",
    note = "write a closure with typed parameters, `|input: &{I}, output: &{O}| …`, that returns `Result<()>`, or `impl Validator<{I}, {O}> for {Self}`"
)]
pub trait Validator<I: Sync, O: Sync>: Send + Sync + 'static {
    /// Checks an output.
    ///
    /// # Errors
    ///
    /// [`Error::retry`](crate::Error::retry) if the model should answer again. Any other error fails
    /// the call.
    fn check(&self, input: &I, output: &O, cx: &Context)
    -> impl Future<Output = Result<()>> + Send;
}

impl<I, O, F> Validator<I, O> for F
where
    I: Sync,
    O: Sync,
    F: Fn(&I, &O) -> Result<()> + Send + Sync + 'static,
{
    async fn check(&self, input: &I, output: &O, _: &Context) -> Result<()> {
        self(input, output)
    }
}

/// Validators of one kind of output, for modules that read outputs of a model. A clone shares them.
pub struct Validators<I, O>(Vec<Arc<dyn ErasedValidator<I, O>>>);

trait ErasedValidator<I, O>: Send + Sync {
    fn check_boxed<'a>(
        &'a self,
        input: &'a I,
        output: &'a O,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<()>>;
}

impl<I: Sync, O: Sync, V: Validator<I, O>> ErasedValidator<I, O> for V {
    fn check_boxed<'a>(
        &'a self,
        input: &'a I,
        output: &'a O,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.check(input, output, cx))
    }
}

impl<I: Sync, O: Sync> Validators<I, O> {
    /// Adds a validator, after those added before.
    #[must_use]
    pub fn with(mut self, validator: impl Validator<I, O>) -> Self {
        self.0.push(Arc::new(validator));
        self
    }

    /// Returns whether there is no validator.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks an output with all validators in order.
    ///
    /// # Errors
    ///
    /// The first error of a validator. If its audience is
    /// [`ModelMayRetry`](crate::error::Audience::ModelMayRetry), the model should read it and answer
    /// again.
    pub async fn check(&self, input: &I, output: &O, cx: &Context) -> Result<()> {
        for validator in &self.0 {
            validator.check_boxed(input, output, cx).await?;
        }
        Ok(())
    }
}

impl<I, O> Default for Validators<I, O> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<I, O> Clone for Validators<I, O> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<I, O> fmt::Debug for Validators<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Validators").field(&self.0.len()).finish()
    }
}
