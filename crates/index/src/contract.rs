//! The suite that every index kind passes: a new kind only plugs in a constructor.
//!
//! Each check builds its own index, applies a seeded workload to it and to a brute-force oracle,
//! and compares. Soundness (no dead row, exact distances, order) is checked on every answer;
//! recall against a floor that the kind states.

mod filters;

use std::collections::BTreeMap;

use vstream_vector::{Element, Metric, Neighbor, SplitMix, TopK};

pub use self::filters::check_filters;
use crate::rows::distance;
use crate::{Applied, Effort, IndexSettings, Insert, Probe, RowKey, Scratch, Search, VectorBuffer};

/// What a kind promises, and how to make one.
pub struct Contract {
    /// Name printed with a failure.
    pub name: &'static str,
    /// Makes an empty index.
    pub make: fn(IndexSettings) -> Box<dyn Insert>,
    /// Effort under which the recall floor holds.
    pub effort: Effort,
    /// Mean recall@10 at least.
    pub recall_floor: f64,
    /// True if its audits speak of its own searches: those of a segment alone do not.
    pub is_audited: bool,
}

/// The oracle: every living row, searched one by one.
#[derive(Clone, Debug)]
pub struct Oracle {
    metric: Metric,
    rows: BTreeMap<u64, (u64, VectorBuffer)>,
}

impl Oracle {
    /// An empty oracle.
    pub fn new(metric: Metric) -> Oracle {
        Oracle { metric, rows: BTreeMap::new() }
    }

    /// As [`Insert::upsert`].
    pub fn upsert(&mut self, id: u64, version: u64, vector: &VectorBuffer) -> Applied {
        match self.rows.get(&id) {
            Some((held, _)) if *held > version => Applied::Stale,
            held => {
                let applied = held.map_or(Applied::Inserted, |_| Applied::Replaced);
                self.rows.insert(id, (version, vector.clone()));
                applied
            }
        }
    }

    /// As [`Insert::replace_fields`]: the row gets another version.
    pub fn touch(&mut self, id: u64, version: u64) -> bool {
        match self.rows.get_mut(&id) {
            Some((held, _)) if *held <= version => {
                *held = version;
                true
            }
            _ => false,
        }
    }

    /// As [`Insert::delete`].
    pub fn delete(&mut self, id: u64, version: u64) -> bool {
        let dies = self.rows.get(&id).is_some_and(|(held, _)| *held <= version);
        dies && self.rows.remove(&id).is_some()
    }

    /// Living rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if nothing lives.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Ids of all living rows, ascending.
    pub fn ids(&self) -> Vec<u64> {
        self.rows.keys().copied().collect()
    }

    /// The exact answer.
    pub fn search(&self, query: &[f32], k: usize) -> Vec<Neighbor> {
        let mut top = TopK::new(k);
        for (&id, (version, row)) in &self.rows {
            let distance = distance(self.metric, query, row.vector());
            top.offer(Neighbor { distance, id, version: *version });
        }
        let mut out = Vec::new();
        top.drain_sorted(&mut out);
        out
    }

    /// Every row within `radius`, nearest first.
    pub fn search_radius(&self, query: &[f32], radius: f32) -> Vec<Neighbor> {
        let mut rows = self.search(query, self.rows.len().max(1));
        rows.retain(|row| row.distance <= radius);
        rows
    }

    /// Panics unless every row of `answer` lives, in this version, at the distance given, in order.
    pub fn check_sound(&self, query: &[f32], k: usize, answer: &[Neighbor]) {
        assert!(answer.len() <= k.min(self.rows.len()), "more rows than asked for or alive");
        for pair in answer.windows(2) {
            assert!(pair[0].order(&pair[1]).is_lt(), "out of order or twice: {pair:?}");
        }
        for row in answer {
            let Some((version, vector)) = self.rows.get(&row.id) else {
                panic!("id {} is not alive", row.id)
            };
            assert_eq!(*version, row.version, "another version of id {}", row.id);
            let exact = distance(self.metric, query, vector.vector());
            let bound = 1e-5 * exact.abs().max(1.0);
            assert!((exact - row.distance).abs() <= bound, "distance {} of {exact}", row.distance);
        }
    }
}

