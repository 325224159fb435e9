use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use toolwright_http::shown_url;
use toolwright_mcp::{McpClient, McpClientBuilder, McpError};
use toolwright_module::untrusted::fence;
use toolwright_module::{Error, Result, Tool};

use crate::config::Config;
use crate::keys::{Keys, shown_variable};
use crate::login::store_for;
use crate::show::note;
use crate::texts::in_our_words;

/// Number of servers that start at the same time. If all of many start, each may need too long.
const STARTS: usize = 8;

/// Maximum number of characters of a server's instructions that the model gets.
const LONGEST_INSTRUCTIONS: usize = 4_000;

/// Arguments that name MCP servers, whose tools a program uses in addition to its own.
#[derive(Clone, Default, Args)]
pub(crate) struct McpArgs {
    /// Also use the tools of an MCP server: the command that starts it, or its URL; can be
    /// repeated. A NAME goes before the names of its tools. From the environment, a command gets
    /// only variables such as PATH and HOME, and no keys
    #[arg(long = "mcp", help_heading = "Tools", value_name = "[NAME=]COMMAND|URL")]
    servers: Vec<String>,

    /// Variable that the server of a command also gets, from the environment or the key file; can
    /// be repeated. With several servers, NAME says which one, here and below
    #[arg(long = "mcp-env", help_heading = "Tools", value_name = "[NAME=]VARIABLE")]
    env: Vec<String>,

    /// Variable with the token for the server of a URL
    #[arg(long = "mcp-token-env", help_heading = "Tools", value_name = "[NAME=]VARIABLE")]
    token_env: Vec<String>,

    /// Header for the server of a URL, and the variable with its value; can be repeated
    #[arg(long = "mcp-header", help_heading = "Tools", value_name = "[NAME=]HEADER:VARIABLE")]
    header: Vec<String>,

    /// Leave out this tool of a server, by the server's name for it; can be repeated
    #[arg(long = "mcp-without", help_heading = "Tools", value_name = "[NAME=]TOOL")]
    without: Vec<String>,

    /// Show the tools of the servers to the model only when it has found them. Above the provider's
    /// maximum, all tools but the first ones are found this way
    #[arg(long = "mcp-deferred", help_heading = "Tools")]
    deferred: bool,

    /// Give the model the instructions of the servers, marked as their words
    #[arg(long = "mcp-instructions", help_heading = "Tools")]
    instructions: bool,

    /// Maximum time for a server to start. Default: 60
    #[arg(long = "mcp-start-time", help_heading = "Tools", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    start_time: Option<u64>,

    /// Maximum time of a server's call, which each progress notification begins anew. Default: 300
    #[arg(long = "mcp-call-time", help_heading = "Tools", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    call_time: Option<u64>,
}

/// A server of the arguments, with what belongs to it.
#[derive(Default)]
pub(crate) struct Server<'a> {
    pub(crate) name: Option<&'a str>,
    /// The command or the URL.
    pub(crate) target: &'a str,
    pub(crate) env: Vec<&'a str>,
    pub(crate) token_env: Option<&'a str>,
    pub(crate) headers: Vec<&'a str>,
    pub(crate) without: Vec<&'a str>,
    pub(crate) start_time: Option<u64>,
    pub(crate) call_time: Option<u64>,
    pub(crate) deferred: bool,
}

impl McpArgs {
    /// Uses the servers of the configuration and their options if the command line names none.
    pub(crate) fn or(mut self, config: &Config) -> Self {
        if self.servers.is_empty() {
            self.servers = config.mcp.clone();
            self.env.extend(config.mcp_env.iter().cloned());
            self.token_env.extend(config.mcp_token_env.iter().cloned());
            self.header.extend(config.mcp_header.iter().cloned());
            self.without.extend(config.mcp_without.iter().cloned());
        }
        self.instructions |= config.mcp_instructions;
        self.deferred |= config.mcp_deferred;
        self.start_time = self.start_time.or(config.mcp_start_time.map(u64::from));
        self.call_time = self.call_time.or(config.mcp_call_time.map(u64::from));
        self
    }

