//! Stores over files: the contract of all stores, and the rules for files alone.

use std::sync::Arc;

use vstream_store::{Access, ErrorKind, FileStore, Memory, Range, Store, Syncing};

use crate::contract::CONTRACT;

fn everywhere(test: impl Fn(&FileStore)) {
    test(&FileStore::new(Arc::new(Memory::new()), Syncing::Full));
    for syncing in [Syncing::Full, Syncing::Off] {
        let dir = tempfile::tempdir().expect("a directory");
        test(&FileStore::create_dir(&dir.path().join("a/b"), syncing).expect("a store"));
    }
}

#[test]
fn the_contract_of_stores_is_kept() {
    for (promise, test) in CONTRACT {
        println!("{promise}");
        everywhere(|store| test(store));
    }
}

#[test]
fn a_log_grows_and_is_continued_where_the_caller_says() {
    everywhere(|store| {
        let mut log = store.create_log("log-1").expect("a log");
        log.append(b"abcdef").expect("room");
        log.sync().expect("synced");
        assert_eq!(log.bytes(), 6);
        drop(log);
        let mut log = store.reopen_log("log-1", 4, 1).expect("the log");
        log.append(b"XY").expect("room");
        let file = store.open("log-1", Access::Cached).expect("a file");
        assert_eq!(*file.read(Range { offset: 0, bytes: 6 }).expect("bytes"), *b"abcdXY");
        assert_eq!(file.bytes(), 6);
        assert_eq!(store.create_log("log-1").map(|_| ()).unwrap_err().kind(), ErrorKind::Exists);
    });
}

#[test]
fn what_is_ready_is_what_a_read_gives() {
    everywhere(|store| {
        let content: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
        store.put("file", &content).expect("room");
        for access in [Access::Cached, Access::Direct] {
            let file = store.open("file", access).expect("a file");
            for (offset, bytes) in [(0, 300_000), (1, 4_096), (4_095, 3), (299_999, 1), (70_001, 0)]
            {
                let range = Range { offset, bytes };
                let ready = file.read_ready(range);
                let read = file.read(range).expect("bytes");
                assert!(ready.is_none_or(|ready| *ready == *read), "{range:?}");
            }
            for range in [Range { offset: 300_000, bytes: 1 }, Range { offset: u64::MAX, bytes: 2 }]
            {
                assert!(file.read_ready(range).is_none(), "{range:?} is not in the file");
            }
        }
    });
}

#[test]
fn what_was_not_finished_is_swept() {
    let memory = Memory::new();
    let store = FileStore::new(Arc::new(memory.clone()), Syncing::Full);
    let mut file = store.create("big").expect("a file");
    file.append(&[1; 200_000]).expect("room");
    // A crash: no destructor runs.
    std::mem::forget(file);
    assert!(store.list("").expect("a list").is_empty());
    assert_eq!(vstream_store::Files::list(&memory).expect("names").len(), 1);
    store.sweep(&|name| name == "small").expect("swept");
    assert_eq!(vstream_store::Files::list(&memory).expect("names").len(), 1, "not its to sweep");
    store.sweep(&|name| name == "big").expect("swept");
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

#[test]
fn a_list_is_made_while_files_come_and_go() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = FileStore::create_dir(dir.path(), Syncing::Off).expect("a store");
    (0..40).for_each(|n| store.put(&format!("stays-{n}"), b"x").expect("a file"));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                (0..40).for_each(|n| store.put(&format!("goes-{n}"), b"x").expect("a file"));
                (0..40).for_each(|n| store.delete(&format!("goes-{n}")).expect("gone"));
            }
        });
        let found: Result<Vec<_>, _> = (0..500).map(|_| store.list("stays-")).collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(found.expect("lists").iter().all(|list| list.len() == 40));
    });
}
