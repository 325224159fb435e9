//! Code that asks for the traits of the types that a user wrote.
//!
//! The derives of serde and schemars ask for them too, but only in bodies of functions, and in terms of
//! serde. An array type is checked before any body, so its error is the first one.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Ident, Meta, Path, Type};

use crate::types;

/// Types that have the traits, so that the code need not ask.
const PLAIN: [&str; 17] = [
    "String", "str", "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize",
    "u8", "u16", "u32", "u64", "usize",
];

/// Types that have the traits if their type arguments have them.
const CONTAINERS: [&str; 9] =
    ["Option", "Vec", "VecDeque", "Box", "Arc", "HashMap", "BTreeMap", "HashSet", "BTreeSet"];

/// Arguments by which an attribute of serde or schemars puts another type in place of the field's.
const REPLACES: [&str; 11] = [
    "with",
    "schema_with",
    "serialize_with",
    "deserialize_with",
    "skip",
    "skip_serializing",
    "skip_deserializing",
    "from",
    "try_from",
    "into",
    "remote",
];

/// Returns code that compiles if each of `types` implements the trait `name` of `private`. `copied`
/// are the attributes of that code.
pub(crate) fn code<'a>(
    types: impl IntoIterator<Item = &'a Type>,
    name: &Ident,
    private: &Path,
    copied: &[Attribute],
) -> TokenStream {
    let mut all = Vec::new();
    for ty in types {
        parts(ty, &mut all);
    }
    let mut seen = Vec::new();
    // One mistake is one error, also if the type is there twice.
    all.retain(|part| {
        let text = part.to_token_stream().to_string();
        let is_new = !seen.contains(&text);
        seen.push(text);
        is_new
    });
    all.into_iter()
        .map(|part| {
            let none = quote_spanned!(part.span()=> <#part as #private::#name>::NONE);
            quote!(#(#copied)* const _: [(); #none] = [];)
        })
        .collect()
}

/// Adds the types that a type consists of: `Option<Vec<Point>>` of `Point`. The error then points at
/// the part that is wrong.
fn parts<'a>(ty: &'a Type, all: &mut Vec<&'a Type>) {
    match types::bare(ty) {
        Type::Tuple(tuple) => tuple.elems.iter().for_each(|ty| parts(ty, all)),
        Type::Array(array) => parts(&array.elem, all),
        // Such as that of an `Arc<[T]>`.
        Type::Slice(slice) => parts(&slice.elem, all),
        ty => match types::named(ty) {
            Some((name, inner))
                if !inner.is_empty() && CONTAINERS.iter().any(|container| name == container) =>
            {
                inner.into_iter().for_each(|ty| parts(ty, all));
            }
            Some((name, _)) if PLAIN.iter().any(|plain| name == plain) => {}
            _ => all.push(ty),
        },
    }
}

/// Returns whether attributes of serde or schemars use another type than the one that is written, so
/// that this one needs no traits.
pub(crate) fn is_replaced(attributes: &[Attribute]) -> bool {
    has_word(attributes, &REPLACES)
}

/// Returns whether an attribute of serde or schemars has one of these words as an argument.
pub(crate) fn has_word(attributes: &[Attribute], words: &[&str]) -> bool {
    let of_serde = |attribute: &&Attribute| {
        attribute.path().is_ident("serde") || attribute.path().is_ident("schemars")
    };
    attributes.iter().filter(of_serde).any(|attribute| match &attribute.meta {
        Meta::List(list) => list.tokens.clone().into_iter().any(|token| match token {
            TokenTree::Ident(name) => words.iter().any(|word| name == word),
            _ => false,
        }),
        _ => false,
    })
}
