//! Snapshots in an object store, or in any other place that one was pushed to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
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

/// Where a collection or a partition of a job was pushed to.
pub(crate) struct Place {
    at: Location,
    /// Of the newest snapshot; of a job, the newest of which every partition is here.
    number: u64,
}

/// What was pushed to `location`, or the partitions of a job below it, in order. There is at least one.
///
/// Errors: those of the store, or no snapshot was pushed there, or none of all partitions.
pub(crate) fn places(location: &Location) -> Result<Vec<Place>, Failure> {
    if location.folder().is_some_and(|folder| !folder.is_dir()) {
        return Err(Failure::failed(format!("{location} is not there: nothing was pushed to it.")));
    }
    if let Some(number) = newest(location)? {
        return Ok(vec![Place { at: location.clone(), number }]);
    }
    let found = partitions(location)?;
    check_all(&location.to_string(), found.iter().map(|(number, _)| *number))?;
    // Partitions are pushed one after the other, under one number.
    let mut common: Option<BTreeSet<u64>> = None;
    for (_, at) in &found {
        let numbers: BTreeSet<u64> = remote::numbers(&*at.open()?)?.into_iter().collect();
        common = Some(common.map_or(numbers.clone(), |common| &common & &numbers));
    }
    let Some(common) = common else {
        return Err(Failure::failed(format!(
            "No snapshot was pushed to {location}. Give the place that vstream snapshot push was \
             given."
        )));
    };
    let number = common.last().copied().ok_or_else(|| {
        Failure::failed(format!(
            "{location} has no snapshot of all partitions: a push was interrupted. Push again."
        ))
    })?;
    Ok(found.into_iter().map(|(_, at)| Place { at, number }).collect())
}

/// The number of the newest snapshot at a place; `None` if there is none.
fn newest(place: &Location) -> Result<Option<u64>, Failure> {
    Ok(remote::numbers(&*place.open()?)?.last().copied())
}

/// The folders of partitions below a place, by number. Whether anything was pushed to them is another matter.
fn partitions(location: &Location) -> Result<Vec<(u32, Location)>, Failure> {
    if location.folder().is_some_and(|folder| !folder.is_dir()) {
        return Ok(Vec::new());
    }
    let folders = location.folders()?;
    let found = folders.iter().filter_map(|name| Some((partition_of(name)?, location.join(name))));
    let mut found: Vec<(u32, Location)> = found.collect();
    found.sort_by_key(|(number, _)| *number);
    Ok(found)
}

/// `vstream snapshot push`.
pub(crate) fn push(arguments: &PushArguments) -> Result<(), Failure> {
    let location = Location::parse(&arguments.url)?;
    let below = partitions_below(&arguments.folder)?;
    let pairs = match below.is_empty() {
        true => vec![(arguments.folder.clone(), location.clone())],
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
    check_place(&location)?;
    pairs.iter().try_for_each(|(_, place)| check_place(place))?;
    let above = check_others(&location, &pairs)?;
    for (folder, place) in &pairs {
        let _lock = lock(folder)?;
        let (from, names) = files_to_push(folder)?;
        if names.is_empty() {
            let folder = folder.display();
            return Err(Failure::settings(format!("{folder} is empty: there is nothing to push.")));
        }
        let pushed = remote::push_above(&from, &names, &*place.open()?, above)?;
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

/// The number above which all partitions get one number; 0 for what is pushed alone. Errors: something of another
/// kind, or of more partitions, was pushed there: nobody could tell the two apart.
fn check_others(location: &Location, pairs: &[(PathBuf, Location)]) -> Result<u64, Failure> {
    let there = partitions(location)?;
    if let [(_, place)] = pairs {
        if place == location {
            return match there.iter().find_map(|(_, place)| newest(place).transpose()) {
                None => Ok(0),
                Some(_) => Err(Failure::settings(format!(
                    "{location} has the partitions of a job's snapshot: push to another folder."
                ))),
            };
        }
    }
    if newest(location)?.is_some() {
        return Err(Failure::settings(format!(
            "{location} has snapshots of a collection: push those of a job to another folder."
        )));
    }
    let mut above = 0;
    for (partition, place) in there {
        let Some(number) = newest(&place)? else { continue };
        if !pairs.iter().any(|(_, ours)| *ours == place) {
            return Err(Failure::settings(format!(
                "{location} has partition-{partition}, and this snapshot has {} partitions: push it to \
                 another folder.",
                pairs.len()
            )));
        }
        above = number.max(above);
    }
    Ok(above)
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
    for Place { at, number } in &places {
        let folder = match (at == &location, at.to_string().rsplit_once('/')) {
            (false, Some((_, name))) => arguments.folder.join(name),
            _ => arguments.folder.clone(),
        };
        let store = at.open()?;
        let contents = Contents::read(&*store, Some(arguments.number.unwrap_or(*number)))?;
        let disk = Disk::create(&folder)
            .map_err(|e| Failure::failed(format!("cannot make {}: {e}", folder.display())))?;
        let rate = arguments.rate.map(|mib| mib << 20);
        // An earlier call may have ended between two partitions.
        let missing = match places.len() > 1 && contents.are_all_in(&disk)? {
            true => 0,
            false => {
                let restore = Restore::begin(Arc::new(disk), store, &contents, settings(rate))?;
                let missing = restore.progress().files_left;
                restore.fetch()?.wait()?;
                missing
            }
        };
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
pub(crate) fn verify(place: &Place) -> Result<Verified, Failure> {
    let store = place.at.open()?;
    let mut whole = Verified::default();
    let mut files: BTreeSet<PushedFile> = BTreeSet::new();
    let mut newest = None;
    for number in remote::numbers(&*store)? {
        whole.files += 1;
        match Contents::read(&*store, Some(number)) {
            Ok(contents) => {
                files.extend(contents.files.iter().cloned());
                if number > place.number {
                    let what = format!(
                        "snapshot {number} of {} is not there of all partitions: its push was interrupted",
                        place.at
                    );
                    whole.findings.push(Finding { what, is_damage: false });
                } else {
                    newest = Some(contents);
                }
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
    let is_damaged = whole.findings.iter().any(|finding| finding.is_damage);
    let Some(newest) = newest.filter(|_| !is_damaged) else { return Ok(whole) };
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
    for Place { at, number } in places(location)? {
        let store = at.open()?;
        let numbers = remote::numbers(&*store)?;
        described.push((at, numbers.len(), Contents::read(&*store, Some(number))?));
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
