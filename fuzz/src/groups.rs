//! Directories of group stores, with right checksums around wrong counts.

use std::sync::Arc;

use vstream_attribute::{Fields, Filter, Test};
use vstream_group::{Bound, GroupQuery, GroupSettings, GroupStore, RowRef, With};
use vstream_rank::{PlainTerms, TextQuery};
use vstream_store::blocks::{checksum, BlockAddress};
use vstream_store::{FileStore, Memory, Syncing};
use vstream_vector::{Element, Metric, SplitMix};

use crate::container::{content_of, directory, pack, unpack};
use crate::shop::{encoded, schema, value};

const NAMES: [&str; 3] = ["large", "small", "dropped"];
/// Lengths in runs and logs.
const SUM: usize = 8;
const HEAD: usize = 48 + SUM;
const FOOT: usize = 40 + SUM;
const LOG_HEAD: usize = 20 + SUM;
const FRAME_HEAD: usize = 16;
const ENTRY: usize = 61;

/// The stores of the corpus.
fn settings() -> [GroupSettings; 2] {
    let of = |metric, element, bound| GroupSettings {
        schema: schema(),
        bound,
        coded_rows: 12,
        clustered_rows: 24,
        seed: Some(5),
        ..GroupSettings::new(20, metric, element)
    };
    [
        of(Metric::Cosine, Element::F32, Bound::Proven),
        of(Metric::L2, Element::U8, Bound::Deviations(7.0)),
    ]
}

pub(crate) fn open(bytes: &[u8]) {
    let content = unpack(bytes);
    for settings in settings() {
        // Damage is an error: nobody vouches for the bytes.
        let Ok(mut store) = GroupStore::open(directory(&content), settings) else { continue };
        ask(&store);
        let _ = store.delete("large", 3, u64::MAX).and_then(|_| store.commit());
        let _ = store.compact_all();
        ask(&store);
    }
}

fn ask(store: &GroupStore) {
    let reader = store.reader();
    let vector = vec![1.0; store.settings().dimension];
    let filter = Filter::Attribute(2, Test::Exists);
    let text = TextQuery::parse(&store.settings().schema, "red ab*", PlainTerms::Any);
    let text = text.expect("a text query");
    for group in NAMES {
        for filter in [None, Some(&filter)] {
            let nearest = GroupQuery { filter, with: With::ALL, ..GroupQuery::nearest(&vector, 5) };
            let _ = reader.search(group, &nearest);
            let words = vstream_group::TextSearch::new(&text);
            let _ = reader.search(group, &GroupQuery { text: Some(words), ..nearest });
            let _ = reader.count(group, filter);
            let _ = reader.scroll(group, filter, None, 100, With::ALL);
        }
        let _ = reader.get(group, &[0, 3, 17, u64::MAX], With::ALL);
    }
    let _ = reader.groups(None, 10);
}

/// Stores with runs, tombstones, a dropped group, and a log with frames.
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let made = |settings: GroupSettings| {
        let files = FileStore::new(Arc::new(Memory::new()), Syncing::Off);
        let mut store = GroupStore::open(files.clone(), settings).expect("made");
        let (mut random, schema) = (SplitMix(3), schema());
        for version in 1..=70u64 {
            let (group, id) = (NAMES[(version % 9 / 7) as usize], version * 7 % 45);
            let vector: Vec<f32> = (0..20).map(|_| random.below(200) as f32 + 1.0).collect();
            let values: Vec<_> =
                schema.attributes.iter().map(|one| value(one.kind, &mut random)).collect();
            let bytes = encoded(&schema, &values);
            let attributes = vstream_attribute::Attributes::decode(&bytes).expect("a row");
            let payload = (version % 3 == 0).then_some(&b"a payload"[..]);
            let fields = Fields { attributes, payload, ..Fields::NONE };
            let row = RowRef { id, version, vector: &vector, fields };
            store.upsert(group, &row).expect("accepted");
            match version {
                20 | 60 => store.flush().expect("a run"),
                25 => {
                    store.upsert("dropped", &row).expect("accepted");
                    store.delete("large", 2, version).expect("accepted");
                }
                40 => {
                    store.drop_group("dropped").expect("dropped");
                    store.compact_all().expect("merged");
                }
                65 => store.commit().expect("committed"),
                _ => {}
            }
        }
        store.commit().expect("committed");
        pack(&content_of(&files))
    };
    settings().map(made).into()
}

