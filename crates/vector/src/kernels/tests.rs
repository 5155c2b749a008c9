//! Every SIMD form equals the scalar one within `BOUND` of the sum of its terms' sizes.

use super::*;
use crate::random::SplitMix;

/// Allowed difference, relative to `Σ |termᵢ|`.
const BOUND: f32 = 1e-5;
const SEED: u64 = 7;
const LARGE: [usize; 6] = [255, 768, 960, 1024, 1536, 4096];

/// Every level of this target that this machine can run; the others are named on standard error.
fn sets() -> Vec<&'static KernelSet> {
    let (runnable, missing): (Vec<_>, Vec<_>) =
        SETS.iter().partition(|set| set.level.is_available());
    for set in missing {
        eprintln!("SKIPPED: this machine lacks {}", set.level.name());
    }
    runnable
}

fn floats(random: &mut SplitMix, n: usize) -> Vec<f32> {
    (0..n).map(|_| random.unit() * 4.0 - 2.0).collect()
}

fn bytes(random: &mut SplitMix, n: usize) -> Vec<u8> {
    (0..n).map(|_| random.next() as u8).collect()
}

fn check(name: &str, set: &KernelSet, n: usize, found: f32, expected: f32, size: f32) {
    assert!(
        (found - expected).abs() <= BOUND * size,
        "{name} at {} and length {n}: {found} instead of {expected} (seed {SEED})",
        set.level.name(),
    );
}

fn check_pair(set: &KernelSet, a: &[f32], b: &[f32], row: &[u8]) {
    let n = a.len();
    let wide: Vec<f32> = row.iter().map(|&x| f32::from(x)).collect();
    let size = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| (x * y).abs()).sum::<f32>();
    // SAFETY: `sets` gave only levels that this machine has.
    let found = unsafe {
        [
            (set.l2_squared)(a, b),
            (set.inner_product)(a, b),
            (set.l2_squared_u8)(a, row),
            (set.inner_product_u8)(a, row),
        ]
    };
    let l2 = scalar::l2_squared(a, b);
    check("l2_squared", set, n, found[0], l2, l2);
    check("inner_product", set, n, found[1], scalar::inner_product(a, b), size(a, b));
    let l2 = scalar::l2_squared_u8(a, row);
    check("l2_squared_u8", set, n, found[2], l2, l2);
    check("inner_product_u8", set, n, found[3], scalar::inner_product_u8(a, row), size(a, &wide));
}

#[test]
fn scalar_equals_double_precision() {
    let mut random = SplitMix(SEED);
    for n in (0..=130).chain(LARGE) {
        let (a, b, row) = (floats(&mut random, n), floats(&mut random, n), bytes(&mut random, n));
        let terms = |f: &dyn Fn(f64, f64) -> f64, y: &dyn Fn(usize) -> f64| {
            let terms: Vec<f64> = (0..n).map(|i| f(f64::from(a[i]), y(i))).collect();
            (terms.iter().sum::<f64>() as f32, terms.iter().map(|t| t.abs()).sum::<f64>() as f32)
        };
        let (l2, product) = (&|x: f64, y: f64| (x - y) * (x - y), &|x: f64, y: f64| x * y);
        let (wide, narrow) = (&|i: usize| f64::from(b[i]), &|i: usize| f64::from(row[i]));
        let set = &SETS[0];
        let (expected, size) = terms(l2, wide);
        check("l2_squared", set, n, scalar::l2_squared(&a, &b), expected, size);
        let (expected, size) = terms(product, wide);
        check("inner_product", set, n, scalar::inner_product(&a, &b), expected, size);
        let (expected, size) = terms(l2, narrow);
        check("l2_squared_u8", set, n, scalar::l2_squared_u8(&a, &row), expected, size);
        let (expected, size) = terms(product, narrow);
        check("inner_product_u8", set, n, scalar::inner_product_u8(&a, &row), expected, size);
    }
}

#[test]
fn simd_equals_scalar_at_every_length() {
    let mut random = SplitMix(SEED);
    for n in (0..=130).chain(LARGE) {
        let (a, b, row) = (floats(&mut random, n), floats(&mut random, n), bytes(&mut random, n));
        for set in sets() {
            check_pair(set, &a, &b, &row);
        }
    }
}

