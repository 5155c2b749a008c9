//! What fields cost in a segment: bytes per row of each kind of column, time to open, time of a scan
//! with a filter.
//!
//! `cargo bench -p vstream-segment --bench fields`; `ROWS=1000000` for more rows.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use vstream_attribute::{FieldsBuffer, Filter, Range, Test, ValueRef};
use vstream_index::stages::{ExactSearch, RotatedQuery, StagedSearch, Wanted};
use vstream_index::{IndexRow, RowKey, VectorRef};
use vstream_segment::{
    Codes, LeafRows, OpenOptions, Segment, SegmentKind, SegmentSearchState, SegmentSettings,
    SegmentSummary, SegmentWriter, Tombstones, WantedFields,
};
use vstream_store::codec::{Policy, Tier};
use vstream_store::{Access, Cache, FileStore, Memory, Store, Syncing};
use vstream_vector::{Element, Metric, SplitMix};

const DIMENSION: usize = 100;
const LEAF_ROWS: u64 = 260;

type Put = fn(&mut SplitMix, u64, &mut FieldsBuffer);

fn word(random: &mut SplitMix, of: usize) -> String {
    format!("word-{:03}", random.below(of))
}

/// One kind of field each.
const KINDS: [(&str, Put); 12] = [
    ("nothing", |_, _, _| {}),
    ("keyword, 4 values", |random, _, out| out.push(0, &ValueRef::Keyword(&word(random, 4)))),
    ("keyword, 100 values", |random, _, out| out.push(0, &ValueRef::Keyword(&word(random, 100)))),
    ("keyword, 100 values, in half of the rows", |random, row, out| {
        if row.is_multiple_of(2) {
            out.push(0, &ValueRef::Keyword(&word(random, 100)));
        }
    }),
    ("keyword, unique, 20 bytes", |random, _, out| {
        out.push(0, &ValueRef::Keyword(&format!("sku-{:016x}", random.next())));
    }),
    ("i64, 0 to 999", |random, _, out| out.push(0, &ValueRef::I64(random.below(1000) as i64))),
    ("timestamp, ascending", |_, row, out| {
        out.push(0, &ValueRef::Timestamp(1_790_000_000_000 + 37 * row as i64));
    }),
    ("f64", |random, _, out| out.push(0, &ValueRef::F64(f64::from(random.unit()) * 99.0))),
    ("bool", |random, _, out| out.push(0, &ValueRef::Bool(random.below(5) == 0))),
    ("list, 0 to 4 of 30 keywords", |random, _, out| {
        let words: Vec<String> = (0..random.below(5)).map(|_| word(random, 30)).collect();
        out.push(0, &ValueRef::Keywords(words.iter().map(String::as_str).collect()));
    }),
    ("name, 18 bytes", |random, row, out| {
        out.set_name(&format!("document-{row:09}"), random.next());
    }),
    ("payload, 120 bytes of JSON", |random, row, out| {
        let (title, price) = (word(random, 900), random.below(10_000));
        let json = format!(
            "{{\"title\":\"the {title} of row {row}\",\"price\":{price},\"currency\":\"EUR\",\
             \"url\":\"https://example.org/{title}/{row}\"}}"
        );
        out.set_payload(Some(json.as_bytes()));
    }),
];

fn written(store: &dyn Store, name: &str, rows: u64, put: Put) -> SegmentSummary {
    let settings = SegmentSettings {
        dimension: DIMENSION,
        metric: Metric::L2,
        element: Element::F32,
        kind: SegmentKind::Cluster,
        seed: 1,
        identity: 7,
        first_leaf: 0,
        policy: Policy::Best(Tier::Hot),
    };
    let mut random = SplitMix(11);
    let mut writer = SegmentWriter::create_with_fields(store, name, settings).expect("a file");
    let mut leaf = LeafRows::new(Element::F32, DIMENSION);
    let mut fields = FieldsBuffer::default();
    for first in (0..rows).step_by(LEAF_ROWS as usize) {
        leaf.clear();
        let centre: Vec<f32> = (0..DIMENSION).map(|_| random.normal()).collect();
        for row in first..rows.min(first + LEAF_ROWS) {
            let vector: Vec<f32> = centre.iter().map(|x| x + random.normal()).collect();
            fields.clear();
            put(&mut random, row, &mut fields);
            let key = RowKey { id: row, version: 1, code: 0, shard: 0 };
            let vector = VectorRef::F32(&vector);
            leaf.push(IndexRow { key, vector, fields: fields.fields() });
        }
        writer.leaf(&leaf).expect("rows that fit");
    }
    writer.finish().expect("a segment")
}

fn opened(store: &dyn Store, name: &str) -> Segment {
    let file = store.open(name, Access::Cached).expect("the segment");
    let cache = Some(Arc::new(Cache::new(256 << 20)));
    Segment::open(file, OpenOptions { cache, codes: Codes::Resident }).expect("a whole segment")
}

