use super::{Fields, CODES, RARE_MAX, WIDTH_MAX};
use crate::kernels::set::SETS;
use crate::random::SplitMix;

/// The number of `width` bits from `bit` on, read bit by bit; zeros beyond the end.
fn number(bytes: &[u8], bit: usize, width: u32) -> u32 {
    let is_set = |bit: usize| bytes.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1);
    (0..width).filter(|&i| is_set(bit + i as usize)).fold(0, |number, i| number | 1 << i)
}

#[test]
fn every_level_reads_numbers_as_bit_by_bit() {
    let mut random = SplitMix(71);
    for set in SETS.iter().filter(|set| set.level.is_available()) {
        for width in 0..=WIDTH_MAX {
            for n in [0, 1, 7, 8, 9, 64, 100, 771] {
                let bit = (random.next() % 40) as usize;
                let least = random.next() as u32;
                // As many bytes as they need, some more, and some less.
                let needed = (bit + n * width as usize).div_ceil(8);
                for length in [needed, needed + 9, needed.saturating_sub(5)] {
                    let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
                    let mut out = vec![7; n];
                    // SAFETY: the level is available.
                    unsafe { (set.unpack)(&bytes, bit, width, least, &mut out) };
                    let wanted: Vec<u32> = (0..n)
                        .map(|i| {
                            number(&bytes, bit + i * width as usize, width).wrapping_add(least)
                        })
                        .collect();
                    assert_eq!(out, wanted, "{:?}, {width} bits, {n} from {bit}", set.level);
                }
            }
        }
    }
}

#[test]
fn every_level_reads_numbers_of_different_widths() {
    let mut random = SplitMix(73);
    for set in SETS.iter().filter(|set| set.level.is_available()) {
        for (n, widest) in [(1, 32), (8, 0), (8, 32), (64, 25), (96, 8), (300, 32), (1_536, 32)] {
            for case in 0..8 {
                let parts: Vec<(u32, u32)> = (0..n)
                    .map(|_| {
                        let width = if case == 0 { widest } else { random.below(widest + 1) };
                        (width as u32, random.next() as u32)
                    })
                    .collect();
                // Some rows are of numbers of the largest width alone.
                let mut fields = Fields::default();
                fields.replace(parts.iter().copied());
                let bit = random.below(40);
                let needed = (bit + fields.bits()).div_ceil(8);
                for length in [needed, needed + 17, needed.saturating_sub(6)] {
                    let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
                    let mut out = vec![7; n];
                    // SAFETY: the level is available.
                    unsafe { (set.unpack_fields)(&bytes, bit, &fields, &mut out) };
                    let wanted: Vec<u32> = (0..n)
                        .map(|i| {
                            let before: u32 = parts[..i].iter().map(|&(width, _)| width).sum();
                            let (width, least) = parts[i];
                            number(&bytes, bit + before as usize, width).wrapping_add(least)
                        })
                        .collect();
                    assert_eq!(out, wanted, "{:?}, {n} of up to {widest} bits", set.level);
                }
            }
        }
    }
}

#[test]
fn every_level_joins_codes_and_lower_bits() {
    let mut random = SplitMix(72);
    for set in SETS.iter().filter(|set| set.level.is_available()) {
        for (lower, code_bits) in [(8, 1), (8, 4), (24, 1), (24, 3), (24, 4)] {
            for (n, share) in [(1, 2), (8, 1), (130, 16), (300, 4), (1_536, 64), (1_536, 1)] {
                let code = (1u32 << code_bits) - 1;
                let mut upper = [0u8; CODES];
                upper[..code as usize].fill_with(|| random.next() as u8);
                let mut words = Vec::new();
                for _ in 0..n {
                    let is_rare = random.next().is_multiple_of(share);
                    let common = (random.next() % u64::from(code)) as u32;
                    let low = random.next() as u32 & ((1 << lower) - 1);
                    words.push(if is_rare { code } else { common } << lower | low);
                }
                let strange = words.iter().filter(|&word| word >> lower == code).count();
                // Some words too many where not all are bytes of rare words.
                let rare: Vec<u8> =
                    (0..strange.min(RARE_MAX)).map(|_| random.next() as u8).collect();
                let mut left = rare.iter();
                let wanted: Vec<u32> = words
                    .iter()
                    .map(|word| {
                        let byte = match word >> lower {
                            of if of == code => left.next().copied().unwrap_or(0),
                            of => upper[of as usize],
                        };
                        u32::from(byte) << lower | word & ((1 << lower) - 1)
                    })
                    .collect();
                // SAFETY: the level is available.
                unsafe { (set.join)(&mut words, lower, &upper, code, &rare) };
                assert_eq!(words, wanted, "{:?}, {lower} bits, {n} words", set.level);
            }
        }
    }
}
