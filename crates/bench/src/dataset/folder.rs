//! The folder of a finished data set: written to one side, then moved into place, `meta.json` last.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::DatasetError;

/// File whose presence says that the others are whole.
const META: &str = "meta.json";

/// What a finished data set says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Meta {
    /// Name of the data set.
    pub name: String,
    /// Where it was taken from.
    pub source: String,
    /// Licences of the vectors and of the package.
    pub licence: String,
    /// SHA-256 of the source file.
    pub source_sha256: String,
    /// Numbers per vector.
    pub dimension: usize,
    /// What was done to the vectors.
    pub preparation: String,
    /// Seed of the shuffle.
    pub seed: u64,
    /// Vectors in `base.fbin`.
    pub base_rows: usize,
    /// Vectors in `query.fbin`; none of them is in `base.fbin`.
    pub query_rows: usize,
    /// Vectors of the source that were left out, because their norm is zero or they repeat another.
    pub skipped: usize,
    /// Length and SHA-256 of every other file.
    pub files: BTreeMap<String, FileMeta>,
}

/// One file of a data set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FileMeta {
    /// Length in bytes.
    pub bytes: u64,
    /// Checksum, hexadecimal.
    pub sha256: String,
}

/// The facts of a complete data set in `folder`: `meta.json` is there and names files that are all
/// there in full length. `None` if anything is missing.
pub fn is_complete(folder: &Path) -> Option<Meta> {
    let text = fs::read_to_string(folder.join(META)).ok()?;
    let meta: Meta = serde_json::from_str(&text).ok()?;
    let whole = meta.files.iter().all(|(name, file)| {
        fs::metadata(folder.join(name)).is_ok_and(|metadata| metadata.len() == file.bytes)
    });
    (whole && !meta.files.is_empty()).then_some(meta)
}

/// Files on their way into a data set's folder.
pub(super) struct Staging {
    folder: PathBuf,
    beside: tempfile::TempDir,
    files: BTreeMap<String, FileMeta>,
}

impl Staging {
    /// Prepares a private folder inside `folder`, which is created when absent.
    pub(super) fn new(folder: &Path) -> Result<Staging, DatasetError> {
        let doing = || format!("Preparing the folder {}", folder.display());
        fs::create_dir_all(folder).map_err(DatasetError::during(doing()))?;
        let beside = tempfile::Builder::new()
            .prefix(".partial-")
            .tempdir_in(folder)
            .map_err(DatasetError::during(doing()))?;
        Ok(Staging { folder: folder.to_path_buf(), beside, files: BTreeMap::new() })
    }

    /// A private folder for downloads; removed with everything in it at the end.
    pub(super) fn scratch(&self) -> &Path {
        self.beside.path()
    }

    /// Writes one file through `fill` and notes its length and checksum.
    pub(super) fn write(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<(), DatasetError> {
        let path = self.beside.path().join(name);
        let doing = || format!("Writing {}", path.display());
        let file = File::create(&path).map_err(DatasetError::during(doing()))?;
        let hashing = Hashing { file, hash: Sha256::new(), bytes: 0 };
        let mut buffered = BufWriter::with_capacity(1 << 20, hashing);
        fill(&mut buffered).map_err(DatasetError::during(doing()))?;
        let hashing =
            buffered.into_inner().map_err(|error| DatasetError::during(doing())(error.into()))?;
        hashing.file.sync_all().map_err(DatasetError::during(doing()))?;
        let file = FileMeta { bytes: hashing.bytes, sha256: hex(&hashing.hash.finalize()) };
        self.files.insert(name.to_owned(), file);
        Ok(())
    }

    /// Moves all files into the folder, `meta.json` last.
    pub(super) fn publish(mut self, mut meta: Meta) -> Result<Meta, DatasetError> {
        meta.files = self.files.clone();
        let old = self.folder.join(META);
        if old.exists() {
            // An old description must not vouch for a mixture of old and new files.
            fs::remove_file(&old).map_err(DatasetError::during("Removing the old meta.json"))?;
        }
        let text = serde_json::to_string_pretty(&meta).expect("plain numbers and texts");
        self.write(META, |out| writeln!(out, "{text}"))?;
        for name in meta.files.keys().map(String::as_str).chain([META]) {
            fs::rename(self.beside.path().join(name), self.folder.join(name))
                .map_err(DatasetError::during(format!("Moving {name} into place")))?;
        }
        Ok(meta)
    }
}

/// SHA-256 of a file, hexadecimal.
pub(super) fn sha256_of(path: &Path) -> Result<String, DatasetError> {
    let doing = || format!("Reading {}", path.display());
    let mut file = File::open(path).map_err(DatasetError::during(doing()))?;
    let mut hash = Sha256::new();
    std::io::copy(&mut file, &mut hash).map_err(DatasetError::during(doing()))?;
    Ok(hex(&hash.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A file that counts and hashes what is written to it.
struct Hashing {
    file: File,
    hash: Sha256,
    bytes: u64,
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}
