//! [`McpLogin`] and [`PendingLogin`]: logging in to a server and out of it.

use std::fmt;
use std::sync::Arc;

use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationCallback, AuthorizationManager, AuthorizationMetadata, CredentialStore,
    InMemoryCredentialStore, OAuthClientConfig,
};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;
use toolwright_http::{Endpoint, Redactor};
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

use crate::error::{McpError, Result, Source};
use crate::mcp_client::http::invalid_address;
use crate::mcp_client::login_store::LoginStore;
use crate::mcp_client::logins::{EXCHANGE_TIME, Login, ServerUrl, source_of};

/// A login to an MCP server with OAuth 2.1: its address and settings.
///
/// [`begin`](Self::begin) returns the address that the user opens in a browser. After the login, the
/// browser opens the redirect address; [`PendingLogin::finish`] takes it and stores the tokens. A
/// client [with the store](crate::McpClientBuilder::with_logins) sends and renews them.
///
/// ```no_run
/// use toolwright_mcp::{LoginFolder, McpClient, McpLogin};
///
/// # async fn log_in() -> Result<(), Box<dyn std::error::Error>> {
/// let url = "https://mcp.example.com/mcp";
/// let logins = LoginFolder::open("/home/ada/.local/share/my-program/logins")?;
/// let login = McpLogin::new(url)?.with_name("My program");
/// let login = login.begin("http://127.0.0.1:8123/callback", logins.clone()).await?;
/// println!("Open {}\nand paste the address of the page after it:", login.url());
/// let mut redirected = String::new();
/// std::io::stdin().read_line(&mut redirected)?;
/// login.finish(&redirected).await?;
///
/// let client = McpClient::http(url)?.with_logins(logins)?.connect().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct McpLogin {
    server: ServerUrl,
    name: String,
    scopes: Vec<String>,
    client: Option<(String, Option<SecretString>)>,
    client_metadata: Option<String>,
    private_addresses: bool,
}

impl McpLogin {
    /// Creates a login to the server at an HTTP URL, the one of [`McpClient::http`].
    ///
    /// # Errors
    ///
    /// [`McpError::Url`] if the URL is not valid, contains a user name or password, or is `http://`
    /// to another machine.
    ///
    /// [`McpClient::http`]: crate::McpClient::http
    pub fn new(url: &str) -> Result<Self> {
        let endpoint = Endpoint::exact(url).map_err(invalid_address)?;
        Ok(Self {
            server: ServerUrl::new(&endpoint)?,
            name: "Toolwright".to_owned(),
            scopes: Vec::new(),
            client: None,
            client_metadata: None,
            private_addresses: false,
        })
    }

    /// Sets the name of the program, which the page of the login shows. Default: `Toolwright`.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    /// Requests these scopes too. Default: those that the server asks for, and those of an earlier
    /// login.
    #[must_use]
    pub fn with_scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Sets the client that was registered at the authorization server, and its secret if it has one.
    /// Default: a client is registered for this login.
    #[must_use]
    pub fn with_client(mut self, id: &str, secret: Option<SecretString>) -> Self {
        self.client = Some((id.to_owned(), secret));
        self
    }

    /// Sets the https address of the program's Client ID Metadata Document, for authorization servers
    /// that support it. Default: none.
    #[must_use]
    pub fn with_client_metadata(mut self, url: &str) -> Self {
        self.client_metadata = Some(url.to_owned());
        self
    }

    /// Allows the server and its authorization server to have private addresses, for servers on your
    /// own network. Default: if the server's URL has no such address itself, they are refused, because
    /// the server could make this program send requests to your network.
    #[must_use]
    pub fn with_private_addresses(mut self) -> Self {
        self.private_addresses = true;
        self
    }