/// Clustered vectors, as embeddings are: `clusters` centres, spread 0.35 around them.
pub fn clustered(random: &mut SplitMix, n: usize, dimension: usize, clusters: usize) -> Vec<f32> {
    let centres: Vec<f32> = (0..clusters * dimension).map(|_| random.normal()).collect();
    (0..n)
        .flat_map(|_| {
            let centre = random.below(clusters) * dimension;
            (0..dimension).map(|d| centres[centre + d] + 0.35 * random.normal()).collect::<Vec<_>>()
        })
        .collect()
}

/// Moves vectors of about unit spread to where `element` holds them well: integers are spread over
/// their range.
pub fn fitted(element: Element, mut vectors: Vec<f32>) -> Vec<f32> {
    let (scale, middle, least, most) = match element {
        Element::U8 => (30.0, 128.0, 0.0, 255.0),
        Element::I8 => (30.0, 0.0, -128.0, 127.0),
        Element::F32 | Element::F16 | Element::Bf16 => return vectors,
    };
    let fit = |x: f32| (x * scale + middle).round().clamp(least, most);
    vectors.iter_mut().for_each(|x| *x = fit(*x));
    vectors
}

/// Runs every check of the contract, over every element type. Panics with the kind's name and the
/// check's on a failure.
pub fn check(contract: &Contract) {
    for element in Element::ALL {
        for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
            // Directions have no whole numbers: an engine keeps them in another element.
            if metric == Metric::Cosine && element.is_integer() {
                continue;
            }
            println!("{}: {metric} of {element}, seed {SEED}", contract.name);
            streams_like_the_oracle(contract, settings(24, metric, element));
            streams_like_the_oracle(contract, settings(100, metric, element));
        }
        empty_and_single(contract, element);
        k_larger_than_n(contract, element);
        upserts_replace(contract, element);
        if contract.is_audited {
            audits_are_nearly_exact(contract, element);
        }
        equal_vectors(contract, element);
        shrinks_after_mass_deletes(contract, element);
    }
}

const SEED: u64 = 7;

fn settings(dimension: usize, metric: Metric, element: Element) -> IndexSettings {
    IndexSettings { dimension, metric, element, seed: SEED }
}

fn key(id: u64, version: u64) -> RowKey {
    RowKey { id, version, code: id << 8, shard: (id % 128) as u16 }
}

fn normalised(metric: Metric, mut rows: Vec<f32>, dimension: usize) -> Vec<f32> {
    if metric == Metric::Cosine {
        for row in rows.chunks_exact_mut(dimension) {
            let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            row.iter_mut().for_each(|x| *x /= norm);
        }
    }
    rows
}

/// One answer; the reader's own scratch, so that reuse is tested too.
pub fn ask(
    reader: &dyn Search,
    scratch: &mut Scratch,
    query: &[f32],
    k: usize,
    effort: Effort,
) -> Vec<Neighbor> {
    let mut top = TopK::new(k);
    reader.search(&Probe { vector: query, k, effort, filter: None }, scratch, &mut top);
    let mut out = Vec::new();
    top.drain_sorted(&mut out);
    out
}

fn hits(truth: &[Neighbor], answer: &[Neighbor]) -> usize {
    // Ties with the last true neighbour count, whatever id they have.
    let Some(last) = truth.last() else { return 0 };
    let bound = last.distance + 1e-6 * last.distance.abs();
    answer.iter().filter(|row| row.distance <= bound).count().min(truth.len())
}

