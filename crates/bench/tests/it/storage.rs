//! The storage measurements on a small set of whole numbers.

use std::sync::Arc;

use vstream_bench::runbook::Matrix;
use vstream_bench::storage::{codec_table, leaf_order, seal, search, truth, Larger};
use vstream_engine::Element;
use vstream_segment::Codes;
use vstream_store::codec::{Policy, Tier};
use vstream_store::{FileStore, Memory, Syncing};
use vstream_vector::SplitMix;

fn matrix(rows: usize, seed: u64) -> Matrix {
    let mut random = SplitMix(seed);
    let values = (0..rows * 16).map(|_| random.below(40) as f32).collect();
    Matrix { dimension: 16, values }
}

#[test]
fn codecs_are_tabled_and_the_order_of_leaves_keeps_every_row() {
    let rows = matrix(2_000, 1);
    let ordered = leaf_order(&rows);
    let sorted = |matrix: &Matrix| {
        let mut rows: Vec<Vec<u32>> =
            (0..2_000).map(|row| matrix.row(row).iter().map(|&x| x as u32).collect()).collect();
        rows.sort_unstable();
        rows
    };
    assert_eq!(sorted(&ordered), sorted(&rows));
    let table = codec_table(&ordered);
    let ratio = |policy: &str| table.iter().find(|row| row.policy == policy).unwrap().ratio;
    assert!(ratio("cold") <= ratio("hot") && ratio("hot") < 0.25, "{table:?}");
    assert!(ratio("raw") > 1.0 && ratio("raw") < 1.01);
}

#[test]
fn a_sealed_search_finds_the_truth_and_counts_its_reads() {
    let (rows, queries) = (matrix(3_000, 2), matrix(40, 3));
    let store = FileStore::new(Arc::new(Memory::new()), Syncing::Off);
    let policy = Policy::Best(Tier::Hot);
    let sealed = seal(&rows, Element::U8, policy, &store, "a.seg").unwrap();
    assert_eq!(sealed.rows, 3_000);
    let truth = truth(&rows, &queries);
    let larger = Larger {
        store: &store,
        name: "a.seg",
        codes: Codes::OnDemand,
        cache_bytes: 1 << 14,
        queries: &queries,
        truth: &truth,
    };
    let (memory, table) = search(&larger, &[(1, 10), (1_000, 3_000)]).unwrap();
    assert!(memory.codes == 0.0 && memory.directory > 0.0);
    let [few, all] = &table[..] else { panic!("two efforts: {table:?}") };
    assert!(all.recall > 0.99, "every row was looked at: {}", all.recall);
    assert!(few.recall < all.recall && few.bytes < all.bytes, "{table:?}");
}
