//! What a segment promises, against brute force over the rows that were written.

use std::collections::HashSet;

use vstream_graph::{
    CodeBits, GraphProbe, GraphScratch, GraphSegment, GraphSettings, GraphWriter, Layout, Walk,
};
use vstream_store::{ErrorKind, Store};
use vstream_vector::{Element, Metric, Neighbor, SplitMix, TopK};

use super::{key, memory, open, put, rows, write};

const BLOCKS: Walk<'static> = Walk::Blocks { ratio: 0.3, entries: 8 };

fn settings(dimension: usize, metric: Metric, element: Element) -> GraphSettings {
    GraphSettings {
        degree: 20,
        list: 50,
        layout: Layout::Bns { passes: 4, swaps: 2 },
        sample_degree: 10,
        identity: 0xabc,
        seed: 3,
        ..GraphSettings::new(dimension, metric, element)
    }
}

fn exact(
    segment: &GraphSegment,
    query: &[f32],
    visible: Option<&dyn Fn(u32) -> bool>,
    k: usize,
) -> Vec<Neighbor> {
    let (mut out, mut found) = (TopK::new(k), Vec::new());
    segment.search_exactly(query, visible, &mut out).unwrap();
    out.drain_sorted(&mut found);
    found
}

fn search(segment: &GraphSegment, probe: GraphProbe<'_>, k: usize) -> Vec<Neighbor> {
    let (mut out, mut found) = (TopK::new(k), Vec::new());
    segment.search(&probe, &mut GraphScratch::default(), &mut out).unwrap();
    out.drain_sorted(&mut found);
    found
}

fn share(found: &[Neighbor], truth: &[Neighbor]) -> f64 {
    let ids: HashSet<u64> = found.iter().map(|row| row.id).collect();
    truth.iter().filter(|row| ids.contains(&row.id)).count() as f64 / truth.len() as f64
}

/// The distance by the definition, in doubles.
fn defined(metric: Metric, a: &[f32], b: &[f32]) -> f64 {
    let pairs = || a.iter().zip(b).map(|(&a, &b)| (f64::from(a), f64::from(b)));
    match metric {
        Metric::L2 => pairs().map(|(a, b)| (a - b) * (a - b)).sum(),
        Metric::Cosine => 1.0 - pairs().map(|(a, b)| a * b).sum::<f64>(),
        Metric::InnerProduct => -pairs().map(|(a, b)| a * b).sum::<f64>(),
    }
}

fn check(settings: GraphSettings, count: usize, walk: Walk<'_>, least: f64) {
    let store = memory();
    let all = rows(&settings, count, 11);
    let summary = write(&store, settings, &all);
    let segment = open(&store).unwrap();
    segment.verify().unwrap();
    assert_eq!((summary.rows, segment.digest()), (count as u64, summary.digest));
    let queries = rows(&settings, 30, 12);
    let mut sum = 0.0;
    for query in &queries {
        let truth = exact(&segment, query, None, 10);
        let probe = GraphProbe { vector: query, list: 60, beam: 4, walk, visible: None };
        let found = search(&segment, probe, 10);
        assert!(found.windows(2).all(|pair| pair[0].order(&pair[1]).is_lt()));
        sum += share(&found, &truth) / queries.len() as f64;
    }
    assert!(sum >= least, "{settings:?}: recall {sum}");
    let by_definition = |row: &Vec<f32>| defined(settings.metric, &queries[0], row);
    let mut distances: Vec<f64> = all.iter().map(by_definition).collect();
    distances.sort_by(f64::total_cmp);
    for (found, distance) in exact(&segment, &queries[0], None, 10).iter().zip(distances) {
        let slack = 0.01 * distance.abs().max(1.0);
        assert!((f64::from(found.distance) - distance).abs() < slack, "{found:?} {distance}");
    }
}

#[test]
fn finds_neighbours_of_every_element_and_metric() {
    check(settings(128, Metric::L2, Element::U8), 4000, BLOCKS, 0.95);
    check(settings(96, Metric::L2, Element::I8), 1200, BLOCKS, 0.95);
    check(settings(384, Metric::Cosine, Element::F32), 1200, BLOCKS, 0.95);
    check(settings(768, Metric::Cosine, Element::Bf16), 600, BLOCKS, 0.95);
    check(settings(100, Metric::InnerProduct, Element::F32), 1200, BLOCKS, 0.8);
    check(settings(64, Metric::L2, Element::F16), 1200, BLOCKS, 0.95);
}

