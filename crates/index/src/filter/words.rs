//! Evaluates a compiled filter for the rows of several chunks together.
//!
//! Their columns follow one another in memory, so that a condition finds its column once and not once
//! for each 32 rows. `mask.rs` says what a condition means; what pays only one by one is left to it.

use vstream_attribute::AttributeKind;
use vstream_vector::kernels;

use super::mask::{self, Lanes};
use super::{Check, Codes, Compiled};
use crate::rows::{Carried, Column, RowChunk};

/// Most words that are evaluated together.
pub(crate) const PIECE: usize = 12;

/// A mask for each of some words of 32 rows.
pub(crate) type Masks = [u32; PIECE];

/// Words of 32 rows whose columns follow one another.
pub(crate) struct Words<'a> {
    /// How many, at most [`PIECE`].
    pub(crate) len: usize,
    /// The 32 rows of a word; `None` if there are none yet.
    pub(crate) rows: &'a dyn Fn(usize) -> Option<&'a RowChunk>,
    /// What they carry, and the word there of the first; `None` if nothing.
    pub(crate) carried: Option<(&'a Carried, usize)>,
}

impl Compiled {
    /// Fills the masks of some words with the lanes that match, and the others with zeros. Lanes that
    /// are not published may be among them.
    #[inline]
    pub(crate) fn masks(&self, words: &Words<'_>, out: &mut Masks) {
        *out = [0; PIECE];
        of(self, words, &mut out[..words.len]);
    }
}

fn of(filter: &Compiled, words: &Words<'_>, out: &mut [u32]) {
    match filter {
        Compiled::All => out.fill(u32::MAX),
        Compiled::Nothing => out.fill(0),
        Compiled::And(all) => {
            out.fill(u32::MAX);
            join(all, words, out, |mask, other| mask & other);
        }
        Compiled::Or(any) => {
            out.fill(0);
            join(any, words, out, |mask, other| mask | other);
        }
        Compiled::Not(part) => {
            of(part, words, out);
            out.iter_mut().for_each(|mask| *mask = !*mask);
        }
        Compiled::Column(column, check) => {
            out.fill(0);
            if let Some((carried, first)) = words.carried {
                carried.for_each_column(*column, |column| of_column(check, column, first, out));
            }
        }
        Compiled::AtLeast(..) | Compiled::Ids(_) => {
            for (word, mask) in out.iter_mut().enumerate() {
                let carried = words.carried.map(|(carried, first)| (carried, first + word));
                let lanes = |rows| Lanes { rows: (rows, 0), carried };
                *mask = (words.rows)(word).map_or(0, |rows| mask::of(filter, lanes(rows)));
            }
        }
    }
}

/// Joins the masks of each part to `out`, until no other part can change them.
fn join(parts: &[Compiled], words: &Words<'_>, out: &mut [u32], with: fn(u32, u32) -> u32) {
    for part in parts {
        if out.iter().all(|&mask| with(mask, 0) == mask && with(mask, u32::MAX) == mask) {
            return;
        }
        let mut other = [0; PIECE];
        of(part, words, &mut other[..words.len]);
        out.iter_mut().zip(&other).for_each(|(mask, &other)| *mask = with(*mask, other));
    }
}

/// Adds the lanes that meet a condition on one column.
fn of_column(check: &Check, column: Column<'_>, first: usize, out: &mut [u32]) {
    let kind = column.kind();
    match check {
        Check::Keyword(Codes::Few(few)) if kind == AttributeKind::Keyword => {
            column.for_each_codes(first, out, |values| {
                few.iter().fold(0, |mask, &code| mask | kernels::lanes_equal(values, code))
            });
        }
        Check::Within(numbers, least, most) if numbers.has(kind) => {
            column.for_each_numbers(first, out, |values| {
                kernels::lanes_within(values, *least, *most)
            });
        }
        _ => {
            for (word, mask) in out.iter_mut().enumerate() {
                *mask |= mask::of_column(check, column, first + word);
            }
        }
    }
}
