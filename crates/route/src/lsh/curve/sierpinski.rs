//! The Sierpinski order in n dimensions: recursive bisection of simplices.
//!
//! In 2 dimensions the Sierpinski-Knopp curve cuts a square into two right triangles. It halves
//! each triangle recursively and walks from one end of its longest edge to the other. This module
//! does the same in n dimensions:
//!
//! 1. Cut the cube into n! Kuhn simplices, one for each descending order of the coordinates. Walk
//!    them in the order of Steinhaus, Johnson and Trotter, so that consecutive ones share a face.
//!    The walk passes the common diagonal forward and backward in turn.
//! 2. Halve a simplex (z0 … zn) with tag d at the middle z' of the edge z0–zd (J. M. Maubach,
//!    "Local bisection refinement for n-simplicial grids", SIAM J. Sci. Comput. 16, 1995) into (z0
//!    … z(d−1) z' z(d+1) … zn) and (z1 … zd z' z(d+1) … zn), with tag d − 1, or n after 1. The half
//!    with z0 comes first. The second half of a simplex with tag 1 is walked backward. In 2
//!    dimensions this makes the walk continuous.
//! 3. One inner point in general position represents a cell of the grid. The position of the cell
//!    is the number of its Kuhn simplex, followed by one bit for each halving, n · levels in all.
//!
//! Positions are distinct: after n · levels halvings a simplex lies inside one cell. Cells that
//! agree in the Kuhn simplex and the first n · j bits lie in a cube of side 2^(levels − j), because
//! n halvings map the set of Kuhn simplices onto itself at half the size. Positions have gaps: a
//! cell holds n! of the smallest simplices, and one of them represents it. From 3 dimensions on the
//! walk may jump inside the face that two halves share.
//!
//! The algorithm keeps only barycentric coordinates, as integers, so nothing is rounded.

use crate::lsh::HASHES_MAX;

/// Number of Kuhn simplices of the cube, n!, saturating.
pub(super) fn roots(dimensions: usize) -> u128 {
    (1..=dimensions as u128).fold(1, u128::saturating_mul)
}

/// Position of `cell` in a grid of `2^levels` cells per axis.
pub(super) fn position(cell: &[u32], levels: u32) -> u64 {
    let n = cell.len();
    // Units per cell. The point has coordinate i + 1 in dimension i, always in the lower half of
    // the cell. So no two coordinates are equal, and none is the mirror image of another.
    let unit = 2 * (n as u64 + 1);
    let mut point = [0u64; HASHES_MAX + 6];
    for (i, (p, &x)) in point.iter_mut().zip(cell).enumerate() {
        *p = u64::from(x) * unit + i as u64 + 1;
    }
    let mut order = [0usize; HASHES_MAX + 6];
    order.iter_mut().enumerate().for_each(|(i, o)| *o = i);
    let order = &mut order[..n];
    order.sort_unstable_by_key(|&i| std::cmp::Reverse(point[i]));

    // Barycentric coordinates of the point in its Kuhn simplex: the differences of the sorted
    // coordinates, from the side of the cube down to zero.
    let mut weights = [0u64; HASHES_MAX + 7];
    let mut above = unit << levels;
    for (weight, &i) in weights.iter_mut().zip(order.iter()) {
        *weight = above - point[i];
        above = point[i];
    }
    weights[n] = above;

    let root = trotter_rank(order);
    let backward = root % 2 == 1;
    root << (n as u32 * levels) | path(&mut weights[..=n], n as u32 * levels, backward)
}

/// The halvings on the way to a point, one bit for each.
fn path(weights: &mut [u64], halvings: u32, mut backward: bool) -> u64 {
    let n = weights.len() - 1;
    let mut tag = n;
    let mut path = 0u64;
    for _ in 0..halvings {
        let (first, last) = (weights[0], weights[tag]);
        let second_half = last > first;
        path = path << 1 | u64::from(second_half != backward);
        // p = a·z0 + b·zd is (a − b)·z0 + 2b·z' in the first half, (b − a)·zd + 2a·z' otherwise.
        if second_half {
            weights.copy_within(1..tag, 0);
            weights[tag - 1] = last - first;
            weights[tag] = 2 * first;
            backward ^= tag == 1;
        } else {
            weights[0] = first - last;
            weights[tag] = 2 * last;
        }
        tag = if tag == 1 { n } else { tag - 1 };
    }
    path
}

/// Rank of a permutation in the order of Steinhaus, Johnson and Trotter.
fn trotter_rank(order: &[usize]) -> u64 {
    let mut rank = 0u64;
    for element in 0..order.len() {
        let place = order.iter().take_while(|&&e| e != element).filter(|&&e| e < element).count();
        // In even turns the element passes the smaller ones from right to left.
        let turn = if rank.is_multiple_of(2) { element - place } else { place };
        rank = rank * (element as u64 + 1) + turn as u64;
    }
    rank
}
