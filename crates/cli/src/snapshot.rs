//! A snapshot on disk: of one partition, or of a job with one folder per partition.

use std::path::{Path, PathBuf};

use vstream_engine::{inspect, SnapshotSummary};

use crate::failure::Failure;

const COLLECTION: &str = "COLLECTION";
const MANIFEST: &str = "MANIFEST";

/// One partition of a snapshot.
pub(crate) struct Part {
    pub(crate) folder: PathBuf,
    pub(crate) summary: SnapshotSummary,
}

/// The partitions below `folder`, or `folder` itself if it is one. They are of one collection.
///
/// Errors: there is no snapshot, or a manifest cannot be read.
pub(crate) fn open(folder: &Path) -> Result<Vec<Part>, Failure> {
    let folders = if folder.join(MANIFEST).is_file() {
        vec![folder.to_path_buf()]
    } else {
        partitions_below(folder)?
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

/// Folders that are there while a job's snapshot takes the place of an older one.
const BEING_REPLACED: [&str; 2] = ["complete", "placing"];

/// The folders named `partition-N` of a job's snapshot, in the order of N; none if there are no such folders, or the
/// folder is a collection or a snapshot itself.
///
/// Errors: one between them is missing, or has no manifest, or the snapshot is being replaced. Nothing says how many there were, so those behind the
/// last are not missed.
pub(crate) fn partitions_below(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    if [COLLECTION, MANIFEST].iter().any(|name| folder.join(name).is_file()) {
        return Ok(Vec::new());
    }
    // `FinalSnapshot` of the job moves the partitions one by one.
    if let Some(name) = BEING_REPLACED.iter().find(|name| folder.join(name).is_dir()) {
        return Err(Failure::failed(format!(
            "{} has a folder {name}: a job ended while it put its snapshot there. Start the job again, which goes \
             on with that.",
            folder.display()
        )));
    }
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(Vec::new()) };
    let number = |path: &Path| partition_of(path.file_name()?.to_str()?);
    let below = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir());
    let mut found: Vec<(u32, PathBuf)> =
        below.filter_map(|path| Some((number(&path)?, path))).collect();
    found.sort();
    check_all(&folder.display().to_string(), found.iter().map(|(number, _)| *number))?;
    if let Some((_, path)) = found.iter().find(|(_, path)| !path.join(MANIFEST).is_file()) {
        return Err(Failure::failed(format!(
            "{} has no file {MANIFEST}: the rows of this partition cannot be read.",
            path.display()
        )));
    }
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// The number in the name of a partition's folder.
pub(crate) fn partition_of(name: &str) -> Option<u32> {
    name.strip_prefix("partition-")?.parse().ok()
}

/// Errors: one of the partitions below the last is missing.
///
/// * `found`: their numbers, ascending.
pub(crate) fn check_all(of: &str, found: impl Iterator<Item = u32>) -> Result<(), Failure> {
    match (0..).zip(found).find(|(expected, number)| expected != number) {
        None => Ok(()),
        Some((missing, _)) => Err(Failure::failed(format!(
            "{of} has no partition-{missing}: the rows of this partition are missing."
        ))),
    }
}
