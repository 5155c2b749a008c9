//! Evaluates a compiled filter for 32 rows at a time.
//!
//! The common comparisons are kernels (`vstream_vector::kernels`).

use vstream_attribute::AttributeKind;
use vstream_vector::kernels;

use super::{Check, Codes, Compiled};
use crate::rows::{Carried, Column, RowChunk, WORD};

/// 32 rows: where their ids and their columns are.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<'a> {
    /// The chunk, and which 32 of its rows.
    pub(crate) rows: (&'a RowChunk, usize),
    /// What they carry, and which 32 lanes of it; `None` if nothing.
    pub(crate) carried: Option<(&'a Carried, usize)>,
}

impl<'a> Lanes<'a> {
    /// The rows `32 · word ..` of a chunk.
    pub(crate) fn of(rows: &'a RowChunk, word: usize) -> Lanes<'a> {
        let carried = rows.carried().map(|(carried, first)| (carried, first / WORD + word));
        Lanes { rows: (rows, word), carried }
    }
}

/// See [`Compiled::mask`].
pub(super) fn of(filter: &Compiled, rows: Lanes<'_>) -> u32 {
    match filter {
        Compiled::All => u32::MAX,
        Compiled::Nothing => 0,
        Compiled::And(all) => {
            let mut mask = u32::MAX;
            for part in all {
                mask &= of(part, rows);
                if mask == 0 {
                    break;
                }
            }
            mask
        }
        Compiled::Or(any) => {
            let mut mask = 0;
            for part in any {
                mask |= of(part, rows);
                if mask == u32::MAX {
                    break;
                }
            }
            mask
        }
        Compiled::AtLeast(least, parts) => at_least(*least, parts, rows),
        Compiled::Not(part) => !of(part, rows),
        Compiled::Column(column, check) => match rows.carried {
            Some((carried, word)) => {
                let mut mask = 0;
                carried.for_each_column(*column, |column| mask |= of_column(check, column, word));
                mask
            }
            None => 0,
        },
        Compiled::Ids(ids) => {
            let (rows, word) = rows.rows;
            let lanes = (word * WORD..rows.lanes()).take(WORD);
            let has = |lane| u32::from(ids.binary_search(&rows.id(lane)).is_ok());
            lanes.zip(0..).fold(0, |mask, (lane, bit)| mask | has(lane) << bit)
        }
    }
}

/// The lanes for which at least so many parts hold.
fn at_least(least: usize, parts: &[Compiled], rows: Lanes<'_>) -> u32 {
    let mut counts = [0u16; WORD];
    for part in parts {
        let mask = of(part, rows);
        for (lane, count) in counts.iter_mut().enumerate() {
            *count += (mask >> lane & 1) as u16;
        }
    }
    let least = u16::try_from(least).unwrap_or(u16::MAX);
    (0..WORD).fold(0, |mask, lane| mask | u32::from(counts[lane] >= least) << lane)
}

/// The lanes of a column's word that meet a condition.
pub(super) fn of_column(check: &Check, column: Column<'_>, word: usize) -> u32 {
    let present = column.present(word);
    if present == 0 {
        return 0;
    }
    let kind = column.kind();
    let mask = match check {
        Check::Exists => u32::MAX,
        Check::Keyword(codes) if kind == AttributeKind::Keyword => {
            column.codes(word, |values| coded(codes, values, present))
        }
        Check::Any(codes) if kind == AttributeKind::Keywords => {
            lists(column, word, present, |list| list.iter().any(|&code| codes.has(code)))
        }
        Check::All(codes) if kind == AttributeKind::Keywords => {
            lists(column, word, present, |list| codes.iter().all(|code| list.contains(code)))
        }
        Check::Empty if kind == AttributeKind::Keywords => {
            lists(column, word, present, <[u32]>::is_empty)
        }
        Check::Within(numbers, least, most) if numbers.has(kind) => {
            column.numbers(word, |numbers| kernels::lanes_within(numbers, *least, *most))
        }
        Check::OneOf(numbers, of) if numbers.has(kind) => match &**of {
            [one] => column.numbers(word, |numbers| kernels::lanes_within(numbers, *one, *one)),
            _ => column.numbers(word, |numbers| {
                some(numbers, present, |number| of.binary_search(&(number as i64)).is_ok())
            }),
        },
        Check::Truth(wanted) if kind == AttributeKind::Bool => {
            if *wanted {
                column.truths(word)
            } else {
                !column.truths(word)
            }
        }
        _ => 0,
    };
    mask & present
}

fn coded(codes: &Codes, values: &[u32; WORD], present: u32) -> u32 {
    match codes {
        Codes::Few(few) => {
            few.iter().fold(0, |mask, &code| mask | kernels::lanes_equal(values, code))
        }
        Codes::Many(many) => some(values, present, |value| many.binary_search(&value).is_ok()),
    }
}

/// The lanes of `present` whose lists pass a test.
fn lists(column: Column<'_>, word: usize, present: u32, test: impl Fn(&[u32]) -> bool) -> u32 {
    lanes(present).filter(|&lane| test(column.list(word * WORD + lane))).fold(0, |m, l| m | 1 << l)
}

/// The lanes of `present` whose values pass a test that is slower than a branch.
fn some<T: Copy>(values: &[T; WORD], present: u32, test: impl Fn(T) -> bool) -> u32 {
    lanes(present).filter(|&lane| test(values[lane])).fold(0, |mask, lane| mask | 1 << lane)
}

/// The lanes of a mask, ascending.
fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let rest = |mask: &u32| Some(mask & (mask - 1)).filter(|&rest| rest != 0);
    let first = Some(mask).filter(|&mask| mask != 0);
    std::iter::successors(first, rest).map(|mask| mask.trailing_zeros() as usize)
}