/// Computes the checksums of every file anew, as far as its own counts lead.
pub(crate) fn reseal(bytes: &mut Vec<u8>) {
    let mut content = unpack(bytes);
    for (name, file) in &mut content {
        if name.starts_with("run-") {
            let _ = reseal_run(file);
        } else if name.starts_with("log-") {
            let _ = reseal_log(file);
        } else if name == "GROUPS" {
            let end = file.len();
            let _ = seal(file, 0, 0, end, 0);
        }
    }
    *bytes = pack(&content);
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize)
}

/// Seals the block from `from` to `end`, which has the checksum at its end.
fn seal(bytes: &mut [u8], identity: u64, from: usize, end: usize, number: u64) -> Option<()> {
    let body = end.checked_sub(SUM).filter(|&body| body >= from && end <= bytes.len())?;
    // Every file begins with eight bytes that name its kind, and its version.
    let version = half(bytes, 8)? as u32;
    let address = BlockAddress { file: identity, number, version };
    let sum = checksum(address, &bytes[from..body]);
    bytes[body..end].copy_from_slice(&sum.to_le_bytes());
    Some(())
}

fn reseal_log(bytes: &mut [u8]) -> Option<()> {
    let identity = word(bytes, 12)?;
    seal(bytes, identity, 0, LOG_HEAD, 0)?;
    let mut at = LOG_HEAD;
    while at < bytes.len() {
        let end = at.checked_add(FRAME_HEAD + SUM)?.checked_add(half(bytes, at + 4)?)?;
        seal(bytes, identity, at, end, at as u64)?;
        at = end;
    }
    Some(())
}

fn reseal_run(bytes: &mut [u8]) -> Option<()> {
    let foot = bytes.len().checked_sub(FOOT).filter(|&foot| foot >= HEAD)?;
    let identity = word(bytes, 28)?;
    // The footer is the same file's as the header.
    bytes.copy_within(28..36, foot + 8);
    let whole = (bytes.len() as u64).to_le_bytes();
    bytes[foot + 32..foot + 40].copy_from_slice(&whole);
    seal(bytes, identity, 0, HEAD, 0)?;
    let meta = usize::try_from(word(bytes, foot + 16)?).ok()?;
    let length = foot.checked_sub(meta)? as u64;
    bytes[foot + 24..foot + 32].copy_from_slice(&length.to_le_bytes());
    seal(bytes, identity, foot, foot + FOOT, u64::MAX)?;
    seal(bytes, identity, meta, foot, meta as u64)?;
    for block in 0..usize::try_from(word(bytes, meta + 24)?).ok()?.min(bytes.len()) {
        let at = meta + 40 + 28 * block;
        let (offset, length) = (word(bytes, at + 16)? as usize, half(bytes, at + 24)?);
        let end = offset.checked_add(length)?;
        seal(bytes, identity, offset, end, offset as u64)?;
        for part in 0..length.saturating_sub(SUM) / ENTRY {
            let _ = reseal_part(bytes, identity, offset + part * ENTRY);
        }
    }
    Some(())
}

/// Seals the head of the part of a directory entry, and the blocks of ids and leaves.
fn reseal_part(bytes: &mut [u8], identity: u64, entry: usize) -> Option<()> {
    let (from, head) = (word(bytes, entry + 32)? as usize, half(bytes, entry + 48)?);
    let mut at = from.checked_add(head)?;
    seal(bytes, identity, from, at, from as u64)?;
    let name = usize::from(*bytes.get(from)?) | usize::from(*bytes.get(from + 1)?) << 8;
    let (coded, counts) = (bytes.get(from + 2 + name)? == &1, from + 3 + name);
    let [ids, leaves] = [half(bytes, counts + 8)?, half(bytes, counts + 12)?];
    let steps = if coded { 20 + half(bytes, 12)?.next_multiple_of(64) } else { 0 };
    let first_leaf = (counts + 20).checked_add(ids.checked_mul(12)?)?;
    let mut block = |bytes: &mut [u8], length: usize| {
        let end = at.checked_add(length)?;
        if length > 0 {
            seal(bytes, identity, at, end, at as u64)?;
        }
        at = end;
        Some(())
    };
    for id in 0..ids {
        let length = half(bytes, counts + 20 + 12 * id + 8)?;
        block(bytes, length)?;
    }
    for kind in 1..4 {
        for leaf in 0..leaves {
            let length = half(bytes, first_leaf + leaf * (16 + steps) + 4 * kind)?;
            block(bytes, length)?;
        }
    }
    Some(())
}
