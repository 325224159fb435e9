//! Pairs of two lists, as many as possible.

use std::collections::VecDeque;

/// Returns for each of `left` items its partner among `right` items, so that as many as possible have one.
///
/// An item that could take two partners does not take the only one of another: a pair that was found is
/// changed if that makes room for one more (augmenting paths, the maximum matching of a bipartite graph).
pub(crate) fn matching(
    left: usize,
    right: usize,
    fits: impl Fn(usize, usize) -> bool,
) -> Vec<Option<usize>> {
    let mut partner_of_left: Vec<Option<usize>> = vec![None; left];
    let mut partner_of_right: Vec<Option<usize>> = vec![None; right];
    for start in 0..left {
        // The item of `left` from which each item of `right` was reached.
        let mut from: Vec<Option<usize>> = vec![None; right];
        let mut waiting = VecDeque::from([start]);
        let mut free = None;
        'search: while let Some(one) = waiting.pop_front() {
            // Items at the same place first: lists are often in the same order.
            let same = (one < right).then_some(one);
            let others = (0..right).filter(|other| Some(*other) != same);
            for other in same.into_iter().chain(others) {
                if from[other].is_some() || !fits(one, other) {
                    continue;
                }
                from[other] = Some(one);
                match partner_of_right[other] {
                    Some(next) => waiting.push_back(next),
                    None => {
                        free = Some(other);
                        break 'search;
                    }
                }
            }
        }
        // Along the path, each item takes the partner through which it was reached.
        while let Some(other) = free {
            let Some(one) = from[other] else { break };
            partner_of_right[other] = Some(one);
            free = partner_of_left[one].replace(other);
        }
    }
    partner_of_left
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_item_leaves_its_partner_to_one_that_has_no_other() {
        // 0 takes both, 1 only the first. A greedy choice would leave 1 without a partner.
        let fits = [[true, true], [true, false]];
        assert_eq!(matching(2, 2, |one, other| fits[one][other]), [Some(1), Some(0)]);
    }

    /// Tries all choices.
    fn most(fits: &[Vec<bool>], one: usize, taken: &mut Vec<bool>) -> usize {
        let Some(row) = fits.get(one) else { return 0 };
        let mut best = most(fits, one + 1, taken);
        for (other, fits_here) in row.iter().enumerate() {
            if *fits_here && !taken[other] {
                taken[other] = true;
                best = best.max(1 + most(fits, one + 1, taken));
                taken[other] = false;
            }
        }
        best
    }

    proptest! {
        #[test]
        fn no_choice_pairs_more(fits in prop::collection::vec(prop::collection::vec(any::<bool>(), 5), 0..6)) {
            let found = matching(fits.len(), 5, |one, other| fits[one][other]);
            let pairs: Vec<_> = found.iter().enumerate().filter_map(|(one, other)| Some((one, (*other)?))).collect();
            prop_assert!(pairs.iter().all(|(one, other)| fits[*one][*other]));
            let mut partners: Vec<_> = pairs.iter().map(|(_, other)| *other).collect();
            partners.sort_unstable();
            partners.dedup();
            prop_assert_eq!(partners.len(), pairs.len());
            prop_assert_eq!(pairs.len(), most(&fits, 0, &mut vec![false; 5]));
        }
    }
}
