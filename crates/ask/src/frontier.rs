//! How much of the vector stream is behind an answer.

use crate::error::Attempt;
use crate::wire::{Input, Output};

/// More partitions than a topic has.
const OFFSETS_MAX: usize = 1 << 20;

/// How much of the vector stream a partition has applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontier {
    /// Event time up to which all rows are there, in milliseconds; [`Frontier::NO_TIME`] for none.
    pub watermark: i64,
    /// The next offset of each partition of the topic; [`Frontier::NO_OFFSET`] where nothing is known.
    pub offsets: Vec<i64>,
}

impl Default for Frontier {
    /// Nothing.
    fn default() -> Frontier {
        Frontier { watermark: Frontier::NO_TIME, offsets: Vec::new() }
    }
}

impl Frontier {
    /// No watermark.
    pub const NO_TIME: i64 = i64::MIN;
    /// An offset that is not known.
    pub const NO_OFFSET: i64 = -1;

    /// What is behind both of two answers.
    pub fn min(&self, other: &Frontier) -> Frontier {
        let count = self.offsets.len().max(other.offsets.len());
        let at =
            |of: &Frontier, i: usize| of.offsets.get(i).copied().unwrap_or(Frontier::NO_OFFSET);
        Frontier {
            watermark: self.watermark.min(other.watermark),
            offsets: (0..count).map(|i| at(self, i).min(at(other, i))).collect(),
        }
    }

    pub(crate) fn write(&self, out: &mut Output) {
        out.i64(self.watermark);
        out.i32(self.offsets.len() as i32);
        self.offsets.iter().for_each(|offset| out.i64(*offset));
    }

    pub(crate) fn read(input: &mut Input<'_>) -> Result<Frontier, Attempt> {
        let watermark = input.i64()?;
        let count = input.count(OFFSETS_MAX, "offsets")?;
        let offsets = (0..count).map(|_| input.i64()).collect::<Result<_, _>>()?;
        Ok(Frontier { watermark, offsets })
    }
}
