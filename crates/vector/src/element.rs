//! Element types of stored vectors.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use crate::metric::MetricError;

/// The number type of a stored vector. Queries are always `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// IEEE single precision, 4 bytes.
    F32,
    /// IEEE half precision, 2 bytes: 11 significant bits, up to 65,504.
    F16,
    /// The upper half of an `f32`, 2 bytes: 8 significant bits, the range of `f32`.
    Bf16,
    /// Unsigned byte, 1 byte: integer data such as SIFT.
    U8,
    /// Signed byte, 1 byte: embeddings that their producer quantised.
    I8,
}

impl Element {
    /// Every element type.
    pub const ALL: [Element; 5] =
        [Element::F32, Element::F16, Element::Bf16, Element::U8, Element::I8];

    /// The name in settings and files.
    pub fn name(self) -> &'static str {
        match self {
            Element::F32 => "f32",
            Element::F16 => "f16",
            Element::Bf16 => "bf16",
            Element::U8 => "u8",
            Element::I8 => "i8",
        }
    }

    /// Bytes of one dimension.
    pub fn bytes(self) -> usize {
        match self {
            Element::F32 => 4,
            Element::F16 | Element::Bf16 => 2,
            Element::U8 | Element::I8 => 1,
        }
    }

    /// The stored tag, which no other element type ever gets.
    pub fn tag(self) -> u8 {
        match self {
            Element::F32 => 0,
            Element::F16 => 1,
            Element::Bf16 => 2,
            Element::U8 => 3,
            Element::I8 => 4,
        }
    }

    /// The element type of a stored tag.
    pub fn from_tag(tag: u8) -> Option<Element> {
        Element::ALL.into_iter().find(|element| element.tag() == tag)
    }

    /// True if the type holds whole numbers only.
    pub fn is_integer(self) -> bool {
        matches!(self, Element::U8 | Element::I8)
    }

    /// True if the type can hold `value`: an integer type exactly, another type rounded to a finite
    /// number.
    #[inline]
    pub fn accepts(self, value: f32) -> bool {
        let whole = |least: f32, most: f32| (least..=most).contains(&value) && value.fract() == 0.0;
        match self {
            Element::F32 => value.is_finite(),
            // From halfway between the largest number and the next power of two on, the nearest
            // number would be infinite.
            Element::F16 => value.abs() < 65_520.0,
            Element::Bf16 => value.abs() < f32::from_bits(0x7f7f_8000),
            Element::U8 => whole(0.0, 255.0),
            Element::I8 => whole(-128.0, 127.0),
        }
    }

    /// The accepted values, as words that complete a sentence with "takes".
    pub fn range(self) -> &'static str {
        match self {
            Element::F32 => "finite numbers",
            Element::F16 => "numbers from -65504 to 65504",
            Element::Bf16 => "numbers from -3.38e38 to 3.38e38",
            Element::U8 => "whole numbers from 0 to 255",
            Element::I8 => "whole numbers from -128 to 127",
        }
    }

    /// Unit roundoff: the largest relative error of a number that is rounded to this type. 0 for
    /// `f32` and for integers, which are not rounded.
    pub fn roundoff(self) -> f32 {
        match self {
            Element::F32 | Element::U8 | Element::I8 => 0.0,
            Element::F16 => f32::EPSILON * 4096.0,
            Element::Bf16 => f32::EPSILON * 32_768.0,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Element {
    type Err = MetricError;

    /// Accepts the names of [`Element::name`] and those of numpy.
    fn from_str(name: &str) -> Result<Element, MetricError> {
        match name {
            "f32" | "float32" | "float" => Ok(Element::F32),
            "f16" | "float16" | "half" => Ok(Element::F16),
            "bf16" | "bfloat16" => Ok(Element::Bf16),
            "u8" | "uint8" => Ok(Element::U8),
            "i8" | "int8" => Ok(Element::I8),
            _ => Err(MetricError {
                what: "element type",
                name: name.to_owned(),
                choices: "f32, f16, bf16, u8, i8",
            }),
        }
    }
}
