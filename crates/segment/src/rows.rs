//! Rows of one leaf to be written to a segment, and rows decoded from one.

use std::ops::Range;

use vstream_index::{IndexRow, RowKey, VectorRef};
use vstream_store::codec::{CodecError, Decoder, Encoder, Policy, Shape};
use vstream_vector::{Bf16, Element, F16};

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

/// Rows of one leaf: keys and vectors of one element type and dimension.
#[derive(Clone, Debug)]
pub struct LeafRows {
    pub(crate) dimension: usize,
    pub(crate) keys: Vec<RowKey>,
    pub(crate) numbers: Numbers,
}

impl LeafRows {
    /// No rows.
    pub fn new(element: Element, dimension: usize) -> LeafRows {
        LeafRows { dimension, keys: Vec::new(), numbers: Numbers::new(element) }
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
    }

    /// An added row.
    pub fn row(&self, row: usize) -> IndexRow<'_> {
        IndexRow::plain(self.keys[row], self.vector(row))
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
