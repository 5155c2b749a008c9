//! Pushed snapshots: each file is sent once, a push is all or nothing, and files can be read before
//! they are fetched.

use std::sync::Arc;
use std::time::Duration;

use vstream_store::remote::{
    numbers, push, Contents, MemoryObjects, RemoteStore, Restore, RestoreSettings,
};
use vstream_store::{
    Access, Clock, ErrorKind, FileStore, Files, Memory, Range, ReadAt, Store, Syncing,
};

use crate::remote::{memory, TestClock};

/// Name and content of the pushed files.
fn files() -> Vec<(String, Vec<u8>)> {
    [("COLLECTION", 300usize), ("log-1", 70_000), ("seg-1", 300_000), ("seg-2", 200_000), ("e", 0)]
        .iter()
        .map(|&(name, bytes)| {
            let content = (0..bytes).map(|i| (i * 7 % (251 - name.len())) as u8).collect();
            (name.to_owned(), content)
        })
        .collect()
}

fn settings() -> RestoreSettings {
    RestoreSettings { bytes_per_second: None, clock: Arc::new(TestClock::default()) }
}

fn directory() -> (Memory, FileStore) {
    let memory = Memory::new();
    (memory.clone(), FileStore::new(Arc::new(memory), Syncing::Full))
}

fn pushed() -> (MemoryObjects, RemoteStore, Contents) {
    let (_, local) = directory();
    files().iter().for_each(|(name, content)| local.put(name, content).unwrap());
    let (objects, remote) = memory();
    let names: Vec<String> = files().into_iter().map(|(name, _)| name).collect();
    let pushed = push(&local, &names, &remote).expect("pushed");
    assert_eq!((pushed.sent_files, pushed.contents.number), (5, 1));
    (objects, remote, pushed.contents)
}

fn begin(local: &Memory, remote: &RemoteStore, contents: &Contents) -> Restore {
    Restore::begin(Arc::new(local.clone()), Arc::new(remote.clone()), contents, settings())
        .expect("begun")
}

fn whole(file: &dyn ReadAt) -> Vec<u8> {
    file.read(Range { offset: 0, bytes: file.bytes() as usize }).expect("bytes").to_vec()
}

fn assert_same(store: &FileStore) {
    let listed: Vec<String> = store.list("").unwrap().into_iter().map(|e| e.name).collect();
    let mut names: Vec<String> = files().into_iter().map(|(name, _)| name).collect();
    names.sort();
    assert_eq!(listed, names);
    for (name, content) in files() {
        assert_eq!(whole(&*store.open(&name, Access::Cached).unwrap()), content, "{name}");
    }
}

#[test]
fn a_snapshot_is_read_before_it_is_here_and_becomes_a_directory() {
    let (_, remote, contents) = pushed();
    let (local, plain) = directory();
    let restore = begin(&local, &remote, &contents);
    let store = FileStore::new(Arc::new(restore.clone()), Syncing::Full);
    assert_same(&store);
    let early = store.open("seg-1", Access::Direct).expect("a file");
    let ranges = [Range { offset: 250_000, bytes: 9 }, Range { offset: 3, bytes: 5 }];
    let before = restore.progress();
    let read = early.read_many(&ranges).expect("ranges");
    let after = restore.progress();
    assert_eq!((before.files_left, after.remote_reads - before.remote_reads), (5, 2));
    assert_eq!(after.remote_bytes - before.remote_bytes, 14);
    while restore.fetch_next().expect("fetched") {}
    let requests = remote.counts().requests;
    assert_eq!(
        early.read_many(&ranges).expect("ranges").iter().map(|b| b.to_vec()).collect::<Vec<_>>(),
        read.iter().map(|b| b.to_vec()).collect::<Vec<_>>()
    );
    assert_same(&store);
    assert_same(&plain);
    assert_eq!(remote.counts().requests, requests, "everything is here");
    assert_eq!(restore.progress().files_left, 0);
    assert_eq!(restore.progress().fetched_bytes, contents.bytes());
}

