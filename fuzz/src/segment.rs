//! Segments, with right checksums around wrong counts.

use vstream_index::stages::ExactSearch;
use vstream_index::{Effort, Probe};
use vstream_segment::{Codes, OpenOptions, Segment, SegmentScratch, Tombstones};
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
    segment.find(60).map(|_| ())
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
    let identity = word(bytes, 32)?;
    let body = end.checked_sub(SUM).filter(|&body| body >= from && end <= bytes.len())?;
    let sum = checksum(BlockAddress { file: identity, number, version: 1 }, &bytes[from..body]);
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
    let leaf_bytes = 16 + if is_cluster { padded } else { 0 };
    let lengths = (meta + 56).checked_add(leaves.checked_mul(leaf_bytes)?)?;
    let id_entries = lengths.checked_add(blocks.checked_mul(4)?)?;
    let (mut at, mut number) = (HEAD, 1);
    let mut next = |bytes: &mut [u8], length: usize| {
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
