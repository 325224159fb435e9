//! [`Secrets`], which removes the token and headers of a connection from the server's messages.

use crate::error::Source;

/// The secrets of one connection. Without HTTP there are no secrets.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    #[cfg(feature = "http-client")]
    redactor: toolwright_http::Redactor,
}

#[cfg(feature = "http-client")]
impl Secrets {
    pub(crate) fn new(redactor: toolwright_http::Redactor) -> Self {
        Self { redactor }
    }

    /// Removes the secrets from a text.
    pub(crate) fn redact(&self, text: String) -> String {
        self.redactor.redact(&text).into_owned()
    }

    /// Returns the error if it contains no secret, otherwise its redacted text.
    pub(crate) fn redact_error(&self, error: Source) -> Source {
        let text = toolwright_http::with_causes(&*error);
        let has_secret =
            self.redactor.finds_secret(&text) || self.redactor.finds_secret(&format!("{error:?}"));
        if has_secret { self.redactor.redact(&text).into() } else { error }
    }
}

#[cfg(not(feature = "http-client"))]
impl Secrets {
    pub(crate) fn redact(&self, text: String) -> String {
        text
    }

    pub(crate) fn redact_error(&self, error: Source) -> Source {
        error
    }
}
