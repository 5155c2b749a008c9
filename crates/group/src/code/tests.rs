use vstream_quantize::rabitq::Rotation;
use vstream_vector::{kernels, Metric, SplitMix};

use super::{encode_leaf, form, round_up, widen_half, CodeKind, QueryCodes};

/// Rows around a point away from the origin, so that the centroid matters.
fn rows(random: &mut SplitMix, n: usize, dimension: usize, spread: f32) -> Vec<Vec<f32>> {
    let middle: Vec<f32> = (0..dimension).map(|_| 3.0 * random.normal()).collect();
    let row = |random: &mut SplitMix| -> Vec<f32> {
        middle.iter().map(|x| x + spread * random.normal()).collect()
    };
    (0..n).map(|_| row(random)).collect()
}

fn distance(metric: Metric, query: &[f32], row: &[f32]) -> f32 {
    match metric {
        Metric::L2 => kernels::l2_squared(query, row),
        Metric::Cosine => 1.0 - kernels::inner_product(query, row),
        Metric::InnerProduct => -kernels::inner_product(query, row),
    }
}

/// Every distance lies in its interval, and no row is nearer than its leaf says.
fn check(kind: CodeKind, metric: Metric, dimension: usize, spread: f32, seed: u64) -> (f32, f32) {
    let mut random = SplitMix(seed);
    let rotation = Rotation::new(dimension, seed);
    let padded = rotation.padded();
    let n = 150;
    let mut rows = rows(&mut random, n, dimension, spread);
    rows[7] = rows[3].clone();
    let mut rotated = vec![0.0; n * padded];
    for (row, out) in rows.iter().zip(rotated.chunks_exact_mut(padded)) {
        rotation.apply(row, out);
    }
    let leaf = encode_leaf(kind, form(metric), &rotated, padded);
    let centroid: Vec<f32> =
        leaf.steps.iter().map(|&s| leaf.low + leaf.step * f32::from(s)).collect();
    let (mut widest, mut farthest) = (0.0f32, 0.0f32);
    for number in 0..20 {
        let mut query = rows[number].clone();
        query.iter_mut().for_each(|x| *x += 0.3 * spread * random.normal());
        let codes = QueryCodes::new(metric, &rotation, &query, 7.0);
        let beside = codes.beside(&centroid, leaf.reach, (leaf.add_max, leaf.scale_max));
        let mut intervals = Vec::new();
        codes.scan(kind, beside, &leaf.codes, n, &mut intervals);
        let seconds = leaf.seconds.chunks(kind.second_bytes(padded).max(1));
        for (row, second) in rows.iter().zip(seconds) {
            let (exact, interval) = (distance(metric, &query, row), codes.bound(beside, second));
            assert!(interval.least <= exact && exact <= interval.most, "seed {seed}, {metric:?}");
        }
        assert_eq!(intervals.len(), n, "seed {seed}");
        for (row, interval) in rows.iter().zip(&intervals) {
            let exact = distance(metric, &query, row);
            assert!(
                interval.least <= exact && exact <= interval.most,
                "seed {seed}, {kind:?}, {metric:?}: {exact} outside of {interval:?}"
            );
            assert!(beside.least <= exact, "seed {seed}: {exact} below {}", beside.least);
            widest = widest.max(interval.most - interval.least);
            farthest = farthest.max(exact.abs());
        }
    }
    (widest, farthest)
}

#[test]
fn distances_lie_in_their_intervals() {
    for kind in [CodeKind::Signs, CodeKind::Nibbles] {
        for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
            for (dimension, spread) in [(64, 1.0), (100, 1e-3), (384, 0.5), (1536, 20.0)] {
                for seed in 0..3 {
                    check(kind, metric, dimension, spread, 1000 * seed + dimension as u64);
                }
            }
        }
    }
}

/// Rows that are all equal have codes of zeros.
#[test]
fn equal_rows_have_intervals() {
    for kind in [CodeKind::Signs, CodeKind::Nibbles] {
        check(kind, Metric::L2, 384, 0.0, 5);
        check(kind, Metric::InnerProduct, 64, 1e-30, 6);
    }
}

/// An interval that is always the whole line would pass the test above.
#[test]
fn intervals_of_nibbles_are_narrow() {
    let (widest, farthest) = check(CodeKind::Nibbles, Metric::L2, 384, 1.0, 9);
    assert!(widest < 0.5 * farthest, "{widest} of {farthest}");
}

#[test]
fn halves_are_never_below() {
    let mut random = SplitMix(3);
    for _ in 0..100_000 {
        let x = f32::from_bits((random.next() >> 33) as u32 % 0x7f00_0000);
        let half = widen_half(round_up(x));
        assert!(half >= x && (x == 0.0 || half <= x * 1.008 + 1e-38), "{x} became {half}");
    }
}