    /// Begins a login: finds the authorization server, and registers a client there if none is set.
    ///
    /// `redirect` is the address that the browser opens after the login. A program on the user's
    /// machine listens on `http://127.0.0.1:PORT/…`; a service has an https address of its own.
    ///
    /// # Errors
    ///
    /// [`McpError::Login`] if the server names no authorization server, or that server cannot be used.
    /// [`McpError::StoredLogin`] if the store cannot be read.
    pub async fn begin(self, redirect: &str, logins: impl LoginStore) -> Result<PendingLogin> {
        let server = self.server.clone();
        let earlier = Login::load(&logins, &server).await;
        let earlier = earlier.map_err(|error| stored(&server, error))?;
        // rmcp logs parts of the exchange, with fields that may be secrets.
        let beginning = self.prepare(redirect, earlier).with_subscriber(Dispatch::none());
        let began = tokio::time::timeout(EXCHANGE_TIME, beginning).await;
        let began = began.unwrap_or_else(|_| Err("there was no response in time".into()));
        let (manager, client, url, private_addresses) =
            began.map_err(|source| failed(&server, source))?;
        let state = query(&url, "state").unwrap_or_default();
        let memory = InMemoryCredentialStore::new();
        let mut manager = manager;
        manager.set_credential_store(memory.clone());
        Ok(PendingLogin {
            server,
            manager,
            client,
            url,
            state,
            memory,
            store: Arc::new(logins),
            private_addresses,
        })
    }

    async fn prepare(
        self,
        redirect: &str,
        earlier: Option<Login>,
    ) -> Result<(AuthorizationManager, OAuthClientConfig, String, bool), Source> {
        let (mut manager, metadata) = self.server.authorization(self.private_addresses).await?;
        let mut scopes = manager.select_initial_scopes(&[]).await;
        let earlier = earlier.map(|login| login.scopes).unwrap_or_default();
        for scope in self.scopes.iter().chain(&earlier) {
            if !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let client = match self.known_client(&metadata, redirect) {
            Some(client) => {
                manager.configure_client(client.clone()).map_err(source_of)?;
                client
            }
            None if metadata.registration_endpoint.is_none() => {
                return Err("its authorization server does not register clients by itself; \
                            register one there, and set it with `McpLogin::with_client`"
                    .into());
            }
            None => {
                let registered = manager.register_client(&self.name, redirect, &scopes).await;
                registered.map_err(source_of)?
            }
        };
        let url = manager.get_authorization_url(&scopes).await.map_err(source_of)?;
        Ok((manager, client, url, self.private_addresses))
    }

    /// Returns the client that needs no registration, if there is one.
    fn known_client(
        &self,
        metadata: &AuthorizationMetadata,
        redirect: &str,
    ) -> Option<OAuthClientConfig> {
        if let Some((id, secret)) = &self.client {
            let client = OAuthClientConfig::new(id, redirect);
            return Some(match secret {
                Some(secret) => client.with_client_secret(secret.expose_secret()),
                None => client,
            });
        }
        let reads_documents =
            metadata.additional_fields.get("client_id_metadata_document_supported");
        let reads_documents = reads_documents.and_then(serde_json::Value::as_bool) == Some(true);
        let document = self.client_metadata.as_ref().filter(|_| reads_documents)?;
        Some(OAuthClientConfig::new(document, redirect))
    }

    /// Logs out: deletes the stored login. Returns whether there was one.
    ///
    /// The authorization server is not asked to revoke it. A user can do that on its pages.
    ///
    /// # Errors
    ///
    /// [`McpError::StoredLogin`] if the store cannot be written.
    pub async fn log_out(&self, logins: &impl LoginStore) -> Result<bool> {
        let key = self.server.key();
        let deleted = async {
            // A renewal would store the login again.
            let _lock = logins.lock(key).await?;
            logins.delete(key).await
        };
        deleted.await.map_err(|error| stored(&self.server, error))
    }
}

impl fmt::Debug for McpLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpLogin").field("server", &self.server.shown()).finish_non_exhaustive()
    }
}

