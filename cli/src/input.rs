use std::fmt;
use std::fs;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;

use rustyline::config::Behavior;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use tokio::sync::{Mutex, MutexGuard, oneshot};
use toolwright_module::__files::{self, Link};

use crate::keys::Keys;
use crate::lines::Lines;
use crate::show::{note, noted};
use crate::texts::from_utf8;

/// Maximum length of a line from a pipe, in bytes.
const LONGEST_LINE: u64 = 1 << 20;

/// Maximum length of the file with the lines of conversations, in bytes.
const MAX_HISTORY_BYTES: u64 = 1 << 26;

/// The user's input, line by line: from a terminal with editing and a history, or from a pipe.
///
/// A separate thread reads a line when one is requested. The program can end while that thread
/// waits.
#[derive(Clone)]
pub(crate) struct Input {
    asks: mpsc::Sender<Ask>,
    terminal: bool,
    /// Locked while a person is asked, until the answer arrives.
    turn: Arc<Mutex<()>>,
}

struct Ask {
    prompt: &'static str,
    /// Initial text of the line, which the user can edit.
    initial: String,
    kind: AskKind,
    answer: oneshot::Sender<io::Result<Option<String>>>,
}

enum AskKind {
    /// The next task of a conversation. Lines that were typed or pasted before are tasks too.
    Task,
    /// A question, below these lines. Nothing that was typed before it was shown answers it.
    Question(String),
}

impl Input {
    /// Reads from the terminal. If `history` names a file, it keeps the history. Lines with one of
    /// these keys in them are not kept.
    ///
    /// # Errors
    ///
    /// If there is no terminal, or the file cannot be read or written.
    pub(crate) fn terminal(history: Option<&Path>, keys: Keys) -> io::Result<Self> {
        // It keeps what it has read of the lines after a task, so that pasted lines are not lost.
        let mut tasks = editor()?;
        let history = history.map(Path::to_path_buf);
        if let Some(file) = &history {
            // Check and create the file before the run, because a run costs money.
            let named = |error: io::Error| {
                let text = format!("--history: {}: {error}", file.display());
                io::Error::new(error.kind(), text)
            };
            check_history(file).map_err(named)?;
            if file.exists() {
                tasks.load_history(file).map_err(|error| named(into_io(error)))?;
            }
            tasks.append_history(file).map_err(|error| named(into_io(error)))?;
        }
        let read = move |ask: &Ask| match &ask.kind {
            AskKind::Task => task(&mut tasks, history.as_ref(), &keys, ask),
            AskKind::Question(above) => question(above, ask),
        };
        Ok(Self { asks: start(read), terminal: true, turn: Arc::default() })
    }

    /// Reads from standard input, without editing. Such an input has only tasks: a question is for a
    /// person at a terminal, and gets the answer `None`.
    #[must_use]
    pub(crate) fn pipe() -> Self {
        let mut number = 0_u64;
        let read = move |ask: &Ask| {
            if matches!(ask.kind, AskKind::Question(_)) {
                return Ok(None);
            }
            number += 1;
            let mut line = Vec::new();
            let mut input = io::stdin().lock().take(LONGEST_LINE + 1);
            let length = input.read_until(b'\n', &mut line)?;
            if length as u64 > LONGEST_LINE {
                return Err(io::Error::other(format!(
                    "line {number} of standard input has more than {LONGEST_LINE} bytes"
                )));
            }
            let line = from_utf8(line, &format!("line {number} of standard input"))?;
            Ok((length > 0).then(|| line.trim_end().to_owned()))
        };
        Self { asks: start(read), terminal: false, turn: Arc::default() }
    }

