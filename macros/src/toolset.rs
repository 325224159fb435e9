//! `#[toolset]`.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, FnArg, Ident, ImplItem, ImplItemFn, ItemImpl, Meta, Path, Type, parse_quote};

use crate::arguments::{Arguments, Attribute};
use crate::faults::Faults;
use crate::tool::{Owner, Tool, camel_case, check_receiver, snake_case};
use crate::types;

/// Expands `#[toolset]`. `krate` is the default of the argument `crate`.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream, krate: Path) -> TokenStream {
    let mut faults = Faults::default();
    let mut block = match syn::parse2::<ItemImpl>(item.clone()) {
        Ok(block) => block,
        Err(_) => {
            let text = "`#[toolset]` goes on an impl block; on a function write `#[tool]`";
            faults.at(&item, text);
            let errors = faults.compile_errors();
            return quote!(#item #errors);
        }
    };
    let arguments = Arguments::parse(arguments, Attribute::Toolset, &mut faults);
    let private: Path = {
        let krate = arguments.krate.clone().unwrap_or(krate);
        parse_quote!(#krate::__private)
    };
    let name = name(&block, &mut faults);
    let tools = tools(&mut block, name.as_ref(), &arguments, &private, &mut faults);
    let errors = faults.compile_errors();
    if errors.is_some() {
        return quote!(#block #errors);
    }
    let ty = &*block.self_ty;
    let list = list(ty, &tools, &private);
    let checks = tools.iter().map(|(tool, _)| tool.checks());
    let signatures = tools.iter().map(|(tool, _)| tool.signature());
    let warnings = tools.iter().map(|(tool, _)| tool.warnings());
    let modules = tools
        .iter()
        .map(|(tool, has_receiver)| tool.module(Some(&Owner { ty, has_receiver: *has_receiver })));
    // One place asks for `Clone`, so that one error says that it is missing.
    let shared = quote_spanned! {ty.span()=>
        #[allow(dead_code)]
        fn shared(toolset: &#ty) -> #ty {
            #private::Shared::__toolwright_shared(toolset)
        }
    };
    // A bound of an item is checked before the bodies of functions, so that this error comes first.
    let any_thread = quote_spanned! {ty.span()=>
        #[allow(dead_code, trivial_bounds)]
        struct AnyThread
        where
            #ty: #private::OnAnyThread;
    };
    quote! {
        const _: () = {
            #any_thread
        };
        #block
        #(#checks)*
        #list
        #(#signatures)*
        const _: () = {
            #shared
            #(#modules)*
        };
        #(#warnings)*
    }
}

/// Returns the name of the type, which begins the names of its signatures.
fn name(block: &ItemImpl, faults: &mut Faults) -> Option<Ident> {
    if let Some((path, _)) = &block.trait_ {
        let text = "the methods of a trait are those of many types: put `#[toolset]` on an impl \
                    block without a trait";
        faults.at(path, text);
    }
    if !block.generics.params.is_empty() {
        let text = "a toolset has one list of contracts, so it cannot be generic; write the type";
        faults.at(&block.generics.params, text);
    }
    if let Some(borrow) = types::borrow_in(&block.self_ty) {
        faults.at(borrow, "a tool lives longer than its list: a toolset owns what it holds");
    }
    let name = types::named(&block.self_ty).map(|(name, _)| name.clone());
    if name.is_none() {
        faults.at(&block.self_ty, "a toolset needs a type with a name: write a struct");
    }
    name
}

/// Returns the tools of a block, each with whether its method takes `&self`.
fn tools(
    block: &mut ItemImpl,
    name: Option<&Ident>,
    arguments: &Arguments,
    private: &Path,
    faults: &mut Faults,
) -> Vec<(Tool, bool)> {
    let type_name = name.map(Ident::to_string).unwrap_or_default();
    let prefix = match &arguments.prefix {
        Some(prefix) => prefix.value(),
        None => snake_case(&type_name),
    };
    let (mut tools, mut marked) = (Vec::new(), false);
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else { continue };
        if method.sig.ident == "tools" {
            let text = "`#[toolset]` adds a method `tools`: rename this one; for the model, set the \
                        name with `#[tool(name = \"…\")]`";
            faults.at(&method.sig.ident, text);
        }
        let Some(mut own) = take_mark(method, faults) else { continue };
        marked = true;
        own.effect = own.effect.or_else(|| arguments.effect.clone());
        own.untrusted = own.untrusted.or_else(|| arguments.untrusted.clone());
        own.derives.extend(arguments.derives.iter().cloned());
        own.namespace = arguments.namespace.clone();
        let ImplItemFn { attrs, vis, sig, .. } = method;
        let has_receiver = match sig.inputs.first() {
            Some(FnArg::Receiver(receiver)) => {
                check_receiver(receiver, faults);
                true
            }
            _ => false,
        };
        let name = sig.ident.to_string();
        let name = name.trim_start_matches("r#");
        let type_name = type_name.trim_start_matches("r#").to_owned() + &camel_case(name);
        let name = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}_{name}") };
        let names = (name, type_name);
        let tool = Tool::new(attrs, vis, sig, own, private.clone(), names, faults);
        tools.extend(tool.map(|tool| (tool, has_receiver)));
    }
    if !marked {
        let text = "this toolset has no tools: write `#[tool]` above the methods that are tools";
        faults.at(&block.self_ty, text);
    }
    distinct(&tools, faults);
    tools
}