    /// Returns the servers, each without what may be a secret.
    pub(crate) fn shown(&self) -> Vec<String> {
        self.servers.iter().map(|server| shown_server(split_name(server).1)).collect()
    }

    /// Returns all that distinguishes these servers from others, in their order, which decides the
    /// names of their tools. It contains secrets.
    pub(crate) fn places(&self, key_file: Option<&Path>) -> Vec<String> {
        // A key file that cannot be read is an error when the servers are connected.
        let keys = &self.keys(key_file).unwrap_or_default();
        let servers = self.servers().unwrap_or_default();
        servers.iter().map(|server| server.place(keys)).collect()
    }

    /// Returns the keys, if an option names a variable.
    fn keys(&self, key_file: Option<&Path>) -> Result<Keys> {
        if self.env.is_empty() && self.token_env.is_empty() && self.header.is_empty() {
            return Ok(Keys::default());
        }
        Keys::load(key_file)
    }

    /// Returns the servers with their options.
    ///
    /// # Errors
    ///
    /// An option names no server, or two servers have the same name.
    fn servers(&self) -> Result<Vec<Server<'_>>> {
        let mut servers: Vec<Server<'_>> = Vec::new();
        for server in &self.servers {
            let (name, target) = split_name(server);
            if let Some(name) = name.filter(|name| is_secret_variable(name)) {
                // The value is not shown.
                return Err(Error::other(format!(
                    "--mcp: {name}= sets no variable; give it to the server with --mcp-env {name}, \
                     which takes the value from the environment or the key file"
                )));
            }
            if name.is_some() && servers.iter().any(|other| other.name == name) {
                let name = name.unwrap_or_default();
                return Err(Error::other(format!("--mcp: two servers have the name {name}")));
            }
            let Self { start_time, call_time, deferred, .. } = *self;
            let server =
                Server { name, target, start_time, call_time, deferred, ..Server::default() };
            servers.push(server);
        }
        type Add = for<'a> fn(&mut Server<'a>, &'a str);
        let options: [(&str, &[String], Add); 4] = [
            ("--mcp-env", &self.env, |server, name| server.env.push(name)),
            ("--mcp-token-env", &self.token_env, |server, name| server.token_env = Some(name)),
            ("--mcp-header", &self.header, |server, header| server.headers.push(header)),
            ("--mcp-without", &self.without, |server, tool| server.without.push(tool)),
        ];
        for (option, texts, add) in options {
            for text in texts {
                let (server, rest) = server_of(&mut servers, option, text)?;
                add(server, rest);
            }
        }
        Ok(servers)
    }

    /// Connects to every server and appends its tools to `tools`. A tool whose name is taken gets
    /// the server's name as a prefix. Close the returned clients when the program ends.
    ///
    /// # Errors
    ///
    /// If an option is not valid, or a server cannot be reached. The error names the server.
    pub(crate) async fn connect(
        &self,
        tools: &mut Vec<Tool>,
        key_file: Option<&Path>,
    ) -> Result<Vec<McpClient>> {
        let servers = self.servers()?;
        let keys = self.keys(key_file)?;
        let failed = |place: usize, text: String| {
            let shown = shown_server(servers[place].target);
            Error::other(format!("--mcp {shown} ({} of {}): {text}", place + 1, servers.len()))
        };
        // Most servers take a second or more to start.
        let connecting = servers.iter().enumerate().map(async |(place, server)| {
            let connected = server.connect(&keys, "--mcp-").await;
            connected.map_err(|error| failed(place, format!("{error:#}")))
        });
        let connected: Vec<McpClient> =
            stream::iter(connecting).buffered(STARTS).try_collect().await?;
        let mut remotes: Vec<McpClient> = Vec::new();
        for (place, remote) in connected.into_iter().enumerate() {
            let server = &servers[place];
            let shown = shown_server(server.target);
            let beside = remote.tools_beside(tools);
            let theirs = beside.map_err(|error| failed(place, error.to_string()))?;
            let (count, own) = (theirs.len(), remote.name());
            match server.name {
                Some(name) => note(&format!("{count} tools of {name}")),
                None => note(&format!("{count} tools of {}", own_name(&own, &shown))),
            }
            if server.name.is_none() && remotes.iter().any(|other| other.name() == own) {
                note(&format!(
                    "(two servers say that they are {}, and the model cannot tell which is which; \
                     write --mcp NAME=COMMAND)",
                    own_name(&own, &shown)
                ));
            }
            note_left_out(&remote);
            tools.extend(theirs);
            remotes.push(remote);
        }
        Ok(remotes)
    }

    /// Returns the instructions of the servers for the model, marked as their words.
    pub(crate) fn instructions(&self, remotes: &[McpClient]) -> Option<String> {
        let mut all = Vec::new();
        for (server, remote) in self.servers.iter().zip(remotes) {
            let Some(theirs) = remote.instructions().filter(|_| self.instructions) else {
                continue;
            };
            let (own, address) = (remote.name(), shown_server(split_name(server).1));
            let name = split_name(server).0.unwrap_or_else(|| own_name(&own, &address));
            let mut theirs = theirs.trim().chars();
            let mut shown: String = theirs.by_ref().take(LONGEST_INSTRUCTIONS).collect();
            if theirs.next().is_some() {
                shown.push('…');
            }
            // Later calls can wait because of it, as after a result.
            all.push(format!(
                "The MCP server `{name}` describes the use of its tools in its own words, which \
                 are not the user's:\n{}",
                fence(&shown)
            ));
        }
        (!all.is_empty()).then(|| all.join("\n\n"))
    }
}

