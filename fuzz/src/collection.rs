//! Directories of durable engines and of snapshots, with right checksums around wrong counts.

use std::sync::Arc;
use std::time::Duration;

use vstream_engine::{
    verify_store, AttributeKind, AttributesBuilder, DeleteOrder, Durability, Element, Engine,
    Fields, Filter, IdKind, IndexKind, Journaling, Metric, PayloadChange, Row, Schema, Settings,
    Test, Update, ValueRef, With,
};
use vstream_store::blocks::{checksum, BlockAddress};
use vstream_store::{FileStore, Memory, Syncing};
use xxhash_rust::xxh3::xxh3_64;

use crate::container::{content_of, directory, pack, unpack, Content};
use crate::segment;

pub(crate) fn open(bytes: &[u8]) {
    let content = unpack(bytes);
    // Damage is a finding or an error: nobody vouches for the bytes.
    let _ = verify_store(&directory(&content));
    let opened = Engine::builder()
        .store(directory(&content))
        .adjust(&mut |settings, journaling| {
            settings.recall_guard = false;
            journaling.background = false;
        })
        .open();
    if let Ok(mut engine) = opened {
        let _ = engine.delete(1, u64::MAX).and_then(|_| engine.commit());
        let removed = Update { payload: PayloadChange::Remove, ..Update::default() };
        let _ = engine.update(2, u64::MAX, &removed);
        // Fields are read again, as queries and reads read them.
        let filter = Filter::Attribute(0, Test::Exists);
        let _ = engine.reader().scroll(Some(&filter), None, 100, &With::everything());
        let _ = engine.reader().scroll(None, None, 100, &With::everything());
        // Segments are read again, as a merge reads them.
        let _ = engine.checkpoint().and_then(|()| engine.compact());
    }
}

fn settings(element: Element, index: IndexKind) -> Settings {
    let settings = Settings::new(3, Metric::L2, element);
    Settings { index, recall_guard: false, ..settings }
}

fn write(engine: &mut Engine, ids: std::ops::Range<u64>) {
    for id in ids {
        let vector = [id as f32, 1.0, 2.0];
        let row = Row {
            id,
            version: id + 1,
            code: id << 3,
            shard: (id % 3) as u16,
            vector: &vector,
            fields: Default::default(),
        };
        engine.upsert(&row).expect("accepted");
    }
}

/// Collections with a base image and logs, closed and not, and one with segments.
pub(crate) fn collections() -> Vec<Vec<u8>> {
    let mut corpus = Vec::new();
    let kinds = [(Element::F32, IndexKind::Flat), (Element::U8, IndexKind::Cluster)];
    for (element, index) in kinds {
        let store = FileStore::new(Arc::new(Memory::new()), Syncing::Off);
        let journaling =
            Journaling { durability: Durability::Sync, background: false, ..Journaling::default() };
        let mut engine = Engine::builder()
            .store(store.clone())
            .collection(7)
            .journaling(journaling)
            .create(settings(element, index))
            .expect("made");
        write(&mut engine, 0..10);
        engine.commit().expect("committed");
        corpus.push(pack(&content_of(&store)));
        engine.checkpoint().expect("a base image");
        write(&mut engine, 10..15);
        engine.delete(3, u64::MAX).expect("accepted");
        engine.commit().expect("committed");
        write(&mut engine, 15..18);
        engine.commit().expect("committed");
        corpus.push(pack(&content_of(&store)));
        engine.close().expect("closed");
        corpus.push(pack(&content_of(&store)));
    }
    corpus.push(pack(&in_segments()));
    corpus.extend([None, Some(64 << 10)].map(|memory| pack(&with_fields(memory))));
    corpus
}

