//! What changed between two versions of contracts, and whom it breaks.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde_json::Value;

use super::Contract;
use crate::comparing::{ABSENT, Difference, Sides, retyped, same_rules};
use crate::error::Side;

/// A change between two versions of a contract. `{}` is one line for a person.
///
/// [`between`](Self::between) finds them. A change that [breaks](Self::breaks) nothing is listed too,
/// because a model reads every word of a contract.
///
/// ```
/// use serde_json::json;
/// use toolwright_signature::{Contract, ContractChange};
///
/// let version = |required: &[&str]| {
///     let fields = json!({"to": {"type": "string"}, "copy": {"type": "string"}});
///     let input = json!({"type": "object", "properties": fields, "required": required});
///     Contract::dynamic("send_letter", "Send a letter.", input, None)
/// };
/// let changes = ContractChange::between(&[version(&["to"])?], &[version(&["to", "copy"])?]);
/// assert_eq!(
///     changes[0].to_string(),
///     "send_letter: BREAKS models' calls, stored runs: input $.copy: before: may be missing; now: is required"
/// );
/// # Ok::<(), toolwright_signature::ContractError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContractChange {
    /// Name of the contract.
    pub contract: String,
    /// What changed.
    pub kind: ContractChangeKind,
}

/// What changed in a contract. `{}` is the change in words, without the contract's name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContractChangeKind {
    /// The old version does not have the contract.
    Added,
    /// The new version does not have the contract.
    Removed,
    /// The contract has another title.
    Title,
    /// The contract has another description.
    Description,
    /// The output has a schema now. Before, it was any text.
    OutputSchema,
    /// Only the words of a schema changed, such as the description of a field.
    Words(Side),
    /// The rules of a schema changed, and each value of one version is still one of the other. The
    /// rules say the same, or reading evens out what they say differently.
    Rules(Side),
    /// The new contract does not read an input that the old one read.
    NarrowerInput(ChangedRule),
    /// The new contract reads an input that the old one did not read.
    WiderInput(ChangedRule),
    /// The old contract has no such output as the new one may return.
    WiderOutput(ChangedRule),
    /// The new contract no longer returns an output that the old one could return.
    NarrowerOutput(ChangedRule),
}

/// A rule of a schema in two versions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangedRule {
    /// The path in the value, as in [`Difference::path`].
    pub path: String,
    /// The rule of the old version, in words.
    pub before: String,
    /// The rule of the new version, in words.
    pub now: String,
}

/// Who depends on a contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dependent {
    /// Models and programs that write inputs. An input that was valid is now rejected.
    Inputs,
    /// Programs that read outputs: they call the tool, or show its results.
    Outputs,
    /// Stored runs with an open call of the contract, which cannot be made.
    StoredRuns,
}

impl fmt::Display for Dependent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inputs => "models' calls",
            Self::Outputs => "callers' outputs",
            Self::StoredRuns => "stored runs",
        })
    }
}

impl ContractChange {
    /// Returns the changes from the old contracts to the new ones, which belong together by name.
    ///
    /// The comparison is that of [`Contract::differences`], and errs on the safe side as that does.
    /// A contract that was renamed is removed and added.
    #[must_use]
    pub fn between(old: &[Contract], new: &[Contract]) -> Vec<Self> {
        let today: HashMap<_, _> = new.iter().map(|contract| (contract.name(), contract)).collect();
        let mut found = Vec::new();
        for before in old {
            let kinds = match today.get(before.name()) {
                Some(now) => kinds(before, now),
                None => vec![ContractChangeKind::Removed],
            };
            let contract = || before.name().to_owned();
            found.extend(kinds.into_iter().map(|kind| Self { contract: contract(), kind }));
        }
        let known: HashSet<_> = old.iter().map(Contract::name).collect();
        for now in new {
            if !known.contains(now.name()) {
                let contract = now.name().to_owned();
                found.push(Self { contract, kind: ContractChangeKind::Added });
            }
        }
        found
    }

    /// Returns what the change breaks. Empty if it breaks nothing.
    #[must_use]
    pub fn breaks(&self) -> &'static [Dependent] {
        match self.kind {
            ContractChangeKind::Removed => {
                &[Dependent::Inputs, Dependent::Outputs, Dependent::StoredRuns]
            }
            ContractChangeKind::NarrowerInput(_) => &[Dependent::Inputs, Dependent::StoredRuns],
            ContractChangeKind::WiderOutput(_) => &[Dependent::Outputs],
            _ => &[],
        }
    }
}

impl fmt::Display for ContractChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.contract)?;
        let breaks = self.breaks().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if !breaks.is_empty() {
            write!(f, "BREAKS {breaks}: ")?;
        }
        self.kind.fmt(f)
    }
}

