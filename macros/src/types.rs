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

/// Returns the first token by which a type borrows: `&` or a lifetime.
pub(crate) fn borrow_in(ty: &Type) -> Option<TokenTree> {
    find(ty.to_token_stream(), &|token| match token {
        TokenTree::Punct(punct) => {
            punct.as_char() == '&' || punct.as_char() == '\'' && punct.spacing() == Spacing::Joint
        }
        _ => false,
    })
}

/// Returns the first `Self` in a type.
pub(crate) fn self_in(ty: &Type) -> Option<TokenTree> {
    find(ty.to_token_stream(), &|token| matches!(token, TokenTree::Ident(name) if name == "Self"))
}

fn find(tokens: TokenStream, is_it: &impl Fn(&TokenTree) -> bool) -> Option<TokenTree> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Group(group) => find(group.stream(), is_it),
        token => is_it(&token).then_some(token),
    })
}