/// Returns the server's own name, or how the command line names it if it has none.
fn own_name<'a>(own: &'a str, shown: &'a str) -> &'a str {
    if own.is_empty() { shown } else { own }
}

/// Returns whether a name before a command is that of a variable with a secret, as a shell has it.
fn is_secret_variable(name: &str) -> bool {
    let words = ["TOKEN", "KEY", "SECRET", "PASSWORD"];
    !name.chars().any(char::is_lowercase) && words.iter().any(|word| name.contains(word))
}

/// Splits `NAME=REST`. A name has letters, digits, `-` and `_`.
fn split_name(text: &str) -> (Option<&str>, &str) {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    match text.split_once('=') {
        Some((name, rest)) if is_name(name) => (Some(name), rest),
        _ => (None, text),
    }
}

/// Returns the server that an option is for, and the rest of the option.
fn server_of<'a, 's, 'b>(
    servers: &'s mut [Server<'a>],
    option: &str,
    text: &'b str,
) -> Result<(&'s mut Server<'a>, &'b str)> {
    let (name, rest) = split_name(text);
    let several = servers.len() > 1;
    let found = match name {
        Some(name) => servers.iter_mut().find(|server| server.name == Some(name)),
        None if several => {
            return Err(Error::other(format!(
                "{option}: there are several servers; name them with --mcp NAME=… and write \
                 {option} NAME={rest}"
            )));
        }
        None => servers.first_mut(),
    };
    // The rest is not shown: some users write the value of a variable there.
    let none = || {
        Error::other(match name {
            Some(name) => format!(
                "{option}: there is no server {name}; write --mcp {name}=… for the server, or \
                 only the name of a variable, whose value comes from the environment"
            ),
            None => format!("{option}: there is no server; name one with --mcp"),
        })
    };
    Ok((found.ok_or_else(none)?, rest))
}

impl<'a> Server<'a> {
    /// Connects to the server. `prefix` is what the names of the options begin with.
    ///
    /// # Errors
    ///
    /// If an option is not valid, or the server cannot be reached. The error names the option that
    /// helps.
    pub(crate) async fn connect(&self, keys: &Keys, prefix: &str) -> Result<McpClient> {
        let client = self.client(keys, prefix)?;
        client.connect().await.map_err(|error| self.advice(error, prefix))
    }

