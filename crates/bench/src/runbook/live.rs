//! Which tags live, and which row each has.

use super::Step;

const DEAD: u32 = u32::MAX;

/// The live set of a runbook at one step. Tags and rows are numbers below the rows of the data.
#[derive(Clone, Debug)]
pub struct LiveSet {
    /// Row of each tag, or `DEAD`.
    rows: Vec<u32>,
    live: usize,
}

impl LiveSet {
    /// Nothing lives; tags and rows will be below `rows`.
    pub fn new(rows: usize) -> LiveSet {
        LiveSet { rows: vec![DEAD; rows], live: 0 }
    }

    /// Tags that live.
    pub fn len(&self) -> usize {
        self.live
    }

    /// True if nothing lives.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The row of a live tag.
    pub fn row(&self, tag: u64) -> Option<usize> {
        let row = self.rows.get(usize::try_from(tag).ok()?)?;
        (*row != DEAD).then_some(*row as usize)
    }

    /// Live tags and their rows, tags ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        let tags = self.rows.iter().enumerate();
        tags.filter(|(_, row)| **row != DEAD).map(|(tag, row)| (tag as u64, *row as usize))
    }

    /// Follows one step; says how many tags a delete or a replace named that did not live.
    pub fn apply(&mut self, step: &Step) -> usize {
        let before = self.live;
        match step {
            Step::Search => 0,
            Step::Insert(range) => {
                range.clone().for_each(|row| self.set(row, row as u32));
                0
            }
            Step::Delete(range) => {
                range.clone().for_each(|tag| self.set(tag, DEAD));
                range.len() - (before - self.live)
            }
            Step::Replace { tags, rows } => {
                tags.clone().zip(rows.clone()).for_each(|(tag, row)| self.set(tag, row as u32));
                self.live - before
            }
        }
    }

    fn set(&mut self, tag: usize, row: u32) {
        let old = std::mem::replace(&mut self.rows[tag], row);
        self.live += usize::from(old == DEAD && row != DEAD);
        self.live -= usize::from(old != DEAD && row == DEAD);
    }
}
