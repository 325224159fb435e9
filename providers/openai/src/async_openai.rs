//! Models from the configurations of async-openai.

use async_openai::config::Config;
use secrecy::ExposeSecret;
use toolwright_http::reqwest::Url;
use toolwright_http::reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use toolwright_http::{Endpoint, ErrorKind, HttpError};

use crate::Result;
use crate::open_ai::OpenAi;
use toolwright_provider::ProviderError;

impl OpenAi {
    /// Creates a model with the base URL, headers and query of a configuration of async-openai.
    ///
    /// The headers include the key, the organization and the project. The URLs are those that
    /// the configuration builds, so an `AzureConfig` works as well. A blank key is not sent.
    /// Errors do not show the key.
    ///
    /// ```
    /// use async_openai::config::OpenAIConfig;
    /// use toolwright_openai::OpenAi;
    ///
    /// let config = OpenAIConfig::new()
    ///     .with_api_base("https://example.com/v1")
    ///     .with_api_key("sk-made-up")
    ///     .with_project_id("proj_1");
    /// let model = OpenAi::from_async_openai(&config, "gpt-5-mini")?;
    /// assert_eq!(model.base_url(), "https://example.com/v1");
    /// assert!(!format!("{model:?}").contains("made-up"));
    /// # Ok::<(), toolwright_openai::ProviderError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ProviderError::Http`] if a URL cannot be used, is not below the base URL, or is plain http
    /// to another machine while there is a key, or if the key or a header has a character that is
    /// not allowed there, such as the line break at the end of a file.
    ///
    /// # Panics
    ///
    /// async-openai panics if the organization or project of an `OpenAIConfig` has a character that
    /// is not allowed in a header, such as a line break.
    pub fn from_async_openai(
        config: &(impl Config + ?Sized),
        model: impl Into<String>,
    ) -> Result<Self> {
        // async-openai would panic, and a key from a file often ends in a line break.
        if HeaderValue::from_str(config.api_key().expose_secret()).is_err() {
            return Err(invalid("key"));
        }
        let openai = with_headers(Self::at(config.api_base(), model)?, &config.headers())?;
        openai.with_urls([url(config, "/chat/completions")?, url(config, "/responses")?])
    }
}

fn with_headers(mut openai: OpenAi, headers: &HeaderMap) -> Result<OpenAi> {
    for (name, value) in headers {
        let value = value.to_str().map_err(|_| invalid(name.as_str()))?;
        let key = value.strip_prefix("Bearer").filter(|_| name == AUTHORIZATION);
        let key = key.filter(|key| key.is_empty() || key.starts_with(' '));
        openai = match key.map(str::trim) {
            Some("") => openai,
            // The redactor has to know the key without `Bearer`.
            Some(key) => openai.with_key(key)?,
            None => openai.with_connection(|c| c.with_header(name.as_str(), value))?,
        };
    }
    Ok(openai)
}

/// Returns the error for a value that is not allowed in a header.
fn invalid(name: &str) -> ProviderError {
    HttpError::from(ErrorKind::Header { name: name.to_owned() }).into()
}

fn url(config: &(impl Config + ?Sized), path: &str) -> Result<Url> {
    let mut url = Endpoint::exact(&config.url(path))?.as_url().clone();
    let query = config.query();
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    Ok(url)
}
