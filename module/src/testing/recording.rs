//! Recordings of a model's replies: the recorder, the file format and the replay.
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::stream::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::error::Category;
use similar::{ChangeTag, TextDiff};
use toolwright_signature::Dialect;

use super::mask::Mask;
use crate::__files::{self, Link};
use crate::error::{Error, Result, Stage};
use crate::message::Message;
use crate::model::{Capabilities, Delta, LanguageModel, Reply, Request, SettingSet, ToolChoice};
use crate::testing::words::words;

/// Version of the format that is written. Earlier versions can be read.
const VERSION: u32 = 1;

/// Maximum length of a file, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Number of unchanged lines around a change in a diff.
const CONTEXT_LINES: usize = 2;

/// The exchanges with a real model in one run.
///
/// The form in the file is readable JSON: the tools once, then each exchange with its new messages
/// only.
///
/// [`save`](Self::save) masks keys in all texts:
///
/// - keys of a well-known form: of model and cloud providers, code hosts and chats, JSON web
///   tokens, private keys;
/// - keys in a well-known place: after `Bearer` and `Basic`, in headers such as
///   `Authorization` and `x-api-key`, in parameters such as `?api_key=`, `&access_token=`
///   and `&sig=`, and passwords in addresses (`https://user:password@host`);
/// - the value of every environment variable whose name ends like `KEY`, `TOKEN`,
///   `SECRET`, `PASSWORD` or `CREDENTIALS`.
///
/// It searches text documents, too, but no other content, such as a PDF.
///
/// This list is not complete. A key of another form is written unchanged, so read a recording
/// before you publish it. Only `save` masks: the value in memory, and its form under other
/// serializers, is complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "stored::Run")]
#[non_exhaustive]
pub struct Recording {
    version: u32,
    /// The model's name, as its server reports it.
    pub model: String,
    /// Data of the program that recorded the run, such as its options. It is stored and masked with
    /// the exchanges. `null` by default.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
    /// The exchanges, in the order of the replies.
    #[serde(serialize_with = "stored::serialize")]
    pub exchanges: Vec<Exchange>,
}

/// One request with its reply.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Exchange {
    /// Request that the model received.
    pub request: Request,
    /// Reply of the model.
    pub reply: Reply,
}

/// The error of reading or writing a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("cannot read the recording {} ({}); record the run first, or name another file", path.display(), reason(source))]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write the recording {} ({}); name a file in a folder that you may write to", path.display(), reason(source))]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The path is a folder, a link or a device.
    #[error("cannot write the recording {}: the path is not a regular file; name another file", path.display())]
    NotAFile {
        /// Path that is not a regular file.
        path: PathBuf,
    },
    /// The text could not be loaded again, so it was not written.
    #[error("the recording {} was not written, because it could not be loaded again; reduce the nesting of the JSON in its tools and replies", path.display())]
    OneWay {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The text is not a recording.
    #[error("the recording {} cannot be read, because it {}; record it again", path.display(), fault(source))]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
    /// An exchange has no clear request.
    #[error("exchange {exchange} of the recording {} {fault}; record it again", path.display())]
    Exchange {
        /// Path of the file.
        path: PathBuf,
        /// Number of the exchange, counted from 1.
        exchange: usize,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// The file was written by a later version.
    #[error("the recording {} has version {found}, this program reads up to {VERSION}; update it", path.display())]
    Version {
        /// Path of the file.
        path: PathBuf,
        /// The version of the file.
        found: u32,
    },
}

/// Returns the cause in the words of this crate, or else its kind: the words of a system differ.
fn reason(error: &io::Error) -> String {
    error.get_ref().map_or_else(|| error.kind().to_string(), ToString::to_string)
}

fn fault(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        Category::Io => "was interrupted",
        Category::Eof => "ends too early",
        Category::Syntax => "is not JSON",
        Category::Data => "does not have the fields of a recording",
    }
}

impl Recording {
    /// Returns a recording of these requests and replies of a model.
    #[must_use]
    pub fn new(
        model: impl Into<String>,
        exchanges: impl IntoIterator<Item = (Request, Reply)>,
    ) -> Self {
        let exchanges = exchanges.into_iter().map(|(request, reply)| Exchange::new(request, reply));
        Self::of(&model.into(), exchanges.collect())
    }

    fn of(model: &str, exchanges: Vec<Exchange>) -> Self {
        let reported = exchanges.iter().find_map(|exchange| exchange.reply.model.clone());
        let model = reported.unwrap_or_else(|| model.to_owned());
        Self { version: VERSION, model, metadata: Value::Null, exchanges }
    }

