//! The report of a comparison: text, Markdown and JSON.

use std::collections::HashSet;
use std::fmt::Write;

use serde_json::{Value, json};
use toolwright_signature::{ContractChange, ContractChangeKind, Dependent};

use super::sources::Version;
use super::versions::{Changed, Comparison, Gone};
use crate::show::visible;

/// The sides that depend on a contract: its key in JSON, and the promise to it.
const SIDES: [(Dependent, &str, &str); 3] = [
    (Dependent::Inputs, "inputs", "calls that models wrote before are still valid"),
    (Dependent::Outputs, "outputs", "callers still get the outputs that they expect"),
    (Dependent::StoredRuns, "stored_runs", "stored runs with an open call can continue"),
];

/// The report of a comparison.
pub(super) struct Report<'a> {
    pub(super) old: &'a Version,
    pub(super) new: &'a Version,
    pub(super) comparison: &'a Comparison,
}

impl Report<'_> {
    /// Returns the report for a terminal.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "old: {} ({} contracts)\nnew: {} ({} contracts)\n\n",
            visible(&self.old.shown),
            self.old.contracts.len(),
            visible(&self.new.shown),
            self.new.contracts.len(),
        );
        for one in self.in_order() {
            let _ = writeln!(text, "{}: {}", visible(&one.name), title(one));
            if one.is_removed() || one.is_added() || one.is_unknown() {
                continue;
            }
            for (dependent, _, promise) in SIDES {
                if !one.breaks_somebody() {
                    continue;
                }
                let breaking = breaking(one, dependent);
                let yes_or_no = if breaking.is_empty() { "yes" } else { "NO" };
                let _ = writeln!(text, "  {promise}: {yes_or_no}");
                // What breaks stored runs breaks the inputs too, and is listed there.
                if dependent != Dependent::StoredRuns {
                    for change in breaking {
                        let _ = writeln!(text, "    {}", visible(&change.kind.to_string()));
                    }
                }
            }
            let others = others(one);
            if one.breaks_somebody() && !others.is_empty() {
                let _ = writeln!(text, "  also, without breaking anything:");
            }
            let indent = if one.breaks_somebody() { "    " } else { "  " };
            for other in others {
                let _ = writeln!(text, "{indent}{}", visible(&other));
            }
        }
        if self.comparison.instructions {
            text.push_str("the instructions of the server changed\n");
        }
        if !self.comparison.is_empty() {
            text.push('\n');
        }
        text.push_str(&self.summary());
        text
    }

    /// Returns the report for the comment of a pull request.
    ///
    /// Every text of a contract is in a code span, so that it cannot add links, images or mentions.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!("### Contracts: {}\n", self.summary());
        let listed: Vec<_> = self.in_order().collect();
        if !listed.is_empty() {
            let [inputs, outputs, stored] = SIDES.map(|(dependent, ..)| dependent);
            let _ = writeln!(text, "\n| contract | {inputs} | {outputs} | {stored} | |");
            text.push_str("|---|---|---|---|---|\n");
        }
        for one in &listed {
            let [inputs, outputs, stored] = SIDES.map(|(dependent, ..)| match one.is_added() {
                true => "",
                false if one.breaks(dependent) => "**break**",
                false => "ok",
            });
            let name = code(&one.name);
            let _ = writeln!(text, "| {name} | {inputs} | {outputs} | {stored} | {} |", short(one));
        }
        for one in listed.iter().filter(|one| !one.is_added()) {
            let breaking = one.changes.iter().filter(|change| !change.breaks().is_empty());
            let breaking = breaking.map(|change| (true, change.kind.to_string()));
            let others = others(one).into_iter().map(|words| (false, words));
            let lines: Vec<_> = breaking.chain(others).collect();
            let _ = writeln!(text, "\n**{}**\n", code(&one.name));
            for (breaks, words) in lines {
                let mark = if breaks { "**breaks** " } else { "" };
                let _ = writeln!(text, "- {mark}{}", code(&words));
            }
            if let Some(gone) = &one.gone {
                let _ = writeln!(text, "- {}", code(&gone_words(gone)));
            }
        }
        if self.comparison.instructions {
            text.push_str("\nThe instructions of the server changed.\n");
        }
        text
    }

    /// Returns the report for a program.
    pub(super) fn json(&self) -> Value {
        let version = |version: &Version| {
            let left_out = version.left_out.iter();
            let left_out: Vec<_> =
                left_out.map(|one| json!({"name": one.name, "why": one.why})).collect();
            json!({
                "source": version.shown,
                "contracts": version.contracts.len(),
                "left_out": left_out,
            })
        };
        let contracts: Vec<_> = self.in_order().map(one_json).collect();
        json!({
            "old": version(self.old),
            "new": version(self.new),
            "breaks": keys(|dependent| self.comparison.count(dependent) > 0),
            "unchanged": self.comparison.unchanged,
            "instructions_changed": self.comparison.instructions,
            "contracts": contracts,
        })
    }

    /// Returns the changed contracts: breaking ones first, new ones last.
    fn in_order(&self) -> impl Iterator<Item = &Changed> {
        let all = &self.comparison.changed;
        let breaking = all.iter().filter(|one| one.breaks_somebody());
        breaking.chain(all.iter().filter(|one| !one.breaks_somebody()))
    }

    /// Returns the number of contracts by what happened to them, in one line.
    fn summary(&self) -> String {
        let comparison = self.comparison;
        let all = &comparison.changed;
        let breaking = all.iter().filter(|one| one.breaks_somebody()).count();
        let added = all.iter().filter(|one| one.is_added()).count();
        let others = all.len() - breaking - added;
        let mut text = format!("{breaking} breaking");
        if breaking > 0 {
            let sides =
                SIDES.map(|(dependent, ..)| format!("{dependent} {}", comparison.count(dependent)));
            let _ = write!(text, " ({})", sides.join(", "));
        }
        let unchanged = comparison.unchanged;
        let _ = write!(text, ", {others} changed, {added} new, {unchanged} unchanged");
        let left_out = self.old.left_out.iter().chain(&self.new.left_out).map(|one| &one.name);
        let left_out = left_out.collect::<HashSet<_>>().len();
        if left_out > 0 {
            let _ = write!(text, ", {left_out} left out and not compared");
        }
        text
    }
}

