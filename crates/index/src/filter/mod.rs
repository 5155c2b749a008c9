//! Filters as an index in memory evaluates them.
//!
//! 1. A reader pins its moment, then *compiles* the filter: texts become codes of the dictionary,
//!    numbers an order of whole numbers ([`Compiled`]).
//! 2. A scan evaluates it for 32 rows at a time, as a mask ([`Compiled::mask`], `mask.rs`), and where
//!    it can for several masks together ([`Compiled::masks`], `words.rs`).
//! 3. A leaf whose summary excludes the filter is passed over (`leaf.rs`).
//! 4. The counts of living rows per code bound how many rows match ([`Compiled::at_most`]), and tell
//!    with a sample how many probably do ([`Compiled::likely_share`], `share.rs`).
//!
//! [`vstream_attribute::Filter::holds`] is the definition; `tests.rs` compares.

mod leaf;
mod mask;
mod share;
#[cfg(test)]
mod tests;
mod words;

use std::ops::Bound;

use vstream_attribute::{AttributeKind, Filter, Range, Test};

pub(crate) use self::leaf::{Summaries, SUMMARY_STEPS};
pub(crate) use self::mask::Lanes;
pub(crate) use self::share::Counts;
pub(crate) use self::words::{Masks, Words, PIECE};
use crate::rows::{ordered, Dictionary, RowChunk, Texts, Visible, WORD};

/// Codes are compared one by one up to so many.
const FEW: usize = 8;

/// A filter in the codes of one dictionary, for readers that pinned their moment before.
#[derive(Clone, Debug)]
pub(crate) enum Compiled {
    All,
    Nothing,
    And(Vec<Compiled>),
    Or(Vec<Compiled>),
    AtLeast(usize, Vec<Compiled>),
    Not(Box<Compiled>),
    Column(u16, Check),
    /// Sorted.
    Ids(Box<[u64]>),
}

/// A condition on the values of a column.
#[derive(Clone, Debug)]
pub(crate) enum Check {
    Exists,
    /// The keyword has one of these codes.
    Keyword(Codes),
    /// The list has one of these codes.
    Any(Codes),
    /// The list has all of these codes, of which there is one at least.
    All(Box<[u32]>),
    /// The list is empty.
    Empty,
    /// The number is in the range, both ends included.
    Within(Numbers, i64, i64),
    /// The number is one of these, sorted.
    OneOf(Numbers, Box<[i64]>),
    Truth(bool),
}

/// Which columns of numbers a condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Whole numbers and timestamps.
    Whole,
    /// Floats, in the order of [`ordered`].
    Float,
}

/// A set of codes, not empty.
#[derive(Clone, Debug)]
pub(crate) enum Codes {
    Few(Vec<u32>),
    /// Sorted.
    Many(Vec<u32>),
}

impl Codes {
    fn new(mut codes: Vec<u32>) -> Option<Codes> {
        codes.sort_unstable();
        codes.dedup();
        match codes.len() {
            0 => None,
            1..=FEW => Some(Codes::Few(codes)),
            _ => Some(Codes::Many(codes)),
        }
    }

    pub(crate) fn list(&self) -> &[u32] {
        match self {
            Codes::Few(codes) | Codes::Many(codes) => codes,
        }
    }

    #[inline]
    fn has(&self, code: u32) -> bool {
        match self {
            Codes::Few(codes) => codes.contains(&code),
            Codes::Many(codes) => codes.binary_search(&code).is_ok(),
        }
    }
}

impl Numbers {
    fn has(self, kind: AttributeKind) -> bool {
        match self {
            Numbers::Whole => matches!(kind, AttributeKind::I64 | AttributeKind::Timestamp),
            Numbers::Float => kind == AttributeKind::F64,
        }
    }
}

impl Compiled {
    /// Compiles a filter. The caller has pinned its moment: see `rows/dictionary.rs`.
    pub(crate) fn new(filter: &Filter, dictionary: &Dictionary) -> Compiled {
        compile(filter, &dictionary.texts())
    }

