//! The lists of a manifest about some of its segments, which are leaves that they still serve and where
//! their files were written, and about the parts of its base image. `manifest.rs` has the bytes.

use std::ops::Range;
use std::sync::Arc;

use vstream_vector::cursor::{ByteReader, Truncated};

use crate::snapshot::{Image, Part, Run};
use crate::tree::{Origin, SegmentEntry, Served};

/// Bytes of an interval of leaves.
pub(super) const INTERVAL_BYTES: u64 = 12;
/// Bytes of an origin without its definers, and of one of these.
const ORIGIN_BYTES: usize = 24;
const DEFINER_BYTES: usize = 16;
/// Bytes of a part of the base image, and of a run of shards.
pub(super) const PART_BYTES: u64 = 24;
pub(super) const RUN_BYTES: u64 = 4;

pub(super) fn put_intervals(out: &mut Vec<u8>, segments: &[SegmentEntry]) {
    for (segment, at) in segments.iter().zip(0u32..) {
        for interval in segment.served.intervals() {
            for word in [at, interval.start, interval.end] {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
    }
}

/// Reads `n` intervals of leaves into the entries of their segments. False if they are out of order or
/// of a segment that there is not.
pub(super) fn take_intervals(
    input: &mut ByteReader<'_>,
    n: u64,
    segments: &mut [SegmentEntry],
) -> Result<bool, Truncated> {
    let mut intervals: Vec<(u32, Range<u32>)> = Vec::new();
    for _ in 0..n {
        intervals.push((input.u32()?, input.u32()?..input.u32()?));
    }
    let mut next = 0;
    for of_one in intervals.chunk_by(|a, b| a.0 == b.0) {
        let at = of_one[0].0;
        let ranges: Vec<_> = of_one.iter().map(|(_, range)| range.clone()).collect();
        match (segments.get_mut(at as usize), Served::only(&ranges)) {
            (Some(segment), Some(served)) if at >= next => segment.served = served,
            _ => return Ok(false),
        }
        next = at + 1;
    }
    Ok(true)
}

/// Bytes of the origins of some segments.
pub(super) fn origins_bytes(segments: &[SegmentEntry]) -> usize {
    let origins = segments.iter().filter_map(|segment| segment.origin.as_ref());
    origins.map(|origin| ORIGIN_BYTES + origin.definers.len() * DEFINER_BYTES).sum()
}

pub(super) fn put_origins(out: &mut Vec<u8>, segments: &[SegmentEntry]) {
    for (segment, at) in segments.iter().zip(0u32..) {
        let Some(origin) = &segment.origin else { continue };
        out.extend_from_slice(&at.to_le_bytes());
        out.extend_from_slice(&(origin.definers.len() as u32).to_le_bytes());
        let definers = origin.definers.iter().flat_map(|&(there, here)| [there, here]);
        for word in [origin.collection, origin.number].into_iter().chain(definers) {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
}

/// Reads the origins of some segments, to the end of `input`. False if they or their definers are out
/// of order, or of a segment that there is not.
pub(super) fn take_origins(
    input: &mut ByteReader<'_>,
    segments: &mut [SegmentEntry],
) -> Result<bool, Truncated> {
    let mut next = 0;
    while !input.is_empty() {
        let (at, n) = (input.u32()?, input.u32()? as usize);
        let (collection, number) = (input.u64()?, input.u64()?);
        let mut pairs = input.split(n.saturating_mul(DEFINER_BYTES))?;
        let definers = (0..n).map(|_| Ok((pairs.u64()?, pairs.u64()?)));
        let definers = definers.collect::<Result<Vec<_>, Truncated>>()?;
        let are_in_order = definers.is_sorted_by(|a, b| a.0 < b.0);
        match segments.get_mut(at as usize) {
            Some(segment) if at >= next && are_in_order => {
                segment.origin = Some(Arc::new(Origin { collection, number, definers }));
            }
            _ => return Ok(false),
        }
        next = at + 1;
    }
    Ok(true)
}

/// Writes the parts of the base image, then its runs of shards.
pub(super) fn put_parts(out: &mut Vec<u8>, image: &Image) {
    for part in image.parts() {
        for word in [part.number, part.checksum, part.lsn] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
    for run in image.runs() {
        out.extend_from_slice(&run.first.to_le_bytes());
        out.extend_from_slice(&run.part.to_le_bytes());
    }
}

/// Reads so many parts of the base image, and runs of shards; `None` if they are those of none.
pub(super) fn take_parts(
    input: &mut ByteReader<'_>,
    parts: u64,
    runs: u64,
) -> Result<Option<Image>, Truncated> {
    let part = |input: &mut ByteReader<'_>| -> Result<_, Truncated> {
        Ok(Part { number: input.u64()?, checksum: input.u64()?, lsn: input.u64()? })
    };
    let parts = (0..parts).map(|_| part(input)).collect::<Result<Vec<_>, _>>()?;
    let run = |_| Ok(Run { first: input.u16()?, part: input.u16()? });
    let runs = (0..runs).map(run).collect::<Result<Vec<_>, Truncated>>()?;
    Ok(Image::of(parts, runs))
}
