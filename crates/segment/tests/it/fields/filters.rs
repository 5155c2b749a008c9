//! A filtered search in a segment finds what brute force finds.

use vstream_attribute::{Filter, Test};
use vstream_index::stages::{Candidate, ExactSearch, RotatedQuery, Scanned, StagedSearch, Wanted};
use vstream_index::{distance, Effort, Probe, VectorRef};
use vstream_segment::{
    OpenOptions, Segment, SegmentKind, SegmentScratch, SegmentSearchState, SegmentView, Tombstones,
};
use vstream_store::codec::Tier;
use vstream_vector::{Metric, Neighbor, SplitMix, TopK};

use super::rows::{filter, Rows, AT, COLOUR, SKU, WORD};
use crate::{memory, on_demand, open, resident, settings};

/// Rows with their tombstones, and the segment of them.
struct Sample {
    rows: Rows,
    segment: Segment,
    tombstones: Tombstones,
    metric: Metric,
}

impl Sample {
    fn new(seed: u64, n: usize, dimension: usize, metric: Metric, form: Form) -> Sample {
        let mut rows = Rows::random(seed, n, dimension);
        if metric == Metric::Cosine {
            rows.vectors.iter_mut().for_each(|vector| {
                let length = vstream_vector::kernels::norm_squared(vector).sqrt();
                vector.iter_mut().for_each(|x| *x /= length);
            });
        }
        let store = memory();
        let settings = vstream_segment::SegmentSettings {
            metric,
            ..settings(dimension, form.kind, Tier::Hot)
        };
        rows.write(&store, "a.seg", settings);
        let segment = open(&store, "a.seg", (form.options)());
        let tombstones = Tombstones::none(n as u32);
        let mut random = SplitMix(seed ^ 1);
        for row in 0..n as u32 {
            if random.below(10) == 0 {
                tombstones.add(row, 1 + random.below(9) as u64);
            }
        }
        Sample { rows, segment, tombstones, metric }
    }

    fn view(&self) -> SegmentView<'_> {
        self.segment.at(&self.tombstones, 5)
    }

    /// Visible rows for which the filter holds.
    fn matching(&self, filter: &Filter) -> Vec<usize> {
        let mut rows = self.rows.matching(filter);
        rows.retain(|&row| self.tombstones.is_visible(row as u32, 5));
        rows
    }

    /// All matching rows, nearest first.
    fn nearest(&self, query: &[f32], matching: &[usize]) -> Vec<Neighbor> {
        let neighbour = |&row: &usize| Neighbor {
            distance: distance(self.metric, query, VectorRef::F32(&self.rows.vectors[row])),
            id: self.rows.keys[row].id,
            version: self.rows.keys[row].version,
        };
        let mut all: Vec<Neighbor> = matching.iter().map(neighbour).collect();
        all.sort_unstable_by(|a, b| a.distance.total_cmp(&b.distance).then(a.id.cmp(&b.id)));
        all
    }
}

struct Form {
    kind: SegmentKind,
    options: fn() -> OpenOptions,
}

fn search(view: SegmentView<'_>, probe: &Probe<'_>) -> Vec<Neighbor> {
    let mut top = TopK::new(probe.k);
    view.search(probe, &mut SegmentScratch::new(), &mut top).unwrap();
    let mut out = Vec::new();
    top.drain_sorted(&mut out);
    out
}