    /// Returns the client with the options of this server.
    pub(crate) fn client(&self, keys: &Keys, prefix: &str) -> Result<McpClientBuilder> {
        let is_url = is_url(self.target);
        for (option, is_set, is_for_url) in [
            ("env", !self.env.is_empty(), false),
            ("token-env", self.token_env.is_some(), true),
            ("header", !self.headers.is_empty(), true),
        ] {
            if is_set && is_url != is_for_url {
                return Err(Error::other(match is_url {
                    true => {
                        format!("{prefix}{option} is for a command; a URL has {prefix}token-env")
                    }
                    false => format!("{prefix}{option} is for a URL; a command has {prefix}env"),
                }));
            }
        }
        let failed = |error| self.advice(error, prefix);
        let mut client = match is_url {
            true => McpClient::http(self.target).map_err(failed)?,
            false => started_by(self.target)?,
        };
        let not_set = |option: &str, name: &str| {
            Error::other(format!("{prefix}{option}: {} is not set", shown_variable(name)))
        };
        for &name in &self.env {
            let value = variable(name, keys).ok_or_else(|| not_set("env", name))?;
            client = client.with_env(name, value);
        }
        if let Some(name) = self.token_env {
            client = client.with_token(token(name, keys)?).map_err(failed)?;
        }
        if is_url && self.token_env.is_none() {
            let logins = store_for(self.target).map_err(|error| Error::other(error.to_string()))?;
            if let Some(logins) = logins {
                client = client.with_logins(logins).map_err(failed)?;
            }
        }
        for header in &self.headers {
            let form = || Error::other(format!("{prefix}header: write HEADER:VARIABLE"));
            let (header, name) = header.split_once(':').ok_or_else(form)?;
            let value = keys.get(name.trim()).ok_or_else(|| not_set("header", name.trim()))?;
            client = client.with_header(header.trim(), &value).map_err(failed)?;
        }
        if let Some(name) = self.name {
            client = client.with_prefix(name);
        }
        if let Some(time) = self.start_time {
            client = client.with_start_time(Duration::from_secs(time));
        }
        if let Some(time) = self.call_time {
            client = client.with_tool_time(Duration::from_secs(time));
        }
        if self.deferred {
            client = client.with_deferred_tools();
        }
        Ok(client.with_left_out(self.without.iter().copied()))
    }

    /// Returns all that distinguishes this server from others: its name, the program with the
    /// arguments, the folder and the user's home folder, or the URL, and the values of its variables.
    ///
    /// A program finds its logins in the home folder. Of the other variables that it inherits, such as
    /// `TERM`, none chooses an account, and some differ in each terminal.
    fn place(&self, keys: &Keys) -> String {
        let value =
            |name: &str| variable(name, keys).map(|value| value.to_string_lossy().into_owned());
        let variables: Vec<_> = self.env.iter().map(|name| (*name, value(name))).collect();
        let header = |header: &&str| {
            let variable = header.split_once(':').map_or("", |(_, variable)| variable.trim());
            json!([header, value(variable)])
        };
        let headers: Vec<_> = self.headers.iter().map(header).collect();
        let target = match is_url(self.target) {
            true => {
                let url = reqwest::Url::parse(self.target).map(String::from);
                json!([url.unwrap_or_else(|_| self.target.to_owned())])
            }
            false => {
                let words = shlex::split(self.target).unwrap_or_default();
                let program = words.first().map(|program| found_program(program));
                let home = env::home_dir().map(|home| home.canonicalize().unwrap_or(home));
                json!([program, words, env::current_dir().ok(), home])
            }
        };
        let token = self.token_env.map(|name| (name, value(name)));
        json!([self.name, target, variables, token, headers, self.without]).to_string()
    }

