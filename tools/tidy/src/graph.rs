//! Cycles in a graph of names.

use std::collections::{BTreeMap, BTreeSet};

/// The cycles of a graph, each as its members in ascending order: the strongly connected
/// components of two or more names. A name that points to itself is no cycle.
pub(crate) fn cycles(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        edges.keys().map(|name| (name, reachable(edges, name))).collect();
    let mut cycles: BTreeSet<Vec<String>> = BTreeSet::new();
    for (&name, names) in &reached {
        let back =
            |other: &&&String| reached.get(**other).is_some_and(|names| names.contains(name));
        let mutual = names.iter().filter(back).map(|&other| other.clone());
        let members: BTreeSet<String> = mutual.chain([name.clone()]).collect();
        if members.len() > 1 {
            cycles.insert(members.into_iter().collect());
        }
    }
    cycles.into_iter().collect()
}

/// Every name that a path of one or more edges leads to.
fn reachable<'a>(
    edges: &'a BTreeMap<String, BTreeSet<String>>,
    start: &'a String,
) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![start];
    while let Some(name) = waiting.pop() {
        for next in edges.get(name).into_iter().flatten() {
            if found.insert(next) {
                waiting.push(next);
            }
        }
    }
    found
}
