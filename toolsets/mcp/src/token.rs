//! Validation of a bearer token, for both sides.

use secrecy::{ExposeSecret, SecretString};

use crate::error::{McpError, Result};

/// Returns the token if it is valid in a header: not empty, visible ASCII.
pub(crate) fn checked(token: SecretString) -> Result<SecretString> {
    let text = token.expose_secret();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(McpError::Token);
    }
    Ok(token)
}
