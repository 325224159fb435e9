//! The names under which a model sees a contract.

use std::borrow::Cow;
use std::marker::PhantomData;

use insta::assert_snapshot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_signature::{Contract, ContractError, NameFault, Signature};

macro_rules! signature {
    ($(#[$attribute:meta])* $name:ident) => {
        #[derive(Serialize, Deserialize, JsonSchema)]
        $(#[$attribute])*
        struct $name {}
        impl Signature for $name {
            type Output = ();
        }
    };
}

fn refused(name: &str) -> String {
    let input = json!({"type": "object", "properties": {}});
    let error = Contract::dynamic(name, "", input, None).unwrap_err();
    assert!(matches!(error, ContractError::Name { .. }), "{error:?}");
    error.to_string()
}

#[test]
fn a_type_name_becomes_snake_case() {
    signature!(SearchDocuments);
    signature!(HTTPGet);
    signature!(MemoryGetV2Metadata);
    assert_eq!(SearchDocuments::name(), "search_documents");
    assert_eq!(HTTPGet::name(), "http_get");
    assert_eq!(MemoryGetV2Metadata::name(), "memory_get_v2_metadata");
    // The contract takes it as it is.
    let contract = Contract::of::<HTTPGet>().unwrap();
    assert_eq!(contract.name(), "http_get");
}

#[test]
fn a_namespace_is_joined_by_an_underscore() {
    signature!(
        #[schemars(rename = "Legal::SearchDocuments")]
        Renamed
    );
    assert_eq!(Renamed::name(), "legal_search_documents");
}

/// Two types of one name, in two modules of the program.
#[test]
fn a_namespace_separates_types_of_the_same_name() {
    macro_rules! search_documents {
        ($module:ident, $namespace:literal) => {
            mod $module {
                use super::*;

                #[derive(Serialize, Deserialize, JsonSchema)]
                pub(super) struct SearchDocuments {}

                impl Signature for SearchDocuments {
                    type Output = ();

                    fn namespace() -> &'static str {
                        $namespace
                    }
                }
            }
        };
    }
    search_documents!(nowhere, "");
    search_documents!(legal, "Legal");
    search_documents!(medical, "MedicalRecords::v2");
    let names = [
        Contract::of::<nowhere::SearchDocuments>(),
        Contract::of::<legal::SearchDocuments>(),
        Contract::of::<medical::SearchDocuments>(),
    ];
    let names = names.map(|contract| contract.unwrap().name().to_owned());
    let expected =
        ["search_documents", "legal_search_documents", "medical_records_v2_search_documents"];
    assert_eq!(names, expected);
}

#[test]
fn the_name_is_known_without_a_value_and_is_that_of_the_contract() {
    fn name_of<S: Signature>() -> Cow<'static, str> {
        S::name()
    }
    signature!(CountEntries);
    let contract = Contract::of::<CountEntries>().unwrap();
    assert_eq!(name_of::<CountEntries>(), contract.name());
}

#[test]
fn a_name_of_64_characters_is_the_longest() {
    let input = json!({"type": "object"});
    let longest = "a".repeat(64);
    let contract = Contract::dynamic(&longest, "", input, None).unwrap();
    assert_eq!(contract.name(), longest);
    assert_snapshot!(
        refused(&"a".repeat(65)),
        @"`aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa` cannot be a tool's name: it has 65 characters, providers accept 64; shorten it"
    );
}

#[test]
fn every_character_that_providers_accept_is_accepted() {
    let input = json!({"type": "object"});
    let contract = Contract::dynamic("Az09_-", "", input, None).unwrap();
    assert_eq!(contract.name(), "Az09_-");
}

#[test]
fn a_name_that_breaks_a_rule_is_refused_with_the_rule() {
    assert_snapshot!(refused(""), @"`` cannot be a tool's name: it is empty; give it 1 to 64 characters of A-Z a-z 0-9 _ -");
    assert_snapshot!(refused("get weather"), @"`get weather` cannot be a tool's name: ' ' is not allowed; use only A-Z a-z 0-9 _ -");
    assert_snapshot!(refused("größe"), @"`größe` cannot be a tool's name: 'ö' is not allowed; use only A-Z a-z 0-9 _ -");
    assert_snapshot!(refused("a.b"), @"`a.b` cannot be a tool's name: '.' is not allowed; use only A-Z a-z 0-9 _ -");
    assert_snapshot!(refused("a\nb"), @r"`a\nb` cannot be a tool's name: '\n' is not allowed; use only A-Z a-z 0-9 _ -");
}

