//! Joins ranked lists by the places of their rows (Cormack, Clarke and Büttcher, 2009).

use std::cmp::Ordering;
use std::collections::HashMap;

use super::best::{by_score, AnswerRow, Best};
use crate::error::{QueryError, QueryErrorKind};

/// The constant of the paper, used by most systems.
pub const FUSION_CONSTANT: f64 = 60.0;

/// Ids in the order of a ranking, best first, and how much the list counts.
#[derive(Clone, Copy, Debug)]
pub struct RankedList<'a> {
    /// Ids; if one occurs twice, its first place counts.
    pub ids: &'a [u64],
    /// 0 or more, finite; 1 for lists that count alike.
    pub weight: f64,
}

/// A row of joined lists.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fused {
    /// Sum over the lists that have the row of weight ⁄ (constant + place); places count from 1.
    pub score: f64,
    /// The id.
    pub id: u64,
}

impl AnswerRow for Fused {
    fn order(&self, other: &Fused) -> Ordering {
        by_score(self.score, other.score).then(self.id.cmp(&other.id))
    }
}

/// Joins lists by reciprocal rank fusion: the `k` best rows by [`Fused::score`], ties by id. A large
/// `constant` ([`FUSION_CONSTANT`]) makes first places count less.
///
/// Errors: `WrongType` for a weight or a constant that is negative or not finite. Cost: linear in
/// the lists.
pub fn reciprocal_rank_fusion(
    lists: &[RankedList<'_>],
    constant: f64,
    k: usize,
) -> Result<Vec<Fused>, QueryError> {
    let weights = lists.iter().map(|list| list.weight);
    if let Some(bad) = weights.chain([constant]).find(|one| !one.is_finite() || *one < 0.0) {
        let what = format!("Fusion takes finite numbers of 0 or more, not {bad}.");
        return Err(QueryError::new(QueryErrorKind::WrongType, 0, what));
    }
    // The last list that counted for an id, so that its second place in a list does not.
    let mut scores: HashMap<u64, (usize, f64)> = HashMap::new();
    for (number, list) in (1..).zip(lists) {
        for (place, id) in (1u64..).zip(list.ids) {
            let (last, score) = scores.entry(*id).or_insert((0, 0.0));
            if *last != number {
                *last = number;
                *score += list.weight / (constant + place as f64);
            }
        }
    }
    let mut best = Best::new(k);
    for (id, (_, score)) in scores {
        best.offer(Fused { score, id });
    }
    Ok(best.finish())
}
