//! Every level gives the scalar kernel's bits.

use super::super::block::code_bytes;
use super::super::query::QueryTable;
use super::super::{pack_lane, unpack_lane, Factors, Rotation};
use super::*;
use vstream_vector::SplitMix;

const SEED: u64 = 5;
const PADDED: [usize; 11] = [64, 128, 192, 256, 768, 960, 1024, 1088, 1536, 2048, 4096];

/// Every level of this target that this machine can run. Prints the others to standard error.
fn sets() -> Vec<&'static KernelSet> {
    let (runnable, missing): (Vec<_>, Vec<_>) =
        SETS.iter().partition(|set| set.level.is_available());
    for set in missing {
        eprintln!("SKIPPED: this machine lacks {}", set.level.name());
    }
    runnable
}

fn normals(random: &mut SplitMix, n: usize) -> Vec<f32> {
    (0..n).map(|_| random.normal()).collect()
}

/// Random codes with these factors in every lane.
fn block(
    random: &mut SplitMix,
    padded: usize,
    factors: impl Fn(&mut SplitMix) -> Factors,
) -> Vec<u8> {
    let mut block = vec![0; code_bytes(padded) + FACTOR_BYTES];
    let mut bits = vec![0; padded / 8];
    for lane in 0..BLOCK {
        bits.fill_with(|| random.next() as u8);
        pack_lane(&mut block, padded, lane, &bits, factors(random));
        let mut back = vec![0; padded / 8];
        unpack_lane(&block, padded, lane, &mut back);
        assert_eq!(back, bits);
    }
    block
}

fn bits_of(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn rotations_are_bit_equal() {
    let mut random = SplitMix(SEED);
    for padded in PADDED {
        let x = normals(&mut random, padded);
        for round in Rotation::new(padded, SEED).rounds() {
            let mut expected = x.clone();
            scalar::rotate(round, &mut expected);
            for set in sets() {
                let mut found = x.clone();
                // SAFETY: `sets` gave only levels that this machine has.
                unsafe { (set.rotate)(round, &mut found) };
                assert_eq!(bits_of(&found), bits_of(&expected), "{} {padded}", set.level.name());
            }
        }
    }
}

#[test]
fn codes_and_their_sums_are_bit_equal() {
    let mut random = SplitMix(SEED);
    for padded in PADDED {
        let (mut row, centroid) = (normals(&mut random, padded), normals(&mut random, padded));
        row[..7].copy_from_slice(&centroid[..7]);
        let mut expected_bits = vec![0; padded / 8];
        let expected = scalar::encode(&row, &centroid, &mut expected_bits);
        for set in sets() {
            let mut bits = vec![0xff; padded / 8];
            // SAFETY: `sets` gave only levels that this machine has.
            let found = unsafe { (set.encode)(&row, &centroid, &mut bits) };
            assert_eq!(found, expected, "{} {padded}", set.level.name());
            assert_eq!(bits, expected_bits, "{} {padded}", set.level.name());
        }
    }
}

#[test]
fn tables_are_bit_equal() {
    let mut random = SplitMix(SEED);
    for padded in PADDED {
        for size in [1.0, 1e-30, 1e-44, 1e30, 0.0] {
            let query: Vec<f32> =
                normals(&mut random, padded).into_iter().map(|x| x * size).collect();
            let mut expected_lines = vec![Line([7; 64]); padded / 16];
            let expected = scalar::build(&query, &mut expected_lines);
            assert!(expected.0.is_finite() && expected.1.is_finite());
            for set in sets() {
                let mut lines = vec![Line([9; 64]); padded / 16];
                // SAFETY: `sets` gave only levels that this machine has.
                let found = unsafe { (set.build)(&query, &mut lines) };
                assert_eq!(found, expected, "{} {padded} × {size}", set.level.name());
                assert!(lines == expected_lines, "{} {padded} × {size}", set.level.name());
            }
        }
    }
}

/// With step 1, bias 0, add 0 and scale 1 an estimate is the integer sum itself. Tables full of 255
/// give the largest sum of any query: 16 bits must not overflow at any dimension.
#[test]
fn sums_are_exact_and_equal() {
    let mut random = SplitMix(SEED);
    for padded in PADDED {
        let unit = |_: &mut SplitMix| Factors { add: 0.0, scale: 1.0, error: 0.0 };
        let block = block(&mut random, padded, unit);
        let varied = (0..padded / 16)
            .map(|_| Line(std::array::from_fn(|_| random.next() as u8)))
            .collect::<Vec<_>>();
        let full = vec![Line([255; 64]); padded / 16];
        for lines in [&varied, &full] {
            let threshold = (padded / 4 * 128) as f32;
            let (step, bias, base) = (1.0, 0.0, 0.0);
            let input = Scan { lines, block: &block, step, bias, base, threshold };
            let mut expected = [0.0; BLOCK];
            let expected_below = scalar::scan(&input, &mut expected);
            if lines == &full {
                assert_eq!(expected, [(padded / 4 * 255) as f32; BLOCK]);
            }
            for set in sets() {
                let mut found = [f32::NAN; BLOCK];
                // SAFETY: `sets` gave only levels that this machine has.
                let below = unsafe { (set.scan)(&input, &mut found) };
                assert_eq!(found, expected, "{} {padded}", set.level.name());
                assert_eq!(below, expected_below, "{} {padded}", set.level.name());
            }
        }
    }
}

#[test]
fn estimates_are_bit_equal() {
    let mut random = SplitMix(SEED);
    for padded in PADDED {
        let factors = |random: &mut SplitMix| Factors {
            add: random.normal() * 10.0,
            scale: -random.unit(),
            error: 0.0,
        };
        let block = block(&mut random, padded, factors);
        let mut table = QueryTable::new();
        table.build(&normals(&mut random, padded));
        let input = Scan {
            lines: table.lines(),
            block: &block,
            step: table.step,
            bias: table.bias,
            base: 3.5,
            threshold: 3.0,
        };
        let mut expected = [0.0; BLOCK];
        let expected_below = scalar::scan(&input, &mut expected);
        for (lane, estimate) in expected.iter().enumerate() {
            assert_eq!(expected_below >> lane & 1 == 1, *estimate < 3.0);
        }
        for set in sets() {
            let mut found = [f32::NAN; BLOCK];
            // SAFETY: `sets` gave only levels that this machine has.
            let below = unsafe { (set.scan)(&input, &mut found) };
            assert_eq!(bits_of(&found), bits_of(&expected), "{} {padded}", set.level.name());
            assert_eq!(below, expected_below, "{} {padded}", set.level.name());
        }
    }
}