impl fmt::Display for ContractChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (side, rule) = match self {
            Self::Added => return f.write_str("is new"),
            Self::Removed => return f.write_str("is removed"),
            Self::Title => return f.write_str("has another title"),
            Self::Description => return f.write_str("has another description"),
            Self::OutputSchema => return f.write_str("the output has a schema now"),
            Self::Rules(side) => {
                return write!(f, "the rules of the {side} schema changed without an effect");
            }
            Self::Words(side) => return write!(f, "the words of the {side} schema changed"),
            Self::NarrowerInput(rule) | Self::WiderInput(rule) => (Side::Input, rule),
            Self::WiderOutput(rule) | Self::NarrowerOutput(rule) => (Side::Output, rule),
        };
        let ChangedRule { path, before, now } = rule;
        write!(f, "{side} {path}: before: {before}; now: {now}")
    }
}

fn kinds(before: &Contract, now: &Contract) -> Vec<ContractChangeKind> {
    let mut kinds = Vec::new();
    if before.title != now.title {
        kinds.push(ContractChangeKind::Title);
    }
    if before.description() != now.description() {
        kinds.push(ContractChangeKind::Description);
    }
    let (old, new) = (before.input(), now.input());
    // "Ours" are the rules of the sender of an input and of the reader of an output.
    let ours_first = |one: Difference| rule(one.path, one.ours, one.theirs);
    let theirs_first = |one: Difference| rule(one.path, one.theirs, one.ours);
    // A validator takes more values of a schema without a type than reading does.
    let untyped = retyped(old, new).into_iter();
    let untyped = untyped.map(|(path, ours, theirs)| rule(path, ours, theirs));
    let narrower = inputs(old, new).into_iter().map(ours_first).chain(untyped).collect();
    let wider = inputs(new, old).into_iter().map(theirs_first).collect();
    let as_kinds = [ContractChangeKind::NarrowerInput, ContractChangeKind::WiderInput];
    let schemas = (old != new).then(|| vec![(old, new)]);
    push_rules(&mut kinds, Side::Input, as_kinds, narrower, wider, schemas);

    let Some(read) = before.output_to_read() else {
        kinds.extend(now.output_to_read().map(|_| ContractChangeKind::OutputSchema));
        return kinds;
    };
    let untyped = now.output_to_write().map(|comes| retyped(comes, read)).unwrap_or_default();
    let untyped = untyped.into_iter().map(|(path, comes, takes)| rule(path, takes, comes));
    let wider = before.output_differences(now).into_iter();
    let wider = wider.map(ours_first).chain(untyped).collect();
    let narrower = now.output_differences(before).into_iter().map(theirs_first).collect();
    let as_kinds = [ContractChangeKind::WiderOutput, ContractChangeKind::NarrowerOutput];
    let read = (before.output_to_read(), now.output_to_read());
    let written = (before.output_to_write(), now.output_to_write());
    let schemas = [read, written].into_iter().filter_map(|(old, new)| old.zip(new)).collect();
    let schemas = (read.0 != read.1 || written.0 != written.1).then_some(schemas);
    push_rules(&mut kinds, Side::Output, as_kinds, wider, narrower, schemas);
    kinds
}

/// Adds the changed rules of one side, or says that its schemas changed without an effect.
///
/// A field that is new or gone is a difference in both directions. The breaking one says all of it, so
/// the harmless one is left out.
fn push_rules(
    kinds: &mut Vec<ContractChangeKind>,
    side: Side,
    [breaks, is_harmless]: [fn(ChangedRule) -> ContractChangeKind; 2],
    breaking: Vec<ChangedRule>,
    mut harmless: Vec<ChangedRule>,
    schemas: Option<Vec<(&Value, &Value)>>,
) {
    let is_field =
        |rule: &ChangedRule| ABSENT.iter().any(|words| rule.before == *words || rule.now == *words);
    let fields = breaking.iter().filter(|rule| is_field(rule)).map(|rule| rule.path.as_str());
    let fields: HashSet<_> = fields.collect();
    harmless.retain(|rule| !is_field(rule) || !fields.contains(rule.path.as_str()));
    if let Some(schemas) = schemas.filter(|_| breaking.is_empty() && harmless.is_empty()) {
        let only_words = schemas.into_iter().all(|(one, other)| same_rules(one, other));
        let words = ContractChangeKind::Words(side);
        kinds.push(if only_words { words } else { ContractChangeKind::Rules(side) });
    }
    kinds.extend(breaking.into_iter().map(breaks).chain(harmless.into_iter().map(is_harmless)));
}

fn inputs(comes: &Value, takes: &Value) -> Vec<Difference> {
    Sides { side: Side::Input, comes, takes, reads_as_we_do: true }.differences()
}

fn rule(path: String, before: String, now: String) -> ChangedRule {
    ChangedRule { path, before, now }
}
