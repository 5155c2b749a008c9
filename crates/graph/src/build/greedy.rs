//! Best-first search in a graph in memory.

use std::cmp::Ordering;

use vstream_vector::Number;

use super::Edges;
use crate::vectors::{Vectors, Wide};

/// A row at a distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Near {
    pub(crate) distance: f32,
    pub(crate) row: u32,
}

impl Near {
    /// By distance, then by row.
    #[inline]
    pub(crate) fn order(&self, other: &Near) -> Ordering {
        self.distance.total_cmp(&other.distance).then(self.row.cmp(&other.row))
    }
}

/// Buffers of a search. Searches reuse them.
#[derive(Default)]
pub(crate) struct Greedy {
    /// The search in which each row was met last.
    met: Vec<u32>,
    search: u32,
    /// Nearest rows so far, ascending, and whether each is expanded.
    list: Vec<(Near, bool)>,
    expanded: Vec<Near>,
}

impl Greedy {
    /// Buffers for a graph of `rows` rows. Memory: 4 bytes per row.
    pub(crate) fn new(rows: usize) -> Greedy {
        Greedy { met: vec![0; rows], ..Greedy::default() }
    }

    /// Makes room for a graph of `rows` rows.
    pub(crate) fn fit(&mut self, rows: usize) {
        if self.met.len() < rows {
            self.met.resize(rows, 0);
        }
    }

    /// Searches from some entries with a list of `width` candidates. [`Greedy::nearest`] and
    /// [`Greedy::expanded`] then have the result.
    pub(crate) fn search<N: Number>(
        &mut self,
        edges: &impl Edges,
        vectors: &Vectors<N>,
        query: &Wide,
        (width, entries): (usize, &[u32]),
    ) {
        self.search = self.search.wrapping_add(1);
        if self.search == 0 {
            self.met.fill(0);
            self.search = 1;
        }
        self.list.clear();
        self.expanded.clear();
        for &entry in entries {
            self.offer(vectors, query, width, entry);
        }
        let mut next = 0;
        while let Some((near, expanded)) = self.list.get_mut(next) {
            if *expanded {
                next += 1;
                continue;
            }
            *expanded = true;
            let near = *near;
            self.expanded.push(near);
            for &to in edges.of(near.row) {
                if let Some(place) = self.offer(vectors, query, width, to) {
                    next = next.min(place);
                }
            }
        }
    }

    /// Adds a row that was not met before, if it is near enough; returns its place in the list.
    #[inline]
    fn offer<N: Number>(
        &mut self,
        vectors: &Vectors<N>,
        query: &Wide,
        width: usize,
        row: u32,
    ) -> Option<usize> {
        if std::mem::replace(&mut self.met[row as usize], self.search) == self.search {
            return None;
        }
        let near = Near { distance: vectors.distance(query, row), row };
        let is_full = self.list.len() >= width;
        if is_full && self.list.last().is_none_or(|(last, _)| !near.order(last).is_lt()) {
            return None;
        }
        let place = self.list.partition_point(|(held, _)| held.order(&near).is_lt());
        if is_full {
            self.list.pop();
        }
        self.list.insert(place, (near, false));
        Some(place)
    }

    /// The nearest rows, ascending.
    pub(crate) fn nearest(&self) -> impl Iterator<Item = Near> + '_ {
        self.list.iter().map(|(near, _)| *near)
    }

    /// The rows whose neighbours were looked at, in that order.
    pub(crate) fn expanded(&self) -> impl Iterator<Item = Near> + '_ {
        self.expanded.iter().copied()
    }
}
