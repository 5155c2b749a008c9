//! Every kernel gives the scalar kernel's bits.

use super::super::{code_bytes, GROUP};
use super::*;
use vstream_vector::SplitMix;

const SEED: u64 = 31;

/// Every multiple of 64 up to 1088, so that half of the codes end in the middle of a line, and a
/// few larger ones up to the largest.
fn padded() -> impl Iterator<Item = usize> {
    (1..=17).map(|groups| groups * GROUP).chain([1536, 4096, 8128, 8192])
}

/// Every set of this target that this machine can run. Prints the others to standard error.
fn available() -> Vec<&'static KernelSet> {
    let (runnable, missing): (Vec<_>, Vec<_>) = SETS.iter().partition(|set| (set.is_available)());
    for set in missing {
        eprintln!("SKIPPED: this machine lacks {}", set.name);
    }
    runnable
}

fn normals(random: &mut SplitMix, n: usize) -> Vec<f32> {
    (0..n).map(|_| random.normal()).collect()
}

fn times(x: &[f32], factor: f32) -> Vec<f32> {
    x.iter().map(|x| x * factor).collect()
}

#[test]
fn codes_and_their_sums_are_bit_equal() {
    let mut random = SplitMix(SEED);
    for padded in padded() {
        let (mut row, centroid) = (normals(&mut random, padded), normals(&mut random, padded));
        row[..7].copy_from_slice(&centroid[..7]);
        let constant: Vec<f32> = centroid.iter().map(|c| c + 0.5).collect();
        let cases = [
            (row.clone(), centroid.clone()),
            (constant, centroid.clone()),
            (centroid.clone(), centroid.clone()),
            (times(&row, 1e-30), times(&centroid, 1e-30)),
            (times(&row, 1e15), times(&centroid, 1e15)),
        ];
        for (case, (row, centroid)) in cases.iter().enumerate() {
            let mut expected_code = vec![0; code_bytes(padded)];
            let expected = scalar::encode(row, centroid, &mut expected_code);
            for set in available() {
                let mut code = vec![0x5a; code_bytes(padded)];
                // SAFETY: `available` gave only forms that this machine can run.
                let found = unsafe { (set.encode)(row, centroid, &mut code) };
                let context = format!("{} {padded}, case {case}, seed {SEED}", set.name);
                assert_eq!(found, expected, "{context}");
                assert_eq!(code, expected_code, "{context}");
            }
        }
    }
}

#[test]
fn planes_are_bit_equal() {
    let mut random = SplitMix(SEED);
    for padded in padded() {
        let values = normals(&mut random, padded);
        for size in [1.0, 1e-30, 1e-44, 1e30, 0.0] {
            let query = times(&values, size);
            let mut expected_planes = vec![Planes::ZERO; padded.div_ceil(2 * GROUP)];
            let expected = scalar::build(&query, &mut expected_planes);
            assert!(expected.0.is_finite() && expected.1.is_finite());
            for set in available() {
                let mut planes = vec![Planes::ZERO; padded.div_ceil(2 * GROUP)];
                // SAFETY: `available` gave only forms that this machine can run.
                let found = unsafe { (set.build)(&query, &mut planes) };
                assert_eq!(found, expected, "{} {padded} × {size}, seed {SEED}", set.name);
                assert!(planes == expected_planes, "{} {padded} × {size}, seed {SEED}", set.name);
            }
        }
    }
}

/// The product, dimension by dimension and in 64 bits.
fn exact_product(code: &[u8], planes: &[Planes]) -> i64 {
    let bytes = code.iter().enumerate();
    bytes
        .map(|(j, byte)| {
            let planes = &planes[j / 64];
            let integer = |half: usize| {
                128 * i64::from(planes.coarse[half][j % 64]) + i64::from(planes.fine[half][j % 64])
            };
            i64::from(byte & 15) * integer(0) + i64::from(byte >> 4) * integer(1)
        })
        .sum()
}

/// Random codes and the largest codes of both signs, at every alignment within a line: no kernel
/// may saturate, overflow or read beyond the code.
#[test]
fn products_are_exact_and_equal() {
    let mut random = SplitMix(SEED);
    for padded in padded() {
        let lines = padded.div_ceil(2 * GROUP);
        let random_half = |random: &mut SplitMix, mask: i8| {
            std::array::from_fn(|_| std::array::from_fn(|_| random.next() as i8 & mask))
        };
        let varied: Vec<Planes> = (0..lines)
            .map(|_| Planes {
                coarse: random_half(&mut random, -1),
                fine: random_half(&mut random, 127),
            })
            .collect();
        let largest = vec![Planes { coarse: [[127; 64]; 2], fine: [[127; 64]; 2] }; lines];
        let smallest = vec![Planes { coarse: [[-128; 64]; 2], fine: [[1; 64]; 2] }; lines];
        let bytes: Vec<u8> = (0..code_bytes(padded) + 64).map(|_| random.next() as u8).collect();
        let full = vec![0xff; code_bytes(padded)];
        let offsets = [0, 1, 16, 33, 63].map(|from| &bytes[from..from + code_bytes(padded)]);
        for planes in [&varied, &largest, &smallest] {
            for code in offsets.into_iter().chain([full.as_slice()]) {
                let expected = exact_product(code, planes);
                for set in available() {
                    // SAFETY: `available` gave only forms that this machine can run.
                    let found = unsafe { (set.product)(code, planes) };
                    assert_eq!(i64::from(found), expected, "{} {padded}, seed {SEED}", set.name);
                }
            }
        }
    }
}
