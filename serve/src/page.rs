//! Pages of lists, of which the last changed entry is first.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use crate::core::{escaped, unescaped};

/// Number of entries of a page.
pub(crate) const MOST: usize = 50;

/// The place of an entry in a list: when it changed, and its name. The next page begins after it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// Microseconds since 1970, counted down, so that the last changed entry is the smallest.
    left: u64,
    name: String,
}

#[cfg_attr(
    not(feature = "postgres"),
    allow(dead_code, reason = "only a database looks for the entries after a mark itself")
)]
impl Mark {
    pub(crate) fn new(changed: SystemTime, name: impl Into<String>) -> Self {
        let since = changed.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let at = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        Self { left: u64::MAX - at, name: name.into() }
    }

    pub(crate) fn changed(&self) -> SystemTime {
        let at = Duration::from_micros(u64::MAX - self.left);
        SystemTime::UNIX_EPOCH.checked_add(at).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Returns the page after a mark, and the mark of the next one. The entries need no order.
pub(crate) fn page<T>(
    mut entries: Vec<(Mark, T)>,
    after: Option<&Mark>,
) -> (Vec<(Mark, T)>, Option<Mark>) {
    entries.retain(|(mark, _)| after.is_none_or(|after| mark > after));
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    let is_more = entries.len() > MOST;
    entries.truncate(MOST);
    let next = entries.last().map(|(mark, _)| mark.clone()).filter(|_| is_more);
    (entries, next)
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", u64::MAX - self.left, escaped(&self.name))
    }
}

impl FromStr for Mark {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (at, name) = text.split_once('.').ok_or(())?;
        let at: u64 = at.parse().map_err(drop)?;
        Ok(Self { left: u64::MAX - at, name: unescaped(name).ok_or(())? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_mark_is_the_same_after_it_was_sent(at in 0_u64..1 << 60, name in ".{0,12}") {
            let time = SystemTime::UNIX_EPOCH + Duration::from_micros(at);
            let mark = Mark::new(time, name);
            prop_assert_eq!(mark.to_string().parse(), Ok(mark.clone()));
            prop_assert_eq!(mark.changed(), time);
        }

        #[test]
        fn any_text_can_be_read(text in "\\PC{0,12}|[0-9]{0,3}\\.[~a0]{0,6}") {
            let _ = text.parse::<Mark>();
        }

        #[test]
        fn pages_have_all_entries_once(times in prop::collection::vec(0_u64..20, 0..180)) {
            let time = |at| SystemTime::UNIX_EPOCH + Duration::from_micros(at);
            let named = times.iter().enumerate();
            let entries: Vec<_> =
                named.map(|(nth, at)| (Mark::new(time(*at), format!("{nth:03}")), ())).collect();
            let (mut all, mut after) = (Vec::new(), None);
            loop {
                let (found, next) = page(entries.clone(), after.as_ref());
                all.extend(found.into_iter().map(|(mark, ())| mark));
                after = next;
                if after.is_none() {
                    break;
                }
            }
            let mut expected: Vec<_> = entries.into_iter().map(|(mark, ())| mark).collect();
            expected.sort();
            prop_assert_eq!(all, expected);
        }
    }
}
