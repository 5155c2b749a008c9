//! Which segments are merged: a pure function of their sizes.
//!
//! 1. A segment of which most rows are gone is written anew.
//! 2. Four segments of one size class are merged; a class is four times as large as the one below.
//!    So a row is written once per class: log4 of how much larger the collection is than memory.
//!
//! Not by time: rows carry no event time yet, so there is no time to bucket by.

use std::sync::Arc;

use super::{Places, Sealed};

/// Segments of a class that are merged together at least.
const TOGETHER: usize = 4;
/// Segments that are merged together at most.
const TOGETHER_MAX: usize = 8;
/// Rows below which sizes are not told apart.
const ROWS_MIN: u64 = 1024;

/// What is merged.
pub(crate) struct Plan {
    pub(super) sources: Vec<Arc<Sealed>>,
    /// Rows that died at or before this sequence are left out.
    pub(super) since: u64,
}

/// What the planner knows of a segment.
#[derive(Clone, Copy, Debug)]
struct Size {
    rows: u64,
    dead: u64,
}

impl Places {
    /// What is to be merged, if anything. `since`: sequence up to which marks are published.
    pub(crate) fn plan(&self, since: u64) -> Option<Plan> {
        let view = self.view();
        let size = |sealed: &Arc<Sealed>| Size {
            rows: sealed.segment.rows(),
            dead: sealed.deletes.marked(),
        };
        let sizes: Vec<Size> = view.sealed.iter().map(size).collect();
        let chosen = choose(&sizes);
        let sources = chosen.into_iter().map(|at| view.sealed[at].clone()).collect::<Vec<_>>();
        // Only marks that are published count: others would be found dead again and again.
        let shrinks = |sealed: &Arc<Sealed>| sealed.marks(since).1 * 2 >= sealed.segment.rows();
        let pays = sources.len() > 1 || sources.first().is_some_and(shrinks);
        pays.then_some(Plan { sources, since })
    }
}

/// Positions of the segments to be merged; none if it does not pay.
fn choose(sizes: &[Size]) -> Vec<usize> {
    if let Some(worn) = sizes.iter().position(|size| size.dead * 2 > size.rows) {
        return vec![worn];
    }
    let class = |size: &Size| ((size.rows - size.dead).max(ROWS_MIN) / ROWS_MIN).ilog(4);
    let mut classes: Vec<u32> = sizes.iter().map(class).collect();
    classes.sort_unstable();
    classes.dedup();
    for wanted in classes {
        let members = (0..sizes.len()).filter(|&at| class(&sizes[at]) == wanted);
        let members: Vec<usize> = members.take(TOGETHER_MAX).collect();
        if members.len() >= TOGETHER {
            return members;
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::{choose, Size};

    fn live(rows: u64) -> Size {
        Size { rows, dead: 0 }
    }

    #[test]
    fn four_of_a_class_are_merged_the_smallest_first() {
        assert!(choose(&[]).is_empty());
        assert!(choose(&[live(500), live(600), live(700)]).is_empty());
        assert_eq!(choose(&[live(500), live(600), live(700), live(0)]), [0, 1, 2, 3]);
        let sizes = [90_000, 70_000, 5_000, 80_000, 5_000, 6_000, 65_536, 7_000].map(live);
        assert_eq!(choose(&sizes), [2, 4, 5, 7]);
        let mixed = [live(1_000_000), live(70_000), live(2_000), live(5_000)];
        assert!(choose(&mixed).is_empty());
        assert_eq!(choose(&[live(100); 20]).len(), 8);
    }

    #[test]
    fn a_segment_of_the_dead_goes_first() {
        let worn = Size { rows: 1_000, dead: 501 };
        assert_eq!(choose(&[live(1), live(1), live(1), live(1), worn]), [4]);
        assert!(choose(&[Size { rows: 1_000, dead: 500 }]).is_empty());
    }

    /// Writing a row again and again: how often, when memory of one unit is flushed n times.
    #[test]
    fn a_row_is_written_once_per_class() {
        let (mut sizes, mut written, n) = (Vec::new(), 0, 4_096u64);
        for _ in 0..n {
            sizes.push(live(ROWS));
            written += ROWS;
            loop {
                let chosen = choose(&sizes);
                if chosen.is_empty() {
                    break;
                }
                let rows = chosen.iter().map(|&at| sizes[at].rows).sum();
                let mut at = 0;
                sizes.retain(|_| {
                    at += 1;
                    !chosen.contains(&(at - 1))
                });
                sizes.push(live(rows));
                written += rows;
            }
        }
        const ROWS: u64 = 4_096;
        let amplification = written as f64 / (n * ROWS) as f64;
        assert!(amplification <= 7.0, "{amplification}: log4 of {n} is 6");
        assert!(sizes.len() <= 18, "{} segments", sizes.len());
    }
}
