//! Lossless codecs for blocks of up to 32 vectors. Decoding returns every number with exactly its
//! original bits.
//!
//! 1. A *form* turns the numbers of a block into words that are easier to code (`form.rs`): whole
//!    numbers or decimals, exact half-precision numbers, or floats with the sign as the lowest bit.
//! 2. A *coder* writes the words: as fields of a fixed width (`packed.rs`), with short codes for
//!    exponents (`split.rs`), as entropy-coded byte planes (`planes.rs`), with the paper's xor
//!    (`xor.rs`), or unchanged.
//! 3. The encoder tries every combination that its [`Policy`] allows and keeps the shortest. A
//!    block is never longer than its numbers and [`HEAD`] bytes.
//!
//! A block is self-contained: no row needs a byte outside its block. With the coders of
//! [`Tier::Hot`] a row is decoded without the other rows.
//!
//! ```text
//! u8 form | u8 coder | u8 rows, 1..=32 | u8 decimals | form integer only: i32 least, u32
//! exceptions, each u8 row, u16 dimension, u32 bits | the coder's part
//! ```
//!
//! The decoder does not trust its input. Any bytes give an error or some numbers. They never cause
//! a panic or take memory beyond the requested rows. A checksum has to show that the numbers are
//! the right ones. Sources: frame of reference and decimals as in ALP (Afroozeh and others, SIGMOD
//! 2024), xor as in Gorilla. docs/benchmarks.md has measurements.

mod bits;
mod form;
mod packed;
mod planes;
mod split;
#[cfg(test)]
mod tests;
mod xor;

use std::fmt;
use std::ops::Range;

use vstream_vector::cursor::{ByteReader, Truncated};
use vstream_vector::kernels::Fields;
use vstream_vector::{Bf16, Element, F16};

use self::form::{Form, Inverse, Words, FORMS};
use self::packed::Packed;
use self::planes::{PlaneReader, Planes};
use self::split::Split;

/// Largest number of rows in a block.
pub const BLOCK_ROWS: usize = 32;
/// Bytes of a block's head. A block is at most this much longer than its numbers.
pub const HEAD: usize = 4;
/// Largest number of dimensions of a row.
pub const DIMENSION_MAX: usize = 4096;

/// The bytes are no block of the given shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodecError(&'static str);

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for CodecError {}

impl From<Truncated> for CodecError {
    fn from(_: Truncated) -> CodecError {
        CodecError("the block is shorter than its counts say")
    }
}

/// The number format of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Single precision, as `u32`.
    F32,
    /// Half precision or bfloat16, as `u16`.
    Half,
    /// Unsigned bytes, as `u8`.
    U8,
    /// Signed bytes, as `u8`.
    I8,
}

impl From<Element> for Kind {
    fn from(element: Element) -> Kind {
        match element {
            Element::F32 => Kind::F32,
            Element::F16 | Element::Bf16 => Kind::Half,
            Element::U8 => Kind::U8,
            Element::I8 => Kind::I8,
        }
    }
}

impl Kind {
    /// Bytes of a number.
    pub fn bytes(self) -> usize {
        match self {
            Kind::F32 => 4,
            Kind::Half => 2,
            Kind::U8 | Kind::I8 => 1,
        }
    }
}

/// A number of an element type, or its bits: `u32` for [`Kind::F32`], `u16` for [`Kind::Half`],
/// `u8` for the others.
pub trait Bits: Copy + Default + private::Sealed {
    /// Bytes of a number.
    const BYTES: usize;
    /// The bits of the number, as the low bits of a word.
    fn to_word(self) -> u32;
    /// The number whose bits are the low bits of `word`.
    fn from_word(word: u32) -> Self;
}

mod private {
    pub trait Sealed {}
}

macro_rules! bits {
    ($($kind:ty),*) => {$(
        impl private::Sealed for $kind {}
        impl Bits for $kind {
            const BYTES: usize = size_of::<$kind>();
            #[inline]
            fn to_word(self) -> u32 {
                u32::from(self)
            }
            #[inline]
            fn from_word(word: u32) -> $kind {
                word as $kind
            }
        }
    )*};
}
bits!(u8, u16, u32);

/// Implements `Bits` for number types that are not integers of bits themselves.
macro_rules! number_bits {
    ($($number:ty: $to_word:expr, $from_word:expr;)*) => {$(
        impl private::Sealed for $number {}
        impl Bits for $number {
            const BYTES: usize = size_of::<$number>();
            #[inline]
            fn to_word(self) -> u32 {
                $to_word(self)
            }
            #[inline]
            fn from_word(word: u32) -> $number {
                $from_word(word)
            }
        }
    )*};
}
number_bits! {
    f32: f32::to_bits, f32::from_bits;
    F16: |x: F16| u32::from(x.0), |word| F16(word as u16);
    Bf16: |x: Bf16| u32::from(x.0), |word| Bf16(word as u16);
    i8: |x: i8| u32::from(x as u8), |word| word as u8 as i8;
}

/// The number format and the dimension of a block's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Element type.
    pub kind: Kind,
    /// Numbers of a row, 1..=[`DIMENSION_MAX`].
    pub dimension: usize,
}