    /// Converts an error. The result names the option that helps.
    pub(crate) fn advice(&self, error: McpError, prefix: &str) -> Error {
        let required = |server: &str, reason: &str| {
            format!(
                "{server} requires a login or a token{reason}; run `toolwright mcp login` with its URL, \
                 or name the variable with the token in {prefix}token-env"
            )
        };
        Error::other(match (error, self.token_env) {
            (McpError::Unauthorized { server }, None) => required(&server, ""),
            (McpError::LoginRequired { server, reason }, _) => {
                required(&server, &format!(", and {reason}"))
            }
            (McpError::Unauthorized { server }, Some(name)) => {
                format!("{server} rejected the token in {}", shown_variable(name))
            }
            (error, _) => in_our_words(&format!("{:#}", Error::from(error)), prefix),
        })
    }
}

/// Returns the value of a variable, which need not be text, or the key of this name.
fn variable(name: &str, keys: &Keys) -> Option<OsString> {
    env::var_os(name).or_else(|| keys.get(name).map(OsString::from))
}

/// Returns the token in a variable or in the key file.
///
/// # Errors
///
/// The token is in neither.
pub(crate) fn token(name: &str, keys: &Keys) -> Result<String> {
    keys.get(name)
        .ok_or_else(|| Error::other(format!("{} has no token; set it", shown_variable(name))))
}

/// Returns the absolute path of a program, which the system finds in the variable PATH.
pub(crate) fn found_program(program: &str) -> PathBuf {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut places = env::split_paths(&folders).map(|folder| folder.join(program));
    places.find(|place| place.is_file()).unwrap_or_else(|| path.to_owned())
}

/// Returns a client for the server that a command starts. The command is split into words as by a
/// shell, but no shell runs.
///
/// # Errors
///
/// If the command is empty or a quote is not closed.
pub(crate) fn started_by(command: &str) -> Result<McpClientBuilder> {
    if let Some(url) = url_without_scheme(command) {
        return Err(Error::other(format!(
            "`{}` looks like a URL without its scheme; write http://… or https://…",
            shown_server(&format!("http://{url}")).trim_start_matches("http://")
        )));
    }
    let unclosed = || Error::other("the command of a server has a quote that is not closed");
    let words = shlex::split(command).ok_or_else(unclosed)?;
    match words.split_first() {
        Some((program, arguments)) => Ok(McpClient::stdio(program, arguments)),
        None => Err(Error::other("the command of a server is empty")),
    }
}

/// Returns the text if it is one word such as `localhost:8000/mcp` and not a program.
fn url_without_scheme(text: &str) -> Option<&str> {
    let word = text.trim();
    let (host, rest) = word.split_once([':', '/'])?;
    let has_port =
        word.get(host.len()..)?.starts_with(':') && rest.starts_with(|c: char| c.is_ascii_digit());
    let is_host = host == "localhost" || host.contains('.') && !host.starts_with('.');
    let is_url = !host.is_empty()
        && !word.contains(char::is_whitespace)
        && (has_port || is_host)
        && !found_program(word).is_file();
    is_url.then_some(word)
}

/// Prints which tools of a server cannot be used, and why.
pub(crate) fn note_left_out(remote: &McpClient) {
    for (name, why) in remote.left_out() {
        note(&format!("`{name}` of {} is left out: {why}", remote.name()));
    }
}

pub(crate) fn is_url(server: &str) -> bool {
    let scheme = server.split_once("://").map_or("", |(scheme, _)| scheme);
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

/// Returns a server's program or URL, without the arguments and parts that may contain secrets.
pub(crate) fn shown_server(server: &str) -> String {
    if !is_url(server) {
        let words = shlex::split(server).unwrap_or_default();
        let word = words.into_iter().next().unwrap_or_default();
        // It may be a URL whose scheme was forgotten.
        return word.split('?').next().unwrap_or_default().to_owned();
    }
    match reqwest::Url::parse(server) {
        Ok(url) => shown_url(&url),
        Err(_) => "URL".to_owned(),
    }
}
