//! Numbers, times and texts of a run in words.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use toolwright_module::__text::is_misleading;
use toolwright_module::approval::Approval;
use toolwright_module::budget::{Cost, LimitKind, Spent};
use toolwright_module::message::Part;
use toolwright_module::{Effect, Message};
use toolwright_orchestrator::Task;
use toolwright_orchestrator::perform::Record;

use crate::error::JournalError;

/// The name of the metadata with the first words of a run's task.
pub const TASK: &str = "task";

/// Returns a number with a comma before each group of three digits.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a number with three digits and a unit.
pub(super) fn short(number: u64) -> String {
    let (value, unit) = match number {
        0..1_000 => return number.to_string(),
        1_000..1_000_000 => (number as f64 / 1e3, "k"),
        _ => (number as f64 / 1e6, "M"),
    };
    if value < 99.95 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}

/// Returns `1 step`, or `2 steps`.
pub fn count(count: usize, what: &str) -> String {
    let number = number(count as u64);
    if count == 1 { format!("{number} {what}") } else { format!("{number} {what}s") }
}

/// Returns a duration with the two largest units.
pub fn duration(time: Duration) -> String {
    let (seconds, millis) = (time.as_secs(), time.as_secs_f64() * 1e3);
    match seconds {
        0 if millis < 0.05 => "0 ms".to_owned(),
        0 if millis < 9.95 => format!("{millis:.1} ms"),
        0 => format!("{millis:.0} ms"),
        1..10 => format!("{:.2} s", time.as_secs_f64()),
        10..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// Returns a length in bytes.
pub(super) fn bytes(bytes: usize) -> String {
    match bytes {
        0..1_024 => format!("{bytes} bytes"),
        1_024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

/// Returns a time as `2026-11-23 19:56:29 UTC`.
pub(super) fn time(at: SystemTime) -> String {
    match Timestamp::try_from(at) {
        Ok(at) => at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => "an unknown time".to_owned(),
    }
}

/// Returns the amount of a limit with its unit.
pub(super) fn limit(kind: LimitKind, allowed: u64) -> String {
    match kind {
        LimitKind::Money => money(allowed),
        LimitKind::Time => format!("{} of time", duration(Duration::from_millis(allowed))),
        kind => format!("{} {kind}", number(allowed)),
    }
}

/// Returns an amount of millionths.
pub(super) fn money(micros: u64) -> String {
    toolwright_module::budget::Money { micros }.to_string()
}

/// Returns an amount of millionths with a fixed number of decimals, so that the amounts of a column
/// are aligned.
pub(super) fn aligned_money(micros: u64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", micros as f64 / 1e6);
    let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    if micros > 0 && is_zero { format!("<0.{:0>decimals$}", 1) } else { text }
}

/// Returns a share in percent, rounded.
pub(super) fn percent(part: u64, whole: u64) -> Option<u64> {
    part.saturating_mul(100).saturating_add(whole / 2).checked_div(whole)
}

/// Returns the effect of a tool in a word or two.
pub(super) fn short_effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Read => "reads only",
        Effect::Idempotent => "changes something, repeatable",
        Effect::Irreversible => "irreversible",
        _ => "changes something",
    }
}

/// Returns the effect of a tool, as the end of a sentence about a call.
pub(super) fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Read => "it only reads",
        Effect::Idempotent => "it changes something, and can be repeated safely",
        Effect::Irreversible => "it cannot be undone",
        _ => "it changes something",
    }
}

/// Returns the first characters of a text on one line.
pub fn first_words(text: &str, most: usize) -> String {
    // Each word has a character, so no more words are needed.
    let line = text.split_whitespace().take(most + 1).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        None => line,
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

/// Returns the task in the first record of a run. A damaged run may have lost it.
pub fn task_of(first: Option<&Record>, id: &str) -> Result<Task, JournalError> {
    match first {
        Some(Record::Started(started)) => Ok(started.task()),
        _ => Err(JournalError::NoStart { id: id.to_owned() }),
    }
}

/// Returns the text of a task, without the conversation before it.
#[must_use]
pub fn text_of(task: &Task) -> String {
    let mut text = task.task.clone();
    if let Some(Message::User { parts }) = task.history().last().map(|message| &**message) {
        for part in parts {
            if let Part::Text(said) = part {
                text.push_str(said);
            }
        }
    }
    text
}

/// Returns the cost in money for the end of a list, if models were asked.
pub fn cost_of(spent: Spent) -> String {
    cost_in_words(spent).map_or(String::new(), |cost| format!(", cost {cost}"))
}

/// Returns the cost in money, such as `at least 0.25 USD`, if models were asked.
pub fn cost_in_words(spent: Spent) -> Option<Cost> {
    (spent.model_calls > 0).then(|| spent.cost())
}

/// Returns an id as one word for a shell, in which everything is visible.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@+,/".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if !word.chars().any(is_misleading) {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    // The form of bash, zsh and ksh with escapes.
    let mut quoted = "$'".to_owned();
    for char in word.chars() {
        match char {
            '\'' | '\\' => quoted.extend(['\\', char]),
            char if is_misleading(char) => quoted.push_str(&format!("\\U{:08x}", u32::from(char))),
            char => quoted.push(char),
        }
    }
    quoted + "'"
}

/// Returns a short hash of a call that waits: of the calls around it, its id, its tool, its arguments,
/// and which question about it this is, if it may have been made already. A decision that names it
/// holds for nothing else.
pub fn short_hash(asked: &Approval) -> String {
    let around = asked.path.iter().flat_map(|call| [&*call.tool, &*call.id]);
    let own = [&*asked.call.id, &*asked.call.name, &*asked.call.arguments];
    let mut hash = Sha256::new();
    for text in around.chain(own) {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    let question = if asked.unknown { asked.asked_before.saturating_add(1) } else { 0 };
    hash.update([u8::try_from(question).unwrap_or(u8::MAX)]);
    let hash = hash.finalize();
    hash[..SHORT_HASH / 2].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the command that lets a call be made. A shell reads it as it is shown.
pub fn command(id: &str, asked: &Approval) -> String {
    let (hash, id, is_option) = (short_hash(asked), quoted(id), id.starts_with('-'));
    let decision = if asked.unknown { "--call-again" } else { "--approve" };
    match is_option {
        // Otherwise the id would be read as an option.
        true => format!("toolwright runs decide --call {hash} {decision} -- {id}"),
        false => format!("toolwright runs decide {id} --call {hash} {decision}"),
    }
}

/// Number of hexadecimal digits of [`short_hash`].
pub const SHORT_HASH: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_for_a_shell_is_quoted_if_it_must_be() {
        for (word, shown) in [
            ("20261123-150102-4711-1", "20261123-150102-4711-1"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("a\u{202e}'\n", r"$'a\U0000202e\'\U0000000a'"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }
}