    /// Reads a recording from a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is not a recording, or has a later version.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        let path = path.as_ref();
        let text = __files::read_text(path, Link::Follow, MAX_BYTES)
            .map_err(|source| RecordingError::Read { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Parses a recording. `path` is for the error.
    ///
    /// # Errors
    ///
    /// The text is not a recording or has a later version.
    pub fn parse(text: &str, path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        let path = path.as_ref();
        let unreadable = |source| RecordingError::Format { path: path.to_owned(), source };
        // Some editors write a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        // The version is checked first, because a later format may not parse.
        let value: Value = serde_json::from_str(text).map_err(unreadable)?;
        if let Some(found) = value.get("version").and_then(Value::as_u64)
            && found > u64::from(VERSION)
        {
            let found = found.try_into().unwrap_or(u32::MAX);
            return Err(RecordingError::Version { path: path.to_owned(), found });
        }
        let run: stored::Run = serde_json::from_value(value).map_err(unreadable)?;
        Self::try_from(run).map_err(|unclear| match unclear {
            stored::Unclear::Exchange { exchange, fault } => {
                RecordingError::Exchange { path: path.to_owned(), exchange, fault }
            }
            stored::Unclear::Version(found) => {
                RecordingError::Version { path: path.to_owned(), found }
            }
        })
    }

    /// Writes the recording to a file, with known keys masked. The file is replaced atomically. An
    /// existing file keeps its permissions (its mode, on Unix).
    ///
    /// # Errors
    ///
    /// The file cannot be written, the path is not a regular file, or the text could not be loaded
    /// again.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), RecordingError> {
        self.save_without(path, &[])
    }

    /// Writes the recording to a file like [`save`](Self::save), and masks these secrets too: keys
    /// that are not in the environment.
    ///
    /// ```
    /// # use toolwright_module::testing::{Recorder, Scripted};
    /// # use toolwright_module::Reply;
    /// # let path = std::env::temp_dir().join(format!("run-{}.json", std::process::id()));
    /// let recorder = Recorder::new(Scripted::new(|_| Ok(Reply::text("Hello."))));
    /// // …
    /// recorder.recording().save_without(&path, &["a-key-from-a-file"])?;
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`save`](Self::save).
    pub fn save_without(
        &self,
        path: impl AsRef<Path>,
        secrets: &[&str],
    ) -> Result<(), RecordingError> {
        let path = path.as_ref();
        if __files::check(path, Link::Refuse).is_err() {
            return Err(RecordingError::NotAFile { path: path.to_owned() });
        }
        let text = self
            .masked(path, secrets)
            .map_err(|source| RecordingError::OneWay { path: path.to_owned(), source })?;
        __files::replace(path, text.as_bytes())
            .map_err(|source| RecordingError::Write { path: path.to_owned(), source })
    }

    /// Returns the masked text of the file, and checks that it loads.
    fn masked(
        &self,
        path: &Path,
        secrets: &[&str],
    ) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
        let mut value = serde_json::to_value(self)?;
        Mask::from_env_and(secrets).apply(&mut value);
        let text = format!("{value:#}\n");
        Self::parse(&text, path)?;
        Ok(text)
    }
}

