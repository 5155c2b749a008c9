//! Merges the rows of several partitions as a job does: one row per id, then the k nearest, ties by id.
//!
//! Partitions answer at moments of their own, so a row that goes from one to another between these may be
//! found in both. Of its copies the highest version is taken: it is the newest. A partition whose k rows
//! hold older copies, however, has left out rows for them that would now be in the answer. Where such a row
//! may be missing, the nearest copy of each id is taken instead: then k rows of a partition that are nearer
//! than a row of it stay k rows that are nearer, and each copy was the row of its id when its partition
//! answered.

use std::cmp::Ordering;
use std::collections::hash_map::Entry;
use std::collections::HashMap;

use vstream_attribute::FieldsBuffer;

/// A row of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The user's id; the low half of its hash where ids are texts.
    pub id: u64,
    /// Version.
    pub version: u64,
    /// Smaller is nearer.
    pub distance: f32,
    /// String id, and what was asked for of attributes and payload.
    pub fields: FieldsBuffer,
    /// Whether attributes and payload did not fit into the answer.
    pub is_left_out: bool,
}

/// Which copy of a row is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Take {
    Newest,
    Nearest,
}

/// The k nearest rows of all partitions.
///
/// * `parts`: of each partition its k nearest rows or all that it has, ascending.
///
/// Cost: O(n log n) for n rows in all, twice if a row may be missing.
pub(crate) fn rank(parts: Vec<Vec<Row>>, k: usize) -> Vec<Row> {
    let (mut kept, reach) = pass(&parts, k, Take::Newest);
    let far = kept.last().map(|(part, place)| parts[*part][*place].distance);
    if far.is_some_and(|far| far > reach) {
        kept = pass(&parts, k, Take::Nearest).0;
    }
    let mut parts: Vec<Vec<Option<Row>>> =
        parts.into_iter().map(|rows| rows.into_iter().map(Some).collect()).collect();
    kept.iter().filter_map(|(part, place)| parts[*part][*place].take()).collect()
}

/// Part and place of the k nearest rows, and how far all parts reach of which a copy was dropped.
fn pass(parts: &[Vec<Row>], k: usize, take: Take) -> (Vec<(usize, usize)>, f32) {
    let reaches = parts.iter().map(|rows| match rows.last() {
        Some(last) if rows.len() >= k => last.distance,
        _ => f32::INFINITY,
    });
    let reaches: Vec<f32> = reaches.collect();
    let mut reach = f32::INFINITY;
    let mut copies: HashMap<u64, (usize, usize)> = HashMap::new();
    for (part, rows) in parts.iter().enumerate() {
        for (place, row) in rows.iter().enumerate() {
            match copies.entry(row.id) {
                Entry::Vacant(entry) => drop(entry.insert((part, place))),
                Entry::Occupied(mut entry) => {
                    let (other_part, other_place) = *entry.get();
                    let other = &parts[other_part][other_place];
                    let order = row.version.cmp(&other.version);
                    if order != Ordering::Equal {
                        // One of the two is dropped, in whose place its partition has left out another.
                        let dropped = if order.is_gt() { other_part } else { part };
                        reach = reach.min(reaches[dropped]);
                    }
                    let is_taken = match take {
                        Take::Newest => order.is_gt(),
                        Take::Nearest => row.distance < other.distance,
                    };
                    if is_taken {
                        entry.insert((part, place));
                    }
                }
            }
        }
    }
    let mut kept: Vec<(usize, usize)> = copies.into_values().collect();
    kept.sort_by(|left, right| {
        let (left, right) = (&parts[left.0][left.1], &parts[right.0][right.1]);
        // Zero has two signs and one place.
        let near = (left.distance + 0.0).total_cmp(&(right.distance + 0.0));
        near.then(left.id.cmp(&right.id))
    });
    kept.truncate(k);
    (kept, reach)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: u64, version: u64, distance: f32) -> Row {
        Row { id, version, distance, ..Row::default() }
    }

    fn ranked(parts: &[&[Row]], k: usize) -> Vec<(u64, f32)> {
        let rows = rank(parts.iter().map(|rows| rows.to_vec()).collect(), k);
        rows.iter().map(|row| (row.id, row.distance)).collect()
    }

    #[test]
    fn the_nearest_come_first_and_ties_by_id() {
        let left = [row(9, 1, 1.0), row(3, 1, 2.0)];
        let right = [row(4, 1, 0.0), row(2, 1, 2.0), row(7, 1, 5.0)];
        assert_eq!(ranked(&[&left, &right], 4), [(4, 0.0), (9, 1.0), (2, 2.0), (3, 2.0)]);
        assert_eq!(ranked(&[&[row(2, 1, 0.0)], &[row(1, 1, -0.0)]], 2), [(1, -0.0), (2, 0.0)]);
        assert!(ranked(&[&[], &[]], 3).is_empty());
    }

    #[test]
    fn the_newest_copy_counts() {
        let old = [row(5, 1, 0.1), row(6, 1, 0.2)];
        let new = [row(5, 2, 0.9)];
        assert_eq!(ranked(&[&old, &new], 3), [(6, 0.2), (5, 0.9)]);
        assert_eq!(ranked(&[&new, &old], 3), [(6, 0.2), (5, 0.9)]);
    }

    /// The first partition had more rows than two: one of them may be nearer than 0.9.
    #[test]
    fn where_a_row_may_be_missing_the_nearest_copy_counts() {
        let old = [row(5, 1, 0.1), row(6, 1, 0.2)];
        let new = [row(5, 2, 0.9), row(8, 1, 1.0)];
        assert_eq!(ranked(&[&old, &new], 2), [(5, 0.1), (6, 0.2)]);
    }
}
