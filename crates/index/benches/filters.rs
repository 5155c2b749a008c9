//! The cost of searches with filters of many kinds, each at the recall that was asked for.
//!
//! `cargo bench -p vstream-index --bench filters -- --rows 300000 --folder data/glove100`
//!
//! Rows and queries are those of the folder (`base.fbin`, `query.fbin`), normalised, or drawn without
//! one. Attributes are drawn, but for `topic` and `along`, which follow the vectors. For each kind of
//! filter the search is calibrated as the guard does it after 48 audits: the θ with which a share
//! `--target` of the neighbours of 48 other queries is found. Times are CPU of the one thread.

mod workload;

use std::convert::Infallible;
use std::fs;
use std::ops::Bound;

use vstream_attribute::{
    AttributeKind, AttributesBuilder, Fields, Filter, Range, Schema, Test, ValueRef,
};
use vstream_index::stages::{
    audit_filtered, search_filtered, theta_for, FilteredPlace, FilteredProbe, FilteredScratch,
    PlaceState, Staged, Stop, PATIENCE,
};
use vstream_index::{
    Cluster, ClusterSettings, Effort, IndexRow, IndexSettings, IndexSnapshot, Insert, Probe,
    RowKey, Scratch, VectorRef,
};
use vstream_vector::{kernels, Element, Metric, SplitMix, TopK};

use workload::{draw, thread_us};

const AUDITS: usize = 48;
/// The first queries of a folder may be of another kind than the others.
const FIRST: usize = 200;
const K: usize = 10;
const TOPICS: usize = 60;

struct Data {
    dimension: usize,
    rows: Vec<f32>,
    queries: Vec<f32>,
    /// Rows whose nearest is the topic of a vector.
    topics: Vec<usize>,
}

impl Data {
    fn read(folder: &str, rows: usize) -> Data {
        let (dimension, rows) = read_vectors(&format!("{folder}/base.fbin"), rows);
        let (_, queries) = read_vectors(&format!("{folder}/query.fbin"), 2_000);
        Data::new(dimension, rows, queries)
    }

    fn drawn(dimension: usize, rows: usize) -> Data {
        let mut random = SplitMix(17);
        let base: Vec<f32> = (0..1_024 * dimension).map(|_| random.normal()).collect();
        let draw = |ids: std::ops::Range<usize>| ids.flat_map(|id| draw(id, dimension, &base));
        Data::new(dimension, draw(0..rows).collect(), draw(rows..rows + 2_000).collect())
    }

    fn new(dimension: usize, mut rows: Vec<f32>, mut queries: Vec<f32>) -> Data {
        for vector in rows.chunks_exact_mut(dimension).chain(queries.chunks_exact_mut(dimension)) {
            let norm = kernels::norm_squared(vector).sqrt();
            vector.iter_mut().for_each(|x| *x /= norm);
        }
        let count = rows.len() / dimension;
        let topics = (0..TOPICS).map(|at| at * (count / TOPICS)).collect();
        Data { dimension, rows, queries, topics }
    }

    fn row(&self, at: usize) -> &[f32] {
        &self.rows[at * self.dimension..][..self.dimension]
    }

    fn query(&self, at: usize) -> &[f32] {
        &self.queries[at * self.dimension..][..self.dimension]
    }

    fn topic(&self, vector: &[f32]) -> usize {
        let far = |&topic: &usize| kernels::l2_squared(vector, self.row(self.topics[topic]));
        (0..TOPICS).min_by(|a, b| far(a).total_cmp(&far(b))).expect("a topic")
    }

    /// A number that follows the vector.
    fn along(&self, vector: &[f32]) -> i64 {
        (kernels::inner_product(vector, self.row(self.topics[0])) * 1e6) as i64
    }
}

fn read_vectors(path: &str, most: usize) -> (usize, Vec<f32>) {
    let bytes = fs::read(path).expect("vectors");
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    let (rows, dimension) = ((number(0) as usize).min(most), number(4) as usize);
    let values = bytes[8..8 + rows * dimension * 4].chunks_exact(4);
    (dimension, values.map(|x| f32::from_le_bytes(x.try_into().expect("4 bytes"))).collect())
}

const SCHEMA: [(&str, AttributeKind); 10] = [
    ("half", AttributeKind::Bool),
    ("fifth", AttributeKind::Bool),
    ("r4", AttributeKind::Keyword),
    ("s4", AttributeKind::Keyword),
    ("r1", AttributeKind::Keyword),
    ("r01", AttributeKind::Keyword),
    ("price", AttributeKind::F64),
    ("topic", AttributeKind::Keyword),
    ("along", AttributeKind::I64),
    ("topics", AttributeKind::Keywords),
];

