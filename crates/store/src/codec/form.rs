//! Forms: exact, reversible conversions of a block's numbers to words that code well.

use vstream_vector::cursor::ByteReader;

use super::{Bits, CodecError, Kind};

/// Bytes of an exception: row, dimension and bits.
const EXCEPTION: usize = 1 + 2 + 4;
/// At most one number in this many may be an exception.
const EXCEPTIONS_SHARE: usize = 16;
/// Largest number of decimals that the encoder tries.
const DECIMALS_MAX: u8 = 8;
/// Size of the sample from which the encoder chooses the number of decimals.
const SAMPLE: usize = 64;
/// Integers are smaller than this in magnitude, so that the difference of two fits 31 bits.
const INTEGER_MAX: f64 = (1u32 << 30) as f64;

/// How a stored number becomes a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The bits of the number.
    Word,
    /// For `f32`: the number as a multiple of `10^-decimals`, minus the smallest one of the block.
    Integer,
    /// For `f32`: the half-precision number of equal value, with the sign as the lowest bit.
    F16,
    /// For `f32` whose lower 16 bits are zero: the upper 16 bits, with the sign as the lowest bit.
    Bf16,
    /// The bits with the sign as the lowest bit. The upper byte of an `f32` is then its exponent.
    Rotated,
    /// The bits with the sign bit flipped. Words of signed bytes then have the order of the
    /// numbers.
    Ordered,
}

pub(super) const FORMS: [Form; 6] =
    [Form::Word, Form::Integer, Form::F16, Form::Bf16, Form::Rotated, Form::Ordered];

/// A number that the form cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exception {
    row: u8,
    dimension: u16,
    bits: u32,
}

/// The words of a block in one form.
#[derive(Clone, Debug)]
pub(super) struct Words {
    pub(super) form: Form,
    pub(super) decimals: u8,
    base: i32,
    exceptions: Vec<Exception>,
    pub(super) words: Vec<u32>,
    /// Largest number of bits that a word uses.
    pub(super) bits: u32,
}

impl Form {
    pub(super) fn tag(self) -> u8 {
        FORMS.iter().position(|&form| form == self).expect("a listed form") as u8
    }

    /// Largest number of bits that a word uses.
    pub(super) fn bits(self, kind: Kind) -> u32 {
        match self {
            Form::F16 | Form::Bf16 => 16,
            Form::Integer => 31,
            Form::Word | Form::Rotated | Form::Ordered => kind.bytes() as u32 * 8,
        }
    }

    /// True if numbers of this kind can have this form.
    fn fits(self, kind: Kind) -> bool {
        match self {
            Form::Word => true,
            Form::Integer | Form::F16 | Form::Bf16 => kind == Kind::F32,
            Form::Rotated => kind.bytes() > 1,
            Form::Ordered => kind == Kind::I8,
        }
    }
}

/// Converts a block to `form`. `None` if the form cannot express every number; whole numbers may
/// have a few exceptions.
pub(super) fn apply<B: Bits>(
    form: Form,
    kind: Kind,
    rows: &[B],
    dimension: usize,
) -> Option<Words> {
    if !form.fits(kind) {
        return None;
    }
    if form == Form::Integer {
        return integers(rows, dimension);
    }
    let bits = form.bits(kind);
    let rotate = |word: u32| (word << 1 | word >> (bits - 1)) & mask(bits);
    let numbers = rows.iter().map(|x| x.to_word());
    let words: Option<Vec<u32>> = match form {
        Form::Word => Some(numbers.collect()),
        Form::Rotated => Some(numbers.map(rotate).collect()),
        Form::Ordered => Some(numbers.map(|x| x ^ 0x80).collect()),
        Form::F16 => numbers.map(|x| narrow_f16(x).map(|half| rotate(u32::from(half)))).collect(),
        Form::Bf16 => numbers.map(|x| (x & 0xffff == 0).then(|| rotate(x >> 16))).collect(),
        Form::Integer => None,
    };
    Some(Words { form, decimals: 0, base: 0, exceptions: Vec::new(), words: words?, bits })
}

fn mask(bits: u32) -> u32 {
    ((1u64 << bits) - 1) as u32
}

/// Reverses a form: first for each word, then for the exceptions.
#[derive(Clone, Copy)]
pub(super) struct Inverse<'a> {
    form: Form,
    bits: u32,
    base: i32,
    power: f64,
    exceptions: &'a [u8],
}

