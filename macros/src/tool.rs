//! [`Tool`], a function or a method that is a tool, and what both expand to.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, GenericParam, Ident, Lit, LitStr, Path, Receiver,
    ReceiverKind, ReturnType, Safety, Signature, Type, Visibility,
};

use crate::arguments::Arguments;
use crate::check;
use crate::docs;
use crate::faults::Faults;
use crate::parameter::{Field, Parameter};
use crate::types;

/// A function or a method that is a tool.
pub(crate) struct Tool {
    arguments: Arguments,
    /// The path of `__private`.
    private: Path,
    /// The attributes of the function that hold for all that is generated: `cfg` and lints.
    copied: Vec<Attribute>,
    description: Vec<LitStr>,
    visibility: Visibility,
    pub(crate) function: Ident,
    is_async: bool,
    /// The tool's name.
    pub(crate) name: LitStr,
    pub(crate) signature: Ident,
    parameters: Vec<Parameter>,
    output: Type,
    fallible: bool,
    /// Where the error of a fallible function is written.
    error_at: Span,
}

/// The object whose method a tool is.
pub(crate) struct Owner<'a> {
    /// The type of the object.
    pub(crate) ty: &'a Type,
    pub(crate) has_receiver: bool,
}

impl Tool {
    /// Checks a function, and removes from its parameters what is for the macro.
    ///
    /// `default_names` are the names of the tool and of its signature, if none are set.
    pub(crate) fn new(
        attributes: &[Attribute],
        visibility: &Visibility,
        function: &mut Signature,
        arguments: Arguments,
        private: Path,
        default_names: (String, String),
        faults: &mut Faults,
    ) -> Option<Self> {
        refuse(function, faults);
        let instead = "write `description = …`";
        let lines = match &arguments.description {
            Some(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })) => Some(vec![text.clone()]),
            Some(_) => Some(Vec::new()),
            None => faults.ok(docs::lines(attributes, instead)).map(docs::description),
        };
        let inputs = function.inputs.iter_mut().filter_map(|input| match input {
            FnArg::Typed(parameter) => Some(parameter),
            FnArg::Receiver(_) => None,
        });
        // Each is read, so that all their faults are reported.
        let parameters: Vec<_> = inputs.map(|input| Parameter::take(input, faults)).collect();
        let (output, fallible) = output(&function.output, faults)?;
        let span = function.ident.span();
        let (name, signature) = default_names;
        let signature = Ident::new(&signature, span.resolved_at(Span::call_site()));
        Some(Self {
            copied: attributes.iter().filter(|attribute| is_copied(attribute)).cloned().collect(),
            description: lines?,
            visibility: visibility.clone(),
            function: function.ident.clone(),
            is_async: function.asyncness.is_some(),
            name: arguments.name.clone().unwrap_or(LitStr::new(&name, span)),
            signature: arguments.signature.clone().unwrap_or(signature),
            parameters: parameters.into_iter().collect::<Option<_>>()?,
            error_at: error_at(&function.output),
            output,
            fallible,
            arguments,
            private,
        })
    }

    fn fields(&self) -> impl Iterator<Item = &Field> {
        self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Field(field) => Some(&**field),
            _ => None,
        })
    }

    /// Returns code that asks for the traits of the fields and the output.
    pub(crate) fn checks(&self) -> TokenStream {
        let Self { private, copied, output, .. } = self;
        let fields = self.fields().filter(|field| !check::is_replaced(&field.attributes));
        let fields = fields.map(|field| &field.ty);
        let mut checks = check::code(fields, &local("Argument"), private, copied);
        checks.extend(check::code([output], &local("Output"), private, copied));
        if !self.fallible {
            let text = "an alias hides from the attribute that the function can fail, so the model \
                        would read the failure as a success: write `Result<…>` itself";
            checks.extend(quote_spanned! {output.span()=>
                #(#copied)*
                const _: () = {
                    use #private::NoResult as _;
                    ::core::assert!(!<#private::Whole<#output>>::IS_RESULT, #text);
                };
            });
        }
        if let Some(namespace) = self.namespace() {
            let text = "`namespace` is the path of the module, and this is the root of the crate: \
                        remove it, or move the code to a module";
            checks.extend(quote_spanned! {namespace.span()=>
                #(#copied)*
                const _: () = ::core::assert!(#private::is_module(::core::module_path!()), #text);
            });
        }
        checks
    }

    /// Returns the argument `namespace`, if the name begins with the path of the module.
    fn namespace(&self) -> Option<&Ident> {
        self.arguments.namespace.as_ref().filter(|_| self.arguments.name.is_none())
    }

    /// Returns the attributes for every generated item.
    pub(crate) fn cfg(&self) -> impl Iterator<Item = &Attribute> {
        self.copied.iter().filter(|attribute| attribute.path().is_ident("cfg"))
    }

    /// Returns the signature as a person writes it: a struct, and what it implements.
    pub(crate) fn signature(&self) -> TokenStream {
        let Self { arguments, private, copied, visibility, name, signature, output, .. } = self;
        let docs = docs::attributes(&self.description);
        let paths = derive_paths(private);
        let derives = &arguments.derives;
        let fields: Vec<_> =
            self.fields().map(|field| field.definition(signature, visibility)).collect();
        let fields = if fields.is_empty() { quote!(;) } else { quote!({ #(#fields),* }) };
        let description = arguments.description.as_ref().filter(|_| docs.is_empty());
        let description = description.map(|text| {
            quote! {
                fn description() -> ::std::borrow::Cow<'static, str> {
                    ::core::convert::Into::into(#text)
                }
            }
        });
        let full_name = match self.namespace() {
            Some(_) => quote!(#private::namespaced(::core::module_path!(), #name)),
            None => quote!(::std::borrow::Cow::Borrowed(#name)),
        };
        let value = local("output");
        let text = local("render");
        let render = arguments.render.as_ref().map(|render| {
            quote! {
                fn render(#value: &Self::Output) -> ::core::result::Result<
                    ::std::string::String, #private::ContractError,
                > {
                    let #text: fn(&Self::Output) -> ::std::string::String = #render;
                    ::core::result::Result::Ok(#text(#value))
                }
            }
        });
        quote! {
            #(#copied)*
            #(#docs)*
            #[derive(
                #private::serde::Serialize,
                #private::serde::Deserialize,
                #private::schemars::JsonSchema,
                #(#derives),*
            )]
            #paths
            #visibility struct #signature #fields

            #(#copied)*
            impl #private::Signature for #signature {
                type Output = #output;
                fn name() -> ::std::borrow::Cow<'static, str> {
                    #full_name
                }
                #description
                #render
            }
        }
    }

    /// Returns the module, and the functions of the signature that make a module and a tool.
    ///
    /// `owner` has the method, whose clone the module then holds. There must be a function
    /// `shared`, which clones it.
    pub(crate) fn module(&self, owner: Option<&Owner<'_>>) -> TokenStream {
        let Self { private, copied, visibility, name, signature, function, .. } = self;
        let module = format_ident!("{signature}Module", span = Span::call_site());
        let effect = self.arguments.effect.as_ref();
        let effect = effect.map(
            |effect| quote!(fn effect(&self) -> #private::Effect { #private::Effect::#effect }),
        );
        let untrusted = self.arguments.untrusted.as_ref();
        let untrusted = untrusted.map(|_| {
            quote!(
                fn is_untrusted(&self) -> bool {
                    true
                }
            )
        });
        let (input, cx) = (local("input"), local("cx"));
        let body = self.body(owner, &input, &cx);
        // At the function, so that the error of a future that is not `Send` is reported there.
        let at = function.span().resolved_at(Span::call_site());
        let output = moved(quote!(#private::Result<#private::OutputOf<Self>>), at);
        let call = quote_spanned! {at=>
            async fn call(&self, #input: #signature, #cx: &#private::Context) -> #output
        };
        let defaults: Vec<_> = self.fields().filter_map(Field::default_function).collect();
        let object = local("toolset");
        let ty = owner.map(|owner| owner.ty);
        let holds = ty.map(|ty| quote!((#ty)));
        let takes = ty.map(|ty| quote!(#object: &#ty));
        let captures = ty.map(|_| quote!(+ use<>));
        let passes = ty.map(|_| quote!(#object));
        let clone = ty.map(|_| quote!((shared(#object))));
        let module_doc = format!(" Returns the module of the tool `{}`.", name.value());
        let tool_doc = format!(" Returns the tool `{}`.", name.value());
        quote! {
            #(#copied)*
            #[allow(dead_code)]
            struct #module #holds;

            #(#copied)*
            impl #private::Module for #module {
                type Signature = #signature;
                #call {
                    #body
                }
                #effect
                #untrusted
            }

            #(#copied)*
            #[allow(dead_code)]
            impl #signature {
                #[doc = #module_doc]
                #visibility fn module(
                    #takes
                ) -> impl #private::Module<Signature = Self> #captures {
                    #module #clone
                }

                #[doc = #tool_doc]
                ///
                /// # Errors
                ///
                /// The types of the tool have no JSON Schema that a model can use.
                #visibility fn tool(
                    #takes
                ) -> ::core::result::Result<#private::Tool, #private::ContractError> {
                    #private::Tool::new(Self::module(#passes))
                }

                #(#defaults)*
            }
        }
    }

    /// Returns the body of the module's `call`.
    fn body(&self, owner: Option<&Owner<'_>>, input: &Ident, cx: &Ident) -> TokenStream {
        let Self { private, function, name, .. } = self;
        let (mut before, mut passed) = (Vec::new(), Vec::new());
        if let Some(Owner { has_receiver: true, .. }) = owner {
            passed.push(quote!(&self.0));
        }
        for parameter in &self.parameters {
            match parameter {
                Parameter::Field(field) => passed.push(field.argument(input)),
                Parameter::Context => passed.push(cx.to_token_stream()),
                Parameter::Value { of, optional: true } => passed.push(quote!(#cx.get::<#of>())),
                Parameter::Value { of, optional: false } => {
                    let value = local(&format!("value{}", before.len()));
                    before.push(quote!(let #value = #private::value::<#of>(#cx, #name)?;));
                    passed.push(value.to_token_stream());
                }
            }
        }
        let path = owner.map(|Owner { ty, .. }| quote!(<#ty>::));
        let wait = self.is_async.then(|| quote!(.await));
        let call = quote!(#path #function(#(#passed),*) #wait);
        if !self.fallible {
            return quote!(#(#before)* ::core::result::Result::Ok(#call));
        }
        let (output, error) = (local("output"), local("error"));
        // At the type, so that an error that fits neither trait is reported there.
        let error = Ident::new("error", error.span().located_at(self.error_at));
        let convert = quote_spanned! {self.error_at=>
            #private::Returned(#error).__toolwright_error()
        };
        quote! {
            use #private::{IntoError as _, ShownError as _, UnfitError as _};
            #(#before)*
            match #call {
                ::core::result::Result::Ok(#output) => ::core::result::Result::Ok(#output),
                ::core::result::Result::Err(#error) => ::core::result::Result::Err(#convert),
            }
        }
    }

    /// Returns code that the compiler warns of, if the tool lacks descriptions: one warning, which
    /// names all of them.
    ///
    /// A macro cannot warn on stable Rust. The use of a deprecated constant is a warning with a text,
    /// a place and a lint to deny or allow it by. The name of the constant is in the text.
    pub(crate) fn warnings(&self) -> TokenStream {
        let silent = self.description.is_empty() && self.arguments.description.is_none();
        let fields: Vec<&Field> = self.fields().filter(|field| !field.described).collect();
        let names = |fields: &mut dyn Iterator<Item = &&Field>| {
            fields.map(|field| format!("`{}`", field.name)).collect::<Vec<_>>().join(", ")
        };
        let (name, at, what, place) = match (silent, fields.as_slice()) {
            (false, []) => return TokenStream::new(),
            (true, []) => {
                let what = "what this tool does".to_owned();
                ("tool_without_description", &self.function, what, "the function")
            }
            (true, fields) => {
                let what = format!("what this tool does and what {} is", names(&mut fields.iter()));
                let place = "the function and above each of these parameters";
                ("tool_without_description", &self.function, what, place)
            }
            (false, [field]) => {
                let what = format!("what `{}` is", field.name);
                ("parameter_without_description", &field.name, what, "the parameter")
            }
            (false, fields) => {
                let what = format!("what each of {} is", names(&mut fields.iter()));
                let place = "each of these parameters";
                ("parameters_without_description", &fields[0].name, what, place)
            }
        };
        let of_program = names(&mut fields.iter().filter(|field| field.may_be_context));
        let context = match of_program.as_str() {
            "" => ",".to_owned(),
            names => format!(", `#[context]` if the program supplies {names},"),
        };
        let note = format!(
            "the model does not learn {what}: write a doc comment above {place}{context} or \
             `#[allow(deprecated)]` above the function to have none"
        );
        let name = Ident::new(name, at.span().resolved_at(Span::call_site()));
        let copied = &self.copied;
        quote! {
            #(#copied)*
            const _: () = {
                #[deprecated(note = #note)]
                #[allow(non_upper_case_globals)]
                const #name: () = ();
                #name
            };
        }
    }
}

/// Returns the attributes that say where the derives of serde and schemars find their crates.
pub(crate) fn derive_paths(private: &Path) -> TokenStream {
    let private = private.to_token_stream().to_string().replace(' ', "");
    let (serde, schemars) = (format!("{private}::serde"), format!("{private}::schemars"));
    quote!(#[serde(crate = #serde)] #[schemars(crate = #schemars)])
}

/// Returns tokens as if they stood at another place.
fn moved(tokens: TokenStream, at: Span) -> TokenStream {
    let moved = tokens.into_iter().map(|mut token| {
        token.set_span(at);
        token
    });
    moved.collect()
}

/// Returns a name that no code of the user can see or hide.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

fn is_copied(attribute: &Attribute) -> bool {
    ["cfg", "allow", "warn", "deny", "forbid"].iter().any(|name| attribute.path().is_ident(name))
}

/// Reports what no tool can have.
fn refuse(function: &Signature, faults: &mut Faults) {
    let generics = &function.generics.params;
    if generics.iter().any(|generic| !matches!(generic, GenericParam::Lifetime(_))) {
        let text = "a tool has one contract, so it cannot be generic; write the type, or implement \
                    `Signature` and `Module` by hand";
        faults.at(generics, text);
    } else if !generics.is_empty() {
        let text =
            "a tool borrows its arguments for one call: remove the lifetimes, here and below";
        faults.at(generics, text);
    }
    if let Safety::Unsafe(token) = &function.safety {
        faults.at(token, "a model cannot keep the promise of `unsafe`; write a safe function");
    }
    if let Some(variadic) = &function.variadic {
        faults.at(variadic, "a field needs a name and a type; write `&[T]` for a list");
    }
}

/// Returns the place of the error type in a `Result`, or of the whole type if it is not written.
fn error_at(output: &ReturnType) -> Span {
    let ReturnType::Type(_, ty) = output else { return output.span() };
    let error = types::named(ty).and_then(|(_, inner)| inner.get(1).map(|error| error.span()));
    error.unwrap_or_else(|| ty.span())
}

/// Returns the output of a function, and whether the function can fail.
fn output(output: &ReturnType, faults: &mut Faults) -> Option<(Type, bool)> {
    let ReturnType::Type(_, ty) = output else {
        return Some((Type::Verbatim(quote!(())), false));
    };
    let (output, fallible) = match types::named(ty) {
        Some((name, inner)) if name == "Result" => match inner.first() {
            Some(first) => ((*first).clone(), true),
            // Such as `fmt::Result`.
            None => (Type::Verbatim(quote_spanned!(ty.span()=> ())), true),
        },
        _ => ((**ty).clone(), false),
    };
    let fault = if matches!(types::bare(&output), Type::ImplTrait(_)) {
        Error::new_spanned(
            &output,
            "a tool's output needs a type with a name: write the type itself",
        )
    } else if let Some(borrow) = types::borrow_in(&output) {
        let text = "a tool's output owns its value: return the owned type, such as `String`";
        Error::new_spanned(borrow, text)
    } else if let Some(this) = types::self_in(&output) {
        Error::new_spanned(this, "`Self` is the signature here: write the name of the type")
    } else {
        return Some((output, fallible));
    };
    faults.add(fault);
    None
}

/// Checks the `self` of a method that is a tool.
pub(crate) fn check_receiver(receiver: &Receiver, faults: &mut Faults) {
    let text = match &receiver.kind {
        ReceiverKind::Reference(_, _, None) => return,
        ReceiverKind::Reference(..) => {
            "tools of one toolset run side by side: take `&self`, and keep what changes behind a \
             lock, such as `Arc<Mutex<…>>`"
        }
        _ => "all calls of a toolset share it: take `&self`",
    };
    faults.at(receiver, text);
}

/// Returns a name in the form of types: `get_weather` becomes `GetWeather`.
pub(crate) fn camel_case(name: &str) -> String {
    let words = name.trim_start_matches("r#").split('_');
    words
        .flat_map(|word| {
            let mut letters = word.chars();
            let first = letters.next().into_iter().flat_map(char::to_uppercase);
            first.chain(letters).collect::<Vec<_>>()
        })
        .collect()
}

/// Returns the name of a type in the form of functions: `HttpClient` becomes `http_client`.
pub(crate) fn snake_case(name: &str) -> String {
    let letters: Vec<char> = name.trim_start_matches("r#").chars().collect();
    let mut snake = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let after = letters.get(at + 1).is_some_and(|after| after.is_lowercase());
        // Before `C` in `HttpClient`, and before `C` in `HTTPClient`.
        let starts = before.is_some_and(|b| b != '_' && (!b.is_uppercase() || after));
        if letter.is_uppercase() && starts {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