/// Reports tools with the same method, name or signature. Those with a `cfg` may exclude each other.
fn distinct(tools: &[(Tool, bool)], faults: &mut Faults) {
    let tools: Vec<&Tool> = tools.iter().map(|(tool, _)| tool).collect();
    for (at, tool) in tools.iter().enumerate() {
        let others = tools[..at].iter();
        let mut others = others.filter(|other| tool.cfg().next().or(other.cfg().next()).is_none());
        let same = others.find_map(|other| {
            let (method, name) = (&tool.function, tool.name.value());
            if *method == other.function {
                let text = format!("two tools have the method `{method}`: rename one");
                return Some(Error::new_spanned(method, text));
            }
            if name == other.name.value() {
                let text = format!("two tools have the name `{name}`: set another one");
                return Some(Error::new_spanned(&tool.name, text));
            }
            let signature = &tool.signature;
            (*signature == other.signature).then(|| {
                let text = format!(
                    "two tools have the signature `{signature}`: set another name with \
                     `#[tool(signature = …)]`"
                );
                Error::new_spanned(signature, text)
            })
        });
        if let Some(error) = same {
            faults.add(error);
        }
    }
}

/// Removes `#[tool]` from a method, and returns its arguments.
fn take_mark(method: &mut ImplItemFn, faults: &mut Faults) -> Option<Arguments> {
    let is_mark = |attribute: &syn::Attribute| {
        attribute.path().segments.last().is_some_and(|last| last.ident == "tool")
    };
    let at = method.attrs.iter().position(is_mark)?;
    let mark = method.attrs.remove(at);
    let tokens = match &mark.meta {
        Meta::Path(_) => TokenStream::new(),
        Meta::List(list) => list.tokens.clone(),
        Meta::NameValue(_) => {
            faults.at(&mark, "write `#[tool]`, or arguments in parentheses: `#[tool(name = …)]`");
            TokenStream::new()
        }
    };
    Some(Arguments::parse(tokens, Attribute::Method, faults))
}

/// Returns the method with the list of all tools.
fn list(ty: &Type, tools: &[(Tool, bool)], private: &Path) -> TokenStream {
    let list = Ident::new("tools", Span::mixed_site());
    let pushes = tools.iter().map(|(tool, _)| {
        let (cfg, signature) = (tool.cfg(), &tool.signature);
        // Not `vec!`, whose elements cannot have a `cfg`.
        quote!(#(#cfg)* #list.push(#signature::tool(self)?);)
    });
    quote! {
        impl #ty {
            /// Returns the tools, in the order of their methods. They share this object.
            ///
            /// # Errors
            ///
            /// The types of a tool have no JSON Schema that a model can use.
            pub fn tools(&self) -> ::core::result::Result<
                ::std::vec::Vec<#private::Tool>, #private::ContractError,
            > {
                let mut #list = ::std::vec::Vec::new();
                #(#pushes)*
                ::core::result::Result::Ok(#list)
            }
        }
    }
}