    /// Returns whether the input is a terminal.
    #[must_use]
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns the next task, or `None` at the end of a pipe, after Ctrl-D, and if the user
    /// interrupts the program: at a terminal twice.
    ///
    /// # Errors
    ///
    /// If reading fails, and with [`io::ErrorKind::InvalidData`] for a line that is not UTF-8. The
    /// lines after it can be read.
    pub(crate) async fn task(
        &self,
        interrupted: impl Future<Output = ()>,
    ) -> io::Result<Option<String>> {
        let line = self.line("> ", String::new(), AskKind::Task);
        if self.terminal {
            // On a terminal, the editor handles Ctrl-C.
            return line.await;
        }
        tokio::select! {
            line = line => line,
            () = interrupted => Ok(None),
        }
    }

    /// Waits until no other question is open. The next one begins when the result is dropped.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Asks a question, with `initial` as the text to edit. Returns `None` after Ctrl-C or Ctrl-D.
    ///
    /// The lines `above` are shown right before it, in the terminal that gives the answer. What was
    /// typed before they were shown is dropped.
    ///
    /// # Errors
    ///
    /// If reading fails.
    pub(crate) async fn ask(
        &self,
        above: String,
        question: &'static str,
        initial: String,
    ) -> io::Result<Option<String>> {
        self.line(question, initial, AskKind::Question(above)).await
    }

    async fn line(
        &self,
        prompt: &'static str,
        initial: String,
        kind: AskKind,
    ) -> io::Result<Option<String>> {
        let (answer, line) = oneshot::channel();
        // If the thread has ended, the next line returns `None`.
        let _ = self.asks.send(Ask { prompt, initial, kind, answer });
        line.await.unwrap_or(Ok(None))
    }
}

/// Starts a thread that reads. It is not a thread of the runtime, because a read cannot be
/// cancelled and the runtime would wait for it.
fn start(
    mut read: impl FnMut(&Ask) -> io::Result<Option<String>> + Send + 'static,
) -> mpsc::Sender<Ask> {
    let (asks, asked) = mpsc::channel::<Ask>();
    thread::spawn(move || {
        for ask in asked {
            // The call of this question was cancelled, so its answer is not needed.
            if ask.answer.is_closed() && matches!(ask.kind, AskKind::Question(_)) {
                continue;
            }
            let line = read(&ask);
            let _ = ask.answer.send(line);
        }
    });
    asks
}

type LineEditor = Editor<(), FileHistory>;

fn editor() -> io::Result<LineEditor> {
    // The prompt goes to the terminal: stdout is for answers and may be redirected.
    let config = Config::builder().behavior(Behavior::PreferTerm).build();
    Editor::with_config(config).map_err(into_io)
}

/// Reads the next task.
fn task(
    editor: &mut LineEditor,
    history: Option<&PathBuf>,
    keys: &Keys,
    ask: &Ask,
) -> io::Result<Option<String>> {
    // As in a shell, Ctrl-C discards the line of a task. Twice, it ends the conversation.
    let mut interrupted = false;
    let line = loop {
        match editor.readline_with_initial(ask.prompt, (&ask.initial, "")) {
            Ok(line) => break line,
            Err(ReadlineError::Interrupted) if !interrupted => {
                interrupted = true;
                note("(Ctrl-C again or Ctrl-D ends the conversation)");
            }
            Err(ReadlineError::Eof | ReadlineError::Interrupted) => return Ok(None),
            Err(error) if is_not_utf8(&error) => not_utf8(),
            Err(error) => return Err(into_io(error)),
        }
    };
    if !line.trim().is_empty() && !keys.are_in(&line) {
        editor.add_history_entry(line.as_str()).map_err(into_io)?;
        if let Some(file) = history {
            editor.append_history(file).map_err(into_io)?;
        }
    }
    Ok(Some(line))
}

/// Asks a question.
fn question(above: &str, ask: &Ask) -> io::Result<Option<String>> {
    show(above);
    loop {
        // An editor of its own: that of the tasks may have read lines ahead.
        let mut editor = editor()?;
        if drop_typed()? {
            show(&noted(
                &mut Lines::of_question(),
                "(what was typed before this question is dropped)",
            ));
        }
        if ask.answer.is_closed() {
            return Ok(None);
        }
        match editor.readline_with_initial(ask.prompt, (&ask.initial, "")) {
            Ok(line) => return Ok(Some(line)),
            Err(ReadlineError::Eof | ReadlineError::Interrupted) => return Ok(None),
            Err(error) if is_not_utf8(&error) => not_utf8(),
            Err(error) => return Err(into_io(error)),
        }
    }
}

