//! Names of the files in the directory of a durable engine.

use vstream_store::{FileStore, Store};

use crate::error::Error;

/// Name of the manifest, which lists the files of a durable engine.
pub(crate) const COLLECTION: &str = "COLLECTION";
const LOG: &str = "log-";
/// Begins the names of the files of a base image.
pub(crate) const BASE: &str = "base-";
const SEGMENT: &str = "segment-";
const MARKS: &str = "marks-";
const REMEMBERED: &str = "deletes-";

/// Returns the name of a log.
pub(crate) fn log_name(number: u64) -> String {
    format!("{LOG}{number:010}")
}

/// Returns the prefix of the names of the files of a part of a base image.
pub(crate) fn base_prefix(number: u64) -> String {
    format!("{BASE}{number:010}.")
}

/// Returns the name of a segment.
pub(crate) fn segment_name(number: u64) -> String {
    format!("{SEGMENT}{number:010}")
}

/// Returns the name of a segment's delete bitmap.
pub(crate) fn delete_bitmap_name(number: u64) -> String {
    format!("{MARKS}{number:010}")
}

/// Returns the name of a file of remembered deletes.
pub(crate) fn remembered_name(number: u64) -> String {
    format!("{REMEMBERED}{number:010}")
}

/// The kind of a file, with the number in its name; [`base_file`] has that of a part of a base image.
pub(crate) enum Number {
    Log(u64),
    Base,
    Segment(u64),
    Marks(u64),
    Remembered(u64),
}

/// Returns kind and number of a file of an engine; `None` for any other name.
pub(crate) fn number(name: &str) -> Option<Number> {
    if let Some(log) = name.strip_prefix(LOG) {
        return digits(log).map(Number::Log);
    }
    if let Some(segment) = name.strip_prefix(SEGMENT) {
        return digits(segment).map(Number::Segment);
    }
    if let Some(tombstones) = name.strip_prefix(MARKS) {
        return digits(tombstones).map(Number::Marks);
    }
    if let Some(deletes) = name.strip_prefix(REMEMBERED) {
        return digits(deletes).map(Number::Remembered);
    }
    base_file(name).map(|_| Number::Base)
}

/// Returns the number of a part of a base image, and what follows its prefix in the name of a file.
pub(crate) fn base_file(name: &str) -> Option<(u64, &str)> {
    let (number, rest) = name.strip_prefix(BASE)?.split_once('.')?;
    Some((digits(number)?, rest))
}

fn digits(text: &str) -> Option<u64> {
    (text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Errors if the store holds a durable engine. `what`: the advice that ends the error text.
pub(crate) fn check_not_collection(store: &FileStore, what: &str) -> Result<(), Error> {
    if holds(store)? {
        let place = store.describe("");
        return Err(Error::invalid(format!("{place} holds a collection: {what}")));
    }
    Ok(())
}

/// True if the store holds a durable engine.
pub(crate) fn holds(store: &FileStore) -> Result<bool, Error> {
    Ok(store.list(COLLECTION)?.iter().any(|entry| entry.name == COLLECTION))
}
