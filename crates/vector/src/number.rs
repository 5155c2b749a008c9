//! The number types of stored rows.
//!
//! Half precision is stored as its 16 bits. Rust 1.95 has no stable type for it, and this crate
//! needs only two conversions. A crate for it would add arithmetic and traits that are not needed.

#[cfg(test)]
mod tests;

use std::fmt::Debug;

use crate::element::Element;
use crate::kernels::Kernels;

/// A number of a stored row. There is one type for each [`Element`].
pub trait Number: Kernels + Copy + Debug + Default + PartialEq + Send + Sync + 'static {
    /// The element type of this number.
    const ELEMENT: Element;

    /// Converts to `f32` exactly.
    fn widen(self) -> f32;

    /// The nearest number of this type, ties to even. [`Element::accepts`] must accept `value`.
    fn narrow(value: f32) -> Self;

    /// Appends the number's bytes, little-endian.
    fn put(self, out: &mut Vec<u8>);

    /// Reads a number from its first `ELEMENT.bytes()` bytes, little-endian. Panics if there are
    /// fewer.
    fn take(bytes: &[u8]) -> Self;
}

/// IEEE half precision, as its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16(pub u16);

/// The upper half of an `f32`, as its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(pub u16);

/// Runs `$body` with `$number` as the [`Number`] type of an element type.
#[macro_export]
macro_rules! with_number {
    ($element:expr, $number:ident => $body:expr) => {
        match $element {
            $crate::Element::F32 => {
                type $number = f32;
                $body
            }
            $crate::Element::F16 => {
                type $number = $crate::F16;
                $body
            }
            $crate::Element::Bf16 => {
                type $number = $crate::Bf16;
                $body
            }
            $crate::Element::U8 => {
                type $number = u8;
                $body
            }
            $crate::Element::I8 => {
                type $number = i8;
                $body
            }
        }
    };
}

macro_rules! number {
    ($type:ty, $element:ident, $widen:expr, $narrow:expr, $bytes:expr, $from:expr) => {
        impl Number for $type {
            const ELEMENT: Element = Element::$element;

            #[inline]
            fn widen(self) -> f32 {
                $widen(self)
            }

            #[inline]
            fn narrow(value: f32) -> $type {
                $narrow(value)
            }

            #[inline]
            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&$bytes(self));
            }

            #[inline]
            fn take(bytes: &[u8]) -> $type {
                $from(*bytes.first_chunk().expect("as many bytes as the element has"))
            }
        }
    };
}

number!(f32, F32, |x| x, |x| x, f32::to_le_bytes, f32::from_le_bytes);
number!(F16, F16, widen_f16, narrow_f16, |x: F16| x.0.to_le_bytes(), |b| F16(u16::from_le_bytes(
    b
)));
number!(
    Bf16,
    Bf16,
    |x: Bf16| f32::from_bits(u32::from(x.0) << 16),
    narrow_bf16,
    |x: Bf16| x.0.to_le_bytes(),
    |b| Bf16(u16::from_le_bytes(b))
);
number!(u8, U8, f32::from, |x| x as u8, u8::to_le_bytes, u8::from_le_bytes);
number!(i8, I8, f32::from, |x| x as i8, i8::to_le_bytes, i8::from_le_bytes);

/// 2^-14, the least normal half, as the bits of a single.
const LEAST_NORMAL: u32 = 113 << 23;

/// It has no branches, so that the compiler vectorises loops over it.
#[inline]
fn widen_f16(half: F16) -> f32 {
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
fn narrow_f16(value: f32) -> F16 {
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
fn narrow_bf16(value: f32) -> Bf16 {
    let bits = value.to_bits();
    let half_step = 0x7fff + (bits >> 16 & 1);
    let rounded = if value.is_nan() { bits | 0x40_0000 } else { bits.wrapping_add(half_step) };
    Bf16((rounded >> 16) as u16)
}
