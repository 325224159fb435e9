//! The commands `mcp login` and `mcp logout`.

use std::error::Error as StdError;
use std::io::{self, IsTerminal};
use std::net::Ipv4Addr;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::IntoResponse;
use clap::Args;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use toolwright_http::Endpoint;
use toolwright_mcp::{LoginFolder, McpLogin, PendingLogin};
use toolwright_module::{Error, Result};

use crate::folders;
use crate::keys::Keys;
use crate::servers::{is_url, token};
use crate::show::{note, note_own_key};
use crate::signals::until_ctrl_c;

/// The path of the redirect address.
const PATH: &str = "/callback";

/// Maximum length of a pasted address, in bytes.
const LONGEST_ADDRESS: u64 = 64 * 1024;

/// Arguments of `mcp login`.
#[derive(Args)]
pub(crate) struct LoginArgs {
    /// URL of the server
    url: String,

    /// Request this scope too; can be repeated. An earlier login keeps its scopes
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,

    /// Id of a client that you registered at the authorization server. Default: one is registered
    #[arg(long, value_name = "ID")]
    client: Option<String>,

    /// Variable with the secret of that client, from the environment or the key file
    #[arg(long, value_name = "NAME", requires = "client")]
    client_secret_env: Option<String>,

    /// Port of the redirect address http://127.0.0.1:PORT/callback. Default: one that is free
    #[arg(long)]
    port: Option<u16>,

    /// Allow addresses of a private network, for a server of your own organization
    #[arg(long)]
    private: bool,

    /// Print the address, and open no browser
    #[arg(long)]
    no_browser: bool,
}

/// Returns the store with the logins of this user.
///
/// # Errors
///
/// The folder cannot be created, or the user has no home folder.
pub(crate) fn store() -> io::Result<LoginFolder> {
    let none = || io::Error::other("there is no home folder for logins; set XDG_DATA_HOME");
    let folder = folders::data("logins").ok_or_else(none)?;
    LoginFolder::open(folder)
}

/// Returns the store if this user has logged in to a server before, and a login may be sent to this URL.
///
/// # Errors
///
/// Other users can change the folder.
pub(crate) fn store_for(url: &str) -> io::Result<Option<LoginFolder>> {
    let folder = folders::data("logins").filter(|folder| folder.is_dir());
    folder.filter(|_| McpLogin::new(url).is_ok()).map(LoginFolder::open).transpose()
}

/// Deletes the login at a server.
///
/// # Errors
///
/// The URL is not valid, or the login cannot be deleted.
pub(crate) async fn log_out(url: &str) -> Result<ExitCode, Box<dyn StdError>> {
    let deleted = login(url)?.log_out(&store()?).await?;
    let what = if deleted { "logged out" } else { "there was no login" };
    note(&format!("{what}: {}", shown(url)));
    Ok(ExitCode::SUCCESS)
}

fn login(url: &str) -> Result<McpLogin> {
    if !is_url(url) {
        return Err(Error::other("a login is for a server with a URL; write https://…"));
    }
    McpLogin::new(url).map_err(|error| Error::other(error.to_string()))
}

fn shown(url: &str) -> String {
    Endpoint::exact(url).map_or_else(|_| "URL".to_owned(), |endpoint| endpoint.shown())
}

impl LoginArgs {
    /// Logs in.
    ///
    /// # Errors
    ///
    /// The server or its authorization server cannot be used, or the user declined.
    pub(crate) async fn run(self) -> Result<ExitCode, Box<dyn StdError>> {
        match until_ctrl_c(async |cx| cx.until_cancelled(self.log_in()).await).await {
            Some(done) => done?,
            None => return Ok(ExitCode::from(130)),
        }
        note(&format!("logged in: {}", shown(&self.url)));
        Ok(ExitCode::SUCCESS)
    }

