//! A sealed segment answers as an index does: the contract suite. New rows wait in a head that is
//! scanned; a few hundred of them are sealed with all others into a new segment. Rows of a segment
//! that are deleted or replaced are marks over it.

use std::sync::{Arc, Mutex, MutexGuard};

use vstream_attribute::{Fields, FieldsBuffer, Filter};
use vstream_index::contract::{check, Contract};
use vstream_index::stages::ExactSearch;
use vstream_index::{
    Applied, Cluster, ClusterSettings, Effort, Flat, IndexRow, IndexSettings, IndexSnapshot,
    IndexStats, Insert, PinnedRows, Probe, Reach, Scratch, Search, SearchStats,
};
use vstream_segment::{
    write_pinned, Codes, OpenOptions, Segment, SegmentKind, SegmentScratch, SegmentSettings,
    Tombstones,
};
use vstream_store::codec::{Policy, Tier};
use vstream_store::{Cache, FileStore, Store};
use vstream_vector::{Neighbor, TopK};

use super::{memory, on_demand, open, resident};

/// Rows of the head before all are sealed anew.
const HEAD_ROWS: u64 = 300;

struct Sealed {
    /// Every row: where segments are made from.
    index: Cluster,
    /// Rows that came after the segment.
    head: Flat,
    head_settings: IndexSettings,
    settings: SegmentSettings,
    options: fn() -> OpenOptions,
    store: FileStore,
    segment: Option<Arc<Segment>>,
    deletes: Arc<Tombstones>,
    sequence: u64,
    scratch: SegmentScratch,
}

struct Shared(Arc<Mutex<Sealed>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Sealed> {
        self.0.lock().expect("no test panicked before")
    }

    fn make(
        index: IndexSettings,
        kind: SegmentKind,
        policy: Policy,
        options: fn() -> OpenOptions,
    ) -> Box<dyn Insert> {
        let settings = SegmentSettings {
            dimension: index.dimension,
            metric: index.metric,
            element: index.element,
            kind,
            seed: index.seed,
            identity: 0,
            first_leaf: 0,
            policy,
        };
        Box::new(Shared(Arc::new(Mutex::new(Sealed {
            index: Cluster::new(index, ClusterSettings::default()),
            head: Flat::new(index),
            head_settings: index,
            settings,
            options,
            store: memory(),
            segment: None,
            deletes: Arc::new(Tombstones::none(0)),
            sequence: 0,
            scratch: SegmentScratch::new(),
        }))))
    }
}

impl Sealed {
    /// The segment of the rows as they are now.
    fn segment(&mut self) -> Arc<Segment> {
        if let Some(segment) = &self.segment {
            return segment.clone();
        }
        self.settings.identity += 1;
        let name = format!("{}.seg", self.settings.identity);
        let rows = self.index.reader().pin();
        write_pinned(&self.store, &name, self.settings, &*rows).unwrap();
        let segment = Arc::new(open(&self.store, &name, (self.options)()));
        assert_eq!(segment.rows(), self.index.stats().live);
        self.store.delete(&name).unwrap();
        self.deletes = Arc::new(Tombstones::none(segment.rows() as u32));
        self.head = Flat::new(self.head_settings);
        self.segment = Some(segment.clone());
        segment
    }
}

impl Sealed {
    /// Marks the row of an id in the segment; false if it has none that lives.
    fn kill(&mut self, id: u64, version: u64) -> bool {
        let segment = self.segment();
        let Some((row, held)) = segment.find(id).unwrap() else { return false };
        if !self.deletes.is_visible(row, self.sequence) {
            return false;
        }
        assert!(held <= version);
        self.sequence += 1;
        self.deletes.add(row, self.sequence)
    }
}

impl Insert for Shared {
    fn upsert_over(&mut self, row: IndexRow<'_>, on_superseded: &mut dyn FnMut(u64)) -> Applied {
        let mut sealed = self.lock();
        let applied = sealed.index.upsert_over(row, on_superseded);
        if applied != Applied::Stale && sealed.segment.is_some() {
            sealed.kill(row.key.id, row.key.version);
            sealed.head.upsert_over(row, &mut |_| {});
            if sealed.head.stats().live >= HEAD_ROWS {
                sealed.segment = None;
            }
        }
        applied
    }

    fn delete(&mut self, id: u64, version: u64) -> bool {
        let mut sealed = self.lock();
        let died = sealed.index.delete(id, version);
        if died && sealed.segment.is_some() {
            let killed = sealed.kill(id, version);
            let deleted = sealed.head.delete(id, version);
            assert!(killed != deleted, "a row is in the segment or in the head");
        }
        died
    }

    fn sequence_foreign_delete(&mut self, on_superseded: &mut dyn FnMut(u64)) {
        self.lock().index.sequence_foreign_delete(on_superseded);
    }

