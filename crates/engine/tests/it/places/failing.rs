//! Segments that cannot be read: an error for the query, and nothing else.

use std::fs::File;
use std::os::unix::fs::FileExt;

use vstream_engine::{
    verify, Effort, Element, Engine, ErrorKind, IndexKind, Metric, Query, Scratch,
};

use super::{filled, journaling, put, tiny, vector_of};

#[test]
fn a_damaged_block_is_a_typed_error_and_the_engine_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = tiny(IndexKind::Cluster, Metric::L2, Element::F32);
    let mut engine = filled(dir.path(), settings, 2_000, 1_999);
    let path = dir.path().join("segment-0000000001");
    let file = File::options().write(true).read(true).open(path).expect("a segment");
    let mut byte = [0];
    let mut at = 100;
    // Every row block is damaged, whichever the query wants.
    while at < 100_000.min(file.metadata().expect("a length").len()) {
        file.read_exact_at(&mut byte, at).expect("a byte");
        file.write_all_at(&[byte[0] ^ 1], at).expect("a write");
        at += 200;
    }
    let reader = engine.reader();
    let (mut scratch, mut out) = (Scratch::new(), Vec::new());
    for effort in [Effort::Auto, Effort::probes(1_000), Effort::Exact] {
        let query = Query { vector: &vector_of(3), k: 10, effort };
        let error = reader.search(&query, &mut scratch, &mut out).expect_err("damage");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.message().contains("segment-0000000001"), "{error}");
    }
    let error = reader.within(&vector_of(3), 1e9, &mut scratch, &mut out).expect_err("damage");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(
        engine.pin().for_each_row(&mut |_| {}).expect_err("damage").kind(),
        ErrorKind::Corrupt
    );
    assert_eq!(engine.shard_rows().expect_err("damage").kind(), ErrorKind::Corrupt);
    put(&mut engine, 9_999, 1, &vector_of(1));
    assert!(engine.delete(5, 1).expect("ids are in memory"));
    engine.commit().expect("a commit");
    engine.detach().expect("closed");
    assert!(verify(dir.path()).expect("a collection").findings.iter().any(|f| f.is_damage));
}

#[test]
fn memory_needs_a_sensible_limit_and_a_directory() {
    let settings = tiny(IndexKind::Cluster, Metric::L2, Element::F32);
    let small = vstream_engine::Settings { memory: Some(1_000), ..settings.clone() };
    let error = Engine::create(small).map(|_| ()).expect_err("too small");
    assert!(error.message().contains("64 kb"), "{error}");
    let error = Engine::create(settings.clone()).map(|_| ()).expect_err("nowhere to go");
    assert!(error.message().contains("directory"), "{error}");
    let dir = tempfile::tempdir().expect("a directory");
    let engine = Engine::create_in(dir.path(), settings, journaling(false)).expect("an engine");
    drop(engine);
    // The limit is part of the collection, and can be taken away.
    let reopen = |limit| {
        Engine::open_with(dir.path(), &mut |settings, _| settings.memory = limit).expect("opens")
    };
    assert_eq!(Engine::open(dir.path()).expect("opens").settings().memory, Some(64 << 10));
    assert_eq!(reopen(None).settings().memory, None);
}
