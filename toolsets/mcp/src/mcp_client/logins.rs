//! [`Logins`], the tokens that a connection sends, and their renewal.

use std::error::Error as StdError;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use reqwest::Url;
use reqwest::redirect::Policy;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource,
    CredentialStore, InMemoryCredentialStore, OAuthClientConfig, StoredCredentials,
    WWWAuthenticateParams,
};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_http::{Endpoint, Redactor};
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

use crate::error::{McpError, Result, Source};
use crate::mcp_client::login_store::LoginStore;

/// Maximum time to renew a login, with the requests that find the authorization server.
pub(crate) const EXCHANGE_TIME: Duration = Duration::from_secs(60);

/// Timeout of one request to an authorization server on this machine. rmcp's own is the same.
const REQUEST_TIME: Duration = Duration::from_secs(30);

/// A token is renewed this time before its end, or at half of its time.
const MARGIN: u64 = 30;

/// Time after a failed renewal without another attempt. Each of the many attempts to connect would
/// make one.
const FAILURE_TIME: Duration = Duration::from_secs(2);

/// Maximum number of characters of a server's text that an error shows.
const SHOWN_CHARS: usize = 300;

/// The login at one server, as it is stored. It has no `Debug`, so that no token gets into a log.
#[derive(Serialize, Deserialize)]
pub(crate) struct Login {
    /// The server that the tokens are for. They are not sent to another one.
    server: String,
    /// The authorization server that issued the tokens.
    issuer: Option<String>,
    client: String,
    client_secret: Option<String>,
    pub(crate) scopes: Vec<String>,
    access_token: String,
    refresh_token: Option<String>,
    /// When the access token is to be renewed, in seconds since 1970.
    renew_at: Option<u64>,
    /// Whether the authorization server may have a private address.
    private_addresses: bool,
}

