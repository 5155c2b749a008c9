//! Single rows of matrix files, and the names of rows.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use vstream_settings::{read_matrix_header, MatrixHeader};
use vstream_vector::{with_number, Number, Widen};

use crate::failure::Failure;

/// A matrix file, read row by row.
pub(crate) struct Matrix {
    path: PathBuf,
    file: File,
    header: MatrixHeader,
}

impl Matrix {
    pub(crate) fn open(path: &Path) -> Result<Matrix, Failure> {
        let header = read_matrix_header(path).map_err(Failure::settings)?;
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        Ok(Matrix { path: path.to_path_buf(), file, header })
    }

    pub(crate) fn rows(&self) -> u64 {
        self.header.rows
    }

    /// One row as floats, whatever the file holds.
    pub(crate) fn row(&mut self, row: u64) -> Result<Vec<f32>, Failure> {
        let MatrixHeader { rows, dimension, element } = self.header;
        if row >= rows {
            return Err(Failure::settings(format!(
                "Row {row} is not in {}, which has {rows} rows. Give a row from 0 to {}.",
                self.path.display(),
                rows - 1
            )));
        }
        let row_bytes = (dimension * element.bytes()) as u64;
        let mut bytes = vec![0; row_bytes as usize];
        self.file
            .seek(SeekFrom::Start(8 + row * row_bytes))
            .and_then(|_| self.file.read_exact(&mut bytes))
            .map_err(|error| unreadable(&self.path, &error))?;
        Ok(with_number!(element, N => {
            bytes.chunks_exact(size_of::<N>()).map(|number| N::take(number).widen()).collect()
        }))
    }
}

/// Names of ids: line number = id.
#[derive(Default)]
pub(crate) struct Names(Vec<String>);

impl Names {
    pub(crate) fn read(path: &Path) -> Result<Names, Failure> {
        let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
        Ok(Names(text.lines().map(str::to_owned).collect()))
    }

    /// The name of an id, or the id itself.
    pub(crate) fn of(&self, id: u64) -> String {
        match self.0.get(usize::try_from(id).unwrap_or(usize::MAX)) {
            Some(name) => name.clone(),
            None => id.to_string(),
        }
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::settings(format!("{} cannot be read ({error}). Correct the path.", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_every_kind_of_file_are_read_as_floats() {
        fn check<N: Number>(name: &str, values: [f32; 4]) {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join(name);
            let mut bytes = [2u32.to_le_bytes(), 2u32.to_le_bytes()].concat();
            values.iter().for_each(|&value| N::narrow(value).put(&mut bytes));
            fs::write(&path, bytes).expect("writes");
            let mut matrix = Matrix::open(&path).expect("opens");
            assert_eq!(matrix.row(1).expect("a row"), values[2..], "{name}");
            assert!(matrix.row(2).is_err());
        }
        check::<f32>("m.fbin", [1.0, 2.0, -3.5, 4e20]);
        check::<u8>("m.u8bin", [1.0, 2.0, 0.0, 255.0]);
        check::<i8>("m.i8bin", [1.0, 2.0, -128.0, 127.0]);
    }
}