impl Words {
    /// Appends the data that [`Inverse::read`] needs.
    pub(super) fn write_head(&self, out: &mut Vec<u8>) {
        if self.form != Form::Integer {
            return;
        }
        out.extend_from_slice(&self.base.to_le_bytes());
        out.extend_from_slice(&(self.exceptions.len() as u32).to_le_bytes());
        for exception in &self.exceptions {
            out.push(exception.row);
            out.extend_from_slice(&exception.dimension.to_le_bytes());
            out.extend_from_slice(&exception.bits.to_le_bytes());
        }
    }
}

impl<'a> Inverse<'a> {
    /// Reads the data that [`Words::write_head`] wrote and advances `input` past it.
    pub(super) fn read(
        form: Form,
        kind: Kind,
        decimals: u8,
        rows: usize,
        dimension: usize,
        input: &mut ByteReader<'a>,
    ) -> Result<Inverse<'a>, CodecError> {
        if !form.fits(kind) {
            return Err(CodecError("the form of a block is not one of its element type"));
        }
        let bits = form.bits(kind);
        let mut inverse = Inverse { form, bits, base: 0, power: 1.0, exceptions: &[] };
        if form != Form::Integer {
            return match decimals {
                0 => Ok(inverse),
                _ => Err(CodecError("decimals in a form that has none")),
            };
        }
        if decimals > DECIMALS_MAX {
            return Err(CodecError("more decimals than are ever written"));
        }
        let (base, count) = (input.i32()?, input.u32()? as usize);
        let exceptions = input.bytes(count.saturating_mul(EXCEPTION))?;
        let mut last = None;
        for exception in exceptions.chunks_exact(EXCEPTION).map(exception) {
            let place = (exception.row, exception.dimension);
            let inside = usize::from(place.0) < rows && usize::from(place.1) < dimension;
            if !inside || last.is_some_and(|last| last >= place) {
                return Err(CodecError("the exceptions of a block are out of order"));
            }
            last = Some(place);
        }
        inverse.base = base;
        inverse.power = 10f64.powi(i32::from(decimals));
        inverse.exceptions = exceptions;
        Ok(inverse)
    }

    /// Largest number of bits that a word uses.
    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    /// Converts the words of a row back to numbers in `out`.
    pub(super) fn row<B: Bits>(&self, row: usize, words: &[u32], out: &mut [B]) {
        let out_words = out.iter_mut().zip(words.iter().copied());
        let (bits, base) = (self.bits, self.base);
        let unrotate = |word: u32| word >> 1 | (word & 1) << (bits - 1);
        match self.form {
            Form::Word => out_words.for_each(|(x, word)| *x = B::from_word(word)),
            Form::Ordered => out_words.for_each(|(x, word)| *x = B::from_word(word ^ 0x80)),
            Form::Rotated => out_words.for_each(|(x, word)| *x = B::from_word(unrotate(word))),
            Form::Bf16 => {
                out_words.for_each(|(x, word)| *x = B::from_word(unrotate(word) << 16));
            }
            Form::F16 => {
                out_words.for_each(|(x, word)| *x = B::from_word(widen_f16(unrotate(word) as u16)))
            }
            Form::Integer if self.power == 1.0 => out_words.for_each(|(x, word)| {
                *x = B::from_word((base.wrapping_add(word as i32) as f32).to_bits());
            }),
            Form::Integer => out_words.for_each(|(x, word)| {
                let whole = f64::from(base.wrapping_add(word as i32));
                *x = B::from_word(((whole / self.power) as f32).to_bits());
            }),
        }
        self.patch(row, out);
    }

    fn patch<B: Bits>(&self, row: usize, out: &mut [B]) {
        let (exceptions, _) = self.exceptions.as_chunks::<EXCEPTION>();
        let from = exceptions.partition_point(|bytes| usize::from(bytes[0]) < row);
        for bytes in exceptions[from..].iter().take_while(|bytes| usize::from(bytes[0]) == row) {
            let exception = exception(bytes);
            out[usize::from(exception.dimension)] = B::from_word(exception.bits);
        }
    }
}

