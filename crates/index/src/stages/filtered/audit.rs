//! How far a search of rows that match has to go: audits, and the margin that follows from them.

use vstream_attribute::Filter;
use vstream_vector::{Neighbor, TopK};

use super::{
    begin, go_on, need, norm_of, FilteredProbe, FilteredScratch, FilteredStats, FoundRow, Places,
    Stop, FEW_MATCHES, PATIENCE,
};
use crate::settings::IndexSettings;

/// Standard deviations by which audits lower estimates: they are to miss nothing.
const AUDIT_DEVIATIONS: f32 = 4.0;

/// Visits every leaf, and says which [`Stop::theta`] a search must have, at least, to find each true
/// neighbour; the needs replace `needs`. A row in no leaf needs none: it is negative infinity.
///
/// The audit goes through the rounds of a search that never stops. So it knows of every earlier round
/// after which a search would have stopped, and with which margins. It misses hardly a neighbour. It
/// costs the codes of all matches. Only the patience of `probe.stop` is read. If the search is exact,
/// there are no needs.
///
/// Errors: those of the places.
pub fn audit_filtered<E>(
    places: &mut Places<'_, '_, E>,
    probe: &FilteredProbe<'_>,
    scratch: &mut FilteredScratch,
    out: &mut TopK,
    needs: &mut Vec<f32>,
) -> Result<FilteredStats, E> {
    let (stats, found) = visit_all(places, probe, scratch, out)?;
    needs.clear();
    if !stats.is_exact {
        let needed = |found: Option<FoundRow>| found.map_or(f32::NEG_INFINITY, |row| row.needed);
        needs.extend(found.into_iter().map(needed));
    }
    Ok(stats)
}

/// Visits every leaf. Returns, for each row of the answer, where and when it was found; `None` if it is
/// in no leaf that was visited.
fn visit_all<E>(
    places: &mut Places<'_, '_, E>,
    probe: &FilteredProbe<'_>,
    scratch: &mut FilteredScratch,
    out: &mut TopK,
) -> Result<(FilteredStats, Vec<Option<FoundRow>>), E> {
    let stop = Stop { theta: f32::INFINITY, ..probe.stop };
    let probe = FilteredProbe { stop, ..*probe };
    let mut stats = begin(places, &probe)?;
    if stats.at_most <= FEW_MATCHES {
        stats.is_exact = true;
        return Ok((stats, Vec::new()));
    }
    let mut seen: Vec<FoundRow> = Vec::new();
    let see = &mut |_, found: FoundRow| seen.push(found);
    go_on(places, &probe, AUDIT_DEVIATIONS, (scratch, &mut stats), out, see)?;
    let of_row = |row: &Neighbor| seen.iter().rev().find(|found| found.row.id == row.id).copied();
    Ok((stats, out.rows().iter().map(of_row).collect()))
}

/// The margin with which a share `target` of neighbours is found, given what each needs; 1 without any.
/// Sorts `needs`.
pub fn theta_for(needs: &mut [f32], target: f64) -> f32 {
    needs.sort_unstable_by(f32::total_cmp);
    let last = needs.len().saturating_sub(1);
    let at = (needs.len() as f64 * target).ceil() as usize;
    needs.get(at.saturating_sub(1).min(last)).copied().unwrap_or(1.0)
}

/// The margin for `k` neighbours, from rows of the places as queries, each without itself.
///
/// It is for queries with filters of any kind, so it takes no account of what patience finds beyond the
/// margin: a neighbour needs the distance of its leaf over that of the k-th.
///
/// * `samples`: id and vector of each row; 200 to 300 of them.
/// * `target`: somewhat above the recall that is wanted: 0.96 to 0.97 for 0.95.
///
/// Cost: an audit per sample. Errors: those of the places.
pub fn calibrate<E>(
    places: &mut Places<'_, '_, E>,
    settings: IndexSettings,
    samples: &[(u64, Vec<f32>)],
    (k, target): (usize, f64),
) -> Result<Stop, E> {
    let (mut scratch, mut out) = (FilteredScratch::default(), TopK::new(k));
    let mut needs = Vec::new();
    let stop = Stop { theta: f32::INFINITY, patience: PATIENCE };
    for (id, vector) in samples {
        let others = Filter::Not(Box::new(Filter::Ids(vec![*id])));
        let probe =
            FilteredProbe { settings, vector, k, filter: Some(&others), stop, by_share: &[] };
        let (_, found) = visit_all(places, &probe, &mut scratch, &mut out)?;
        // The distance of the farthest is that of the k-th, or of the last match.
        let kth = out.rows().iter().map(|row| row.distance).fold(f32::NEG_INFINITY, f32::max);
        let needed = |found: FoundRow| need(settings, norm_of(vector), found.cost, kth);
        needs.extend(found.into_iter().map(|row| row.map_or(f32::NEG_INFINITY, needed)));
    }
    Ok(Stop { theta: theta_for(&mut needs, target), patience: PATIENCE })
}
