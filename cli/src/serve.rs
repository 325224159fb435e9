//! The command `serve`: a page to try an agent in a browser.

mod guard;
mod page;
mod recorded_task;
mod routes;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;
use toolwright_module::{Context, Error as ModuleError};
use toolwright_serve::{Caller, Home, Serve};
use tracing_subscriber::filter::LevelFilter;

use self::guard::Guard;
pub(crate) use self::recorded_task::RecordedTask;
use self::routes::About;
use crate::agent::AgentArgs;
use crate::assistant::{COMMAND, FOLDER, OPTIONS, RENEWED, folder};
use crate::journal::JournalArgs;
use crate::mcp::address;
use crate::model::ledger;
use crate::record::Options;
use crate::runs;
use crate::show::note_own_key;
use crate::signals::terminated;

/// The port if the arguments have none. If it is taken, one of the next ports is used.
const PORT: u16 = 7117;

/// Number of ports that are tried.
const PORTS: u16 = 20;

/// The time that runs have to end after Ctrl-C. A run that takes longer stops where it is.
const GRACE: Duration = Duration::from_millis(300);

/// The time that connections have to close after the runs have stopped.
const CLOSE: Duration = Duration::from_secs(1);

/// The name of the user if the environment has none.
const SOMEBODY: &str = "user";

/// Arguments of `serve`.
#[derive(Args)]
#[command(
    mut_arg("json", |json| json.hide(true)),
    mut_arg("ask", |ask| ask.help(
        "Ask in the page before each irreversible call, and before each call of an MCP server's tool. \
         Includes --ask-after-untrusted"
    )),
    mut_arg("ask_after_untrusted", |ask| ask.help(
        "Ask in the page before each call that changes something, once the model has read text of \
         strangers: results of MCP servers and of GitHub"
    )),
    after_help = "\
Examples:
  toolwright serve
  toolwright serve --model anthropic:claude-haiku-4-5 --tools files:. --ask
  toolwright serve --mcp 'npx -y @modelcontextprotocol/server-filesystem .' --http 8000
  toolwright serve --http 192.0.2.7:8000

The page needs no network besides this server. Ctrl-C ends it; runs stop where they are and go on when \
it is started again."
)]
pub(crate) struct ServeArgs {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,

    #[command(flatten)]
    journal: JournalArgs,

    /// Serve at this address, such as 127.0.0.1:8000. A port without an address is for this machine
    /// only; other machines need the token in the address that is printed. Default: 127.0.0.1:7117,
    /// or the next port that is free
    #[arg(long, value_name = "ADDRESS", value_parser = address, help_heading = "Page")]
    http: Option<SocketAddr>,

    /// Require the token on this machine too. Other users of this machine can open the page without
    #[arg(long, help_heading = "Page")]
    token: bool,

    /// Name of this machine in addresses of the page, beside its IP address and localhost; can be
    /// repeated
    #[arg(long, value_name = "NAME", help_heading = "Page")]
    host: Vec<String>,
}

impl ServeArgs {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// If an argument is not valid, or the address cannot be used.
    pub(crate) async fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        if self.agent.json {
            return Err("serve prints no JSON; leave out --json".into());
        }
        let log = tracing_subscriber::fmt().with_writer(io::stderr);
        log.with_max_level(LevelFilter::WARN).init();
        let journal = self.journal.folder(&self.agent.config.load()?)?;
        let agent = self.agent.serving().configured()?;
        // Before servers are started, which takes time.
        let listener = listen(self.http).await?;
        let address = listener.local_addr()?;
        let guard = Guard::new(address, self.token, self.host);

        let assistant = agent.assistant(None, false, journal.as_deref()).await?;
        let Some(assistant) = assistant else { return Ok(ExitCode::from(130)) };
        let (options, user) = (assistant.options.clone(), user());
        let caller = caller(&user, &options)?;
        let home = assistant.journal.clone().map_or_else(Home::memory, Home::from);
        let prices = assistant.chosen.prices.clone();
        let service = Serve::new(home, assistant.agent.borrow().clone())
            .with_callers(move |_| std::future::ready(Ok(caller.clone())))
            .with_context(move |caller| {
                let checked = check_places(&caller, &options);
                let cx = || Context::default().with_ledger(ledger(prices.as_ref()));
                std::future::ready(checked.map(|()| cx()))
            })
            .with_shown_errors()
            .start();
        let about = About::new(&assistant);
        let app = routes::router(about, assistant.journal.clone(), service.router());
        let app = guard.around(app);
        note_own_key(&format!("at {}", guard.url()));

        let ends = async {
            tokio::select! {
                () = assistant.interrupts.next() => {}
                () = terminated() => {}
            }
        };
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = axum::serve(listener, app).with_graceful_shutdown(async {
            // It is dropped when the service has ended.
            let _ = stopped.await;
        });
        let serving = tokio::spawn(serving.into_future());
        ends.await;
        tokio::select! {
            () = service.shutdown(GRACE) => {}
            () = assistant.interrupts.next() => {}
        }
        drop(stop);
        // A browser may keep a connection open.
        let _ = tokio::time::timeout(CLOSE, serving).await;
        assistant.close().await;
        Ok(ExitCode::SUCCESS)
    }
}

/// Listens at this address, or at the first free one of the default ports.
async fn listen(address: Option<SocketAddr>) -> io::Result<TcpListener> {
    let named = |address: SocketAddr| {
        move |error: io::Error| io::Error::new(error.kind(), format!("--http {address}: {error}"))
    };
    if let Some(address) = address {
        return TcpListener::bind(address).await.map_err(named(address));
    }
    let mut port = PORT;
    loop {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse && port < PORT + PORTS => port += 1,
            listener => return listener.map_err(named(address)),
        }
    }
}

/// Returns the name of the person at this machine, whom the runs belong to.
fn user() -> String {
    runs::user().filter(|user| user.len() <= 100).unwrap_or_else(|| SOMEBODY.to_owned())
}

/// Returns the caller of all requests, with the metadata that each run of the command has.
fn caller(user: &str, options: &Options) -> Result<Caller, Box<dyn Error>> {
    let metadata = BTreeMap::from([
        (FOLDER, folder()),
        (COMMAND, "serve".to_owned()),
        (OPTIONS, serde_json::to_string(options)?),
    ]);
    let caller = Caller::new(user);
    Ok(metadata.into_iter().fold(caller, |caller, (name, value)| caller.with(name, value)))
}

/// Checks that a run was started with the same servers, folders, files and accounts: results of one must
/// not lead to calls of another.
fn check_places(caller: &Caller, now: &Options) -> toolwright_module::Result<()> {
    let then =
        caller.get(OPTIONS).and_then(|options| serde_json::from_str::<Options>(options).ok());
    match then.unwrap_or_default().has_same_places(now) {
        true => Ok(()),
        false => Err(ModuleError::stop(format!(
            "this run used other servers, folders, files or accounts than this command has now; start \
             `toolwright serve` with the same ones. {RENEWED}"
        ))),
    }
}