#[test]
fn only_what_is_new_is_sent_again() {
    let (objects, remote, first) = pushed();
    let (_, local) = directory();
    files().iter().for_each(|(name, content)| local.put(name, content).unwrap());
    local.replace("COLLECTION", b"newer").unwrap();
    local.put("seg-3", &[3; 1000]).unwrap();
    local.delete("seg-2").unwrap();
    let names: Vec<String> = local.list("").unwrap().into_iter().map(|e| e.name).collect();
    let second = push(&local, &names, &remote).expect("pushed");
    assert_eq!((second.sent_files, second.sent_bytes), (2, 1005));
    assert_eq!(numbers(&remote).unwrap(), [1, 2]);
    assert_eq!(Contents::read(&remote, None).unwrap(), second.contents);
    assert_eq!(Contents::read(&remote, Some(1)).unwrap(), first);
    for file in first.files.iter().chain(&second.contents.files) {
        file.verify(&remote).expect("whole");
    }
    assert_eq!(objects.content().len(), 5 + 2 + 2);
    let error = Contents::read(&memory().1, None).expect_err("nothing there");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn what_is_written_here_is_never_overwritten_by_what_comes() {
    let (_, remote, contents) = pushed();
    let (local, plain) = directory();
    let restore = begin(&local, &remote, &contents);
    let store = FileStore::new(Arc::new(restore.clone()), Syncing::Full);
    let old = store.open("COLLECTION", Access::Cached).unwrap();
    store.replace("COLLECTION", b"of here").unwrap();
    store.delete("seg-2").unwrap();
    assert_eq!(store.put("seg-1", b"x").unwrap_err().kind(), ErrorKind::Exists);
    let mut log = store.reopen_log("log-1", 60_000, 60_000).expect("fetched first");
    log.append(b"more").unwrap();
    log.sync().unwrap();
    while restore.fetch_next().expect("fetched") {}
    assert_eq!(whole(&*old), files()[0].1, "its reader keeps it");
    assert_eq!(whole(&*plain.open("COLLECTION", Access::Cached).unwrap()), b"of here");
    assert_eq!(
        plain.open("seg-2", Access::Cached).map(|_| ()).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let log = whole(&*plain.open("log-1", Access::Cached).unwrap());
    assert_eq!((&log[..60_000], &log[60_000..]), (&files()[1].1[..60_000], &b"more"[..]));
    let names: Vec<String> =
        Files::list(&local).unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["COLLECTION", "e", "log-1", "seg-1"], "nothing is left over");
}

#[test]
fn a_restore_goes_on_where_another_process_stopped() {
    let (_, remote, contents) = pushed();
    let (local, plain) = directory();
    let restore = begin(&local, &remote, &contents);
    (0..3).for_each(|_| assert!(restore.fetch_next().expect("fetched")));
    let written = FileStore::new(Arc::new(restore.clone()), Syncing::Full);
    written.replace("COLLECTION", b"of here").unwrap();
    drop((restore, written));
    // A crash in the middle of a file.
    let mut torn = Files::create(&local, "seg-1.fetching").unwrap();
    torn.append(b"half").unwrap();
    let other = Contents { number: 9, ..contents.clone() };
    let refused =
        Restore::begin(Arc::new(local.clone()), Arc::new(remote.clone()), &other, settings());
    assert_eq!(refused.map(|_| ()).unwrap_err().kind(), ErrorKind::Invalid);
    let fetched = remote.counts().read_bytes;
    let restore = begin(&local, &remote, &contents);
    assert_eq!(restore.progress().files_left, 2);
    restore.fetch().unwrap().wait().expect("fetched");
    assert!(remote.counts().read_bytes - fetched < 501_000, "only what was missing");
    assert_eq!(whole(&*plain.open("COLLECTION", Access::Cached).unwrap()), b"of here");
    assert_eq!(whole(&*plain.open("seg-1", Access::Cached).unwrap()), files()[2].1);
    let names: Vec<String> =
        Files::list(&local).unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["COLLECTION", "e", "log-1", "seg-1", "seg-2"]);
    let refused = Restore::begin(Arc::new(local), Arc::new(remote), &contents, settings());
    assert_eq!(
        refused.map(|_| ()).unwrap_err().kind(),
        ErrorKind::Invalid,
        "a directory of its own"
    );
}

