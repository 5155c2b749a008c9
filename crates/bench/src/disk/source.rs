//! Rows that stay on the disk: each is read when it is needed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use vstream_vector::{kernels, SplitMix};

use crate::runbook::RunbookError;

/// Bytes before the rows of a matrix file.
const HEADER: u64 = 8;
/// Length of what is added to a row to make a neighbour, in that of the row.
const NOISE: f32 = 0.2;
/// Rows that decide whether all numbers are whole.
const LOOKED_AT: usize = 1_000;

/// The rows of a matrix file (`.fbin`), and after them seeded neighbours of these rows, without end.
#[derive(Debug)]
pub struct RowFile {
    path: PathBuf,
    file: File,
    rows: usize,
    dimension: usize,
    /// Whether numbers are whole and from 0 to 255, as those of SIFT; neighbours are so too.
    is_whole: bool,
}

impl RowFile {
    /// Opens a file. Memory: none that grows with the rows. Errors: `Io`; `BadMatrix` if the length
    /// is not the one that the header says, or there are no rows.
    pub fn open(path: &Path) -> Result<RowFile, RunbookError> {
        let file = File::open(path).map_err(RunbookError::io("read", path))?;
        let length = file.metadata().map_err(RunbookError::io("read", path))?.len();
        let mut head = [0u8; HEADER as usize];
        let bad = |what: &str| RunbookError::BadMatrix {
            path: path.to_path_buf(),
            what: what.to_owned(),
        };
        file.read_exact_at(&mut head, 0).map_err(|_| bad("it is shorter than its header"))?;
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let (rows, dimension) = (word(0) as usize, word(4) as usize);
        if rows == 0 || dimension == 0 {
            return Err(bad("it has no rows or no dimension"));
        }
        if length != HEADER + (rows * dimension * 4) as u64 {
            return Err(bad("its length is not the one that its header says"));
        }
        let path = path.to_path_buf();
        let mut opened = RowFile { path, file, rows, dimension, is_whole: false };
        let mut row = vec![0.0; dimension];
        let mut is_whole = true;
        for at in 0..rows.min(LOOKED_AT) {
            opened.read(at, &mut row)?;
            is_whole &= row.iter().all(|&x| (0.0..=255.0).contains(&x) && x.fract() == 0.0);
        }
        opened.is_whole = is_whole;
        Ok(opened)
    }

    /// Rows of the file.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Numbers per row.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Reads row `at` into `row` (`dimension` numbers). From [`RowFile::rows`] on it is a neighbour of
    /// a row of the file, a function of `at` alone. Errors: `Io`; `BadMatrix` for a number that is not
    /// finite.
    pub fn read(&self, at: usize, row: &mut [f32]) -> Result<(), RunbookError> {
        assert_eq!(row.len(), self.dimension, "room for one row");
        let mut random = SplitMix(0x6e65_6172 ^ (at as u64) << 8);
        let is_neighbour = at >= self.rows;
        let source = if is_neighbour { random.below(self.rows) } else { at };
        let mut bytes = vec![0u8; self.dimension * 4];
        let from = HEADER + (source * bytes.len()) as u64;
        self.file.read_exact_at(&mut bytes, from).map_err(RunbookError::io("read", &self.path))?;
        for (x, word) in row.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *x = f32::from_le_bytes(*word);
        }
        if !row.iter().all(|x| x.is_finite()) {
            let what = "it holds a number that is not finite".to_owned();
            return Err(RunbookError::BadMatrix { path: self.path.clone(), what });
        }
        if is_neighbour {
            let each = NOISE * (kernels::norm_squared(row) / row.len() as f32).sqrt();
            row.iter_mut().for_each(|x| *x += each * random.normal());
            if self.is_whole {
                row.iter_mut().for_each(|x| *x = x.round().clamp(0.0, 255.0));
            }
        }
        Ok(())
    }
}
