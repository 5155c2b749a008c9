//! Exact round trips, damaged blocks, and the lengths of blocks.

use proptest::prelude::*;

use super::form::{narrow_f16, widen_f16};
use super::*;

const POLICIES: [Policy; 4] =
    [Policy::Best(Tier::Hot), Policy::Best(Tier::Cold), Policy::Raw, Policy::Xor];

/// Encodes rows, checks the length of the block, and decodes it as a whole and row by row.
fn round_trip<B: Bits + PartialEq + fmt::Debug>(
    kind: Kind,
    rows: &[B],
    dimension: usize,
    policy: Policy,
) -> (Codec, usize) {
    let shape = Shape { kind, dimension };
    let mut bytes = Vec::new();
    let codec = Encoder::new().encode(shape, rows, policy, &mut bytes);
    assert!(bytes.len() <= HEAD + std::mem::size_of_val(rows), "{codec} expands");
    let n = rows.len() / dimension;
    assert_eq!(describe(&bytes), Ok((codec, n)));
    let mut decoder = Decoder::new();
    let mut back = vec![B::default(); rows.len()];
    decoder.decode(shape, &bytes, 0..n, &mut back).unwrap();
    let differs = (0..rows.len()).find(|&at| back[at] != rows[at]);
    assert!(differs.is_none(), "{codec}: number {differs:?} of {n} x {dimension}");
    for row in 0..n {
        let mut one = vec![B::default(); dimension];
        decoder.decode(shape, &bytes, row..row + 1, &mut one).unwrap();
        assert!(one == rows[row * dimension..][..dimension], "{codec}, row {row}");
    }
    (codec, bytes.len())
}

/// A small generator of random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.0 >> 33 ^ self.0 << 31
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n
    }

    fn unit(&mut self) -> f64 {
        self.below(1 << 40) as f64 / (1u64 << 40) as f64
    }

    fn normal(&mut self) -> f32 {
        ((0..12).map(|_| self.unit()).sum::<f64>() - 6.0) as f32
    }
}

fn bits(rows: &[f32]) -> Vec<u32> {
    rows.iter().map(|x| x.to_bits()).collect()
}

fn ratio(rows: &[f32], dimension: usize, tier: Tier) -> (String, f64) {
    let (codec, bytes) = round_trip(Kind::F32, &bits(rows), dimension, Policy::Best(tier));
    (codec.to_string(), bytes as f64 / (4 * rows.len()) as f64)
}

#[test]
fn every_half_is_widened_and_narrowed_back() {
    for half in 0..=u16::MAX {
        let wide = widen_f16(half);
        assert_eq!(narrow_f16(wide), Some(half), "{half:#06x}");
        let exponent = i32::from(half >> 10 & 31);
        if exponent < 31 {
            let sign = if half >> 15 == 1 { -1.0 } else { 1.0 };
            let fraction = f64::from(half & 1023) / 1024.0 + f64::from(u8::from(exponent > 0));
            let value = sign * fraction * 2f64.powi(exponent.max(1) - 15);
            assert_eq!(f32::from_bits(wide), value as f32, "{half:#06x}");
        }
    }
    for bits in [1.0f32 + f32::EPSILON, 65_536.0, 1e-8, f32::MIN_POSITIVE, 0.1].map(f32::to_bits) {
        assert_eq!(narrow_f16(bits), None, "{}", f32::from_bits(bits));
    }
}

#[test]
fn strange_numbers_come_back() {
    let strange = [
        0x0000_0000,
        0x8000_0000,
        0x0000_0001,
        0x807f_ffff,
        0x0080_0000,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0001,
        0xffc1_2345,
        0x7f80_0001,
        0x7fff_ffff,
        0xffff_ffff,
        0x3f80_0000,
        0x4f00_0000,
        0xcf00_0000,
        0x7f7f_ffff,
    ];
    for policy in POLICIES {
        round_trip(Kind::F32, &strange, 4, policy);
        for &x in &strange {
            round_trip(Kind::F32, &[x; 96], 3, policy);
            round_trip(Kind::F32, &[x], 1, policy);
            let mut rows = vec![1.0f32.to_bits(); 32 * 40];
            rows[77] = x;
            rows[32 * 40 - 1] = x;
            round_trip(Kind::F32, &rows, 40, policy);
        }
    }
}

