//! The cost of rows with attributes: writes, updates of attributes alone, and filtered searches.
//!
//! `cargo bench -p vstream-index --bench fields -- --rows 100000 --dimension 128`

mod workload;

use std::convert::Infallible;
use std::ops::Bound;

use vstream_attribute::{
    AttributeKind, AttributesBuilder, Fields, Filter, Range, Schema, Test, Update, ValueRef,
};
use vstream_index::stages::{
    calibrate, search_filtered, FilteredPlace, FilteredProbe, FilteredScratch, PlaceState, Staged,
};
use vstream_index::{
    Cluster, ClusterSettings, Effort, IndexRow, IndexSettings, IndexSnapshot, Insert, Probe,
    RowKey, Scratch, VectorRef,
};
use vstream_vector::{Element, Metric, SplitMix, TopK};

use workload::{draw, thread_us};

const QUERIES: usize = 200;
const ROUNDS: usize = 5;

/// Rows with a topic that follows the centre, a user of 1,000, a price, a time and a flag.
struct Shop {
    schema: Schema,
    builder: AttributesBuilder,
}

impl Shop {
    fn new() -> Shop {
        let schema = Schema::new([
            ("topic", AttributeKind::Keyword),
            ("user", AttributeKind::Keyword),
            ("price", AttributeKind::F64),
            ("at", AttributeKind::Timestamp),
            ("flag", AttributeKind::Bool),
        ]);
        Shop { schema: schema.expect("a schema"), builder: AttributesBuilder::default() }
    }

    fn fields(&mut self, id: usize, step: u64) -> Fields<'_> {
        let mut random = SplitMix(id as u64 * 31 + step);
        self.builder.clear();
        let (topic, user) =
            (format!("topic {}", id % 1_000 / 10), format!("user {}", id / 7 % 1_000));
        let mut set = |column, value: ValueRef<'_>| {
            self.builder.set(&self.schema, column, &value).expect("a value");
        };
        set(0, ValueRef::Keyword(&topic));
        set(1, ValueRef::Keyword(&user));
        set(2, ValueRef::F64((random.next() % 10_000) as f64 / 10_000.0));
        set(3, ValueRef::Timestamp(step as i64));
        set(4, ValueRef::Bool(random.below(2) == 0));
        Fields { attributes: self.builder.build(), ..Fields::NONE }
    }
}

fn below(price: f64) -> Filter {
    let (from, to) = (Bound::Unbounded, Bound::Excluded(price));
    Filter::Attribute(2, Test::F64Range(Range { from, to }))
}

fn is(column: u16, text: &str) -> Filter {
    Filter::Attribute(column, Test::KeywordIn(vec![text.to_owned()]))
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str, otherwise: usize| {
        let at = arguments.iter().position(|argument| argument == name);
        at.map_or(otherwise, |at| arguments[at + 1].parse().expect("a number"))
    };
    let (rows, dimension) = (value("--rows", 100_000), value("--dimension", 128));
    let mut random = SplitMix(17);
    let base: Vec<f32> = (0..1_024 * dimension).map(|_| random.normal()).collect();
    let vectors: Vec<Vec<f32>> = (0..rows).map(|id| draw(id, dimension, &base)).collect();
    let settings = IndexSettings { dimension, metric: Metric::L2, element: Element::F32, seed: 17 };
    let mut index = Cluster::new(settings, ClusterSettings::default());
    let mut shop = Shop::new();
    let before = thread_us();
    for (id, vector) in vectors.iter().enumerate() {
        let key = RowKey { id: id as u64, version: 1, code: 0, shard: 0 };
        let row = IndexRow { key, vector: VectorRef::F32(vector), fields: shop.fields(id, 1) };
        index.upsert_over(row, &mut |_| {});
    }
    let insert = (thread_us() - before) / rows as f64;
    let bytes = index.stats().memory_bytes as f64 / rows as f64;
    println!("insert with 5 attributes {insert:.2} us, {bytes:.0} bytes per row");
    update(&mut index, &mut shop, rows);
    let reader = index.reader();
    search(settings, &*reader.snapshot(None), &vectors, &base);
}

