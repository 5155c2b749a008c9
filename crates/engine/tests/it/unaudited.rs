//! Queries that only measure are steered like others, and leave the recall guard alone.

use std::time::Duration;

use vstream_engine::{Effort, Element, Evidence, Metric, Settings};
use vstream_vector::SplitMix;

use super::{ask, engine, row};

#[test]
fn unaudited_queries_are_answered_as_automatic_ones_but_never_audited() {
    let mut random = SplitMix(3);
    let rows: Vec<f32> = (0..5_000 * 16).map(|_| random.normal()).collect();
    let mut engine = engine(Settings::new(16, Metric::L2, Element::F32));
    for (id, vector) in rows.chunks_exact(16).enumerate() {
        engine.upsert(&row(id as u64, vector)).expect("a good row");
    }
    let reader = engine.reader();
    for query in rows.chunks_exact(16).take(1_000) {
        let answer = ask(&reader, query, 10, Effort::Unaudited);
        assert_eq!(answer[0].distance, 0.0);
    }
    // The guard looks every 20 ms whether there is a query for it.
    std::thread::sleep(Duration::from_millis(200));
    engine.catch_up();
    let evidence = engine.stats().recall.expect("an estimate").evidence;
    assert_eq!(evidence, Evidence::Rows, "rows were audited, no query was");
    let before = ask(&reader, &rows[..16], 10, Effort::Unaudited);
    assert_eq!(ask(&reader, &rows[..16], 10, Effort::Auto), before);
}