fn build(data: &Data, settings: IndexSettings) -> (Cluster, Vec<i64>) {
    let mut index = Cluster::new(settings, ClusterSettings::default());
    let schema = Schema::new(SCHEMA).expect("a schema");
    let mut builder = AttributesBuilder::default();
    let mut random = SplitMix(99);
    let mut along = Vec::new();
    for id in 0..data.rows.len() / data.dimension {
        let vector = data.row(id);
        let topic = data.topic(vector);
        along.push(data.along(vector));
        builder.clear();
        let mut set = |column, value: ValueRef<'_>| {
            builder.set(&schema, column, &value).expect("a value");
        };
        set(0, ValueRef::Bool(random.below(2) == 0));
        set(1, ValueRef::Bool(random.below(5) == 0));
        for (column, words) in [(2, 25), (3, 25), (4, 100), (5, 1_000)] {
            set(column, ValueRef::Keyword(&word(random.below(words))));
        }
        set(6, ValueRef::F64(random.below(1_000_000) as f64 / 10_000.0));
        set(7, ValueRef::Keyword(&word(topic)));
        set(8, ValueRef::I64(along[id]));
        let (own, other) = (word(topic), word(random.below(TOPICS)));
        set(9, ValueRef::Keywords(if own == other { vec![&own] } else { vec![&own, &other] }));
        let fields = Fields { attributes: builder.build(), ..Fields::NONE };
        let key = RowKey { id: id as u64, version: 1, code: 0, shard: 0 };
        index.upsert_over(IndexRow { key, vector: VectorRef::F32(vector), fields }, &mut |_| {});
    }
    along.sort_unstable();
    (index, along)
}

fn word(number: usize) -> String {
    format!("word {number}")
}

fn is(column: u16, number: usize) -> Filter {
    Filter::Attribute(column, Test::KeywordIn(vec![word(number)]))
}

fn price(random: &mut SplitMix, width: f64) -> Filter {
    let low = random.below(1_000) as f64 / 1_000.0 * (100.0 - width);
    let range = Range { from: Bound::Included(low), to: Bound::Excluded(low + width) };
    Filter::Attribute(6, Test::F64Range(range))
}

/// The filters of one kind: one per query.
type Maker<'a> = Box<dyn Fn(&[f32], &mut SplitMix) -> Option<Filter> + 'a>;

fn kinds<'a>(data: &'a Data, along: &'a [i64]) -> Vec<(&'a str, Maker<'a>)> {
    let random = |column: u16, words: usize| -> Maker<'a> {
        Box::new(move |_, random| Some(is(column, random.below(words))))
    };
    let truth = |column| -> Maker<'a> {
        Box::new(move |_, _| Some(Filter::Attribute(column, Test::Bool(true))))
    };
    let priced = |width| -> Maker<'a> { Box::new(move |_, random| Some(price(random, width))) };
    let latest = |share: f64| -> Maker<'a> {
        let least = along[((1.0 - share) * along.len() as f64) as usize];
        Box::new(move |_, _| {
            let range = Range { from: Bound::Included(least), to: Bound::Unbounded };
            Some(Filter::Attribute(8, Test::I64Range(range)))
        })
    };
    let own = |vector: &[f32]| is(7, data.topic(vector));
    let other = |vector: &[f32], random: &mut SplitMix| {
        is(7, (data.topic(vector) + 1 + random.below(TOPICS - 1)) % TOPICS)
    };
    vec![
        ("none", Box::new(|_, _| None)),
        ("50 %", truth(0)),
        ("20 %", truth(1)),
        ("4 %", random(2, 25)),
        ("1 %", random(4, 100)),
        ("0.1 %", random(5, 1_000)),
        (
            "two of 4 %",
            Box::new(|_, random| {
                Some(Filter::And(vec![is(2, random.below(25)), is(3, random.below(25))]))
            }),
        ),
        ("own topic", Box::new(move |vector, _| Some(own(vector)))),
        ("other topic", Box::new(move |vector, random| Some(other(vector, random)))),
        (
            "own topic and 4 %",
            Box::new(move |vector, random| {
                Some(Filter::And(vec![own(vector), is(2, random.below(25))]))
            }),
        ),
        (
            "other topic and 4 %",
            Box::new(move |vector, random| {
                Some(Filter::And(vec![other(vector, random), is(2, random.below(25))]))
            }),
        ),
        (
            "any of two",
            Box::new(|vector, random| {
                let of = [data.topic(vector), random.below(TOPICS)].map(word).to_vec();
                Some(Filter::Attribute(9, Test::AnyOf(of)))
            }),
        ),
        ("price, 10 %", priced(10.0)),
        ("price, 1 %", priced(1.0)),
        ("price, 0.1 %", priced(0.1)),
        ("farthest along, 4 %", latest(0.04)),
        ("farthest along, 0.4 %", latest(0.004)),
    ]
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let text = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).map(String::as_str)
    };
    let number = |name: &str, otherwise: f64| {
        text(name).map_or(otherwise, |value| value.parse().expect("a number"))
    };
    let rows = number("--rows", 100_000.0) as usize;
    let data = match text("--folder") {
        // Benches run in the folder of their crate.
        Some(folder) => Data::read(&format!("../../{folder}"), rows),
        None => Data::drawn(number("--dimension", 128.0) as usize, rows),
    };
    let dimension = data.dimension;
    let settings = IndexSettings { dimension, metric: Metric::L2, element: Element::F32, seed: 17 };
    let before = thread_us();
    let (index, along) = build(&data, settings);
    println!("{rows} rows in {:.1} s", (thread_us() - before) / 1e6);
    let reader = index.reader();
    let snapshot = reader.snapshot(None);
    println!("{} leaves", snapshot.leaves());
    for (name, maker) in kinds(&data, &along) {
        if text("--only").is_some_and(|only| !only.split(';').any(|one| one == name)) {
            continue;
        }
        let mut random = SplitMix(3);
        let asked: Vec<(&[f32], Option<Filter>)> = (0..number("--queries", 300.0) as usize)
            .map(|at| data.query(at + FIRST))
            .map(|vector| (vector, maker(vector, &mut random)))
            .collect();
        let audited: Vec<(&[f32], Option<Filter>)> = (0..AUDITS)
            .map(|at| data.query(at + FIRST / 2))
            .map(|vector| (vector, maker(vector, &mut random)))
            .collect();
        let target = number("--target", 0.955);
        let rounds = number("--rounds", 5.0) as usize;
        measure(name, settings, &*snapshot, (&asked, &audited), (target, rounds));
    }
}