/// A model that passes requests to another model and records the replies.
///
/// ```
/// use toolwright_module::testing::{Recorder, Replay, Scripted};
/// use toolwright_module::{LanguageModel, Message, Reply, Request};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let recorder = Recorder::new(Scripted::new(|_| Ok(Reply::text("Hello."))));
/// let question = Request::new([Message::user("Hi!")]);
/// recorder.generate(&question).await?;
///
/// // Later, perhaps from a file, without the model:
/// let replay = Replay::new(recorder.recording());
/// assert_eq!(replay.generate(&question).await?.to_text(), "Hello.");
///
/// // A request that was not recorded gets an error.
/// let other = Request::new([Message::user("Bye!")]);
/// let error = replay.generate(&other).await.unwrap_err();
/// assert!(error.to_string().contains("the recording has no more answers"));
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Recorder<M> {
    model: M,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

impl<M: LanguageModel> Recorder<M> {
    /// Returns a recorder of `model`.
    pub fn new(model: M) -> Self {
        Self { model, exchanges: Arc::default() }
    }

    /// Returns the recording so far. Failed calls are not in it.
    #[must_use]
    pub fn recording(&self) -> Recording {
        let exchanges = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Recording::of(self.model.name(), exchanges)
    }
}

impl Exchange {
    fn new(request: Request, mut reply: Reply) -> Self {
        // Local servers name a model by its path, which is private and differs between machines. Keep
        // the file name only.
        if let Some(model) = &mut reply.model
            && Path::new(model).is_absolute()
            && let Some(file) = Path::new(model).file_name().and_then(OsStr::to_str)
        {
            *model = file.to_owned();
        }
        Self { request: without_values(request), reply }
    }
}

/// Returns a request as the model reads it: without the outputs beside the texts of tool results.
fn without_values(mut request: Request) -> Request {
    for message in &mut request.messages {
        if matches!(&**message, Message::Tool(result) if result.value.is_some())
            && let Message::Tool(result) = Arc::make_mut(message)
        {
            result.value = None;
        }
    }
    request
}

fn keep(exchanges: &Mutex<Vec<Exchange>>, request: &Request, reply: &Reply) {
    let exchange = Exchange::new(request.clone(), reply.clone());
    exchanges.lock().unwrap_or_else(PoisonError::into_inner).push(exchange);
}

impl<M: LanguageModel> LanguageModel for Recorder<M> {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn provider(&self) -> &str {
        self.model.provider()
    }

    fn service(&self) -> Option<&str> {
        self.model.service()
    }

    fn capabilities(&self) -> Capabilities {
        self.model.capabilities()
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            let reply = self.model.generate(request).await?;
            keep(&self.exchanges, request, &reply);
            Ok(reply)
        })
    }

    fn stream<'a>(&'a self, request: Request) -> BoxStream<'a, Result<Delta>> {
        let deltas = self.model.stream(request.clone());
        deltas
            .inspect(move |delta| {
                if let Ok(Delta::Done(reply)) = delta {
                    keep(&self.exchanges, &request, reply);
                }
            })
            .boxed()
    }
}

/// A model that repeats recorded replies.
///
/// Each recorded reply is given once, to a request equal to the recorded one. A request that was
/// not recorded gets an error that shows the difference. A program that changed its requests
/// therefore fails its replay.
#[derive(Debug)]
pub struct Replay {
    recording: Recording,
    used: Mutex<Vec<bool>>,
    capabilities: Capabilities,
}

impl Replay {
    /// Returns a model that replays `recording`. Its capabilities are those that the recorded requests
    /// used: output schemas, calls that were required, and settings.
    #[must_use]
    pub fn new(recording: Recording) -> Self {
        let used = Mutex::new(vec![false; recording.exchanges.len()]);
        let mut capabilities = Capabilities::new(Dialect::OpenAiLoose);
        for Exchange { request, .. } in &recording.exchanges {
            capabilities.structured_output |= request.output.is_some();
            capabilities.tools |=
                matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_));
            let set = request.settings.iter().map(|settings| settings.set());
            let set = set.flat_map(SettingSet::iter);
            capabilities.settings = set.fold(capabilities.settings, SettingSet::with);
        }
        Self { recording, used, capabilities }
    }

    /// Sets the capabilities. They should be those of the recorded model, because prompts may
    /// depend on them.
    #[must_use]
    pub fn with_capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Returns the number of recorded replies that were not used yet.
    #[must_use]
    pub fn left(&self) -> usize {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.iter().filter(|used| !**used).count()
    }

    fn answer(&self, request: &Request) -> Result<Reply> {
        // The recorded request is masked, so the new one is masked for the comparison.
        let mask = Mask::from_env_and(&[]);
        let comparable = |request: &Request| -> Result<Value> {
            let mut value = serde_json::to_value(request)?;
            remove_values(&mut value);
            mask.apply(&mut value);
            Ok(value)
        };
        let asked = comparable(request)?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut expected = None;
        for (exchange, used) in self.recording.exchanges.iter().zip(used.iter_mut()) {
            if *used {
                continue;
            }
            let recorded = comparable(&exchange.request)?;
            if recorded == asked {
                *used = true;
                return Ok(exchange.reply.clone());
            }
            expected.get_or_insert(recorded);
        }
        let text = match expected {
            None => format!(
                "the recording has no more answers: {} were recorded and used; record the run again",
                self.recording.exchanges.len(),
            ),
            Some(expected) => format!(
                "this request was not recorded; record the run again, or see what changed (- recorded, + asked):\n{}",
                difference(&expected, &asked),
            ),
        };
        Err(Error::stop(text).at(Stage::Setup))
    }
}

