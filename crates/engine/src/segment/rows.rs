//! The rows of one leaf on their way into a segment, and rows that were decoded from one.

use vstream_index::{RowKey, VectorRef};
use vstream_store::codec::{CodecError, Decoder, Encoder, Policy, Shape};
use vstream_vector::Element;

/// Numbers of rows, row-major.
#[derive(Clone, Debug)]
pub(super) enum Numbers {
    F32(Vec<f32>),
    U8(Vec<u8>),
}

impl Numbers {
    pub(super) fn new(element: Element) -> Numbers {
        match element {
            Element::F32 => Numbers::F32(Vec::new()),
            Element::U8 => Numbers::U8(Vec::new()),
        }
    }

    pub(super) fn element(&self) -> Element {
        match self {
            Numbers::F32(_) => Element::F32,
            Numbers::U8(_) => Element::U8,
        }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Numbers::F32(x) => x.clear(),
            Numbers::U8(x) => x.clear(),
        }
    }

    fn push(&mut self, vector: VectorRef<'_>) {
        match (self, vector) {
            (Numbers::F32(x), VectorRef::F32(row)) => x.extend_from_slice(row),
            (Numbers::U8(x), VectorRef::U8(row)) => x.extend_from_slice(row),
            _ => panic!("a row of another element type than its segment"),
        }
    }

    pub(super) fn row(&self, row: usize, dimension: usize) -> VectorRef<'_> {
        let range = row * dimension..(row + 1) * dimension;
        match self {
            Numbers::F32(x) => VectorRef::F32(&x[range]),
            Numbers::U8(x) => VectorRef::U8(&x[range]),
        }
    }

    /// Appends the block of some rows to `out`.
    pub(super) fn encode(
        &self,
        rows: std::ops::Range<usize>,
        shape: Shape,
        policy: Policy,
        encoder: &mut Encoder,
        out: &mut Vec<u8>,
    ) {
        let range = rows.start * shape.dimension..rows.end * shape.dimension;
        match self {
            Numbers::F32(x) => encoder.encode(shape, &x[range], policy, out),
            Numbers::U8(x) => encoder.encode(shape, &x[range], policy, out),
        };
    }

    /// Takes the place of what was held: some rows of a block.
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        rows: std::ops::Range<usize>,
        shape: Shape,
        decoder: &mut Decoder,
    ) -> Result<(), CodecError> {
        let n = rows.len() * shape.dimension;
        match self {
            Numbers::F32(x) => {
                x.resize(n, 0.0);
                decoder.decode(shape, bytes, rows, x)
            }
            Numbers::U8(x) => {
                x.resize(n, 0);
                decoder.decode(shape, bytes, rows, x)
            }
        }
    }
}

/// Rows of one leaf: keys and vectors of one element type and dimension.
#[derive(Clone, Debug)]
pub struct LeafRows {
    pub(super) dimension: usize,
    pub(super) keys: Vec<RowKey>,
    pub(super) numbers: Numbers,
}

impl LeafRows {
    /// No rows.
    pub fn new(element: Element, dimension: usize) -> LeafRows {
        LeafRows { dimension, keys: Vec::new(), numbers: Numbers::new(element) }
    }

    /// Adds a row. Panics if it is of another element type or dimension.
    pub fn push(&mut self, key: RowKey, vector: VectorRef<'_>) {
        self.keys.push(key);
        self.numbers.push(vector);
        let n = match &self.numbers {
            Numbers::F32(x) => x.len(),
            Numbers::U8(x) => x.len(),
        };
        assert_eq!(n, self.keys.len() * self.dimension, "a row of another dimension");
    }

    /// Rows there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Forgets all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.numbers.clear();
    }

    pub(super) fn vector(&self, row: usize) -> VectorRef<'_> {
        self.numbers.row(row, self.dimension)
    }
}
