//! Directories some of whose files are in a far store: nobody who reads notices where a file is, and
//! nothing is lost at any moment.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vstream_store::remote::{
    Fault, FaultKind, MemoryObjects, Objects, PutMode, RemoteStore, RetryPolicy, Tiered, Upload,
};
use vstream_store::{
    Access, Buffer, Clock, Entry, ErrorKind, FileStore, Memory, Range, ReadAt, Store, Syncing,
};
use vstream_vector::SplitMix;

use crate::contract::CONTRACT;
use crate::remote::TestClock;

/// Objects in memory of whose requests some give no answer.
#[derive(Clone, Default)]
struct Flaky {
    memory: MemoryObjects,
    /// Of 1,000 requests so many fail, half of them after they took effect.
    failing: Arc<AtomicU64>,
    seed: Arc<AtomicU64>,
    /// An object that nobody may delete.
    kept: Arc<Mutex<String>>,
}

impl Flaky {
    fn meet<T>(&self, work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
        let mut random = SplitMix(self.seed.fetch_add(1, Ordering::SeqCst));
        if random.below(1000) as u64 >= self.failing.load(Ordering::SeqCst) {
            return work();
        }
        if random.below(2) == 0 {
            let _ = work();
        }
        Err(Fault::new(FaultKind::Doubtful, "no answer"))
    }
}

impl Objects for Flaky {
    fn put(&self, name: &str, bytes: &[u8], mode: PutMode, t: Duration) -> Result<(), Fault> {
        self.meet(|| self.memory.put(name, bytes, mode, t))
    }
    fn bytes(&self, name: &str, t: Duration) -> Result<u64, Fault> {
        self.meet(|| self.memory.bytes(name, t))
    }
    fn get(&self, name: &str, ranges: &[Range], t: Duration) -> Vec<Result<Buffer, Fault>> {
        let get = |range: &Range| self.meet(|| self.memory.get(name, &[*range], t).pop().unwrap());
        ranges.iter().map(get).collect()
    }
    fn list(&self, prefix: &str, t: Duration) -> Result<Vec<Entry>, Fault> {
        self.meet(|| self.memory.list(prefix, t))
    }
    fn delete(&self, name: &str, t: Duration) -> Result<(), Fault> {
        if *self.kept.lock().expect("no panic") == name {
            return Err(Fault::new(FaultKind::Refused, "access denied"));
        }
        self.meet(|| self.memory.delete(name, t))
    }
    fn upload(&self, name: &str, t: Duration) -> Result<Box<dyn Upload>, Fault> {
        self.meet(|| self.memory.upload(name, t))
    }
    fn describe(&self, name: &str) -> String {
        self.memory.describe(name)
    }
}

/// A directory in memory and its far store, which outlive the process that uses them.
#[derive(Clone, Default)]
struct Places {
    near: Memory,
    far: Flaky,
    clock: Arc<TestClock>,
}

impl Places {
    fn open(&self) -> (FileStore, Tiered) {
        let policy = RetryPolicy { total: Duration::from_secs(2), ..RetryPolicy::default() };
        let far = RemoteStore::new(Arc::new(self.far.clone()), policy, self.clock.clone(), 5);
        let near = FileStore::new(Arc::new(self.near.clone()), Syncing::Full);
        let may_move = |name: &str| name.starts_with("s-");
        Tiered::beside(&near, Arc::new(far), may_move, self.clock.clone()).expect("open")
    }

    fn fail(&self, per_mille: u64) {
        self.far.failing.store(per_mille, Ordering::SeqCst);
    }

    /// Names here and there.
    fn names(&self) -> (Vec<String>, Vec<String>) {
        let near = vstream_store::Files::list(&self.near).expect("a list");
        let far = self.far.memory.content().into_keys().collect();
        (near.into_iter().map(|(name, _)| name).collect(), far)
    }
}

fn content(name: &str, bytes: usize) -> Vec<u8> {
    let mut random = SplitMix(name.bytes().map(u64::from).sum());
    (0..bytes).map(|_| random.next() as u8).collect()
}

