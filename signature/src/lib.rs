//! Typed contracts for tools and language models.
//!
//! A [`Signature`] is a Rust type. Its fields are the input, and its [`Output`](Signature::Output)
//! is the output. It does not specify an implementation, so code, a language model or a remote
//! server can implement the same signature. A [`Contract`] is a signature as a value: a name, a
//! description and JSON Schemas. [`Contract::lower`] rewrites its schemas for one provider and
//! lists the losses.
//!
//! This crate does no I/O and needs no async runtime.
//!
//! | to | use |
//! |---|---|
//! | write a contract as a type | [`Signature`], [`Contract::of`] |
//! | make a contract from a schema of another program | [`Contract::dynamic`] |
//! | send a contract to a provider, and list what its dialect cannot express | [`Contract::lower`], [`Contract::tool`], [`Dialect`], [`Loss`] |
//! | send several of them in one request | [`LoweredRequest`] |
//! | show a model an example in its provider's shape | [`Contract::lower_value`] |
//! | test that a type fits a provider | [`assert_fits`] |
//! | read a model's text | [`Contract::read`], [`Contract::read_with`], [`Policy`], [`Fault`] |
//! | check whether another contract can replace this one | [`Contract::differences`], [`Difference`] |
//! | read a text while it is streamed | [`Partial`] |
//! | separate a model's thoughts from its answer | [`Thoughts`] |
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use toolwright_signature::{Contract, Signature};
//!
//! /// Search legal documents by query.
//! #[derive(Serialize, Deserialize, JsonSchema)]
//! struct SearchDocuments {
//!     /// Words to look for.
//!     query: String,
//!     limit: Option<u8>,
//! }
//!
//! impl Signature for SearchDocuments {
//!     type Output = Vec<String>;
//! }
//!
//! let contract = Contract::of::<SearchDocuments>()?;
//! assert_eq!(contract.name(), "search_documents");
//! assert_eq!(contract.description(), "Search legal documents by query.");
//!
//! let input: SearchDocuments = contract.read(r#"{"query": "tax"}"#)?;
//! assert_eq!(input.query, "tax");
//!
//! let error = contract.read::<SearchDocuments>(r#"{"limit": 3}"#).err().unwrap();
//! assert_eq!(
//!     error.to_string(),
//!     "input of `search_documents` does not fit: \
//!      $.query: this field is missing; expected a string",
//! );
//! # Ok::<(), toolwright_signature::ContractError>(())
//! ```
//!
//! # How it works
//!
//! A contract's schemas pass through one pipeline. Each step has its own module:
//!
//! ```text
//! Rust type ─► schema ─► normal form ─► graph ─┬─► lowering: schemas and examples of a dialect
//!   foreign schema ─┘                          ├─► reading: texts to values, faults, repairs
//!                                              └─► comparing: differences of two contracts
//! ```
//!
//! - The *schema* is the public form: inlined, with the keywords of JSON Schema 2020-12.
//! - The *normal form* has one notation for each rule: `allOf` is merged, types are inferred, and
//!   references point only to definitions.
//! - The *graph* is the normal form as typed nodes. Every later step reads the graph, so no two
//!   steps can understand a schema differently.
//! - The *wire shapes* (`key` and `value`, `item_0`, `additional_properties`, `input`, `result`)
//!   replace values that a dialect cannot express. Lowering introduces them and reading reverses
//!   them.
//!
//! Every step limits its depth and its work, because schemas and texts can come from untrusted
//! sources. If a limit is exceeded, the error contains the place.
//!
//! # Features
//!
//! All features are off by default. Each feature allows types of one crate in a signature, by
//! turning on the corresponding feature of schemars: `bytes`, `chrono`, `decimal` (`rust_decimal`),
//! `indexmap`, `jiff`, `semver`, `url` and `uuid`. Also turn on the `serde` feature of that crate.

mod assert_fits;
mod assert_unchanged;
mod comparing;
mod contract;
mod error;
mod fields_once;
mod json_text;
mod limits;
mod lowering;
mod name;
mod partial;
mod reading;
mod schema;
mod signature;
mod stable_hash;
mod type_tag;
mod wire_shapes;

pub use assert_fits::assert_fits;
pub use comparing::Difference;
pub use contract::{ChangedRule, Contract, ContractChange, ContractChangeKind, Dependent};
pub use error::{ContractError, Fault, NameFault, SchemaFault, Side};
pub use fields_once::check_fields_once;
pub use json_text::{ends_in_half, has_lost_half, joined_halves, lost_half, readable_json};
pub use lowering::dialect::{Dialect, Loss, Lowered};
pub use lowering::request::LoweredRequest;
pub use partial::{Field, Partial};
pub use reading::policy::{Policy, Reading, Repair};
pub use reading::thoughts::Thoughts;
pub use schema::media::{MediaField, MediaKind};
pub use signature::Signature;
pub use stable_hash::stable_hash;
pub use type_tag::type_tag;

/// What the macro [`assert_unchanged!`] expands to. It is not part of the public API.
#[doc(hidden)]
pub mod __private {
    pub use crate::assert_unchanged::assert_unchanged;
}
