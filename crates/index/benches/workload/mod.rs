//! Rows and the clock that the benches of searches share.

use rustix::time::{clock_gettime, ClockId};
use vstream_vector::SplitMix;

/// CPU time of this thread in microseconds.
pub fn thread_us() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// 1,000 centres, and rows that differ from them in 24 directions.
pub fn draw(number: usize, dimension: usize, base: &[f32]) -> Vec<f32> {
    let mut random = SplitMix(17 ^ (number as u64) << 8);
    let (centres, directions) = base.split_at(1_000 * dimension);
    let mut row = centres[number % 1_000 * dimension..][..dimension].to_vec();
    for direction in directions.chunks_exact(dimension) {
        let along = 0.35 * random.normal();
        row.iter_mut().zip(direction).for_each(|(x, d)| *x += along * d);
    }
    row
}