    /// Codes of which every matching row has one; `None` if there are no such codes.
    ///
    /// * `weight`: of two conditions that both must hold, the one of less weight is chosen.
    pub(crate) fn required(&self, weight: &impl Fn(u32) -> u64) -> Option<Vec<u32>> {
        let weigh = |codes: &Vec<u32>| codes.iter().map(|&code| weight(code)).sum::<u64>();
        match self {
            Compiled::Nothing => Some(Vec::new()),
            Compiled::And(all) => {
                all.iter().filter_map(|part| part.required(weight)).min_by_key(weigh)
            }
            Compiled::Or(any) => {
                let parts: Option<Vec<Vec<u32>>> =
                    any.iter().map(|part| part.required(weight)).collect();
                parts.map(|parts| parts.concat())
            }
            Compiled::Column(_, Check::Keyword(codes) | Check::Any(codes)) => {
                Some(codes.list().to_vec())
            }
            Compiled::Column(_, Check::All(codes)) => {
                codes.iter().copied().min_by_key(|&code| weight(code)).map(|code| vec![code])
            }
            _ => None,
        }
    }

    /// Adds the columns that masks read, each once.
    pub(crate) fn add_columns(&self, columns: &mut Vec<u16>) {
        match self {
            Compiled::And(of) | Compiled::Or(of) | Compiled::AtLeast(_, of) => {
                of.iter().for_each(|part| part.add_columns(columns));
            }
            Compiled::Not(part) => part.add_columns(columns),
            Compiled::Column(column, _) if !columns.contains(column) => columns.push(*column),
            Compiled::Column(..) | Compiled::All | Compiled::Nothing | Compiled::Ids(_) => {}
        }
    }

    /// The lanes that match. Lanes that are not published may be among them.
    #[inline]
    pub(crate) fn mask(&self, lanes: Lanes<'_>) -> u32 {
        mask::of(self, lanes)
    }
}

impl RowChunk {
    /// Calls `visit` with the lane of every visible row that matches.
    #[inline]
    pub(crate) fn for_each_match(
        &self,
        filter: Option<&Compiled>,
        visible: Visible,
        mut visit: impl FnMut(usize),
    ) {
        let len = self.len();
        let Some(filter) = filter else {
            (0..len).filter(|&lane| self.is_visible(lane, visible)).for_each(visit);
            return;
        };
        for word in 0..len.div_ceil(WORD) {
            let mut mask = filter.mask(Lanes::of(self, word));
            while mask != 0 {
                let lane = word * WORD + mask.trailing_zeros() as usize;
                mask &= mask - 1;
                if lane < len && self.is_visible(lane, visible) {
                    visit(lane);
                }
            }
        }
    }
}

fn compile(filter: &Filter, texts: &Texts<'_>) -> Compiled {
    let each = |of: &[Filter]| of.iter().map(|one| compile(one, texts)).collect::<Vec<_>>();
    match filter {
        Filter::And(all) => {
            let mut parts = each(all);
            parts.retain(|part| !matches!(part, Compiled::All));
            if parts.iter().any(|part| matches!(part, Compiled::Nothing)) {
                return Compiled::Nothing;
            }
            match parts.len() {
                0 => Compiled::All,
                1 => parts.swap_remove(0),
                _ => Compiled::And(parts),
            }
        }
        Filter::Or(any) => {
            let mut parts = each(any);
            parts.retain(|part| !matches!(part, Compiled::Nothing));
            if parts.iter().any(|part| matches!(part, Compiled::All)) {
                return Compiled::All;
            }
            match parts.len() {
                0 => Compiled::Nothing,
                1 => parts.swap_remove(0),
                _ => Compiled::Or(parts),
            }
        }
        Filter::AtLeast(0, _) => Compiled::All,
        Filter::AtLeast(least, of) if *least > of.len() => Compiled::Nothing,
        Filter::AtLeast(least, of) => Compiled::AtLeast(*least, each(of)),
        Filter::Not(one) => match compile(one, texts) {
            Compiled::All => Compiled::Nothing,
            Compiled::Nothing => Compiled::All,
            Compiled::Not(inner) => *inner,
            other => Compiled::Not(Box::new(other)),
        },
        Filter::Attribute(column, test) => match check_of(*column, test, texts) {
            Some(check) => Compiled::Column(*column, check),
            None => Compiled::Nothing,
        },
        Filter::Ids(ids) if ids.is_empty() => Compiled::Nothing,
        Filter::Ids(ids) => Compiled::Ids(ids.as_slice().into()),
    }
}

