//! Block neighbour swap: pairs of rows change places while that adds edges inside blocks.
//!
//! With `ties(u, B)` the number of edges, in and out, between a row and the rows of a block, a swap
//! of `u` in `A` with `w` in `B` adds
//! `ties(u, B) − ties(u, A) + ties(w, A) − ties(w, B) − 2 · edges(u, w)` edges inside blocks.
//!
//! For one block `A` a walk over the edges of its rows gives `ties(w, A)` of every row `w` that has
//! some, and a walk over the edges of `u` gives `ties(u, B)`. So a pass costs one step per edge and
//! row of a block, not per pair of rows.

use vstream_vector::SplitMix;

use super::mutual::Mutual;
use crate::build::shuffle;

/// A pass that moves fewer than one row in this many is the last.
const FEW: usize = 1000;

struct Swaps<'a> {
    mutual: &'a Mutual,
    capacity: usize,
    order: &'a mut [u32],
    /// Place of each row.
    places: Vec<u32>,
    /// Ties of each row to the rows of its own block.
    inside: Vec<i32>,
    /// Ties of each row to the present block `A`, and the rows that have some.
    to_block: Vec<i32>,
    tied: Vec<u32>,
    /// Ties of the present row by block, and the blocks that have some.
    by_block: Vec<i32>,
    blocks: Vec<u32>,
}

/// Improves an order by up to `passes` passes over all blocks. Cost: O(edges · capacity) per pass.
pub(super) fn improve(
    mutual: &Mutual,
    order: &mut [u32],
    (capacity, passes): (usize, usize),
    seed: u64,
) {
    let rows = order.len();
    let mut places = vec![0; rows];
    (0..).zip(&*order).for_each(|(place, &row)| places[row as usize] = place);
    let blocks = rows.div_ceil(capacity);
    let mut swaps = Swaps {
        mutual,
        capacity,
        order,
        places,
        inside: vec![0; rows],
        to_block: vec![0; rows],
        tied: Vec::new(),
        by_block: vec![0; blocks],
        blocks: Vec::new(),
    };
    for row in 0..rows as u32 {
        swaps.inside[row as usize] = swaps.ties(row, swaps.block_of(row));
    }
    let mut turns: Vec<u32> = (0..blocks as u32).collect();
    let mut random = SplitMix(seed);
    for _ in 0..passes {
        shuffle(&mut turns, &mut random);
        let moved: usize = turns.iter().map(|&block| swaps.improve_block(block)).sum();
        if moved * FEW < rows {
            break;
        }
    }
}

impl Swaps<'_> {
    #[inline]
    fn block_of(&self, row: u32) -> u32 {
        self.places[row as usize] / self.capacity as u32
    }

    fn range(&self, block: u32) -> std::ops::Range<usize> {
        let from = block as usize * self.capacity;
        from..self.order.len().min(from + self.capacity)
    }

    fn ties(&self, row: u32, block: u32) -> i32 {
        self.mutual.of_row(row).iter().filter(|&&to| self.block_of(to) == block).count() as i32
    }

    /// Swaps rows of a block to better ones; returns how many.
    fn improve_block(&mut self, block: u32) -> usize {
        self.tie(block);
        let mut moved = 0;
        for place in self.range(block) {
            if let Some(other) = self.best_swap(self.order[place], block) {
                self.swap(place as u32, self.places[other as usize]);
                self.tie(block);
                moved += 1;
            }
        }
        moved
    }

    /// Counts the ties of all rows to a block.
    fn tie(&mut self, block: u32) {
        for row in self.tied.drain(..) {
            self.to_block[row as usize] = 0;
        }
        for place in self.range(block) {
            for &to in self.mutual.of_row(self.order[place]) {
                if self.to_block[to as usize] == 0 {
                    self.tied.push(to);
                }
                self.to_block[to as usize] += 1;
            }
        }
    }

    /// The row of another block with which a swap adds most; `None` if none adds some.
    fn best_swap(&mut self, row: u32, block: u32) -> Option<u32> {
        for &to in self.mutual.of_row(row) {
            let other = self.places[to as usize] / self.capacity as u32;
            if other != block {
                if self.by_block[other as usize] == 0 {
                    self.blocks.push(other);
                }
                self.by_block[other as usize] += 1;
            }
        }
        let mut best: Option<(i32, u32)> = None;
        for other in std::mem::take(&mut self.blocks) {
            let gain = std::mem::take(&mut self.by_block[other as usize]);
            let gain = gain - self.inside[row as usize];
            for place in self.range(other) {
                let with = self.order[place];
                let gain = gain + self.to_block[with as usize] - self.inside[with as usize];
                if gain <= best.map_or(0, |(most, _)| most) {
                    continue;
                }
                let edges = self.mutual.of_row(row).iter().filter(|&&to| to == with).count();
                let gain = gain - 2 * edges as i32;
                if gain > best.map_or(0, |(most, _)| most) {
                    best = Some((gain, with));
                }
            }
        }
        best.map(|(_, with)| with)
    }

    /// Swaps the rows at two places of two blocks and counts again what changed.
    fn swap(&mut self, a: u32, b: u32) {
        let (row, with) = (self.order[a as usize], self.order[b as usize]);
        let (from, to) = (self.block_of(row), self.block_of(with));
        for (leaving, coming, block) in [(row, with, from), (with, row, to)] {
            for &end in self.mutual.of_row(leaving) {
                if self.block_of(end) == block && end != coming && end != leaving {
                    self.inside[end as usize] -= 1;
                }
            }
        }
        self.order.swap(a as usize, b as usize);
        (self.places[row as usize], self.places[with as usize]) = (b, a);
        for (coming, block) in [(with, from), (row, to)] {
            let mut ties = 0;
            for &end in self.mutual.of_row(coming) {
                if self.block_of(end) == block {
                    ties += 1;
                    self.inside[end as usize] += 1;
                }
            }
            self.inside[coming as usize] = ties;
        }
    }
}
