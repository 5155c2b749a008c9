//! The filtered search over one index, calibrated on the index's own rows, against brute force.

use std::convert::Infallible;

use vstream_attribute::{
    AttributeKind, AttributesBuilder, Fields, Filter, Range, Schema, Test, ValueRef,
};
use vstream_index::stages::{
    calibrate, search_filtered, FilteredPlace, FilteredProbe, FilteredScratch, PlaceState, Staged,
    Stop,
};
use vstream_index::{
    distance, Cluster, ClusterSettings, IndexRow, IndexSettings, IndexSnapshot, Insert, RowKey,
    Scratch, VectorRef,
};
use vstream_vector::{Element, Metric, Neighbor, SplitMix, TopK};

const DIMENSION: usize = 64;
const ROWS: usize = 30_000;
const TOPICS: usize = 100;
const QUERIES: usize = 100;
const K: usize = 10;
const TARGET: f64 = 0.95;

/// Topics whose centres have a structure, and rows around them with one of their own: 12 directions,
/// some wide and some narrow, as embeddings have.
struct Source {
    centres: Vec<f32>,
    directions: Vec<f32>,
}

impl Source {
    fn new(random: &mut SplitMix) -> Source {
        let basis: Vec<f32> = (0..20 * DIMENSION).map(|_| random.normal() / 4.0).collect();
        let mut centres = vec![0.0; TOPICS * DIMENSION];
        for centre in centres.chunks_exact_mut(DIMENSION) {
            for direction in basis.chunks_exact(DIMENSION) {
                let along = random.normal();
                centre.iter_mut().zip(direction).for_each(|(x, d)| *x += along * d);
            }
        }
        let directions = (0..TOPICS * 12 * DIMENSION).map(|_| random.normal() / 4.0).collect();
        Source { centres, directions }
    }

    fn draw(&self, topic: usize, random: &mut SplitMix) -> Vec<f32> {
        let mut row = self.centres[topic * DIMENSION..][..DIMENSION].to_vec();
        let own = &self.directions[topic * 12 * DIMENSION..][..12 * DIMENSION];
        for (at, direction) in own.chunks_exact(DIMENSION).enumerate() {
            let along = random.normal() * 1.2 / (1.0 + at as f32 / 3.0);
            row.iter_mut().zip(direction).for_each(|(x, d)| *x += along * d);
        }
        row.iter_mut().for_each(|x| *x += 0.1 * random.normal());
        row
    }
}

struct Data {
    settings: IndexSettings,
    index: Cluster,
    rows: Vec<Vec<f32>>,
    topics: Vec<usize>,
    numbers: Vec<i64>,
    queries: Vec<(usize, Vec<f32>)>,
}

