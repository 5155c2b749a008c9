//! How many partitions a query visits, measured up to 256 and extrapolated beyond.

/// Partitions and the mean of those that a query visits: 1,024 cells, a recall target of 0.98,
/// 20,000 rows of GloVe as the sample and 200,000 that are placed, 256 shards.
/// `crates/route/tests/it/partitions.rs` measures it again.
pub const MEASURED: [(u64, f64); 8] = [
    (1, 1.0),
    (4, 1.92),
    (8, 3.09),
    (16, 5.51),
    (32, 9.64),
    (64, 17.18),
    (128, 30.62),
    (256, 54.86),
];

/// The mean number of partitions that a query visits, 1 to `partitions`.
///
/// Between measured points, and beyond the last one, it is a power of the partitions. The power
/// beyond is that of the last octave.
pub fn fan_out(partitions: u64) -> f64 {
    let last = MEASURED.len() - 2;
    let after = MEASURED.iter().position(|&(p, _)| p >= partitions.max(2));
    let from = after.map_or(last, |after| after - 1).min(last);
    let ((p0, f0), (p1, f1)) = (MEASURED[from], MEASURED[from + 1]);
    let power = (f1 / f0).ln() / (p1 as f64 / p0 as f64).ln();
    f0 * (partitions as f64 / p0 as f64).powf(power)
}
