//! Reads through a ring against the bytes of the file: many, past the page cache, short ones, and of threads.

use std::io::Write;
use std::path::Path;

use super::*;
use crate::disk::Disk;
use crate::files::{Access, Files};
use crate::store::Range;
use crate::{FileStore, Store, Syncing};

const BYTES: usize = 3 << 20;

fn content() -> Vec<u8> {
    (0..BYTES as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn written(at: &Path) {
    let mut file = File::create(at.join("rows")).expect("a file");
    file.write_all(&content()).expect("room");
    file.sync_all().expect("a disk");
}

/// More ranges than fit a ring, from anywhere, in no order, some of them empty.
fn ranges(count: usize) -> Vec<Range> {
    let at = |nth: usize| nth.wrapping_mul(7_919_993) % (BYTES - 70_000);
    (0..count).map(|nth| Range { offset: at(nth) as u64, bytes: nth * 641 % 70_000 }).collect()
}

#[test]
fn many_reads_get_the_bytes_of_their_ranges() {
    let folder = tempfile::tempdir().expect("a folder");
    written(folder.path());
    let content = content();
    let store = FileStore::open_dir(folder.path(), Syncing::Off).expect("a store");
    for access in [Access::Cached, Access::Direct] {
        let file = store.open("rows", access).expect("the file");
        for count in [1, 2, 63, 64, 65, 500] {
            let ranges = ranges(count);
            let planned =
                ranges.iter().map(|&range| file.plan(range).expect("a file of the system"));
            let read = read_all(planned.collect());
            // Where the kernel refuses rings there is nothing to compare here.
            assert!(!is_there() || read.iter().all(Option::is_some), "{access:?}, {count}");
            let both = file.read_many(&ranges).expect("a good file");
            for ((range, read), again) in ranges.iter().zip(&read).zip(&both) {
                let wanted = &content[range.offset as usize..][..range.bytes];
                assert!(
                    read.as_ref().is_none_or(|read| **read == *wanted),
                    "{access:?}, {range:?}"
                );
                assert!(**again == *wanted, "{access:?}, {range:?}");
            }
        }
    }
}

/// A thread that lets others go first gets the same bytes.
#[test]
fn few_at_once_get_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    written(folder.path());
    let content = content();
    let store = FileStore::open_dir(folder.path(), Syncing::Off).expect("a store");
    let read = std::thread::spawn(move || {
        read_few_at_once();
        let file = store.open("rows", Access::Direct).expect("the file");
        let read = file.read_many(&ranges(100)).expect("a good file");
        // Where the kernel refuses rings, none were in flight.
        assert!(!is_there() || MOST.get() == FEW as usize, "{} at once", MOST.get());
        read
    });
    for (range, read) in ranges(100).iter().zip(read.join().expect("reads")) {
        assert!(*read == content[range.offset as usize..][..range.bytes], "{range:?}");
    }
}

/// A file that became shorter is an error of the read without a ring, as before.
#[test]
fn a_short_read_is_left_to_the_caller() {
    let folder = tempfile::tempdir().expect("a folder");
    written(folder.path());
    let store = FileStore::open_dir(folder.path(), Syncing::Off).expect("a store");
    let file = store.open("rows", Access::Cached).expect("the file");
    let within = Range { offset: 100, bytes: 1_000 };
    let beyond = Range { offset: BYTES as u64 - 500, bytes: 500 };
    File::options()
        .write(true)
        .open(folder.path().join("rows"))
        .expect("the file")
        .set_len(BYTES as u64 - 400)
        .expect("shorter");
    let planned = [within, beyond].map(|range| file.plan(range).expect("a file of the system"));
    let read = read_all(planned.into());
    assert!(read[0].is_some() || !is_there());
    assert!(read[1].is_none());
    let error = file.read_many(&[within, beyond]).expect_err("bytes are missing");
    assert_eq!(error.kind(), crate::ErrorKind::Corrupt, "{error}");
    assert!(file.plan(Range { offset: BYTES as u64, bytes: 1 }).is_none(), "beyond the end");
}

#[test]
fn threads_have_rings_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    written(folder.path());
    let content = content();
    let disk = Disk::open(folder.path()).expect("a folder");
    let file = disk.open("rows", Access::Direct).expect("the file");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let planned = (0..100)
                        .map(|nth| file.plan(nth * 30_011, 4_097).expect("a file of the system"));
                    for (read, nth) in read_all(planned.collect()).into_iter().zip(0..) {
                        let wanted = &content[nth * 30_011..][..4_097];
                        assert!(read.is_some() || !is_there(), "{nth}");
                        assert!(read.is_none_or(|read| *read == *wanted), "{nth}");
                    }
                }
            });
        }
    });
}
