//! `#[data]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Item, Path, parse_quote};

use crate::arguments::{Arguments, Attribute};
use crate::faults::Faults;
use crate::tool::derive_paths;

/// Expands `#[data]`. `krate` is the default of the argument `crate`.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream, krate: Path) -> TokenStream {
    let mut faults = Faults::default();
    let krate = Arguments::parse(arguments, Attribute::Data, &mut faults).krate.unwrap_or(krate);
    match syn::parse2::<Item>(item.clone()) {
        Ok(Item::Struct(_) | Item::Enum(_)) => {}
        Ok(other) => faults.at(other, "`#[data]` goes on a struct or an enum"),
        Err(error) => faults.add(error),
    }
    if let Some(errors) = faults.compile_errors() {
        return quote!(#item #errors);
    }
    let private: Path = parse_quote!(#krate::__private);
    let paths = derive_paths(&private);
    quote! {
        #[derive(
            ::core::fmt::Debug,
            ::core::clone::Clone,
            #private::serde::Serialize,
            #private::serde::Deserialize,
            #private::schemars::JsonSchema,
        )]
        #paths
        #item
    }
}