#[test]
fn whole_numbers_take_their_width() {
    let mut random = Random(3);
    let rows: Vec<f32> = (0..32 * 128).map(|_| random.below(200) as f32).collect();
    let (codec, share) = ratio(&rows, 128, Tier::Hot);
    assert_eq!(codec, "integer pack");
    assert!(share <= 0.252, "{share}");
    let skewed: Vec<f32> =
        (0..32 * 128).map(|_| (random.unit().powi(4) * 200.0).floor() as f32).collect();
    let (codec, share) = ratio(&skewed, 128, Tier::Cold);
    assert_eq!(codec, "integer planes");
    assert!(share <= 0.21, "{share}");
}

#[test]
fn decimals_take_their_digits_and_strangers_are_kept() {
    let mut random = Random(5);
    let mut rows: Vec<f32> = (0..32 * 100)
        .map(|_| format!("{:.5}", random.normal() * 0.4).parse::<f32>().unwrap())
        .collect();
    rows[5] = f32::NAN;
    rows[1000] = -0.0;
    rows[3199] = 0.123_456_79;
    let (codec, share) = ratio(&rows, 100, Tier::Hot);
    assert_eq!(codec, "decimal pack");
    assert!(share <= 0.62, "{share}");
}

#[test]
fn narrow_floats_are_recognised() {
    let mut random = Random(7);
    let rows: Vec<f32> = (0..32 * 96).map(|_| random.normal()).collect();
    let cut: Vec<f32> = rows.iter().map(|x| f32::from_bits(x.to_bits() & 0xffff_0000)).collect();
    let (codec, share) = ratio(&cut, 96, Tier::Hot);
    assert_eq!(codec, "bf16 split");
    assert!(share <= 0.37, "{share}");
    let half: Vec<f32> =
        rows.iter().map(|x| f32::from_bits((x.to_bits() & 0xffff_e000).max(0x3000_0000))).collect();
    let (codec, share) = ratio(&half, 96, Tier::Cold);
    assert!(codec.starts_with("f16"), "{codec}");
    assert!(share <= 0.5, "{share}");
}

#[test]
fn full_floats_save_on_their_exponents() {
    let mut random = Random(9);
    let rows: Vec<f32> = (0..32 * 100).map(|_| random.normal()).collect();
    let (codec, share) = ratio(&rows, 100, Tier::Hot);
    assert_eq!(codec, "float split");
    assert!(share <= 0.87, "{share}");
    let (codec, share) = ratio(&rows, 100, Tier::Cold);
    assert_eq!(codec, "float planes");
    assert!(share <= 0.85, "{share}");
}

#[test]
fn noise_is_kept_raw() {
    let mut random = Random(11);
    let rows: Vec<u32> = (0..32 * 50).map(|_| random.next() as u32).collect();
    for policy in POLICIES {
        let (codec, bytes) = round_trip(Kind::F32, &rows, 50, policy);
        assert_eq!((codec.to_string().as_str(), bytes), ("raw", HEAD + 32 * 50 * 4));
    }
}

#[test]
fn bytes_and_halves_are_coded_too() {
    let mut random = Random(13);
    let mut near_zero: Vec<u8> =
        (0..32 * 64).map(|_| (random.below(9) as u8).wrapping_sub(4)).collect();
    near_zero[9] = 0x84;
    for policy in POLICIES {
        round_trip(Kind::U8, &near_zero, 64, policy);
        round_trip(Kind::I8, &near_zero, 64, policy);
        let halves: Vec<u16> = near_zero.iter().map(|&x| 0x3c00 | u16::from(x) << 2).collect();
        round_trip(Kind::Half, &halves, 64, policy);
    }
    let signed: Vec<u8> = near_zero.iter().map(|&x| if x == 0x84 { 0 } else { x }).collect();
    let (_, bytes) = round_trip(Kind::I8, &signed, 64, Policy::Best(Tier::Hot));
    assert!(bytes <= 32 * 64 * 4 / 8 + 32, "four bits for nine values: {bytes}");
}

#[test]
fn a_block_of_another_shape_is_refused() {
    let shape = Shape { kind: Kind::F32, dimension: 8 };
    let rows = bits(&(0..256).map(|i| i as f32).collect::<Vec<_>>());
    for policy in POLICIES {
        let mut bytes = Vec::new();
        Encoder::new().encode(shape, &rows, policy, &mut bytes);
        let mut decoder = Decoder::new();
        for dimension in [7, 9, 16, 4096] {
            let shape = Shape { dimension, ..shape };
            let mut out = vec![0u32; 32 * dimension];
            assert!(decoder.decode(shape, &bytes, 0..32, &mut out).is_err(), "{policy:?}");
        }
        let mut out = vec![0u32; 33 * 8];
        assert!(decoder.decode(shape, &bytes, 0..33, &mut out).is_err());
        for length in 0..bytes.len() {
            let mut out = vec![0u32; 32 * 8];
            assert!(decoder.decode(shape, &bytes[..length], 0..32, &mut out).is_err(), "{length}");
        }
    }
}

