//! The items that the attribute macros expand to. They are not part of the public API.

use std::borrow::Cow;
use std::fmt::{Debug, Display};

pub use schemars;
use schemars::JsonSchema;
pub use serde;
use serde::Serialize;
use serde::de::DeserializeOwned;
pub use toolwright_signature::{ContractError, Signature};

pub use crate::context::Context;
pub use crate::effect::Effect;
use crate::error::Stage;
pub use crate::error::{Error, Result};
pub use crate::module::{Module, OutputOf};
pub use crate::tool::Tool;
pub use crate::wire_name::wire_name;

/// The error that a function returned. The compiler chooses the first of three methods that its type
/// allows: that of [`IntoError`] by value, of [`ShownError`] by reference, or of [`UnfitError`] by
/// mutable reference.
///
/// The method has a name that no error has.
pub struct Returned<E>(pub E);

/// The conversion of errors that `?` converts too.
pub trait IntoError {
    /// Returns the error.
    fn __toolwright_error(self) -> Error;
}

impl<E: Into<Error>> IntoError for Returned<E> {
    fn __toolwright_error(self) -> Error {
        self.0.into()
    }
}

/// The conversion of what only has a text, such as a `String`. The model does not see the text.
pub trait ShownError {
    /// Returns the error.
    fn __toolwright_error(self) -> Error;
}

impl<E: Display> ShownError for &Returned<E> {
    fn __toolwright_error(self) -> Error {
        Error::other(self.0.to_string())
    }
}

/// The conversion of all other types. Its bound is never met, so it is an error that says what to do.
pub trait UnfitError<E> {
    /// Returns the error.
    fn __toolwright_error(self) -> Error
    where
        E: ToolError;
}

impl<E> UnfitError<E> for &mut Returned<E> {
    fn __toolwright_error(self) -> Error
    where
        E: ToolError,
    {
        Error::other(self.0.text())
    }
}

/// An error that a tool may return. No type implements this trait, because [`IntoError`] and
/// [`ShownError`] take all types that fit.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a tool",
    label = "`{Self}` implements neither `std::error::Error` nor `Display`",
    note = "implement `Display` and `std::error::Error` for `{Self}`, or return `Error`: \
            `.map_err(|_| Error::retry(\"what the model should change\"))`"
)]
pub trait ToolError {
    /// Returns the text for the user.
    fn text(&self) -> String;
}

/// The type of a parameter that a model writes. The attributes ask for it before anything else does,
/// so that the first error says what to do.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter that a model writes",
    label = "`{Self}` does not implement `Serialize`, `Deserialize` and `JsonSchema`",
    note = "if the model writes this value, put `#[data]` above the definition of `{Self}`",
    note = "if the program supplies it, write `#[context]` before the parameter, with the type `&{Self}`",
    note = "for a type of another crate, turn on the features of that crate and of `schemars` that \
            implement these traits, or wrap it in a type with `#[data]`"
)]
pub trait Argument {
    /// The length of an empty array. A type that names it is checked before the bodies of functions.
    const NONE: usize = 0;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + JsonSchema> Argument for T {}

/// The type of an output.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the output of a tool",
    label = "`{Self}` does not implement `Serialize`, `Deserialize` and `JsonSchema`",
    note = "put `#[data]` above the definition of `{Self}`",
    note = "the attribute does not recognise an alias of a `Result`: write `Result<…>` itself",
    note = "for a type of another crate, turn on the features of that crate and of `schemars` that \
            implement these traits, or wrap it in a type with `#[data]`"
)]
pub trait Output {
    /// The length of an empty array.
    const NONE: usize = 0;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + JsonSchema> Output for T {}

/// A type, for the question whether it is a `Result`. The compiler prefers the constant of the type
/// itself to that of [`NoResult`], and it looks behind aliases.
pub struct Whole<T>(std::marker::PhantomData<T>);

impl<T, E> Whole<std::result::Result<T, E>> {
    /// Whether the type is a `Result`.
    pub const IS_RESULT: bool = true;
}

/// The answer for all other types.
pub trait NoResult {
    /// Whether the type is a `Result`.
    const IS_RESULT: bool = false;
}

impl<T> NoResult for Whole<T> {}

/// The type of a field of a type with `#[data]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a type with `#[data]`",
    label = "`{Self}` does not implement all traits that `#[data]` derives",
    note = "put `#[data]` above the definition of `{Self}` too",
    note = "for a type of another crate, turn on the features of that crate and of `schemars` that \
            implement these traits, or wrap it in a type with `#[data]`"
)]
pub trait Field {
    /// The length of an empty array.
    const NONE: usize = 0;
}

#[diagnostic::do_not_recommend]
impl<T: Debug + Clone + Serialize + DeserializeOwned + JsonSchema> Field for T {}

/// Returns the value of the context for a parameter of `tool`.
pub fn value<'a, T: ?Sized + Send + Sync + 'static>(cx: &'a Context, tool: &str) -> Result<&'a T> {
    cx.get::<T>().ok_or_else(|| {
        let name = std::any::type_name::<T>();
        let text = format!(
            "`{tool}` needs a value of type `{name}` in its context; add one with `Context::with`"
        );
        Error::stop(text).at(Stage::Setup)
    })
}

/// A toolset that its tools can share.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be shared by its tools",
    label = "this toolset does not implement `Clone`",
    note = "derive `Clone`, and keep what changes in an `Arc`, such as `Arc<Mutex<…>>`"
)]
pub trait Shared {
    /// Returns a clone, which shares the state.
    fn __toolwright_shared(&self) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T: Clone> Shared for T {
    fn __toolwright_shared(&self) -> Self {
        self.clone()
    }
}

/// A toolset whose tools may run on any thread.
#[diagnostic::on_unimplemented(
    message = "the tools of `{Self}` cannot run on several threads",
    label = "this toolset holds something that only one thread may use, such as an `Rc`",
    note = "tools run on any thread: use `Arc` instead of `Rc`, and `Mutex` instead of `RefCell` or `Cell`"
)]
pub trait OnAnyThread {}

#[diagnostic::do_not_recommend]
impl<T: Send + Sync + 'static> OnAnyThread for T {}

/// Returns whether a path of `module_path!()` is that of a module, and not of a crate's root.
#[must_use]
pub const fn is_module(path: &str) -> bool {
    let bytes = path.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b':' {
            return true;
        }
        at += 1;
    }
    false
}

/// Returns the name of a tool after the path of its module, without the crate: `legal_search_cases`.
#[must_use]
pub fn namespaced(module: &str, name: &'static str) -> Cow<'static, str> {
    let Some((_, path)) = module.split_once("::") else { return Cow::Borrowed(name) };
    let parts = path.split("::").map(|part| part.trim_start_matches("r#"));
    Cow::Owned(parts.chain([name]).collect::<Vec<_>>().join("_"))
}
