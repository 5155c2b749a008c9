//! Vectors in the element type of their collection: borrowed, in the buffer of a chunk, or narrowed
//! from `f32` before they are stored.

use vstream_vector::{kernels, with_number, Bf16, Element, Metric, Number, Widen, F16};

use crate::append::{append_buffer, Cells, Pen, PARTS};

/// Evaluates `$body`, where `$numbers` is the content of `$value`'s variant.
macro_rules! with_numbers {
    ($kind:ident, $value:expr, $numbers:ident => $body:expr) => {
        match $value {
            $kind::F32($numbers) => $body,
            $kind::F16($numbers) => $body,
            $kind::Bf16($numbers) => $body,
            $kind::U8($numbers) => $body,
            $kind::I8($numbers) => $body,
        }
    };
}

/// The three enums with a variant per element type, and the code that matches two of them at once.
macro_rules! element_enums {
    ($($(#[$doc:meta])* $variant:ident($number:ty),)*) => {
        /// The vector of a row, in the element type of its collection.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum VectorRef<'a> {
            $($(#[$doc])* $variant(&'a [$number]),)*
        }

        /// The vectors of a chunk, one after the other.
        pub(super) enum Vectors {
            $($variant(Cells<$number>),)*
        }

        #[derive(Clone, Debug)]
        enum Narrowed {
            $($variant(Vec<$number>),)*
        }

        impl Vectors {
            /// Appends a vector and publishes it. Panics if its element type is another.
            pub(super) fn push(&self, pen: &mut Pen, vector: VectorRef<'_>) {
                match (self, vector) {
                    $((Vectors::$variant(cells), VectorRef::$variant(row)) => cells.push(pen, row),)*
                    _ => panic!("a row of another element type than its collection"),
                }
            }
        }

        $(
            impl<'a> From<&'a [$number]> for VectorRef<'a> {
                fn from(numbers: &'a [$number]) -> VectorRef<'a> {
                    VectorRef::$variant(numbers)
                }
            }

            impl From<Cells<$number>> for Vectors {
                fn from(cells: Cells<$number>) -> Vectors {
                    Vectors::$variant(cells)
                }
            }

            impl From<Vec<$number>> for Narrowed {
                fn from(numbers: Vec<$number>) -> Narrowed {
                    Narrowed::$variant(numbers)
                }
            }
        )*
    };
}

element_enums! {
    /// Single precision.
    F32(f32),
    /// Half precision.
    F16(F16),
    /// Upper halves of singles.
    Bf16(Bf16),
    /// Unsigned bytes.
    U8(u8),
    /// Signed bytes.
    I8(i8),
}

impl VectorRef<'_> {
    /// Copies the vector as `f32` into `out`. Panics if `out` has another dimension.
    pub fn read(&self, out: &mut [f32]) {
        with_numbers!(VectorRef, self, row => {
            assert_eq!(out.len(), row.len(), "a buffer of another dimension");
            out.iter_mut().zip(*row).for_each(|(x, number)| *x = number.widen());
        });
    }

    /// Appends the bytes of its numbers to `out`, little-endian.
    pub fn put(&self, out: &mut Vec<u8>) {
        with_numbers!(VectorRef, self, row => row.iter().for_each(|number| number.put(out)));
    }

    #[inline]
    pub(super) fn prefetch(&self) {
        with_numbers!(VectorRef, self, row => kernels::prefetch(row));
    }
}

/// Distance of a query to a stored vector: the metric's formula on the stored numbers.
#[inline]
pub fn distance(metric: Metric, query: &[f32], row: VectorRef<'_>) -> f32 {
    with_numbers!(VectorRef, row, row => match metric {
        Metric::L2 => kernels::l2_squared(query, row),
        Metric::Cosine => 1.0 - kernels::inner_product(query, row),
        Metric::InnerProduct => -kernels::inner_product(query, row),
    })
}

impl Vectors {
    /// A buffer for `rows` vectors, allocated by quarters, and the pen that fills it.
    pub(super) fn new(element: Element, dimension: usize, rows: usize) -> (Pen, Vectors) {
        let part = rows.div_ceil(PARTS) * dimension;
        with_number!(element, N => {
            let (pen, cells) = append_buffer::<N>(rows * dimension, part);
            (pen, Vectors::from(cells))
        })
    }

    /// Numbers published so far.
    #[inline]
    pub(super) fn len(&self) -> usize {
        with_numbers!(Vectors, self, cells => cells.len())
    }

    /// Bytes reserved.
    pub(super) fn bytes(&self) -> usize {
        with_numbers!(Vectors, self, cells => cells.bytes())
    }

    /// `count` published numbers from `start`.
    #[inline]
    pub(super) fn slice(&self, start: usize, count: usize) -> VectorRef<'_> {
        with_numbers!(Vectors, self, cells => VectorRef::from(cells.slice(start, count)))
    }
}

/// Narrows vectors to the element type of a collection for [`crate::Insert::upsert`]; holds one.
#[derive(Clone, Debug)]
pub struct VectorBuffer(Narrowed);

impl VectorBuffer {
    /// A buffer for vectors of `element`.
    pub fn new(element: Element) -> VectorBuffer {
        VectorBuffer(with_number!(element, N => Narrowed::from(Vec::<N>::new())))
    }

    /// Replaces the held vector by `vector`. Rounds each value to the nearest of the element type, ties
    /// to even. The caller has checked each value with [`Element::accepts`].
    pub fn narrow(&mut self, vector: &[f32]) -> VectorRef<'_> {
        with_numbers!(Narrowed, &mut self.0, numbers => refill(numbers, vector));
        self.vector()
    }

    /// The held vector.
    pub fn vector(&self) -> VectorRef<'_> {
        with_numbers!(Narrowed, &self.0, numbers => VectorRef::from(numbers.as_slice()))
    }
}

fn refill<N: Number>(numbers: &mut Vec<N>, values: &[f32]) {
    numbers.clear();
    numbers.extend(values.iter().map(|&value| N::narrow(value)));
}