#[test]
fn a_rate_is_kept() {
    let (_, remote, contents) = pushed();
    let clock = Arc::new(TestClock::default());
    let settings = RestoreSettings { bytes_per_second: Some(100_000), clock: clock.clone() };
    let local = Arc::new(Memory::new());
    let restore = Restore::begin(local, Arc::new(remote), &contents, settings).unwrap();
    while restore.fetch_next().expect("fetched") {}
    let least = Duration::from_secs_f64(contents.bytes() as f64 / 100_000.0);
    assert!(clock.now() >= least && clock.now() < least * 2, "{:?} for {least:?}", clock.now());
}

/// Flips one bit of any object of a snapshot: of its list or of a file.
#[test]
fn every_flipped_bit_is_found_and_none_is_fetched() {
    let (objects, remote, contents) = pushed();
    for (name, good) in objects.content() {
        let is_list = name.starts_with("SNAPSHOT-");
        let step = if is_list { 1 } else { 3571 };
        for bit in (0..good.len() * 8).step_by(step) {
            let mut bad = good.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            objects.set(&name, &bad);
            if is_list {
                let error = Contents::read(&remote, None).expect_err("a flipped bit");
                assert_eq!(error.kind(), ErrorKind::Corrupt, "bit {bit}: {error}");
                assert!(error.to_string().contains(&name), "{error}");
                continue;
            }
            let damaged: Vec<_> =
                contents.files.iter().filter_map(|file| file.verify(&remote).err()).collect();
            assert_eq!(damaged.len(), 1, "bit {bit} of {name}");
            assert_eq!(damaged[0].kind(), ErrorKind::Corrupt);
            assert!(damaged[0].to_string().contains(&name), "{}", damaged[0]);
            if bit % 5 == 0 {
                let (local, plain) = directory();
                let restore = begin(&local, &remote, &contents);
                let error = std::iter::repeat_with(|| restore.fetch_next()).find_map(Result::err);
                assert_eq!(error.expect("a flipped bit").kind(), ErrorKind::Corrupt);
                let file = contents.files.iter().find(|file| file.object() == name).unwrap();
                assert!(plain.open(&file.name, Access::Cached).is_err(), "not here");
            }
        }
        for bad in [&good[..good.len().saturating_sub(1)], &[&good[..], &[0]].concat()] {
            objects.set(&name, bad);
            let list = Contents::read(&remote, None);
            let verified = |list: &Contents| list.files.iter().all(|f| f.verify(&remote).is_ok());
            assert!(good.is_empty() && bad.is_empty() || !list.is_ok_and(|list| verified(&list)));
        }
        objects.set(&name, &good);
    }
}

#[test]
fn lists_of_any_bytes_are_refused_without_harm() {
    let (objects, _, contents) = pushed();
    let good = objects.content()["SNAPSHOT-0000000001"].to_vec();
    assert_eq!(Contents::decode(&good, "list").unwrap(), contents);
    let mut random = vstream_vector::SplitMix(5);
    for _ in 0..20_000 {
        let mut bad = good.clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bad.len());
            bad[at] = random.next() as u8;
        }
        bad.truncate(random.below(bad.len() + 1));
        // An attacker would write the right checksum.
        if let Some(body) = bad.len().checked_sub(8) {
            let checksum = xxhash_rust::xxh3::xxh3_64(&bad[..body]);
            bad[body..].copy_from_slice(&checksum.to_le_bytes());
        }
        if let Ok(read) = Contents::decode(&bad, "list") {
            assert!(read.files.iter().all(|file| !file.name.contains(['/', '\\'])));
        }
    }
}
