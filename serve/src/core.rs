//! The core of a service: its runs, who drives them, and who reads them.

mod driving;
mod messages;
mod questions;
mod reading;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use self::driving::Here;
use crate::caller::{Caller, Callers};
use crate::error::{Result, ServeError};
use crate::home::Home;
use crate::recorded::{CONVERSATION, MESSAGE, USER};
use crate::watched::{Drive, Left, Rest, Watched};

pub(crate) use self::driving::Drives;

/// How often runs are looked at that are driven elsewhere.
const LOOK: Duration = Duration::from_millis(200);

/// Every how many looks runs are looked at that change only if a person does something elsewhere.
const SLOW_LOOK: u64 = 3;

/// How long a decision waits for the end of a drive.
const MOST_WAIT: Duration = Duration::from_secs(5);

/// How many bytes a reader gets at once.
const BATCH: usize = 256 * 1024;

/// The longest id of a message, in bytes.
const LONGEST_MESSAGE: usize = 200;

/// The longest beginning of the id of a run, in bytes. With a number, PostgreSQL takes it.
const LONGEST_PREFIX: usize = 900;

/// The metadata with the run before this one in its conversation, and the number of runs before it.
const AFTER: &str = "after";
const TURN: &str = "turn";

/// What a program sets.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// How many runs this process drives at most that it takes over from others, or from earlier processes.
    pub(crate) most_drives: usize,
    /// Whether readers see the errors of the service with their causes.
    pub(crate) shows_errors: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { most_drives: 64, shows_errors: false }
    }
}

pub(crate) struct Core {
    home: Home,
    agent: Box<dyn Drives>,
    pub(crate) callers: Callers,
    options: Options,
    /// The runs with readers or a drive.
    watched: Arc<Mutex<HashMap<String, Weak<Watched>>>>,
    /// The drives of this process.
    here: Mutex<HashMap<String, Arc<Here>>>,
    /// The runs that drives of this process have left without a record of their error.
    left: Mutex<HashMap<String, Left>>,
    /// Conversations in which a run is being created.
    creating: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
    /// Whether the service ends.
    closing: watch::Sender<bool>,
    /// Whether it has ended, so that all streams end.
    closed: watch::Sender<bool>,
}

impl Core {
    pub(crate) fn new(
        home: Home,
        agent: Box<dyn Drives>,
        callers: Callers,
        options: Options,
    ) -> Self {
        let watched = Arc::<Mutex<HashMap<String, Weak<Watched>>>>::default();
        let hears = Arc::clone(&watched);
        let home = home.heard(move |id, nth, record| {
            let watched = locked(&hears).get(id).and_then(Weak::upgrade);
            if let Some(watched) = watched {
                watched.change(|state| state.add(nth, record));
            }
        });
        Self {
            home,
            agent,
            callers,
            options,
            watched,
            here: Mutex::default(),
            left: Mutex::default(),
            creating: Mutex::default(),
            closing: watch::Sender::new(false),
            closed: watch::Sender::new(false),
        }
    }

    fn here(&self) -> MutexGuard<'_, HashMap<String, Arc<Here>>> {
        locked(&self.here)
    }

    /// Begins to look after the runs of earlier processes and of other workers.
    pub(crate) fn begin(self: &Arc<Self>) {
        tokio::spawn(look_after(Arc::downgrade(self)));
        tokio::spawn(go_on_with_interrupted(Arc::downgrade(self)));
    }

    /// Drives a run of an earlier process, unless a person has stopped it since.
    async fn go_on_with(self: &Arc<Self>, id: &str) -> Result<()> {
        if self.watch(id).await?.rest() == Rest::Open {
            self.go_on(id).await?;
        }
        Ok(())
    }

    /// Ends the service: no run begins, those that do not end within `grace` stop where they are, and
    /// the streams end.
    pub(crate) async fn close(&self, grace: Duration) {
        self.closing.send_replace(true);
        let all_over = async |wait: Duration| {
            let mut over: Vec<_> =
                self.here().values().map(|here| here.is_over.subscribe()).collect();
            let all = async {
                for over in &mut over {
                    let _ = over.wait_for(|over| *over).await;
                }
            };
            // It takes any time, also `Duration::MAX`.
            let _ = tokio::time::timeout(wait, all).await;
        };
        all_over(grace).await;
        self.here().values().for_each(|here| here.cancellation.cancel());
        // A tool that blocks its thread cannot be ended.
        all_over(MOST_WAIT).await;
        self.closed.send_replace(true);
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }
}