fn check(sample: &Sample, filter: &Filter, query: &[f32], what: &str) {
    let view = sample.view();
    let matching = sample.matching(filter);
    let truth = sample.nearest(query, &matching);
    let mut keys = Vec::new();
    view.for_each_key(Some(filter), &mut |row, key| {
        assert_eq!(key, sample.rows.keys[row as usize], "{what}");
        keys.push(row as usize);
    })
    .unwrap();
    assert_eq!(keys, matching, "{what}");
    let k = 10;
    let expected = &truth[..truth.len().min(k)];
    let everything = Effort::Approximate { probes: 1000, refine: sample.rows.len() };
    for effort in [Effort::Exact, everything, Effort::Approximate { probes: 1, refine: 20 }] {
        let probe = Probe { vector: query, k, effort, filter: Some(filter) };
        let found = search(view, &probe);
        if matches!(effort, Effort::Approximate { probes: 1, .. }) {
            assert_eq!(found.len(), expected.len(), "{what}: as many rows as there are");
            assert!(found.iter().all(|row| truth.contains(row)), "{what}: only rows that match");
        } else {
            assert_eq!(found, expected, "{what}, {effort:?}");
        }
    }
    if let Some(middle) = truth.get(truth.len() / 3) {
        let mut within = Vec::new();
        view.search_radius(query, middle.distance, Some(filter), &mut within).unwrap();
        within.sort_unstable_by(|a, b| a.distance.total_cmp(&b.distance).then(a.id.cmp(&b.id)));
        let near = truth.iter().take_while(|row| row.distance <= middle.distance);
        assert!(near.eq(&within), "{what}: within {}", middle.distance);
    }
    if sample.segment.kind() == SegmentKind::Cluster {
        check_stages(sample, filter, query, matching.len(), what);
    }
}

/// Scans all leaves, a few at a time, and counts.
fn check_stages(sample: &Sample, filter: &Filter, query: &[f32], matches: usize, what: &str) {
    let view = sample.view();
    let mut state = SegmentSearchState::default();
    let most = view.select(Some(filter), &mut state).unwrap();
    let all = sample.rows.matching(filter).len();
    assert!(all as u64 <= most && most <= sample.segment.rows(), "{what}: {all} above {most}");
    let mut rotated = RotatedQuery::default();
    rotated.rotate(view.rotation().unwrap(), query);
    let (mut costs, leaves) = (Vec::new(), sample.segment.leaves());
    view.estimate_leaves(&rotated, leaves, &mut state, &mut costs);
    costs.clear();
    view.rank_leaves(&rotated, f32::INFINITY, &mut state, &mut costs);
    let mut total = Scanned::default();
    let mut candidates: Vec<Candidate> = Vec::new();
    for from in (0..leaves).step_by(7) {
        let kept = view.keep_leaves(from..from + 7, f32::INFINITY, &mut state);
        assert!(kept <= 7, "{what}");
        while let Some(addresses) = view.next_codes(&mut state) {
            let read = view.blocks().read_many(&addresses).unwrap();
            let wanted = Wanted { keep: sample.rows.len(), below: f32::INFINITY, deviations: 0.0 };
            let found = view.scan_codes(&rotated, &read, wanted, &mut state, &mut candidates);
            let found = found.unwrap();
            assert!(found.leaves <= kept, "{what}");
            total.rows += found.rows;
            total.matches += found.matches;
            total.leaves += found.leaves;
        }
    }
    assert_eq!(total.matches, matches, "{what}");
    assert!(total.rows >= matches && total.rows <= sample.rows.len(), "{what}");
    let mut rows: Vec<usize> =
        candidates.iter().map(|row| view.row_of(row, &state) as usize).collect();
    rows.sort_unstable();
    assert_eq!(rows, sample.matching(filter), "{what}: rows of candidates");
}

#[test]
fn random_filters_find_what_brute_force_finds() {
    let forms = [
        (1201, 3000, 128, Metric::L2, Form { kind: SegmentKind::Cluster, options: on_demand }),
        (1202, 9000, 100, Metric::Cosine, Form { kind: SegmentKind::Cluster, options: resident }),
        (
            1203,
            1500,
            384,
            Metric::InnerProduct,
            Form { kind: SegmentKind::Cluster, options: on_demand },
        ),
        (1204, 2000, 16, Metric::L2, Form { kind: SegmentKind::Flat, options: resident }),
    ];
    for (seed, n, dimension, metric, form) in forms {
        let sample = Sample::new(seed, n, dimension, metric, form);
        sample.segment.verify().unwrap();
        let mut random = SplitMix(seed ^ 2);
        for round in 0..60 {
            let filter = filter(&mut random, &sample.rows, 3);
            let query = &sample.rows.vectors[random.below(n)];
            check(&sample, &filter, query, &format!("seed {seed}, round {round}: {filter:?}"));
        }
    }
}