fn whole(file: &dyn ReadAt) -> Vec<u8> {
    file.read(Range { offset: 0, bytes: file.bytes() as usize }).expect("bytes").to_vec()
}

const ALWAYS: &dyn Fn() -> bool = &|| true;

#[test]
fn the_contract_of_stores_is_kept() {
    for (promise, test) in CONTRACT {
        println!("{promise}");
        test(&Places::default().open().0);
    }
}

#[test]
fn a_file_reads_the_same_wherever_it_is_and_while_it_moves() {
    let places = Places::default();
    let (store, tiered) = places.open();
    let bytes = 9_000_000;
    let expected = content("s-1", bytes);
    store.put("s-1", &expected).expect("room");
    let files = [Access::Cached, Access::Direct].map(|access| store.open("s-1", access).unwrap());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (seed, file) in files.iter().enumerate() {
            let (expected, done) = (&expected, &done);
            scope.spawn(move || {
                let mut random = SplitMix(seed as u64);
                while !done.load(Ordering::SeqCst) {
                    let ranges: Vec<Range> = (0..8)
                        .map(|_| {
                            let offset = random.below(bytes);
                            let most = (bytes - offset).min(70_000);
                            let bytes = random.below(most + 1);
                            Range { offset: offset as u64, bytes }
                        })
                        .collect();
                    for (range, read) in ranges.iter().zip(file.read_many(&ranges).unwrap()) {
                        let at = range.offset as usize;
                        assert!(*read == expected[at..at + range.bytes], "{range:?}");
                    }
                }
            });
        }
        for round in 0..20 {
            let sent = tiered.send("s-1", ALWAYS).expect("sent");
            assert_eq!(sent, if round == 0 { bytes as u64 } else { 0 }, "copied once");
            assert!(tiered.is_away("s-1") && files.iter().all(|file| !file.is_near()));
            assert_eq!(places.names().0.len(), 0);
            assert_eq!(tiered.fetch("s-1", ALWAYS).expect("fetched"), bytes as u64);
            assert!(!tiered.is_away("s-1") && files.iter().all(|file| file.is_near()));
        }
        done.store(true, Ordering::SeqCst);
    });
    let listed = store.list("").expect("a list");
    assert_eq!((listed.len(), listed[0].bytes), (1, bytes as u64), "listed once");
    assert_eq!((tiered.counts().sent, tiered.counts().fetched), (1, 20));
}