/// A record of 1,536 floats takes two pages.
#[test]
fn wide_vectors_and_codes_of_four_bits() {
    let wide = settings(1536, Metric::Cosine, Element::F32);
    check(GraphSettings { codes: CodeBits::Four, ..wide }, 300, BLOCKS, 0.95);
    let bytes = settings(128, Metric::L2, Element::U8);
    let nodes = Walk::Nodes { hot: None };
    check(
        GraphSettings { codes: CodeBits::Four, layout: Layout::IdOrder, ..bytes },
        1500,
        nodes,
        0.95,
    );
    check(GraphSettings { sample: 0.0, ..bytes }, 1500, BLOCKS, 0.9);
}

#[test]
fn few_rows_are_found_all() {
    for count in [0, 1, 2, 15, 16, 17, 33] {
        let store = memory();
        let settings = settings(128, Metric::L2, Element::U8);
        write(&store, settings, &rows(&settings, count, 11));
        let segment = open(&store).unwrap();
        segment.verify().unwrap();
        let query = vec![100.0; 128];
        let probe = GraphProbe { vector: &query, list: 40, beam: 2, walk: BLOCKS, visible: None };
        assert_eq!(search(&segment, probe, 50), exact(&segment, &query, None, 50), "{count} rows");
    }
}

#[test]
fn a_thousand_equal_rows_are_one_node() {
    let store = memory();
    let settings = settings(128, Metric::L2, Element::U8);
    let mut all = rows(&settings, 1500, 11);
    let copy = all[700].clone();
    all.extend((0..1000).map(|_| copy.clone()));
    let summary = write(&store, settings, &all);
    assert_eq!((summary.rows, summary.nodes), (2500, 1500));
    let segment = open(&store).unwrap();
    segment.verify().unwrap();
    let probe = GraphProbe { vector: &copy, list: 40, beam: 4, walk: BLOCKS, visible: None };
    let found = search(&segment, probe, 1000);
    assert_eq!(found, exact(&segment, &copy, None, 1000));
    assert!(found.iter().all(|row| row.distance == 0.0));
    // One of them deleted: the others stay.
    let (row, gone) = segment.find(key(2000).id).unwrap().unwrap();
    let visible = |at: u32| at != row;
    let probe = GraphProbe { visible: Some(&visible), ..probe };
    let found = search(&segment, probe, 1001);
    assert!(!found.iter().any(|found| found.id == gone.id));
    assert_eq!(found[..1000], exact(&segment, &copy, Some(&visible), 1000));
}

#[test]
fn hidden_rows_lead_but_are_not_answers() {
    let store = memory();
    let settings = settings(128, Metric::L2, Element::U8);
    write(&store, settings, &rows(&settings, 4000, 11));
    let segment = open(&store).unwrap();
    let visible = |row: u32| row % 5 == 2;
    let mut sum = 0.0;
    for query in rows(&settings, 20, 14) {
        let probe =
            GraphProbe { vector: &query, list: 40, beam: 4, walk: BLOCKS, visible: Some(&visible) };
        let truth = exact(&segment, &query, Some(&visible), 10);
        let found = search(&segment, probe, 10);
        assert_eq!(found.len(), 10);
        for found in &found {
            let (row, _) = segment.find(found.id).unwrap().unwrap();
            assert!(visible(row));
        }
        sum += share(&found, &truth) / 20.0;
        // The plan for few rows is exact.
        let some: Vec<u32> = (0..4000).filter(|row| row % 97 == 3).collect();
        let (mut out, mut few) = (TopK::new(10), Vec::new());
        segment.search_rows(&some, &query, &mut out).unwrap();
        out.drain_sorted(&mut few);
        assert_eq!(few, exact(&segment, &query, Some(&|row| row % 97 == 3), 10));
    }
    assert!(sum >= 0.95, "recall {sum}");
}

#[test]
fn a_radius_finds_what_is_within_it() {
    let store = memory();
    let settings = settings(128, Metric::L2, Element::U8);
    write(&store, settings, &rows(&settings, 4000, 11));
    let segment = open(&store).unwrap();
    let mut scratch = GraphScratch::default();
    for (query, rank) in rows(&settings, 8, 15).iter().zip([1, 5, 20, 60, 120, 130, 140, 150]) {
        let truth = exact(&segment, query, None, rank);
        let radius = truth.last().unwrap().distance;
        let mut found = Vec::new();
        let probe = GraphProbe { vector: query, list: 30, beam: 4, walk: BLOCKS, visible: None };
        segment.search_radius(&probe, radius, &mut scratch, &mut found).unwrap();
        assert!(found.iter().all(|row| row.distance <= radius));
        let ids: HashSet<u64> = found.iter().map(|row| row.id).collect();
        assert_eq!(ids.len(), found.len(), "a row came twice");
        assert!(share(&found, &truth) >= 0.9, "{} of {rank}", found.len());
    }
}

