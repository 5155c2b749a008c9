//! Directories with pointers: others read the same far copies, and none deletes what another one needs.

use std::sync::Arc;
use std::time::Duration;

use vstream_store::remote::{MemoryObjects, Objects, RemoteStore, RetryPolicy, Tiered};
use vstream_store::{Access, ErrorKind, FileStore, Files, Memory, Range, ReadAt, Store, Syncing};

use crate::remote::TestClock;

const ALWAYS: &dyn Fn() -> bool = &|| true;

/// A far store that many directories share.
#[derive(Clone, Default)]
struct Shared {
    far: MemoryObjects,
    clock: Arc<TestClock>,
}

struct Directory {
    near: Memory,
    store: FileStore,
    tiered: Tiered,
}

impl Shared {
    fn open(&self, near: Memory, prefix: &str) -> Directory {
        let objects = Arc::new(self.far.clone());
        let far = RemoteStore::new(objects, RetryPolicy::default(), self.clock.clone(), 5);
        let files = FileStore::new(Arc::new(near.clone()), Syncing::Off);
        let may_move = |name: &str| name.starts_with("s-") && !name.contains('.');
        let clock = self.clock.clone();
        let opened = Tiered::with_pointers(&files, Arc::new(far), may_move, clock, prefix);
        let (store, tiered) = opened.expect("it opens");
        Directory { near, store, tiered }
    }

    /// A directory that got the files of another one as its borrowers copy them.
    fn after(&self, from: &Directory, names: &[&str], prefix: &str) -> Directory {
        let near = Memory::default();
        let copies = FileStore::new(Arc::new(near.clone()), Syncing::Off);
        for name in names {
            let lent = from.tiered.lend(name);
            let copied = lent.clone().unwrap_or_else(|| (*name).to_owned());
            let file = from.store.open(&copied, Access::Cached).expect("it is there");
            copies.put(&copied, &whole(&*file)).expect("room");
            if lent.is_none() {
                from.tiered.give_back(name);
            }
        }
        self.open(near, prefix)
    }

    fn names(&self) -> Vec<String> {
        self.far.content().into_keys().collect()
    }
}

impl Directory {
    fn names(&self) -> Vec<String> {
        let listed = Files::list(&self.near).expect("a list");
        listed.into_iter().map(|(name, _)| name).collect()
    }

    fn read(&self, name: &str) -> Vec<u8> {
        whole(&*self.store.open(name, Access::Cached).expect("it is there"))
    }
}

fn whole(file: &dyn ReadAt) -> Vec<u8> {
    file.read(Range { offset: 0, bytes: file.bytes() as usize }).expect("bytes").to_vec()
}

fn content(name: &str) -> Vec<u8> {
    name.bytes().cycle().take(50_000).collect()
}

fn filled(shared: &Shared, prefix: &str) -> Directory {
    let directory = shared.open(Memory::default(), prefix);
    for name in ["s-1", "s-2", "s-3"] {
        directory.store.put(name, &content(name)).expect("room");
    }
    directory
}

