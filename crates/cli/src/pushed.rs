//! Snapshots in an object store, or in any other place that one was pushed to.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use vstream_engine::{files_to_push, verify_store, Finding, Verified};
use vstream_store::remote::{self, Contents, Location, PushedFile, Restore, RestoreSettings};
use vstream_store::{
    Access, DirectoryLock, Disk, ErrorKind, FileStore, Store, Syncing, SystemClock,
};

use crate::arguments::{InspectArguments, PullArguments, PushArguments};
use crate::failure::Failure;
use crate::graph::{self, Opened};
use crate::snapshot::{check_all, partition_of, partitions_below};
use crate::text;

const PARTITION: &str = "partition-";
/// Files that every collection, store of isolated groups or snapshot has.
const OF_COLLECTIONS: [&str; 3] = ["COLLECTION", "GROUPS", "MANIFEST"];

/// True if there are pushed snapshots at `location`, or if only such can be there.
pub(crate) fn is_place(location: &Location) -> Result<bool, Failure> {
    let Some(folder) = location.folder() else { return Ok(true) };
    let holds = |folder: &Path| -> Result<bool, Failure> {
        if !folder.is_dir() {
            return Ok(false);
        }
        Ok(!remote::numbers(&FileStore::open_dir(folder, Syncing::Off)?)?.is_empty())
    };
    Ok(holds(folder)? || holds(&folder.join(format!("{PARTITION}0")))?)
}

/// `location`, or the places of a job's partitions below it, in order. There is at least one.
///
/// Errors: those of the store, or nothing was pushed there.
pub(crate) fn places(location: &Location) -> Result<Vec<Location>, Failure> {
    if location.folder().is_some_and(|folder| !folder.is_dir()) {
        return Err(Failure::failed(format!("{location} is not there: nothing was pushed to it.")));
    }
    if !remote::numbers(&*location.open()?)?.is_empty() {
        return Ok(vec![location.clone()]);
    }
    let mut found: Vec<(u32, Location)> = location
        .folders()?
        .iter()
        .filter_map(|name| Some((partition_of(name)?, location.join(name))))
        .collect();
    found.sort_by_key(|(number, _)| *number);
    check_all(&location.to_string(), found.iter().map(|(number, _)| *number))?;
    if found.is_empty() {
        return Err(Failure::failed(format!(
            "No snapshot was pushed to {location}. Give the place that vstream snapshot push was \
             given."
        )));
    }
    Ok(found.into_iter().map(|(_, place)| place).collect())
}

/// `vstream snapshot push`.
pub(crate) fn push(arguments: &PushArguments) -> Result<(), Failure> {
    let location = Location::parse(&arguments.url)?;
    let below = partitions_below(&arguments.folder)?;
    let pairs = match below.is_empty() {
        true => vec![(arguments.folder.clone(), location)],
        false => {
            let name = |folder: &Path| {
                folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
            };
            below
                .into_iter()
                .map(|folder| (folder.clone(), location.join(&name(&folder))))
                .collect()
        }
    };
    // All of them before anything is sent.
    check_place(&Location::parse(&arguments.url)?)?;
    pairs.iter().try_for_each(|(_, place)| check_place(place))?;
    for (folder, place) in &pairs {
        let _lock = lock(folder)?;
        let (from, names) = files_to_push(folder)?;
        if names.is_empty() {
            let folder = folder.display();
            return Err(Failure::settings(format!("{folder} is empty: there is nothing to push.")));
        }
        let pushed = remote::push(&from, &names, &*place.open()?)?;
        let (number, files) = (pushed.contents.number, pushed.contents.files.len());
        if arguments.json {
            text::print_line(
                &json!({
                    "place": place.to_string(),
                    "number": number,
                    "files": files,
                    "bytes": pushed.contents.bytes(),
                    "sent-files": pushed.sent_files,
                    "sent-bytes": pushed.sent_bytes,
                })
                .to_string(),
            )?;
        } else {
            text::print_line(&format!(
                "{place} has snapshot {number}: {files} files, {}; {} of them were new, {}",
                text::bytes(pushed.contents.bytes()),
                pushed.sent_files,
                text::bytes(pushed.sent_bytes)
            ))?;
        }
    }
    Ok(())
}

/// Errors: pushed files would lie among those of a collection or a snapshot.
fn check_place(place: &Location) -> Result<(), Failure> {
    let Some(folder) = place.folder() else { return Ok(()) };
    match OF_COLLECTIONS.iter().find(|name| folder.join(name).is_file()) {
        None => Ok(()),
        Some(name) => Err(Failure::settings(format!(
            "{place} has a file {name}, so it is a collection or a snapshot itself: push to another folder."
        ))),
    }
}

/// Keeps others from opening the collection in `folder`, if there is one.
fn lock(folder: &Path) -> Result<Option<DirectoryLock>, Failure> {
    let path = DirectoryLock::path(folder);
    if !path.is_file() {
        return Ok(None);
    }
    let taken = DirectoryLock::take(folder)
        .map_err(|e| Failure::failed(format!("cannot lock {}: {e}", path.display())))?;
    let is_open = || {
        Failure::failed(format!(
            "{} is open: close it first, so that what is pushed is of one moment.",
            folder.display()
        ))
    };
    taken.map(Some).ok_or_else(is_open)
}

