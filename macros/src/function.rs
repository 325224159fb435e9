//! `#[tool]` on a function.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{FnArg, ImplItemFn, Item, ItemFn, Path, parse_quote};

use crate::arguments::{Arguments, Attribute};
use crate::faults::Faults;
use crate::tool::{Tool, camel_case};

/// Expands `#[tool]`. `krate` is the default of the argument `crate`.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream, krate: Path) -> TokenStream {
    let mut faults = Faults::default();
    let mut function = match parse(&item) {
        Ok(function) => function,
        Err(error) => {
            faults.add(error);
            let errors = faults.compile_errors();
            return quote!(#item #errors);
        }
    };
    let arguments = Arguments::parse(arguments, Attribute::Tool, &mut faults);
    let tool = tool(&mut function, arguments, krate, &mut faults);
    let errors = faults.compile_errors();
    let (None, Some(tool)) = (&errors, tool) else {
        return quote!(#function #errors);
    };
    let (checks, warnings) = (tool.checks(), tool.warnings());
    let (signature, module) = (tool.signature(), tool.module(None));
    quote! {
        #function
        #checks
        #signature
        const _: () = { #module };
        #warnings
    }
}

fn tool(
    function: &mut ItemFn,
    arguments: Arguments,
    krate: Path,
    faults: &mut Faults,
) -> Option<Tool> {
    let krate = arguments.krate.clone().unwrap_or(krate);
    let ItemFn { attrs, vis, sig, .. } = function;
    let name = sig.ident.to_string();
    let name = name.trim_start_matches("r#").to_owned();
    let type_name = camel_case(&name);
    if let Some(FnArg::Receiver(receiver)) = sig.inputs.first() {
        let text = "this is a method: put `#[toolset]` on its impl block, and `#[tool]` stays here";
        faults.at(receiver, text);
    }
    let private = parse_quote!(#krate::__private);
    Tool::new(attrs, vis, sig, arguments, private, (name, type_name), faults)
}

/// Reads a function. A method is read as one, so that its error says where it belongs.
fn parse(item: &TokenStream) -> syn::Result<ItemFn> {
    if let Ok(function) = syn::parse2::<ItemFn>(item.clone()) {
        return Ok(function);
    }
    if syn::parse2::<ImplItemFn>(item.clone()).is_err() && syn::parse2::<Item>(item.clone()).is_ok()
    {
        let text = "`#[tool]` goes on a function; on an impl block write `#[toolset]`, and \
                    `#[tool]` on its methods";
        return Err(syn::Error::new_spanned(item.to_token_stream(), text));
    }
    syn::parse2(item.clone())
}