fn data(metric: Metric, second_look: bool, seed: u64) -> Data {
    println!("{metric}, seed {seed}");
    let mut random = SplitMix(seed);
    let source = Source::new(&mut random);
    let settings = IndexSettings { dimension: DIMENSION, metric, element: Element::F32, seed };
    let sizes = ClusterSettings { leaf_rows_max: 128, second_look, ..ClusterSettings::default() };
    let mut index = Cluster::new(settings, sizes);
    let schema = Schema::new([("topic", AttributeKind::Keyword), ("n", AttributeKind::I64)]);
    let schema = schema.expect("a schema");
    let mut builder = AttributesBuilder::default();
    let (mut rows, mut topics, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    let draw = |topic: usize, random: &mut SplitMix| {
        let mut row = source.draw(topic, random);
        if metric == Metric::Cosine {
            let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            row.iter_mut().for_each(|x| *x /= norm);
        }
        row
    };
    for id in 0..ROWS as u64 {
        let (topic, number) = (random.below(TOPICS), random.below(1_000) as i64);
        let vector = draw(topic, &mut random);
        builder.clear();
        let name = format!("t{topic:02}");
        builder.set(&schema, 0, &ValueRef::Keyword(&name)).expect("a keyword");
        builder.set(&schema, 1, &ValueRef::I64(number)).expect("a number");
        let fields = Fields { attributes: builder.build(), ..Fields::NONE };
        let key = RowKey { id, version: 1, code: 0, shard: 0 };
        index.upsert_over(IndexRow { key, vector: VectorRef::F32(&vector), fields }, &mut |_| {});
        rows.push(vector);
        topics.push(topic);
        numbers.push(number);
    }
    let queries = (0..QUERIES)
        .map(|_| {
            let topic = random.below(TOPICS);
            (topic, draw(topic, &mut random))
        })
        .collect();
    Data { settings, index, rows, topics, numbers, queries }
}

type Snapshot = dyn IndexSnapshot;

impl Data {
    fn calibrated(&self, snapshot: &Snapshot) -> Stop {
        let mut state = PlaceState::<Scratch>::default();
        let mut staged = Staged { place: snapshot, state: &mut state, read: &|_| Ok(Vec::new()) };
        let mut places: [&mut dyn FilteredPlace<Error = Infallible>; 1] = [&mut staged];
        let samples: Vec<(u64, Vec<f32>)> =
            (0..250).map(|i| (i * 113, self.rows[i as usize * 113].clone())).collect();
        let Ok(stop) = calibrate(&mut places, self.settings, &samples, (K, 0.965));
        stop
    }

    /// Recall@10 over the queries, and leaves visited per query, with the filter of each query's topic.
    fn recall(
        &self,
        snapshot: &Snapshot,
        stop: Stop,
        filter_of: &dyn Fn(usize) -> Option<Filter>,
        holds: &dyn Fn(usize, usize) -> bool,
    ) -> (f64, f64) {
        let (mut state, mut scratch) =
            (PlaceState::<Scratch>::default(), FilteredScratch::default());
        let mut staged = Staged { place: snapshot, state: &mut state, read: &|_| Ok(Vec::new()) };
        let mut places: [&mut dyn FilteredPlace<Error = Infallible>; 1] = [&mut staged];
        let (mut found, mut wanted, mut leaves) = (0, 0, 0);
        for (topic, query) in &self.queries {
            let mut truth = TopK::new(K);
            for id in (0..ROWS).filter(|&id| holds(*topic, id)) {
                let row = VectorRef::F32(&self.rows[id]);
                let distance = distance(self.settings.metric, query, row);
                truth.offer(Neighbor { distance, id: id as u64, version: 1 });
            }
            let filter = filter_of(*topic);
            let filter = filter.as_ref();
            let settings = self.settings;
            let probe =
                FilteredProbe { settings, vector: query, k: K, filter, stop, by_share: &[] };
            let mut out = TopK::new(K);
            let Ok(stats) =
                search_filtered(&mut places, &probe, &mut scratch, &mut out, &mut |_, _| {});
            assert_eq!(out.len(), truth.len(), "as many rows as there are");
            let is_true = |row: &&Neighbor| truth.rows().iter().any(|one| one.id == row.id);
            let hits = out.rows().iter().filter(is_true).count();
            if stats.is_exact {
                assert_eq!(hits, truth.len());
            }
            found += hits;
            wanted += truth.len();
            leaves += stats.work.leaves;
        }
        (found as f64 / wanted as f64, leaves as f64 / QUERIES as f64)
    }

    /// Every filter finds its share, with one margin that was calibrated without a filter.
    fn check(&self) {
        let reader = self.index.reader();
        let snapshot = reader.snapshot(None);
        let stop = self.calibrated(&*snapshot);
        println!("{stop:?} of {} leaves", snapshot.leaves());
        let below = |most: i64| {
            let (from, to) = (std::ops::Bound::Unbounded, std::ops::Bound::Excluded(most));
            Filter::Attribute(1, Test::I64Range(Range { from, to }))
        };
        // The topics after the query's own: a filter that does not have it.
        let others = |topic: usize, count: usize| {
            let mut names: Vec<String> =
                (1..=count).map(|i| format!("t{:02}", (topic + i * 7) % TOPICS)).collect();
            names.sort_unstable();
            Filter::Attribute(0, Test::KeywordIn(names))
        };
        let is_other = |topic: usize, id: usize, count: usize| {
            (1..=count).any(|i| (topic + i * 7) % TOPICS == self.topics[id])
        };
        let report = |name: &str, (recall, leaves): (f64, f64)| {
            println!("{name}: recall {recall:.3}, {leaves:.1} leaves");
            assert!(recall >= TARGET - 0.02, "{name}: recall {recall}");
        };
        report("all", self.recall(&*snapshot, stop, &|_| None, &|_, _| true));
        for most in [500, 200, 40, 15] {
            let recall = self
                .recall(&*snapshot, stop, &|_| Some(below(most)), &|_, id| self.numbers[id] < most);
            report(&format!("random {most} of 1,000"), recall);
        }
        for count in [20, 4, 2] {
            let recall = self.recall(&*snapshot, stop, &|t| Some(others(t, count)), &|t, id| {
                is_other(t, id, count)
            });
            report(&format!("{count} other topics of 100"), recall);
        }
        let own =
            |topic: usize| Filter::Attribute(0, Test::KeywordIn(vec![format!("t{topic:02}")]));
        let recall =
            self.recall(&*snapshot, stop, &|t| Some(own(t)), &|t, id| self.topics[id] == t);
        report("the own topic", recall);
        let both = |t: usize| Some(Filter::And(vec![others(t, 20), below(200)]));
        let recall = self.recall(&*snapshot, stop, &both, &|t, id| {
            is_other(t, id, 20) && self.numbers[id] < 200
        });
        report("20 other topics and random 200", recall);
    }
}

#[test]
fn filtered_answers_hold_the_target_by_squared_distance() {
    data(Metric::L2, false, 21).check();
}

#[test]
fn filtered_answers_hold_the_target_by_cosine_with_a_second_look() {
    data(Metric::Cosine, true, 22).check();
}

#[test]
fn filtered_answers_hold_the_target_by_inner_product() {
    data(Metric::InnerProduct, false, 23).check();
}
