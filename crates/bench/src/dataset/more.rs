//! More rows than a data set has, for measurements of scale and for nothing else.

use std::path::Path;

use vstream_vector::SplitMix;

use super::DatasetError;
use crate::runbook::Matrix;

/// Share of a row's own length that each copy is moved by, about.
const MOVED: f32 = 0.3;

/// Writes `rows` rows: those of `base`, and then again each of them, moved a little at random.
///
/// Copies lie nearer to each other than words do, so recall and speed on them say nothing of real
/// data. Cost: the result in memory. Errors: a file that cannot be read or written.
pub fn more(base: &Path, out: &Path, rows: usize, seed: u64) -> Result<(), DatasetError> {
    let failed = |error: crate::runbook::RunbookError| DatasetError::new(error.to_string());
    let matrix = Matrix::read(base, None).map_err(failed)?;
    let mut values = matrix.values.clone();
    values.truncate(rows * matrix.dimension);
    let mut random = SplitMix(seed);
    for at in matrix.rows()..rows {
        let row = matrix.row(at % matrix.rows());
        let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        let step = MOVED * length / (row.len() as f32).sqrt();
        values.extend(row.iter().map(|x| x + step * random.normal()));
    }
    Matrix { dimension: matrix.dimension, values }.write(out).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rows_are_those_of_the_base_and_copies_are_near_theirs() {
        let dir = tempfile::tempdir().expect("a folder");
        let (base, out) = (dir.path().join("base.fbin"), dir.path().join("out.fbin"));
        let values: Vec<f32> = (0..200).map(|i| ((i * 37) % 203) as f32 + 1.0).collect();
        let matrix = Matrix { dimension: 20, values };
        matrix.write(&base).expect("written");
        for rows in [4, 10, 25] {
            more(&base, &out, rows, 7).expect("made");
            let made = Matrix::read(&out, None).expect("read");
            assert_eq!(made.rows(), rows);
            for at in 0..rows {
                let (row, old) = (made.row(at), matrix.row(at % 10));
                let moved = row.iter().zip(old).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt();
                let length = old.iter().map(|x| x * x).sum::<f32>().sqrt();
                assert_eq!(moved == 0.0, at < 10, "row {at}");
                assert!(moved < 2.0 * MOVED * length, "row {at} by {moved}");
            }
        }
    }
}
