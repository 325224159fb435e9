use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anstream::{stderr, stdout};
use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::Value;
pub(crate) use toolwright_journal::__page::{cost_in_words, cost_of, quoted};
pub use toolwright_module::__text::visible;
use toolwright_module::budget::Spent;
use toolwright_module::event::{Event, EventKind};
use toolwright_module::untrusted::inside;

use crate::keys::without_keys;
use crate::lines::Lines;
use crate::texts::in_words_of_run;

/// Maximum number of characters of a tool's result that are shown.
const LONGEST: usize = 400;

/// Maximum number of characters of a name beside the spinner, which has one line.
const LONGEST_NAME: usize = 40;

/// Maximum number of lines of an error that are shown.
const MOST_LINES: usize = 40;

/// Style of calls.
const CALL: Style = AnsiColor::Cyan.on_default();
/// Style of failures and errors.
const FAULT: Style = AnsiColor::Red.on_default().bold();
/// Style of what is not part of the answer.
const NOTE: Style = Style::new().dimmed();

/// Shows a run while it proceeds: the model's text on stdout, everything else on stderr, without keys.
/// At a terminal, a spinner shows what the run waits for.
#[derive(Debug, Default)]
pub struct Screen {
    /// Whether the last line on stdout has no line end yet.
    mid_line: AtomicBool,
    /// The model's text at a terminal.
    said: Mutex<Option<Lines>>,
    /// Number of tools that run.
    running: AtomicUsize,
    spinner: Option<ProgressBar>,
}

impl Screen {
    /// Returns a screen. It has a spinner if `spins`, and stderr is a terminal.
    #[must_use]
    pub(crate) fn new(spins: bool) -> Self {
        let spinner = (spins && io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        });
        let said = Mutex::new(io::stdout().is_terminal().then(Lines::on_stdout));
        Self { spinner, said, ..Self::default() }
    }

    /// Removes the spinner, until the next event.
    pub(crate) fn rest(&self) {
        if let Some(spinner) = &self.spinner {
            spinner.disable_steady_tick();
            spinner.finish_and_clear();
        }
    }

    fn wait_for(&self, what: String) {
        // A spinner would overwrite a line that is not finished.
        if let Some(spinner) = self.spinner.as_ref().filter(|_| !self.is_mid_line()) {
            spinner.set_message(what);
            spinner.reset();
            spinner.enable_steady_tick(Duration::from_millis(100));
        }
    }

    fn is_mid_line(&self) -> bool {
        self.mid_line.load(Ordering::Relaxed)
    }

    /// Shows an event.
    pub fn show(&self, event: &Event) {
        // The whole call is shown when it begins, and the answer at the end. Until then the model is
        // shown as thinking.
        if matches!(event.kind, EventKind::AnswerDelta { .. } | EventKind::CallDelta { .. }) {
            return;
        }
        self.rest();
        // Closed output is not a reason to end the run.
        let written = match &event.kind {
            // That of a summary is not the answer.
            EventKind::TextDelta { text } if event.path.is_empty() => self.write(text),
            EventKind::ModelReplied { .. } if self.is_mid_line() => self.write("\n"),
            EventKind::ToolStarted { call } => {
                self.running.fetch_add(1, Ordering::Relaxed);
                let mut lines = Lines::on_stderr();
                lines.style(CALL).own("-> ").theirs(&shown(&call.name)).style(CALL.render_reset());
                lines.own(" ").theirs(&shown(&call.arguments));
                writeln!(stderr(), "{}", lines.take())
            }
            EventKind::ToolFinished { call, text, error, repairs, elapsed } => {
                let less = |running: usize| Some(running.saturating_sub(1));
                let _ = self.running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
                let mut lines = Lines::on_stderr();
                for repair in repairs {
                    let repair = without_keys(&repair.to_string());
                    lines.own("   repaired ").theirs(&shortened(&repair)).end();
                }
                lines.style(CALL).own("<- ").theirs(&shown(&call.name)).style(CALL.render_reset());
                if error.is_some() {
                    lines.own(" ").style(FAULT).own("failed:").style(FAULT.render_reset());
                }
                let error = error.as_deref().map(in_words_of_run);
                // The lines have marks of their own.
                let text = inside(text).unwrap_or(text);
                let said = without_keys(error.as_deref().unwrap_or(text));
                lines.own(" ").theirs(&shortened(&said));
                let time = format!("({:.1} ms)", elapsed.as_secs_f64() * 1000.0);
                lines.own(" ").style(NOTE).own(&time).style(NOTE.render_reset());
                writeln!(stderr(), "{}", lines.take())
            }
            EventKind::Compacted { tokens_before, tokens_after, .. } => {
                let text = format!(
                    "(the conversation was shortened from about {tokens_before} to {tokens_after} tokens)"
                );
                let mut lines = Lines::on_stderr();
                lines.style(NOTE).own(&text).style(NOTE.render_reset());
                writeln!(stderr(), "{}", lines.take())
            }
            _ => Ok(()),
        };
        keep_error(written);
        match &event.kind {
            EventKind::ToolStarted { call } => {
                let name: String = visible(&call.name).chars().take(LONGEST_NAME).collect();
                self.wait_for(format!("running {name}"));
            }
            EventKind::ToolFinished { .. } if self.running.load(Ordering::Relaxed) > 0 => {
                self.wait_for("running tools".to_owned());
            }
            EventKind::Started { .. }
            | EventKind::ReasoningDelta { .. }
            | EventKind::ToolFinished { .. } => self.wait_for("the model is thinking".to_owned()),
            _ => {}
        }
    }

    /// Ends the model's last line at a terminal, before the command says something.
    pub(crate) fn end_line(&self) {
        if self.is_mid_line() && io::stdout().is_terminal() {
            keep_error(self.write("\n"));
        }
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let (text, is_mid_line) = match &mut *said {
            Some(lines) => (lines.theirs(text).take(), lines.is_mid_line()),
            None => (printable(text), !text.ends_with('\n')),
        };
        if !text.is_empty() {
            self.mid_line.store(is_mid_line, Ordering::Relaxed);
        }
        let mut out = io::stdout().lock();
        write!(out, "{text}")?;
        out.flush()
    }
}