/// `vstream snapshot pull`.
pub(crate) fn pull(arguments: &PullArguments) -> Result<(), Failure> {
    let location = Location::parse(&arguments.url)?;
    let places = places(&location)?;
    for place in &places {
        let folder = match (place == &location, place.to_string().rsplit_once('/')) {
            (false, Some((_, name))) => arguments.folder.join(name),
            _ => arguments.folder.clone(),
        };
        let store = place.open()?;
        let contents = Contents::read(&*store, arguments.number)?;
        let disk = Disk::create(&folder)
            .map_err(|e| Failure::failed(format!("cannot make {}: {e}", folder.display())))?;
        let rate = arguments.rate.map(|mib| mib << 20);
        let restore = Restore::begin(Arc::new(disk), store, &contents, settings(rate))?;
        let missing = restore.progress().files_left;
        restore.fetch()?.wait()?;
        let (number, files, bytes) = (contents.number, contents.files.len(), contents.bytes());
        if arguments.json {
            text::print_line(
                &json!({
                    "folder": folder,
                    "number": number,
                    "files": files,
                    "bytes": bytes,
                    "fetched-files": missing,
                })
                .to_string(),
            )?;
        } else {
            text::print_line(&format!(
                "{} holds snapshot {number}: {files} files, {}",
                folder.display(),
                text::bytes(bytes)
            ))?;
        }
    }
    Ok(())
}

fn settings(bytes_per_second: Option<u64>) -> RestoreSettings {
    RestoreSettings { bytes_per_second, clock: Arc::new(SystemClock::new()) }
}

/// Reads every byte of every snapshot at `place`. What the newest one holds is read as an engine
/// would read it. Errors: nothing can be read at all. Damage is a finding.
pub(crate) fn verify(place: &Location) -> Result<Verified, Failure> {
    let store = place.open()?;
    let mut whole = Verified::default();
    let mut files: BTreeSet<PushedFile> = BTreeSet::new();
    let mut newest = None;
    for number in remote::numbers(&*store)? {
        whole.files += 1;
        match Contents::read(&*store, Some(number)) {
            Ok(contents) => {
                files.extend(contents.files.iter().cloned());
                newest = Some(contents);
            }
            Err(error) if error.kind() == ErrorKind::Corrupt => damage(&mut whole, &error),
            Err(error) => return Err(error.into()),
        }
    }
    for file in &files {
        whole.files += 1;
        whole.bytes += file.bytes;
        match file.verify(&*store) {
            Err(error) if error.kind() == ErrorKind::Corrupt => damage(&mut whole, &error),
            verified => verified?,
        }
    }
    let Some(newest) = newest.filter(|_| whole.findings.is_empty()) else { return Ok(whole) };
    let restore = Restore::browse(store, &newest, settings(None));
    match verify_store(&FileStore::new(Arc::new(restore), Syncing::Off)) {
        Ok(inside) => {
            (whole.rows, whole.digest) = (inside.rows, inside.digest);
            whole.findings.extend(inside.findings);
        }
        // Files that are neither a collection nor a snapshot, such as segments, are compared alone.
        Err(error) if error.kind() == vstream_engine::ErrorKind::Invalid => {}
        Err(error) => return Err(error.into()),
    }
    Ok(whole)
}

fn damage(whole: &mut Verified, error: &vstream_store::Error) {
    whole.findings.push(Finding { what: error.to_string(), is_damage: true });
}

/// `vstream inspect` of a place, or of a segment in the newest snapshot of one.
pub(crate) fn inspect(location: &Location, arguments: &InspectArguments) -> Result<(), Failure> {
    if let Some((parent, name)) = arguments.snapshot.rsplit_once('/') {
        let parent = Location::parse(parent).ok().filter(|_| name.contains('.'));
        if let Some(segment) = parent.and_then(|parent| segment_of(&parent, name)) {
            return segment?.inspect(arguments);
        }
    }
    let mut described = Vec::new();
    for place in places(location)? {
        let store = place.open()?;
        let numbers = remote::numbers(&*store)?;
        described.push((place, numbers.len(), Contents::read(&*store, None)?));
    }
    if arguments.json {
        let all: Vec<_> = described
            .iter()
            .map(|(place, count, contents)| {
                let files: Vec<_> = contents
                    .files
                    .iter()
                    .map(|file| {
                        json!({
                            "name": file.name,
                            "bytes": file.bytes,
                            "checksum": format!("{:032x}", file.checksum),
                        })
                    })
                    .collect();
                json!({
                    "place": place.to_string(),
                    "snapshots": count,
                    "number": contents.number,
                    "files": files,
                })
            })
            .collect();
        return text::print_line(&serde_json::to_string_pretty(&all).expect("plain numbers"));
    }
    for (place, count, contents) in &described {
        let mut table = format!(
            "{place}: {count} snapshots, the newest is {}: {} files, {}\n\n",
            contents.number,
            contents.files.len(),
            text::bytes(contents.bytes())
        );
        for file in &contents.files {
            table.push_str(&format!(
                "  {:<40} {:>12}   {:032x}\n",
                file.name,
                text::bytes(file.bytes),
                file.checksum
            ));
        }
        text::print(&table)?;
    }
    Ok(())
}

/// The segment `name` in the newest snapshot at `place`; `None` if there is no such file.
fn segment_of(place: &Location, name: &str) -> Option<Result<Opened, Failure>> {
    let store = place.open().ok()?;
    let contents = Contents::read(&*store, None).ok()?;
    contents.files.iter().find(|file| file.name == name)?;
    let restore = Restore::browse(store, &contents, settings(None));
    let browsed = FileStore::new(Arc::new(restore), Syncing::Off);
    let opened = browsed.open(name, Access::Direct).map_err(Failure::from);
    Some(opened.and_then(graph::open))
}
