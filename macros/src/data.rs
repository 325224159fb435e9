//! `#[data]`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Attribute as Mark, Fields, Ident, Item, ItemEnum, Path, Type, parse_quote};

use crate::arguments::{Arguments, Attribute};
use crate::check::{self, has_word, is_replaced};
use crate::faults::Faults;
use crate::tool::derive_paths;
use crate::types;

/// Expands `#[data]`. `krate` is the default of the argument `crate`.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream, krate: Path) -> TokenStream {
    let mut faults = Faults::default();
    let krate = Arguments::parse(arguments, Attribute::Data, &mut faults).krate.unwrap_or(krate);
    let parsed = syn::parse2::<Item>(item.clone());
    match &parsed {
        Ok(Item::Struct(_) | Item::Enum(_)) => {}
        Ok(other) => faults.at(other, "`#[data]` goes on a struct or an enum"),
        Err(error) => faults.add(error.clone()),
    }
    if let Some(errors) = faults.compile_errors() {
        return quote!(#item #errors);
    }
    let private: Path = parse_quote!(#krate::__private);
    let paths = derive_paths(&private);
    let checks = parsed.as_ref().map(|item| checks(item, &private)).unwrap_or_default();
    let as_str = match &parsed {
        Ok(Item::Enum(item)) if has_wire_names(item) => Some(as_str(item, &private)),
        _ => None,
    };
    quote! {
        #checks
        #[derive(
            ::core::fmt::Debug,
            ::core::clone::Clone,
            #private::serde::Serialize,
            #private::serde::Deserialize,
            #private::schemars::JsonSchema,
        )]
        #paths
        #item
        #as_str
    }
}

/// Returns whether serde writes every value of an enum as one text.
fn has_wire_names(item: &ItemEnum) -> bool {
    // With these, serde writes an object, another type's value, or nothing.
    let others = |marks: &[Mark]| is_replaced(marks) || has_word(marks, &["tag", "untagged"]);
    // The macro does not see what such an attribute adds.
    let conditional = |marks: &[Mark]| marks.iter().any(|mark| mark.path().is_ident("cfg_attr"));
    let odd = |marks: &[Mark]| others(marks) || conditional(marks);
    item.generics.params.is_empty()
        && !item.variants.is_empty()
        && !odd(&item.attrs)
        && item
            .variants
            .iter()
            .all(|variant| matches!(variant.fields, Fields::Unit) && !odd(&variant.attrs))
}

/// Returns the method `as_str` of an enum. serde supplies the names, so they are those in JSON.
fn as_str(item: &ItemEnum, private: &Path) -> TokenStream {
    let (name, visibility) = (&item.ident, &item.vis);
    let copied = item.attrs.iter().filter(|mark| mark.path().is_ident("cfg"));
    quote! {
        #(#copied)*
        impl #name {
            /// Returns the name of this value in JSON, as a model reads and writes it.
            #[allow(dead_code)]
            #[must_use]
            #visibility fn as_str(&self) -> &'static str {
                #private::wire_name(self)
            }
        }
    }
}

/// Returns code that asks for the traits of the fields.
fn checks(item: &Item, private: &Path) -> TokenStream {
    let (attributes, generics, variants) = match item {
        Item::Struct(item) => (&item.attrs, &item.generics, vec![(&[][..], &item.fields)]),
        Item::Enum(item) => {
            let variants = item.variants.iter();
            let variants = variants.map(|variant| (&variant.attrs[..], &variant.fields));
            (&item.attrs, &item.generics, variants.collect())
        }
        _ => return TokenStream::new(),
    };
    // The code stands outside of the item, where its parameters have no meaning.
    if !generics.params.is_empty() || is_replaced(attributes) {
        return TokenStream::new();
    }
    let is_cfg = |mark: &&Mark| mark.path().is_ident("cfg") || mark.path().is_ident("cfg_attr");
    let has_cfg = |marks: &[Mark]| marks.iter().any(|mark| is_cfg(&mark));
    let fields = variants
        .into_iter()
        .filter(|(marks, _)| !is_replaced(marks) && !has_cfg(marks))
        .flat_map(|(_, fields): (_, &Fields)| fields)
        .filter(|field| !is_replaced(&field.attrs) && !has_cfg(&field.attrs))
        .map(|field| &field.ty)
        .filter(|ty| types::self_in(ty).is_none() && types::borrow_in(ty).is_none());
    let fields: Vec<&Type> = fields.collect();
    let copied = attributes.iter().filter(|mark| mark.path().is_ident("cfg"));
    let copied: Vec<Mark> = copied.cloned().collect();
    check::code(fields, &Ident::new("Field", Span::call_site()), private, &copied)
}