/// Nanoseconds per leaf of a scan of all leaves, blocks cached, the best of some rounds.
fn scan_ns(segment: &Segment, filter: Option<&Filter>) -> (f64, usize, f64) {
    let tombstones = Tombstones::none(segment.rows() as u32);
    let view = segment.at(&tombstones, 0);
    let (mut state, mut rotated) = (SegmentSearchState::default(), RotatedQuery::default());
    let mut random = SplitMix(5);
    let query: Vec<f32> = (0..DIMENSION).map(|_| random.normal()).collect();
    rotated.rotate(view.rotation().expect("codes"), &query);
    let (mut best, mut matches, mut select) = (f64::INFINITY, 0, f64::INFINITY);
    for _ in 0..9 {
        let begun = Instant::now();
        black_box(view.select(filter, &mut state).expect("a filter"));
        select = select.min(begun.elapsed().as_nanos() as f64);
        let mut costs = Vec::new();
        view.estimate_leaves(&rotated, segment.leaves(), &mut state, &mut costs);
        costs.clear();
        view.rank_leaves(&rotated, f32::INFINITY, &mut state, &mut costs);
        let (mut candidates, wanted) =
            (Vec::new(), Wanted { keep: 100, below: f32::INFINITY, deviations: 0.0 });
        let begun = Instant::now();
        view.keep_leaves(0..usize::MAX, f32::INFINITY, &mut state);
        matches = 0;
        while let Some(addresses) = view.next_codes(&mut state) {
            let read = view.blocks().read_many(&addresses).expect("blocks");
            let scanned = view.scan_codes(&rotated, &read, wanted, &mut state, &mut candidates);
            let scanned = scanned.expect("blocks that can be read");
            matches += scanned.matches;
        }
        best = best.min(begun.elapsed().as_nanos() as f64);
        black_box(&candidates);
    }
    (best / segment.leaves() as f64, matches, select / 1e3)
}

fn main() {
    let rows: u64 =
        std::env::var("ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(200_000);
    let store = FileStore::new(Arc::new(Memory::new()), Syncing::Off);
    println!("{rows} rows, {DIMENSION} dimensions, leaves of {LEAF_ROWS}; bytes per row");
    println!("{:<42} {:>8} {:>8} {:>8} {:>9}", "field", "blocks", "summary", "memory", "open ms");
    let per_row = |bytes: u64| bytes as f64 / rows as f64;
    for (name, put) in KINDS {
        let summary = written(&store, "a.seg", rows, put);
        let begun = Instant::now();
        let segment = opened(&store, "a.seg");
        let open = begun.elapsed().as_secs_f64() * 1e3;
        let blocks = summary.column_bytes + summary.name_bytes + summary.payload_bytes;
        println!(
            "{name:<42} {:>8.2} {:>8.2} {:>8.2} {open:>9.1}",
            per_row(blocks),
            per_row(summary.fields_bytes),
            per_row(segment.memory().fields)
        );
        store.delete("a.seg").expect("the segment");
    }
    scans(&store, rows);
}

/// Times scans with filters, and fields of answers.
fn scans(store: &FileStore, rows: u64) {
    written(store, "b.seg", rows, |random, row, out| {
        out.push(0, &ValueRef::Keyword(&word(random, 5)));
        out.push(1, &ValueRef::Keyword(&word(random, 1000)));
        out.push(2, &ValueRef::F64(f64::from(random.unit())));
        let words: Vec<String> = (0..random.below(5)).map(|_| word(random, 30)).collect();
        out.push(3, &ValueRef::Keywords(words.iter().map(String::as_str).collect()));
        out.push(4, &ValueRef::Keyword(&format!("sku-{row}")));
        out.set_payload(Some(format!("{{\"row\":{row},\"title\":\"a title\"}}").as_bytes()));
    });
    let segment = opened(store, "b.seg");
    let below = |most| {
        let to = std::ops::Bound::Excluded(most);
        let range = Range { from: std::ops::Bound::Unbounded, to };
        Filter::Attribute(2, Test::F64Range(range))
    };
    let is = |column, text: &str| Filter::Attribute(column, Test::KeywordIn(vec![text.to_owned()]));
    let filters = [
        ("none", None),
        ("keyword =, 20 %", Some(is(0, "word-003"))),
        ("keyword =, 0.1 %", Some(is(1, "word-077"))),
        ("keyword =, unique", Some(is(4, "sku-777"))),
        ("f64 <, 50 %", Some(below(0.5))),
        ("f64 <, 1 %", Some(below(0.01))),
        ("list has, 7 %", Some(Filter::Attribute(3, Test::AnyOf(vec!["word-009".to_owned()])))),
        ("both keyword and f64", Some(Filter::And(vec![is(0, "word-003"), below(0.5)]))),
    ];
    println!("\n{:<42} {:>10} {:>12} {:>10}", "filter", "ns a leaf", "matches", "select us");
    for (name, filter) in &filters {
        let (ns, matches, select) = scan_ns(&segment, filter.as_ref());
        println!("{name:<42} {ns:>10.0} {matches:>12} {select:>10.1}");
    }
    let mut random = SplitMix(3);
    let (mut best, wanted) = (f64::INFINITY, WantedFields::ALL);
    let answers: Vec<u32> = (0..10).map(|_| random.below(rows as usize) as u32).collect();
    for _ in 0..50 {
        let begun = Instant::now();
        black_box(segment.fields(&answers, &wanted).expect("fields"));
        best = best.min(begun.elapsed().as_secs_f64() * 1e6);
    }
    println!("\nall fields of 10 answers, blocks cached: {best:.0} us");
}
