//! The candidates of a query, nearest first, and what the query saw so far.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes the number of a node or block.
#[derive(Default)]
pub(crate) struct MixNumber(u64);

impl Hasher for MixNumber {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        let mixed = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// A map by number.
pub(crate) type ByNumber<V> = HashMap<u32, V, BuildHasherDefault<MixNumber>>;

/// A node that may be worth reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// Estimate, or the distance once it is known.
    pub(crate) key: f32,
    pub(crate) node: u32,
    pub(crate) expanded: bool,
}

/// Candidates ascending by key and node, of which the first `room` are explored.
#[derive(Default)]
pub(crate) struct List {
    /// More than `room` if `room` may grow.
    kept: usize,
    pub(crate) room: usize,
    held: Vec<Candidate>,
    /// All before it are expanded.
    next: usize,
    /// The present key of every node that was met.
    keys: ByNumber<f32>,
}

impl List {
    pub(crate) fn reset(&mut self, room: usize, kept: usize) {
        (self.room, self.kept, self.next) = (room, kept.max(room), 0);
        self.held.clear();
        self.keys.clear();
    }

    #[inline]
    pub(crate) fn is_met(&self, node: u32) -> bool {
        self.keys.contains_key(&node)
    }

    fn place(&self, key: f32, node: u32) -> usize {
        self.held
            .partition_point(|held| held.key.total_cmp(&key).then(held.node.cmp(&node)).is_lt())
    }

    /// Adds a node that was not met before.
    pub(crate) fn add(&mut self, key: f32, node: u32) {
        self.keys.insert(node, key);
        self.insert(Candidate { key, node, expanded: false });
    }

    fn insert(&mut self, candidate: Candidate) {
        let place = self.place(candidate.key, candidate.node);
        if place >= self.kept {
            return;
        }
        self.held.truncate(self.kept - 1);
        self.held.insert(place, candidate);
        self.next = self.next.min(place);
    }

    /// Sets the key of a node, which is met then.
    pub(crate) fn correct(&mut self, key: f32, node: u32) {
        let Some(old) = self.keys.insert(node, key) else {
            return self.insert(Candidate { key, node, expanded: false });
        };
        let place = self.place(old, node);
        let expanded = match self.held.get(place) {
            Some(held) if held.node == node => {
                self.next = self.next.min(place);
                self.held.remove(place).expanded
            }
            // It was dropped because others were nearer.
            _ => false,
        };
        self.insert(Candidate { key, node, expanded });
    }

    /// Marks a node as expanded; false if it is not among the explored ones or was expanded before.
    pub(crate) fn expand(&mut self, node: u32) -> bool {
        let Some(&key) = self.keys.get(&node) else { return false };
        let place = self.place(key, node);
        let room = self.room;
        match self.held.get_mut(place) {
            Some(held) if held.node == node && place < room => {
                !std::mem::replace(&mut held.expanded, true)
            }
            _ => false,
        }
    }

    /// The nearest explored candidate that is not expanded, from place `from` on.
    pub(crate) fn first(&mut self, from: usize) -> Option<(usize, Candidate)> {
        let start = from.max(self.next);
        let end = self.held.len().min(self.room);
        let found = (start..end).find(|&at| !self.held[at].expanded);
        if from <= self.next {
            self.next = found.unwrap_or(end);
        }
        found.map(|at| (at, self.held[at]))
    }
}
