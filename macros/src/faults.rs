//! [`Faults`], the errors of one use of a macro.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::Error;

/// The errors of one use of a macro. They are all reported together, each at the code it is about.
#[derive(Default)]
pub(crate) struct Faults(Option<Error>);

impl Faults {
    /// Adds an error at these tokens.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, text: impl std::fmt::Display) {
        self.add(Error::new_spanned(tokens, text));
    }

    pub(crate) fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            first => *first = Some(error),
        }
    }

    /// Adds the error of a result, if it is one.
    pub(crate) fn ok<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    /// Returns the errors as code that does not compile, if there are any.
    pub(crate) fn compile_errors(&self) -> Option<TokenStream> {
        self.0.as_ref().map(Error::to_compile_error)
    }
}
