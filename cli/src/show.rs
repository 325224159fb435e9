use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use toolwright_module::budget::Spent;
use toolwright_module::event::{Event, EventKind};

/// Maximum number of characters of a tool's result that are shown.
const LONGEST: usize = 400;

/// Shows a run while it proceeds: the model's text on stdout, everything else on stderr.
#[derive(Debug, Default)]
pub struct Screen {
    /// Whether the last line on stdout has no line end yet.
    mid_line: AtomicBool,
}

impl Screen {
    /// Shows an event.
    pub fn show(&self, event: &Event) {
        // Write errors are ignored: closed output is not a reason to end the run.
        let _ = match &event.kind {
            EventKind::TextDelta { text } => self.write(text),
            EventKind::ModelReplied { .. } if self.mid_line.load(Ordering::Relaxed) => {
                self.write("\n")
            }
            EventKind::ToolStarted { call } => {
                let (name, arguments) = (visible(&call.name), visible(&call.arguments));
                writeln!(io::stderr(), "-> {name} {arguments}")
            }
            EventKind::ToolFinished { call, text, error, repairs, elapsed } => {
                for repair in repairs {
                    let repair = printable(&repair.to_string());
                    let _ = writeln!(io::stderr(), "   repaired {}", shortened(&repair));
                }
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

/// Prints a line on stdout.
///
/// Unlike `println!`, it does not panic if the output is closed.
pub fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{}", printable(text));
}

/// Prints a line of JSON on stdout, for another program. It does not panic if the output is closed.
pub fn tell(value: &impl Serialize) {
    if let Ok(mut line) = serde_json::to_vec(value) {
        line.push(b'\n');
        let mut out = io::stdout().lock();
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}

/// Prints a line on stderr.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(text));
}

/// Returns the cost of a run in one line.
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

/// Returns the text without control characters, so that text of a model or a tool cannot control
/// the terminal.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// Returns the text with invisible characters escaped, so that the user sees all of it before a
/// decision. Characters that change the order of visible text are escaped too.
///
/// The escapes are those of JSON, such as `\\u202e`, so that arguments in JSON keep their value and
/// can be edited.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for char in text.chars() {
        if is_hidden(char) {
            let mut units = [0; 2];
            for unit in char.encode_utf16(&mut units) {
                visible.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            visible.push(char);
        }
    }
    visible
}

/// Returns whether a character is invisible: control and format characters, unusual spaces,
/// fillers, variation selectors, tags.
fn is_hidden(char: char) -> bool {
    char.is_control()
        || (char.is_whitespace() && char != ' ')
        || matches!(char,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
            | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
            | '\u{13430}'..='\u{1345f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
    }
}
