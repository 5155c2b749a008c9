//! A querying thread allocates nothing once its buffers have grown to what queries need.

use allocation_counter::measure;
use vstream_engine::{Effort, Element, Metric, Query, Scratch, Settings};
use vstream_vector::SplitMix;

use super::{engine, row};

const DIMENSION: usize = 48;

#[test]
fn warm_queries_allocate_nothing() {
    assert!(measure(|| drop(std::hint::black_box(vec![1u8; 9]))).count_total > 0, "it counts");
    for (metric, second_look) in
        [(Metric::L2, false), (Metric::Cosine, true), (Metric::InnerProduct, true)]
    {
        let mut random = SplitMix(5);
        let rows: Vec<f32> = (0..20_000 * DIMENSION).map(|_| random.normal()).collect();
        let mut settings = Settings::new(DIMENSION, metric, Element::F32);
        settings.recall_guard = false;
        settings.cluster.second_look = second_look;
        let mut engine = engine(settings);
        for (id, vector) in rows.chunks_exact(DIMENSION).enumerate() {
            engine.upsert(&row(id as u64, vector)).expect("a good row");
        }
        let reader = engine.reader();
        let (mut scratch, mut out) = (Scratch::new(), Vec::new());
        for effort in [Effort::Auto, Effort::probes(20), Effort::Exact] {
            let mut ask = || {
                for vector in rows.chunks_exact(DIMENSION).step_by(100) {
                    let query = Query { vector, k: 10, effort, filter: None, radius: None };
                    reader.search(&query, &mut scratch, &mut out).expect("a good query");
                }
            };
            ask();
            let allocated = measure(ask);
            assert_eq!(allocated.count_total, 0, "{metric:?}, {effort:?}: {allocated:?}");
        }
    }
}
