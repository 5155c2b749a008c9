//! Finds strays: leaves much farther from the other leaves of their node than those are from each
//! other.
//!
//! A stray would move the mean of its node away from all the others, so that no query ranks them. It
//! would also spread the steps of their byte centroids so wide that they all look alike. So a stray
//! gets a node of its own.
//!
//! 1. Centre: the mean of the half of the centroids that are nearest to the mean of all.
//! 2. Scale: the median distance to that centre.
//! 3. Strays are the leaves beyond [`FAR`] times the scale, if they are few. Many such leaves are data
//!    of several scales, which 2-means divides.

use std::sync::Arc;

use vstream_vector::kernels;

use super::leaf::Leaf;

/// Distance of a stray, in median distances. Practically no centroid around one centre is so far, even
/// if the tails are heavy.
const FAR: f32 = 8.0;
/// Fewer leaves than this have no scale.
const LEAVES_MIN: usize = 8;
/// At most one leaf in so many is a stray.
const SHARE: usize = 8;

/// Removes the strays from the leaves of a node and returns them.
pub(super) fn take_strays(leaves: &mut Vec<Arc<Leaf>>) -> Vec<Arc<Leaf>> {
    if leaves.len() < LEAVES_MIN {
        return Vec::new();
    }
    let half = leaves.len() / 2;
    let mut center = mean(leaves.iter());
    let mut gaps = gaps(leaves, &center);
    gaps.select_nth_unstable_by(half, |a, b| a.0.total_cmp(&b.0));
    center = mean(gaps[..half].iter().map(|&(_, position)| &leaves[position]));
    gaps = self::gaps(leaves, &center);
    let (_, median, _) = gaps.select_nth_unstable_by(half, |a, b| a.0.total_cmp(&b.0));
    let bound = median.0 * FAR * FAR;
    let mut strays: Vec<usize> =
        gaps.iter().filter(|(gap, _)| *gap > bound).map(|&(_, position)| position).collect();
    if strays.len() * SHARE > leaves.len() {
        return Vec::new();
    }
    strays.sort_unstable_by(|a, b| b.cmp(a));
    strays.into_iter().map(|position| leaves.swap_remove(position)).collect()
}

fn mean<'a>(leaves: impl Iterator<Item = &'a Arc<Leaf>> + Clone) -> Vec<f32> {
    let n = leaves.clone().count() as f32;
    let mut mean = Vec::new();
    for leaf in leaves {
        mean.resize(leaf.centroid.len(), 0.0f32);
        mean.iter_mut().zip(&leaf.centroid).for_each(|(mean, &x)| *mean += x / n);
    }
    mean
}

/// Squared distances of the leaves to `center`, with their positions.
fn gaps(leaves: &[Arc<Leaf>], center: &[f32]) -> Vec<(f32, usize)> {
    let gap = |leaf: &Arc<Leaf>| kernels::l2_squared(&leaf.centroid, center);
    leaves.iter().map(gap).zip(0..).collect()
}