/// The first error of writing to stdout.
static WRITE_ERROR: Mutex<Option<io::Error>> = Mutex::new(None);

/// Keeps the error for [`write_error`]. A closed pipe is not an error: the reader needs no more
/// output.
fn keep_error(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        WRITE_ERROR.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// Returns the first error of writing to stdout, such as that of a full disk.
pub(crate) fn write_error() -> Option<io::Error> {
    WRITE_ERROR.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Prints lines on stdout, each of which begins with words of this program.
///
/// Unlike `println!`, it does not panic if the output is closed.
pub fn say(text: &str) {
    out(text, |lines, text| lines.own_lines(text).take());
}

/// Prints text of a model, a tool, a server or a file on stdout. At a terminal, each line of it has
/// a mark.
pub(crate) fn say_theirs(text: &str) {
    out(text, |lines, text| lines.theirs(text).take());
}

fn out(text: &str, composed: impl FnOnce(&mut Lines, &str) -> String) {
    let text = match io::stdout().is_terminal() {
        true => composed(&mut Lines::on_stdout(), text),
        false => printable(text),
    };
    write_out(&(text + "\n"));
}

fn write_out(text: &str) {
    let mut out = io::stdout().lock();
    keep_error(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Writes a text of others to stdout as it is, or with marks at a terminal.
pub(crate) fn put(text: &str) {
    match io::stdout().is_terminal() {
        true => say_theirs(text.trim_end()),
        false => write_out(text),
    }
}

/// Writes bytes to stdout, unless it is a terminal. Returns whether they were written.
pub(crate) fn put_bytes(bytes: &[u8]) -> bool {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        return false;
    }
    keep_error(out.write_all(bytes).and_then(|()| out.flush()));
    true
}

/// Prints a heading with the text below it on stdout, both from others.
pub(crate) fn say_below(heading: &str, text: &str) {
    let (heading, text) = match io::stdout().is_terminal() {
        true => {
            let mut lines = Lines::on_stdout();
            (lines.theirs(heading).take(), lines.theirs(text).take())
        }
        false => (printable(heading), printable(text)),
    };
    keep_error(writeln!(stdout(), "{CALL}{heading}{CALL:#}{text}"));
}

/// Prints JSON on stdout: on several lines at a terminal, otherwise on one.
pub(crate) fn say_json(value: &Value) {
    match io::stdout().is_terminal() {
        true => say_theirs(&format!("{value:#}")),
        false => tell(value),
    }
}

/// Prints a line of JSON on stdout, for another program. It does not panic if the output is closed.
pub(crate) fn tell(value: &impl Serialize) {
    if let Ok(mut line) = serde_json::to_string(value) {
        if io::stdout().is_terminal() {
            // In JSON, an escape is the same character.
            line = visible(&line);
        }
        write_out(&(line + "\n"));
    }
}

/// Prints a line on stderr, without keys. It begins with words of this program. Further lines have a
/// mark, because they quote others. At a terminal, errors are red and the rest is dim.
pub fn note(text: &str) {
    let _ = write!(stderr(), "{}", noted(&mut Lines::on_stderr(), text));
}

/// Prints a line on stderr with a key that this program has made for the user.
pub(crate) fn note_own_key(text: &str) {
    let text = Lines::on_stderr().own(text).take();
    let _ = writeln!(stderr(), "{NOTE}{text}{NOTE:#}");
}

/// Prints several lines on stderr, each of which begins with words of this program.
pub(crate) fn advise(text: &str) {
    let mut lines = Lines::on_stderr();
    let text = lines.own_lines(&without_keys(text)).end().take();
    let _ = write!(stderr(), "{}", in_red(&text));
}

/// Returns a note with its styles.
pub(crate) fn noted(lines: &mut Lines, text: &str) -> String {
    let text = lines.own(&without_keys(text)).take();
    match text.starts_with("error:") {
        true => in_red(&(text + "\n")),
        false => format!("{NOTE}{text}{NOTE:#}\n"),
    }
}

fn in_red(text: &str) -> String {
    match text.strip_prefix("error:") {
        Some(rest) => format!("{FAULT}error:{FAULT:#}{rest}"),
        None => text.to_owned(),
    }
}

/// Returns the cost of a run in one line.
#[must_use]
pub(crate) fn summary(spent: Spent, elapsed: Duration) -> String {
    let Spent { usage, model_calls, .. } = spent;
    let cached = match usage.cached_tokens {
        0 => String::new(),
        tokens => format!(" ({tokens} cached)"),
    };
    // A server did not report all of them.
    let least = if usage.incomplete { "at least " } else { "" };
    format!(
        "{model_calls} model calls, {least}{} tokens in{cached}, {least}{} out{}, {:.1} s",
        usage.input_tokens,
        usage.output_tokens,
        cost_of(spent),
        elapsed.as_secs_f64(),
    )
}

/// Returns the text without control characters, so that text of a model or a tool cannot control
/// the terminal.
#[must_use]
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// Returns the text of others for a person: without keys, and with invisible characters escaped.
#[must_use]
pub(crate) fn shown(text: &str) -> String {
    visible(&without_keys(text))
}

/// Returns the first lines of an error, which may show a whole request.
pub(crate) fn of_few_lines(text: &str) -> String {
    let text = text.trim_end();
    match text.match_indices('\n').nth(MOST_LINES - 1) {
        None => text.to_owned(),
        Some((end, _)) => {
            let more = text[end..].lines().count() - 1;
            format!("{}\n… ({more} more lines, which --json prints)", &text[..end])
        }
    }
}

pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_error_is_cut_after_some_lines() {
        let lines = |count: usize| vec!["a"; count].join("\n");
        assert_eq!(of_few_lines(&lines(MOST_LINES)), lines(MOST_LINES));
        let cut = format!("{}\n… (2 more lines, which --json prints)", lines(MOST_LINES));
        assert_eq!(of_few_lines(&lines(MOST_LINES + 2)), cut);
    }
}
