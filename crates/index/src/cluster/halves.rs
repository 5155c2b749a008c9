//! Divides the rows of a leaf in two halves.
//!
//! 1. Do 2-means over a sample, beginning with two of its rows.
//! 2. Do one round over all rows.
//! 3. Cut the rows where the two means are equally near. If a side has less than a quarter, cut at
//!    that quantile instead, so that equal vectors and outliers are divided too.
//!
//! The sample costs a third of what rounds over all rows cost, and the means of the last round
//! decide.

use vstream_vector::{kernels, SplitMix};

const SAMPLE: usize = 128;
const ROUNDS: usize = 6;

/// The side of each of `rows` (`n × dimension`, n ≥ 1), 0 or 1. Each side has at least a quarter.
pub(super) fn two_sides(rows: &[f32], dimension: usize, seed: u64) -> Vec<u8> {
    let n = rows.len() / dimension;
    let mut random = SplitMix(seed);
    let row = |at: usize| &rows[at * dimension..][..dimension];
    let sample: Vec<usize> = match n {
        0..=SAMPLE => (0..n).collect(),
        _ => (0..SAMPLE).map(|at| at * n / SAMPLE + random.below(n / SAMPLE)).collect(),
    };
    let first = random.below(sample.len());
    let second = (first + 1 + random.below((sample.len() - 1).max(1))) % sample.len();
    let mut cut = Cut::between(row(sample[first]), row(sample[second]));
    let mut sides = Vec::new();
    for _ in 0..ROUNDS {
        let before = std::mem::take(&mut sides);
        cut = cut.after(sample.iter().map(|&at| row(at)), &mut sides);
        if sides == before {
            break;
        }
    }
    cut = cut.after(rows.chunks_exact(dimension), &mut sides);
    let mut order: Vec<(f32, u32)> =
        rows.chunks_exact(dimension).map(|row| cut.along(row)).zip(0..).collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let natural = order.partition_point(|&(along, _)| along < 0.0);
    let is_one_place = order[0].0 == order[n - 1].0;
    let cut_at = if is_one_place { n / 2 } else { natural.clamp(n / 4, n - n / 4) };
    let mut sides = vec![0; n];
    for &(_, row) in &order[cut_at..] {
        sides[row as usize] = 1;
    }
    sides
}

/// The plane between two means.
struct Cut {
    means: [Vec<f32>; 2],
    /// The vector from the first mean to the second.
    direction: Vec<f32>,
    /// Position of the plane along `direction`.
    middle: f32,
}

impl Cut {
    fn between(first: &[f32], second: &[f32]) -> Cut {
        let direction: Vec<f32> = second.iter().zip(first).map(|(b, a)| b - a).collect();
        let (a, b) = (first, second);
        let middle = (kernels::inner_product(a, &direction[..])
            + kernels::inner_product(b, &direction[..]))
            / 2.0;
        Cut { means: [first.to_vec(), second.to_vec()], direction, middle }
    }

    /// Half the difference of the squared distances to the means; below 0 on the side of the first.
    fn along(&self, row: &[f32]) -> f32 {
        kernels::inner_product(row, &self.direction[..]) - self.middle
    }

    /// Writes the sides of `rows` to `sides`, and returns the plane between the means of the two sides.
    /// A side without a row keeps its mean.
    fn after<'a>(&self, rows: impl Iterator<Item = &'a [f32]>, sides: &mut Vec<bool>) -> Cut {
        let mut sums = [vec![0.0f32; self.direction.len()], vec![0.0f32; self.direction.len()]];
        let mut counts = [0.0f32; 2];
        sides.clear();
        for row in rows {
            let side = self.along(row) >= 0.0;
            sides.push(side);
            let side = usize::from(side);
            sums[side].iter_mut().zip(row).for_each(|(sum, &x)| *sum += x);
            counts[side] += 1.0;
        }
        for ((sum, count), mean) in sums.iter_mut().zip(counts).zip(&self.means) {
            if count == 0.0 {
                sum.copy_from_slice(mean);
            } else {
                sum.iter_mut().for_each(|x| *x /= count);
            }
        }
        Cut::between(&sums[0], &sums[1])
    }
}

#[cfg(test)]
mod tests;
