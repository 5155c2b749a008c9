//! Engines over a real server that speaks S3. `make test-s3` starts one.

use vstream_engine::{verify, Effort, Element, Engine, Journaling, Metric, RemoteLevel, Settings};
use vstream_vector::SplitMix;

use crate::{ask, row};

const DIMENSION: usize = 96;
const ROWS: u64 = 12_000;

fn vector_of(id: u64) -> Vec<f32> {
    let mut random = SplitMix(id);
    (0..DIMENSION).map(|_| random.normal()).collect()
}

#[test]
#[ignore = "needs a server: make test-s3"]
fn segments_go_to_a_store_are_searched_there_and_come_back() {
    let address = std::env::var("VSTREAM_TEST_S3").expect("VSTREAM_TEST_S3: run make test-s3");
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        memory: Some(1 << 20),
        recall_guard: false,
        ..Settings::new(DIMENSION, Metric::L2, Element::F32)
    };
    let level = |bytes| RemoteLevel::at(&format!("{address}/level"), bytes).expect("an address");
    // Without threads, so that nothing is merged or moved between a step and what is looked at.
    let kept = Journaling { background: false, ..Journaling::default() };
    let builder = Engine::builder().dir(dir.path()).journaling(kept).remote(level(0));
    let mut engine = builder.create(settings).expect("an engine");
    for id in 0..ROWS {
        engine.upsert(&row(id, &vector_of(id))).expect("a good row");
    }
    engine.checkpoint().expect("a checkpoint");
    // A checkpoint without threads begins a merge, whose file would be here until the next.
    engine.compact().expect("merged");
    engine.place_segments().expect("placed");
    let stats = engine.remote_stats().expect("a remote level");
    assert!(stats.local_segments == 0 && stats.remote_segments > 0, "{stats:?}");
    let check = |engine: &Engine| {
        let mut hits = 0;
        for id in (0..ROWS).step_by(1111) {
            let found = ask(&engine.reader(), &vector_of(id), 1, Effort::Exact);
            assert_eq!((found[0].id, found[0].distance), (id, 0.0));
            let found = ask(&engine.reader(), &vector_of(id), 1, Effort::probes(32));
            hits += usize::from(found[0].id == id);
        }
        // Rows without any structure are the worst case of leaves.
        assert!(hits >= 7, "{hits} of 11");
    };
    check(&engine);
    assert!(engine.remote_stats().expect("a remote level").counts.far_reads > 0);
    engine.close().expect("closed");
    let verified = verify(dir.path()).expect("verified");
    assert_eq!((verified.rows, verified.findings.len()), (ROWS, 0), "{verified:?}");
    let opened = Engine::builder()
        .dir(dir.path())
        .remote(level(u64::MAX))
        .adjust(&mut |settings, kept| {
            (settings.recall_guard, kept.background) = (false, false);
        })
        .open();
    let mut engine = opened.expect("it opens");
    check(&engine);
    engine.place_segments().expect("placed");
    let stats = engine.remote_stats().expect("a remote level");
    assert!(stats.remote_segments == 0 && stats.local_bytes > 0, "{stats:?}");
    check(&engine);
    for id in 0..ROWS {
        engine.delete(id, 2).expect("a delete");
    }
    engine.checkpoint().expect("a checkpoint");
    engine.compact().expect("merged");
    engine.place_segments().expect("settled");
    let stats = engine.remote_stats().expect("a remote level");
    assert_eq!((stats.local_segments, stats.remote_segments), (0, 0));
}