/// Queries with their filters.
type Asked<'a> = [(&'a [f32], Option<Filter>)];

fn measure(
    name: &str,
    settings: IndexSettings,
    snapshot: &dyn IndexSnapshot,
    (asked, audited): (&Asked<'_>, &Asked<'_>),
    (target, rounds): (f64, usize),
) {
    let (mut state, mut exact) = (PlaceState::<Scratch>::default(), Scratch::new());
    let mut staged = Staged { place: snapshot, state: &mut state, read: &|_| Ok(Vec::new()) };
    let mut places: [&mut dyn FilteredPlace<Error = Infallible>; 1] = [&mut staged];
    let (mut scratch, mut out) = (FilteredScratch::default(), TopK::new(K));
    let (mut needs, mut all) = (Vec::new(), Vec::new());
    let stop = Stop { theta: f32::INFINITY, patience: PATIENCE };
    let before = thread_us();
    for (vector, filter) in audited {
        let filter = filter.as_ref();
        let probe = FilteredProbe { settings, vector, k: K, filter, stop, by_share: &[] };
        let Ok(_) = audit_filtered(&mut places, &probe, &mut scratch, &mut out, &mut needs);
        all.append(&mut needs);
    }
    let audit = (thread_us() - before) / audited.len() as f64;
    let stop = Stop { theta: theta_for(&mut all, target), patience: PATIENCE };
    let mut least = vec![f64::INFINITY; asked.len()];
    let (mut hits, mut wanted) = (0, 0);
    let (mut leaves, mut measured, mut codes, mut matches) = (0, 0, 0, 0);
    for round in 0..rounds {
        for ((vector, filter), least) in asked.iter().zip(&mut least) {
            let filter = filter.as_ref();
            let probe = FilteredProbe { settings, vector, k: K, filter, stop, by_share: &[] };
            let before = thread_us();
            let Ok(stats) =
                search_filtered(&mut places, &probe, &mut scratch, &mut out, &mut |_, _| {});
            *least = least.min(thread_us() - before);
            if round > 0 {
                continue;
            }
            leaves += stats.work.leaves;
            measured += stats.work.exact;
            codes += stats.work.rows;
            let mut truth = TopK::new(K);
            let probe = Probe { vector, k: K, effort: Effort::Exact, filter };
            matches += snapshot.search(&probe, &mut exact, &mut truth).exact;
            let found = |t: &&vstream_vector::Neighbor| out.rows().iter().any(|r| r.id == t.id);
            hits += truth.rows().iter().filter(found).count();
            wanted += truth.len();
        }
    }
    let mean = least.iter().sum::<f64>() / least.len() as f64;
    least.sort_unstable_by(f64::total_cmp);
    let per = |sum: usize| sum as f64 / asked.len() as f64;
    println!(
        "{name:>22}: mean {mean:6.1} p50 {:6.1} p99 {:6.1} us, recall {:.3}, theta {:.3}, {:6.1} \
         leaves, {:6.0} codes, {:5.0} exact of {:6.0} matches, audit {audit:.0} us",
        least[least.len() / 2],
        least[least.len() * 99 / 100],
        hits as f64 / wanted.max(1) as f64,
        stop.theta,
        per(leaves),
        per(codes),
        per(measured),
        per(matches),
    );
}