fn streams_like_the_oracle(contract: &Contract, settings: IndexSettings) {
    let IndexSettings { dimension, metric, element, .. } = settings;
    let mut random = SplitMix(SEED + dimension as u64);
    let rows = fitted(element, clustered(&mut random, 6_000, dimension, 40));
    let rows = normalised(metric, rows, dimension);
    let row = |i: usize| &rows[i * dimension..][..dimension];
    let mut index = (contract.make)(settings);
    let mut oracle = Oracle::new(metric);
    let mut narrowed = VectorBuffer::new(element);
    let reader = index.reader();
    let mut scratch = Scratch::new();
    let (mut found, mut wanted) = (0, 0);
    for step in 0..9_000u64 {
        let id = random.below(4_000) as u64;
        if step % 4 == 3 {
            assert_eq!(index.delete(id, step), oracle.delete(id, step), "delete of {id}");
        } else {
            narrowed.narrow(row(random.below(6_000)));
            // Now and then an old version comes late and must change nothing.
            let version = if step % 50 == 7 { step / 2 } else { step };
            let applied = index.upsert(key(id, version), narrowed.vector());
            assert_eq!(applied, oracle.upsert(id, version, &narrowed), "upsert of {id}");
        }
        if step % 45 == 0 {
            let query = row(random.below(6_000));
            let exact = ask(&*reader, &mut scratch, query, 10, Effort::Exact);
            let truth = oracle.search(query, 10);
            oracle.check_sound(query, 10, &exact);
            assert_eq!(hits(&truth, &exact), truth.len(), "{}: exact search", contract.name);
            let answer = ask(&*reader, &mut scratch, query, 10, contract.effort);
            oracle.check_sound(query, 10, &answer);
            found += hits(&truth, &answer);
            wanted += truth.len();
            // From nobody to everybody: the radius of the truth's ends, and one beyond all.
            for radius in [truth[0].distance, truth[truth.len() - 1].distance, 1e6] {
                let mut near = Vec::new();
                reader.search_radius(query, radius, None, &mut near);
                near.sort_by(Neighbor::order);
                assert_eq!(
                    near,
                    oracle.search_radius(query, radius),
                    "{}: radius search",
                    contract.name
                );
            }
        }
    }
    let recall = found as f64 / wanted as f64;
    assert!(
        recall >= contract.recall_floor,
        "{}: {metric} of {element}: recall {recall}",
        contract.name
    );
    let mut ids = Vec::new();
    reader.for_each_row(&mut |row| ids.push(row.key.id));
    ids.sort_unstable();
    assert_eq!(ids, oracle.ids(), "{}: rows shown by for_each_row", contract.name);
    assert_eq!(index.stats().live, oracle.len() as u64);
}

fn empty_and_single(contract: &Contract, element: Element) {
    let mut index = (contract.make)(settings(3, Metric::L2, element));
    let reader = index.reader();
    let mut scratch = Scratch::new();
    for effort in [contract.effort, Effort::Exact] {
        assert!(ask(&*reader, &mut scratch, &[0.0; 3], 5, effort).is_empty());
    }
    assert!(!index.delete(9, 1), "an unknown id");
    index.upsert(key(9, 1), VectorBuffer::new(element).narrow(&[1.0, 2.0, 2.0]));
    for effort in [contract.effort, Effort::Exact] {
        let answer = ask(&*reader, &mut scratch, &[0.0; 3], 5, effort);
        assert_eq!(answer, [Neighbor { distance: 9.0, id: 9, version: 1 }]);
    }
    assert!(index.delete(9, 1));
    assert!(ask(&*reader, &mut scratch, &[0.0; 3], 5, Effort::Exact).is_empty());
}

