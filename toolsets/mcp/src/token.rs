//! What both ends ask of a bearer token.

use secrecy::{ExposeSecret, SecretString};

use crate::error::{McpError, Result};

/// The token, if a header can carry it.
pub(crate) fn checked(token: SecretString) -> Result<SecretString> {
    let text = token.expose_secret();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(McpError::Token);
    }
    Ok(token)
}
