use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

/// What went wrong in the last round, and how many rounds in a row already.
///
/// A model that makes one mistake again and again makes it until its budget is gone.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Mistakes(Vec<Mistake>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mistake {
    /// The tool, or empty: an answer that could not be used.
    pub(crate) tool: String,
    pub(crate) arguments: String,
    /// What the model was told.
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

    /// Takes what went wrong in a round; says what did so `most` times in a row.
    pub(crate) fn take_round(
        &mut self,
        round: impl IntoIterator<Item = Mistake>,
        most: u32,
    ) -> Option<&Mistake> {
        let before = std::mem::take(&mut self.0);
        let before: HashMap<_, u32> = before.iter().map(|it| (it.what(), it.times)).collect();
        let mut round: Vec<Mistake> = round.into_iter().collect();
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
    /// What makes two of them the same.
    fn what(&self) -> (&str, &str, &str) {
        (&self.tool, &self.arguments, &self.text)
    }
}
