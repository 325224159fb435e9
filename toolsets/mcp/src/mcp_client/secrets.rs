//! [`Secrets`], which removes the tokens and headers of a connection from the server's messages.

use crate::error::Source;

/// The secrets of one connection. Without HTTP there are no secrets.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    #[cfg(feature = "http-client")]
    redactor: toolwright_http::Redactor,
    /// The login, whose tokens change.
    #[cfg(feature = "login")]
    logins: Option<std::sync::Arc<crate::mcp_client::logins::Logins>>,
}

#[cfg(feature = "http-client")]
impl Secrets {
    pub(crate) fn new(redactor: toolwright_http::Redactor) -> Self {
        Self {
            redactor,
            #[cfg(feature = "login")]
            logins: None,
        }
    }

    #[cfg(feature = "login")]
    pub(crate) fn with_logins(
        self,
        logins: Option<std::sync::Arc<crate::mcp_client::logins::Logins>>,
    ) -> Self {
        Self { logins, ..self }
    }

    /// Returns the present secrets.
    fn redactors(&self) -> impl Iterator<Item = toolwright_http::Redactor> {
        let present = std::iter::once(self.redactor.clone());
        #[cfg(feature = "login")]
        let present = present.chain(self.logins.as_ref().map(|logins| logins.redactor()));
        present
    }

    /// Removes the secrets from a text.
    pub(crate) fn redact(&self, text: String) -> String {
        self.redactors().fold(text, |text, redactor| redactor.redact(&text).into_owned())
    }

    /// Returns the error if it contains no secret, otherwise its redacted text.
    pub(crate) fn redact_error(&self, error: Source) -> Source {
        let text = toolwright_http::with_causes(&*error);
        let debug = format!("{error:?}");
        let has_secret = self
            .redactors()
            .any(|redactor| redactor.finds_secret(&text) || redactor.finds_secret(&debug));
        if has_secret { self.redact(text).into() } else { error }
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