    async fn log_in(&self) -> Result<()> {
        let failed = |error: &dyn std::fmt::Display| Error::other(error.to_string());
        let mut login = login(&self.url)?.with_scopes(self.scope.iter().cloned());
        if let Some(client) = &self.client {
            let secret = match &self.client_secret_env {
                Some(name) => Some(token(name, &Keys::load(None)?)?.into()),
                None => None,
            };
            login = login.with_client(client, secret);
        }
        if self.private {
            login = login.with_private_addresses();
        }
        let port = self.port.unwrap_or_default();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener = listener.map_err(|error| Error::other(format!("port {port}: {error}")))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let logins = store().map_err(|error| failed(&error))?;
        let login = login.begin(&format!("http://{address}{PATH}"), logins).await;
        let login = Arc::new(login.map_err(|error| failed(&error))?);

        let (sender, mut redirected) = mpsc::channel(1);
        let routes = Router::new().fallback(received).with_state((
            Arc::clone(&login),
            format!("http://{address}"),
            sender.clone(),
        ));
        let serving = tokio::spawn(axum::serve(listener, routes).into_future());
        note("Log in at this address:");
        // It has no secret that is of use without this process.
        note_own_key(login.url());
        if !self.no_browser && open(login.url()) {
            note("(your browser opens it)");
        }
        note(
            "If the browser is on another machine, its last page cannot be opened: paste the address of \
             that page here.",
        );
        pasted(Arc::clone(&login), sender);
        let address = redirected.recv().await;
        let address = address.ok_or_else(|| Error::other("the login was not finished"))?;
        let finished = login.finish(&address).await;
        serving.abort();
        finished.map_err(|error| failed(&error))
    }
}

type Waiting = (Arc<PendingLogin>, String, mpsc::Sender<String>);

/// Responds to the browser after the login. Other requests change nothing: any page can send one.
async fn received(State((login, origin, sender)): State<Waiting>, uri: Uri) -> impl IntoResponse {
    let address = format!("{origin}{uri}");
    let is_answer = uri.path() == PATH && login.is_answer(&address);
    let (status, text) = match is_answer {
        true => (StatusCode::OK, "Go back to the terminal. You can close this page.\n"),
        false => (StatusCode::NOT_FOUND, "This is not the page of the login.\n"),
    };
    if is_answer {
        // A second answer is ignored.
        let _ = sender.try_send(address);
    }
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONNECTION, "close"),
    ];
    (status, headers, text)
}

/// Reads lines until one is the address after the login, in a thread that ends with the process.
fn pasted(login: Arc<PendingLogin>, sender: mpsc::Sender<String>) {
    std::thread::spawn(move || {
        use std::io::{BufRead, Read};

        let mut lines = io::BufReader::new(io::stdin().take(LONGEST_ADDRESS)).lines();
        while let Some(Ok(line)) = lines.next() {
            match login.is_answer(&line) {
                true => {
                    let _ = sender.blocking_send(line);
                    return;
                }
                false if line.trim().is_empty() => {}
                false => {
                    note("That is not the address of the page after the login; paste all of it.")
                }
            }
        }
    });
}

/// Opens an address in the browser of the user, if there is one. The address has the scheme `http` or
/// `https`, and no shell reads it.
fn open(url: &str) -> bool {
    let is_remote = std::env::var_os("SSH_CONNECTION").is_some();
    if is_remote || !io::stderr().is_terminal() {
        return false;
    }
    let (program, arguments): (&str, &[&str]) = if cfg!(target_os = "macos") {
        ("open", &[])
    } else if cfg!(windows) {
        ("rundll32", &["url.dll,FileProtocolHandler"])
    } else {
        ("xdg-open", &[])
    };
    let mut browser = Command::new(program);
    browser.args(arguments).arg(url);
    browser.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = browser.spawn();
    // Some of these programs run as long as the browser.
    started.is_ok_and(|mut child| {
        std::thread::spawn(move || child.wait());
        true
    })
}
