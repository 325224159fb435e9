//! [`Arguments`], which stand in the parentheses of an attribute.

use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Ident, LitStr, Path, Token, parenthesized};

use crate::faults::Faults;

/// The arguments of an attribute. What an attribute does not take is not set.
#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) name: Option<LitStr>,
    pub(crate) prefix: Option<LitStr>,
    /// Whether the path of the Rust module is the first part of the name.
    pub(crate) namespace: Option<Ident>,
    pub(crate) description: Option<Expr>,
    pub(crate) effect: Option<Ident>,
    /// Whether strangers write the text of the results.
    pub(crate) untrusted: Option<Ident>,
    pub(crate) render: Option<Expr>,
    pub(crate) signature: Option<Ident>,
    pub(crate) derives: Vec<Path>,
    pub(crate) krate: Option<Path>,
}

/// An attribute, with the arguments that it takes.
#[derive(Clone, Copy)]
pub(crate) enum Attribute {
    /// `#[tool]` on a function.
    Tool,
    /// `#[tool]` on a method.
    Method,
    Toolset,
    Data,
}

const EFFECTS: [&str; 4] = ["Read", "Idempotent", "Write", "Irreversible"];

impl Attribute {
    fn takes(self) -> &'static [&'static str] {
        match self {
            Self::Tool => &[
                "name",
                "namespace",
                "description",
                "effect",
                "untrusted",
                "render",
                "signature",
                "derive",
                "crate",
            ],
            Self::Method => {
                &["name", "description", "effect", "untrusted", "render", "signature", "derive"]
            }
            Self::Toolset => &["prefix", "namespace", "effect", "untrusted", "derive", "crate"],
            Self::Data => &["crate"],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Tool | Self::Method => "tool",
            Self::Toolset => "toolset",
            Self::Data => "data",
        }
    }
}

impl Arguments {
    /// Reads the arguments of `attribute`. Those after a fault are read too, where possible.
    pub(crate) fn parse(tokens: TokenStream, attribute: Attribute, faults: &mut Faults) -> Self {
        let mut arguments = Self::default();
        let mut seen = Vec::new();
        let read = |input: ParseStream<'_>| {
            while !input.is_empty() {
                let key = Ident::parse_any(input)?;
                let known = attribute.takes().iter().find(|name| key == **name);
                let Some(known) = known else {
                    return Err(unknown(&key, attribute));
                };
                if seen.contains(known) {
                    return Err(Error::new(key.span(), format!("`{known}` is set twice")));
                }
                seen.push(*known);
                arguments.read(&key, input, faults)?;
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        if let Err(error) = read.parse2(tokens) {
            faults.add(error);
        }
        if let (Some(_), Some(namespace)) = (&arguments.name, &arguments.namespace) {
            faults.at(namespace, "`name` sets the whole name: remove one of the two");
        }
        arguments
    }

    fn read(
        &mut self,
        key: &Ident,
        input: ParseStream<'_>,
        faults: &mut Faults,
    ) -> syn::Result<()> {
        if key == "derive" {
            let list;
            parenthesized!(list in input);
            let derives = Punctuated::<Path, Token![,]>::parse_terminated(&list)?;
            self.derives = derives.into_iter().collect();
            return Ok(());
        }
        if key == "namespace" {
            if input.peek(Token![=]) {
                let text = "the namespace is the path of the module: write `namespace` alone, or \
                            set the whole name with `name = \"…\"`";
                return Err(Error::new(key.span(), text));
            }
            self.namespace = Some(key.clone());
            return Ok(());
        }
        if key == "untrusted" {
            self.untrusted = Some(key.clone());
            return Ok(());
        }
        input.parse::<Token![=]>()?;
        match key.to_string().as_str() {
            "name" => {
                let name = input.parse()?;
                check_name(&name, "a tool's name has", 1, faults);
                self.name = Some(name);
            }
            "prefix" => {
                let prefix = input.parse()?;
                check_name(&prefix, "a prefix has", 0, faults);
                self.prefix = Some(prefix);
            }
            "description" => self.description = Some(input.parse()?),
            "effect" => match effect(input.parse()?) {
                Ok(effect) => self.effect = Some(effect),
                Err(error) => faults.add(error),
            },
            "render" => self.render = Some(input.parse()?),
            "signature" => self.signature = Some(input.parse()?),
            _ => self.krate = Some(Path::parse_mod_style(input)?),
        }
        Ok(())
    }
}

fn unknown(key: &Ident, attribute: Attribute) -> Error {
    let known = attribute.takes().iter().map(|name| format!("`{name}`"));
    let known = known.collect::<Vec<_>>().join(", ");
    let text = format!("unknown argument `{key}`; `#[{}]` takes {known}", attribute.name());
    Error::new(key.span(), text)
}

fn effect(value: Expr) -> syn::Result<Ident> {
    let effect = match &value {
        Expr::Path(path) => path.path.get_ident().filter(|name| EFFECTS.iter().any(|e| name == e)),
        _ => None,
    };
    let text = "this is not an effect: write `effect = Read`, `Idempotent`, `Write` or \
                `Irreversible`";
    effect.cloned().ok_or_else(|| Error::new_spanned(&value, text))
}

/// Checks a name by the rule of all providers.
fn check_name(name: &LitStr, what: &str, least: usize, faults: &mut Faults) {
    let text = name.value();
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !(least..=64).contains(&text.len()) || !text.bytes().all(known) {
        faults.at(name, format!("{what} {least} to 64 characters of `A-Z a-z 0-9 _ -`"));
    }
}
