//! Several files in one input, and lists of pushed snapshots.
//!
//! ```text
//! files: u8 length of the name | name | u32 length | bytes, one after the other
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use vstream_store::remote::{push, Contents, MemoryObjects, RemoteStore, RetryPolicy};
use vstream_store::{FileStore, Store, Syncing};
use vstream_store::{Files, Memory, SystemClock};
use xxhash_rust::xxh3::xxh3_64;

/// Names and contents.
pub(crate) type Content = BTreeMap<String, Vec<u8>>;

pub(crate) fn pack(content: &Content) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, bytes) in content {
        out.push(name.len() as u8);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(bytes);
    }
    out
}

/// The files in any bytes: a length that is too long means the rest.
pub(crate) fn unpack(mut bytes: &[u8]) -> Content {
    let mut content = Content::new();
    while let Some((&length, rest)) = bytes.split_first() {
        let (name, rest) = rest.split_at(rest.len().min(usize::from(length)));
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { break };
        let length = u32::from_le_bytes(*length) as usize;
        let (file, rest) = rest.split_at(rest.len().min(length));
        content.insert(String::from_utf8_lossy(name).into_owned(), file.to_vec());
        bytes = rest;
    }
    content
}

/// A directory in memory with these files.
pub(crate) fn directory(content: &Content) -> FileStore {
    let memory = Memory::new();
    for (name, bytes) in content {
        let written = memory.create(name).and_then(|mut file| file.append(bytes));
        written.expect("memory takes any name");
    }
    FileStore::new(Arc::new(memory), Syncing::Off)
}

/// The files of a directory in memory.
pub(crate) fn content_of(store: &dyn Store) -> Content {
    let read = |name: &str| -> Vec<u8> {
        let file = store.open(name, vstream_store::Access::Cached).expect("a file");
        let range = vstream_store::Range { offset: 0, bytes: file.bytes() as usize };
        file.read(range).expect("bytes").to_vec()
    };
    let listed = store.list("").expect("a list");
    listed.into_iter().map(|entry| (entry.name.clone(), read(&entry.name))).collect()
}

pub(crate) fn contents(bytes: &[u8]) {
    if let Ok(contents) = Contents::decode(bytes, "list") {
        assert!(contents.files.iter().all(|file| !file.name.contains('/')));
        let names: usize = contents.files.iter().map(|file| file.object().len()).sum();
        let _ = (contents.bytes(), names);
    }
}

/// The last eight bytes are a checksum of the others.
pub(crate) fn reseal_contents(bytes: &mut [u8]) {
    if let Some(body) = bytes.len().checked_sub(8) {
        let checksum = xxh3_64(&bytes[..body]).to_le_bytes();
        bytes[body..].copy_from_slice(&checksum);
    }
}

pub(crate) fn contents_corpus() -> Vec<Vec<u8>> {
    let objects = MemoryObjects::new();
    let (policy, clock) = (RetryPolicy::default(), Arc::new(SystemClock::new()));
    let far = RemoteStore::new(Arc::new(objects.clone()), policy, clock, 1);
    let near = directory(&Content::new());
    for count in [0, 1, 5] {
        let names: Vec<String> = (0..count).map(|at| format!("file-{at}")).collect();
        names.iter().for_each(|name| near.replace(name, name.as_bytes()).expect("room"));
        push(&near, &names, &far).expect("pushed");
    }
    let lists = objects.content();
    let lists = lists.iter().filter(|(name, _)| name.starts_with("SNAPSHOT-"));
    lists.map(|(_, bytes)| bytes.to_vec()).collect()
}
