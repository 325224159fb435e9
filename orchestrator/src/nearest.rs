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

/// The number of bytes that have to be added, removed or changed.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let (one, other) = (&one[..one.len().min(LONGEST)], &other[..other.len().min(LONGEST)]);
    // Of the beginning of `one` so far to each beginning of `other`.
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (done, byte) in one.iter().enumerate() {
        let mut diagonal = done;
        if let Some(first) = row.first_mut() {
            *first = done + 1;
        }
        for (place, expected) in other.iter().enumerate() {
            let changed = diagonal + usize::from(!byte.eq_ignore_ascii_case(expected));
            diagonal = row[place + 1];
            row[place + 1] = changed.min(row[place] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}