/// Goes on with the runs of earlier processes. Each begins when there is room, so that a restart does not ask
/// for all their replies at once.
async fn go_on_with_interrupted(core: Weak<Core>) {
    let interrupted = match core.upgrade() {
        Some(core) => core.home.interrupted().await,
        None => return,
    };
    let interrupted = interrupted.unwrap_or_else(|error| {
        tracing::error!(error = %causes(&error), "cannot go on with the runs of before");
        Vec::new()
    });
    for id in interrupted {
        loop {
            {
                let Some(core) = core.upgrade() else { return };
                if core.is_closing() {
                    return;
                }
                if core.here().len() < core.options.most_drives {
                    if let Err(error) = core.go_on_with(&id).await {
                        tracing::warn!(run = id, error = %causes(&error), "cannot go on with a run");
                    }
                    break;
                }
            }
            sleep(LOOK).await;
        }
    }
}

/// Looks for runs to take over, and at runs that are driven elsewhere, until the service is gone.
async fn look_after(core: Weak<Core>) {
    let mut count: u64 = 0;
    loop {
        {
            let Some(core) = core.upgrade() else { return };
            if core.is_closing() {
                return;
            }
            core.agent.take_free(&core).await;
            let all: Vec<_> = locked(&core.watched).values().filter_map(Weak::upgrade).collect();
            count += 1;
            // A person may decide or stop at another worker.
            let is_slow_look = count.is_multiple_of(SLOW_LOOK);
            let is_due = |watched: &Arc<Watched>| {
                let state = watched.state();
                match state.drive {
                    Drive::Here if is_slow_look && core.home.is_shared() => true,
                    Drive::Elsewhere | Drive::Unknown => watched.has_readers(),
                    Drive::Here => state.has_gap() && watched.has_readers(),
                    Drive::Nobody { .. } => {
                        (state.has_gap() || is_slow_look) && watched.has_readers()
                    }
                }
            };
            let all: Vec<_> = all.into_iter().filter(is_due).collect();
            if !all.is_empty()
                && let Err(error) = core.refresh(&all).await
            {
                tracing::warn!(error = %causes(&error), "cannot look at runs that are driven elsewhere");
            }
        }
        sleep(LOOK).await;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the caller whose run has these metadata.
fn caller_of(metadata: &BTreeMap<String, String>) -> Caller {
    let mut values = metadata.clone();
    let user = values.get(USER).cloned().unwrap_or_default();
    values.retain(|name, _| !is_own(name));
    Caller { user, values }
}

/// Returns whether the service sets these metadata, and not the program.
fn is_own(name: &str) -> bool {
    [USER, CONVERSATION, MESSAGE, AFTER, TURN].contains(&name)
}

/// Returns the beginning of the ids of the runs of a conversation.
fn prefix(user: &str, conversation: &str) -> Result<String> {
    for (what, name) in [("user", user), ("conversation", conversation)] {
        if name.is_empty() || name.contains('\0') {
            let reason = format!("the id of the {what} must not be empty or have a NUL character");
            return Err(ServeError::Request { reason });
        }
    }
    let prefix = format!("{}:{}:", escaped(user), escaped(conversation));
    match prefix.len() {
        ..=LONGEST_PREFIX => Ok(prefix),
        bytes => {
            let reason = format!(
                "the ids of the user and of the conversation have {bytes} bytes together; the maximum is {LONGEST_PREFIX}. A byte counts three times if it is no ASCII letter, digit, `-`, `_`, `.` or `@`"
            );
            Err(ServeError::Request { reason })
        }
    }
}

/// Returns the name that was escaped, if it is one.
pub(crate) fn unescaped(escaped: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(escaped.len()), escaped.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let mut byte = *byte;
        if byte == b'~' {
            let (digits, after) = rest.split_at_checked(2)?;
            byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
            rest = after;
        }
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok()
}

/// Returns a name without the characters that part the ids of runs, or that an address cannot have.
pub(crate) fn escaped(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'@' => {
                escaped.push(char::from(byte));
            }
            byte => drop(write!(escaped, "~{byte:02x}")),
        }
    }
    escaped
}

/// Returns an error with its causes.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
