//! The comparison of two versions, contract by contract.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use toolwright_signature::{Contract, ContractChange, ContractChangeKind, Dependent};

use super::sources::{LeftOut, Version};

/// What changed between two versions.
pub(super) struct Comparison {
    /// The contracts with a change: the old ones in their order, then the new ones.
    pub(super) changed: Vec<Changed>,
    /// Whether the instructions of the MCP server changed.
    pub(super) instructions: bool,
    /// Number of contracts without a change.
    pub(super) unchanged: usize,
}

/// A contract with a change.
pub(super) struct Changed {
    pub(super) name: String,
    pub(super) changes: Vec<ContractChange>,
    /// Changes of an MCP definition beside its contract, in words.
    pub(super) hints: Vec<String>,
    /// Why a contract could not be compared.
    pub(super) gone: Option<Gone>,
}

pub(super) enum Gone {
    /// It cannot be used any more, for this reason.
    LeftOut(String),
    /// It could not be used before either, for this reason, and its definition is another one.
    Unknown(String),
    /// A new contract has the same schemas or the same description.
    PerhapsRenamed(String),
}

impl Comparison {
    pub(super) fn of(old: &Version, new: &Version) -> Self {
        let mut changed: Vec<Changed> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut place = |changed: &mut Vec<Changed>, name: &str| {
            *places.entry(name.to_owned()).or_insert_with(|| {
                changed.push(Changed::new(name));
                changed.len() - 1
            })
        };
        for change in ContractChange::between(&old.contracts, &new.contracts) {
            let at = place(&mut changed, &change.contract);
            changed[at].changes.push(change);
        }
        for contract in &old.contracts {
            let name = contract.name();
            if let (Some(before), Some(now)) = (old.hints.get(name), new.hints.get(name)) {
                let hints = hints(before, now);
                if !hints.is_empty() {
                    let at = place(&mut changed, name);
                    changed[at].hints = hints;
                }
            }
        }
        let renamed = renamed(old, new);
        for one in changed.iter_mut().filter(|one| one.is_removed()) {
            let left_out = new.left_out.iter().find(|left_out| left_out.name == one.name);
            one.gone = match left_out {
                Some(left_out) => Some(Gone::LeftOut(left_out.why.clone())),
                None => renamed.get(&one.name).cloned().map(Gone::PerhapsRenamed),
            };
        }
        let both_servers = !old.hints.is_empty() && !new.hints.is_empty();
        let old_and_changed = changed.iter().filter(|one| !one.is_added()).count();
        for LeftOut { name, why, definition } in &new.left_out {
            let same_name = old.left_out.iter().find(|before| before.name == *name);
            if same_name.is_some_and(|before| before.definition != *definition) {
                let gone = Some(Gone::Unknown(why.clone()));
                changed.push(Changed { gone, ..Changed::new(name) });
            }
        }
        Self {
            changed,
            instructions: both_servers && old.instructions != new.instructions,
            unchanged: old.contracts.len() - old_and_changed,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty() && !self.instructions
    }

    pub(super) fn breaks_somebody(&self) -> bool {
        self.changed.iter().any(|one| one.breaks_somebody())
    }

    /// Returns the number of contracts whose changes break a dependent.
    pub(super) fn count(&self, dependent: Dependent) -> usize {
        self.changed.iter().filter(|one| one.breaks(dependent)).count()
    }
}

impl Changed {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), changes: Vec::new(), hints: Vec::new(), gone: None }
    }

    pub(super) fn is_added(&self) -> bool {
        self.changes.iter().any(|change| change.kind == ContractChangeKind::Added)
    }

    pub(super) fn is_removed(&self) -> bool {
        self.changes.iter().any(|change| change.kind == ContractChangeKind::Removed)
    }

    /// Whether it was left out of both versions, so that it is unknown what its change breaks.
    pub(super) fn is_unknown(&self) -> bool {
        matches!(self.gone, Some(Gone::Unknown(_)))
    }

    pub(super) fn breaks_somebody(&self) -> bool {
        self.is_unknown() || self.changes.iter().any(|change| !change.breaks().is_empty())
    }

    pub(super) fn breaks(&self, dependent: Dependent) -> bool {
        self.is_unknown() || self.changes.iter().any(|change| change.breaks().contains(&dependent))
    }
}

/// Returns the differences of two definitions beside the contract, in words.
fn hints(before: &Map<String, Value>, now: &Map<String, Value>) -> Vec<String> {
    let flat = |hints: &Map<String, Value>| {
        let mut flat = Map::new();
        for (name, value) in hints {
            match value {
                Value::Object(fields) if name == "annotations" => {
                    let fields = fields.iter();
                    flat.extend(fields.map(|(at, value)| (format!("{name}.{at}"), value.clone())));
                }
                _ => drop(flat.insert(name.clone(), value.clone())),
            }
        }
        flat
    };
    let (before, now) = (flat(before), flat(now));
    let names = before.keys().chain(now.keys().filter(|name| !before.contains_key(*name)));
    let shown = |value: Option<&Value>| value.map_or("absent".to_owned(), Value::to_string);
    names
        .filter(|name| before.get(*name) != now.get(*name))
        .map(|name| {
            let (before, now) = (shown(before.get(name)), shown(now.get(name)));
            format!("`{name}`: before: {before}; now: {now}")
        })
        .collect()
}

/// Returns the names of the new contracts that are like a removed one, by the name of that one.
fn renamed(old: &Version, new: &Version) -> HashMap<String, String> {
    let absent = |from: &'_ Version, other: &Version| -> Vec<Contract> {
        let names: HashSet<_> = other.contracts.iter().map(Contract::name).collect();
        from.contracts.iter().filter(|one| !names.contains(one.name())).cloned().collect()
    };
    let (removed, added) = (absent(old, new), absent(new, old));
    let mut found = HashMap::new();
    // A name in another notation says the most, and the same description the least.
    for key in [description as fn(&Contract) -> Option<String>, schemas, letters] {
        let (removed, added) = (by(key, &removed), by(key, &added));
        for (key, before) in removed {
            if let (Some(before), Some(Some(now))) = (before, added.get(&key)) {
                found.insert(before, now.clone());
            }
        }
    }
    found
}

/// Returns the names by a key; `None` if two contracts have the same key.
fn by(
    key: fn(&Contract) -> Option<String>,
    contracts: &[Contract],
) -> HashMap<String, Option<String>> {
    let mut names = HashMap::new();
    for contract in contracts {
        if let Some(key) = key(contract) {
            let name = Some(contract.name().to_owned());
            names.entry(key).and_modify(|name| *name = None).or_insert(name);
        }
    }
    names
}

/// Returns the name without its notation: `getWeather` and `get-weather` are the same.
fn letters(contract: &Contract) -> Option<String> {
    Some(contract.name().replace(['_', '-'], "").to_lowercase())
}

fn description(contract: &Contract) -> Option<String> {
    Some(contract.description().to_owned()).filter(|text| !text.is_empty())
}

/// Returns both schemas, if there is a field. Many tools have none.
fn schemas(contract: &Contract) -> Option<String> {
    let fields = contract.input().get("properties").and_then(Value::as_object);
    fields.filter(|fields| !fields.is_empty()).map(|_| {
        let output = contract.output_to_write().map_or(String::new(), Value::to_string);
        format!("{} {output}", contract.input())
    })
}
