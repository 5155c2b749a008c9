//! What is known of a row.

use vstream_attribute::{Attributes, ValueRef};
use vstream_vector::Metric;

use crate::text::Bm25Scores;

/// Most values of attributes that one expression asks for.
pub(super) const LOOKUPS_MAX: usize = 32;

/// Closeness of a row at this distance: larger is closer.
///
/// | metric | closeness | range |
/// |---|---|---|
/// | `l2` | 1 ⁄ (1 + √distance): of the distance, not of its square | 0 to 1 |
/// | `cosine` | 1 ⁄ (1 + distance) = 1 ⁄ (2 − cos) | 1⁄3 to 1 |
/// | `inner_product` | −distance: the product itself | any |
///
/// Vespa computes the same for `euclidean`, `prenormalized-angular` and `dotproduct`. A distance
/// that rounding made negative counts as 0 under the first two.
pub fn closeness(metric: Metric, distance: f32) -> f64 {
    let distance = f64::from(distance);
    match metric {
        Metric::L2 => 1.0 / (1.0 + distance.max(0.0).sqrt()),
        Metric::Cosine => 1.0 / (1.0 + distance.max(0.0)),
        Metric::InnerProduct => -distance,
    }
}

/// A row that is to be ranked.
#[derive(Clone, Copy, Debug, Default)]
pub struct RankRow<'a> {
    /// Values of its attributes.
    pub attributes: Attributes<'a>,
    /// Distance to the query vector; `None` if the query has none.
    pub distance: Option<f32>,
    /// Scores of the text query, and the number of the row in them; `None` if the query has no text.
    pub bm25: Option<(&'a Bm25Scores, usize)>,
}

/// A value of an attribute that a program asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lookup {
    pub column: u16,
    pub wanted: Wanted,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wanted {
    /// The value as a number; for kinds that are no numbers, whether there is one.
    Value,
    /// 1 if the keyword is this, or the list has it; else 0.
    Keyword(String),
}

/// The values of one row, by lookup.
pub(super) struct Found {
    values: [f64; LOOKUPS_MAX],
    present: u32,
}

impl Found {
    /// Reads the values. `by_column` are lookups with their numbers, by column. Cost: one pass over
    /// the values of the row up to the last column that is asked for.
    pub fn read(by_column: &[(u8, Lookup)], attributes: Attributes<'_>) -> Found {
        let mut found = Found { values: [0.0; LOOKUPS_MAX], present: 0 };
        let mut wanted = by_column;
        if wanted.is_empty() {
            return found;
        }
        for (column, value) in attributes.iter() {
            while let Some(((number, lookup), rest)) = wanted.split_first() {
                if lookup.column > column {
                    break;
                }
                if lookup.column == column {
                    found.values[usize::from(*number)] = lookup.wanted.number(&value);
                    found.present |= 1 << number;
                }
                wanted = rest;
            }
            if wanted.is_empty() {
                break;
            }
        }
        found
    }

    #[inline]
    pub fn get(&self, lookup: u8) -> Option<f64> {
        (self.present >> lookup & 1 == 1).then(|| self.values[usize::from(lookup)])
    }
}

impl Wanted {
    fn number(&self, value: &ValueRef<'_>) -> f64 {
        match (self, value) {
            (Wanted::Keyword(wanted), ValueRef::Keyword(text)) => f64::from(*wanted == **text),
            (Wanted::Keyword(wanted), ValueRef::Keywords(list)) => {
                f64::from(list.contains(&wanted.as_str()))
            }
            (Wanted::Keyword(_), _) => 0.0,
            (Wanted::Value, ValueRef::I64(number) | ValueRef::Timestamp(number)) => *number as f64,
            (Wanted::Value, ValueRef::F64(number)) => *number,
            (Wanted::Value, ValueRef::Bool(is_true)) => f64::from(*is_true),
            (Wanted::Value, ValueRef::Keyword(_) | ValueRef::Keywords(_) | ValueRef::Text(_)) => {
                1.0
            }
        }
    }
}
