//! A changed, missing or added byte of a segment is an error, never an answer and never a panic.

use std::sync::Arc;

use vstream_attribute::Filter;
use vstream_index::stages::ExactSearch;
use vstream_index::{Effort, Probe};
use vstream_segment::{
    Codes, OpenOptions, Segment, SegmentKind, SegmentScratch, Tombstones, WantedFields,
};
use vstream_store::codec::Tier;
use vstream_store::{Access, Range, Store};
use vstream_store::{Error, ErrorKind};
use vstream_vector::Element;
use vstream_vector::{SplitMix, TopK};

use super::fields::{field_blocks, filter, small_segment, Rows};
use super::{memory, resident, settings, write};

fn row(id: u64) -> Vec<f32> {
    (0..20).map(|d| ((id * 53 + d * 29) % 200) as f32).collect()
}

/// Opens the bytes and asks everything of them.
fn use_all(bytes: &[u8], codes: Codes) -> Result<(), Error> {
    let store = memory();
    store.put("a.seg", bytes)?;
    let file = store.open("a.seg", Access::Cached)?;
    let segment = Segment::open(file, OpenOptions { cache: None, codes })?;
    segment.verify()
}

fn sample(kind: SegmentKind, tier: Tier, element: Element) -> Vec<u8> {
    let store = memory();
    let settings = vstream_segment::SegmentSettings { element, ..settings(20, kind, tier) };
    write(&store, "a.seg", settings, &[0..50, 50..55, 55..130], &row);
    let file = store.open("a.seg", Access::Cached).unwrap();
    file.read(Range { offset: 0, bytes: file.bytes() as usize }).unwrap().to_vec()
}

/// A segment of rows with fields.
fn with_fields() -> Vec<u8> {
    let store = memory();
    small_segment(&store, "a.seg", settings(20, SegmentKind::Cluster, Tier::Hot));
    let file = store.open("a.seg", Access::Cached).unwrap();
    file.read(Range { offset: 0, bytes: file.bytes() as usize }).unwrap().to_vec()
}

fn samples() -> Vec<Vec<u8>> {
    vec![
        with_fields(),
        sample(SegmentKind::Cluster, Tier::Hot, Element::F32),
        sample(SegmentKind::Cluster, Tier::Cold, Element::U8),
        sample(SegmentKind::Flat, Tier::Cold, Element::F32),
        include_bytes!("../fixtures/cluster-v1.seg").to_vec(),
    ]
}

#[test]
fn every_changed_byte_is_found() {
    let mut random = SplitMix(21);
    for mut bytes in samples() {
        use_all(&bytes, Codes::OnDemand).unwrap();
        for at in 0..bytes.len() {
            let change = 1 << random.below(8);
            bytes[at] ^= change;
            let error = use_all(&bytes, Codes::Resident).expect_err("a changed byte");
            let kinds = [ErrorKind::Corrupt, ErrorKind::Unsupported];
            assert!(kinds.contains(&error.kind()), "byte {at}: {error}");
            assert!(error.to_string().contains("a.seg"), "{error}");
            bytes[at] ^= change;
        }
    }
}

