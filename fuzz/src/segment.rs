//! Segments, with right checksums around wrong counts.

use std::ops::Bound;

use vstream_attribute::{Filter, Range, Test};
use vstream_index::stages::ExactSearch;
use vstream_index::{Effort, Probe};
use vstream_segment::{
    Codes, OpenOptions, Segment, SegmentScratch, SegmentView, Tombstones, WantedFields,
};
use vstream_store::blocks::{checksum, BlockAddress};
use vstream_store::{Access, Error, Store};
use vstream_vector::TopK;

use crate::container::{directory, Content};

const HEAD: usize = 72;
const FOOT: usize = 48;
const SUM: usize = 8;

pub(crate) fn open_and_search(bytes: &[u8]) {
    for codes in [Codes::OnDemand, Codes::Resident] {
        // An error is as good as an answer: nobody vouches for the bytes.
        let _ = ask(bytes, codes);
    }
}

fn ask(bytes: &[u8], codes: Codes) -> Result<(), Error> {
    let store = directory(&Content::from([("a.seg".to_owned(), bytes.to_vec())]));
    let file = store.open("a.seg", Access::Cached)?;
    let segment = Segment::open(file, OpenOptions { cache: None, codes })?;
    let _ = segment.verify();
    let deletes = Tombstones::none(segment.rows() as u32);
    let view = segment.at(&deletes, 0);
    let (mut top, mut scratch) = (TopK::new(5), SegmentScratch::new());
    let query = vec![1.0; segment.dimension()];
    for effort in [Effort::Exact, Effort::Approximate { probes: 9, refine: 200 }] {
        let probe = Probe { vector: &query, k: 5, effort, filter: None };
        let _ = view.search(&probe, &mut scratch, &mut top);
    }
    let _ = view.search_radius(&query, 1e5, None, &mut Vec::new());
    let _ = segment.report(&mut |_| {});
    for filter in filters() {
        ask_with(view, &query, &filter);
    }
    let _ = view.for_each_row(&mut |row| row.fields.attributes.iter().for_each(drop));
    // Rows that the file counts and does not have are no reason to ask for all of them.
    let rows: Vec<u32> = (0..segment.rows().min(200) as u32).collect();
    let _ = segment.fields(&rows, &WantedFields::ALL);
    segment.find(60).map(|_| ())
}

/// Filters on every column of the golden file.
fn filters() -> Vec<Filter> {
    let words = || vec!["red".to_owned(), "word 3".to_owned()];
    let range = Range { from: Bound::Included(-5), to: Bound::Excluded(30_000) };
    let tests = [
        (0, Test::KeywordIn(words())),
        (0, Test::KeywordPrefix("gr".to_owned())),
        (1, Test::AnyOf(words())),
        (1, Test::AllOf(words()[1..].to_vec())),
        (1, Test::IsEmpty),
        (2, Test::I64Range(range)),
        (3, Test::F64In(vec![0.0, 1.5])),
        (4, Test::Bool(true)),
        (9, Test::Exists),
    ];
    let one = |(column, test): &(u16, Test)| Filter::Attribute(*column, test.clone());
    let mut all: Vec<Filter> = tests.iter().map(one).collect();
    all.push(Filter::AtLeast(3, all.clone()));
    all.push(Filter::Not(Box::new(Filter::Ids(vec![3, 60]))));
    all
}

fn ask_with(view: SegmentView<'_>, query: &[f32], filter: &Filter) {
    let (mut top, mut scratch) = (TopK::new(5), SegmentScratch::new());
    for effort in [Effort::Exact, Effort::Approximate { probes: 9, refine: 200 }] {
        let probe = Probe { vector: query, k: 5, effort, filter: Some(filter) };
        let _ = view.search(&probe, &mut scratch, &mut top);
    }
    let _ = view.for_each_with_fields(Some(filter), &mut |_, _, fields| {
        fields.attributes.iter().for_each(drop);
    });
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/segment/tests/fixtures");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("the golden files")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|end| end == "seg"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "golden segments in {folder}");
    paths.iter().map(|path| std::fs::read(path).expect("a golden file")).collect()
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize)
}

/// Computes every checksum anew that the directory leads to, as far as it leads.
pub(crate) fn reseal(bytes: &mut [u8]) {
    if reseal_ends(bytes).is_some() {
        let _ = reseal_blocks(bytes);
    }
}

fn seal(bytes: &mut [u8], from: usize, end: usize, number: u64) -> Option<()> {
    let (identity, version) = (word(bytes, 32)?, half(bytes, 8)? as u32);
    let body = end.checked_sub(SUM).filter(|&body| body >= from && end <= bytes.len())?;
    let sum = checksum(BlockAddress { file: identity, number, version }, &bytes[from..body]);
    bytes[body..end].copy_from_slice(&sum.to_le_bytes());
    Some(())
}

