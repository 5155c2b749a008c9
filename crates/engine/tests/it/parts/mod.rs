//! Base images of several parts, each written at its own moment.

mod followed;
mod found;
mod model;
mod shared;

use std::fs;
use std::path::{Path, PathBuf};

use vstream_engine::{Durability, Engine, Journaling, Settings};

/// Bytes of log at which a whole image is due, if it is shorter.
const LOG_BYTES_MAX: u64 = 20_000;

/// Steps of checkpoints are taken inside the calls, so that tests are functions of their seeds.
pub(crate) fn create(dir: &Path, settings: Settings) -> Engine {
    let (durability, log_bytes_max) = (Durability::None, LOG_BYTES_MAX);
    let journaling = Journaling { durability, log_bytes_max, background: false };
    Engine::builder().dir(dir).journaling(journaling).create(settings).expect("an engine")
}

/// Opens an engine that goes on as `like`, without threads.
pub(crate) fn open(dir: &Path, like: &Settings) -> Engine {
    let opened = Engine::builder()
        .dir(dir)
        .adjust(&mut |settings, journaling| {
            settings.recall_guard = false;
            settings.image_part_bytes = like.image_part_bytes;
            journaling.background = false;
        })
        .open();
    opened.expect("it opens")
}

/// What a crash leaves.
pub(crate) fn copied(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a directory");
    for path in files(dir, "") {
        fs::copy(&path, copy.path().join(path.file_name().expect("a name"))).expect("copied");
    }
    copy
}

/// The files whose names have this part.
pub(crate) fn files(dir: &Path, part: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("a listing").map(|entry| entry.expect("an entry"));
    let name = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut paths: Vec<PathBuf> =
        entries.filter(|entry| name(entry).contains(part)).map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

pub(crate) fn parts(engine: &Engine) -> u64 {
    engine.stats().journal.expect("a journal").base_parts
}
