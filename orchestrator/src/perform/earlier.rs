//! What the records say about a run before a drive.

use std::collections::BTreeMap;

use toolwright_module::event::InCall;

/// What earlier drives of a run did. See [`Perform::earlier`](super::Perform::earlier).
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Earlier {
    /// Number of recorded replies of the model.
    pub replies: u64,
    /// The calls that were begun, decided or ended, by id.
    pub calls: BTreeMap<String, EarlierCall>,
}

/// A call of an earlier drive. See [`Earlier::calls`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EarlierCall {
    /// Whether it is a call of an agent, which is made of parts.
    pub is_run: bool,
    /// Whether a person decided on it before it was made.
    pub is_decided: bool,
}

impl Earlier {
    /// Adds a part of the run at `path`, or of a run below it. `is_reply` is whether it is a reply of
    /// the model.
    pub fn add(&mut self, path: &[InCall], key: &str, is_reply: bool) {
        let Ok(names) = serde_json::from_str::<Vec<&str>>(key) else {
            // A name with an escaped character cannot be borrowed.
            let names = serde_json::from_str::<Vec<String>>(key).unwrap_or_default();
            return self.add_names(path, names.iter().map(String::as_str).collect(), is_reply);
        };
        self.add_names(path, names, is_reply);
    }

    fn add_names(&mut self, path: &[InCall], names: Vec<&str>, is_reply: bool) {
        let own: Vec<&str> = path.iter().flat_map(|call| [&*call.tool, &*call.id]).collect();
        let Some(rest) = names.strip_prefix(own.as_slice()) else { return };
        match *rest {
            ["ask", _, nth] => {
                let nth = nth.parse().unwrap_or(0_u64);
                if is_reply {
                    self.replies = self.replies.max(nth.saturating_add(1));
                }
            }
            ["run", id] => self.call(id).is_run = true,
            ["decide", id] => self.call(id).is_decided = true,
            ["call" | "decide", id, _] => drop(self.call(id)),
            [_, id, _, _, ..] => self.call(id).is_run = true,
            _ => {}
        }
    }

    fn call(&mut self, id: &str) -> &mut EarlierCall {
        self.calls.entry(id.to_owned()).or_default()
    }
}
