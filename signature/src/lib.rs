//! Typed contracts for tools and language models.
//!
//! A [`Signature`] is a type: its fields are what goes in, its
//! [`Output`](Signature::Output) is what comes back. Nothing in it says who does
//! the work, so code, a language model or a remote server can stand behind the
//! same one. A [`Contract`] is the same thing as a value: a name, a description
//! and JSON Schemas, ready to be sent. [`Contract::lower`] rewrites it for what
//! one provider accepts and says what was lost on the way.
//!
//! This crate does no I/O and needs no async runtime.
//!
//! | to | take |
//! |---|---|
//! | write a contract as a type | [`Signature`], [`Contract::of`] |
//! | make one of a schema that comes from elsewhere | [`Contract::dynamic`] |
//! | send it to a provider, and hear what it cannot be told | [`Contract::lower`], [`Contract::tool`], [`Dialect`], [`Loss`] |
//! | send several of them in one request | [`LoweredRequest`] |
//! | show a model an example in its provider's shape | [`Contract::lower_value`] |
//! | test that a type fits a provider | [`assert_fits`] |
//! | read what a model wrote | [`Contract::read`], [`Contract::read_with`], [`Policy`], [`Fault`] |
//! | see whether another contract may stand in for it | [`Contract::differences`], [`Difference`] |
//! | read it while it still grows | [`Partial`] |
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
//! A contract's schemas go through one pipeline, each step in a module of its own:
//!
//! ```text
//! Rust type ─► schema ─► normal form ─► graph ─┬─► lowering: schemas and examples of a dialect
//!   foreign schema ─┘                          ├─► reading: texts to values, faults, repairs
//!                                              └─► comparing: differences of two contracts
//! ```
//!
//! - The *schema* is what everybody sees: in the words of JSON Schema 2020-12, inlined.
//! - The *normal form* has one way to say each thing: `allOf` merged, types inferred,
//!   references to definitions only.
//! - The *graph* is the normal form as typed nodes. Everything after it reads the graph, so no
//!   two steps can understand a schema differently.
//! - The *wire shapes* (`key` and `value`, `item_0`, `additional_properties`, `input`,
//!   `result`) are what lowering makes of a value that a dialect cannot say, and what reading
//!   takes back.
//!
//! Every step has limits of depth and work, because schemas and texts come from elsewhere.
//! What exceeds one is an error that names the place.
//!
//! # Features
//!
//! None is on by itself. Each lets types of one crate stand in a signature, by turning on
//! what schemars knows of it: `bytes`, `chrono`, `decimal` (`rust_decimal`), `indexmap`,
//! `jiff`, `semver`, `url` and `uuid`. Turn on that crate's own `serde` feature too.

mod assert_fits;
mod comparing;
mod contract;
mod error;
mod limits;
mod lowering;
mod name;
mod partial;
mod reading;
mod schema;
mod signature;
mod type_tag;
mod wire_shapes;

pub use assert_fits::assert_fits;
pub use comparing::Difference;
pub use contract::Contract;
pub use error::{ContractError, Fault, NameFault, SchemaFault, Side};
pub use lowering::dialect::{Dialect, Loss, Lowered};
pub use lowering::request::LoweredRequest;
pub use partial::{Field, Partial};
pub use reading::policy::{Policy, Reading, Repair};
pub use signature::Signature;
pub use type_tag::type_tag;
