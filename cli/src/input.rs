use std::fmt;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use rustyline::config::Behavior;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use tokio::sync::oneshot;

use crate::keys::Keys;
use crate::show::note;

/// The user's input, line by line: from a terminal with editing and a history, or from a pipe.
///
/// A separate thread reads a line when one is requested. The program can end while that thread
/// waits.
#[derive(Clone)]
pub struct Input {
    asks: mpsc::Sender<Ask>,
    terminal: bool,
}

struct Ask {
    prompt: &'static str,
    /// Initial text of the line, which the user can edit.
    initial: String,
    /// Whether to add the line to the history.
    kept: bool,
    answer: oneshot::Sender<io::Result<Option<String>>>,
}

impl Input {
    /// Reads from the terminal. If `history` names a file, it keeps the history. Lines with a key in
    /// them are not kept.
    ///
    /// # Errors
    ///
    /// If there is no terminal, or the file cannot be read or written.
    pub fn terminal(history: Option<&Path>) -> io::Result<Self> {
        Self::conversation(history, Keys::default())
    }

    /// Reads from the terminal, and knows these keys.
    pub(crate) fn conversation(history: Option<&Path>, keys: Keys) -> io::Result<Self> {
        // The prompt goes to the terminal: stdout is for answers and may be redirected.
        let config = Config::builder().behavior(Behavior::PreferTerm).build();
        let mut editor = Editor::<(), FileHistory>::with_config(config).map_err(into_io)?;
        let history = history.map(Path::to_path_buf);
        if let Some(file) = &history {
            // Check and create the file before the run, because a run costs money.
            let named = |error: io::Error| {
                let text = format!("--history: {}: {error}", file.display());
                io::Error::new(error.kind(), text)
            };
            if file.exists() {
                editor.load_history(file).map_err(|error| named(into_io(error)))?;
            }
            editor.append_history(file).map_err(|error| named(into_io(error)))?;
        }
        Ok(Self {
            asks: start(move |ask| edited(&mut editor, history.as_ref(), &keys, ask)),
            terminal: true,
        })
    }

    /// Reads from standard input, without editing.
    #[must_use]
    pub fn pipe() -> Self {
        let read = |_: &Ask| {
            let mut line = Vec::new();
            let length = io::stdin().lock().read_until(b'\n', &mut line)?;
            Ok((length > 0).then(|| String::from_utf8_lossy(&line).trim_end().to_owned()))
        };
        Self { asks: start(read), terminal: false }
    }

    /// Returns whether the input is a terminal.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns the next task, or `None` at the end of a pipe, after Ctrl-D, and if the user
    /// interrupts the program: at a terminal twice.
    pub(crate) async fn task(
        &self,
        interrupted: impl Future<Output = ()>,
    ) -> io::Result<Option<String>> {
        let line = self.line("> ", String::new(), true);
        if self.terminal {
            // On a terminal, the editor handles Ctrl-C.
            return line.await;
        }
        tokio::select! {
            line = line => line,
            () = interrupted => Ok(None),
        }
    }

    /// Asks a question, with `initial` as the text to edit. Returns `None` after Ctrl-C or Ctrl-D.
    ///
    /// # Errors
    ///
    /// If reading fails.
    pub async fn ask(&self, question: &'static str, initial: String) -> io::Result<Option<String>> {
        self.line(question, initial, false).await
    }

    async fn line(
        &self,
        prompt: &'static str,
        initial: String,
        kept: bool,
    ) -> io::Result<Option<String>> {
        let (answer, line) = oneshot::channel();
        // If the thread has ended, the next line returns `None`.
        let _ = self.asks.send(Ask { prompt, initial, kept, answer });
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
            let line = read(&ask);
            let _ = ask.answer.send(line);
        }
    });
    asks
}

fn edited(
    editor: &mut Editor<(), FileHistory>,
    history: Option<&PathBuf>,
    keys: &Keys,
    ask: &Ask,
) -> io::Result<Option<String>> {
    // As in a shell, Ctrl-C discards the line of a task. Twice, it ends the conversation.
    let mut interrupts = 0..u8::from(ask.kept);
    let line = loop {
        match editor.readline_with_initial(ask.prompt, (&ask.initial, "")) {
            Ok(line) => break line,
            Err(ReadlineError::Interrupted) if interrupts.next().is_some() => {
                note("(Ctrl-C again or Ctrl-D ends the conversation)");
            }
            Err(ReadlineError::Eof | ReadlineError::Interrupted) => return Ok(None),
            Err(error) => return Err(into_io(error)),
        }
    };
    if ask.kept && !line.trim().is_empty() && !keys.are_in(&line) {
        editor.add_history_entry(line.as_str()).map_err(into_io)?;
        if let Some(file) = history {
            editor.append_history(file).map_err(into_io)?;
        }
    }
    Ok(Some(line))
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