/// Every row once, in random order, and as many again.
fn update(index: &mut Cluster, shop: &mut Shop, rows: usize) {
    let mut random = SplitMix(5);
    let ids: Vec<usize> = (0..2 * rows).map(|_| random.below(rows)).collect();
    let making = thread_us();
    for (&id, step) in ids.iter().zip(2u64..) {
        std::hint::black_box(shop.fields(id, step));
    }
    let making = thread_us() - making;
    let before = thread_us();
    for (&id, step) in ids.iter().zip(2u64..) {
        let fields = shop.fields(id, step);
        assert!(index.replace_fields(id as u64, step, fields));
    }
    let took = (thread_us() - before - making) / ids.len() as f64;
    println!("all 5 attributes replaced {took:.2} us: {:.0} per second", 1e6 / took);
    let first = 2 + ids.len() as u64;
    let looked = timed(&ids, first, &mut |id, _| index.version_of(id).is_some());
    let took = timed(&ids, first, &mut |id, step| {
        shop.builder.clear();
        let price = ValueRef::F64((step * 7 % 10_000) as f64 / 10_000.0);
        shop.builder.set(&shop.schema, 2, &price).expect("a price");
        let update = Update { set: shop.builder.build(), ..Update::default() };
        index.change_fields(id, step, &update)
    });
    println!("one attribute changed {took:.2} us: {:.0} per second", 1e6 / took);
    println!("look-up of an id alone {looked:.2} us");
}

/// Microseconds per call of `apply`, which gets an id and a version and succeeds.
fn timed(ids: &[usize], first: u64, apply: &mut dyn FnMut(u64, u64) -> bool) -> f64 {
    let before = thread_us();
    for (&id, step) in ids.iter().zip(first..) {
        assert!(apply(id as u64, step));
    }
    (thread_us() - before) / ids.len() as f64
}

fn search(settings: IndexSettings, snapshot: &dyn IndexSnapshot, rows: &[Vec<f32>], base: &[f32]) {
    let samples: Vec<(u64, Vec<f32>)> =
        (0..250).map(|i| i * (rows.len() / 251)).map(|id| (id as u64, rows[id].clone())).collect();
    let (mut state, mut exact) = (PlaceState::<Scratch>::default(), Scratch::new());
    let mut staged = Staged { place: snapshot, state: &mut state, read: &|_| Ok(Vec::new()) };
    let mut places: [&mut dyn FilteredPlace<Error = Infallible>; 1] = [&mut staged];
    let before = thread_us();
    let Ok(stop) = calibrate(&mut places, settings, &samples, (10, 0.965));
    println!("{stop:?} from 250 rows in {:.1} ms", (thread_us() - before) / 1e3);
    let queries: Vec<Vec<f32>> =
        (0..QUERIES).map(|i| draw(rows.len() + i * 7, settings.dimension, base)).collect();
    let filters: [(&str, Option<Filter>); 9] = [
        ("no filter", None),
        ("price, 50 %", Some(below(0.5))),
        ("price, 20 %", Some(below(0.2))),
        ("price, 4 %", Some(below(0.04))),
        ("price, 1 %", Some(below(0.01))),
        ("price, 0.1 %", Some(below(0.001))),
        ("one topic, 1 %", Some(is(0, "topic 7"))),
        ("one user, 0.1 %", Some(is(1, "user 7"))),
        ("one topic and price, 0.2 %", Some(Filter::And(vec![is(0, "topic 7"), below(0.2)]))),
    ];
    for (name, filter) in &filters {
        let filter = filter.as_ref();
        let (mut scratch, mut out) = (FilteredScratch::default(), TopK::new(10));
        let (mut times, mut hits, mut wanted) = (Vec::new(), 0, 0);
        let (mut leaves, mut measured, mut codes) = (0, 0, 0);
        for round in 0..ROUNDS {
            let before = thread_us();
            for vector in &queries {
                let probe = FilteredProbe { settings, vector, k: 10, filter, stop, by_share: &[] };
                let Ok(stats) =
                    search_filtered(&mut places, &probe, &mut scratch, &mut out, &mut |_, _| {});
                leaves += stats.work.leaves;
                measured += stats.work.exact;
                codes += stats.work.rows;
            }
            times.push((thread_us() - before) / QUERIES as f64);
            for vector in queries.iter().skip(round * 10).take(10) {
                let probe = FilteredProbe { settings, vector, k: 10, filter, stop, by_share: &[] };
                let Ok(_) =
                    search_filtered(&mut places, &probe, &mut scratch, &mut out, &mut |_, _| {});
                let mut truth = TopK::new(10);
                let probe = Probe { vector, k: 10, effort: Effort::Exact, filter };
                snapshot.search(&probe, &mut exact, &mut truth);
                let found = |t: &&vstream_vector::Neighbor| out.rows().iter().any(|r| r.id == t.id);
                hits += truth.rows().iter().filter(found).count();
                wanted += truth.len();
            }
        }
        times.sort_unstable_by(f64::total_cmp);
        let per = |sum: usize| sum as f64 / (ROUNDS * QUERIES) as f64;
        println!(
            "{name}: {:.1} us, recall {:.3}, {:.1} leaves, {:.0} codes, {:.0} exact",
            times[0],
            hits as f64 / wanted.max(1) as f64,
            per(leaves),
            per(codes),
            per(measured)
        );
    }
}
