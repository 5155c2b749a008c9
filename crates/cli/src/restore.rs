//! Where a job goes on from: a checkpoint or savepoint, or the newest one in a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use vstream_settings::FolderAddress;

use crate::failure::Failure;

/// The file that makes a folder a checkpoint; it is written last.
const METADATA: &str = "_metadata";

/// Checkpoints of a job lie at `JOB/chk-N` below its folder.
const DEPTH: usize = 2;

/// The checkpoint or savepoint that `given` names: its folder, one above it, of which the newest
/// is taken, or an address such as `s3://...`, where the job itself looks for the newest.
pub(crate) fn resolve(given: &str) -> Result<String, Failure> {
    if given.contains("://") {
        return Ok(given.to_owned());
    }
    let found = newest(Path::new(given)).ok_or_else(|| {
        Failure::settings(format!(
            "{given} holds no complete checkpoint or savepoint. Give the folder of one, with its \
             {METADATA}, or the checkpoint.path of the job that wrote it."
        ))
    })?;
    let shown = found.display().to_string();
    found.canonicalize().map(|path| path.display().to_string()).map_err(|error| {
        Failure::settings(format!("{shown} cannot be opened ({error}). Check its permissions."))
    })
}

/// Says how to go on after a job that kept its checkpoints at `folder`; `None` if it left none.
/// Elsewhere than on this machine only the next job can see whether it did, and finds the newest.
pub(crate) fn advice(folder: &FolderAddress) -> Option<String> {
    let Some(path) = folder.local() else {
        return Some(format!("If it completed a checkpoint, to go on from it: --restore {folder}"));
    };
    newest(path)
        .map(|left| format!("To go on from its newest checkpoint: --restore {}", left.display()))
}

/// The newest complete checkpoint or savepoint at or below `folder`.
fn newest(folder: &Path) -> Option<PathBuf> {
    let mut found = Vec::new();
    collect(folder, DEPTH, &mut found);
    found.into_iter().max().map(|(_, path)| path)
}

fn collect(folder: &Path, depth: usize, found: &mut Vec<(SystemTime, PathBuf)>) {
    if let Ok(written) = fs::metadata(folder.join(METADATA)).and_then(|file| file.modified()) {
        found.push((written, folder.to_owned()));
        return;
    }
    // A folder that cannot be read, or that is just being deleted, holds nothing to go on from.
    let Ok(entries) = fs::read_dir(folder) else { return };
    if depth > 0 {
        entries.flatten().for_each(|entry| collect(&entry.path(), depth - 1, found));
    }
}