impl Login {
    /// Returns the login of a response with tokens.
    ///
    /// # Errors
    ///
    /// The token is not one that is sent as it is, or not valid in a header.
    pub(crate) fn new(
        server: &ServerUrl,
        credentials: &StoredCredentials,
        client: &OAuthClientConfig,
        private_addresses: bool,
    ) -> Result<Self, Source> {
        let tokens = serde_json::to_value(&credentials.token_response)
            .map_err(|_| "its response has no valid tokens")?;
        let text = |name: &str| tokens.get(name).and_then(Value::as_str).map(str::to_owned);
        if !text("token_type").is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
            return Err("its token is not a bearer token, and no other type is supported".into());
        }
        let access_token = text("access_token").unwrap_or_default();
        if crate::token::checked(access_token.clone().into()).is_err() {
            return Err("its token is not valid in a header".into());
        }
        let lifetime = tokens.get("expires_in").and_then(Value::as_u64);
        let renew_at =
            lifetime.and_then(|time| now().checked_add(time.saturating_sub(MARGIN.min(time / 2))));
        Ok(Self {
            server: server.key().to_owned(),
            issuer: credentials.issuer.clone(),
            client: client.client_id.clone(),
            client_secret: client.client_secret.clone(),
            scopes: credentials.granted_scopes.clone(),
            access_token,
            refresh_token: text("refresh_token").filter(|token| !token.is_empty()),
            renew_at,
            private_addresses,
        })
    }

    /// Loads the login at a server.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or has a text that is not a login at this server.
    pub(crate) async fn load(
        store: &dyn LoginStore,
        server: &ServerUrl,
    ) -> io::Result<Option<Self>> {
        let Some(text) = store.load(server.key()).await? else { return Ok(None) };
        // The error of serde may quote the text.
        let login: Option<Self> = serde_json::from_str(text.expose_secret()).ok();
        match login.filter(|login| login.server == server.key()) {
            Some(login) => Ok(Some(login)),
            None => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the stored text is not a login at this server",
            )),
        }
    }

    pub(crate) async fn save(&self, store: &dyn LoginStore) -> io::Result<()> {
        let text = serde_json::to_string(self).map_err(io::Error::other)?;
        store.save(&self.server, text.into()).await
    }

    fn is_old(&self) -> bool {
        self.renew_at.is_some_and(|at| now() >= at)
    }

    /// Adds the secrets to those that errors do not show.
    fn added_to(&self, redactor: Redactor) -> Redactor {
        let secrets = [
            ("token", Some(&self.access_token)),
            ("refresh token", self.refresh_token.as_ref()),
            ("client secret", self.client_secret.as_ref()),
        ];
        secrets.into_iter().fold(redactor, |redactor, (name, secret)| match secret {
            Some(secret) => redactor.with_secret(name, secret),
            None => redactor,
        })
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The URL of a server as the resource of a login: without query and fragment.
#[derive(Clone)]
pub(crate) struct ServerUrl {
    url: Url,
    is_loopback: bool,
}

impl ServerUrl {
    /// # Errors
    ///
    /// [`McpError::Url`] if others on the network could read a token.
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Self> {
        let is_loopback = endpoint.is_loopback();
        if endpoint.as_url().scheme() == "http" && !is_loopback {
            let fault = "a login is not sent over http:// to another machine; use https://";
            return Err(McpError::Url { fault });
        }
        let mut url = endpoint.as_url().clone();
        url.set_query(None);
        url.set_fragment(None);
        Ok(Self { url, is_loopback })
    }

    /// The name of the server in a store.
    pub(crate) fn key(&self) -> &str {
        self.url.as_str()
    }

    pub(crate) fn shown(&self) -> String {
        toolwright_http::shown_url(&self.url)
    }

    /// Finds the authorization server. The returned metadata is set in the manager.
    ///
    /// # Errors
    ///
    /// The server names none, or one that must not get a request of this client.
    pub(crate) async fn authorization(
        &self,
        private_addresses: bool,
    ) -> Result<(AuthorizationManager, AuthorizationMetadata), Source> {
        let mut manager = match private_addresses {
            true => AuthorizationManager::new_allowing_private_addresses(self.url.clone()).await,
            false => AuthorizationManager::new(self.url.clone()).await,
        }
        .map_err(source_of)?;
        if self.is_loopback {
            // A proxy cannot reach loopback addresses of this machine.
            let client = reqwest::Client::builder()
                .no_proxy()
                .redirect(Policy::none())
                .timeout(REQUEST_TIME)
                .build()
                .map_err(|error| error.without_url())?;
            manager.with_client(client).map_err(source_of)?;
        }
        let found = manager.resolve_metadata().await.map_err(source_of)?;
        if found.source == AuthorizationMetadataSource::LegacyEndpointFallback {
            return Err("the server does not say where to log in; it may need a token that its \
                        operator gives you"
                .into());
        }
        let metadata = found.metadata;
        let endpoints = [
            Some(&metadata.authorization_endpoint),
            Some(&metadata.token_endpoint),
            metadata.registration_endpoint.as_ref(),
        ];
        if !endpoints
            .into_iter()
            .flatten()
            .all(|endpoint| self.may_name(endpoint, private_addresses))
        {
            return Err("its authorization server has an address that is not https, or is on a \
                        private network"
                .into());
        }
        manager.set_metadata(metadata.clone());
        Ok((manager, metadata))
    }

    /// Returns whether the server may name this address. rmcp checks the addresses to which names
    /// resolve; this is for the address that a browser opens, and for plain http.
    fn may_name(&self, address: &str, private_addresses: bool) -> bool {
        let Ok(endpoint) = Endpoint::exact(address) else { return false };
        let is_encrypted = endpoint.as_url().scheme() == "https";
        match (endpoint.is_loopback(), self.is_loopback) {
            (true, true) => true,
            (true, false) => false,
            (false, _) => {
                let is_private_allowed = private_addresses || is_private(&self.url);
                is_encrypted && (is_private_allowed || !is_private(endpoint.as_url()))
            }
        }
    }
}

/// Returns whether the host is the number of a private, link-local or otherwise local address.
fn is_private(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let Ok(address) = host.parse::<std::net::IpAddr>() else { return false };
    match address.to_canonical() {
        std::net::IpAddr::V4(v4) => {
            // The last ones are those behind a provider's NAT (RFC 6598).
            let is_shared = matches!(v4.octets(), [100, 64..=127, ..]);
            v4.is_private() || v4.is_link_local() || v4.is_unspecified() || is_shared
        }
        std::net::IpAddr::V6(v6) => {
            v6.is_unique_local() || v6.is_unicast_link_local() || v6.is_unspecified()
        }
    }
}

/// Why a server cannot be used without a new login.
#[derive(Clone, Default)]
pub(crate) enum Missing {
    #[default]
    NoLogin,
    Ended,
    Rejected,
    OtherIssuer,
    Scopes(String),
}

impl Missing {
    fn reason(&self) -> String {
        match self {
            Self::NoLogin => "there is no login".to_owned(),
            Self::Ended => "the login has expired or was revoked".to_owned(),
            Self::Rejected => "the server rejected the login".to_owned(),
            Self::OtherIssuer => "the server now names another authorization server".to_owned(),
            Self::Scopes(scopes) => format!(
                "the login lacks the scopes `{scopes}`, which `McpLogin::with_scopes` requests"
            ),
        }
    }
}

/// Why there is no token to send.
pub(crate) enum NoToken {
    /// A person has to log in.
    Missing(Missing),
    /// The store, the network or the authorization server failed. Another attempt may succeed.
    Failed(Source),
}

impl From<io::Error> for NoToken {
    fn from(error: io::Error) -> Self {
        Self::Failed(format!("the stored login could not be read or written: {error}").into())
    }
}

/// The login of a connection, which all of its requests share.
pub(crate) struct Logins {
    store: Arc<dyn LoginStore>,
    server: ServerUrl,
    /// Held while the login is renewed. It has the last failure.
    renewing: tokio::sync::Mutex<Option<(Instant, String)>>,
    /// The tokens that were sent.
    sent: Mutex<Redactor>,
    /// Why the last request without a valid login failed.
    missing: Mutex<Missing>,
}

impl Logins {
    pub(crate) fn new(store: impl LoginStore, endpoint: &Endpoint) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            store: Arc::new(store),
            server: ServerUrl::new(endpoint)?,
            renewing: tokio::sync::Mutex::default(),
            sent: Mutex::default(),
            missing: Mutex::default(),
        }))
    }

    /// Returns the token for the next request, or `None` without a login. An old one is renewed.
    pub(crate) async fn token(self: &Arc<Self>) -> Result<Option<String>, NoToken> {
        let Some(login) = self.load().await? else {
            self.set_missing(Missing::NoLogin);
            return Ok(None);
        };
        if !login.is_old() || login.refresh_token.is_none() {
            return Ok(Some(login.access_token));
        }
        match self.renewed(&login.access_token).await {
            Ok(token) => Ok(Some(token)),
            Err(NoToken::Failed(error)) => {
                // It may be valid for some seconds. If it is not, the server says so.
                tracing::debug!(error, "a login could not be renewed ahead of time");
                Ok(Some(login.access_token))
            }
            Err(missing) => Err(missing),
        }
    }

    /// Returns the token in place of one that was rejected or is old. One request renews it for all
    /// others, also those of other processes.
    pub(crate) async fn renewed(self: &Arc<Self>, old: &str) -> Result<String, NoToken> {
        let (logins, old) = (Arc::clone(self), SecretString::from(old));
        // A task of its own: a call may be dropped while the authorization server exchanges the
        // refresh token, and the new one would be lost.
        let renewing = tokio::spawn(async move { logins.renew(old.expose_secret()).await });
        let renewed = renewing.await.unwrap_or_else(|error| Err(NoToken::Failed(Box::new(error))));
        renewed.inspect_err(|error| {
            if let NoToken::Missing(missing) = error {
                self.set_missing(missing.clone());
            }
        })
    }

    async fn renew(&self, old: &str) -> Result<String, NoToken> {
        let mut failure = self.renewing.lock().await;
        if let Some((_, text)) = failure.as_ref().filter(|(at, _)| at.elapsed() < FAILURE_TIME) {
            return Err(NoToken::Failed(text.clone().into()));
        }
        let renewed = self.renew_once(old).await;
        *failure = match &renewed {
            Err(NoToken::Failed(error)) => Some((Instant::now(), error.to_string())),
            _ => None,
        };
        renewed
    }

    async fn renew_once(&self, old: &str) -> Result<String, NoToken> {
        let _lock = self.store.lock(self.server.key()).await?;
        let Some(login) = self.load().await? else {
            return Err(NoToken::Missing(Missing::NoLogin));
        };
        if login.access_token != old {
            return Ok(login.access_token);
        }
        let ended = || NoToken::Missing(Missing::Ended);
        let refresh_token = login.refresh_token.clone().ok_or_else(ended)?;
        // rmcp logs parts of the exchange, with fields that may be secrets.
        let exchange = self.exchange(&login, &refresh_token).with_subscriber(Dispatch::none());
        let renewed = match tokio::time::timeout(EXCHANGE_TIME, exchange).await {
            Ok(Ok(renewed)) => renewed,
            Ok(Err(NoToken::Missing(Missing::Ended))) => {
                // The next request needs no attempt to know it.
                self.store.delete(self.server.key()).await?;
                return Err(ended());
            }
            Ok(Err(NoToken::Failed(error))) => {
                let text = format!("the login could not be renewed: {error}");
                return Err(NoToken::Failed(text.into()));
            }
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let text = "the login could not be renewed: there was no response in time";
                return Err(NoToken::Failed(text.into()));
            }
        };
        self.note(&renewed);
        renewed.save(&*self.store).await?;
        tracing::debug!(server = self.server.shown(), "a login was renewed");
        Ok(renewed.access_token)
    }

    /// Exchanges the refresh token for new tokens.
    async fn exchange(&self, login: &Login, refresh_token: &str) -> Result<Login, NoToken> {
        let (mut manager, metadata) =
            self.server.authorization(login.private_addresses).await.map_err(NoToken::Failed)?;
        if login.issuer != metadata.issuer {
            return Err(NoToken::Missing(Missing::OtherIssuer));
        }
        let failed = |error| NoToken::Failed(self.redacted(source_of(error)));
        let tokens = json!({
            "access_token": login.access_token,
            "token_type": "Bearer",
            "refresh_token": refresh_token,
        });
        let tokens = serde_json::from_value(tokens).map_err(io::Error::other)?;
        let stored =
            StoredCredentials::new(login.client.clone(), Some(tokens), login.scopes.clone(), None)
                .with_issuer(login.issuer.clone());
        let memory = InMemoryCredentialStore::new();
        memory.save(stored).await.map_err(failed)?;
        manager.set_credential_store(memory.clone());
        // A refresh has no redirect, but the configuration has one.
        let mut client = OAuthClientConfig::new(login.client.clone(), self.server.key());
        client.client_secret = login.client_secret.clone();
        manager.configure_client(client.clone()).map_err(failed)?;
        match manager.refresh_token().await {
            Ok(_) => {}
            Err(AuthError::TokenRefreshRejected(_) | AuthError::AuthorizationRequired) => {
                return Err(NoToken::Missing(Missing::Ended));
            }
            Err(error) => return Err(failed(error)),
        }
        let stored = memory.load().await.map_err(failed)?;
        let stored = stored.ok_or_else(|| NoToken::Failed("there are no new tokens".into()))?;
        Login::new(&self.server, &stored, &client, login.private_addresses).map_err(NoToken::Failed)
    }

    async fn load(&self) -> io::Result<Option<Login>> {
        let login = Login::load(&*self.store, &self.server).await?;
        if let Some(login) = &login {
            self.note(login);
        }
        Ok(login)
    }

    /// Notes the secrets of a login, which errors do not show.
    fn note(&self, login: &Login) {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        *sent = login.added_to(sent.clone());
    }

    pub(crate) fn redactor(&self) -> Redactor {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn redacted(&self, error: Source) -> Source {
        self.redactor().redact(&error.to_string()).into()
    }

    pub(crate) fn set_missing(&self, missing: Missing) {
        *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = missing;
    }

    /// Notes the scopes that the server asks for in a header `WWW-Authenticate`.
    pub(crate) fn set_missing_scopes(&self, challenge: &str) {
        let scopes = WWWAuthenticateParams::parse(challenge, &self.server.url).scope;
        // The characters of a scope, so that the text of an error stays one line.
        let is_of_scope = |c: &char| matches!(c, ' ' | '!' | '#'..='[' | ']'..='_' | 'a'..='~');
        let scopes: String =
            scopes.unwrap_or_default().chars().filter(is_of_scope).take(SHOWN_CHARS).collect();
        self.set_missing(match scopes.trim() {
            "" => Missing::Rejected,
            scopes => Missing::Scopes(scopes.to_owned()),
        });
    }

    /// Returns the error of a request without a valid login.
    pub(crate) fn required(&self) -> McpError {
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        McpError::LoginRequired { server: self.server.shown(), reason: missing.reason() }
    }
}

