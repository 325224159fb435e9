//! [`Parameter`]: a field of the signature, the context, or a value of the context.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Attribute, Expr, ExprLit, Ident, Lit, Meta, Pat, PatType, Type, Visibility, parse_quote,
    parse_quote_spanned,
};

use crate::docs;
use crate::faults::Faults;
use crate::types;

/// A parameter of a function that is a tool.
pub(crate) enum Parameter {
    /// The model writes it.
    Field(Box<Field>),
    /// `&Context`.
    Context,
    /// `#[context] db: &Db`, a value that was added to the context.
    Value { of: Box<Type>, optional: bool },
}

/// A field of the signature.
pub(crate) struct Field {
    pub(crate) name: Ident,
    /// The doc comment, and the attributes for serde and schemars.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) ty: Type,
    lent: Lent,
    default: Option<Expr>,
    pub(crate) described: bool,
    /// Whether the value may be one of the program, whose `#[context]` was forgotten.
    pub(crate) may_be_context: bool,
}

/// How the call passes a field to the parameter.
#[derive(Clone, Copy)]
enum Lent {
    /// `T` to `T`.
    Moved,
    /// `T` to `&T`.
    Borrowed,
    /// `Option<String>` to `Option<&str>`, and `Option<Vec<T>>` to `Option<&[T]>`.
    Deref,
    /// `Option<T>` to `Option<&T>`.
    Option,
}

impl Parameter {
    /// Reads a parameter, and removes the attributes that are for the field or for the macro.
    pub(crate) fn take(parameter: &mut PatType, faults: &mut Faults) -> Option<Self> {
        let before = std::mem::take(&mut parameter.attrs);
        let (mut attributes, mut marks) = (Vec::new(), Vec::new());
        for attribute in before {
            let is = |name| attribute.path().is_ident(name);
            if is("doc") || is("serde") || is("schemars") {
                attributes.push(attribute);
            } else if is("default") || is("context") {
                marks.push(attribute);
            } else if is("cfg") || is("cfg_attr") {
                let text = "a parameter of a tool is always there: put `cfg` on the function";
                faults.at(&attribute, text);
            } else {
                parameter.attrs.push(attribute);
            }
        }
        let context = marks.iter().find(|mark| mark.path().is_ident("context"));
        let default = marks.iter().find(|mark| mark.path().is_ident("default"));
        let ty = &*parameter.ty;
        if let Some(context) = context {
            for field_only in attributes.iter().chain(default).filter(|a| !a.path().is_ident("doc"))
            {
                faults.at(field_only, "a value of the context has no field; remove this");
            }
            return Self::value(context, ty, faults);
        }
        if is_context(ty, faults)? {
            return Some(Self::Context);
        }
        let name = name(&parameter.pat, faults)?;
        let may_be_context = is_lent_object(ty);
        let (ty, lent) = owned(ty, faults)?;
        let lines = faults.ok(docs::lines(&attributes, "write the description itself"));
        let described =
            lines.is_none_or(|lines| lines.iter().any(|l| !l.value().trim().is_empty()));
        let default = default.and_then(|default| with_default(default, &mut attributes, faults));
        let field = Field { name, attributes, ty, lent, default, described, may_be_context };
        Some(Self::Field(Box::new(field)))
    }

    fn value(mark: &Attribute, ty: &Type, faults: &mut Faults) -> Option<Self> {
        // A path of several names may be that of another type.
        if let Type::Reference(reference) = types::bare(ty)
            && let Type::Path(path) = types::bare(&reference.elem)
            && path.path.is_ident("Context")
        {
            let text = "`&Context` needs no attribute: remove `#[context]`; for a type of your own \
                        with this name, write its path";
            faults.at(mark, text);
            return None;
        }
        if !matches!(mark.meta, Meta::Path(_)) {
            faults.at(mark, "write `#[context]`; the type of the parameter says which value it is");
        }
        let (optional, inner) = match types::named(ty) {
            Some((name, inner)) if name == "Option" && inner.len() == 1 => (true, inner[0]),
            _ => (false, ty),
        };
        match types::bare(inner) {
            Type::Reference(reference) if reference.mutability.is_none() => {
                Some(Self::Value { of: reference.elem.clone(), optional })
            }
            _ => {
                // The context lends what an `Arc` holds, too.
                let lent = match types::named(inner) {
                    Some((name, held)) if name == "Arc" && held.len() == 1 => held[0],
                    _ => inner,
                };
                // `&mut Db` is lent as `&Db`.
                let lent = match types::bare(lent) {
                    Type::Reference(reference) => &*reference.elem,
                    _ => lent,
                };
                let shown = lent.to_token_stream();
                faults.at(ty, format!("the context lends its values: write `&{shown}`"));
                None
            }
        }
    }
}

/// Returns whether a parameter is the context of the call, or `None` if it is one in a wrong form.
fn is_context(ty: &Type, faults: &mut Faults) -> Option<bool> {
    let lent = |ty| match types::bare(ty) {
        Type::Reference(reference) => (&*reference.elem, reference.mutability.is_none()),
        other => (other, false),
    };
    let (of, is_shared) = lent(ty);
    if types::is_context(of) {
        if !is_shared {
            faults.at(ty, "the context is borrowed: write `&Context`");
        }
        return is_shared.then_some(true);
    }
    if let Some((name, inner)) = types::named(of)
        && ["Option", "Arc"].iter().any(|holder| name == holder)
        && inner.len() == 1
        && types::is_context(lent(inner[0]).0)
    {
        faults.at(ty, "each call has a context, which is borrowed: write `&Context`");
        return None;
    }
    Some(false)
}

