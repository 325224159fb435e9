//! `github_api_request`: any GET request of the REST API.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Prefixes};
use crate::untrusted::{Untrusted, fenced};

/// Response of the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApiReply {
    /// The HTTP status, 200 to 299.
    pub status: u16,
    /// The response body, usually JSON.
    pub body: Untrusted,
}

impl ApiReply {
    /// Returns the text for the model.
    pub(super) fn text(&self) -> String {
        if self.body.as_str().is_empty() {
            return format!("(Status {}, no body.)", self.status);
        }
        fenced(self.body.as_str())
    }
}

pub(super) const PREFIXES: Prefixes = Prefixes {
    failed: "API request failed",
    doing: "Error making API request",
    parsing: "API request failed",
};

/// Maximum number of parameters.
const MAX_FIELDS: usize = 50;
/// Maximum length of a parameter's value, in bytes.
const MAX_VALUE: usize = 4096;

/// Checks the names and values of parameters, and returns them as pairs of a query.
pub(super) fn checked(fields: &BTreeMap<String, String>) -> Result<Vec<(&str, &str)>, Failure> {
    let fault = |text: String| Err(Failure::Argument(format!("`fields` {text}")));
    if fields.len() > MAX_FIELDS {
        return fault(format!("must not have more than {MAX_FIELDS} entries"));
    }
    for (name, value) in fields {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"_-[].".contains(&byte);
        let named = (1..=100).contains(&name.len()) && name.bytes().all(known);
        if !named || name.starts_with(['-', '_']) {
            return fault("must have names of parameters, such as per_page, as keys".to_owned());
        }
        if value.len() > MAX_VALUE || value.chars().any(char::is_control) {
            return fault(format!(
                "must not have values with control characters or more than {MAX_VALUE} bytes; change `{name}`"
            ));
        }
    }
    Ok(fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect())
}