fn exception(bytes: &[u8]) -> Exception {
    Exception {
        row: bytes[0],
        dimension: u16::from_le_bytes([bytes[1], bytes[2]]),
        bits: u32::from_le_bytes([bytes[3], bytes[4], bytes[5], bytes[6]]),
    }
}

/// The integer multiple of `10^-decimals` that equals `bits` exactly, if there is one.
fn whole(bits: u32, power: f64) -> Option<i32> {
    let nearest = (f64::from(f32::from_bits(bits)) * power).round_ties_even();
    // Goes through the integer, so that negative zero does not pass for zero.
    let whole = nearest as i32;
    let back = (f64::from(whole) / power) as f32;
    (nearest.abs() < INTEGER_MAX && back.to_bits() == bits).then_some(whole)
}

fn integers<B: Bits>(rows: &[B], dimension: usize) -> Option<Words> {
    let decimals = likely_decimals(rows)?;
    let power = 10f64.powi(i32::from(decimals));
    let mut wholes = Vec::with_capacity(rows.len());
    let mut exceptions = Vec::new();
    for (index, x) in rows.iter().enumerate() {
        let whole = whole(x.to_word(), power);
        if whole.is_none() {
            let (row, dimension) = ((index / dimension) as u8, (index % dimension) as u16);
            exceptions.push(Exception { row, dimension, bits: x.to_word() });
            if exceptions.len() > rows.len() / EXCEPTIONS_SHARE {
                return None;
            }
        }
        wholes.push(whole);
    }
    let base = wholes.iter().flatten().copied().min()?;
    // The word of an exception is never used, and the smallest word costs the least.
    let words: Vec<u32> = wholes
        .iter()
        .map(|whole| whole.map_or(0, |whole| whole.wrapping_sub(base) as u32))
        .collect();
    Some(Words { form: Form::Integer, decimals, base, exceptions, words, bits: 31 })
}

/// Estimates from a sample which number of decimals needs the fewest bits.
fn likely_decimals<B: Bits>(rows: &[B]) -> Option<u8> {
    let step = (rows.len() / SAMPLE).max(1);
    // An odd step reaches every dimension.
    let sample: Vec<u32> = rows.iter().step_by(step | 1).map(|x| x.to_word()).collect();
    let cost = |decimals: u8| {
        let power = 10f64.powi(i32::from(decimals));
        let misses = sample.iter().filter(|&&bits| whole(bits, power).is_none()).count();
        (misses * EXCEPTIONS_SHARE <= 2 * sample.len()).then(|| {
            let bits = f64::from(decimals) * std::f64::consts::LOG2_10;
            bits + (misses * EXCEPTION * 8) as f64 / sample.len() as f64
        })
    };
    (0..=DECIMALS_MAX)
        .filter_map(|decimals| cost(decimals).map(|cost| (cost, decimals)))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, decimals)| decimals)
}

/// The half-precision number that equals `bits`, if there is one. The payload of a NaN is kept.
pub(super) fn narrow_f16(bits: u32) -> Option<u16> {
    let sign = (bits >> 16 & 0x8000) as u16;
    let (exponent, fraction) = ((bits >> 23 & 0xff) as i32, bits & 0x7f_ffff);
    let whole =
        |drop: u32, value: u32| (value & mask(drop) == 0).then(|| sign | (value >> drop) as u16);
    match exponent {
        0xff => whole(13, fraction).map(|half| half | 0x7c00),
        0 => (fraction == 0).then_some(sign),
        113..=142 => whole(13, ((exponent - 112) as u32) << 23 | fraction),
        // Below 2^-14 halves are subnormal: the leading one becomes a bit of the fraction.
        103..=112 => whole((126 - exponent) as u32, fraction | 0x80_0000),
        _ => None,
    }
}

/// The single-precision number that equals a half-precision one.
pub(super) fn widen_f16(half: u16) -> u32 {
    let sign = u32::from(half & 0x8000) << 16;
    let (exponent, fraction) = (u32::from(half >> 10 & 0x1f), u32::from(half & 0x3ff));
    sign | match (exponent, fraction) {
        (0x1f, _) => 0x7f80_0000 | fraction << 13,
        (0, 0) => 0,
        (0, _) => {
            let up = fraction.leading_zeros() - 21;
            (113 - up) << 23 | (fraction << (13 + up) & 0x7f_ffff)
        }
        _ => (exponent + 112) << 23 | fraction << 13,
    }
}