impl LanguageModel for Replay {
    fn name(&self) -> &str {
        &self.recording.model
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move { self.answer(request) })
    }

    /// Streams the reply word by word, so that tests exercise the handling of pieces.
    fn stream<'a>(&'a self, request: Request) -> BoxStream<'a, Result<Delta>> {
        words(self.answer(&request))
    }
}

/// Removes the outputs beside the texts of tool results. A model does not get them.
fn remove_values(request: &mut Value) {
    let messages = request.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten().filter_map(Value::as_object_mut) {
        if message.get("role").is_some_and(|role| role == "tool") {
            message.shift_remove("value");
        }
    }
}

/// Returns the lines that differ, with a few lines around them.
fn difference(expected: &Value, asked: &Value) -> String {
    let (expected, asked) = (format!("{expected:#}"), format!("{asked:#}"));
    let diff = TextDiff::from_lines(&expected, &asked);
    let mut text = String::new();
    for group in diff.grouped_ops(CONTEXT_LINES) {
        if !text.is_empty() {
            text.push_str("  …\n");
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            text.push_str(match change.tag() {
                ChangeTag::Delete => "- ",
                ChangeTag::Insert => "+ ",
                ChangeTag::Equal => "  ",
            });
            text.push_str(change.value());
            if change.missing_newline() {
                text.push('\n');
            }
        }
    }
    text
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} exchanges with {}", self.exchanges.len(), self.model)
    }
}

/// The form in the file. A request that only adds messages to the one before it is stored as the
/// added messages.
mod stored {
    use serde::Serializer;

    use super::*;

    #[derive(Deserialize)]
    #[serde(expecting = "`version`, `model` and `exchanges`")]
    pub(super) struct Run {
        version: u32,
        model: String,
        #[serde(default)]
        metadata: Value,
        exchanges: Vec<Stored>,
    }

    #[derive(Serialize, Deserialize)]
    struct Stored {
        #[serde(skip_serializing_if = "Option::is_none", default)]
        request: Option<Request>,
        /// The messages added to the request before.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        then: Option<Vec<Arc<Message>>>,
        reply: Reply,
    }

    pub(super) fn serialize<S: Serializer>(
        exchanges: &[Exchange],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut before: Option<&Request> = None;
        serializer.collect_seq(exchanges.iter().map(|exchange| {
            let request = &exchange.request;
            let then = before.and_then(|before| added(before, request));
            before = Some(request);
            let request = then.is_none().then(|| request.clone());
            Stored { request, then, reply: exchange.reply.clone() }
        }))
    }

    fn added(before: &Request, request: &Request) -> Option<Vec<Arc<Message>>> {
        let then = request.messages.strip_prefix(before.messages.as_slice())?;
        let same = Request { messages: before.messages.clone(), ..request.clone() };
        (same == *before).then(|| then.to_vec())
    }

    /// The fault of a value that has the fields of a recording.
    #[derive(Debug, thiserror::Error)]
    pub(super) enum Unclear {
        /// An exchange has no clear request.
        #[error("exchange {exchange} {fault}")]
        Exchange { exchange: usize, fault: &'static str },
        /// The version is later than this program's.
        #[error("the recording has version {0}, this program reads up to {VERSION}; update it")]
        Version(u32),
    }

    impl TryFrom<Run> for Recording {
        type Error = Unclear;

        fn try_from(mut run: Run) -> Result<Self, Unclear> {
            if run.version > VERSION {
                return Err(Unclear::Version(run.version));
            }
            let mut exchanges: Vec<Exchange> = Vec::new();
            for stored in std::mem::take(&mut run.exchanges) {
                let request = match (stored.request, stored.then, exchanges.last()) {
                    (Some(request), None, _) => Ok(request),
                    (None, Some(then), Some(before)) => {
                        let mut request = before.request.clone();
                        request.messages.extend(then);
                        Ok(request)
                    }
                    (Some(_), Some(_), _) => Err("has both `request` and `then`"),
                    // A list of added messages needs an exchange before it.
                    (None, ..) => Err("has no `request`, nor `then` after another exchange"),
                };
                let exchange = exchanges.len() + 1;
                let request = request.map_err(|fault| Unclear::Exchange { exchange, fault })?;
                exchanges.push(Exchange { request, reply: stored.reply });
            }
            let Run { version, model, metadata, .. } = run;
            Ok(Self { version, model, metadata, exchanges })
        }
    }
}
