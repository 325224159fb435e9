//! Nodes that lead to each other: the strongly connected components of a graph.
//!
//! Kosaraju's algorithm, without recursion, because a chain of definitions may be as long as the
//! whole schema.

use std::collections::HashSet;

/// Returns the sets of nodes that lead to each other. A single node is included only if it leads
/// to itself. `edges` lists the targets of each node.
pub(crate) fn circles(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut back = vec![Vec::new(); edges.len()];
    for (from, to) in edges.iter().enumerate() {
        for to in to {
            if let Some(back) = back.get_mut(*to) {
                back.push(from);
            }
        }
    }
    let mut seen = HashSet::new();
    let order: Vec<usize> =
        (0..edges.len()).flat_map(|start| reached(edges, start, &mut seen)).collect();
    let mut seen = HashSet::new();
    let circles = order.into_iter().rev().map(|start| reached(&back, start, &mut seen));
    let leads_to_itself = |node: &usize| edges.get(*node).is_some_and(|to| to.contains(node));
    circles.filter(|circle| circle.len() > 1 || circle.iter().any(leads_to_itself)).collect()
}

/// Returns the new nodes that can be reached from `start`, in post-order: each one after its
/// targets.
fn reached(edges: &[Vec<usize>], start: usize, seen: &mut HashSet<usize>) -> Vec<usize> {
    let mut done = Vec::new();
    let mut waiting = vec![(start, false)];
    while let Some((node, is_done)) = waiting.pop() {
        if is_done {
            done.push(node);
        } else if seen.insert(node) {
            waiting.push((node, true));
            waiting.extend(edges.get(node).into_iter().flatten().map(|to| (*to, false)));
        }
    }
    done
}
