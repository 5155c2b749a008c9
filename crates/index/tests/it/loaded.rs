//! An index that is loaded leaf by leaf, again and again while rows come and go, is like any other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use vstream_attribute::{Fields, FieldsBuffer, Filter};
use vstream_index::contract::{ask, check, check_filters, clustered, Contract};
use vstream_index::{
    Applied, Cluster, ClusterLoad, ClusterSettings, Effort, IndexRow, IndexSettings, IndexSnapshot,
    IndexStats, Insert, PinnedRows, Probe, Reach, RowKey, Scratch, Search, SearchStats, VectorRef,
};
use vstream_vector::{Element, Metric, Neighbor, SplitMix, TopK};

/// Writes after which the index is loaded again, at least.
const WRITES_MIN: u64 = 200;

/// Receives a row and the number of its leaf.
type Visit<'a> = dyn FnMut(Option<u32>, IndexRow<'_>) + 'a;

/// Loads an empty index with the rows of another one, whose leaves have the numbers of their places in the
/// tree, as in images of before; `None` if an id comes twice.
fn loaded(from: &dyn Search, empty: Cluster) -> Option<Cluster> {
    let pinned = from.pin();
    loaded_by(&|visit| pinned.for_each_leaf_row(visit), empty)
}

/// Loads an empty index with the rows of another one, whose leaves have their serials.
fn loaded_by_serial(from: &dyn Search, empty: Cluster) -> Option<Cluster> {
    let pinned = from.pin();
    loaded_by(&|visit| pinned.for_each_serial_row(&|_| true, visit), empty)
}

