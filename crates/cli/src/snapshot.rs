//! A snapshot on disk: of one partition, or of a job with one folder per partition.

use std::path::{Path, PathBuf};

use vstream_engine::{inspect, SnapshotSummary};

use crate::failure::Failure;

/// One partition of a snapshot.
pub(crate) struct Part {
    pub(crate) folder: PathBuf,
    pub(crate) summary: SnapshotSummary,
}

/// The partitions below `folder`, or `folder` itself if it is one. They are of one collection.
///
/// Errors: there is no snapshot, or a manifest cannot be read.
pub(crate) fn open(folder: &Path) -> Result<Vec<Part>, Failure> {
    let folders = if folder.join("MANIFEST").is_file() {
        vec![folder.to_path_buf()]
    } else {
        partitions_below(folder)
    };
    if folders.is_empty() {
        return Err(Failure::settings(format!(
            "There is no snapshot in {}. Give the folder that a job names under snapshot.path, or \
             one of its partitions.",
            folder.display()
        )));
    }
    let read = |folder: PathBuf| Ok(Part { summary: inspect(&folder)?, folder });
    let parts: Vec<Part> = folders.into_iter().map(read).collect::<Result<_, Failure>>()?;
    let kind = |part: &Part| {
        let SnapshotSummary { dimension, metric, element, schema, .. } = &part.summary;
        (*dimension, *metric, *element, schema.clone())
    };
    if let Some(other) = parts.iter().find(|part| kind(part) != kind(&parts[0])) {
        return Err(Failure::settings(format!(
            "{} and {} are snapshots of different collections. Give one of them.",
            parts[0].folder.display(),
            other.folder.display()
        )));
    }
    Ok(parts)
}

/// Folders named `partition-N` with a manifest, in the order of N.
pub(crate) fn partitions_below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let number = |path: &Path| -> Option<u32> {
        path.file_name()?.to_str()?.strip_prefix("partition-")?.parse().ok()
    };
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("MANIFEST").is_file())
        .filter_map(|path| Some((number(&path)?, path)))
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}
