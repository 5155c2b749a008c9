//! The leaves of a segment that it still serves. A compaction may take some leaves out of a segment and
//! leave the others.

use std::ops::Range;
use std::sync::Arc;

/// Some leaves of a segment, by their position in its directory. The default is all of them.
///
/// The rows of all other leaves are deleted in the segment's delete bitmap too, so that who counts or
/// reads rows needs only that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Served(Option<Arc<[Range<u32>]>>);

impl Served {
    /// The leaves of some intervals. `None` if the intervals are not in order, if one is empty, if two
    /// of them meet, or if there is none.
    pub(crate) fn only(intervals: &[Range<u32>]) -> Option<Served> {
        let is_empty = intervals.iter().any(Range::is_empty);
        let are_apart = intervals.windows(2).all(|pair| pair[0].end < pair[1].start);
        let fits = !intervals.is_empty() && !is_empty && are_apart;
        fits.then(|| Served(Some(intervals.into())))
    }

    /// The intervals; none if all leaves are served.
    pub(crate) fn intervals(&self) -> &[Range<u32>] {
        self.0.as_deref().unwrap_or(&[])
    }

    /// True if it serves the leaf.
    pub(crate) fn contains(&self, leaf: u32) -> bool {
        let Some(intervals) = &self.0 else { return true };
        let next = intervals.partition_point(|interval| interval.end <= leaf);
        intervals.get(next).is_some_and(|interval| interval.start <= leaf)
    }

    /// True if it serves one of some successive leaves.
    pub(crate) fn meets(&self, leaves: &Range<u32>) -> bool {
        let Some(intervals) = &self.0 else { return true };
        let next = intervals.partition_point(|interval| interval.end <= leaves.start);
        intervals.get(next).is_some_and(|interval| interval.start < leaves.end)
    }

    /// What is served of a segment with `leaves` of them when some, ascending, are no more. `None` if
    /// nothing is.
    pub(crate) fn without(&self, leaves: u32, gone: &[u32]) -> Option<Served> {
        let mut gone = gone.iter().peekable();
        let mut left: Vec<Range<u32>> = Vec::new();
        for leaf in (0..leaves).filter(|&leaf| self.contains(leaf)) {
            while gone.next_if(|&&next| next < leaf).is_some() {}
            if gone.peek() == Some(&&leaf) {
                continue;
            }
            match left.last_mut() {
                Some(last) if last.end == leaf => last.end += 1,
                _ => left.push(leaf..leaf + 1),
            }
        }
        if left.first() == Some(&(0..leaves)) {
            return Some(Served::default());
        }
        Served::only(&left)
    }

    /// The leaves of a segment with `leaves` of them that it does not serve, in order. `None` if an
    /// interval ends after its last leaf.
    pub(crate) fn others(&self, leaves: u32) -> Option<Vec<Range<u32>>> {
        let intervals = self.intervals();
        if intervals.last().is_some_and(|last| last.end > leaves) {
            return None;
        }
        let Some(first) = intervals.first() else { return Some(Vec::new()) };
        let starts = intervals.iter().map(|interval| interval.end);
        let ends = intervals[1..].iter().map(|interval| interval.start).chain([leaves]);
        let gaps = std::iter::once(0..first.start).chain(starts.zip(ends).map(|(a, b)| a..b));
        Some(gaps.filter(|gap| !gap.is_empty()).collect())
    }
}

#[cfg(test)]
mod tests {
    use vstream_vector::SplitMix;

    use super::Served;

    #[test]
    fn what_is_served_and_what_is_not_are_all_leaves() {
        let mut random = SplitMix(61);
        for round in 0..500 {
            let leaves = 1 + random.below(60) as u32;
            let is_served: Vec<bool> = (0..leaves).map(|_| random.below(3) > 0).collect();
            let mut intervals: Vec<std::ops::Range<u32>> = Vec::new();
            for leaf in (0..leaves).filter(|&leaf| is_served[leaf as usize]) {
                match intervals.last_mut() {
                    Some(last) if last.end == leaf => last.end += 1,
                    _ => intervals.push(leaf..leaf + 1),
                }
            }
            let Some(served) = Served::only(&intervals) else {
                assert!(intervals.is_empty(), "round {round}: {intervals:?}");
                continue;
            };
            assert!((0..leaves).all(|leaf| served.contains(leaf) == is_served[leaf as usize]));
            let gone: Vec<u32> = (0..leaves).filter(|_| random.below(3) == 0).collect();
            let left = served.without(leaves, &gone);
            let serves = |leaf| left.as_ref().is_some_and(|left| left.contains(leaf));
            let is_left = |leaf: u32| is_served[leaf as usize] && !gone.contains(&leaf);
            assert!((0..leaves).all(|leaf| serves(leaf) == is_left(leaf)), "round {round}");
            let others = served.others(leaves).expect("within the segment");
            for leaf in 0..leaves {
                let is_other = others.iter().any(|gap| gap.contains(&leaf));
                assert_eq!(is_other, !is_served[leaf as usize], "round {round}, leaf {leaf}");
            }
            let end = intervals.last().map_or(0, |last| last.end);
            assert_eq!(served.others(end - 1), None, "an interval beyond the last leaf");
        }
    }

    #[test]
    fn the_default_serves_all() {
        assert_eq!(Served::default().others(7), Some(Vec::new()));
        assert_eq!(Served::only(&[]), None);
    }

    #[test]
    #[expect(
        clippy::reversed_empty_ranges,
        clippy::single_range_in_vec_init,
        reason = "such lists are what is refused"
    )]
    fn intervals_out_of_order_are_refused() {
        for wrong in [vec![3..3], vec![4..2], vec![0..2, 2..4], vec![5..6, 1..2], vec![0..4, 3..5]]
        {
            assert_eq!(Served::only(&wrong), None, "{wrong:?}");
        }
    }
}
