//! The items that the attribute macros expand to. They are not part of the public API.

use std::fmt::Display;

pub use schemars;
pub use serde;
pub use toolwright_signature::{ContractError, Signature};

pub use crate::context::Context;
pub use crate::effect::Effect;
use crate::error::Stage;
pub use crate::error::{Error, Result};
pub use crate::module::{Module, OutputOf};
pub use crate::tool::Tool;

/// The error that a function returned. The compiler chooses the first of two conversions that its
/// type allows: one of [`IntoError`], or else that of [`ShownError`] by a reference more.
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