/// How often blocks are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Often. Only coders with fixed widths, so that each row is decoded alone.
    Hot,
    /// Rarely. Entropy coding too, so that reading a row decodes its whole block.
    Cold,
}

/// The codecs that an encoder may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The shortest codec of a tier.
    Best(Tier),
    /// No coding.
    Raw,
    /// The paper's xor, or no coding where that is shorter.
    Xor,
}

/// How the words of a block are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Coder {
    Raw,
    Packed,
    Split,
    Planes,
    Xor,
}

const CODERS: [Coder; 5] = [Coder::Raw, Coder::Packed, Coder::Split, Coder::Planes, Coder::Xor];

/// The form and the coder of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec {
    form: Form,
    coder: Coder,
    decimals: u8,
}

impl Codec {
    /// True if each row is decoded without the others.
    pub fn is_random_access(self) -> bool {
        matches!(self.coder, Coder::Raw | Coder::Packed | Coder::Split)
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = match self.form {
            Form::Word | Form::Ordered => "",
            Form::Integer if self.decimals > 0 => "decimal ",
            Form::Integer => "integer ",
            Form::F16 => "f16 ",
            Form::Bf16 => "bf16 ",
            Form::Rotated => "float ",
        };
        let coder = match self.coder {
            Coder::Raw => "raw",
            Coder::Packed => "pack",
            Coder::Split => "split",
            Coder::Planes => "planes",
            Coder::Xor => "xor",
        };
        write!(f, "{form}{coder}")
    }
}

/// Encodes blocks. It keeps buffers between calls.
pub struct Encoder {
    planes: Planes,
    best: Vec<u8>,
    trial: Vec<u8>,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder::new()
    }
}

impl Encoder {
    /// An encoder for any shape.
    pub fn new() -> Encoder {
        Encoder { planes: Planes::new(), best: Vec::new(), trial: Vec::new() }
    }

    /// Appends a block to `out`: at most [`HEAD`] bytes more than the numbers have.
    ///
    /// * `rows`: 1 to [`BLOCK_ROWS`] whole rows.
    ///
    /// Cost: a few passes for each candidate, see docs/benchmarks.md. Panics if `rows` does not
    /// have this shape.
    pub fn encode<B: Bits>(
        &mut self,
        shape: Shape,
        rows: &[B],
        policy: Policy,
        out: &mut Vec<u8>,
    ) -> Codec {
        assert_eq!(shape.kind.bytes(), B::BYTES, "numbers of another element type");
        assert!((1..=DIMENSION_MAX).contains(&shape.dimension), "dimension out of range");
        assert!(rows.len().is_multiple_of(shape.dimension), "rows must be whole");
        let n = rows.len() / shape.dimension;
        assert!((1..=BLOCK_ROWS).contains(&n), "a block has 1 to {BLOCK_ROWS} rows");
        self.best.clear();
        let mut codec = Codec { form: Form::Word, coder: Coder::Raw, decimals: 0 };
        let mut least = HEAD + std::mem::size_of_val(rows);
        for &form in forms(policy) {
            let Some(words) = form::apply(form, shape.kind, rows, shape.dimension) else {
                continue;
            };
            for &coder in coders(policy) {
                if !self.write(shape, n, &words, coder, least) || self.trial.len() >= least {
                    continue;
                }
                std::mem::swap(&mut self.best, &mut self.trial);
                least = self.best.len();
                codec = Codec { form, coder, decimals: words.decimals };
            }
        }
        if codec.coder == Coder::Raw {
            out.extend_from_slice(&[Form::Word.tag(), Coder::Raw.tag(), n as u8, 0]);
            for x in rows {
                out.extend_from_slice(&x.to_word().to_le_bytes()[..B::BYTES]);
            }
        } else {
            out.extend_from_slice(&self.best);
        }
        codec
    }

    /// Writes a block to `trial`. False if the coder cannot write these words, or finds early that
    /// it needs more than `longest` bytes.
    fn write(
        &mut self,
        shape: Shape,
        rows: usize,
        words: &Words,
        coder: Coder,
        longest: usize,
    ) -> bool {
        let out = &mut self.trial;
        out.clear();
        out.extend_from_slice(&[words.form.tag(), coder.tag(), rows as u8, words.decimals]);
        words.write_head(out);
        let limit = longest.saturating_sub(out.len());
        let float = matches!(words.form, Form::F16 | Form::Bf16 | Form::Rotated);
        match coder {
            Coder::Packed => return packed::encode(&words.words, shape.dimension, limit, out),
            Coder::Split if float => {
                return split::encode(&words.words, shape.dimension, words.bits, limit, out);
            }
            Coder::Planes => self.planes.encode(&words.words, out),
            Coder::Xor => xor::encode(&words.words, shape.dimension, words.bits, out),
            Coder::Split | Coder::Raw => return false,
        }
        true
    }
}

fn forms(policy: Policy) -> &'static [Form] {
    match policy {
        Policy::Best(_) => &FORMS,
        Policy::Raw => &[],
        Policy::Xor => &[Form::Word],
    }
}

