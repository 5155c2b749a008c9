//! A segment on a real server that speaks S3: `make test-s3` starts one.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use vstream_engine::{Element, Metric};
use vstream_index::{
    Cluster, ClusterSettings, Effort, IndexSettings, Insert, Probe, RowKey, VectorRef,
};
use vstream_segment::{
    write_pinned, Codes, OpenOptions, Segment, SegmentKind, SegmentScratch, SegmentSettings,
    Tombstones,
};
use vstream_store::codec::{Policy, Tier};
use vstream_store::remote::{
    push, Contents, Location, RemoteStore, Restore, RestoreSettings, RetryPolicy,
};
use vstream_store::{Access, Cache, FileStore, Memory, Store, Syncing, SystemClock};
use vstream_vector::{SplitMix, TopK};

const ROWS: u64 = 20_000;
const DIMENSION: usize = 32;
/// Few: each visits other leaves, and many of them would need most of so small a file.
const QUERIES: u64 = 4;
const NAME: &str = "segment-1.seg";

/// A point near one of 50 centres.
fn vector(id: u64) -> Vec<f32> {
    let mut centre = SplitMix(id % 50);
    let mut random = SplitMix(1000 + id);
    (0..DIMENSION).map(|_| 4.0 * centre.normal() + random.normal()).collect()
}

fn sealed() -> FileStore {
    let metric = Metric::L2;
    let element = Element::F32;
    let index = IndexSettings { dimension: DIMENSION, metric, element, seed: 1 };
    let mut cluster = Cluster::new(index, ClusterSettings::default());
    for id in 0..ROWS {
        let key = RowKey { id, version: 1, code: id, shard: 0 };
        cluster.upsert(key, VectorRef::F32(&vector(id)));
    }
    let settings = SegmentSettings {
        dimension: DIMENSION,
        metric,
        element,
        kind: SegmentKind::Cluster,
        seed: 1,
        identity: 77,
        first_leaf: 0,
        policy: Policy::Best(Tier::Cold),
    };
    let store = FileStore::new(Arc::new(Memory::new()), Syncing::Off);
    write_pinned(&store, NAME, settings, &*cluster.reader().pin()).expect("a segment");
    store
}

/// Ids and distances of the answers to all queries.
fn answers(segment: &Segment) -> Vec<Vec<(u64, f32)>> {
    let deletes = Tombstones::none(segment.rows() as u32);
    let mut scratch = SegmentScratch::new();
    let ask = |query: u64| {
        let mut top = TopK::new(10);
        let vector = vector(ROWS + query);
        let effort = Effort::Approximate { probes: 8, refine: 50 };
        let probe = Probe { vector: &vector, k: 10, effort, filter: None };
        segment.at(&deletes, 0).search(&probe, &mut scratch, &mut top).expect("an answer");
        top.rows().iter().map(|row| (row.id, row.distance)).collect()
    };
    (0..QUERIES).map(ask).collect()
}

fn options() -> OpenOptions {
    OpenOptions { cache: Some(Arc::new(Cache::new(32 << 20))), codes: Codes::OnDemand }
}

fn place() -> RemoteStore {
    let url = std::env::var("VSTREAM_TEST_S3").expect("VSTREAM_TEST_S3: run make test-s3");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    match Location::parse(&format!("{url}/segment-{now}")).expect("an address") {
        Location::Bucket(bucket) => bucket.open(RetryPolicy::default()).expect("a store"),
        Location::Folder(path) => panic!("{} is no bucket", path.display()),
    }
}

#[test]
#[ignore = "needs a server: make test-s3"]
fn a_segment_is_searched_where_it_is_and_on_its_way() {
    let local = sealed();
    let here = Segment::open(local.open(NAME, Access::Cached).unwrap(), options()).unwrap();
    let right = answers(&here);
    let store = place();
    push(&local, &[NAME.to_owned()], &store).expect("pushed");
    let contents = Contents::read(&store, None).expect("a list");

    // By ranges, through the cache: what was read once is not asked for again.
    let object = contents.files[0].object();
    let before = store.counts();
    let far = Segment::open(store.open(&object, Access::Direct).unwrap(), options()).unwrap();
    assert_eq!(answers(&far), right);
    let cold = store.counts();
    let (requests, bytes) = (cold.requests - before.requests, cold.read_bytes - before.read_bytes);
    println!("{} B: {requests} requests, {bytes} B for {QUERIES} queries", far.bytes());
    assert!(bytes < far.bytes() / 3, "{bytes} of {} bytes", far.bytes());
    assert_eq!(answers(&far), right);
    assert_eq!(store.counts(), cold, "the cache holds it");

    // Restored while it is asked, into a folder that is a plain one in the end.
    let folder = Memory::new();
    let settings = RestoreSettings { bytes_per_second: None, clock: Arc::new(SystemClock::new()) };
    let remote = Arc::new(store.clone());
    let restore = Restore::begin(Arc::new(folder.clone()), remote, &contents, settings).unwrap();
    let filling = FileStore::new(Arc::new(restore.clone()), Syncing::Off);
    let early = Segment::open(filling.open(NAME, Access::Direct).unwrap(), options()).unwrap();
    assert_eq!(answers(&early), right);
    assert!(restore.progress().remote_reads > 0 && restore.progress().files_left == 1);
    restore.fetch().unwrap().wait().expect("fetched");
    let after = store.counts();
    let late = OpenOptions { cache: None, codes: Codes::Resident };
    let late = Segment::open(filling.open(NAME, Access::Direct).unwrap(), late).unwrap();
    assert_eq!(answers(&late), right);
    late.verify().expect("whole");
    assert_eq!(store.counts(), after, "nothing is far any more");
}
