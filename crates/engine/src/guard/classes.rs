//! Classes of k: audits of one number of neighbours say little about a hundred times as many.

/// The largest k of each class.
pub(super) const CLASSES: [usize; 7] = [1, 3, 10, 32, 112, 320, 1000];
/// The class of ten neighbours, the most usual k.
pub(super) const USUAL: usize = 2;

/// The class of `k`.
pub(super) fn class_of(k: usize) -> usize {
    CLASSES.partition_point(|&most| most < k).min(CLASSES.len() - 1)
}