/// The condition in codes; `None` if no row can meet it.
fn check_of(column: u16, test: &Test, texts: &Texts<'_>) -> Option<Check> {
    let code_of = |text: &String| texts.code(column, text);
    let known = |of: &[String]| Codes::new(of.iter().filter_map(code_of).collect());
    Some(match test {
        Test::Exists => Check::Exists,
        Test::KeywordIn(of) => Check::Keyword(known(of)?),
        Test::KeywordPrefix(prefix) => {
            Check::Keyword(Codes::new(texts.codes_with_prefix(column, prefix).collect())?)
        }
        Test::AnyOf(of) => Check::Any(known(of)?),
        // Every list has all of no keywords, an empty one too.
        Test::AllOf(of) if of.is_empty() => Check::All(Box::default()),
        Test::AllOf(of) => Check::All(of.iter().map(code_of).collect::<Option<_>>()?),
        Test::IsEmpty => Check::Empty,
        Test::I64In(numbers) if numbers.is_empty() => return None,
        Test::I64In(numbers) => Check::OneOf(Numbers::Whole, numbers.as_slice().into()),
        Test::I64Range(range) => {
            let (least, most) = ends(range, |x| x, |x| x)?;
            Check::Within(Numbers::Whole, least, most)
        }
        Test::F64In(numbers) => Check::OneOf(Numbers::Float, floats(numbers)?),
        Test::F64Range(range) => {
            let is_nan = |bound: &Bound<f64>| match bound {
                Bound::Included(x) | Bound::Excluded(x) => x.is_nan(),
                Bound::Unbounded => false,
            };
            if is_nan(&range.from) || is_nan(&range.to) {
                return None;
            }
            // Both zeros are one number, and two neighbours in the order.
            let lower = |x: f64| ordered(if x == 0.0 { -0.0 } else { x });
            let upper = |x: f64| ordered(if x == 0.0 { 0.0 } else { x });
            let (least, most) = ends(range, lower, upper)?;
            Check::Within(Numbers::Float, least, most)
        }
        Test::Bool(wanted) => Check::Truth(*wanted),
    })
}

/// The least and the most number of a range; `None` if it holds none.
///
/// * `lower`, `upper`: the least and the most number that equals a bound.
fn ends<T: Copy>(
    range: &Range<T>,
    lower: impl Fn(T) -> i64,
    upper: impl Fn(T) -> i64,
) -> Option<(i64, i64)> {
    let least = match range.from {
        Bound::Unbounded => i64::MIN,
        Bound::Included(from) => lower(from),
        Bound::Excluded(from) => upper(from).checked_add(1)?,
    };
    let most = match range.to {
        Bound::Unbounded => i64::MAX,
        Bound::Included(to) => upper(to),
        Bound::Excluded(to) => lower(to).checked_sub(1)?,
    };
    (least <= most).then_some((least, most))
}

/// Floats in their order; `None` if there are none.
fn floats(numbers: &[f64]) -> Option<Box<[i64]>> {
    let mut out = Vec::with_capacity(numbers.len() + 1);
    for &number in numbers.iter().filter(|number| !number.is_nan()) {
        if number == 0.0 {
            out.push(ordered(-0.0));
        }
        out.push(ordered(if number == 0.0 { 0.0 } else { number }));
    }
    out.sort_unstable();
    out.dedup();
    (!out.is_empty()).then(|| out.into())
}
