//! The number types of stored rows.

#[cfg(test)]
mod tests;

use std::fmt::Debug;

use crate::element::Element;
use crate::kernels::Kernels;
use crate::widen::{narrow_bf16, narrow_f16, Bf16, Widen, F16};

/// A number of a stored row. There is one type for each [`Element`].
pub trait Number: Widen + Kernels + Debug + Default + PartialEq + Send + Sync + 'static {
    /// The element type of this number.
    const ELEMENT: Element;

    /// The nearest number of this type, ties to even. [`Element::accepts`] must accept `value`.
    fn narrow(value: f32) -> Self;

    /// Appends the number's bytes, little-endian.
    fn put(self, out: &mut Vec<u8>);

    /// Reads a number from its first `ELEMENT.bytes()` bytes, little-endian. Panics if there are
    /// fewer.
    fn take(bytes: &[u8]) -> Self;
}

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
    ($type:ty, $element:ident, $narrow:expr, $bytes:expr, $from:expr) => {
        impl Number for $type {
            const ELEMENT: Element = Element::$element;

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

number!(f32, F32, |x| x, f32::to_le_bytes, f32::from_le_bytes);
number!(F16, F16, narrow_f16, |x: F16| x.0.to_le_bytes(), |b| F16(u16::from_le_bytes(b)));
number!(Bf16, Bf16, narrow_bf16, |x: Bf16| x.0.to_le_bytes(), |b| Bf16(u16::from_le_bytes(b)));
number!(u8, U8, |x| x as u8, u8::to_le_bytes, u8::from_le_bytes);
number!(i8, I8, |x| x as i8, i8::to_le_bytes, i8::from_le_bytes);
