//! Id blocks: entries by id, as columns of whole numbers.
//!
//! ```text
//! column of ids | column of versions | column of row numbers, those of tombstones u32::MAX
//! column of the times of the tombstones, in seconds since 1970 UTC, if there are any
//! column   u64 least | u8 width, 0..=8 | entries x width bytes
//! ```

use vstream_vector::cursor::ByteReader;

use crate::error::Malformed;

/// Row number of a tombstone.
const NO_ROW: u32 = u32::MAX;

/// The newest state of an id in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdEntry {
    pub(crate) id: u64,
    pub(crate) version: u64,
    /// Number of the row in its part; `None` for a tombstone.
    pub(crate) row: Option<u32>,
    /// When the id was deleted, in seconds since 1970 UTC; 0 for a row.
    pub(crate) deleted_at: u32,
}

/// Encodes an id block.
pub(crate) fn encode_ids(entries: &[IdEntry]) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, entries.iter().map(|entry| entry.id));
    put(&mut out, entries.iter().map(|entry| entry.version));
    put(&mut out, entries.iter().map(|entry| u64::from(entry.row.unwrap_or(NO_ROW))));
    let tombstones = entries.iter().filter(|entry| entry.row.is_none());
    if tombstones.clone().next().is_some() {
        put(&mut out, tombstones.map(|entry| u64::from(entry.deleted_at)));
    }
    out
}

/// Appends a column.
fn put(out: &mut Vec<u8>, values: impl Iterator<Item = u64> + Clone) {
    let ends = |(least, most): (u64, u64), x: u64| (least.min(x), most.max(x));
    let (least, most) = values.clone().fold((u64::MAX, 0), ends);
    let least = least.min(most);
    let width = (u64::BITS - (most - least).leading_zeros()).div_ceil(8) as usize;
    out.extend_from_slice(&least.to_le_bytes());
    out.push(width as u8);
    for value in values {
        out.extend_from_slice(&(value - least).to_le_bytes()[..width]);
    }
}

/// Decodes an id block of `count` entries of a part with `rows` rows, and appends them to `out`.
pub(crate) fn decode_ids(
    bytes: &[u8],
    count: usize,
    rows: u32,
    out: &mut Vec<IdEntry>,
) -> Result<(), Malformed> {
    let mut input = ByteReader::new(bytes);
    let (ids, versions) = (Column::take(&mut input, count)?, Column::take(&mut input, count)?);
    let places = Column::take(&mut input, count)?;
    let is_tombstone = |at: &usize| places.get(*at) == u64::from(NO_ROW);
    let tombstones = (0..count).filter(is_tombstone).count();
    let times = if tombstones > 0 { Some(Column::take(&mut input, tombstones)?) } else { None };
    let mut times_read = 0;
    if !input.is_empty() {
        return Err(Malformed("an id block is longer than its columns"));
    }
    out.reserve(count);
    let mut last = None;
    for at in 0..count {
        let (id, place) = (ids.get(at), places.get(at));
        let row = u32::try_from(place).ok().filter(|&row| row < rows);
        if (row.is_none() && place != u64::from(NO_ROW)) || last.is_some_and(|last| last >= id) {
            return Err(Malformed("the ids of a block are out of order or have no row"));
        }
        last = Some(id);
        let mut deleted_at = 0;
        if let (None, Some(times)) = (row, &times) {
            let time = u32::try_from(times.get(times_read));
            deleted_at = time.map_err(|_| Malformed("a tombstone of a time that is none"))?;
            times_read += 1;
        }
        out.push(IdEntry { id, version: versions.get(at), row, deleted_at });
    }
    Ok(())
}

/// Version and row of an id in a block of `count` entries of a part with `rows` rows; no row for a
/// tombstone. Cost: a binary search, without decoding the block.
pub(crate) fn find_id(
    bytes: &[u8],
    count: usize,
    rows: u32,
    id: u64,
) -> Result<Option<(u64, Option<u32>)>, Malformed> {
    let mut input = ByteReader::new(bytes);
    let (ids, versions) = (Column::take(&mut input, count)?, Column::take(&mut input, count)?);
    let places = Column::take(&mut input, count)?;
    let (mut from, mut to) = (0, count);
    while from < to {
        let middle = from + (to - from) / 2;
        match ids.get(middle) < id {
            true => from = middle + 1,
            false => to = middle,
        }
    }
    if from == count || ids.get(from) != id {
        return Ok(None);
    }
    let place = places.get(from);
    if place == u64::from(NO_ROW) {
        return Ok(Some((versions.get(from), None)));
    }
    let row = u32::try_from(place).ok().filter(|&row| row < rows);
    let row = row.ok_or(Malformed("an id of a row that the part does not have"))?;
    Ok(Some((versions.get(from), Some(row))))
}

struct Column<'a> {
    least: u64,
    width: usize,
    above: &'a [u8],
}

impl<'a> Column<'a> {
    fn take(input: &mut ByteReader<'a>, count: usize) -> Result<Column<'a>, Malformed> {
        let (least, width) = (input.u64()?, usize::from(input.u8()?));
        if width > 8 {
            return Err(Malformed("a column is wider than its numbers"));
        }
        let above = input.bytes(count.saturating_mul(width));
        let above = above.map_err(|_| Malformed("a column is shorter than its entries"))?;
        Ok(Column { least, width, above })
    }

    fn get(&self, at: usize) -> u64 {
        let mut word = [0u8; 8];
        word[..self.width].copy_from_slice(&self.above[at * self.width..][..self.width]);
        // The sum wraps only if the bytes are damaged.
        self.least.wrapping_add(u64::from_le_bytes(word))
    }
}
