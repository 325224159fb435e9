//! Names that a model sees: made from type names, and checked.

use heck::ToSnakeCase;

use crate::error::{ContractError, NameFault, Result};

/// Longest name every provider accepts (OpenAI's limit is the smallest).
const LONGEST: usize = 64;

/// Returns the name of a type in snake case: `HTTPGet` → `http_get`.
pub(crate) fn snake_case(type_name: &str) -> String {
    type_name.to_snake_case()
}

/// Returns the default name of a signature: `Legal`, `SearchDocuments` →
/// `legal_search_documents`.
pub(crate) fn of(type_name: &str, namespace: &str) -> String {
    let name = snake_case(type_name);
    match snake_case(namespace) {
        namespace if namespace.is_empty() => name,
        namespace => format!("{namespace}_{name}"),
    }
}

/// Returns a name in words: `search_documents` → `Search documents`.
pub(crate) fn words(name: &str) -> String {
    let mut words = name.replace(['_', '-'], " ");
    if let Some(first) = words.get_mut(0..1) {
        first.make_ascii_uppercase();
    }
    words
}

/// Checks that providers accept `name`: `[A-Za-z0-9_-]{1,64}`.
pub(crate) fn check(name: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let fault = if name.is_empty() {
        NameFault::Empty
    } else if name.len() > LONGEST {
        NameFault::TooLong(name.len())
    } else if let Some(c) = name.chars().find(|c| !is_allowed(*c)) {
        NameFault::Character(c)
    } else {
        return Ok(());
    };
    Err(ContractError::Name { name: name.to_owned(), fault })
}
