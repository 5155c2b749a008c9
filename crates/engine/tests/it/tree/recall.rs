//! The recall guard steers searches over memory and segments together.

use vstream_engine::{Effort, Element, Engine, Metric, Settings};
use vstream_vector::SplitMix;

use super::journaling;
use crate::{ask, row};

const DIMENSION: usize = 24;
const ROWS: u64 = 40_000;

fn vector(random: &mut SplitMix) -> Vec<f32> {
    let center = random.below(200) as u64;
    let mut at = SplitMix(center);
    (0..DIMENSION).map(|_| 2.0 * at.normal() + random.normal()).collect()
}

#[test]
fn the_target_is_met_wherever_rows_are() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        memory: Some(3 << 20),
        recall_target: 0.9,
        ..Settings::new(DIMENSION, Metric::L2, Element::F32)
    };
    let mut engine = Engine::builder()
        .dir(dir.path())
        .journaling(journaling(true))
        .create(settings)
        .expect("an engine");
    let mut random = SplitMix(1);
    for id in 0..ROWS {
        engine.upsert(&row(id, &vector(&mut random))).expect("a good row");
        if id % 500 == 0 {
            engine.commit().expect("a commit");
        }
    }
    // Flushes are begun and ended by the writer, and done by a thread that may be slow today.
    for _ in 0..6_000 {
        if engine.stats().tree.segment_rows > ROWS / 2 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        engine.commit().expect("a commit");
    }
    let tree = engine.stats().tree;
    assert!(tree.segments >= 2 && tree.segment_rows > ROWS / 2, "{tree:?}");
    let reader = engine.reader();
    for _ in 0..2_000 {
        ask(&reader, &vector(&mut random), 10, Effort::Auto);
    }
    engine.catch_up();
    let (mut found, mut wanted) = (0, 0);
    for _ in 0..300 {
        let query = vector(&mut random);
        let truth = ask(&reader, &query, 10, Effort::Exact);
        let answer = ask(&reader, &query, 10, Effort::Unaudited);
        found += answer.iter().filter(|row| truth.iter().any(|hit| hit.id == row.id)).count();
        wanted += truth.len();
    }
    let recall = found as f64 / wanted as f64;
    let stats = engine.stats();
    let estimate = stats.recall.expect("audits were made");
    let off = (estimate.recall - recall).abs();
    assert!(recall >= 0.87, "{recall} with {} probes, {estimate:?}", stats.probes);
    assert!(off <= 0.06, "{recall} where the guard says {estimate:?}");
    assert!((stats.probes as u64) < stats.index.leaves, "{} of all", stats.probes);
}
