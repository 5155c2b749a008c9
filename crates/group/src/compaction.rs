//! Compaction: which runs become one, and how.
//!
//! [`plan`] is pure. Runs are in the order of age, and only neighbours are merged, so a newer run
//! always hides older ones. `fanout` runs of similar size become one; a run takes part in about
//! `log(rows / rows of a flush) / log(fanout)` merges. That is the tiered order; the oldest run plays
//! the part of the last level, where tombstones end.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use vstream_store::{Error as StoreError, ErrorKind};

use crate::accept::{same_hash, GroupHash};
use crate::error::Error;
use crate::run::{GroupWalk, LoadedPart, Run, RunSummary, RunWriter};

/// A run is similar to newer ones if it is not larger than this part of their sum, over 100.
const SIMILAR_PERCENT: u64 = 150;

/// Chooses neighbours to merge.
///
/// * `bytes`: lengths of the runs, newest first.
pub(crate) fn plan(bytes: &[u64], fanout: usize) -> Option<Range<usize>> {
    (0..bytes.len()).find_map(|from| {
        let (mut to, mut sum) = (from + 1, bytes[from]);
        while to < bytes.len() && bytes[to] <= sum.saturating_mul(SIMILAR_PERCENT) / 100 {
            sum = sum.saturating_add(bytes[to]);
            to += 1;
        }
        (to - from >= fanout).then_some(from..to)
    })
}

/// The rows of the present group in one of the merged runs.
struct Rows {
    part: Option<LoadedPart>,
    at: usize,
}

/// Merges runs into one.
///
/// * `inputs`: newest first.
/// * `is_bottom`: true if there is no older run, so that dropped groups have nothing to hide.
/// * `forget_before`: tombstones that were made before this second are forgotten. The caller gives
///   0 unless the runs hold every row there is: tombstones hide rows of older runs, and older rows that came late
///   in newer ones.
/// * `given_up`: looked at before each group; if true, the merge fails with `Unavailable`.
///
/// Cost: one pass over the inputs, past the cache; memory of a part per input.
pub(crate) fn merge(
    inputs: &[Arc<Run>],
    is_bottom: bool,
    forget_before: u32,
    mut writer: RunWriter,
    given_up: &AtomicBool,
) -> Result<RunSummary, Error> {
    let mut walks: Vec<GroupWalk> = inputs.iter().map(Run::walk).collect();
    loop {
        let mut next: Option<GroupHash> = None;
        for walk in &mut walks {
            if let Some(group) = walk.group()? {
                next = Some(next.map_or(group, |least| least.min(group)));
            }
        }
        let Some(group) = next else { return writer.finish() };
        if given_up.load(Ordering::Relaxed) {
            let what = "the merge was given up";
            return Err(StoreError::new(ErrorKind::Unavailable, "", what).into());
        }
        merge_group(&mut walks, group, (is_bottom, forget_before), &mut writer)?;
    }
}

fn merge_group(
    walks: &mut [GroupWalk],
    group: GroupHash,
    (is_bottom, forget_before): (bool, u32),
    writer: &mut RunWriter,
) -> Result<(), Error> {
    let mut holders: Vec<usize> = Vec::with_capacity(walks.len());
    for (at, walk) in walks.iter_mut().enumerate() {
        if walk.group()? == Some(group) {
            holders.push(at);
        }
    }
    if let [only] = *holders {
        return take_over(&mut walks[only], group, (is_bottom, forget_before), writer);
    }
    let mut name: Option<String> = None;
    let mut dropped = false;
    let mut rows: Vec<Rows> = Vec::with_capacity(holders.len());
    let mut ended = Vec::new();
    for &at in &holders {
        let walk = &mut walks[at];
        let entry = walk.part_of(group)?.expect("a holder has a part");
        let opened = walk.open(entry)?;
        match &name {
            Some(name) if name != opened.group() => return Err(same_hash(name)),
            Some(_) => {}
            None => name = Some(opened.group().to_owned()),
        }
        if dropped {
            // A newer run dropped the group: nothing here is alive.
            while walk.part_of(group)?.is_some() {}
            ended.push(at);
        } else {
            dropped |= entry.drops;
            let part = Some(opened.load(writer.has_codes_of(opened.shape()))?);
            rows.push(Rows { part, at: 0 });
        }
    }
    holders.retain(|at| !ended.contains(at));
    writer.begin(group, &name.expect("some run has the group"), dropped && !is_bottom)?;
    while let Some(id) = least_id(&rows) {
        let mut newest: Option<usize> = None;
        for (place, entry) in
            rows.iter().enumerate().filter_map(|(i, rows)| Some((i, rows.entry()?)))
        {
            let version = |place: usize| rows[place].entry().map(|entry| entry.version);
            if entry.id == id && newest.is_none_or(|known| Some(entry.version) > version(known)) {
                newest = Some(place);
            }
        }
        let newest = &rows[newest.expect("a run has the least id")];
        let part = newest.part.as_ref().expect("a part with an entry");
        push(part, newest.at, forget_before, writer)?;
        for (rows, &at) in rows.iter_mut().zip(&holders) {
            if rows.entry().is_some_and(|entry| entry.id == id) {
                rows.advance(&mut walks[at], group, writer)?;
            }
        }
    }
    Ok(())
}