/// Returns the name of a parameter, which is the name of its field.
fn name(pattern: &Pat, faults: &mut Faults) -> Option<Ident> {
    let text = match pattern {
        Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
            return Some(name.ident.clone());
        }
        Pat::Ident(name) => format!("a parameter of a tool is a field: write `{}`", name.ident),
        Pat::Wild(_) => {
            "a parameter of a tool is a field, which needs a name: write one".to_owned()
        }
        other => {
            let shown = other.to_token_stream();
            format!(
                "a parameter of a tool is a field, which needs a name: write one, such as `value`, \
                 and `let {shown} = value;` in the body"
            )
        }
    };
    faults.at(pattern, text);
    None
}

/// Returns the type of a parameter's field, and how the call passes it.
fn owned(ty: &Type, faults: &mut Faults) -> Option<(Type, Lent)> {
    let (field, lent) = match types::bare(ty) {
        Type::Reference(reference) => {
            if let Some(mutability) = &reference.mutability {
                faults.at(mutability, "a model does not see the change: take the value itself");
                return None;
            }
            if let Some(lifetime) = &reference.lifetime {
                faults.at(lifetime, "an argument lives as long as its call: remove the lifetime");
                return None;
            }
            match to_owned(&reference.elem) {
                Some(owned) => (owned, Lent::Borrowed),
                None => ((*reference.elem).clone(), Lent::Borrowed),
            }
        }
        other => match types::named(other) {
            Some((name, inner)) if name == "Option" && inner.len() == 1 => {
                match types::bare(inner[0]) {
                    Type::Reference(reference)
                        if reference.lifetime.is_none() && reference.mutability.is_none() =>
                    {
                        let (inner, lent) = match to_owned(&reference.elem) {
                            Some(owned) => (owned, Lent::Deref),
                            None => ((*reference.elem).clone(), Lent::Option),
                        };
                        let span = reference.elem.span();
                        (parse_quote_spanned!(span=> ::core::option::Option<#inner>), lent)
                    }
                    _ => (other.clone(), Lent::Moved),
                }
            }
            _ => (other.clone(), Lent::Moved),
        },
    };
    if let Type::ImplTrait(unnamed) = &field {
        let text = "a field needs a type with a name: write the type itself, such as `String`";
        faults.at(unnamed, text);
        return None;
    }
    if let Some(borrow) = types::borrow_in(&field) {
        faults.at(borrow, "a field owns its value: write the owned type, such as `String`");
        return None;
    }
    if let Some(this) = types::self_in(&field) {
        faults.at(this, "`Self` is the signature in a field: write the name of the type");
        return None;
    }
    Some((field, lent))
}

/// Returns whether a type is a reference to an object: not `&str` or `&[T]`.
fn is_lent_object(ty: &Type) -> bool {
    match types::bare(ty) {
        Type::Reference(reference) => to_owned(&reference.elem).is_none(),
        _ => false,
    }
}

/// Returns the owned form of a type that has no size.
fn to_owned(ty: &Type) -> Option<Type> {
    match types::bare(ty) {
        Type::Slice(slice) => {
            let item = &slice.elem;
            Some(parse_quote_spanned!(slice.span()=> ::std::vec::Vec<#item>))
        }
        Type::Path(path) if path.path.is_ident("str") => {
            Some(parse_quote_spanned!(path.span()=> ::std::string::String))
        }
        _ => None,
    }
}

/// Reads `#[default]`. Without a value, serde has the type's default.
fn with_default(
    mark: &Attribute,
    attributes: &mut Vec<Attribute>,
    faults: &mut Faults,
) -> Option<Expr> {
    match &mark.meta {
        Meta::Path(_) => {
            attributes.push(parse_quote!(#[serde(default)]));
            None
        }
        Meta::NameValue(default) => Some(default.value.clone()),
        Meta::List(list) => {
            faults.at(list, "write `#[default = …]`, or `#[default]` for the default of the type");
            None
        }
    }
}

impl Field {
    /// Returns the name of the function with the default.
    fn default_name(&self) -> Ident {
        let name = self.name.to_string();
        let name = format!("__default_{}", name.trim_start_matches("r#"));
        Ident::new(&name, Span::mixed_site())
    }

    /// Returns the field of the struct `signature`.
    pub(crate) fn definition(&self, signature: &Ident, visibility: &Visibility) -> TokenStream {
        let Self { name, attributes, ty, .. } = self;
        let mut name = name.clone();
        // As code of the macro, so that lints such as `missing_docs` do not speak of it.
        name.set_span(name.span().resolved_at(Span::call_site()));
        let default = self.default.as_ref().map(|_| {
            let path = format!("{signature}::{}", self.default_name());
            quote!(#[serde(default = #path)])
        });
        quote!(#(#attributes)* #default #visibility #name: #ty)
    }

    /// Returns the function with the default, if there is one.
    pub(crate) fn default_function(&self) -> Option<TokenStream> {
        let value = self.default.as_ref()?;
        let (name, ty) = (self.default_name(), &self.ty);
        // Numbers must not be converted: their type would not be known.
        let value = match value {
            Expr::Lit(ExprLit { lit: Lit::Str(_), .. }) => {
                quote_spanned!(value.span()=> ::core::convert::Into::into(#value))
            }
            value => value.to_token_stream(),
        };
        Some(quote!(fn #name() -> #ty { #value }))
    }

    /// Returns the argument of the call.
    pub(crate) fn argument(&self, input: &Ident) -> TokenStream {
        let name = &self.name;
        match self.lent {
            Lent::Moved => quote!(#input.#name),
            Lent::Borrowed => quote!(&#input.#name),
            Lent::Deref => quote!(#input.#name.as_deref()),
            Lent::Option => quote!(#input.#name.as_ref()),
        }
    }
}
