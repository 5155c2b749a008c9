//! The steps of each kind. A kind that permutes the rows returns their order.

use std::ops::Range;

use super::clusters::{self, Clusters};
use super::Script;
use crate::runbook::Matrix;

/// Part `part` of `parts` nearly equal parts of `range`.
fn part(range: &Range<usize>, part: usize, parts: usize) -> Range<usize> {
    let at = |i: usize| range.start + range.len() * i / parts;
    at(part)..at(part + 1)
}

pub(super) fn sliding_window(script: &mut Script, rows: usize) -> Option<Vec<u32>> {
    window(script, &(0..rows), 40, 20);
    None
}

/// Inserts `batches`, deletes each when `kept` later ones have come, searches after each.
fn window(script: &mut Script, rows: &Range<usize>, batches: usize, kept: usize) {
    for i in 0..batches {
        script.insert(part(rows, i, batches));
        if i >= kept {
            script.delete(part(rows, i - kept, batches));
        }
        script.search();
    }
}

pub(super) fn expiration(script: &mut Script, rows: usize) -> Option<Vec<u32>> {
    const BATCHES: usize = 100;
    const LONG: usize = 50;
    const SHORT: usize = 10;
    let rows = 0..rows;
    let mut expires = vec![None; BATCHES];
    for i in 0..BATCHES {
        script.insert(part(&rows, i, BATCHES));
        expires[i] = match script.chance.below(19) {
            0 => None,
            1..=3 => Some(i + LONG),
            _ => Some(i + SHORT),
        };
        let due: Vec<usize> = (0..i).filter(|&batch| expires[batch] == Some(i)).collect();
        for batch in due {
            script.delete(part(&rows, batch, BATCHES));
        }
        script.search();
    }
    None
}

pub(super) fn replace(script: &mut Script, rows: usize) -> Option<Vec<u32>> {
    const PARTS: usize = 20;
    let tags = 0..rows / 2;
    script.insert(tags.clone());
    script.search();
    for i in 0..PARTS {
        let tags = part(&tags, i, PARTS);
        let first_row = rows / 2 + tags.start;
        script.replace(tags, first_row);
        script.search();
    }
    None
}

pub(super) fn upsert_same_ids(script: &mut Script, rows: usize) -> Option<Vec<u32>> {
    const ROUNDS: usize = 10;
    let half = rows / 2;
    let tags = 0..half / ROUNDS;
    script.insert(0..half);
    script.search();
    for round in 0..ROUNDS {
        script.replace(tags.clone(), half + round * tags.len());
        script.search();
        script.insert(tags.clone());
        script.search();
    }
    None
}

pub(super) fn clustered64(script: &mut Script, base: &Matrix) -> Option<Vec<u32>> {
    const SHARES: [u32; 5] = [100, 15, 10, 5, 3];
    let Clusters { order, ranges } = clusters::find(base, 64, script.chance.next());
    let chance = &mut script.chance;
    let shares: Vec<Vec<f64>> =
        ranges.iter().map(|_| clusters::shuffled_dirichlet(&SHARES, chance)).collect();
    let mut survivors: Vec<Range<usize>> =
        ranges.iter().map(|range| range.start..range.start).collect();
    for round in 0..SHARES.len() {
        for ((range, shares), survivor) in ranges.iter().zip(&shares).zip(&mut survivors) {
            let wanted = (range.len() as f64 * shares[round]).round() as usize;
            let is_last = round + 1 == SHARES.len();
            let end = if is_last { range.end } else { range.end.min(survivor.end + wanted) };
            if script.insert(survivor.end..end) {
                script.search();
            }
            survivor.end = end;
        }
        for survivor in &mut survivors {
            let share = 0.5 + 0.4 * f64::from(script.chance.unit());
            let end = survivor.start + (survivor.len() as f64 * share) as usize;
            if script.delete(survivor.start..end) {
                script.search();
            }
            survivor.start = end;
        }
    }
    Some(order)
}

pub(super) fn drift(script: &mut Script, base: &Matrix) -> Option<Vec<u32>> {
    let Clusters { order, .. } = clusters::find(base, 64, script.chance.next());
    window(script, &(0..base.rows()), 48, 12);
    Some(order)
}

pub(super) fn hotspot(script: &mut Script, base: &Matrix) -> Option<Vec<u32>> {
    const PARTS: usize = 30;
    let Clusters { order, ranges } = clusters::find(base, 8, script.chance.next());
    let hot = ranges.iter().max_by_key(|range| range.len()).expect("a cluster").clone();
    let mut cold = [&order[..hot.start], &order[hot.end..]].concat();
    clusters::shuffle(&mut cold, &mut script.chance);
    let others = cold.len();
    let late = others - (hot.len() / 9).min(others / 2)..others;
    script.insert(0..late.start);
    script.search();
    for i in 0..PARTS {
        script.insert(part(&(others..base.rows()), i, PARTS));
        script.insert(part(&late, i, PARTS));
        script.search();
    }
    cold.extend_from_slice(&order[hot]);
    Some(cold)
}

pub(super) fn delete_cluster(script: &mut Script, base: &Matrix) -> Option<Vec<u32>> {
    let Clusters { order, ranges } = clusters::find(base, 16, script.chance.next());
    for range in &ranges {
        script.insert(range.clone());
    }
    script.search();
    let kept = base.rows() / 10;
    let mut victims: Vec<usize> = (0..ranges.len()).collect();
    clusters::shuffle(&mut victims, &mut script.chance);
    let first = ranges[victims[0]].clone();
    for victim in victims {
        let Range { start, end } = ranges[victim];
        // The last one goes in part, so that just a tenth of the rows is left.
        let end = end.min(start + (script.live.len() - kept));
        if script.delete(start..end) {
            script.search();
        }
    }
    script.insert(first);
    script.search();
    Some(order)
}
