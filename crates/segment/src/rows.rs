//! Rows of one leaf to be written to a segment, and rows decoded from one.

use std::ops::Range;

use vstream_attribute::{Fields, FieldsBuffer};
use vstream_index::{IndexRow, RowKey, VectorRef};
use vstream_store::codec::{CodecError, Decoder, Encoder, Policy, Shape};
use vstream_vector::{Bf16, Element, F16};

/// Most bytes of a payload whose buffer is kept for later rows.
const SPARE_PAYLOAD: usize = 16 << 10;

/// Defines `Numbers`, the numbers of rows, row-major, with an arm for each element type.
macro_rules! numbers {
    ($($variant:ident($number:ty)),*) => {
        /// Numbers of rows, row-major.
        #[derive(Clone, Debug)]
        pub(crate) enum Numbers {
            $($variant(Vec<$number>)),*
        }

        impl Numbers {
            pub(crate) fn new(element: Element) -> Numbers {
                match element {
                    $(Element::$variant => Numbers::$variant(Vec::new()),)*
                }
            }

            pub(crate) fn element(&self) -> Element {
                match self {
                    $(Numbers::$variant(_) => Element::$variant,)*
                }
            }

            fn len(&self) -> usize {
                match self {
                    $(Numbers::$variant(x) => x.len(),)*
                }
            }

            fn clear(&mut self) {
                match self {
                    $(Numbers::$variant(x) => x.clear(),)*
                }
            }

            fn push(&mut self, vector: VectorRef<'_>) {
                match (self, vector) {
                    $((Numbers::$variant(x), VectorRef::$variant(row)) => x.extend_from_slice(row),)*
                    _ => panic!("a row of another element type than its segment"),
                }
            }

            pub(crate) fn row(&self, row: usize, dimension: usize) -> VectorRef<'_> {
                let range = row * dimension..(row + 1) * dimension;
                match self {
                    $(Numbers::$variant(x) => VectorRef::$variant(&x[range]),)*
                }
            }

            /// Appends the coded block of some rows to `out`.
            pub(crate) fn encode(
                &self,
                rows: Range<usize>,
                shape: Shape,
                policy: Policy,
                encoder: &mut Encoder,
                out: &mut Vec<u8>,
            ) {
                let range = rows.start * shape.dimension..rows.end * shape.dimension;
                match self {
                    $(Numbers::$variant(x) => encoder.encode(shape, &x[range], policy, out),)*
                };
            }

            /// Replaces the numbers held by some decoded rows of a block.
            pub(crate) fn decode(
                &mut self,
                bytes: &[u8],
                rows: Range<usize>,
                shape: Shape,
                decoder: &mut Decoder,
            ) -> Result<(), CodecError> {
                let n = rows.len() * shape.dimension;
                match self {
                    $(Numbers::$variant(x) => {
                        x.resize(n, <$number>::default());
                        decoder.decode(shape, bytes, rows, x)
                    })*
                }
            }
        }
    };
}
numbers!(F32(f32), F16(F16), Bf16(Bf16), U8(u8), I8(i8));

/// Rows of one leaf: keys, vectors of one element type and dimension, and fields.
#[derive(Clone, Debug)]
pub struct LeafRows {
    pub(crate) dimension: usize,
    pub(crate) keys: Vec<RowKey>,
    pub(crate) numbers: Numbers,
    /// Fields by row, as far as the last row that has some.
    fields: Vec<FieldsBuffer>,
    /// Buffers of earlier rows.
    spare: Vec<FieldsBuffer>,
}

impl LeafRows {
    /// No rows, of the same element type and dimension.
    pub(crate) fn like(&self) -> LeafRows {
        LeafRows::new(self.numbers.element(), self.dimension)
    }

    /// No rows.
    pub fn new(element: Element, dimension: usize) -> LeafRows {
        LeafRows {
            dimension,
            keys: Vec::new(),
            numbers: Numbers::new(element),
            fields: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Adds a row. Panics if it is of another element type or dimension.
    pub fn push(&mut self, row: IndexRow<'_>) {
        self.keys.push(row.key);
        self.numbers.push(row.vector);
        assert_eq!(
            self.numbers.len(),
            self.keys.len() * self.dimension,
            "a row of another dimension"
        );
        if row.fields.is_empty() {
            return;
        }
        while self.fields.len() < self.keys.len() {
            self.fields.push(self.spare.pop().unwrap_or_default());
        }
        self.fields[self.keys.len() - 1].set(row.fields);
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Removes all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.numbers.clear();
        // A large payload does not keep its memory.
        let small = |fields: &FieldsBuffer| {
            fields.fields().payload.is_none_or(|payload| payload.len() <= SPARE_PAYLOAD)
        };
        self.spare.extend(self.fields.drain(..).filter(small));
        self.spare.iter_mut().for_each(FieldsBuffer::clear);
    }

    /// True if a row carries something beside key and vector.
    pub fn has_fields(&self) -> bool {
        !self.fields.is_empty()
    }

    /// What an added row carries beside key and vector.
    pub fn fields(&self, row: usize) -> Fields<'_> {
        self.fields.get(row).map_or(Fields::NONE, FieldsBuffer::fields)
    }

    /// An added row.
    pub fn row(&self, row: usize) -> IndexRow<'_> {
        IndexRow { key: self.keys[row], vector: self.vector(row), fields: self.fields(row) }
    }

    /// The key of an added row.
    pub fn key(&self, row: usize) -> RowKey {
        self.keys[row]
    }

    /// The vector of an added row.
    pub fn vector(&self, row: usize) -> VectorRef<'_> {
        self.numbers.row(row, self.dimension)
    }
}
