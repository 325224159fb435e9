use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use toolwright_module::{Event, EventKind, Spent};

/// How much of a tool's result is shown.
const LONGEST: usize = 400;

/// Shows a run as it goes: the model's text on stdout, everything else on stderr.
#[derive(Debug, Default)]
pub struct Screen {
    /// Whether there is text on the last line.
    mid_line: AtomicBool,
}

impl Screen {
    /// Shows an event.
    pub fn show(&self, event: &Event) {
        // Whoever closes our output has seen enough; that is no reason to end the run.
        let _ = match &event.kind {
            EventKind::TextDelta { text } => self.write(text),
            EventKind::ModelReplied { .. } if self.mid_line.load(Ordering::Relaxed) => {
                self.write("\n")
            }
            EventKind::ToolStarted { call } => {
                let (name, arguments) = (printable(&call.name), printable(&call.arguments));
                writeln!(io::stderr(), "-> {name} {arguments}")
            }
            EventKind::ToolFinished { call, text, error, elapsed } => {
                let (mark, text) = error.as_ref().map_or(("", text), |error| ("failed: ", error));
                let (name, text) = (printable(&call.name), shortened(&printable(text)));
                let time = elapsed.as_secs_f64() * 1000.0;
                writeln!(io::stderr(), "<- {name} {mark}{text} ({time:.1} ms)")
            }
            _ => Ok(()),
        };
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let text = printable(text);
        self.mid_line.store(!text.is_empty() && !text.ends_with('\n'), Ordering::Relaxed);
        let mut out = io::stdout().lock();
        write!(out, "{text}")?;
        out.flush()
    }
}

/// A line of what a program is for, on stdout.
///
/// Unlike `println!` it does not mind that nobody reads on.
pub fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{}", printable(text));
}

/// A line of JSON on stdout, for another program; it does not mind either.
pub fn tell(value: &impl Serialize) {
    if let Ok(mut line) = serde_json::to_vec(value) {
        line.push(b'\n');
        let mut out = io::stdout().lock();
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}

/// A line about what a program does, on stderr.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(text));
}

/// What a run cost, in one line.
#[must_use]
pub fn summary(spent: Spent, elapsed: Duration) -> String {
    let Spent { usage, model_calls, .. } = spent;
    let cached = match usage.cached_tokens {
        0 => String::new(),
        tokens => format!(" ({tokens} cached)"),
    };
    format!(
        "{model_calls} model calls, {} tokens in{cached}, {} out, {:.1} s",
        usage.input_tokens,
        usage.output_tokens,
        elapsed.as_secs_f64(),
    )
}

/// The text without control characters: what a model or a tool says must not steer
/// the terminal.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
    }
}