#[test]
fn an_error_about_a_long_name_shows_its_start() {
    for name in ["a".repeat(5_000_000), "\u{1}".repeat(5_000_000), "ö".repeat(500)] {
        let error = refused(&name);
        assert!(error.len() < 300, "{} bytes", error.len());
        assert!(error.contains("…`") && !error.contains('\u{1}'), "{error}");
    }
}

#[test]
fn a_type_may_be_called_finish_but_its_name_must_be_ascii() {
    signature!(Finish);
    signature!(Größe);
    assert_eq!(Contract::of::<Finish>().unwrap().name(), Contract::FINISH);
    assert_snapshot!(Contract::of::<Größe>().unwrap_err(), @"`größe` cannot be a tool's name: 'ö' is not allowed; use only A-Z a-z 0-9 _ -");
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Fetch<T> {
    #[serde(skip)]
    of: PhantomData<T>,
}

impl Signature for Fetch<u8> {
    type Output = ();
}

impl Signature for Fetch<u16> {
    type Output = ();

    fn name() -> Cow<'static, str> {
        "fetch_wide".into()
    }
}

#[test]
fn a_generic_type_needs_a_name_of_its_own() {
    assert_snapshot!(Contract::of::<Fetch<u8>>().unwrap_err(), @"`fetch` cannot be a tool's name: all instances of this generic type would share it; override `Signature::name` with a literal, or with another name");
    assert_eq!(Contract::of::<Fetch<u16>>().unwrap().name(), "fetch_wide");
}

impl Signature for Fetch<u64> {
    type Output = ();

    fn namespace() -> &'static str {
        "web"
    }
}

#[test]
fn a_generic_type_with_a_namespace_still_needs_a_name_of_its_own() {
    assert_snapshot!(Contract::of::<Fetch<u64>>().unwrap_err(), @"`web_fetch` cannot be a tool's name: all instances of this generic type would share it; override `Signature::name` with a literal, or with another name");
}

impl Signature for Fetch<u32> {
    type Output = ();

    fn name() -> Cow<'static, str> {
        "fetch".into()
    }
}

#[test]
fn a_generic_type_may_declare_its_own_type_name() {
    assert_eq!(Contract::of::<Fetch<u32>>().unwrap().name(), "fetch");
}

/// A type's path shows angle brackets there, though the type has no parameters.
#[test]
fn a_type_declared_inside_an_impl_of_a_trait_is_not_generic() {
    struct Host;
    impl Iterator for Host {
        type Item = Result<Contract, ContractError>;

        fn next(&mut self) -> Option<Self::Item> {
            signature!(Inside);
            Some(Contract::of::<Inside>())
        }
    }
    assert_eq!(Host.next().unwrap().unwrap().name(), "inside");
}

#[test]
fn a_contract_can_be_renamed_by_the_same_rules() {
    signature!(
        /// Find things.
        Find
    );
    let contract = Contract::of::<Find>().unwrap();
    let named = contract.named("custom_search").unwrap();
    assert_eq!(named.name(), "custom_search");
    assert_eq!(named.description(), "Find things.");
    assert_ne!(named, contract);
    assert!(matches!(
        contract.named("custom search"),
        Err(ContractError::Name { fault: NameFault::Character(' '), .. })
    ));
}

#[test]
fn the_doc_comment_is_the_default_description() {
    signature!(
        /// Find things.
        ///
        /// In every drawer.
        Find
    );
    let contract = Contract::of::<Find>().unwrap();
    assert_eq!(contract.description(), "Find things.\n\nIn every drawer.");
    assert_eq!(contract.description(), Find::description());
    // Said once: the schema does not repeat it.
    assert!(contract.input().get("description").is_none());
    let described = contract.described("Look for things.");
    assert_eq!(described.description(), "Look for things.");
}

#[test]
fn the_default_description_without_a_doc_comment_is_the_name_in_words() {
    signature!(FindThings);
    let contract = Contract::of::<FindThings>().unwrap();
    assert_eq!(contract.description(), "Find things");
    assert_eq!(contract.described(" ").description(), "Find things");
    let input = json!({"type": "object"});
    let dynamic = Contract::dynamic("find-things", "", input, None).unwrap();
    assert_eq!(dynamic.description(), "Find things");
}

#[test]
fn an_input_that_is_not_an_object_is_rejected() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    enum Choice {
        One,
    }
    impl Signature for Choice {
        type Output = ();
    }
    assert_snapshot!(Contract::of::<Choice>().unwrap_err(), @"the input schema of `choice` cannot be used at $: it is not an object; put the value in a field of a struct");
}