/// Sets every byte of blocks of every codec to several values. Decoding must not panic: it returns
/// the same numbers, other numbers or an error.
#[test]
fn damage_never_panics() {
    let mut random = Random(17);
    let shapes: [Vec<f32>; 4] = [
        (0..32 * 12).map(|_| random.below(300) as f32).collect(),
        (0..32 * 12).map(|_| random.normal()).collect(),
        (0..32 * 12).map(|_| (random.normal() * 1e4).round() / 1e4).collect(),
        (0..32 * 12).map(|_| f32::from_bits(random.normal().to_bits() & 0xffff_0000)).collect(),
    ];
    let shape = Shape { kind: Kind::F32, dimension: 12 };
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
    let mut out = vec![0u32; 32 * 12];
    for rows in &shapes {
        for policy in POLICIES {
            let mut bytes = Vec::new();
            encoder.encode(shape, &bits(rows), policy, &mut bytes);
            for at in 0..bytes.len() {
                for change in [1u8, 0x80, 0xff, random.next() as u8] {
                    bytes[at] ^= change;
                    let _ = decoder.decode(shape, &bytes, 0..32, &mut out);
                    let _ = decoder.decode(shape, &bytes, 31..32, &mut out[..12]);
                    bytes[at] ^= change;
                }
            }
        }
    }
}

#[test]
fn random_bytes_never_panic() {
    let mut random = Random(19);
    let mut decoder = Decoder::new();
    for round in 0..40_000u64 {
        let mut bytes: Vec<u8> = (0..random.below(600)).map(|_| random.next() as u8).collect();
        // A plausible head leads deeper.
        if round % 4 != 0 && bytes.len() >= 7 {
            bytes[0] = random.below(FORMS.len() as u64) as u8;
            bytes[1] = random.below(CODERS.len() as u64) as u8;
            bytes[2] = 1 + random.below(32) as u8;
            bytes[3] = random.below(9) as u8;
        }
        let dimension = 1 + random.below(40) as usize;
        let rows = usize::from(*bytes.get(2).unwrap_or(&1)).clamp(1, 32);
        let n = rows * dimension;
        let shape = |kind| Shape { kind, dimension };
        let _ = decoder.decode(shape(Kind::F32), &bytes, 0..rows, &mut vec![0u32; n]);
        let _ = decoder.decode(shape(Kind::Half), &bytes, 0..rows, &mut vec![0u16; n]);
        let _ = decoder.decode(shape(Kind::I8), &bytes, 0..rows, &mut vec![0u8; n]);
    }
}

fn block<T: std::fmt::Debug>(
    number: impl Strategy<Value = T> + Clone,
) -> impl Strategy<Value = (usize, Vec<T>)> {
    (1usize..=20, 1usize..=32).prop_flat_map(move |(dimension, rows)| {
        let n = dimension * rows;
        (Just(dimension), proptest::collection::vec(number.clone(), n..=n))
    })
}

proptest! {
    #[test]
    fn any_bits_come_back((dimension, rows) in block(any::<u32>()), policy in 0usize..4) {
        round_trip(Kind::F32, &rows, dimension, POLICIES[policy]);
    }

    #[test]
    fn small_numbers_come_back((dimension, rows) in block(-500i32..500), scale in 0i32..6, policy in 0usize..4) {
        let rows: Vec<u32> =
            rows.iter().map(|&x| ((f64::from(x) / 10f64.powi(scale)) as f32).to_bits()).collect();
        round_trip(Kind::F32, &rows, dimension, POLICIES[policy]);
    }

    #[test]
    fn any_halves_come_back((dimension, rows) in block(any::<u16>()), policy in 0usize..4) {
        round_trip(Kind::Half, &rows, dimension, POLICIES[policy]);
        let wide: Vec<u32> = rows.iter().map(|&x| widen_f16(x)).collect();
        round_trip(Kind::F32, &wide, dimension, POLICIES[policy]);
    }

    #[test]
    fn any_bytes_come_back((dimension, rows) in block(any::<u8>()), policy in 0usize..4) {
        round_trip(Kind::U8, &rows, dimension, POLICIES[policy]);
        round_trip(Kind::I8, &rows, dimension, POLICIES[policy]);
    }
}