#[test]
fn what_is_removed_is_gone_in_both_places() {
    let places = Places::default();
    let (store, tiered) = places.open();
    for name in ["s-1", "s-2", "s-3", "log"] {
        store.put(name, &content(name, 100_000)).expect("room");
    }
    assert_eq!(tiered.send("log", ALWAYS).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(tiered.send("s-9", ALWAYS).unwrap_err().kind(), ErrorKind::NotFound);
    tiered.send("s-1", ALWAYS).expect("sent");
    tiered.send("s-2", ALWAYS).expect("sent");
    let open = store.open("s-1", Access::Cached).expect("a file");
    store.delete("s-1").expect("removed");
    assert_eq!(whole(&*open), content("s-1", 100_000), "its readers go on until it is deleted");
    places.fail(1000);
    assert_eq!(
        store.open("s-1", Access::Cached).map(|_| ()).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert!(store.put("s-1", b"other").is_err(), "the old copy would be taken for it");
    tiered.settle().expect("nothing to delete while it is read");
    drop(open);
    assert_eq!(tiered.settle().unwrap_err().kind(), ErrorKind::Unavailable);
    places.fail(0);
    places.clock.sleep(Duration::from_secs(60));
    tiered.settle().expect("deleted");
    assert_eq!(places.names(), (vec!["log".into(), "s-3".into()], vec!["s-2".into()]));
    // Removed, and the process ends before the far copy is deleted.
    store.delete("s-2").expect("removed");
    let (store, tiered) = places.open();
    let listed: Vec<String> = store.list("s-").unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(listed, ["s-2", "s-3"], "the sweep sees it again");
    store.delete("s-2").expect("removed");
    tiered.settle().expect("deleted");
    assert!(places.names().1.is_empty());
}

#[test]
fn a_file_that_is_removed_while_it_moves_stays_removed() {
    for is_fetch in [false, true] {
        let places = Places::default();
        let (store, tiered) = places.open();
        store.put("s-1", &content("s-1", 9_000_000)).expect("room");
        if is_fetch {
            tiered.send("s-1", ALWAYS).expect("sent");
        }
        let asked = AtomicU64::new(0);
        let remove = &|| {
            if asked.fetch_add(1, Ordering::SeqCst) == 1 {
                store.delete("s-1").expect("removed");
            }
            true
        };
        match is_fetch {
            false => tiered.send("s-1", remove).expect("copied"),
            true => tiered.fetch("s-1", remove).expect("copied"),
        };
        tiered.settle().expect("deleted");
        assert_eq!(places.names(), (Vec::new(), Vec::new()));
        assert!(store.list("").expect("a list").is_empty());
    }
}

#[test]
fn a_move_that_stops_or_fails_leaves_the_file_where_it_was() {
    let places = Places::default();
    let (store, tiered) = places.open();
    let expected = content("s-1", 9_000_000);
    store.put("s-1", &expected).expect("room");
    for left in 0..3 {
        let asked = AtomicU64::new(0);
        let some = &|| asked.fetch_add(1, Ordering::SeqCst) < left;
        assert_eq!(tiered.send("s-1", some).expect("given up"), 0);
        assert_eq!(places.names(), (vec!["s-1".into()], Vec::new()));
    }
    places.fail(1000);
    assert_eq!(tiered.send("s-1", ALWAYS).unwrap_err().kind(), ErrorKind::Unavailable);
    let begun = places.clock.now();
    assert_eq!(tiered.send("s-1", ALWAYS).unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(places.clock.now(), begun, "left alone for a while");
    assert_eq!(whole(&*store.open("s-1", Access::Cached).unwrap()), expected);
    places.fail(0);
    places.clock.sleep(Duration::from_secs(60));
    tiered.send("s-1", ALWAYS).expect("sent");
    for left in 0..3 {
        let asked = AtomicU64::new(0);
        let some = &|| asked.fetch_add(1, Ordering::SeqCst) < left;
        assert_eq!(tiered.fetch("s-1", some).expect("given up"), 0);
        assert!(places.names().0.is_empty(), "{:?}", places.names().0);
    }
    assert_eq!(whole(&*store.open("s-1", Access::Cached).unwrap()), expected);
}

/// Another file under the name of this one must never be taken for its copy.
#[test]
fn a_far_file_with_other_bytes_is_refused() {
    let places = Places::default();
    let (store, tiered) = places.open();
    store.put("s-1", &content("s-1", 1000)).expect("room");
    places.far.memory.set("s-1", &content("s-2", 1000));
    assert_eq!(tiered.send("s-1", ALWAYS).unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(whole(&*store.open("s-1", Access::Cached).unwrap()), content("s-1", 1000));
    places.far.memory.set("s-1", &content("s-1", 1000));
    assert_eq!(tiered.send("s-1", ALWAYS).expect("an earlier attempt sent it"), 0);
    assert!(tiered.is_away("s-1"));
    let open = store.open("s-1", Access::Cached).expect("listed");
    places.far.memory.set("s-1", &content("s-1", 999));
    let error = open.read(Range { offset: 0, bytes: 10 }).expect_err("too short");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    // Nor does it come back so, where it would take the place of a repaired one.
    let error = tiered.fetch("s-1", ALWAYS).expect_err("too short");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(tiered.is_away("s-1"));
    places.far.memory.set("s-1", &content("s-1", 1000));
    assert_eq!(tiered.fetch("s-1", ALWAYS).expect("repaired"), 1000);
    assert_eq!(whole(&*store.open("s-1", Access::Cached).unwrap()), content("s-1", 1000));
}

/// A store may let nobody delete one object.
#[test]
fn a_far_copy_that_cannot_be_deleted_keeps_no_other() {
    let places = Places::default();
    let (store, tiered) = places.open();
    for name in ["s-1", "s-2", "s-3"] {
        store.put(name, &content(name, 1000)).expect("room");
        tiered.send(name, ALWAYS).expect("sent");
    }
    *places.far.kept.lock().expect("no panic") = "s-1".to_owned();
    for name in ["s-1", "s-2"] {
        store.delete(name).expect("removed");
    }
    let error = tiered.settle().expect_err("one is refused");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let there = || -> Vec<String> {
        let all = places.far.memory.list("", Duration::ZERO).expect("a list");
        all.into_iter().map(|entry| entry.name).collect()
    };
    assert_eq!(there(), ["s-1", "s-3"]);
    places.far.kept.lock().expect("no panic").clear();
    tiered.settle().expect("now it goes");
    assert_eq!(there(), ["s-3"]);
}

/// An object of more than 5 GiB cannot be copied in one request, so none is sent.
#[test]
fn a_file_that_is_too_long_is_refused_before_it_is_sent() {
    let far = RemoteStore::new(
        Arc::new(MemoryObjects::new()),
        RetryPolicy::default(),
        Arc::new(TestClock::default()),
        5,
    );
    let mut file = far.create("s-1").expect("a file");
    file.expect(5 << 30).expect("so many are taken");
    assert_eq!(file.expect((5 << 30) + 1).expect_err("more").kind(), ErrorKind::Invalid);
}

/// A random life of files with one request in ten failing and with restarts: at every moment each file
/// that was not removed has its bytes, and in the end no file is left over.
#[test]
fn nothing_is_lost_with_a_bad_network_and_restarts() {
    for seed in 0..12u64 {
        println!("seed {seed}");
        let mut random = SplitMix(seed);
        let places = Places::default();
        places.far.seed.store(seed << 32, Ordering::SeqCst);
        let (mut store, mut tiered) = places.open();
        places.fail(100);
        let mut living: Vec<(String, usize)> = Vec::new();
        for step in 0..150 {
            let picked = random.below(living.len().max(1));
            match random.below(10) {
                0..3 => {
                    let (name, bytes) = (format!("s-{step}"), random.below(200_000));
                    store.put(&name, &content(&name, bytes)).expect("room");
                    living.push((name, bytes));
                }
                3..7 if !living.is_empty() => {
                    let (name, _) = &living[picked];
                    let moved = match random.below(2) {
                        0 => tiered.send(name, ALWAYS),
                        _ => tiered.fetch(name, ALWAYS),
                    };
                    if let Err(error) = moved {
                        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                        places.clock.sleep(Duration::from_secs(60));
                    }
                }
                7 if !living.is_empty() => {
                    let (name, _) = living.swap_remove(picked);
                    store.delete(&name).expect("removed");
                }
                8 => {
                    let _ = tiered.settle();
                }
                9 => {
                    places.fail(0);
                    (store, tiered) = places.open();
                    let is_living = |name: &String| living.iter().any(|(known, _)| known == name);
                    for entry in store.list("").expect("a list") {
                        if !is_living(&entry.name) {
                            store.delete(&entry.name).expect("swept");
                        }
                    }
                    places.fail(100);
                }
                _ => {}
            }
            let (name, bytes) = match living.get(picked) {
                Some(file) => file,
                None => continue,
            };
            let file = store.open(name, Access::Cached).expect("a living file");
            match file.read(Range { offset: 0, bytes: *bytes }) {
                Ok(read) => assert!(*read == content(name, *bytes), "{name} in step {step}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                    places.clock.sleep(Duration::from_secs(60));
                }
            }
        }
        places.fail(0);
        places.clock.sleep(Duration::from_secs(60));
        for (name, _) in &living {
            store.delete(name).expect("removed");
        }
        tiered.settle().expect("deleted");
        assert_eq!(places.names(), (Vec::new(), Vec::new()), "seed {seed}");
    }
}
