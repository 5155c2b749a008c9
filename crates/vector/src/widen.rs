//! Half precision as its 16 bits, and the conversion of stored numbers to `f32`.
//!
//! Rust 1.95 has no stable type for half precision, and this crate needs only two conversions. A
//! crate for it would add arithmetic and traits that are not needed.

/// IEEE half precision, as its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16(pub u16);

/// The upper half of an `f32`, as its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(pub u16);

/// A stored number that is read as an `f32`.
pub trait Widen: Copy {
    /// The same value, exactly.
    fn widen(self) -> f32;
}

impl Widen for f32 {
    #[inline]
    fn widen(self) -> f32 {
        self
    }
}

impl Widen for F16 {
    #[inline]
    fn widen(self) -> f32 {
        widen_f16(self)
    }
}

impl Widen for Bf16 {
    #[inline]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

impl Widen for u8 {
    #[inline]
    fn widen(self) -> f32 {
        f32::from(self)
    }
}

impl Widen for i8 {
    #[inline]
    fn widen(self) -> f32 {
        f32::from(self)
    }
}

/// 2^-14, the least normal half, as the bits of a single.
const LEAST_NORMAL: u32 = 113 << 23;

/// It has no branches, so that the compiler vectorises loops over it.
#[inline]
pub(crate) fn widen_f16(half: F16) -> f32 {
    let bits = u32::from(half.0);
    let shifted = (bits & 0x7fff) << 13;
    // A subnormal number gets an exponent here that makes it 2^-14 too large.
    let small = f32::from_bits(shifted + LEAST_NORMAL) - f32::from_bits(LEAST_NORMAL);
    let magnitude = match bits & 0x7c00 {
        0 => small.to_bits(),
        // Infinity or NaN: the exponent 31 becomes 255.
        0x7c00 => shifted + (224 << 23),
        // The bias of 15 becomes 127.
        _ => shifted + (112 << 23),
    };
    f32::from_bits(magnitude | (bits & 0x8000) << 16)
}

/// It has no branches, so that the compiler vectorises loops over it.
#[inline]
pub(crate) fn narrow_f16(value: f32) -> F16 {
    /// 2^16. From this number on the result is infinite.
    const TOO_LARGE: u32 = 143 << 23;
    const INFINITE: u32 = 255 << 23;
    let bits = value.to_bits();
    let sign = bits >> 16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Subnormal halves are 2^-24 apart, and so are singles from 0.5 on. So the addition rounds.
    let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    // Adds half a step, minus one if the number above the cut is even. The carry rounds up where
    // needed.
    let half_step = 0xfff + (magnitude >> 13 & 1);
    let normal = magnitude.wrapping_add(half_step).wrapping_sub(112 << 23) >> 13;
    let half = match magnitude {
        ..LEAST_NORMAL => small,
        LEAST_NORMAL..TOO_LARGE => normal,
        TOO_LARGE..=INFINITE => 0x7c00,
        _ => 0x7e00,
    };
    F16((sign | half) as u16)
}

#[inline]
pub(crate) fn narrow_bf16(value: f32) -> Bf16 {
    let bits = value.to_bits();
    let half_step = 0x7fff + (bits >> 16 & 1);
    let rounded = if value.is_nan() { bits | 0x40_0000 } else { bits.wrapping_add(half_step) };
    Bf16((rounded >> 16) as u16)
}