/// Leaves and blocks without a match are not read.
#[test]
fn what_cannot_match_is_not_read() {
    let form = Form { kind: SegmentKind::Cluster, options: on_demand };
    let sample = Sample::new(1301, 12_000, 64, Metric::L2, form);
    let view = sample.view();
    let read = |filter: &Filter| {
        let before = sample.segment.io();
        let mut seen = 0;
        view.for_each_key(Some(filter), &mut |_, _| seen += 1).unwrap();
        assert_eq!(seen, sample.matching(filter).len(), "{filter:?}");
        sample.segment.io().bytes - before.bytes
    };
    let nothing = Filter::Attribute(COLOUR, Test::KeywordIn(vec!["no such colour".to_owned()]));
    assert_eq!(read(&nothing), 0, "no summary, no dictionary has it");
    // Times ascend with the rows, so few leaves have one.
    let from = 1_700_000_000_000 + 6_000_000;
    let range = vstream_attribute::Range {
        from: std::ops::Bound::Included(from),
        to: std::ops::Bound::Excluded(from + 100_000),
    };
    let hundred = Filter::Attribute(AT, Test::I64Range(range));
    let bytes = read(&hundred);
    assert!(bytes < sample.segment.bytes() / 20, "{bytes} of {}", sample.segment.bytes());
    let mut state = SegmentSearchState::default();
    let most = view.select(Some(&hundred), &mut state).unwrap();
    assert!((100..1200).contains(&most), "{most} rows of a few leaves");
    // Counts of a shared dictionary are exact.
    let red = Filter::Attribute(COLOUR, Test::KeywordIn(vec!["red".to_owned()]));
    let some = Filter::Attribute(WORD, Test::KeywordIn(vec!["w".to_owned(), "word07".to_owned()]));
    for filter in [red, some] {
        let most = view.select(Some(&filter), &mut state).unwrap();
        assert_eq!(most, sample.rows.matching(&filter).len() as u64, "{filter:?}");
    }
    let one = Filter::Ids(vec![sample.rows.keys[77].id]);
    assert_eq!(view.select(Some(&one), &mut state).unwrap(), 1);
    let sku = sample.rows.fields[500].fields().attributes.get(SKU).unwrap();
    let vstream_attribute::ValueRef::Keyword(sku) = sku else { panic!("a keyword") };
    let unique = Filter::Attribute(SKU, Test::KeywordIn(vec![sku.to_owned()]));
    assert!(view.select(Some(&unique), &mut state).unwrap() >= 1);
}

/// A query without a filter after one with a filter sees all rows, and reads no column.
#[test]
fn a_filter_ends_with_its_query() {
    let form = Form { kind: SegmentKind::Cluster, options: on_demand };
    let sample = Sample::new(1401, 2000, 96, Metric::L2, form);
    let query = &sample.rows.vectors[5];
    let effort = Effort::Approximate { probes: 6, refine: 60 };
    let (mut scratch, mut top) = (SegmentScratch::new(), TopK::new(10));
    let nothing = Filter::Or(Vec::new());
    let mut ask = |filter: Option<&Filter>| {
        top.reset(10);
        let probe = Probe { vector: query, k: 10, effort, filter };
        sample.view().search(&probe, &mut scratch, &mut top).unwrap();
        top.len()
    };
    assert_eq!(ask(Some(&nothing)), 0);
    let before = sample.segment.io().rounds;
    assert_eq!(ask(None), 10);
    assert_eq!(sample.segment.io().rounds - before, 2);
    let red = Filter::Attribute(COLOUR, Test::KeywordIn(vec!["red".to_owned()]));
    let before = sample.segment.io().rounds;
    assert_eq!(ask(Some(&red)), 10);
    assert!(sample.segment.io().rounds - before <= 2, "columns come with the codes");
}
