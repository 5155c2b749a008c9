//! Checks a job against the machine that will run it. The checks create and change nothing.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use vstream_vector::Element;

use crate::collection::DIMENSION_MAX;
use crate::error::SettingsError;
use crate::job::JobSettings;
use crate::stream::{QuerySource, ResultSink, VectorSource};

/// The header of a matrix file, checked against the length of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixHeader {
    /// Vectors in the file.
    pub rows: u64,
    /// Numbers per vector.
    pub dimension: usize,
    /// The number type: `f32` (`.fbin`), `u8` (`.u8bin`) or `i8` (`.i8bin`).
    pub element: Element,
}

/// Reads the header of a matrix file: `u32 rows, u32 dimension`, then the rows, all little-endian.
///
/// Errors: a full sentence if the file is missing, of another kind, empty or truncated.
pub fn read_matrix_header(path: &Path) -> Result<MatrixHeader, String> {
    let shown = path.display();
    let element = match path.extension().and_then(|extension| extension.to_str()) {
        Some("fbin") => Element::F32,
        Some("u8bin") => Element::U8,
        Some("i8bin") => Element::I8,
        _ => {
            return Err(format!(
                "{shown} ends in none of .fbin, .u8bin and .i8bin. Give such a file."
            ))
        }
    };
    let mut file = open(path)?;
    let mut header = [[0u8; 4]; 2];
    let length = file.metadata().map(|metadata| metadata.len()).unwrap_or(0);
    file.read_exact(header.as_flattened_mut())
        .map_err(|_| format!("{shown} is too short to be a matrix file. Create it again."))?;
    let [rows, dimension] = header.map(|word| u64::from(u32::from_le_bytes(word)));
    if rows == 0 || dimension == 0 || dimension > DIMENSION_MAX {
        return Err(format!(
            "{shown} says that it holds {rows} vectors of dimension {dimension}, which cannot be \
             used. Give a file with at least one vector of dimension 1 to {DIMENSION_MAX}."
        ));
    }
    let expected = 8 + rows * dimension * element.bytes() as u64;
    if length != expected {
        return Err(format!(
            "{shown} has {length} bytes, but {rows} vectors of dimension {dimension} need \
             {expected}. The file is cut short or damaged: create it again."
        ));
    }
    Ok(MatrixHeader { rows, dimension: dimension as usize, element })
}

pub(crate) fn validate(job: &JobSettings) -> Result<(), SettingsError> {
    let mut problems = Vec::new();
    check_sources(job, &mut problems);
    for (key, path) in folders(job) {
        if let Err(reason) = can_write_below(&path) {
            problems.push(format!(
                "{key}: {} cannot be written ({reason}). Choose a folder that this user may write.",
                path.display()
            ));
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(SettingsError::new(problems))
    }
}

fn check_sources(job: &JobSettings, problems: &mut Vec<String>) {
    let dimension = job.collection.dimension;
    match &job.vectors {
        VectorSource::Generator { path, preload, .. } => {
            let header = check_matrix("vectors.path", path, dimension, problems);
            if let Some(header) = header.filter(|header| *preload > header.rows) {
                problems.push(format!(
                    "vectors.preload: {preload} is more than the {} rows of {}. Set it to at most \
                     that number.",
                    header.rows,
                    path.display()
                ));
            }
        }
        VectorSource::File { path } => check_file("vectors.path", path, problems),
        // The job checks at its start whether the brokers answer.
        VectorSource::Kafka(_) => {}
    }
    match &job.queries {
        Some(QuerySource::Generator { path, .. }) => {
            check_matrix("queries.path", path, dimension, problems);
        }
        Some(QuerySource::File { path, .. }) => check_file("queries.path", path, problems),
        Some(QuerySource::Kafka { .. }) | None => {}
    }
    if let Some(embedding) = &job.embedding {
        // The job opens the model at its start.
        if !embedding.model.exists() {
            problems.push(format!(
                "embedding.model: {} does not exist. Correct the path, or get a model first (`make \
                 data-models` gets those of the examples).",
                embedding.model.display()
            ));
        }
        if let Some(runtime) = &embedding.runtime {
            check_file("embedding.runtime", runtime, problems);
        }
    }
}

fn check_file(key: &str, path: &Path, problems: &mut Vec<String>) {
    if let Err(sentence) = open(path) {
        problems.push(format!("{key}: {sentence}"));
    }
}

fn check_matrix(
    key: &str,
    path: &Path,
    dimension: usize,
    problems: &mut Vec<String>,
) -> Option<MatrixHeader> {
    match read_matrix_header(path) {
        Ok(header) if header.dimension == dimension => Some(header),
        Ok(header) => {
            problems.push(format!(
                "{key}: {} holds vectors of dimension {}, but collection.dimension is {dimension}. \
                 Set collection.dimension to {} or give another file.",
                path.display(),
                header.dimension,
                header.dimension
            ));
            None
        }
        Err(sentence) => {
            problems.push(format!("{key}: {sentence}"));
            None
        }
    }
}

fn open(path: &Path) -> Result<File, String> {
    let shown = path.display();
    let advice = "Correct the path, or create the file first (`make data` gets the examples' data)";
    if path.is_dir() {
        return Err(format!("{shown} is a folder. Give the path of a file."));
    }
    File::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("{shown} does not exist. {advice}."),
        _ => format!("{shown} cannot be read ({error}). Make it readable for this user."),
    })
}

/// Every folder that the job writes to, with its key.
fn folders(job: &JobSettings) -> Vec<(&'static str, PathBuf)> {
    let mut folders = vec![("state.path", job.state.path.clone())];
    // The job checks folders on other file systems at its start.
    if let Some(path) = job.checkpoint.as_ref().and_then(|checkpoint| checkpoint.path.local()) {
        folders.push(("checkpoint.path", path.to_path_buf()));
    }
    if let Some(remote) = job.collection.remote.as_ref().filter(|remote| remote.starts_with('/')) {
        folders.push(("collection.remote", PathBuf::from(remote)));
    }
    if let Some(snapshot) = &job.snapshot {
        folders.push(("snapshot.path", snapshot.path.clone()));
    }
    if let ResultSink::File { path } = &job.results {
        let parent = path.parent().unwrap_or(path).to_path_buf();
        folders.push(("results.path", parent));
    }
    folders
}

/// Checks whether `folder` can be created and written: its nearest existing ancestor must be a
/// folder in which a file can be created. Permissions alone do not show that (read-only mounts,
/// full quotas).
fn can_write_below(folder: &Path) -> Result<(), String> {
    let nearest = folder.ancestors().find(|ancestor| fs::symlink_metadata(ancestor).is_ok());
    let Some(nearest) = nearest else { return Err("no part of the path exists".to_owned()) };
    if !nearest.is_dir() {
        return Err(format!("{} is not a folder", nearest.display()));
    }
    tempfile::tempfile_in(nearest).map(drop).map_err(|error| error.to_string())
}