/// Shows lines in the terminal that gives the answer, also if standard error is redirected.
fn show(lines: &str) {
    if !io::stderr().is_terminal()
        && let Ok(mut terminal) = std::fs::OpenOptions::new().write(true).open("/dev/tty")
    {
        let _ = terminal.write_all(anstream::adapter::strip_str(lines).to_string().as_bytes());
        return;
    }
    let _ = write!(anstream::stderr(), "{lines}");
}

fn is_not_utf8(error: &ReadlineError) -> bool {
    matches!(error, ReadlineError::Io(error) if error.kind() == io::ErrorKind::InvalidData)
}

/// Reports a line that is not UTF-8, and drops the rest of it.
fn not_utf8() {
    let _ = drop_typed();
    note(
        "error: the line is not UTF-8 text; it is dropped with what was typed after it; set your \
         terminal to UTF-8",
    );
}

/// Tenths of a second in which nothing must be typed.
#[cfg(unix)]
const QUIET: u8 = 2;

/// Drops typed input until none arrives for a moment, because the rest of a paste may still arrive.
/// Returns whether there was something.
#[cfg(unix)]
fn drop_typed() -> io::Result<bool> {
    use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};

    // The one that the editor reads. Without a controlling terminal, it reads standard input.
    let opened = std::fs::OpenOptions::new().read(true).open("/dev/tty");
    let mut terminal = match opened {
        Ok(terminal) => terminal,
        Err(_) => std::fs::File::from(std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned()?),
    };
    let before = tcgetattr(&terminal)?;
    let mut mode = before.clone();
    // Ctrl-C keeps its meaning.
    mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    mode.special_codes[SpecialCodeIndex::VMIN] = 0;
    mode.special_codes[SpecialCodeIndex::VTIME] = QUIET;
    tcsetattr(&terminal, OptionalActions::Now, &mode)?;
    let (mut bytes, mut dropped) = ([0; 1024], false);
    let ended = loop {
        match terminal.read(&mut bytes) {
            Ok(0) => break Ok(dropped),
            Ok(_) => dropped = true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
    };
    tcsetattr(&terminal, OptionalActions::Now, &before)?;
    ended
}

/// There is no safe call for it. The editor of a question reads nothing ahead.
#[cfg(not(unix))]
fn drop_typed() -> io::Result<bool> {
    Ok(false)
}

/// Checks that a history can be read: opening a pipe would wait, and a large file would fill the
/// memory.
fn check_history(file: &Path) -> io::Result<()> {
    __files::check(file, Link::Follow)?;
    match fs::metadata(file).map_or(0, |found| found.len()) {
        bytes if bytes > MAX_HISTORY_BYTES => {
            let text = format!("it has {bytes} bytes; the maximum is {MAX_HISTORY_BYTES}");
            Err(io::Error::new(io::ErrorKind::FileTooLarge, text))
        }
        _ => Ok(()),
    }
}

fn into_io(error: ReadlineError) -> io::Error {
    match error {
        ReadlineError::Io(error) => error,
        other => io::Error::other(other),
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("terminal", &self.terminal).finish_non_exhaustive()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_a_file_of_a_bounded_length() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("history");
        check_history(&file).unwrap();
        fs::write(&file, "Hi.\n").unwrap();
        check_history(&file).unwrap();
        let long = fs::File::create(&file).unwrap();
        long.set_len(1 << 40).unwrap();
        assert!(check_history(&file).unwrap_err().to_string().contains("the maximum is"));
        let error = check_history(folder.path()).unwrap_err().to_string();
        assert!(error.contains("it is a folder"), "{error}");
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(check_history(&pipe).unwrap_err().to_string().contains("a named pipe"));
    }
}
