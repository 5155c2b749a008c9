//! Copies a collection: fetches its files, and makes a folder of them.
//!
//! A file is gathered under its name and checksum, so whatever an earlier try has fetched of the same
//! content is used, also of a file in part. What is whole was compared with its checksum.

use std::collections::HashSet;
use std::fs::{self, File as SystemFile, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Bytes;
use xxhash_rust::xxh3::Xxh3;

use super::connect::{Client, Writer};
use super::{Lost, SILENCE_MAX};
use crate::catalog::blocking;
use crate::collection::Collection;
use crate::failure::Failure;
use crate::proto::{FetchRequest, File, FilesReply, FilesRequest};
use crate::shared::Shared;

/// Name of the manifest in the folder of a collection.
const MANIFEST: &str = "COLLECTION";
/// What ends the name of a file that is not whole.
const PARTIAL: &str = ".part";
/// Bytes that are read at a time to compare a file.
const PART: usize = 1 << 20;

/// The files of a collection, which are here.
pub(super) struct Gathered {
    folder: PathBuf,
    files: Vec<File>,
    manifest: Bytes,
}

/// Fetches the files of a collection of the writer. Errors: [`Lost::Away`]; what was fetched is kept for
/// the next try. Whoever does not wait for the end loses no more than that.
pub(super) async fn gather(
    writer: &Writer,
    shared: &Shared,
    (name, epoch): (&str, u64),
) -> Result<Gathered, Lost> {
    let mut client = writer.client();
    let request = writer.request(FilesRequest { collection: name.to_owned() });
    let reply = client.files(request).await?.into_inner();
    if reply.epoch != epoch {
        return Err(Lost::Away(format!("the collection '{name}' is another one now")));
    }
    check_names(&reply.files)?;
    let folder = shared.catalog.gathering(name)?;
    let (at, wanted) = (folder.clone(), reply.files.clone());
    blocking(move || prepare(&at, &wanted)).await??;
    for file in &reply.files {
        fetch(writer, &mut client, &folder, (reply.snapshot, file)).await?;
    }
    let FilesReply { manifest, files, .. } = reply;
    Ok(Gathered { folder, files, manifest })
}

/// Serves a collection whose files are here in the place of the one that is served now. Errors: those of
/// the system, and of opening it.
pub(super) async fn install(
    shared: &Shared,
    name: &str,
    gathered: Gathered,
) -> Result<Arc<Collection>, Failure> {
    let Gathered { folder, files, manifest } = gathered;
    let from = folder.clone();
    let complete = move |to: &Path| complete(&from, to, &files, &manifest);
    let collection = shared.catalog.replace(name, complete).await?;
    blocking(move || fs::remove_dir_all(&folder)).await?.map_err(|error| broken(&error))?;
    Ok(collection)
}

/// Errors unless every name is one of a file of a collection: a writer must not name another place.
fn check_names(files: &[File]) -> Result<(), Failure> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_uppercase() || c.is_ascii_digit();
    let is_good = |name: &str| {
        !name.is_empty()
            && name.len() <= 100
            && !name.starts_with('.')
            && name.chars().all(|c| is_plain(c) || c == '-' || c == '.')
    };
    match files.iter().find(|file| !is_good(&file.name) || file.name == MANIFEST) {
        None => Ok(()),
        Some(file) => Err(Failure::bad(format!("the writer names a file '{}'", file.name))),
    }
}

/// The name under which a file is gathered.
fn gathered(file: &File) -> String {
    format!("{}.{:016x}", file.name, file.checksum)
}

/// Makes the folder in which files are gathered, and removes what is not wanted any more.
fn prepare(folder: &Path, wanted: &[File]) -> Result<(), Failure> {
    let wanted: HashSet<String> = wanted.iter().map(gathered).collect();
    let tidy = || -> std::io::Result<()> {
        fs::create_dir_all(folder)?;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !wanted.contains(name.strip_suffix(PARTIAL).unwrap_or(&name)) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    };
    tidy().map_err(|error| broken(&error))
}

/// Fetches what is missing of a file, and compares it. Errors: [`Lost::Away`].
async fn fetch(
    writer: &Writer,
    client: &mut Client,
    folder: &Path,
    (snapshot, file): (u64, &File),
) -> Result<(), Lost> {
    let whole = folder.join(gathered(file));
    let partial = folder.join(format!("{}{PARTIAL}", gathered(file)));
    if fs::metadata(&whole).is_ok_and(|found| found.len() == file.bytes) {
        return Ok(());
    }
    let mut has = fs::metadata(&partial).map_or(0, |found| found.len());
    if has > file.bytes {
        fs::remove_file(&partial).map_err(|error| broken(&error))?;
        has = 0;
    }
    let out = OpenOptions::new().create(true).append(true).open(&partial);
    let mut out = out.map_err(|error| broken(&error))?;
    if has < file.bytes {
        let request = FetchRequest { snapshot, name: file.name.clone(), offset: has };
        let mut parts = client.fetch(writer.request(request)).await?.into_inner();
        while has < file.bytes {
            let part = tokio::time::timeout(SILENCE_MAX, parts.message()).await;
            let part = part.map_err(|_| Lost::Away("the writer sends nothing".to_owned()))??;
            let part = part.ok_or_else(|| Lost::Away("a file ended early".to_owned()))?;
            has += part.bytes.len() as u64;
            let written = blocking(move || out.write_all(&part.bytes).map(|()| out)).await?;
            out = written.map_err(|error| broken(&error))?;
        }
    }
    let (expected, name) = (file.clone(), file.name.clone());
    let compared = blocking(move || publish(out, (&partial, &whole), &expected)).await?;
    match compared.map_err(|error| broken(&error))? {
        true => Ok(()),
        false => Err(Lost::Away(format!("the file {name} changed on its way"))),
    }
}

/// Makes a file whole, if it is the one that the writer has; else removes it.
fn publish(
    out: SystemFile,
    (partial, whole): (&Path, &Path),
    expected: &File,
) -> std::io::Result<bool> {
    out.sync_all()?;
    let (mut file, mut hash) = (SystemFile::open(partial)?, Xxh3::new());
    let (mut buffer, mut bytes) = (vec![0; PART], 0);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        bytes += read as u64;
    }
    if (bytes, hash.digest()) != (expected.bytes, expected.checksum) {
        fs::remove_file(partial)?;
        return Ok(false);
    }
    fs::rename(partial, whole)?;
    Ok(true)
}

/// Makes the folder of a collection of the files that were gathered, the manifest last.
fn complete(from: &Path, to: &Path, files: &[File], manifest: &[u8]) -> Result<(), Failure> {
    let make = || -> std::io::Result<()> {
        for file in files {
            let (gathered, path) = (from.join(gathered(file)), to.join(&file.name));
            // The collection will write on in a log, so nothing shares its bytes.
            fs::rename(gathered, path)?;
        }
        let partial: PathBuf = to.join(format!("{MANIFEST}{PARTIAL}"));
        let mut out = SystemFile::create(&partial)?;
        out.write_all(manifest)?;
        out.sync_all()?;
        fs::rename(partial, to.join(MANIFEST))?;
        SystemFile::open(to)?.sync_all()
    };
    make().map_err(|error| broken(&error))
}

fn broken(error: &std::io::Error) -> Failure {
    Failure::broken(format!("the files of a copy: {error}"))
}
