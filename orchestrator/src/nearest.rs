//! Names near to one that does not exist.

/// This many names are shown all.
const FEW: usize = 10;

/// This many are shown of more.
const SHOWN: usize = 5;

/// A longer part of a name says no more about what was meant.
const LONGEST: usize = 64;

/// Which tools there are: all of a few, the nearest to `name` of many.
pub(crate) fn there_are(known: &[&str], name: &str) -> String {
    if known.len() <= FEW {
        return format!("The tools are: {}", known.join(", "));
    }
    let mut near: Vec<(usize, &str)> =
        known.iter().map(|known| (distance(known, name), *known)).collect();
    // Of those that are as near, in their own order.
    near.sort_by_key(|(distance, _)| *distance);
    let near: Vec<&str> = near.into_iter().take(SHOWN).map(|(_, name)| name).collect();
    format!("There are {} tools, of which the nearest are: {}", known.len(), near.join(", "))
}

/// The number of letters that have to be added, removed, changed or exchanged.
fn distance(one: &str, other: &str) -> usize {
    let plain = |name: &str| name.chars().take(LONGEST).collect::<String>().to_lowercase();
    strsim::osa_distance(&plain(one), &plain(other))
}
