//! The limits of a run, and the cutting of long results.
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_module::budget::{Budget, LimitKind};
use toolwright_module::message::{Part, Source, ToolResult};
use toolwright_module::untrusted::{END, START};

use crate::read_result::{READ_RESULT, read_more};

/// Limits of a run.
///
/// ```
/// use std::time::Duration;
/// use toolwright_module::budget::Budget;
/// use toolwright_orchestrator::Limits;
///
/// let limits = Limits {
///     max_iterations: 3,
///     budget: Budget { tool_calls: Some(20), ..Budget::default() },
///     tool_time: Some(Duration::from_secs(30)),
///     ..Limits::default()
/// };
/// assert_eq!(limits.max_iterations, 3);
/// assert_eq!(Limits::default().max_iterations, 10);
/// ```
///
/// The run itself enforces the rounds, the budget and the time of its own steps, whatever drives
/// it. It has no prices, so it enforces money by
/// [`StepResult::spent`](crate::StepResult::spent). Models inside its tools are limited
/// by the driver's ledger, which has the same budget. [`tool_time`](Self::tool_time) and
/// [`max_parallel`](Self::max_parallel) are enforced by the driver only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Maximum number of rounds for a task. Default: 10. Minimum: 1.
    ///
    /// A round is a reply with the results of its calls, or a reply that could not be used. After
    /// the last round the model is asked once more, without tools. That answer counts as
    /// [`Ending::LimitReached`](crate::Ending::LimitReached), so allow one round more than a task
    /// needs.
    pub max_iterations: u32,
    /// Budget of the whole run, including everything below its tools. Default: no limit.
    pub budget: Budget,
    /// Maximum duration of all steps together, without waits for a person. Default: no limit.
    pub max_time: Option<Duration>,
    /// Maximum duration of one tool call. Default: no limit.
    pub tool_time: Option<Duration>,
    /// Maximum number of concurrent calls. Default: 8. Minimum: 1.
    pub max_parallel: usize,
    /// Maximum size of a tool's result for the model, in bytes. Default: 65,536. The model gets the
    /// start of a longer result, and a note about the rest. With
    /// [`Agent::with_result_reading`](crate::Agent::with_result_reading) it can read the rest.
    pub max_result_bytes: usize,
    /// Maximum size of the texts that the whole run keeps for
    /// [`Agent::with_result_reading`](crate::Agent::with_result_reading), in bytes. Default: 16 MiB. 0
    /// keeps none.
    ///
    /// A text that is cut is kept as far as there is room, and `read_result` says where it ends. The
    /// results in the history of a task count, too.
    #[serde(skip_serializing_if = "is_default_kept")]
    pub max_kept_bytes: usize,
    /// Maximum size of all images, documents and audio of one result, in bytes. Default: 5 MiB.
    /// The first one beyond it and all after it are left out, and a note in the text says so.
    pub max_part_bytes: usize,
    /// Maximum number of calls in one reply. Default: 128. Minimum: 1. Further calls are not made.
    /// Their result says so, and that the model may make them in its next reply.
    pub max_calls_per_reply: usize,
    /// Maximum number of rounds in a row with the same mistake, such as the same call that fails in
    /// the same way. Default: 3. Then the run ends as [`Ending::Stuck`](crate::Ending::Stuck). A call
    /// that was denied is not a mistake.
    pub max_same_failures: u32,
    /// Maximum number of calls of single tools in the whole run, by name. Default: no limit.
    /// Further calls are not made. Their result says so.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, u64>,
}

/// Default of [`Limits::max_kept_bytes`].
const KEPT_BYTES: usize = 16 * 1024 * 1024;

/// Older stored runs have no limit of kept texts.
fn is_default_kept(bytes: &usize) -> bool {
    *bytes == KEPT_BYTES
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_iterations: 10,
            budget: Budget::default(),
            max_time: None,
            tool_time: None,
            max_parallel: 8,
            max_result_bytes: 65_536,
            max_kept_bytes: KEPT_BYTES,
            max_part_bytes: 5 * 1024 * 1024,
            max_calls_per_reply: 128,
            max_same_failures: 3,
            tools: BTreeMap::new(),
        }
    }
}

impl Limits {
    /// Sets the maximum number of calls of one tool in the whole run.
    ///
    /// The run counts the calls and stores the count. Calls that a person does not allow are not
    /// counted. A call that a hook runs again counts once. A new run is an error if the tool does not exist.
    ///
    /// ```
    /// # use toolwright_orchestrator::Limits;
    /// let limits = Limits::default().with_tool("book", 2);
    /// ```
    #[must_use]
    pub fn with_tool(mut self, name: impl Into<String>, most: u64) -> Self {
        self.tools.insert(name.into(), most);
        self
    }

    /// Returns the limit of one kind, which forbids a request or a call. `None` means no limit.
    pub(crate) fn allows(&self, limit: LimitKind) -> Option<u64> {
        match limit {
            LimitKind::Time => {
                self.max_time.map(|time| time.as_millis().try_into().unwrap_or(u64::MAX))
            }
            limit => self.budget.allows(limit),
        }
    }