/// Writes entry `at` of a part, unless it is a tombstone that is forgotten.
fn push(
    part: &LoadedPart,
    at: usize,
    forget_before: u32,
    writer: &mut RunWriter,
) -> Result<(), Error> {
    let row = part.row(at);
    if row.content.is_some() || row.deleted_at >= forget_before {
        writer.push_coded(row, part.coded(at))?;
    }
    Ok(())
}

/// Merges a group that one run alone has: its parts are copied as they are, where nothing in them is
/// forgotten.
fn take_over(
    walk: &mut GroupWalk,
    group: GroupHash,
    (is_bottom, forget_before): (bool, u32),
    writer: &mut RunWriter,
) -> Result<(), Error> {
    let mut is_first = true;
    while let Some(entry) = walk.part_of(group)? {
        let part = walk.open(entry)?;
        if std::mem::take(&mut is_first) {
            writer.begin(group, part.group(), entry.drops && !is_bottom)?;
        }
        let is_whole = entry.entries == entry.rows || forget_before == 0;
        if entry.entries == 0 || (is_whole && writer.copy(&part)?) {
            continue;
        }
        let part = part.load(writer.has_codes_of(part.shape()))?;
        for at in 0..part.entries.len() {
            push(&part, at, forget_before, writer)?;
        }
    }
    Ok(())
}

fn least_id(rows: &[Rows]) -> Option<u64> {
    rows.iter().filter_map(|rows| Some(rows.entry()?.id)).min()
}

impl Rows {
    fn entry(&self) -> Option<&crate::run::IdEntry> {
        self.part.as_ref()?.entries.get(self.at)
    }

    fn advance(
        &mut self,
        walk: &mut GroupWalk,
        group: GroupHash,
        writer: &RunWriter,
    ) -> Result<(), Error> {
        self.at += 1;
        if self.entry().is_none() {
            self.at = 0;
            self.part = None;
            if let Some(entry) = walk.part_of(group)? {
                let part = walk.open(entry)?;
                self.part = Some(part.load(writer.has_codes_of(part.shape()))?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::plan;

    #[test]
    fn merges_neighbours_of_similar_size() {
        assert_eq!(plan(&[64, 64, 64], 4), None);
        assert_eq!(plan(&[64, 64, 64, 64], 4), Some(0..4));
        assert_eq!(plan(&[10, 10, 10, 10, 900], 4), Some(0..4));
        assert_eq!(plan(&[10, 250, 260, 240, 255, 4000], 4), Some(1..5));
        assert_eq!(plan(&[], 2), None);
    }

    /// Rows are written once by the flush, and then once per tier.
    #[test]
    fn a_row_is_merged_some_four_times_in_a_thousand_flushes() {
        let (mut runs, mut written) = (Vec::new(), 0u64);
        for _ in 0..1000 {
            runs.insert(0, 64u64);
            written += 64;
            while let Some(range) = plan(&runs, 4) {
                let sum: u64 = runs[range.clone()].iter().sum();
                written += sum;
                runs.splice(range, [sum]);
            }
        }
        let amplification = written as f64 / 64_000.0;
        assert!((2.0..6.0).contains(&amplification), "{amplification}");
        assert!(runs.len() <= 16, "{} runs", runs.len());
    }
}
