//! Which definitions contain themselves.

use std::collections::HashMap;

use serde_json::Value;

use crate::schema::{DEFINITIONS, below};

/// The definitions that lead back to themselves, with a number for each such circle.
///
/// The root counts as one: references say `#`.
#[derive(Debug, Default)]
pub(crate) struct Cycles {
    circles: HashMap<String, usize>,
    first: Option<String>,
}

impl Cycles {
    pub(crate) fn of(root: &Value) -> Self {
        let mut names = vec!["#".to_owned()];
        let mut schemas = vec![root];
        for (name, schema) in root.get(DEFINITIONS).and_then(Value::as_object).into_iter().flatten()
        {
            names.push(format!("#/{DEFINITIONS}/{name}"));
            schemas.push(schema);
        }
        let numbers: HashMap<&str, usize> =
            names.iter().enumerate().map(|(number, name)| (name.as_str(), number)).collect();
        let edges: Vec<Vec<usize>> =
            schemas.iter().map(|schema| references(schema, &numbers)).collect();
        let mut found = Self::default();
        for (circle, members) in circles(&edges).into_iter().enumerate() {
            for number in members {
                if let Some(name) = names.get(number) {
                    found.circles.insert(name.clone(), circle);
                }
            }
        }
        found.first = names.iter().find(|name| found.circles.contains_key(*name)).cloned();
        found
    }

    /// The first definition that contains itself.
    pub(crate) fn first(&self) -> Option<&str> {
        self.first.as_deref()
    }

    /// Whether each of the two leads to the other.
    pub(crate) fn share(&self, one: &str, other: &str) -> bool {
        self.circles.get(one).is_some_and(|circle| self.circles.get(other) == Some(circle))
    }
}

/// The definitions that a schema refers to; those of a root are not its own.
fn references(schema: &Value, numbers: &HashMap<&str, usize>) -> Vec<usize> {
    let mut found = Vec::new();
    let mut waiting = vec![schema];
    while let Some(schema) = waiting.pop() {
        let Some(map) = schema.as_object() else {
            continue;
        };
        let reference = map.get("$ref").and_then(Value::as_str);
        found.extend(reference.and_then(|reference| numbers.get(reference)));
        let below = below(map).into_iter().filter(|(keyword, ..)| *keyword != DEFINITIONS);
        waiting.extend(below.map(|(_, _, schema)| schema));
    }
    found
}

/// The sets of nodes that lead to each other, single ones only if they lead to themselves.
///
/// Tarjan's way, without recursion: a chain of definitions may be as long as a schema.
fn circles(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut search = Search {
        edges,
        order: vec![None; edges.len()],
        low: vec![0; edges.len()],
        open: Vec::new(),
        is_open: vec![false; edges.len()],
        count: 0,
        found: Vec::new(),
    };
    for start in 0..edges.len() {
        if search.order.get(start).is_some_and(Option::is_none) {
            search.from(start);
        }
    }
    search.found
}

struct Search<'a> {
    edges: &'a [Vec<usize>],
    /// When a node was first seen.
    order: Vec<Option<usize>>,
    /// The first seen of what a node leads to.
    low: Vec<usize>,
    open: Vec<usize>,
    is_open: Vec<bool>,
    count: usize,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn from(&mut self, start: usize) {
        let mut way = vec![(start, 0)];
        self.enter(start);
        while let Some((node, next)) = way.pop() {
            match self.edges.get(node).and_then(|edges| edges.get(next)).copied() {
                Some(to) => {
                    way.push((node, next + 1));
                    match self.order.get(to).copied().flatten() {
                        None => {
                            self.enter(to);
                            way.push((to, 0));
                        }
                        Some(seen) if self.is_open.get(to) == Some(&true) => self.lower(node, seen),
                        Some(_) => {}
                    }
                }
                None => {
                    let low = self.low.get(node).copied().unwrap_or_default();
                    if let Some((before, _)) = way.last() {
                        self.lower(*before, low);
                    }
                    if self.order.get(node).copied().flatten() == Some(low) {
                        self.close(node);
                    }
                }
            }
        }
    }

    fn enter(&mut self, node: usize) {
        if let (Some(order), Some(low), Some(is_open)) =
            (self.order.get_mut(node), self.low.get_mut(node), self.is_open.get_mut(node))
        {
            *order = Some(self.count);
            *low = self.count;
            *is_open = true;
        }
        self.open.push(node);
        self.count += 1;
    }

    fn lower(&mut self, node: usize, to: usize) {
        if let Some(low) = self.low.get_mut(node) {
            *low = (*low).min(to);
        }
    }

    fn close(&mut self, node: usize) {
        let mut circle = Vec::new();
        while let Some(last) = self.open.pop() {
            if let Some(is_open) = self.is_open.get_mut(last) {
                *is_open = false;
            }
            circle.push(last);
            if last == node {
                break;
            }
        }
        let leads_to_itself = self.edges.get(node).is_some_and(|edges| edges.contains(&node));
        if circle.len() > 1 || leads_to_itself {
            self.found.push(circle);
        }
    }
}
