//! Attribute macros that generate tools from functions and methods, and derives for their types.
//!
//! Use them through the crate `toolwright`, or through the feature `macros` of
//! `toolwright-module`. The page `docs/tools.md` explains them with examples.
//!
//! | attribute | on | adds |
//! |---|---|---|
//! | [`macro@tool`] | a function | a signature type, with its `tool()` and `module()` |
//! | [`macro@toolset`] | an `impl` block | the same for each method with `#[tool]`, and the method `tools` |
//! | [`macro@data`] | a struct or an enum | the derives that types of fields and outputs need |
//!
//! # Map
//!
//! | file | content |
//! |---|---|
//! | `arguments.rs` | the arguments of an attribute |
//! | `docs.rs` | the description in a doc comment |
//! | `parameter.rs`, `types.rs` | parameters: fields, contexts and values of a context |
//! | `check.rs` | generated code whose compile error explains what a type lacks |
//! | `tool.rs` | a validated function or method, and the code that both expand to |
//! | `function.rs`, `toolset.rs`, `data.rs` | the three attributes |
//! | `faults.rs` | the errors of one use of a macro |

use proc_macro::TokenStream;
use syn::parse_quote;

mod arguments;
mod check;
mod data;
mod docs;
mod faults;
mod function;
mod parameter;
#[cfg(test)]
mod tests;
mod tool;
mod toolset;
mod types;

/// Attribute of a function that is offered to a model as a tool.
///
/// The function stays as it is. Beside it stands a new type, named after the function
/// (`get_weather`: `GetWeather`). The type is the tool's signature: its fields are the parameters.
/// `GetWeather::tool()` returns the tool, and `GetWeather::module()` the module.
///
/// | part of the function | becomes |
/// |---|---|
/// | name | the tool's name |
/// | doc comment, up to the first heading | the tool's description |
/// | parameter, with its doc comment | a field, with its description |
/// | return type, or the first type of a `Result` | the output |
/// | parameter `&Context` | the context of the call |
/// | parameter `#[context] db: &Db`, or `Option<&Db>` | a value that was added with `Context::with` |
///
/// A parameter may be `&str`, `&[T]`, `&T` or an `Option` of these. Its field has the owned type.
/// A parameter takes `#[default]`, `#[default = 5]` and the attributes of serde and schemars.
///
/// The compiler warns once of each tool that lacks a doc comment, on the function or on a parameter,
/// because a model works worse without it. A macro on stable Rust can only warn of a deprecated item,
/// so the warning begins with "use of deprecated constant". `#![deny(deprecated)]` makes it an error,
/// and `#[allow(deprecated)]` above the function silences it.
///
/// | argument | sets |
/// |---|---|
/// | `name = "…"` | the tool's name |
/// | `namespace` | the path of the Rust module as the first part of the name: `search_cases` in `mod legal` gives `legal_search_cases` |
/// | `description = "…"` | the description, in place of the doc comment |
/// | `effect = Read` | the effect: `Read`, `Idempotent`, `Write` or `Irreversible`. Default: `Write` |
/// | `untrusted` | that strangers write the text of the results: see `Tool::untrusted` |
/// | `render = path` | the function or closure that turns an output into text for the model. Default: JSON |
/// | `signature = Name` | the name of the new type, if the default name exists already |
/// | `derive(…)` | more derives of the new type |
/// | `crate = path` | the path of the crate `toolwright`, if it is renamed |
#[proc_macro_attribute]
pub fn tool(arguments: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(arguments.into(), item.into(), parse_quote!(::toolwright)).into()
}

/// Attribute of an `impl` block whose methods with `#[tool]` are tools.
///
/// The methods stay as they are, so code calls them directly. Each method with `#[tool]` gets a
/// signature type as a function does, named after the type and the method (`Memory::store`:
/// `MemoryStore`). `MemoryStore::tool(&memory)` returns that tool, and `memory.tools()` all of
/// them, in the order of the methods.
///
/// A tool is a clone of the object with one of its methods. The object has to implement `Clone`,
/// and keeps what changes in an `Arc`. Tools run side by side, so methods take `&self`.
///
/// | argument | sets |
/// |---|---|
/// | `prefix = "db"` | the first part of each tool's name; empty: none. Default: the type's name in snake case |
/// | `namespace` | the path of the Rust module, before the prefix |
/// | `effect = Read` | the effect of the tools that set none |
/// | `untrusted` | that strangers write the text of the results of all tools |
/// | `derive(…)` | more derives of all signature types |
/// | `crate = path` | the path of the crate `toolwright`, if it is renamed |
///
/// A name that `#[tool(name = "…")]` sets is the whole name, without namespace and prefix.
#[proc_macro_attribute]
pub fn toolset(arguments: TokenStream, item: TokenStream) -> TokenStream {
    toolset::expand(arguments.into(), item.into(), parse_quote!(::toolwright)).into()
}

/// Attribute of a struct or an enum that is a field or an output of a tool.
///
/// It derives `Debug`, `Clone`, `Serialize`, `Deserialize` and `JsonSchema`. A package that depends
/// only on `toolwright` needs it, because the derives of serde and schemars look for crates of
/// these names. Attributes of serde and schemars work as usual.
///
/// An enum whose variants have no fields gets a method `as_str`, which returns the name in JSON:
/// `"in-progress"` for `Status::InProgress` with `#[serde(rename_all = "kebab-case")]`.
///
/// `crate = path` is the path of the crate `toolwright`, if it is renamed.
#[proc_macro_attribute]
pub fn data(arguments: TokenStream, item: TokenStream) -> TokenStream {
    data::expand(arguments.into(), item.into(), parse_quote!(::toolwright)).into()
}

/// [`macro@tool`] for packages that depend on `toolwright-module`, which exports it as `tool`.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn module_tool(arguments: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(arguments.into(), item.into(), parse_quote!(::toolwright_module)).into()
}

/// [`macro@toolset`] for packages that depend on `toolwright-module`, which exports it as
/// `toolset`.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn module_toolset(arguments: TokenStream, item: TokenStream) -> TokenStream {
    toolset::expand(arguments.into(), item.into(), parse_quote!(::toolwright_module)).into()
}
