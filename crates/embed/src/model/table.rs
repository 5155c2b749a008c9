//! A static model: a matrix with a row per token, in the format of `safetensors`.
//!
//! ```text
//! u64 length of the header | header, JSON: name → dtype, shape, data_offsets | numbers
//! ```
//!
//! All numbers are little-endian.

use std::fs;
use std::path::Path;

use serde_json::Value;
use vstream_vector::{Widen, F16};

use super::normalise;
use crate::error::EmbedError;

/// Longest header that is read.
const HEADER_BYTES_MAX: usize = 1 << 20;
const DIMENSION_MAX: usize = 4_096;

pub(super) struct Table {
    dimension: usize,
    numbers: Numbers,
}

enum Numbers {
    F16(Vec<F16>),
    F32(Vec<f32>),
}

impl Table {
    /// Reads the one matrix of a file; it has a row for each token up to `last_token`.
    pub(super) fn open(path: &Path, last_token: u32) -> Result<Table, EmbedError> {
        let bytes = fs::read(path).map_err(|error| EmbedError::io(path, error))?;
        let corrupt = |what: &str| EmbedError::corrupt(path, what);
        let (head, rest) =
            bytes.split_first_chunk::<8>().ok_or_else(|| corrupt("it ends in its header"))?;
        let length = usize::try_from(u64::from_le_bytes(*head)).unwrap_or(usize::MAX);
        if length > HEADER_BYTES_MAX || length > rest.len() {
            return Err(corrupt("it ends in its header"));
        }
        let (header, data) = rest.split_at(length);
        let header: Value =
            serde_json::from_slice(header).map_err(|error| EmbedError::corrupt(path, error))?;
        let tensors = header.as_object().ok_or_else(|| corrupt("its header is no object"))?;
        let mut matrices = tensors.iter().filter(|(name, _)| *name != "__metadata__");
        let (Some((_, matrix)), None) = (matrices.next(), matrices.next()) else {
            return Err(EmbedError::unsupported(format!(
                "{} has several matrices, and a table has one. Choose another model.",
                path.display()
            )));
        };
        let number = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
        let (rows, dimension) = number(&matrix["shape"][0])
            .zip(number(&matrix["shape"][1]))
            .filter(|(_, dimension)| (1..=DIMENSION_MAX).contains(dimension))
            .ok_or_else(|| corrupt("its matrix has no rows of 1 to 4,096 numbers"))?;
        let range = number(&matrix["data_offsets"][0]).zip(number(&matrix["data_offsets"][1]));
        let data = range
            .and_then(|(start, end)| data.get(start..end))
            .ok_or_else(|| corrupt("it ends in its matrix"))?;
        let numbers = numbers(path, &matrix["dtype"], data)?;
        let is_whole = rows.checked_mul(dimension) == Some(numbers.len());
        if !is_whole || rows <= last_token as usize {
            return Err(corrupt("its matrix does not fit its shape, or the tokens"));
        }
        Ok(Table { dimension, numbers })
    }

    pub(super) fn dimension(&self) -> usize {
        self.dimension
    }

    /// Appends the mean of the rows of `tokens`, scaled to length 1; zeros if there are none.
    pub(super) fn mean(&self, tokens: &[u32], out: &mut Vec<f32>) {
        let first = out.len();
        out.resize(first + self.dimension, 0.0);
        let sum = &mut out[first..];
        match &self.numbers {
            Numbers::F16(numbers) => add_rows(numbers, tokens, sum, F16::widen),
            Numbers::F32(numbers) => add_rows(numbers, tokens, sum, |number| number),
        }
        normalise(sum);
    }
}

fn add_rows<T: Copy>(numbers: &[T], tokens: &[u32], sum: &mut [f32], widen: impl Fn(T) -> f32) {
    for token in tokens {
        let row = &numbers[*token as usize * sum.len()..][..sum.len()];
        for (sum, number) in sum.iter_mut().zip(row) {
            *sum += widen(*number);
        }
    }
}

impl Numbers {
    fn len(&self) -> usize {
        match self {
            Numbers::F16(numbers) => numbers.len(),
            Numbers::F32(numbers) => numbers.len(),
        }
    }
}

fn numbers(path: &Path, kind: &Value, data: &[u8]) -> Result<Numbers, EmbedError> {
    match kind.as_str() {
        Some("F16") => {
            let (numbers, _) = data.as_chunks::<2>();
            Ok(Numbers::F16(numbers.iter().map(|n| F16(u16::from_le_bytes(*n))).collect()))
        }
        Some("F32") => {
            let (numbers, _) = data.as_chunks::<4>();
            Ok(Numbers::F32(numbers.iter().map(|n| f32::from_le_bytes(*n)).collect()))
        }
        _ => Err(EmbedError::unsupported(format!(
            "{} has numbers of type {kind}, and F16 and F32 are read. Choose another model.",
            path.display()
        ))),
    }
}
