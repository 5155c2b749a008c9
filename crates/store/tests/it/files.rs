//! One suite for every store over files.

use std::sync::Arc;

use vstream_store::{Access, ErrorKind, FileStore, Memory, Range, Store, Syncing};

fn everywhere(test: impl Fn(&FileStore)) {
    test(&FileStore::new(Arc::new(Memory::new()), Syncing::Full));
    for syncing in [Syncing::Full, Syncing::Off] {
        let dir = tempfile::tempdir().expect("a directory");
        test(&FileStore::create_dir(&dir.path().join("a/b"), syncing).expect("a store"));
    }
}

#[test]
fn a_file_is_seen_when_it_is_finished_and_never_changes() {
    everywhere(|store| {
        let content: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
        let mut file = store.create("data-1").expect("a file");
        content.chunks(1000).for_each(|part| file.append(part).expect("room"));
        assert!(store.list("").expect("a list").is_empty(), "not seen before it is whole");
        assert_eq!(file.finish().expect("a whole file"), 300_000);
        let listed = store.list("data").expect("a list");
        assert_eq!((listed.len(), listed[0].bytes), (1, 300_000));
        let again = store.put("data-1", b"other").expect_err("written once");
        assert_eq!(again.kind(), ErrorKind::Exists, "{again}");
        for access in [Access::Cached, Access::Direct] {
            let file = store.open("data-1", access).expect("a file");
            let ranges: Vec<Range> = [(0, 1), (4095, 2), (299_999, 1), (12_345, 70_000), (5, 0)]
                .map(|(offset, bytes)| Range { offset, bytes })
                .into();
            let read = file.read_many(&ranges).expect("whole ranges");
            for (range, read) in ranges.iter().zip(&read) {
                let at = range.offset as usize;
                assert_eq!(**read, content[at..at + range.bytes], "{range:?} {access:?}");
                assert_eq!(**read, *file.read(*range).expect("a range"));
            }
        }
    });
}

#[test]
fn what_lies_beyond_the_end_is_an_error_that_says_where() {
    everywhere(|store| {
        store.put("short", &[7; 100]).expect("a file");
        let file = store.open("short", Access::Direct).expect("a file");
        for range in [(99, 2), (101, 0), (u64::MAX, 1), (0, usize::MAX)] {
            let range = Range { offset: range.0, bytes: range.1 };
            let error = file.read(range).expect_err("beyond the end");
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert_eq!(error.offset(), Some(range.offset));
            assert!(error.to_string().contains("short"), "{error}");
        }
        assert!(file.read_many(&[Range { offset: 0, bytes: 101 }; 3]).is_err());
    });
}

#[test]
fn a_replaced_file_keeps_its_readers() {
    everywhere(|store| {
        store.replace("NAME", b"old").expect("room");
        let before = store.open("NAME", Access::Cached).expect("a file");
        store.replace("NAME", b"newer").expect("room");
        let whole = |file: &dyn vstream_store::ReadAt| {
            file.read(Range { offset: 0, bytes: file.bytes() as usize }).expect("bytes").to_vec()
        };
        assert_eq!(whole(&*before), b"old");
        assert_eq!(whole(&*store.open("NAME", Access::Cached).expect("a file")), b"newer");
        store.delete("NAME").expect("gone");
        store.delete("NAME").expect("gone already");
        let gone = store.open("NAME", Access::Cached).map(|_| ()).expect_err("gone");
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_log_grows_and_is_continued_where_the_caller_says() {
    everywhere(|store| {
        let mut log = store.create_log("log-1").expect("a log");
        log.append(b"abcdef").expect("room");
        log.sync().expect("synced");
        assert_eq!(log.bytes(), 6);
        drop(log);
        let mut log = store.reopen_log("log-1", 4).expect("the log");
        log.append(b"XY").expect("room");
        let file = store.open("log-1", Access::Cached).expect("a file");
        assert_eq!(*file.read(Range { offset: 0, bytes: 6 }).expect("bytes"), *b"abcdXY");
        assert_eq!(file.bytes(), 6);
        assert_eq!(store.create_log("log-1").map(|_| ()).unwrap_err().kind(), ErrorKind::Exists);
    });
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    everywhere(|store| {
        let long = "x".repeat(129);
        for name in ["", "..", ".hidden", "a/b", "../up", "a\0b", "a b", "x.partial", &long] {
            let error = store.put(name, b"x").expect_err("a bad name");
            assert_eq!(error.kind(), ErrorKind::Invalid, "{name:?}: {error}");
        }
        assert!(store.list("").expect("a list").is_empty());
    });
}

#[test]
fn what_was_not_finished_is_swept() {
    let memory = Memory::new();
    let store = FileStore::new(Arc::new(memory.clone()), Syncing::Full);
    let mut file = store.create("big").expect("a file");
    file.append(&[1; 200_000]).expect("room");
    // A crash: nothing runs that would tidy up.
    std::mem::forget(file);
    assert!(store.list("").expect("a list").is_empty());
    assert_eq!(vstream_store::Files::list(&memory).expect("names").len(), 1);
    store.sweep().expect("swept");
    assert_eq!(vstream_store::Files::list(&memory).expect("names").len(), 0);
    drop(store.create("small").expect("a file"));
    assert_eq!(vstream_store::Files::list(&memory).expect("names").len(), 0, "dropped: removed");
}

#[test]
fn links_are_not_files_of_the_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = FileStore::create_dir(dir.path(), Syncing::Off).expect("a store");
    std::os::unix::fs::symlink("/etc/hostname", dir.path().join("linked")).expect("a link");
    assert!(store.list("").expect("a list").is_empty());
}