    /// Returns the part of a result that the model gets: all of it, or its start and a note. Both
    /// together have at most [`max_result_bytes`](Self::max_result_bytes).
    ///
    /// ```
    /// # use toolwright_orchestrator::Limits;
    /// let limits = Limits { max_result_bytes: 80, ..Limits::default() };
    /// let shown = limits.cut(&"word ".repeat(100)).into_owned();
    /// assert!(shown.starts_with("word word word "), "{shown}");
    /// assert!(shown.ends_with("\n[cut: 33 of 500 bytes are shown; ask for less]"), "{shown}");
    /// // A text that was cut is not cut again.
    /// assert_eq!(limits.cut(&shown), shown);
    /// ```
    #[must_use]
    pub fn cut<'a>(&self, text: &'a str) -> Cow<'a, str> {
        cut(text, self.max_result_bytes)
    }

    /// Cuts an error for the user. The limit is [`max_result_bytes`](Self::max_result_bytes), but
    /// at least 4 KiB: a low limit is meant for the model.
    pub(crate) fn cut_error(&self, error: String) -> String {
        let bound = self.max_result_bytes.max(4096);
        match cut(&error, bound) {
            Cow::Owned(cut) => cut,
            Cow::Borrowed(_) => error,
        }
    }

    /// Cuts a result to [`max_result_bytes`](Self::max_result_bytes) and
    /// [`max_part_bytes`](Self::max_part_bytes). A value for programs that is too long is dropped, and
    /// so is one with too many levels: the record of such a result could not be read back.
    ///
    /// The whole text of a result that is cut is kept, if there is room for at most `room` bytes.
    /// `None` if the run has no `read_result`.
    pub(crate) fn bound(&self, result: &mut ToolResult, room: Option<usize>) {
        shorten_to(result, room.unwrap_or(0));
        if !result.parts.is_empty() {
            self.bound_parts(result, room);
        }
        self.bound_text(result, self.max_result_bytes, room);
        let most = self.max_result_bytes;
        result.value.take_if(|value| is_deeper(value, MAX_LEVELS) || is_longer(value, most));
    }

    /// Cuts the text of a result to at most `most` bytes, and keeps the whole text.
    fn bound_text(&self, result: &mut ToolResult, most: usize, room: Option<usize>) {
        let total = result.text.len();
        if total <= most {
            return;
        }
        let more = read_more(&result.id);
        if let Some(whole) = &result.whole {
            // The text is the start of the whole one, a note about the rest, and notes about parts.
            let after = result.text.rfind(&more).map_or("", |at| &result.text[at + more.len()..]);
            let after = after.strip_prefix(']').unwrap_or_default();
            let total = whole.len().saturating_add(lost(result));
            let shown =
                cut_to(whole, total, most.saturating_sub(after.len()), &more, result.untrusted);
            result.text = format!("{shown}{after}");
            return;
        }
        let note = note(most, total, &more).len();
        // Nothing is kept if the note would take the most of the text, and no copies are kept.
        let reads = room.is_some() && note <= most / 2 && result.name != READ_RESULT;
        let shown = result.text.floor_char_boundary(most.saturating_sub(note));
        let kept = result.text.floor_char_boundary(room.unwrap_or(0).min(total));
        if reads && kept > shown {
            result.whole = Some(Arc::from(&result.text[..kept]));
            result.lost_bytes = (total - kept) as u64;
            result.text = cut_to(&result.text, total, most, &more, result.untrusted);
        } else {
            result.text = cut_to(&result.text, total, most, ASK_FOR_LESS, result.untrusted);
        }
    }

    /// Puts a note before the text of a result, which has at most the room that the note leaves.
    pub(crate) fn put_before(&self, result: &mut ToolResult, note: &str, room: Option<usize>) {
        self.bound_text(result, self.max_result_bytes.saturating_sub(note.len()), room);
        result.text.insert_str(0, note);
    }

    fn bound_parts(&self, result: &mut ToolResult, room: Option<usize>) {
        let (all, mut left, mut left_out) = (result.parts.len(), Some(self.max_part_bytes), 0);
        result.parts.retain(|part| {
            let size = match part {
                Part::Text(text) => text.len(),
                part => part.source().map_or(0, Source::size),
            };
            // After the first one without room none is kept: the numbers in the text, such as
            // `[image 2]`, count from the first part.
            left = left.and_then(|left| left.checked_sub(size));
            if left.is_none() {
                left_out += size;
            }
            left.is_some()
        });
        let missing = all - result.parts.len();
        if missing == 0 {
            return;
        }
        let note = format!(
            "\n[{missing} of {all} images or files are left out: {left_out} bytes are too many; ask for smaller ones]"
        );
        self.bound_text(result, self.max_result_bytes.saturating_sub(note.len()), room);
        result.text.push_str(&note);
    }
}

