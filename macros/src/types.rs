//! Questions about types as they are written. A macro sees names, not what they stand for.

use proc_macro2::{Spacing, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{GenericArgument, Ident, PathArguments, Type};

/// Returns a type without invisible groups and parentheses.
pub(crate) fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        ty => ty,
    }
}

/// Returns the last name of a path, with its type arguments: `io::Result<T>` is `Result`, `[T]`.
pub(crate) fn named(ty: &Type) -> Option<(&Ident, Vec<&Type>)> {
    let Type::Path(path) = bare(ty) else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return Some((&last.ident, Vec::new()));
    };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    Some((&last.ident, types.collect()))
}

pub(crate) fn is_context(ty: &Type) -> bool {
    named(ty).is_some_and(|(name, _)| name == "Context")
}

/// Returns the first token by which a type borrows: `&` or a lifetime. A `Cow<'static, str>` owns its
/// value, because it is read from JSON.
pub(crate) fn borrow_in(ty: &Type) -> Option<TokenTree> {
    let is_borrow = |token: &TokenTree, next: Option<&TokenTree>| match token {
        TokenTree::Punct(punct) if punct.as_char() == '\'' => {
            punct.spacing() == Spacing::Joint
                && !matches!(next, Some(TokenTree::Ident(name)) if name == "static")
        }
        TokenTree::Punct(punct) => punct.as_char() == '&',
        _ => false,
    };
    find(ty.to_token_stream(), &is_borrow)
}

/// Returns the first `Self` in a type.
pub(crate) fn self_in(ty: &Type) -> Option<TokenTree> {
    find(
        ty.to_token_stream(),
        &|token, _| matches!(token, TokenTree::Ident(name) if name == "Self"),
    )
}

/// Returns the first token that `is_it` accepts. It gets each token with the next one.
fn find(
    tokens: TokenStream,
    is_it: &impl Fn(&TokenTree, Option<&TokenTree>) -> bool,
) -> Option<TokenTree> {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let found = match token {
            TokenTree::Group(group) => find(group.stream(), is_it),
            token => is_it(&token, tokens.peek()).then_some(token),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}