/// A collection whose rows have fields, with updates and remembered deletes: an image or segments,
/// and a log.
fn with_fields(memory: Option<u64>) -> Content {
    let store = FileStore::new(Arc::new(Memory::new()), Syncing::Off);
    let journaling =
        Journaling { durability: Durability::Sync, background: false, ..Journaling::default() };
    let attributes = [("number", AttributeKind::I64), ("tags", AttributeKind::Keywords)];
    let schema = Schema::new(attributes).expect("a schema");
    let schema = Arc::new(Schema { id: IdKind::String, ..schema });
    let settings = Settings {
        memory,
        schema: schema.clone(),
        deletes_remembered: Some(Duration::from_secs(60)),
        ..settings(Element::F32, IndexKind::Cluster)
    };
    let mut engine = Engine::builder()
        .store(store.clone())
        .collection(7)
        .journaling(journaling)
        .create(settings)
        .expect("made");
    let (mut builder, vector) = (AttributesBuilder::default(), [1.0, 2.0, 3.0]);
    for id in 0..30 {
        builder.clear();
        builder.set(&schema, 0, &ValueRef::I64(id as i64)).expect("a value");
        let tags = ["a", "b", "c"][..id as usize % 4].to_vec();
        builder.set(&schema, 1, &ValueRef::Keywords(tags)).expect("a value");
        let (name, payload) = (format!("row {id}"), vec![id as u8; 40]);
        let payload = (id % 3 > 0).then_some(&payload[..]);
        let fields = Fields { name: &name, check: id + 1, attributes: builder.build(), payload };
        let row = Row { id, version: 1, code: id, shard: 0, vector: &vector, fields };
        engine.upsert(&row).expect("accepted");
        if id == 20 {
            engine.delete(3, 9).expect("accepted");
            engine.delete(100, 9).expect("accepted");
            engine.checkpoint().expect("a base");
        }
    }
    builder.clear();
    builder.set(&schema, 0, &ValueRef::I64(-1)).expect("a value");
    let set = builder.build();
    let update = Update { set, unset: &[1], payload: PayloadChange::Set(b"payload") };
    engine.update(7, 2, &update).expect("accepted");
    engine.delete(101, 9).expect("accepted");
    engine.add_attribute("price", AttributeKind::F64).expect("added");
    engine.commit().expect("committed");
    let content = content_of(&store);
    assert!(content.keys().any(|name| name.starts_with("deletes-")));
    content
}

/// A collection with a limit to memory: rows in two segments, of which some are gone, and in a log.
fn in_segments() -> Content {
    let store = FileStore::new(Arc::new(Memory::new()), Syncing::Off);
    let journaling =
        Journaling { durability: Durability::Sync, background: false, ..Journaling::default() };
    let memory = Some(64 << 10);
    // Under this order two segments are too few for a merge.
    let deletes = DeleteOrder::OldestFirst;
    let settings = Settings { memory, deletes, ..settings(Element::F32, IndexKind::Cluster) };
    let mut engine = Engine::builder()
        .store(store.clone())
        .collection(7)
        .journaling(journaling)
        .create(settings)
        .expect("made");
    write(&mut engine, 0..20);
    engine.checkpoint().expect("a segment");
    engine.delete(3, u64::MAX).expect("accepted");
    write(&mut engine, 15..30);
    engine.checkpoint().expect("another, and the marks of the first");
    write(&mut engine, 30..33);
    engine.commit().expect("committed");
    let content = content_of(&store);
    let count = |prefix| content.keys().filter(|name| name.starts_with(prefix)).count();
    assert_eq!((count("segment-"), count("marks-")), (2, 1));
    content
}

/// Snapshots of several shards.
pub(crate) fn snapshots() -> Vec<Vec<u8>> {
    let mut corpus = Vec::new();
    for element in [Element::F32, Element::Bf16, Element::I8] {
        let mut engine = Engine::create(settings(element, IndexKind::Flat)).expect("made");
        write(&mut engine, 0..12);
        let folder = tempfile::tempdir().expect("a folder");
        engine.snapshot(folder.path()).expect("written");
        let store = FileStore::open_dir(folder.path(), Syncing::Off).expect("a folder");
        corpus.push(pack(&content_of(&store)));
    }
    corpus
}