fn loaded_by(walk: &dyn Fn(&mut Visit<'_>), empty: Cluster) -> Option<Cluster> {
    let (mut load, mut index) = (Some(empty.load()), None);
    walk(&mut |serial, row| {
        let Some(serial) = serial else {
            // No row of a leaf comes after these.
            let index = index.get_or_insert_with(|| load.take().and_then(ClusterLoad::finish));
            index.as_mut().expect("ids that differ").upsert_over(row, &mut |_| {});
            return;
        };
        load.as_mut().expect("rows of leaves come first").push(serial, row);
    });
    index.unwrap_or_else(|| load.take().and_then(ClusterLoad::finish))
}

/// An index that is loaded again when a fourth of its rows has changed.
struct Reloaded {
    index: Cluster,
    settings: IndexSettings,
    sizes: ClusterSettings,
    /// Writes until it is loaded again.
    left: u64,
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Reloaded>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Reloaded> {
        self.0.lock().expect("no test panicked before")
    }

    /// Makes a write, and loads the index again if that is due.
    fn write<R>(&self, write: impl FnOnce(&mut Cluster) -> R) -> R {
        let mut shared = self.lock();
        let written = write(&mut shared.index);
        shared.left -= 1;
        if shared.left == 0 {
            let reader = shared.index.reader();
            let live = shared.index.stats().live;
            let empty = Cluster::after(shared.settings, shared.sizes, reader.writes());
            shared.index = loaded(&*reader, empty).expect("ids that differ");
            assert_eq!(shared.index.stats().live, live);
            shared.left = WRITES_MIN.max(live / 4);
        }
        written
    }

    fn reader_now(&self) -> Arc<dyn Search> {
        self.lock().index.reader()
    }
}

impl Insert for Shared {
    fn upsert_over(&mut self, row: IndexRow<'_>, on_superseded: &mut dyn FnMut(u64)) -> Applied {
        self.write(|index| index.upsert_over(row, on_superseded))
    }

    fn delete(&mut self, id: u64, version: u64) -> bool {
        self.write(|index| index.delete(id, version))
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
        self.write(|index| index.replace_fields(id, version, fields))
    }

    fn reader(&self) -> Arc<dyn Search> {
        Arc::new(self.clone())
    }

    fn stats(&self) -> IndexStats {
        self.lock().index.stats()
    }
}

impl Search for Shared {
    fn search(&self, probe: &Probe<'_>, scratch: &mut Scratch, out: &mut TopK) -> SearchStats {
        self.reader_now().search(probe, scratch, out)
    }

    fn search_radius(
        &self,
        vector: &[f32],
        radius: f32,
        filter: Option<&Filter>,
        out: &mut Vec<Neighbor>,
    ) -> SearchStats {
        self.reader_now().search_radius(vector, radius, filter, out)
    }

    fn audit(
        &self,
        probe: &Probe<'_>,
        scratch: &mut Scratch,
        out: &mut TopK,
        reach: &mut Vec<Reach>,
    ) -> usize {
        self.reader_now().audit(probe, scratch, out, reach)
    }

    fn sample(&self, pick: u64, out: &mut Vec<f32>) -> Option<u64> {
        self.reader_now().sample(pick, out)
    }

    fn pin(&self) -> Box<dyn PinnedRows> {
        self.reader_now().pin()
    }

    fn snapshot(&self, as_of: Option<u64>) -> Box<dyn IndexSnapshot> {
        self.reader_now().snapshot(as_of)
    }

    fn leaves(&self) -> usize {
        self.reader_now().leaves()
    }

    fn writes(&self) -> u64 {
        self.reader_now().writes()
    }
}

fn reloaded(settings: IndexSettings, sizes: ClusterSettings) -> Box<dyn Insert> {
    let index = Cluster::new(settings, sizes);
    Box::new(Shared(Arc::new(Mutex::new(Reloaded { index, settings, sizes, left: WRITES_MIN }))))
}

#[test]
fn a_loaded_cluster_keeps_the_contract() {
    let contract = Contract {
        name: "cluster, loaded",
        make: |settings| reloaded(settings, ClusterSettings::default()),
        effort: Effort::Approximate { probes: 16, refine: 160 },
        recall_floor: 0.95,
        is_audited: true,
    };
    check(&contract);
    check_filters(&contract);
}

#[test]
fn a_loaded_cluster_with_small_leaves_keeps_the_contract() {
    let contract = Contract {
        name: "cluster, loaded, small leaves, second look",
        make: |settings| {
            let sizes = ClusterSettings {
                leaf_rows_max: 64,
                leaf_rows_min: 16,
                node_leaves_max: 8,
                second_look: true,
                ..ClusterSettings::default()
            };
            reloaded(settings, sizes)
        },
        effort: Effort::Approximate { probes: 48, refine: 160 },
        recall_floor: 0.95,
        is_audited: true,
    };
    check(&contract);
}

const DIMENSION: usize = 48;
const ZEROS: VectorRef<'_> = VectorRef::F32(&[0.0; DIMENSION]);

fn empty() -> Cluster {
    let settings =
        IndexSettings { dimension: DIMENSION, metric: Metric::L2, element: Element::F32, seed: 4 };
    Cluster::new(settings, ClusterSettings::default())
}

fn grown(rows: usize) -> (Cluster, SplitMix) {
    let (mut random, mut index) = (SplitMix(21), empty());
    let vectors = clustered(&mut random, rows, DIMENSION, 400);
    for (id, vector) in vectors.chunks_exact(DIMENSION).enumerate() {
        let key = RowKey { id: id as u64, version: 1, code: 0, shard: 0 };
        index.upsert(key, VectorRef::F32(vector));
    }
    (index, random)
}

#[test]
fn a_loaded_index_has_the_leaves_and_finds_as_much_at_equal_probes() {
    let (index, mut random) = grown(40_000);
    let again = loaded_by_serial(&*index.reader(), empty()).expect("ids that differ");
    let (before, after) = (index.stats(), again.stats());
    assert_eq!((after.live, after.dead, after.splits), (before.live, 0, 0));
    assert!(after.leaves * 10 >= before.leaves * 9, "{after:?} of {before:?}");
    let (first, second) = (index.reader(), again.reader());
    let (mut scratch, mut found) = (Scratch::new(), [0, 0]);
    let effort = Effort::Approximate { probes: 8, refine: 80 };
    for query in clustered(&mut random, 400, DIMENSION, 400).chunks_exact(DIMENSION) {
        let truth = ask(&*first, &mut scratch, query, 10, Effort::Exact);
        assert_eq!(truth, ask(&*second, &mut scratch, query, 10, Effort::Exact));
        for (found, reader) in found.iter_mut().zip([&first, &second]) {
            let answer = ask(&**reader, &mut scratch, query, 10, effort);
            *found += answer.iter().filter(|row| truth.contains(row)).count();
        }
    }
    println!("{found:?} of 4000");
    assert!(found[1] + 40 >= found[0], "{found:?} of 4000");
}

#[test]
fn an_id_that_comes_twice_is_no_index() {
    let row = |id| IndexRow::plain(RowKey { id, version: 1, code: 0, shard: 0 }, ZEROS);
    // Twice in one leaf, in two leaves, in a leaf and in one that is too small, in one that is too small.
    for [first, second, few, other] in
        [[70, 0, 900, 901], [900, 1, 901, 902], [900, 901, 2, 902], [900, 901, 902, 902]]
    {
        let mut load = empty().load();
        (0..100).chain([first]).for_each(|id| load.push(3, row(id)));
        (200..300).chain([second]).for_each(|id| load.push(4, row(id)));
        [few, other].into_iter().for_each(|id| load.push(9, row(id)));
        assert!(load.finish().is_none(), "{first} {second} {few} {other}");
    }
}

/// Each row's serial by id; rows in no leaf have none.
fn serials(index: &Cluster, is_chosen: &dyn Fn(u16) -> bool) -> BTreeMap<u64, u32> {
    let (mut serials, mut last) = (BTreeMap::new(), Some(0));
    index.reader().pin().for_each_serial_row(is_chosen, &mut |serial, row| {
        assert!(serial.is_none() || last.is_some_and(|last| serial >= Some(last)), "in order");
        last = serial;
        assert!(is_chosen(row.key.shard), "a row of another shard");
        serial.map(|serial| serials.insert(row.key.id, serial));
    });
    serials
}

/// Leaves of which images of different moments have rows: what had one serial has one again, and no new
/// leaf takes the serial of one that is gone.
#[test]
fn a_loaded_index_has_the_serials_that_it_had_and_new_ones_above() {
    let (mut index, mut random) = grown(20_000);
    let odd = serials(&index, &|shard| shard == 1);
    assert!(odd.is_empty(), "all rows are of shard 0");
    let before = serials(&index, &|_| true);
    let most = before.values().max().copied().expect("a leaf");
    let vectors = clustered(&mut random, 20_000, DIMENSION, 300);
    for (id, vector) in (10_000..).zip(vectors.chunks_exact(DIMENSION)) {
        let key = RowKey { id, version: 2, code: 0, shard: (id % 2) as u16 };
        index.upsert(key, VectorRef::F32(vector));
    }
    let after = serials(&index, &|_| true);
    let new: BTreeSet<u32> = after.values().copied().filter(|&serial| serial > most).collect();
    assert!(new.len() > 20, "only {} new leaves", new.len());
    let again = loaded_by_serial(&*index.reader(), empty()).expect("ids that differ");
    let loaded = serials(&again, &|_| true);
    let same = after.iter().filter(|(id, serial)| loaded.get(id) == Some(serial)).count();
    // Rows of leaves that are too small were inserted.
    assert!(same * 100 >= after.len() * 97, "{same} of {} keep their leaf", after.len());
    assert_eq!(serials(&index, &|shard| shard == 1).len(), 10_000);
}
