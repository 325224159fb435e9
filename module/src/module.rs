//! The [`Module`] trait, modules made of closures, and type-erased modules.
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use toolwright_signature::Signature;

use crate::context::Context;
use crate::effect::Effect;
use crate::error::Result;

/// The output type of a module's signature.
pub type OutputOf<M> = <<M as Module>::Signature as Signature>::Output;

/// The implementation of one signature: code, a language model, or both.
///
/// A caller sees only the signature. A test can therefore use a closure where production uses a
/// model.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
/// use toolwright_module::testing::Scripted;
/// use toolwright_module::{Context, Module, Predict, Reply, Result, Signature};
///
/// /// Say what language a text is in.
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct DetectLanguage {
///     text: String,
/// }
///
/// impl Signature for DetectLanguage {
///     type Output = String;
/// }
///
/// /// Code.
/// struct ByArticle;
///
/// impl Module for ByArticle {
///     type Signature = DetectLanguage;
///
///     async fn call(&self, input: DetectLanguage, _cx: &Context) -> Result<String> {
///         let german = input.text.split(' ').any(|word| word == "der");
///         Ok(if german { "German" } else { "unknown" }.to_owned())
///     }
/// }
///
/// // One caller for every module.
/// async fn ask(module: impl Module<Signature = DetectLanguage>) -> Result<String> {
///     module.call(DetectLanguage { text: "der Hund".to_owned() }, &Context::default()).await
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// // A language model.
/// let model = Scripted::new(|_| Ok(Reply::text(r#"{"result": "German"}"#)));
/// let by_model = Predict::<DetectLanguage>::new(model)?;
///
/// assert_eq!(ask(ByArticle).await?, "German");
/// assert_eq!(ask(by_model).await?, "German");
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a module",
    label = "this type does not implement `Module`",
    note = "write `impl Module for {Self}`, or make one with `from_fn`, `Predict` or `ChainOfThought`"
)]
pub trait Module: Send + Sync + 'static {
    /// The signature that the module implements.
    type Signature: Signature;

    /// Runs the module. Pass `cx` on to every module and model that it calls.
    ///
    /// The compiler checks the types. Rules of the schema that a type does not enforce, such as
    /// `range(max = 5)`, are checked only at the edge: [`Tool`](crate::Tool) checks every output, and
    /// modules of a language model read the model's answer by them. A direct call of code returns what
    /// the code returns; [`Contract::check_output`](toolwright_signature::Contract::check_output)
    /// checks it.
    ///
    /// # Errors
    ///
    /// Any error. Its [`Audience`](crate::error::Audience) decides whether the model or only the
    /// caller sees it.
    fn call(
        &self,
        input: Self::Signature,
        cx: &Context,
    ) -> impl Future<Output = Result<OutputOf<Self>>> + Send;

    /// Returns the effect of a call. Default: [`Effect::Write`].
    fn effect(&self) -> Effect {
        Effect::Write
    }

    /// Returns whether everything that a call does goes through runs of agents. Default: `false`.
    ///
    /// Agents return `true`. A durable engine then keeps the questions and calls of the run inside,
    /// instead of the call as a whole.
    fn has_parts(&self) -> bool {
        false
    }

    /// Returns whether a call's output contains text that strangers wrote, such as a web page.
    /// Default: `false`. See [`Tool::untrusted`](crate::Tool::untrusted).
    fn is_untrusted(&self) -> bool {
        false
    }
}

impl<M: Module> Module for Arc<M> {
    type Signature = M::Signature;

    async fn call(&self, input: Self::Signature, cx: &Context) -> Result<OutputOf<M>> {
        (**self).call(input, cx).await
    }

    fn effect(&self) -> Effect {
        (**self).effect()
    }

    fn has_parts(&self) -> bool {
        (**self).has_parts()
    }

    fn is_untrusted(&self) -> bool {
        (**self).is_untrusted()
    }
}

/// A module made of a closure; see [`from_fn`] and [`from_fn_with`].
pub struct FromFn<S, F> {
    f: F,
    effect: Effect,
    signature: PhantomData<fn(S)>,
}

impl<S, F> FromFn<S, F> {
    /// Sets the effect of a call. Default: [`Effect::Write`].
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }
}

impl<S, F> fmt::Debug for FromFn<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFn").field("effect", &self.effect).finish_non_exhaustive()
    }
}