#[test]
fn every_cut_and_every_addition_is_found() {
    for bytes in samples() {
        for length in 0..bytes.len() {
            assert!(use_all(&bytes[..length], Codes::OnDemand).is_err(), "cut to {length}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(use_all(&longer, Codes::OnDemand).is_err());
        longer.extend_from_slice(&bytes);
        assert!(use_all(&longer, Codes::OnDemand).is_err(), "a segment after a segment");
    }
}

/// A query that meets a changed block says so, and names the offset.
#[test]
fn a_query_reports_damage() {
    let store = memory();
    let mut bytes = sample(SegmentKind::Cluster, Tier::Hot, Element::F32);
    bytes[200] ^= 4;
    store.put("a.seg", &bytes).unwrap();
    let file = store.open("a.seg", Access::Cached).unwrap();
    let segment = Segment::open(file, resident()).unwrap();
    let deletes = Tombstones::none(130);
    let (mut top, mut scratch) = (TopK::new(5), SegmentScratch::new());
    for effort in [Effort::Exact, Effort::Approximate { probes: 3, refine: 130 }] {
        let probe = Probe { vector: &row(1), k: 5, effort, filter: None };
        let error = segment.at(&deletes, 0).search(&probe, &mut scratch, &mut top).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("at byte 72"), "{error}");
    }
}

/// Checksums only guard against accidents: bytes with right checksums and wrong counts, as a
/// defect or an attacker would write them, are an error or an answer, never a panic.
#[test]
fn resealed_damage_never_panics() {
    let mut random = SplitMix(23);
    let rows = Rows::random(77, 45, 4);
    let filters: Vec<Filter> = (0..8).map(|_| filter(&mut random, &rows, 2)).collect();
    for bytes in samples() {
        let identity = u64::from_le_bytes(bytes[32..40].try_into().unwrap());
        let foot = bytes.len() - 48;
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let (number, length) = (word(foot + 16), word(foot + 24) as usize);
        let meta = foot - length..foot;
        // Header, meta and footer, each block sealed again after a change; the first row block too,
        // whose length is what the directory says.
        let first_row_block = 72..72 + first_block_bytes(&bytes, meta.start);
        let version = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
        let has_fields = version == 2 || bytes[20] == 1;
        let mut blocks =
            vec![(0..72, 0), (meta, number), (foot..bytes.len(), u64::MAX), (first_row_block, 1)];
        if has_fields {
            let fields = field_blocks(&bytes).into_iter();
            blocks.extend(fields.map(|at| (at.offset..at.offset + at.bytes, at.number)));
        }
        for (range, number) in blocks {
            for _ in 0..if has_fields { 200 } else { 1500 } {
                let mut changed = bytes.clone();
                let payload = range.start..range.end - 8;
                for _ in 0..1 + random.below(3) {
                    let at = payload.start + random.below(payload.len());
                    changed[at] = match random.below(3) {
                        0 => 0xff,
                        1 => changed[at] ^ (1 << random.below(8)),
                        _ => random.next() as u8,
                    };
                }
                let identity = if number == 0 {
                    u64::from_le_bytes(changed[32..40].try_into().unwrap())
                } else {
                    identity
                };
                let place = vstream_store::blocks::BlockAddress { file: identity, number, version };
                let checksum = vstream_store::blocks::checksum(place, &changed[payload.clone()]);
                changed[payload.end..range.end].copy_from_slice(&checksum.to_le_bytes());
                let _ = use_all(&changed, Codes::Resident);
                let _ = ask_all(&changed, &filters);
            }
        }
    }
}

fn first_block_bytes(bytes: &[u8], meta: usize) -> usize {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let leaves = word(meta + 40);
    let cluster = bytes[18] == 1;
    let numbered = bytes[8] >= 3;
    let leaf = if numbered { 24 } else { 16 } + if cluster { 64 } else { 0 };
    word(meta + 56 + leaves * leaf)
}

fn ask_all(bytes: &[u8], filters: &[Filter]) -> Result<(), Error> {
    let store = memory();
    store.put("a.seg", bytes)?;
    let file = store.open("a.seg", Access::Cached)?;
    let options = OpenOptions { cache: None, codes: Codes::OnDemand };
    let segment = Arc::new(Segment::open(file, options)?);
    let deletes = Tombstones::none(segment.rows() as u32);
    let view = segment.at(&deletes, 0);
    let (mut top, mut scratch) = (TopK::new(5), SegmentScratch::new());
    let query = vec![1.0; segment.dimension()];
    for effort in [Effort::Exact, Effort::Approximate { probes: 9, refine: 200 }] {
        view.search(&Probe { vector: &query, k: 5, effort, filter: None }, &mut scratch, &mut top)?;
    }
    view.search_radius(&query, 1e5, None, &mut Vec::new())?;
    segment.report(&mut |_| {})?;
    segment.find(60)?;
    // Each of these may fail; none may panic.
    for filter in filters {
        let _ = view.for_each_with_fields(Some(filter), &mut |_, _, fields| {
            fields.attributes.iter().for_each(drop);
        });
        let effort = Effort::Approximate { probes: 9, refine: 200 };
        let probe = Probe { vector: &query, k: 5, effort, filter: Some(filter) };
        let _ = view.search(&probe, &mut scratch, &mut top);
    }
    let _ = view.for_each_row(&mut |row| row.fields.attributes.iter().for_each(drop));
    let all: Vec<u32> = (0..segment.rows() as u32).collect();
    let _ = segment.fields(&all, &WantedFields::ALL);
    Ok(())
}