/// Computes the checksums of every file anew, and those that name other files.
pub(crate) fn reseal(bytes: &mut Vec<u8>) {
    let mut content = unpack(bytes);
    for (name, file) in &mut content {
        if name.starts_with("log-") {
            let _ = reseal_log(file);
        } else if name.ends_with(".rows")
            || name.starts_with("marks-")
            || name.starts_with("deletes-")
        {
            reseal_tail(file);
        } else if name.starts_with("segment-") {
            segment::reseal(file);
        }
    }
    let names: Vec<String> =
        content.keys().filter(|name| name.ends_with("MANIFEST")).cloned().collect();
    for name in names {
        let prefix = name.trim_end_matches("MANIFEST").to_owned();
        let _ = reseal_manifest(&mut content, &name, &prefix);
        let sum = content.get(&name).map(|file| xxh3_64(file));
        if let (Some(sum), Some(collection)) = (sum, content.get_mut("COLLECTION")) {
            if collection.len() >= 112 {
                collection[104..112].copy_from_slice(&sum.to_le_bytes());
            }
        }
    }
    if let Some(collection) = content.get_mut("COLLECTION") {
        reseal_tail(collection);
    }
    *bytes = pack(&content);
}

fn reseal_tail(file: &mut [u8]) {
    if let Some(body) = file.len().checked_sub(8) {
        let sum = xxh3_64(&file[..body]).to_le_bytes();
        file[body..].copy_from_slice(&sum);
    }
}

/// Entries of a snapshot's manifest: lengths and checksums of the files as they are.
fn reseal_manifest(content: &mut Content, name: &str, prefix: &str) -> Option<()> {
    let mut manifest = content.get(name)?.clone();
    let files = u32::from_le_bytes(*manifest.get(20..24)?.first_chunk()?) as usize;
    let end = manifest.len().checked_sub(8)?.min(files.saturating_mul(32).saturating_add(48));
    for at in (48..end).step_by(32).take_while(|at| at + 32 <= end) {
        let shard = u16::from_le_bytes([manifest[at], manifest[at + 1]]);
        let Some(file) = content.get(&format!("{prefix}shard-{shard:03}.rows")) else { continue };
        let Some(sum) = file.last_chunk::<8>() else { continue };
        manifest[at + 16..at + 24].copy_from_slice(&(file.len() as u64).to_le_bytes());
        manifest[at + 24..at + 32].copy_from_slice(sum);
    }
    reseal_tail(&mut manifest);
    content.insert(name.to_owned(), manifest);
    Some(())
}

/// The header of a log, then the chain of its groups as far as it goes.
fn reseal_log(log: &mut [u8]) -> Option<()> {
    let header = log.get(..56)?;
    let mut chain = xxh3_64(header);
    let file = xxh3_64(&log[16..32]);
    log.get_mut(56..64)?.copy_from_slice(&chain.to_le_bytes());
    let mut at = 64;
    loop {
        let length = u32::from_le_bytes(*log.get(at + 4..)?.first_chunk()?) as usize;
        let body = at.checked_add(64)?.checked_add(length)?;
        log.get(body..body.checked_add(8)?)?;
        log[at + 56..at + 64].copy_from_slice(&chain.to_le_bytes());
        let place = BlockAddress { file, number: at as u64, version: 1 };
        chain = checksum(place, &log[at..body]);
        log[body..body + 8].copy_from_slice(&chain.to_le_bytes());
        at = body + 8;
    }
}

/// Collections, one of them with segments, whose manifest holds `number` at `offset`, under a right
/// checksum.
pub fn with_number(offset: usize, number: u64) -> Vec<Vec<u8>> {
    let mut all = [unpack(&collections()[1]), in_segments()];
    let changed = all.iter_mut().map(|content| {
        let manifest = content.get_mut("COLLECTION").expect("a manifest");
        if let Some(word) = manifest.get_mut(offset..offset + 8) {
            word.copy_from_slice(&number.to_le_bytes());
        }
        let mut bytes = pack(content);
        reseal(&mut bytes);
        bytes
    });
    changed.collect()
}
