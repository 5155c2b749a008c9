//! The limit to memory holds while rows stream in faster than they are flushed.

use vstream_engine::{Element, Engine, Metric, Row, Settings};
use vstream_index::contract::clustered;
use vstream_vector::SplitMix;

use super::journaling;

const DIMENSION: usize = 64;
const ROWS: usize = 40_000;

#[test]
fn memory_stays_within_its_limit() {
    const LIMIT: u64 = 4 << 20;
    let vectors = clustered(&mut SplitMix(31), ROWS, DIMENSION, 100);
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        memory: Some(LIMIT),
        recall_guard: false,
        ..Settings::new(DIMENSION, Metric::L2, Element::F32)
    };
    let mut engine = Engine::builder()
        .dir(dir.path())
        .journaling(journaling(true))
        .create(settings)
        .expect("an engine");
    let mut most = 0;
    for (id, vector) in (0..).zip(vectors.chunks_exact(DIMENSION)) {
        // Half of them replace a row of a segment, most of them one of what is being flushed.
        let id = if id % 2 == 0 { id } else { id / 2 };
        let row =
            Row { id, version: 1 + id, code: 0, shard: 0, vector, fields: Default::default() };
        engine.upsert(&row).expect("a good row");
        if id % 16 == 0 {
            let tree = engine.stats().tree;
            most = most.max(tree.memtable_bytes + tree.cache_bytes);
        }
    }
    let stats = engine.stats();
    assert!(stats.tree.segments > 1, "{stats:?}");
    assert!(most > LIMIT / 4, "memory is used: {most}");
    assert!(most <= LIMIT, "{most} bytes of {LIMIT}: {stats:?}");
}
