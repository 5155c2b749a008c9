//! The contract of every store. Each test gets an empty store.

use vstream_store::{Access, ErrorKind, Range, ReadAt, Store};

/// A rule of the contract and its test.
pub type Rule = (&'static str, fn(&dyn Store));

/// The rules that every store keeps.
pub const CONTRACT: &[Rule] = &[
    ("a file is seen when it is finished and never changes", finished_and_never_changed),
    ("what lies beyond the end is an error that says where", beyond_the_end),
    ("a replaced file keeps its readers", replaced),
    ("names that lead elsewhere are refused", names),
    ("a file that was not finished never was", unfinished),
    ("an empty file is a file", empty),
    ("of writers of one name the first one wins", first_wins),
];

fn whole(file: &dyn ReadAt) -> Vec<u8> {
    file.read(Range { offset: 0, bytes: file.bytes() as usize }).expect("bytes").to_vec()
}

fn finished_and_never_changed(store: &dyn Store) {
    let content: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
    let mut file = store.create("data-1").expect("a file");
    content.chunks(1000).for_each(|part| file.append(part).expect("room"));
    assert!(store.list("").expect("a list").is_empty(), "not seen before it is whole");
    assert_eq!(file.finish().expect("a whole file"), 300_000);
    let listed = store.list("data").expect("a list");
    assert_eq!((listed.len(), listed[0].bytes), (1, 300_000));
    assert!(store.list("date").expect("a list").is_empty());
    let again = store.put("data-1", b"other").expect_err("written once");
    assert_eq!(again.kind(), ErrorKind::Exists, "{again}");
    for access in [Access::Cached, Access::Direct] {
        let file = store.open("data-1", access).expect("a file");
        let ranges: Vec<Range> =
            [(299_999, 1), (0, 1), (4095, 2), (4090, 10), (12_345, 70_000), (5, 0), (90_000, 9)]
                .map(|(offset, bytes)| Range { offset, bytes })
                .into();
        let read = file.read_many(&ranges).expect("whole ranges");
        for (range, read) in ranges.iter().zip(&read) {
            let at = range.offset as usize;
            assert_eq!(**read, content[at..at + range.bytes], "{range:?} {access:?}");
            assert_eq!(**read, *file.read(*range).expect("a range"));
        }
    }
}

fn beyond_the_end(store: &dyn Store) {
    for bytes in [100u64, 100_000] {
        let name = format!("short-{bytes}");
        store.put(&name, &vec![7; bytes as usize]).expect("a file");
        let file = store.open(&name, Access::Direct).expect("a file");
        for range in [(bytes - 1, 2), (bytes + 1, 0), (u64::MAX, 1), (0, usize::MAX)] {
            let range = Range { offset: range.0, bytes: range.1 };
            let error = file.read(range).expect_err("beyond the end");
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert_eq!(error.offset(), Some(range.offset));
            assert!(error.to_string().contains("short"), "{error}");
        }
        let beyond = Range { offset: 0, bytes: bytes as usize + 1 };
        assert!(file.read_many(&[beyond; 3]).is_err());
    }
}

fn replaced(store: &dyn Store) {
    store.replace("NAME", b"old").expect("room");
    let before = store.open("NAME", Access::Cached).expect("a file");
    store.replace("NAME", b"newer").expect("room");
    assert_eq!(whole(&*before), b"old");
    assert_eq!(whole(&*store.open("NAME", Access::Cached).expect("a file")), b"newer");
    store.delete("NAME").expect("gone");
    store.delete("NAME").expect("gone already");
    let gone = store.open("NAME", Access::Cached).map(|_| ()).expect_err("gone");
    assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone}");
    assert!(gone.to_string().contains("NAME"), "{gone}");
}

fn names(store: &dyn Store) {
    let long = "x".repeat(129);
    for name in ["", "..", ".hidden", "a/b", "../up", "a\0b", "a b", "x.partial", &long] {
        let error = store.put(name, b"x").expect_err("a bad name");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name:?}: {error}");
        assert!(store.replace(name, b"x").is_err(), "{name:?}");
    }
    assert!(store.list("").expect("a list").is_empty());
}

fn unfinished(store: &dyn Store) {
    let mut file = store.create("big").expect("a file");
    file.append(&[1; 200_000]).expect("room");
    drop(file);
    assert!(store.list("").expect("a list").is_empty());
    store.put("big", b"small").expect("nothing is in its way");
}

fn empty(store: &dyn Store) {
    store.put("empty", b"").expect("a file");
    let file = store.open("empty", Access::Cached).expect("a file");
    assert_eq!((file.bytes(), whole(&*file).len()), (0, 0));
    assert_eq!(store.list("").expect("a list")[0].bytes, 0);
}

fn first_wins(store: &dyn Store) {
    // The second writer may be refused when it begins or when it finishes.
    let mut files: Vec<_> = (0..3).filter_map(|_| store.create("same").ok()).collect();
    for (file, content) in files.iter_mut().zip(0u8..) {
        file.append(&[content; 10]).expect("room");
    }
    let last = files.len() as u8 - 1;
    let done: Vec<_> = files.into_iter().rev().map(|file| file.finish()).collect();
    assert_eq!(done[0].as_ref().expect("the first"), &10);
    for late in &done[1..] {
        assert_eq!(late.as_ref().expect_err("too late").kind(), ErrorKind::Exists);
    }
    assert_eq!(store.put("same", b"other").expect_err("too late").kind(), ErrorKind::Exists);
    assert_eq!(whole(&*store.open("same", Access::Cached).expect("a file")), [last; 10]);
}