/// Maximum number of lists and objects inside each other in a value for programs. `serde_json` reads
/// 127, and a record puts the value into others.
const MAX_LEVELS: usize = 64;

/// Returns whether a value has more levels of lists and objects.
fn is_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => true,
        Value::Array(items) => items.iter().any(|item| is_deeper(item, levels - 1)),
        Value::Object(fields) => fields.values().any(|item| is_deeper(item, levels - 1)),
        _ => false,
    }
}

/// What a model can do if the rest of a result is not kept.
const ASK_FOR_LESS: &str = "ask for less";

/// Returns the note at the end of a text that was cut.
fn note(shown: usize, total: usize, advice: &str) -> String {
    format!("\n[cut: {shown} of {total} bytes are shown; {advice}]")
}

/// Returns the number of bytes of a result that are not in its whole text.
fn lost(result: &ToolResult) -> usize {
    usize::try_from(result.lost_bytes).unwrap_or(usize::MAX)
}

/// Drops the whole text of a result, and corrects the note about it.
fn drop_whole(result: &mut ToolResult) {
    if result.whole.take().is_none() {
        return;
    }
    result.lost_bytes = 0;
    let more = read_more(&result.id);
    if let Some(at) = result.text.rfind(&more) {
        result.text.replace_range(at..at + more.len(), ASK_FOR_LESS);
    }
}

/// Keeps at most the first bytes of the whole text of a result whose JSON has at most `most` bytes.
pub(crate) fn shorten_whole(result: &mut ToolResult, most: usize) {
    if let Some(end) = result.whole.as_ref().and_then(|whole| json_end(whole, most)) {
        shorten_to(result, end);
    }
}

/// Keeps at most the first `most` bytes of the whole text of a result.
fn shorten_to(result: &mut ToolResult, most: usize) {
    let Some(whole) = result.whole.as_ref().filter(|whole| whole.len() > most) else { return };
    let end = whole.floor_char_boundary(most);
    // The text begins as the whole one, so that no more would be kept than it has.
    if end <= result.text.len() {
        return drop_whole(result);
    }
    result.lost_bytes = result.lost_bytes.saturating_add((whole.len() - end) as u64);
    result.whole = Some(Arc::from(&whole[..end]));
}

/// Returns the end of the longest start of a text that has at most `most` bytes in JSON. `None` if that
/// is the whole text.
fn json_end(text: &str, most: usize) -> Option<usize> {
    let mut left = most;
    for (at, character) in text.char_indices() {
        let length = match character {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            '\0'..='\u{1f}' => 6,
            character => character.len_utf8(),
        };
        match left.checked_sub(length) {
            Some(fewer) => left = fewer,
            None => return Some(at),
        }
    }
    None
}

/// Returns whether a value has more bytes as JSON. It does not write more than these.
fn is_longer(value: &Value, most: usize) -> bool {
    struct Left(usize);

    impl io::Write for Left {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    serde_json::to_writer(Left(most), value).is_err()
}

/// Returns the start of a text, with the end mark if untrusted text in it has none.
pub(crate) fn closed(start: &str) -> Cow<'_, str> {
    match start.rfind(START) {
        Some(at) if !start[at..].contains(END) => Cow::Owned(format!("{start}\n{END}")),
        _ => Cow::Borrowed(start),
    }
}

/// Returns at most `max` bytes of the text of a result. An untrusted text keeps both marks, and the note
/// is behind them.
pub(crate) fn cut_result(result: &ToolResult, max: usize) -> Cow<'_, str> {
    let text = &*result.text;
    match text.len() <= max {
        true => Cow::Borrowed(text),
        false => Cow::Owned(cut_to(text, text.len(), max, ASK_FOR_LESS, result.untrusted)),
    }
}

/// Returns at most `max` bytes of a text: all of it, or its start and a note.
pub(crate) fn cut(text: &str, max: usize) -> Cow<'_, str> {
    match text.len() <= max {
        true => Cow::Borrowed(text),
        false => Cow::Owned(cut_to(text, text.len(), max, ASK_FOR_LESS, false)),
    }
}

/// Returns at most `max` bytes: the start of a text, and a note. `total` is the length of the text and
/// of what is not known of it. A text that has the marks of untrusted text keeps both.
fn cut_to(text: &str, total: usize, max: usize, advice: &str, has_marks: bool) -> String {
    // The note for the final, smaller number is not longer.
    let mark = if has_marks { "\n".len() + END.len() } else { 0 };
    let room = max.saturating_sub(note(max, total, advice).len() + mark);
    let end = text.floor_char_boundary(room);
    if has_marks && end <= START.len() {
        // If the marks do not fit, the text does not either.
        return cut("[cut: there is no room for the result]", max).into_owned();
    }
    let kept = if has_marks { closed(&text[..end]) } else { Cow::Borrowed(&text[..end]) };
    let mut shown = format!("{kept}{}", note(end, total, advice));
    // If there is no room for the note, its start remains.
    shown.truncate(shown.floor_char_boundary(max));
    shown
}
