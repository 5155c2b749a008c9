//! Matrix files: `u32` rows, `u32` dimension, then rows of `f32`, all little-endian (`.fbin`).

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use vstream_vector::kernels;

use super::RunbookError;

/// Rows of one dimension, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Numbers per row, at least 1.
    pub dimension: usize,
    /// `rows x dimension` numbers.
    pub values: Vec<f32>,
}

impl Matrix {
    /// Reads the first `rows_max` rows of a file, or all.
    ///
    /// Errors: `Io`; `BadMatrix` if the header names no dimension or more rows than follow.
    pub fn read(path: &Path, rows_max: Option<usize>) -> Result<Matrix, RunbookError> {
        let bad = |what: &str| RunbookError::BadMatrix {
            path: path.to_path_buf(),
            what: what.to_owned(),
        };
        let mut file = File::open(path).map_err(RunbookError::io("read", path))?;
        let length = file.metadata().map_err(RunbookError::io("read", path))?.len();
        if length < 8 {
            return Err(bad("it is shorter than its header"));
        }
        let mut word = || -> Result<u64, RunbookError> {
            let mut bytes = [0u8; 4];
            file.read_exact(&mut bytes).map_err(RunbookError::io("read", path))?;
            Ok(u64::from(u32::from_le_bytes(bytes)))
        };
        let (rows, dimension) = (word()?, word()?);
        if rows == 0 || dimension == 0 {
            return Err(bad("it has no rows or no dimension"));
        }
        let wanted = rows.checked_mul(dimension * 4).and_then(|bytes| bytes.checked_add(8));
        if wanted != Some(length) {
            return Err(bad("its length is not the one that its header says"));
        }
        let taken = rows_max.unwrap_or(usize::MAX).min(rows as usize);
        let mut bytes = vec![0u8; taken * dimension as usize * 4];
        file.read_exact(&mut bytes).map_err(RunbookError::io("read", path))?;
        let number = |chunk: &[u8]| f32::from_le_bytes(chunk.try_into().expect("four bytes"));
        let values: Vec<f32> = bytes.chunks_exact(4).map(number).collect();
        if !values.iter().all(|x| x.is_finite()) {
            return Err(bad("it holds a number that is not finite"));
        }
        Ok(Matrix { dimension: dimension as usize, values })
    }

    /// Rows there are.
    pub fn rows(&self) -> usize {
        self.values.len() / self.dimension
    }

    /// One row, `row < rows()`.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.dimension..(row + 1) * self.dimension]
    }

    /// Scales every row that has a direction to length 1.
    pub fn normalise(&mut self) {
        for row in self.values.chunks_exact_mut(self.dimension) {
            let norm = kernels::norm_squared(row).sqrt();
            if norm > 0.0 {
                row.iter_mut().for_each(|x| *x /= norm);
            }
        }
    }

    /// The rows of these numbers, in this order.
    pub fn picked(&self, order: &[u32]) -> Matrix {
        let rows = order.iter().flat_map(|&row| self.row(row as usize));
        Matrix { dimension: self.dimension, values: rows.copied().collect() }
    }

    /// Writes the file that [`Matrix::read`] reads. Errors: `Io`.
    pub fn write(&self, path: &Path) -> Result<(), RunbookError> {
        let file = File::create(path).map_err(RunbookError::io("write", path))?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let mut fill = || -> std::io::Result<()> {
            out.write_all(&(self.rows() as u32).to_le_bytes())?;
            out.write_all(&(self.dimension as u32).to_le_bytes())?;
            self.values.iter().try_for_each(|x| out.write_all(&x.to_le_bytes()))?;
            out.flush()
        };
        fill().map_err(RunbookError::io("write", path))
    }
}