fn coders(policy: Policy) -> &'static [Coder] {
    match policy {
        Policy::Best(Tier::Hot) => &[Coder::Packed, Coder::Split],
        Policy::Best(Tier::Cold) => &[Coder::Packed, Coder::Split, Coder::Planes],
        Policy::Raw => &[],
        Policy::Xor => &[Coder::Xor],
    }
}

impl Coder {
    fn tag(self) -> u8 {
        CODERS.iter().position(|&coder| coder == self).expect("a listed coder") as u8
    }
}

/// The head of a block.
struct Head {
    form: Form,
    coder: Coder,
    rows: usize,
    decimals: u8,
}

fn head(input: &mut ByteReader) -> Result<Head, CodecError> {
    let [form, coder, rows, decimals] = input.array::<HEAD>()?;
    let form = FORMS.get(usize::from(form)).copied().ok_or(CodecError("an unknown form"))?;
    let coder = CODERS.get(usize::from(coder)).copied().ok_or(CodecError("an unknown coder"))?;
    let rows = usize::from(rows);
    if !(1..=BLOCK_ROWS).contains(&rows) {
        return Err(CodecError("a block of no or too many rows"));
    }
    Ok(Head { form, coder, rows, decimals })
}

/// Reads the codec and the number of rows from the head of a block. Errors: the head is damaged.
pub fn describe(bytes: &[u8]) -> Result<(Codec, usize), CodecError> {
    let Head { form, coder, rows, decimals } = head(&mut ByteReader::new(bytes))?;
    Ok((Codec { form, coder, decimals }, rows))
}

/// Decodes blocks. It keeps buffers between calls.
pub struct Decoder {
    planes: PlaneReader,
    words: Vec<u32>,
    fields: Fields,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl Decoder {
    /// A decoder for any shape.
    pub fn new() -> Decoder {
        Decoder { planes: PlaneReader::new(), words: Vec::new(), fields: Fields::default() }
    }

    /// Decodes rows of a block into `out`.
    ///
    /// * `bytes`: one whole block. It may be damaged.
    /// * `range`: the rows to decode. `out` has exactly their length.
    ///
    /// Cost: the requested rows with a coder of random access, otherwise the whole block. Errors:
    /// the bytes are no block of this shape, or the block has fewer rows; `out` then has undefined
    /// content. Panics if `out` has another length or element type.
    pub fn decode<B: Bits>(
        &mut self,
        shape: Shape,
        bytes: &[u8],
        range: Range<usize>,
        out: &mut [B],
    ) -> Result<(), CodecError> {
        let Shape { kind, dimension } = shape;
        assert_eq!(kind.bytes(), B::BYTES, "numbers of another element type");
        assert!((1..=DIMENSION_MAX).contains(&dimension), "dimension out of range");
        assert_eq!(out.len(), range.len() * dimension, "room for another number of rows");
        let mut input = ByteReader::new(bytes);
        let head = head(&mut input)?;
        if range.end > head.rows {
            return Err(CodecError("a block has fewer rows than were asked for"));
        }
        let Head { form, coder, rows, decimals } = head;
        let inverse = Inverse::read(form, kind, decimals, rows, dimension, &mut input)?;
        let bits = inverse.bits();
        let targets = range.clone().zip(out.chunks_exact_mut(dimension));
        match coder {
            Coder::Raw => return raw(input.rest(), rows * dimension, range.start * dimension, out),
            Coder::Packed => {
                let packed = Packed::read(input, rows, dimension, bits, &mut self.fields)?;
                self.words.resize(dimension, 0);
                for (row, out) in targets {
                    packed.row(row, &mut self.words);
                    inverse.row(row, &self.words, out);
                }
                return Ok(());
            }
            Coder::Split => {
                let split = Split::read(input, rows, dimension, bits)?;
                self.words.resize(dimension, 0);
                for (row, out) in targets {
                    split.row(row, &mut self.words);
                    inverse.row(row, &self.words, out);
                }
                return Ok(());
            }
            Coder::Planes | Coder::Xor => {}
        }
        self.words.resize(rows * dimension, 0);
        if coder == Coder::Planes {
            self.planes.decode(input, bits, &mut self.words)?;
        } else {
            xor::decode(input.rest(), dimension, bits, &mut self.words)?;
        }
        for (row, out) in targets {
            let words = &self.words[row * dimension..][..dimension];
            inverse.row(row, words, out);
        }
        Ok(())
    }
}

/// Decodes numbers that were not coded.
fn raw<B: Bits>(body: &[u8], n: usize, from: usize, out: &mut [B]) -> Result<(), CodecError> {
    if body.len() != n * B::BYTES {
        return Err(CodecError("a raw block of another length"));
    }
    for (x, bytes) in out.iter_mut().zip(body[from * B::BYTES..].chunks_exact(B::BYTES)) {
        let mut word = [0u8; 4];
        word[..B::BYTES].copy_from_slice(bytes);
        *x = B::from_word(u32::from_le_bytes(word));
    }
    Ok(())
}
