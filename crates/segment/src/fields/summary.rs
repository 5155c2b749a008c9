//! Summaries of a column, leaf by leaf: number of values, least and largest, a Bloom filter.
//!
//! Numbers are summarised in the order in which blocks hold them, texts by their first 8 bytes. The
//! Bloom filter holds 2 of 256 bits for each value: with 20 different values in a leaf it lets 2 %
//! of other values pass, with 50 some 10 %, with 200 some 60 %.

use vstream_vector::cursor::ByteReader;
use xxhash_rust::xxh3::xxh3_64;

use crate::defect::{self, Defect};
use crate::malformed::Malformed;

/// A value as summaries see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Its place in the order of values.
    pub(crate) order: u64,
    pub(crate) hash: u64,
}

impl Mark {
    pub(crate) fn of_number(ordered: u64) -> Mark {
        Mark { order: ordered, hash: xxh3_64(&ordered.to_le_bytes()) }
    }

    pub(crate) fn of_text(text: &str) -> Mark {
        Mark { order: text_order(text, 0), hash: xxh3_64(text.as_bytes()) }
    }
}

/// The first 8 bytes of a text as a number; a shorter text is filled up with `fill`.
pub(crate) fn text_order(text: &str, fill: u8) -> u64 {
    let mut word = [fill; 8];
    let bytes = text.len().min(8);
    word[..bytes].copy_from_slice(&text.as_bytes()[..bytes]);
    u64::from_be_bytes(word)
}

/// The values of a column in the rows of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Rows with a value.
    pub(crate) present: u32,
    /// Least and largest value; the first is above the second if there is none.
    pub(crate) low: u64,
    pub(crate) high: u64,
    bloom: [u64; 4],
}

impl Summary {
    pub(crate) const NONE: Summary = Summary { present: 0, low: u64::MAX, high: 0, bloom: [0; 4] };

    pub(crate) fn add(&mut self, mark: Mark) {
        if defect::active(Defect::SummariesIncomplete) && mark.hash.is_multiple_of(2) {
            return;
        }
        self.low = self.low.min(mark.order);
        self.high = self.high.max(mark.order);
        bits(mark.hash).into_iter().for_each(|(word, bit)| self.bloom[word] |= bit);
    }

    /// False only if no row of the leaf has the value.
    pub(crate) fn may_have(&self, mark: Mark) -> bool {
        let is_between = self.low <= mark.order && mark.order <= self.high;
        is_between && bits(mark.hash).into_iter().all(|(word, bit)| self.bloom[word] & bit != 0)
    }

    /// False only if no value of the leaf lies between `low` and `high`, both inclusive.
    pub(crate) fn may_reach(&self, low: u64, high: u64) -> bool {
        self.low <= high && low <= self.high
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.present.to_le_bytes());
        if self.present > 0 {
            let [a, b, c, d] = self.bloom;
            for word in [self.low, self.high, a, b, c, d] {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
    }

    pub(crate) fn take(input: &mut ByteReader<'_>) -> Result<Summary, Malformed> {
        let present = input.u32()?;
        if present == 0 {
            return Ok(Summary::NONE);
        }
        let (low, high) = (input.u64()?, input.u64()?);
        let bloom = [input.u64()?, input.u64()?, input.u64()?, input.u64()?];
        Ok(Summary { present, low, high, bloom })
    }
}

/// The two bits of a hash: a word of the filter, and the bit in it.
fn bits(hash: u64) -> [(usize, u64); 2] {
    [hash, hash >> 8].map(|hash| ((hash >> 6) as usize % 4, 1 << (hash % 64)))
}
