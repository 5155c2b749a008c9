//! The public interface of settings: accepted files, their normalised form, and every message.

mod normalised;
mod refused;

use std::fs;
use std::path::{Path, PathBuf};

/// A job with only the required keys. Its files are inside `folder`.
fn smallest_job(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "collection: {{dimension: 4, metric: cosine}}\n\
         vectors: {{kind: generator, path: {folder}/base.fbin}}\n\
         queries: {{kind: generator, path: {folder}/query.fbin}}\n\
         workload: {{duration: 1 s}}\n\
         state: {{path: {folder}/state}}\n"
    )
}

/// Writes a `.fbin` file of `rows` zero vectors.
fn write_matrix(path: &Path, rows: u32, dimension: u32) {
    let mut bytes = [rows.to_le_bytes(), dimension.to_le_bytes()].concat();
    bytes.resize(8 + (rows * dimension * 4) as usize, 0);
    fs::write(path, bytes).expect("writes a matrix");
}

/// A folder with the data of [`smallest_job`].
fn folder_with_data() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    write_matrix(&folder.path().join("base.fbin"), 100, 4);
    write_matrix(&folder.path().join("query.fbin"), 10, 4);
    let path = folder.path().to_path_buf();
    (folder, path)
}
