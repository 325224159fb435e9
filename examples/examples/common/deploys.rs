//! What the two versions of the program share: everything that a deploy does not change.

use std::env;
use std::error::Error;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toolwright_cli::{note, say};
use toolwright_journal::{Journal, Options};
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::model::{BoxFuture, Capabilities};
use toolwright_module::{
    Context, Dialect, Effect, LanguageModel, Message, Reply, Request, Result, Signature, Tool,
    ToolCall, from_fn,
};
use toolwright_orchestrator::perform::{OutcomeKind, Record};

/// The task of each run.
pub(crate) const TASK: &str = "Invite Ada.";

/// Find the address of a person.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Find {
    /// The name of the person.
    pub(crate) name: String,
}

impl Signature for Find {
    type Output = String;
}

/// Send a letter.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Send {
    /// The address.
    pub(crate) to: String,
}

impl Signature for Send {
    type Output = String;
}

/// Invite a person.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Invite {
    /// The name of the person.
    pub(crate) name: String,
}

impl Invite {
    pub(crate) fn ada() -> Self {
        Self { name: "Ada".to_owned() }
    }
}

/// Returns a tool whose call is printed, and which may end the program like a crash.
pub(crate) fn tool<I>(name: &str, effect: Effect) -> Result<Tool>
where
    I: Signature<Output = String> + DeserializeOwned + Sync,
{
    let own = name.to_owned();
    let does = from_fn(move |_: I| {
        let name = own.clone();
        async move {
            note(&format!("effect: {name}"));
            ends_at(&format!("during {name}"));
            Ok(format!("{name}: done"))
        }
    });
    Ok(Tool::new(does.with_effect(effect))?.named(name)?)
}

/// A model that says the next reply of a list.
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) dialect: Dialect,
    pub(crate) replies: Vec<Reply>,
}

impl Script {
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let (name, dialect) = ("script", Dialect::JsonSchema2020);
        Self { name, dialect, replies: replies.into_iter().collect() }
    }
}

impl LanguageModel for Script {
    fn name(&self) -> &str {
        self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(self.dialect)
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            let replied = |message: &&Arc<Message>| matches!(***message, Message::Assistant { .. });
            let nth = request.messages.iter().filter(replied).count();
            note(&format!("asked: {nth}"));
            Ok(self.replies.get(nth).cloned().unwrap_or_else(|| Reply::text("Done.")))
        })
    }
}

/// Returns a call with an id of its own.
pub(crate) fn call(id: &str, tool: &str, arguments: &str) -> Reply {
    Reply::calls([ToolCall::new(id, tool, arguments)])
}

/// Opens the journal in the folder that the program was started with.
pub(crate) fn journal() -> std::result::Result<Journal, Box<dyn Error>> {
    let folder = env::args().nth(1).ok_or("give a folder")?;
    let after = |_: &str, _: usize, record: &Record| {
        if let Record::Ended { outcome, .. } = record
            && let OutcomeKind::Called { result, .. } = &outcome.kind
        {
            ends_at(&format!("after {}", result.name));
        }
    };
    Ok(Journal::open(folder)?.with_options(Options {
        listener: Some(Arc::new(after)),
        change_listener: Some(Arc::new(|_, change| say(&format!("change: {change}")))),
        ..Options::default()
    }))
}

/// A person who lets every call be made again.
pub(crate) fn cx() -> Context {
    Context::default().with_approver(|asked: Approval| async move {
        say(&format!("asked about: {}", asked.call.name));
        Ok(if asked.unknown { Decision::CallAgain } else { Decision::Approve })
    })
}

/// Ends the program at once, without unwinding, if a test asks for it at this moment.
fn ends_at(moment: &str) {
    if env::var("END_AT").is_ok_and(|at| at == moment) {
        std::process::exit(137);
    }
}
