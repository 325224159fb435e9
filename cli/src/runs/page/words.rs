//! Numbers, times and texts of a run in words.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use toolwright_module::Effect;
use toolwright_module::budget::LimitKind;

use crate::keys::without_keys;
use crate::show::visible;

/// Returns the text without keys, because a page is passed on, and with hidden characters escaped, so
/// that a reader sees what is there. Lines stay.
pub(super) fn shown(text: &str) -> String {
    let text = without_keys(text);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['\n', '\t']) {
        let (line, end) = rest.split_at(at);
        shown.push_str(&visible(line.strip_suffix('\r').unwrap_or(line)));
        shown.push_str(&end[..1]);
        rest = &end[1..];
    }
    shown.push_str(&visible(rest));
    shown
}

/// Returns the first words of a text on one line.
pub(super) fn first_words(text: &str, most: usize) -> String {
    visible(&crate::runs::first_words(&without_keys(text), most))
}

/// Returns a number with a comma before each group of three digits.
pub(super) fn number(number: u64) -> String {
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
pub(super) fn count(count: usize, what: &str) -> String {
    let number = number(count as u64);
    if count == 1 { format!("{number} {what}") } else { format!("{number} {what}s") }
}

/// Returns a duration with the two largest units.
pub(in crate::runs) fn duration(time: Duration) -> String {
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