#[test]
fn simd_equals_scalar_at_every_misalignment() {
    let mut random = SplitMix(SEED);
    let (a, b) = (floats(&mut random, 160), floats(&mut random, 160));
    let row = bytes(&mut random, 160);
    for set in sets() {
        for from in 0..16 {
            for n in [1, 7, 16, 33, 100, 128, 130] {
                let other = 15 - from;
                check_pair(set, &a[from..from + n], &b[other..other + n], &row[from..from + n]);
            }
        }
    }
}

#[test]
fn batch_equals_one_at_a_time() {
    let mut random = SplitMix(SEED);
    for n in [0, 1, 5, 8, 15, 16, 17, 31, 100, 128, 768] {
        for rows in 0..11 {
            let (query, many) = (floats(&mut random, n), floats(&mut random, n * rows));
            let (mut l2, mut product) = (vec![f32::NAN; rows], vec![f32::NAN; rows]);
            for set in sets() {
                // SAFETY: `sets` gave only levels that this machine has.
                unsafe {
                    (set.l2_squared_batch)(&query, &many, &mut l2);
                    (set.inner_product_batch)(&query, &many, &mut product);
                }
                for i in 0..rows {
                    let row = &many[i * n..(i + 1) * n];
                    let expected = scalar::l2_squared(&query, row);
                    check("l2_squared_batch", set, n, l2[i], expected, expected);
                    let expected = scalar::inner_product(&query, row);
                    let size = 4.0 * n as f32;
                    check("inner_product_batch", set, n, product[i], expected, size);
                }
            }
        }
    }
}

#[test]
fn tile_equals_pairs() {
    let mut random = SplitMix(SEED);
    for n in [0, 1, 3, 16, 100, 128, 769] {
        let rows: Vec<Vec<f32>> = (0..TILE_ROWS).map(|_| floats(&mut random, n)).collect();
        let columns: Vec<Vec<f32>> = (0..TILE_COLUMNS).map(|_| floats(&mut random, n)).collect();
        let interleaved: Vec<[f32; TILE_COLUMNS]> =
            (0..n).map(|d| std::array::from_fn(|c| columns[c][d])).collect();
        for set in sets() {
            let mut tile = [[f32::NAN; TILE_COLUMNS]; TILE_ROWS];
            let views = std::array::from_fn(|r| rows[r].as_slice());
            // SAFETY: `sets` gave only levels that this machine has.
            unsafe { (set.inner_product_tile)(views, &interleaved, &mut tile) };
            for (r, row) in rows.iter().enumerate() {
                for (c, column) in columns.iter().enumerate() {
                    let expected = scalar::inner_product(row, column);
                    check("tile", set, n, tile[r][c], expected, 4.0 * n as f32);
                }
            }
        }
    }
}

#[test]
fn dispatched_forms_use_the_widest_level() {
    let widest = sets().last().expect("the scalar set is always there").level;
    assert_eq!(level(), widest);
    let (a, b, row) = ([1.0, 2.0, 3.0], [4.0, 6.0, 3.0], [4u8, 6, 3]);
    assert_eq!(l2_squared(&a, &b), 25.0);
    assert_eq!(inner_product(&a, &b), 25.0);
    assert_eq!(l2_squared_u8(&a, &row), 25.0);
    assert_eq!(inner_product_u8(&a, &row), 25.0);
    assert_eq!(norm_squared(&a), 14.0);
    let mut out = [0.0; 2];
    l2_squared_batch(&a, &[4.0, 6.0, 3.0, 1.0, 2.0, 3.0], &mut out);
    assert_eq!(out, [25.0, 0.0]);
    inner_product_batch(&a, &[4.0, 6.0, 3.0, 1.0, 2.0, 3.0], &mut out);
    assert_eq!(out, [25.0, 14.0]);
}

#[test]
#[should_panic(expected = "vectors of different dimension")]
fn different_lengths_are_refused() {
    l2_squared(&[1.0, 2.0], &[1.0]);
}
