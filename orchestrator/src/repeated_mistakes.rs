//! Mistakes that a model repeats from round to round.
use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

/// The mistakes of the last round, with the number of rounds in a row that made each.
///
/// A model that repeats a mistake would otherwise do so until its budget is spent.
///
/// A call that was denied is not a mistake, whether a person or a check denied it: the model may well
/// have been told to make it by a text of strangers, and such a text must not be able to end the run. A
/// model that goes on is ended by the number of rounds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Mistakes(Vec<Mistake>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mistake {
    /// The name of the tool. Empty for an answer that could not be used.
    pub(crate) tool: String,
    pub(crate) arguments: String,
    /// The text that the model got.
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) times: u32,
}

impl Mistakes {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Replaces the mistakes by those of a new round. Returns the first one that was made in `most`
    /// rounds in a row.
    pub(crate) fn take_round(
        &mut self,
        round: impl IntoIterator<Item = Mistake>,
        most: u32,
    ) -> Option<&Mistake> {
        let before = std::mem::take(&mut self.0);
        let mut round: Vec<Mistake> = round.into_iter().collect();
        if round.is_empty() {
            return None;
        }
        let before: HashMap<_, u32> = before.iter().map(|it| (it.what(), it.times)).collect();
        for mistake in &mut round {
            let times = before.get(&mistake.what()).copied();
            mistake.times = times.unwrap_or(0).saturating_add(1);
        }
        let mut seen = HashSet::new();
        let first: Vec<bool> = round.iter().map(|mistake| seen.insert(mistake.what())).collect();
        drop(seen);
        let mut first = first.into_iter();
        round.retain(|_| first.next().unwrap_or(true));
        self.0 = round;
        self.0.iter().find(|mistake| mistake.times >= most.max(1))
    }
}

impl Mistake {
    /// Returns the parts that make two mistakes the same.
    fn what(&self) -> (&str, &str, &str) {
        (&self.tool, &self.arguments, &self.text)
    }
}