fn reseal_ends(bytes: &mut [u8]) -> Option<()> {
    let foot = bytes.len().checked_sub(FOOT).filter(|&foot| foot >= HEAD)?;
    let (number, length) = (word(bytes, foot + 16)?, word(bytes, foot + 24)?);
    // The footer is the same file's as the header.
    bytes.copy_within(32..40, foot + 8);
    let whole = (bytes.len() as u64).to_le_bytes();
    bytes[foot + 32..foot + 40].copy_from_slice(&whole);
    seal(bytes, 0, HEAD, 0)?;
    seal(bytes, foot, foot + FOOT, u64::MAX)?;
    let meta = foot.checked_sub(usize::try_from(length).ok()?)?;
    seal(bytes, meta, foot, number)
}

fn reseal_blocks(bytes: &mut [u8]) -> Option<()> {
    let foot = bytes.len() - FOOT;
    let meta = foot - word(bytes, foot + 24)? as usize;
    let dimension = half(bytes, 12)?;
    let padded = dimension.next_multiple_of(64);
    let is_cluster = bytes[18] == 1;
    let counts = [half(bytes, meta + 40)?, half(bytes, meta + 44)?, half(bytes, meta + 48)?];
    let [leaves, blocks, ids] = counts;
    let numbered = half(bytes, 8)? >= 3;
    let leaf_bytes = if numbered { 24 } else { 16 } + if is_cluster { padded } else { 0 };
    let lengths = (meta + 56).checked_add(leaves.checked_mul(leaf_bytes)?)?;
    let id_entries = lengths.checked_add(blocks.checked_mul(4)?)?;
    let fields = half(bytes, meta + 52)?;
    let others =
        reseal_fields(bytes, meta.checked_sub(fields)?, fields, leaves).unwrap_or_default();
    let (mut at, mut number) = (HEAD, 1);
    let mut next = |bytes: &mut [u8], length: usize| {
        // Blocks of fields lie between the others.
        while let Some(other) = others.iter().find(|other| other.0 == at && other.1 > 0) {
            at += other.1;
        }
        let end = at.checked_add(length).filter(|&end| end <= meta)?;
        seal(bytes, at, end, number)?;
        (at, number) = (end, number + 1);
        Some(())
    };
    for block in 0..blocks {
        let length = half(bytes, lengths + 4 * block)?;
        next(bytes, length)?;
    }
    for leaf in 0..if is_cluster { leaves } else { 0 } {
        let rows = half(bytes, meta + 56 + leaf * leaf_bytes)?;
        next(bytes, rows.div_ceil(32) * (padded * 4 + 128) + SUM)?;
    }
    for id in 0..ids {
        let length = half(bytes, id_entries + 12 * id + 8)?;
        next(bytes, length)?;
    }
    Some(())
}

/// Computes the checksums of the directory of fields and of the blocks that it names, as far as it
/// can be read; returns offsets and lengths.
fn reseal_fields(
    bytes: &mut [u8],
    from: usize,
    length: usize,
    leaves: usize,
) -> Option<Vec<(usize, usize)>> {
    seal(bytes, from, from.checked_add(length)?, 5 << 60)?;
    let mut blocks: Vec<(usize, usize, u64)> = Vec::new();
    let mut at = from;
    let _ = (|| -> Option<()> {
        let mut next = |length: usize| {
            let value = match length {
                4 => half(bytes, at)? as u64,
                _ => word(bytes, at)?,
            };
            at += length;
            Some(value)
        };
        let chunks = next(4)?;
        for _ in 0..chunks {
            next(4)?;
        }
        for area in [1u64, 2] {
            for _ in 0..next(4)? {
                let (first_row, _) = (next(4)?, next(4)?);
                blocks.push((next(8)? as usize, next(4)? as usize, area << 60 | first_row));
            }
        }
        for _ in 0..next(4)? {
            let column = next(4)? & 0xffff;
            let _ = (next(4)?, next(4)?, next(4)?);
            let dictionary = (next(8)? as usize, next(4)? as usize, 4 << 60 | column << 32);
            blocks.push(dictionary);
            for chunk in 0..chunks {
                let number = 3 << 60 | column << 32 | chunk;
                blocks.push((next(8)? as usize, next(4)? as usize, number));
            }
            for _ in 0..leaves {
                if next(4)? > 0 {
                    for _ in 0..6 {
                        next(8)?;
                    }
                }
            }
        }
        Some(())
    })();
    for &(offset, length, number) in &blocks {
        if let Some(end) = offset.checked_add(length) {
            let _ = seal(bytes, offset, end, number);
        }
    }
    Some(blocks.iter().map(|&(offset, length, _)| (offset, length)).collect())
}