#[test]
fn block_search_reads_less_than_the_control() {
    let store = memory();
    let settings = settings(128, Metric::L2, Element::U8);
    let all = rows(&settings, 4000, 11);
    write(&store, settings, &all);
    let starling = open(&store).unwrap();
    let other = memory();
    write(&other, GraphSettings { layout: Layout::IdOrder, ..settings }, &all);
    let control = open(&other).unwrap();
    assert!(starling.inspect().overlap > 5.0 * control.inspect().overlap);
    let queries = rows(&settings, 40, 16);
    let hot = control.hottest(&queries, 40, starling.inspect().sample_bytes as usize).unwrap();
    assert!(!hot.is_empty());
    let reads = |segment: &GraphSegment, walk| -> usize {
        let one = |query: &Vec<f32>| {
            let probe = GraphProbe { vector: query, list: 40, beam: 4, walk, visible: None };
            segment.search(&probe, &mut GraphScratch::default(), &mut TopK::new(10)).unwrap().blocks
        };
        queries.iter().map(one).sum()
    };
    let [plain, cached] = [None, Some(&hot)].map(|hot| reads(&control, Walk::Nodes { hot }));
    let blocks = reads(&starling, BLOCKS);
    assert!(cached < plain && blocks < cached, "{blocks} {cached} {plain}");
}

#[test]
fn rows_come_back_as_they_were_written() {
    for element in Element::ALL {
        let store = memory();
        let settings = settings(70, Metric::L2, element);
        let mut all = rows(&settings, 500, 11);
        all[400] = all[20].clone();
        write(&store, settings, &all);
        let segment = open(&store).unwrap();
        let mut seen = HashSet::new();
        segment
            .for_each_row(&mut |at, row| {
                let from = (0..500).find(|&from| key(from).id == row.key.id).unwrap();
                assert_eq!(row.key, key(from));
                assert_eq!(segment.find(row.key.id).unwrap(), Some((at, row.key)));
                let mut wide = vec![0.0; 70];
                row.vector.read(&mut wide);
                let slack = element.roundoff() * 200.0;
                assert!(wide.iter().zip(&all[from]).all(|(a, b)| (a - b).abs() <= slack));
                assert!(seen.insert(from));
            })
            .unwrap();
        assert_eq!(seen.len(), 500);
        assert_eq!(segment.find(u64::MAX).unwrap(), None);
    }
}

#[test]
fn the_same_rows_and_seed_give_the_same_file() {
    let settings = settings(64, Metric::L2, Element::I8);
    let bytes = || {
        let store = memory();
        write(&store, settings, &rows(&settings, 400, 11));
        let file = store.open("a.graph", vstream_store::Access::Cached).unwrap();
        let range = vstream_store::Range { offset: 0, bytes: file.bytes() as usize };
        file.read(range).unwrap().to_vec()
    };
    assert_eq!(bytes(), bytes());
}

#[test]
fn bad_input_is_refused_and_leaves_no_file() {
    let store = memory();
    let good = settings(64, Metric::L2, Element::F32);
    let bad = [
        GraphSettings { dimension: 0, ..good },
        GraphSettings { degree: 1, ..good },
        GraphSettings { degree: 256, ..good },
        GraphSettings { sample_degree: 0, ..good },
        GraphSettings { list: 0, ..good },
        GraphSettings { alpha: f32::NAN, ..good },
        GraphSettings { sample: 0.6, ..good },
        GraphSettings { layout: Layout::Bnf { passes: 0 }, ..good },
    ];
    for settings in bad {
        let refused = GraphWriter::create(&store, "a.graph", settings).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{settings:?}");
    }
    let mut random = SplitMix(1);
    let row: Vec<f32> = (0..64).map(|_| random.normal()).collect();
    let mut writer = GraphWriter::create(&store, "a.graph", good).unwrap();
    let mut refuse = |element, row: &[f32]| {
        let refused = put(&mut writer, element, 1, row).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    };
    refuse(Element::Bf16, &row);
    refuse(Element::F32, &row[1..]);
    for x in [f32::NAN, f32::INFINITY, 1e20] {
        refuse(Element::F32, &[&[x], &row[1..]].concat());
    }
    put(&mut writer, Element::F32, 1, &row).unwrap();
    put(&mut writer, Element::F32, 1, &row).unwrap();
    assert_eq!(writer.finish().unwrap_err().kind(), ErrorKind::Invalid);
    assert!(store.list("").unwrap().is_empty());
}
