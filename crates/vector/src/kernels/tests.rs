//! Every SIMD kernel agrees with the scalar one within `BOUND` of the sum of the terms' sizes.

use super::set::{KernelSet, SETS};
use super::*;
use crate::random::SplitMix;
use crate::{with_number, Element, Number};

/// Allowed difference, relative to `Σ |termᵢ|`.
const BOUND: f32 = 1e-5;
const SEED: u64 = 7;
const LARGE: [usize; 6] = [255, 768, 960, 1024, 1536, 4096];

/// Every level that was compiled and that this machine can run. Prints the other levels to standard
/// error.
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

/// Rows of numbers with random bits, so that all magnitudes occur.
fn numbers<N: Number>(random: &mut SplitMix, n: usize) -> Vec<N> {
    let mut any = || N::take(&random.next().to_le_bytes());
    let fits = |x: &N| x.widen().is_finite() && x.widen().abs() < 1e15;
    (0..n).map(|_| std::iter::repeat_with(&mut any).find(fits).expect("endless")).collect()
}

fn check(name: &str, set: &KernelSet, n: usize, found: f32, expected: f32, size: f32) {
    assert!(
        (found - expected).abs() <= BOUND * size,
        "{name} at {} and length {n}: {found} instead of {expected} (seed {SEED})",
        set.level.name(),
    );
}

/// Compares both kernels of a set with the scalar ones on a query and a row.
fn check_pair<N: Number>(set: &KernelSet, query: &[f32], row: &[N]) {
    let n = query.len();
    let pair = N::pair(set);
    // SAFETY: `sets` gave only levels that this machine has.
    let (l2, product) =
        unsafe { ((pair.l2_squared)(query, row), (pair.inner_product)(query, row)) };
    let name = |kernel: &str| format!("{kernel} of {}", N::ELEMENT);
    let expected = scalar::l2_squared(query, row);
    check(&name("l2_squared"), set, n, l2, expected, expected);
    let expected = scalar::inner_product(query, row);
    let size = query.iter().zip(row).map(|(x, y)| (x * y.widen()).abs()).sum::<f32>();
    check(&name("inner_product"), set, n, product, expected, size);
}

fn scalar_equals_double_precision<N: Number>() {
    let mut random = SplitMix(SEED);
    for n in (0..=130).chain(LARGE) {
        let (query, row) = (floats(&mut random, n), numbers::<N>(&mut random, n));
        let terms = |f: &dyn Fn(f64, f64) -> f64| {
            let term = |(&x, y): (&f32, &N)| f(f64::from(x), f64::from(y.widen()));
            let terms: Vec<f64> = query.iter().zip(&row).map(term).collect();
            (terms.iter().sum::<f64>() as f32, terms.iter().map(|t| t.abs()).sum::<f64>() as f32)
        };
        let set = &SETS[0];
        let (expected, size) = terms(&|x, y| (x - y) * (x - y));
        check("l2_squared", set, n, scalar::l2_squared(&query, &row), expected, size);
        let (expected, size) = terms(&|x, y| x * y);
        check("inner_product", set, n, scalar::inner_product(&query, &row), expected, size);
    }
}

fn simd_equals_scalar_at_every_length<N: Number>() {
    let mut random = SplitMix(SEED);
    for n in (0..=130).chain(LARGE) {
        let (query, row) = (floats(&mut random, n), numbers::<N>(&mut random, n));
        for set in sets() {
            check_pair(set, &query, &row);
        }
    }
}

fn simd_equals_scalar_at_every_misalignment<N: Number>() {
    let mut random = SplitMix(SEED);
    let (query, row) = (floats(&mut random, 160), numbers::<N>(&mut random, 160));
    for set in sets() {
        for from in 0..16 {
            for n in [1, 7, 16, 33, 100, 128, 130] {
                let other = 15 - from;
                check_pair(set, &query[other..other + n], &row[from..from + n]);
            }
        }
    }
}

#[test]
fn scalar_forms_equal_double_precision() {
    for element in Element::ALL {
        with_number!(element, N => scalar_equals_double_precision::<N>());
    }
}

#[test]
fn simd_forms_equal_the_scalar_ones() {
    for element in Element::ALL {
        with_number!(element, N => simd_equals_scalar_at_every_length::<N>());
        with_number!(element, N => simd_equals_scalar_at_every_misalignment::<N>());
    }
}

/// A SIMD kernel converts every number, subnormal halves among them, exactly as the scalar kernel
/// does. The product with a query that has a single 1 is the number itself.
#[test]
fn simd_forms_widen_exactly() {
    fn check_all<N: Number>(all: &[N]) {
        for set in sets() {
            for at in [0, 5, 18] {
                let (mut query, mut row) = ([0.0; 19], [N::default(); 19]);
                query[at] = 1.0;
                for &number in all.iter().filter(|number| number.widen().is_finite()) {
                    row[at] = number;
                    // SAFETY: `sets` gave only levels that this machine has.
                    let found = unsafe { (N::pair(set).inner_product)(&query, &row) };
                    assert_eq!(found, number.widen(), "{number:?} at {}", set.level.name());
                }
            }
        }
    }
    check_all(&(0..=u16::MAX).map(crate::F16).collect::<Vec<_>>());
    check_all(&(0..=u16::MAX).map(crate::Bf16).collect::<Vec<_>>());
    check_all(&(0..=u8::MAX).collect::<Vec<_>>());
    check_all(&(i8::MIN..=i8::MAX).collect::<Vec<_>>());
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
    let (a, b) = ([1.0, 2.0, 3.0], [4.0, 6.0, 3.0]);
    for element in Element::ALL {
        with_number!(element, N => {
            let row = b.map(N::narrow);
            assert_eq!((l2_squared(&a, &row), inner_product(&a, &row)), (25.0, 25.0), "{element}");
        });
    }
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

#[test]
fn lanes_are_compared_alike_at_every_level() {
    let mut random = SplitMix(SEED);
    for round in 0..200 {
        // Few values, so that many are equal; ends of the range of both kinds.
        let narrow: [u32; LANES] =
            std::array::from_fn(|_| [0, 1, 7, 1 << 31, u32::MAX][random.below(5)]);
        let ends = [i64::MIN, i64::MIN + 1, -7, -1, 0, 1, 7, i64::MAX - 1, i64::MAX];
        let wide: [u64; LANES] = std::array::from_fn(|_| ends[random.below(9)] as u64);
        let wanted = narrow[random.below(LANES)];
        let (least, most) = (ends[random.below(9)], ends[random.below(9)]);
        let bits = |test: &dyn Fn(usize) -> bool| {
            (0..LANES).fold(0, |mask, lane| mask | u32::from(test(lane)) << lane)
        };
        let equal = bits(&|lane| narrow[lane] == wanted);
        let within = bits(&|lane| (least..=most).contains(&(wide[lane] as i64)));
        for set in sets() {
            let level = set.level.name();
            // SAFETY: `sets` gave only levels that this machine has.
            let found = unsafe {
                ((set.lanes_equal)(&narrow, wanted), (set.lanes_within)(&wide, least, most))
            };
            assert_eq!(found, (equal, within), "{level}, round {round}, seed {SEED}");
        }
    }
}