/// Returns a module made of a closure.
///
/// An async closure lends its captures to its future, so the future cannot leave the closure. Clone
/// the captures into the async block of a plain closure, as below, or write a struct and `impl
/// Module` for it.
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # use std::collections::BTreeMap;
/// # use std::sync::Arc;
/// # use toolwright_module::{Context, Error, Module, Signature, from_fn};
/// # /// Say how old a person is.
/// # #[derive(Serialize, Deserialize, JsonSchema)]
/// # struct GetAge { name: String }
/// # impl Signature for GetAge { type Output = u32; }
/// # let ages = Arc::new(BTreeMap::from([("Kate".to_owned(), 41)]));
/// let get_age = from_fn(move |ask: GetAge| {
///     let ages = Arc::clone(&ages);
///     async move { ages.get(&ask.name).copied().ok_or(Error::refuse("no such person")) }
/// });
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// assert_eq!(get_age.call(GetAge { name: "Kate".to_owned() }, &Context::default()).await?, 41);
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Without captures:
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// use toolwright_module::{Context, Effect, Module, Signature, from_fn};
///
/// /// Add two numbers.
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Add {
///     a: i64,
///     b: i64,
/// }
///
/// impl Signature for Add {
///     type Output = i64;
/// }
///
/// let add = from_fn(async |Add { a, b }: Add| Ok(a + b)).with_effect(Effect::Read);
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// assert_eq!(add.call(Add { a: 2, b: 3 }, &Context::default()).await?, 5);
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn from_fn<S, F, Fut>(f: F) -> FromFn<S, impl Fn(S, Context) -> Fut + Send + Sync + 'static>
where
    S: Signature,
    F: Fn(S) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<S::Output>> + Send + 'static,
{
    from_fn_with(move |input, _cx| f(input))
}

/// Returns a module made of a closure that also takes the context.
///
/// The closure gets the context by value, because it cannot lend it to its own future.
pub fn from_fn_with<S, F, Fut>(f: F) -> FromFn<S, F>
where
    S: Signature,
    F: Fn(S, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<S::Output>> + Send + 'static,
{
    FromFn { f, effect: Effect::Write, signature: PhantomData }
}

impl<S, F, Fut> Module for FromFn<S, F>
where
    S: Signature,
    F: Fn(S, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<S::Output>> + Send + 'static,
{
    type Signature = S;

    async fn call(&self, input: S, cx: &Context) -> Result<S::Output> {
        (self.f)(input, cx.clone()).await
    }

    fn effect(&self) -> Effect {
        self.effect
    }
}

/// A module of any type that fulfils `S`, chosen at run time.
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # use toolwright_module::{AnyModule, Predict, Signature, from_fn, testing::SchemaDriven};
/// # /// Give an answer.
/// # #[derive(Serialize, Deserialize, JsonSchema)]
/// # struct Answer {}
/// # impl Signature for Answer { type Output = String; }
/// # let offline = true;
/// let module: AnyModule<Answer> = if offline {
///     AnyModule::new(from_fn(async |_: Answer| Ok("42".to_owned())))
/// } else {
///     AnyModule::new(Predict::new(SchemaDriven::default())?)
/// };
/// # Ok::<(), toolwright_signature::ContractError>(())
/// ```
///
/// A fallback tries one module, such as code or a cheap model, and then another. It must not retry
/// errors that end the run.
///
/// ```
/// # use toolwright_module::{AnyModule, Context, Module, Result, Signature};
/// # use toolwright_module::error::Audience;
/// async fn first<S: Signature + Clone>(
///     tried: &AnyModule<S>,
///     otherwise: &AnyModule<S>,
///     input: S,
///     cx: &Context,
/// ) -> Result<S::Output> {
///     match tried.call(input.clone(), cx).await {
///         Err(error) if error.audience() != Audience::Run && !cx.is_cancelled() => {
///             otherwise.call(input, cx).await
///         }
///         ended => ended,
///     }
/// }
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # use toolwright_module::{Error, from_fn};
/// # /// Give an answer.
/// # #[derive(Clone, Serialize, Deserialize, JsonSchema)]
/// # struct Answer {}
/// # impl Signature for Answer { type Output = String; }
/// # let code = AnyModule::new(from_fn(async |_: Answer| Err(Error::other("no index"))));
/// # let model = AnyModule::new(from_fn(async |_: Answer| Ok("42".to_owned())));
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let cx = Context::default();
/// # assert_eq!(first(&code, &model, Answer {}, &cx).await?, "42");
/// # Ok::<(), Error>(()) })?;
/// # Ok::<(), Error>(())
/// ```
pub struct AnyModule<S: Signature>(Arc<dyn ErasedModule<S>>);

trait ErasedModule<S: Signature>: Send + Sync {
    fn call_boxed<'a>(&'a self, input: S, cx: &'a Context) -> BoxFuture<'a, Result<S::Output>>;
    fn effect(&self) -> Effect;
    fn has_parts(&self) -> bool;
    fn is_untrusted(&self) -> bool;
}

impl<M: Module> ErasedModule<M::Signature> for M {
    fn call_boxed<'a>(
        &'a self,
        input: M::Signature,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<OutputOf<M>>> {
        Box::pin(Module::call(self, input, cx))
    }

    fn effect(&self) -> Effect {
        Module::effect(self)
    }

    fn has_parts(&self) -> bool {
        Module::has_parts(self)
    }

    fn is_untrusted(&self) -> bool {
        Module::is_untrusted(self)
    }
}

impl<S: Signature> AnyModule<S> {
    /// Erases the type of a module.
    pub fn new(module: impl Module<Signature = S>) -> Self {
        Self(Arc::new(module))
    }
}

impl<S: Signature> Clone for AnyModule<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Signature> fmt::Debug for AnyModule<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyModule").field(&S::name()).finish()
    }
}

impl<S: Signature> Module for AnyModule<S> {
    type Signature = S;

    async fn call(&self, input: S, cx: &Context) -> Result<S::Output> {
        self.0.call_boxed(input, cx).await
    }

    fn effect(&self) -> Effect {
        self.0.effect()
    }

    fn has_parts(&self) -> bool {
        self.0.has_parts()
    }

    fn is_untrusted(&self) -> bool {
        self.0.is_untrusted()
    }
}