/// Returns a failure of rmcp as one short line. An authorization server may send a long text.
pub(crate) fn source_of(error: AuthError) -> Source {
    let text = match error {
        AuthError::DiscoveryRequestFailed { source, .. } => {
            // reqwest's error shows the URL, whose path may be a secret.
            let cause = match source.downcast::<reqwest::Error>() {
                Ok(error) => toolwright_http::with_causes(&error.without_url()),
                Err(error) => toolwright_http::with_causes(&*error),
            };
            format!("a request for its metadata failed: {cause}")
        }
        AuthError::TokenRefreshFailed(text)
        | AuthError::TokenExchangeFailed(text)
        | AuthError::AuthorizationFailed(text)
        | AuthError::RegistrationFailed(text) => text,
        error => {
            let error: &(dyn StdError + 'static) = &error;
            toolwright_http::with_causes(error)
        }
    };
    let mut chars = text.chars().filter(|c| !c.is_control());
    let start: String = chars.by_ref().take(SHOWN_CHARS).collect();
    if chars.next().is_some() { start + "…" } else { start }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_name(server: &str, address: &str, private_addresses: bool) -> bool {
        let server = ServerUrl::new(&Endpoint::exact(server).unwrap()).unwrap();
        server.may_name(address, private_addresses)
    }

    #[test]
    fn a_public_server_names_no_address_of_the_users_machine_or_network() {
        let public = "https://mcp.example.com/mcp";
        for address in [
            "http://auth.example.com/token",
            "http://127.0.0.1/token",
            "https://localhost/token",
            "https://10.0.0.1/token",
            "https://192.168.1.1/token",
            "https://169.254.169.254/latest",
            "https://100.64.0.1/token",
            "https://[fd00::1]/token",
            "https://[fe80::1]/token",
            "https://[::ffff:10.0.0.1]/token",
            "https://0.0.0.0/token",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https://user@auth.example.com/",
        ] {
            assert!(!may_name(public, address, false), "{address}");
        }
        assert!(may_name(public, "https://auth.example.com/token", false));
        assert!(may_name(public, "https://10.0.0.1/token", true));
        assert!(!may_name(public, "https://127.0.0.1/token", true));
        assert!(may_name("https://10.0.0.2/mcp", "https://10.0.0.1/token", false));
        assert!(may_name("http://localhost:8000/mcp", "http://127.0.0.1/token", false));
        assert!(!may_name("http://localhost:8000/mcp", "http://auth.example.com/token", false));
    }
}
