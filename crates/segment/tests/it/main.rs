//! Sealed segments: the contract of an index, damage, golden files, moments, runs of shared leaves.

mod contract;
mod damage;
mod exact;
mod fields;
mod golden;
mod moments;
mod targets;

use std::sync::Arc;

use vstream_index::{IndexRow, RowKey, VectorBuffer};
use vstream_segment::{
    Codes, LeafRows, OpenOptions, Segment, SegmentKind, SegmentSettings, SegmentSummary,
    SegmentWriter,
};
use vstream_store::codec::{Policy, Tier};
use vstream_store::{Access, Cache, FileStore, Memory, Store, Syncing};
use vstream_vector::{Element, Metric};

/// A store in memory.
fn memory() -> FileStore {
    FileStore::new(Arc::new(Memory::new()), Syncing::Off)
}

fn settings(dimension: usize, kind: SegmentKind, tier: Tier) -> SegmentSettings {
    SegmentSettings {
        dimension,
        metric: Metric::L2,
        element: Element::F32,
        kind,
        seed: 5,
        identity: 0x0123_4567_89ab_cdef,
        first_leaf: 1 << 33,
        policy: Policy::Best(tier),
    }
}

/// Codes on demand through a small cache.
fn on_demand() -> OpenOptions {
    OpenOptions { cache: Some(Arc::new(Cache::new(1 << 18))), codes: Codes::OnDemand }
}

/// Codes in memory, no cache.
fn resident() -> OpenOptions {
    OpenOptions { cache: None, codes: Codes::Resident }
}

fn open(store: &dyn Store, name: &str, options: OpenOptions) -> Segment {
    let file = store.open(name, Access::Cached).expect("a file that was written");
    Segment::open(file, options).expect("a whole segment")
}

fn key(id: u64) -> RowKey {
    RowKey { id, version: id + 7, code: id << 20, shard: (id % 128) as u16 }
}

/// Writes leaves of rows, `ids` per leaf, each row a function of its id.
fn write(
    store: &dyn Store,
    name: &str,
    settings: SegmentSettings,
    leaves: &[std::ops::Range<u64>],
    row: &dyn Fn(u64) -> Vec<f32>,
) -> SegmentSummary {
    let mut writer = SegmentWriter::create(store, name, settings).unwrap();
    let mut leaf = LeafRows::new(settings.element, settings.dimension);
    for ids in leaves {
        leaf.clear();
        for id in ids.clone() {
            let mut vector = VectorBuffer::new(settings.element);
            leaf.push(IndexRow::plain(key(id), vector.narrow(&row(id))));
        }
        writer.leaf(&leaf).unwrap();
    }
    writer.finish().unwrap()
}
