//! Compares all groups of a store with what must be there.

use std::ops::RangeInclusive;

use vstream_group::{GroupQuery, GroupReader, GroupStore, OwnedRow, With};
use vstream_vector::{kernels, Metric, SplitMix};

use super::history::{digest, direction, History, Rows, DIMENSION, GROUPS};
use crate::check::{Breach, Violation};

/// Rows of a page while all rows are read.
const PAGE: usize = 50;
/// Neighbours of a query.
const K: usize = 10;
/// Part by which two sums of the same products may differ.
const ROUNDOFF: f32 = 1e-5;

/// A violation by the store's own error.
pub(super) fn refused(what: &str, error: impl std::fmt::Display) -> Violation {
    Violation::new(Breach::Refused, format!("{what}: {error}"))
}

/// Finds after which write of `promise` a store is, and compares every row of every group; returns
/// the last such write.
///
/// Errors: it is after none, a row differs from what was written, or a search finds others.
pub(super) fn compare(
    store: &GroupStore,
    history: &History,
    promise: RangeInclusive<u64>,
) -> Result<u64, Violation> {
    let reader = store.reader();
    let found = read(&reader).map_err(|e| refused("its rows cannot be read", e))?;
    let sum = digest(found.iter().map(|(group, row)| ((*group, row.id), row.version)));
    let Some(number) = promise.clone().rev().find(|&at| history.digest_after(at) == sum) else {
        return Err(nowhere(&found, history, promise));
    };
    let rows = history.rows_after(number);
    if found.len() != rows.len() {
        let what = format!("{} rows after write {number}, not {}", found.len(), rows.len());
        return Err(Violation::new(Breach::Duplicate, what));
    }
    for (group, row) in &found {
        let wanted = history.fields(row.version);
        let is_right = rows.get(&(*group, row.id)) == Some(&row.version)
            && (row.name.as_str(), row.check) == (wanted.name, wanted.check)
            && row.attributes() == wanted.attributes
            && row.payload.as_deref() == wanted.payload
            && row.vector == history.stored(row.version);
        if !is_right {
            let what = format!(
                "row {} of {} is not that of write {} after write {number}",
                row.id, GROUPS[*group], row.version
            );
            return Err(Violation::new(Breach::Ghost, what));
        }
    }
    search(&reader, history, &rows, number)?;
    Ok(number)
}

/// Every row of every group of the lab, in pages.
fn read(reader: &GroupReader) -> Result<Vec<(usize, OwnedRow)>, vstream_group::Error> {
    let mut found = Vec::new();
    for (at, group) in GROUPS.into_iter().enumerate() {
        let mut after = None;
        loop {
            let page = reader.scroll(group, None, after, PAGE, With::ALL)?;
            after = page.last().map(|row| row.id);
            found.extend(page.into_iter().map(|row| (at, row)));
            if after.is_none() {
                break;
            }
        }
    }
    Ok(found)
}

/// Says how rows differ from those of the nearest promised write.
fn nowhere(
    found: &[(usize, OwnedRow)],
    history: &History,
    promise: RangeInclusive<u64>,
) -> Violation {
    let sure = history.rows_after(*promise.start());
    let later = history.rows_after(*promise.end());
    let is_found = |key: &(usize, u64), version: u64| {
        found.iter().any(|(group, row)| (*group, row.id) == *key && row.version >= version)
    };
    let is_lost = |(key, version): &(&(usize, u64), &u64)| {
        // A row that stays until the end of the promise may not be gone in between.
        later.get(*key) == Some(version) && !is_found(key, **version)
    };
    if let Some(((group, id), version)) = sure.iter().find(is_lost) {
        let what = format!("row {id} of {} of write {version} is gone", GROUPS[*group]);
        return Violation::new(Breach::Lost, format!("{what}, promised {promise:?}"));
    }
    let what = format!("{} rows are those of no write in {promise:?}", found.len());
    Violation::new(Breach::Ghost, what)
}

/// Exact searches in two groups: distances in order, and no row of another group.
fn search(
    reader: &GroupReader,
    history: &History,
    rows: &Rows,
    number: u64,
) -> Result<(), Violation> {
    let mut random = SplitMix(number ^ 0x9eed);
    let metric = history.settings.metric;
    let query: Vec<f32> = match rows.values().nth(random.below(rows.len().max(1))) {
        Some(&row) => history.stored(row),
        None => vec![1.0; DIMENSION],
    };
    for group in [0, random.below(GROUPS.len())] {
        let answer = reader
            .search(GROUPS[group], &GroupQuery::nearest(&query, K))
            .map_err(|e| Violation::new(Breach::Unread, format!("no answer: {e}")))?;
        let own = direction(metric, &query);
        let distance = |row: u64| {
            let stored = history.stored(row);
            match metric {
                Metric::L2 => kernels::l2_squared(&own, &stored),
                Metric::Cosine => 1.0 - kernels::inner_product(&own, &stored),
                Metric::InnerProduct => -kernels::inner_product(&own, &stored),
            }
        };
        let of_group = rows.iter().filter(|((of, _), _)| *of == group);
        let mut nearest: Vec<f32> = of_group.map(|(_, row)| distance(*row)).collect();
        nearest.sort_by(f32::total_cmp);
        nearest.truncate(K);
        let found: Vec<f32> = answer
            .rows
            .iter()
            .map(|hit| match rows.get(&(group, hit.row.id)) == Some(&hit.row.version) {
                true => hit.distance.unwrap_or(f32::NAN),
                // A row of another group, or of another write.
                false => f32::NAN,
            })
            .collect();
        let is_same =
            |(a, b): (&f32, &f32)| (a - b).abs() <= ROUNDOFF * (1.0 + a.abs().max(b.abs()));
        if found.len() != nearest.len() || !found.iter().zip(&nearest).all(is_same) {
            let what = format!("{found:?} in {}, not {nearest:?} after {number}", GROUPS[group]);
            return Err(Violation::new(Breach::Ghost, what));
        }
    }
    Ok(())
}