/// A login that a user is making in a browser: see [`McpLogin::begin`].
///
/// It has secrets that complete the login, so it cannot be stored or continued in another process.
pub struct PendingLogin {
    server: ServerUrl,
    manager: AuthorizationManager,
    client: OAuthClientConfig,
    url: String,
    state: String,
    memory: InMemoryCredentialStore,
    store: Arc<dyn LoginStore>,
    private_addresses: bool,
}

impl PendingLogin {
    /// Returns the address that the user opens in a browser.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns whether an address is the redirect address of this login. Ignore any other request that
    /// reaches your program at the redirect address: every page and every program can send one.
    #[must_use]
    pub fn is_answer(&self, redirected: &str) -> bool {
        let state = query(redirected, "state").unwrap_or_default();
        !state.is_empty() && state.as_bytes().ct_eq(self.state.as_bytes()).into()
    }

    /// Ends the login with the address that the browser opened after it, and stores the tokens.
    ///
    /// # Errors
    ///
    /// [`McpError::Login`] if the address is not the one of this login, the user declined, another
    /// authorization server answered, or the address was used before. [`McpError::StoredLogin`] if the
    /// store cannot be written.
    pub async fn finish(&self, redirected: &str) -> Result<()> {
        let redirected = redirected.trim();
        let exchange = self.exchange(redirected).with_subscriber(Dispatch::none());
        let exchanged = tokio::time::timeout(EXCHANGE_TIME, exchange).await;
        let exchanged = exchanged.unwrap_or_else(|_| Err("there was no response in time".into()));
        let login = exchanged.map_err(|source| failed(&self.server, source))?;
        let saved = async {
            let _lock = self.store.lock(self.server.key()).await?;
            login.save(&*self.store).await
        };
        saved.await.map_err(|error| stored(&self.server, error))
    }

    async fn exchange(&self, redirected: &str) -> Result<Login, Source> {
        if !self.is_answer(redirected) {
            return Err(
                "the address is not the answer to this login; give the whole address of the \
                        page after it"
                    .into(),
            );
        }
        if let Some(error) = query(redirected, "error") {
            let text = query(redirected, "error_description").unwrap_or_default();
            let text = format!("the authorization server answered `{error}` {text}");
            return Err(source_of(AuthError::AuthorizationFailed(text.trim_end().to_owned())));
        }
        let answer = AuthorizationCallback::from_redirect_url(redirected).map_err(source_of)?;
        let exchanged = self.manager.exchange_code_for_token_with_issuer(
            &answer.code,
            &answer.csrf_token,
            answer.issuer.as_deref(),
        );
        if let Err(error) = exchanged.await {
            if matches!(error, AuthError::InternalError(_)) {
                return Err("the address was used before; log in again".into());
            }
            let mut secrets = Redactor::default().with_secret("code", &answer.code);
            if let Some(secret) = &self.client.client_secret {
                secrets = secrets.with_secret("client secret", secret);
            }
            return Err(secrets.redact(&source_of(error).to_string()).into());
        }
        let stored = self.memory.load().await.map_err(source_of)?;
        let stored = stored.ok_or("there are no tokens")?;
        Login::new(&self.server, &stored, &self.client, self.private_addresses)
    }
}

impl fmt::Debug for PendingLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingLogin").field("server", &self.server.shown()).finish_non_exhaustive()
    }
}

/// Returns the value of a field in the query of an address.
fn query(address: &str, name: &str) -> Option<String> {
    let address = Url::parse(address.trim()).ok()?;
    let found = address.query_pairs().find(|(key, _)| key == name);
    found.map(|(_, value)| value.into_owned())
}

fn failed(server: &ServerUrl, source: Source) -> McpError {
    McpError::Login { server: server.shown(), source }
}

fn stored(server: &ServerUrl, source: std::io::Error) -> McpError {
    McpError::StoredLogin { server: server.shown(), source }
}