fn k_larger_than_n(contract: &Contract, element: Element) {
    let mut index = (contract.make)(settings(2, Metric::L2, element));
    let mut narrowed = VectorBuffer::new(element);
    for id in 0..7 {
        index.upsert(key(id, 1), narrowed.narrow(&[id as f32, 0.0]));
    }
    let answer = ask(&*index.reader(), &mut Scratch::new(), &[0.0, 0.0], 1000, contract.effort);
    assert_eq!(answer.iter().map(|row| row.id).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
}

fn upserts_replace(contract: &Contract, element: Element) {
    let mut index = (contract.make)(settings(2, Metric::L2, element));
    let reader = index.reader();
    let mut scratch = Scratch::new();
    let mut narrowed = VectorBuffer::new(element);
    for version in 0..2_000u64 {
        // Whole numbers that every element holds.
        let vector = [(version % 100) as f32, 1.0];
        index.upsert(key(version % 5, version), narrowed.narrow(&vector));
        let answer = ask(&*reader, &mut scratch, &vector, 1, contract.effort);
        assert_eq!(answer[0].version, version, "{}: read your write", contract.name);
    }
    assert_eq!(index.stats().live, 5);
    assert_eq!(ask(&*reader, &mut scratch, &[0.0, 0.0], 10, Effort::Exact).len(), 5);
}

/// An audit's answer is the exact one but for a row in a thousand, and its ranks lead to the rows.
fn audits_are_nearly_exact(contract: &Contract, element: Element) {
    let mut random = SplitMix(SEED);
    let rows = fitted(element, clustered(&mut random, 12_000, 48, 400));
    let mut narrowed = VectorBuffer::new(element);
    let mut index = (contract.make)(settings(48, Metric::L2, element));
    for (id, row) in rows.chunks_exact(48).enumerate() {
        index.upsert(key(id as u64, 1), narrowed.narrow(row));
    }
    let reader = index.reader();
    let mut scratch = Scratch::new();
    let (mut same, mut wanted, mut broken) = (0, 0, 0);
    let queries = fitted(element, clustered(&mut random, 200, 48, 400));
    for query in queries.chunks_exact(48) {
        let truth = ask(&*reader, &mut scratch, query, 10, Effort::Exact);
        let effort = Effort::Approximate { probes: 20, refine: 100 };
        let (mut top, mut reach) = (TopK::new(10), Vec::new());
        let probe =
            Probe { vector: query, k: 10, effort: Effort::Thorough { depth: 0 }, filter: None };
        reader.audit(&probe, &mut scratch, &mut top, &mut reach);
        assert_eq!(reach.len(), 10);
        same += truth.iter().filter(|row| reach.iter().any(|hit| hit.id == row.id)).count();
        wanted += truth.len();
        let answer = ask(&*reader, &mut scratch, query, 10, effort);
        for hit in &reach {
            let promised = hit.leaf.is_none_or(|rank| rank < 20)
                && hit.code.as_ref().is_none_or(|rank| rank.with_probes(20) < 100.0);
            let found = answer.iter().any(|row| row.id == hit.id);
            broken += usize::from(promised != found);
        }
    }
    // Leaves at the border of those visited are told apart by estimates.
    assert!(broken * 100 <= wanted, "{}: {broken} of {wanted} ranks mislead", contract.name);
    assert!(same * 1000 >= wanted * 999, "{}: {same} of {wanted}", contract.name);
}

fn equal_vectors(contract: &Contract, element: Element) {
    let mut index = (contract.make)(settings(16, Metric::L2, element));
    let reader = index.reader();
    let mut scratch = Scratch::new();
    let mut narrowed = VectorBuffer::new(element);
    for id in 0..5_000u64 {
        index.upsert(key(id, id), narrowed.narrow(&[3.0; 16]));
    }
    assert_eq!(index.stats().live, 5_000, "{}: no equal row is lost", contract.name);
    let answer = ask(&*reader, &mut scratch, &[3.0; 16], 100, contract.effort);
    assert_eq!(answer.len(), 100);
    assert!(answer.iter().all(|row| row.distance == 0.0));
    let exact = ask(&*reader, &mut scratch, &[3.0; 16], 10, Effort::Exact);
    assert_eq!(exact.iter().map(|row| row.id).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    for id in 0..4_990u64 {
        assert!(index.delete(id, id));
    }
    let answer = ask(&*reader, &mut scratch, &[3.0; 16], 100, contract.effort);
    assert_eq!(answer.len(), 10, "{}: the last ten", contract.name);
}

fn shrinks_after_mass_deletes(contract: &Contract, element: Element) {
    let mut random = SplitMix(SEED);
    // Rows of 128 bytes, so that vectors weigh as much as in any other element.
    let dimension = 128 / element.bytes();
    let rows = fitted(element, clustered(&mut random, 20_000, dimension, 50));
    let mut narrowed = VectorBuffer::new(element);
    let mut index = (contract.make)(settings(dimension, Metric::L2, element));
    for (id, row) in rows.chunks_exact(dimension).enumerate() {
        index.upsert(key(id as u64, 1), narrowed.narrow(row));
    }
    let full = index.stats().memory_bytes;
    for id in 0..18_000u64 {
        assert!(index.delete(id, 1));
    }
    let left = index.stats();
    assert_eq!(left.live, 2_000);
    println!("{}: {full} bytes, {} after deletes", contract.name, left.memory_bytes);
    assert!(
        left.memory_bytes * 4 < full,
        "{}: {} of {full} bytes left for a tenth of the rows",
        contract.name,
        left.memory_bytes
    );
}