#[test]
fn a_file_that_is_lent_stays_and_its_pointer_is_lent_later() {
    let shared = Shared::default();
    let a = filled(&shared, "a");
    assert_eq!(a.tiered.lend("s-1"), None);
    assert_eq!(a.tiered.send("s-1", ALWAYS).expect("copied"), 50_000);
    assert!(a.names().contains(&"s-1".to_owned()), "somebody copies it: {:?}", a.names());
    a.tiered.give_back("s-1");
    assert_eq!(a.tiered.send("s-1", ALWAYS).expect("removed"), 0);
    assert_eq!(a.names(), ["s-1.far", "s-2", "s-3"]);
    assert_eq!(shared.names(), ["a.s-1"]);
    assert_eq!(a.tiered.lend("s-1").as_deref(), Some("s-1.far"));
    let listed: Vec<String> = a.store.list("").unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(listed, ["s-1", "s-2", "s-3"], "pointers are no files of their own");
    a.tiered.fetch("s-1", ALWAYS).expect("back");
    assert_eq!(a.tiered.lend("s-1").as_deref(), Some("s-1.far"), "it has a far copy");
    assert_eq!(a.read("s-1"), content("s-1"));
    let damaged = a.near.clone();
    let store = FileStore::new(Arc::new(damaged.clone()), Syncing::Off);
    store.replace("s-1.far", b"vstream-far 1\na.s-2\n50000\nsole\n0000000000000000\n").unwrap();
    let files = FileStore::new(Arc::new(damaged), Syncing::Off);
    assert!(Tiered::has_pointers(&files).expect("a list"));
    let clock = shared.clock.clone();
    let opened = Tiered::with_pointers(&files, Arc::new(a.store), |_| true, clock, "x");
    assert_eq!(opened.map(|_| ()).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn the_next_directory_deletes_only_what_it_inherits() {
    let shared = Shared::default();
    let a = filled(&shared, "a");
    for name in ["s-1", "s-2", "s-3"] {
        a.tiered.send(name, ALWAYS).expect("sent");
    }
    let b = shared.after(&a, &["s-1", "s-2", "s-3"], "b");
    // The first one ends, and what it lets go of then is no reason to delete.
    a.tiered.end_deletes();
    a.store.delete("s-3").expect("removed");
    a.tiered.settle().expect("nothing");
    assert_eq!(b.read("s-3"), content("s-3"));
    b.store.delete("s-1").expect("removed");
    b.tiered.settle().expect("nothing");
    assert_eq!(shared.names(), ["a.s-1", "a.s-2", "a.s-3"], "the first may still be asked for");
    b.tiered.inherit();
    b.tiered.settle().expect("deleted");
    assert_eq!(shared.names(), ["a.s-2", "a.s-3"]);
    b.store.delete("s-2").expect("removed");
    b.tiered.settle().expect("deleted");
    assert_eq!(shared.names(), ["a.s-3"]);
    assert_eq!(b.read("s-3"), content("s-3"));
}

#[test]
fn what_two_take_none_deletes_and_a_copy_of_its_own_it_does() {
    let shared = Shared::default();
    let a = filled(&shared, "a");
    a.tiered.send("s-1", ALWAYS).expect("sent");
    let take = |prefix: &str, to: &str| {
        let taker = shared.open(Memory::default(), prefix);
        let source = shared.after(&a, &["s-1", "s-2"], "unused");
        let files = FileStore::new(Arc::new(source.near), Syncing::Off);
        let (_, reading) = taker.tiered.reading(&files).expect("it opens");
        assert!(taker.tiered.take(&reading, "s-1", to).expect("taken"));
        assert!(!taker.tiered.take(&reading, "s-2", "s-9").expect("it is not away"));
        assert_eq!(taker.tiered.take(&reading, "s-1", to).unwrap_err().kind(), ErrorKind::Exists);
        taker
    };
    let (b, c) = (take("b", "s-7"), take("c", "s-8"));
    let c = shared.after(&c, &["s-8"], "d");
    for directory in [&b, &c] {
        directory.tiered.inherit();
    }
    b.store.delete("s-7").expect("removed");
    b.tiered.settle().expect("nothing");
    let open = c.store.open("s-8", Access::Cached).expect("it is there");
    assert_eq!(whole(&*open), content("s-1"));
    assert_eq!(c.tiered.make_own("s-8").expect("copied"), 50_000);
    assert_eq!(c.tiered.make_own("s-8").expect("it is"), 0);
    assert_eq!(shared.names(), ["a.s-1", "d.s-8"]);
    Objects::delete(&shared.far, "a.s-1", Duration::from_secs(1)).expect("deleted");
    assert_eq!(whole(&*open), content("s-1"), "readers follow");
    drop(open);
    let e = shared.after(&c, &["s-8"], "e");
    assert_eq!(e.read("s-8"), content("s-1"));
    c.store.delete("s-8").expect("removed");
    c.tiered.settle().expect("deleted");
    assert!(shared.names().is_empty());
}