fn title(one: &Changed) -> String {
    match &one.gone {
        _ if one.is_added() => "new".to_owned(),
        Some(gone) => format!("BREAKING, {}", visible(&gone_words(gone))),
        None if one.is_removed() => "BREAKING, is removed".to_owned(),
        None if one.breaks_somebody() => "BREAKING".to_owned(),
        None => "changed, breaks nobody".to_owned(),
    }
}

fn gone_words(gone: &Gone) -> String {
    match gone {
        Gone::LeftOut(why) => format!("cannot be used any more: {why}"),
        Gone::Unknown(why) => {
            format!("changed, but could not be compared, because it is left out: {why}")
        }
        Gone::PerhapsRenamed(name) => format!("is removed; perhaps renamed to `{name}`"),
    }
}

fn short(one: &Changed) -> &'static str {
    match () {
        () if one.is_added() => "new",
        () if one.is_removed() => "removed",
        () => "changed",
    }
}

/// Returns the changes that break a dependent.
fn breaking(one: &Changed, dependent: Dependent) -> Vec<&ContractChange> {
    one.changes.iter().filter(|change| change.breaks().contains(&dependent)).collect()
}

/// Returns the changes that break nothing, in words.
fn others(one: &Changed) -> Vec<String> {
    let others = one.changes.iter().filter(|change| change.breaks().is_empty());
    let others = others.map(|change| change.kind.to_string());
    others.chain(one.hints.iter().cloned()).collect()
}

/// Returns text as a code span, in which nothing else has a meaning.
fn code(text: &str) -> String {
    format!("`{}`", visible(text).replace('`', "'").replace('|', "\\|"))
}

fn keys(breaks: impl Fn(Dependent) -> bool) -> Vec<&'static str> {
    SIDES.iter().filter(|(dependent, ..)| breaks(*dependent)).map(|(_, key, ..)| *key).collect()
}

fn one_json(one: &Changed) -> Value {
    let changes: Vec<_> = one.changes.iter().map(change_json).collect();
    let mut json = json!({
        "contract": one.name,
        "status": short(one),
        "breaks": keys(|dependent| one.breaks(dependent)),
        "changes": changes,
    });
    if !one.hints.is_empty() {
        json["hints"] = json!(one.hints);
    }
    match &one.gone {
        Some(Gone::LeftOut(why) | Gone::Unknown(why)) => json["left_out"] = json!(why),
        Some(Gone::PerhapsRenamed(name)) => json["perhaps_renamed_to"] = json!(name),
        None => {}
    }
    json
}

fn change_json(change: &ContractChange) -> Value {
    use ContractChangeKind as Kind;
    let (kind, rule) = match &change.kind {
        Kind::Added => ("added", None),
        Kind::Removed => ("removed", None),
        Kind::Title => ("title", None),
        Kind::Description => ("description", None),
        Kind::OutputSchema => ("output_schema", None),
        Kind::Words(_) => ("words", None),
        Kind::Rules(_) => ("rules", None),
        Kind::NarrowerInput(rule) => ("narrower_input", Some(rule)),
        Kind::WiderInput(rule) => ("wider_input", Some(rule)),
        Kind::WiderOutput(rule) => ("wider_output", Some(rule)),
        Kind::NarrowerOutput(rule) => ("narrower_output", Some(rule)),
        _ => ("other", None),
    };
    let breaks = keys(|dependent| change.breaks().contains(&dependent));
    let mut json = json!({"kind": kind, "breaks": breaks, "words": change.kind.to_string()});
    if let Some(rule) = rule {
        json["path"] = json!(rule.path);
        json["before"] = json!(rule.before);
        json["now"] = json!(rule.now);
    }
    json
}
