//! Lists of tool names for the error about a name that does not exist.

/// Maximum number of names that are all listed.
const FEW: usize = 10;

/// Number of names that are listed if there are more.
const SHOWN: usize = 5;

/// Number of characters of a name that are compared.
const LONGEST: usize = 64;

/// Returns a sentence with the names of the tools: all of them, or the nearest to `name` if there
/// are many.
pub(crate) fn available_tools(known: &[&str], name: &str) -> String {
    if known.len() <= FEW {
        return format!("The tools are: {}", known.join(", "));
    }
    let mut near: Vec<(usize, &str)> =
        known.iter().map(|known| (distance(known, name), *known)).collect();
    // The sort is stable, so names at the same distance keep their order.
    near.sort_by_key(|(distance, _)| *distance);
    let near: Vec<&str> = near.into_iter().take(SHOWN).map(|(_, name)| name).collect();
    format!("There are {} tools, of which the nearest are: {}", known.len(), near.join(", "))
}

/// Returns the number of characters to insert, delete, replace or swap.
fn distance(one: &str, other: &str) -> usize {
    let plain = |name: &str| name.chars().take(LONGEST).collect::<String>().to_lowercase();
    strsim::osa_distance(&plain(one), &plain(other))
}
