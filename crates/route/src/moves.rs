//! What changes hands between two templates.

use crate::template::{Encoder, Template};

/// A range of codes that goes from one shard to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Move {
    /// First code of the range.
    pub first: u64,
    /// Last code of the range, included.
    pub last: u64,
    /// Shard that has it before.
    pub from: u16,
    /// Shard that has it afterwards.
    pub to: u16,
}

impl Template {
    /// The ranges of codes whose shard is another one than in `old`, ascending, as few as possible.
    /// None if the two do not speak of the same codes, as a trained template and an unplaced one.
    ///
    /// Cost: O(ranges of both).
    pub fn moves_since(&self, old: &Template) -> Vec<Move> {
        let (Encoder::Cells(mine), Encoder::Cells(theirs)) =
            (&self.inner.encoder, &old.inner.encoder)
        else {
            return Vec::new();
        };
        // Splits change nothing about the codes that rows have.
        if mine.roots != theirs.roots {
            return Vec::new();
        }
        let starts = |template: &Template| -> Vec<u64> {
            template.inner.ranges.pairs().map(|(start, _)| start).collect()
        };
        let mut all = starts(self);
        all.extend(starts(old));
        all.sort_unstable();
        all.dedup();
        let mut moves: Vec<Move> = Vec::new();
        for (at, &first) in all.iter().enumerate() {
            let last = all.get(at + 1).map_or(u64::MAX, |next| next - 1);
            let (from, to) = (old.shard_of(first), self.shard_of(first));
            if from == to {
                continue;
            }
            match moves.last_mut() {
                Some(before)
                    if (before.from, before.to) == (from, to) && before.last == first - 1 =>
                {
                    before.last = last;
                }
                _ => moves.push(Move { first, last, from, to }),
            }
        }
        moves
    }
}