    fn tombstone_at(&mut self, id: u64, sequence: u64) {
        self.lock().index.tombstone_at(id, sequence);
    }

    fn version_of(&self, id: u64) -> Option<u64> {
        self.lock().index.version_of(id)
    }

    fn fields_of(&self, id: u64, out: &mut FieldsBuffer) -> bool {
        self.lock().index.fields_of(id, out)
    }

    fn replace_fields(&mut self, id: u64, version: u64, fields: Fields<'_>) -> bool {
        let mut sealed = self.lock();
        let replaced = sealed.index.replace_fields(id, version, fields);
        if replaced {
            sealed.segment = None;
        }
        replaced
    }

    fn reader(&self) -> Arc<dyn Search> {
        Arc::new(Shared(self.0.clone()))
    }

    fn stats(&self) -> IndexStats {
        self.lock().index.stats()
    }
}

impl Search for Shared {
    fn search(&self, probe: &Probe<'_>, head: &mut Scratch, out: &mut TopK) -> SearchStats {
        let mut sealed = self.lock();
        let segment = sealed.segment();
        sealed.head.reader().search(probe, head, out);
        let Sealed { deletes, sequence, scratch, .. } = &mut *sealed;
        segment.at(deletes, *sequence).search(probe, scratch, out).unwrap()
    }

    fn search_radius(
        &self,
        vector: &[f32],
        radius: f32,
        filter: Option<&Filter>,
        out: &mut Vec<Neighbor>,
    ) -> SearchStats {
        let mut sealed = self.lock();
        let segment = sealed.segment();
        sealed.head.reader().search_radius(vector, radius, filter, out);
        segment
            .at(&sealed.deletes, sealed.sequence)
            .search_radius(vector, radius, filter, out)
            .unwrap()
    }

    /// A segment alone has no audits: those of an engine go over all its places.
    fn audit(
        &self,
        probe: &Probe<'_>,
        scratch: &mut Scratch,
        out: &mut TopK,
        reach: &mut Vec<Reach>,
    ) -> usize {
        self.lock().index.reader().audit(probe, scratch, out, reach)
    }

    fn sample(&self, pick: u64, out: &mut Vec<f32>) -> Option<u64> {
        self.lock().index.reader().sample(pick, out)
    }

    fn pin(&self) -> Box<dyn PinnedRows> {
        let mut sealed = self.lock();
        let segment = sealed.segment();
        let head = sealed.head.reader().pin();
        Box::new(Pinned { segment, deletes: sealed.deletes.clone(), pin: sealed.sequence, head })
    }

    /// The suite searches no snapshot: this one is of the index that knows all rows.
    fn snapshot(&self, as_of: Option<u64>) -> Box<dyn IndexSnapshot> {
        self.lock().index.reader().snapshot(as_of)
    }

    fn leaves(&self) -> usize {
        self.lock().segment().leaves()
    }

    fn writes(&self) -> u64 {
        self.lock().index.reader().writes()
    }
}

struct Pinned {
    segment: Arc<Segment>,
    deletes: Arc<Tombstones>,
    pin: u64,
    head: Box<dyn PinnedRows>,
}

impl PinnedRows for Pinned {
    fn for_each_row(&self, visit: &mut dyn FnMut(IndexRow<'_>)) {
        self.head.for_each_row(visit);
        self.segment.at(&self.deletes, self.pin).for_each_row(visit).unwrap();
    }
}

#[test]
fn a_hot_cluster_segment_keeps_the_contract() {
    check(&Contract {
        name: "cluster segment, hot, codes resident",
        make: |index| Shared::make(index, SegmentKind::Cluster, Policy::Best(Tier::Hot), resident),
        effort: Effort::Approximate { probes: 16, refine: 160 },
        recall_floor: 0.95,
        is_audited: false,
    });
}

#[test]
fn a_cold_cluster_segment_keeps_the_contract() {
    check(&Contract {
        name: "cluster segment, cold, codes on demand",
        make: |index| {
            Shared::make(index, SegmentKind::Cluster, Policy::Best(Tier::Cold), on_demand)
        },
        effort: Effort::Approximate { probes: 16, refine: 160 },
        recall_floor: 0.95,
        is_audited: false,
    });
}

#[test]
fn a_raw_flat_segment_keeps_the_contract() {
    check(&Contract {
        name: "flat segment, raw",
        make: |index| {
            let options = || OpenOptions {
                cache: Some(Arc::new(Cache::new(1 << 16))),
                codes: Codes::Resident,
            };
            Shared::make(index, SegmentKind::Flat, Policy::Raw, options)
        },
        effort: Effort::Approximate { probes: 1, refine: 10 },
        recall_floor: 1.0,
        is_audited: false,
    });
}
