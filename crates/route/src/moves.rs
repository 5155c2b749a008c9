//! The ranges of codes that change their shard between two templates.

use crate::template::{Encoder, Template};

/// A range of codes that moves from one shard to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Move {
    /// First code of the range.
    pub first: u64,
    /// Last code of the range, included.
    pub last: u64,
    /// Shard that holds the range before.
    pub from: u16,
    /// Shard that holds the range afterwards.
    pub to: u16,
}

impl Template {
    /// The ranges of codes whose shard differs from that in `old`, ascending and as few as
    /// possible. Empty if the two templates have different codes, such as a trained and an unplaced
    /// one.
    ///
    /// Cost: O(ranges of both).
    pub fn moves_since(&self, old: &Template) -> Vec<Move> {
        let same_codes = match (&self.inner.encoder, &old.inner.encoder) {
            // A split changes no code of a stored row, so only the root cells are compared.
            (Encoder::Cells(mine), Encoder::Cells(theirs)) => mine.roots == theirs.roots,
            (Encoder::Lsh(mine), Encoder::Lsh(theirs)) => mine == theirs,
            _ => false,
        };
        if !same_codes {
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
        for (index, &first) in all.iter().enumerate() {
            let last = all.get(index + 1).map_or(u64::MAX, |next| next - 1);
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
