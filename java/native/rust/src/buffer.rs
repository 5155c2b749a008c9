//! The bytes that cross the language border; `BufferLayout.java` is the other side.
//!
//! ```text
//! record     i64 id | i64 version | i64 code | u16 shard | u8 op | u8 fields follow | u8[4] zero
//!            | vector if upsert | fields (where they follow)
//! queries    i32 count | i32 flags | count x ( i32 k | i32 effort | vector | asked (flag 1) )
//! answers    per query: i32 n | i32 leaves scanned; of a group, its rows
//!                       | n x ( i64 id | i64 version | f32 distance | i32 flags )
//!                       | n x f64 order (flag 2) | a fields block for each row with flag 1
//!            order: what the rows ascend by, where that is not the distance; all have it, or none
//! placement  i64 code | i32 shard | i32 zero
//! partition  i32
//! vector     dimension x f32, padded with zeros to a multiple of 8 bytes
//! fields     u32 bytes of the block | u16 flags | u16 columns | u64 check
//!            | u32 name bytes | u32 attribute bytes | u32 payload bytes | u32 group bytes
//!            | name | attributes | payload | columns x u16 | group | zeros to a multiple of 8 bytes
//!            flags: 1 has a payload, 2 removes the payload, 4 did not fit; the columns are removed
//! asked      u32 bytes of the block | u16 flags | u16 columns | f32 radius | u32 filter bytes
//!            | filter | columns x u16 | u32 group bytes, group (flag 16)
//!            | u32 order bytes, order (flag 32) | zeros to a multiple of 8 bytes
//!            flags: 1 filter, 2 radius, 4 payload wanted, 8 names wanted, 16 group, 32 order; the
//!            columns are wanted
//! ```
//!
//! Little-endian, which is the native order of every supported platform. All offsets are multiples
//! of 8, so vectors are used in place, without a copy. Tests hold both sides to the files in
//! `src/test/resources/golden`.

use vstream_route::SHARDS_MAX;

use crate::failure::Failure;

mod asked;
mod fields;

pub(crate) use asked::Asked;
pub(crate) use fields::{push_fields, FieldsBlock};

#[cfg(target_endian = "big")]
compile_error!("vectors are used where they lie, which needs a little-endian platform");

/// Every buffer and every item in it begins at a multiple of this many bytes.
pub(crate) const ALIGNMENT: usize = 8;

/// Most neighbours that one query may ask for.
pub(crate) const K_MAX: usize = 1000;

/// Flag of a batch of queries, each of which has an `asked` block.
const FLAG_ASKED: i32 = 1;

/// Flag of a row of an answer that a `fields` block follows.
const ROW_HAS_FIELDS: u32 = 1;
/// Flag of a row of an answer whose order follows.
const ROW_HAS_ORDER: u32 = 2;

const RECORD_HEADER: usize = 32;
const QUERIES_HEADER: usize = 8;
const QUERY_HEADER: usize = 8;
const ANSWER_HEADER: usize = 8;
const NEIGHBOR: usize = 24;
const ORDER: usize = 8;
const PLACEMENT: usize = 16;
const PARTITION: usize = 4;

/// One record, borrowed from a buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Record<'a> {
    pub(crate) id: u64,
    pub(crate) version: u64,
    pub(crate) code: u64,
    /// Shard number, below [`SHARDS_MAX`]; the partition knows its own ones.
    pub(crate) shard: u16,
    pub(crate) op: Op<'a>,
    /// What the row carries; `None` if nothing follows.
    pub(crate) fields: Option<FieldsBlock<'a>>,
}

/// What a record does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op<'a> {
    /// Puts a row with this vector.
    Upsert(&'a [f32]),
    Delete,
    /// Changes what a row carries; the vector stays.
    Update,
    /// Removes all rows of a group.
    Drop,
}

/// Steps through the records of a buffer; ends after the first failure.
pub(crate) struct Records<'a> {
    bytes: &'a [u8],
    dimension: usize,
    count: usize,
    read: usize,
}

impl<'a> Records<'a> {
    /// Reads `count` records back to back from `bytes`, which may be longer.
    pub(crate) fn new(
        bytes: &'a [u8],
        count: i32,
        dimension: usize,
    ) -> Result<Records<'a>, Failure> {
        let count = usize::try_from(count).map_err(|_| {
            Failure::invalid(format!("A batch of {count} records; the count must be 0 or more."))
        })?;
        Ok(Records { bytes, dimension, count, read: 0 })
    }

    fn record(&mut self) -> Result<Record<'a>, Failure> {
        let header = take(&mut self.bytes, RECORD_HEADER)?;
        let shard = u16::from_le_bytes([header[24], header[25]]);
        if shard >= SHARDS_MAX {
            return Err(Failure::invalid(format!(
                "Shard {shard} does not exist; a shard is 0 to {}.",
                SHARDS_MAX - 1
            )));
        }
        if header[27] > 1 || header[28..].iter().any(|&byte| byte != 0) {
            return Err(Failure::invalid(
                "The reserved bytes of the header are not zero; the writer and this library \
                 disagree about the layout of a record.",
            ));
        }
        let op = match header[26] {
            0 => Op::Upsert(take_vector(&mut self.bytes, self.dimension)?),
            1 => Op::Delete,
            2 if header[27] == 1 => Op::Update,
            3 if header[27] == 1 => Op::Drop,
            op => {
                return Err(Failure::invalid(format!(
                    "Op {op} does not exist; 0 is an upsert, 1 a delete, 2 an update and 3 a drop \
                     of a group, which fields follow."
                )))
            }
        };
        let fields = match header[27] {
            0 => None,
            _ => Some(FieldsBlock::take(&mut self.bytes)?),
        };
        Ok(Record {
            id: u64_at(header, 0),
            version: u64_at(header, 8),
            code: u64_at(header, 16),
            shard,
            op,
            fields,
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.read == self.count {
            return None;
        }
        let number = self.read + 1;
        let record = self
            .record()
            .map_err(|failure| failure.at(&format!("record {number} of {}", self.count)));
        self.read = if record.is_ok() { self.read + 1 } else { self.count };
        Some(record)
    }
}

/// Effort of a query: how much of the index it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    Auto,
    Exact,
    Probes(usize),
}

/// One query, borrowed from a buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Query<'a> {
    /// Neighbours asked for, 1..=1000.
    pub(crate) k: usize,
    pub(crate) effort: Effort,
    pub(crate) vector: &'a [f32],
    pub(crate) asked: Asked<'a>,
}

/// The queries of a batch, all checked before the first is answered.
pub(crate) struct Queries<'a> {
    bytes: &'a [u8],
    dimension: usize,
    count: usize,
    answer_bytes: usize,
    asks: bool,
    wants_fields: bool,
}

impl<'a> Queries<'a> {
    /// Reads the header and checks every query.
    pub(crate) fn new(bytes: &'a [u8], dimension: usize) -> Result<Queries<'a>, Failure> {
        let mut body = bytes;
        let header = take(&mut body, QUERIES_HEADER)?;
        let (count, flags) = (i32_at(header, 0), i32_at(header, 4));
        let count = usize::try_from(count).map_err(|_| {
            Failure::invalid(format!("A batch of {count} queries; the count must be 0 or more."))
        })?;
        if flags & !FLAG_ASKED != 0 {
            return Err(Failure::invalid(format!(
                "Flags {flags:#x} mean nothing; they must be 0 or 1."
            )));
        }
        let asks = flags == FLAG_ASKED;
        let (mut answer_bytes, mut wants_fields) = (0, false);
        let mut rest = body;
        for number in 1..=count {
            let query = take_query(&mut rest, dimension, asks)
                .map_err(|failure| failure.at(&format!("query {number} of {count}")))?;
            let row = NEIGHBOR + if query.asked.ranked.is_some() { ORDER } else { 0 };
            answer_bytes += ANSWER_HEADER + query.k * row;
            wants_fields |= query.asked.wants_fields();
        }
        Ok(Queries { bytes: body, dimension, count, answer_bytes, asks, wants_fields })
    }

    /// True if rows of an answer are to carry something. No size bounds the answers then.
    pub(crate) fn wants_fields(&self) -> bool {
        self.wants_fields
    }

    /// Most bytes of all answers together, without what rows carry.
    pub(crate) fn answer_bytes(&self) -> usize {
        self.answer_bytes
    }

    /// The queries in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Query<'a>> {
        let mut rest = self.bytes;
        let (dimension, asks) = (self.dimension, self.asks);
        // This cannot fail: `new` has read the same bytes.
        (0..self.count).map_while(move |_| take_query(&mut rest, dimension, asks).ok())
    }
}

fn take_query<'a>(
    bytes: &mut &'a [u8],
    dimension: usize,
    asks: bool,
) -> Result<Query<'a>, Failure> {
    let header = take(bytes, QUERY_HEADER)?;
    let k = i32_at(header, 0);
    let k = usize::try_from(k)
        .ok()
        .filter(|k| (1..=K_MAX).contains(k))
        .ok_or_else(|| Failure::invalid(format!("k is {k}; ask for 1 to {K_MAX} neighbours.")))?;
    let effort = match i32_at(header, 4) {
        0 => Effort::Auto,
        -1 => Effort::Exact,
        probes => Effort::Probes(usize::try_from(probes).map_err(|_| {
            Failure::invalid(format!(
                "Effort {probes} means nothing; use 0 for automatic, -1 for exact or the number \
                 of leaves to read."
            ))
        })?),
    };
    let vector = take_vector(bytes, dimension)?;
    check_finite(vector)?;
    let asked = if asks { Asked::take(bytes)? } else { Asked::default() };
    Ok(Query { k, effort, vector, asked })
}

/// Reads a vector: the first `dimension` numbers of a buffer.
pub(crate) fn vector(mut bytes: &[u8], dimension: usize) -> Result<&[f32], Failure> {
    floats(take(&mut bytes, dimension * size_of::<f32>())?)
}

/// Reads the `rows` x `dimension` numbers at the start of a buffer.
pub(crate) fn matrix(mut bytes: &[u8], rows: i32, dimension: usize) -> Result<&[f32], Failure> {
    let rows = usize::try_from(rows).map_err(|_| {
        Failure::invalid(format!("A sample of {rows} rows; the number must be 0 or more."))
    })?;
    floats(take(&mut bytes, rows * dimension * size_of::<f32>())?)
}

/// Refuses NaN and infinity.
fn check_finite(vector: &[f32]) -> Result<(), Failure> {
    // Without an early exit the compiler vectorises the loop; the position of a bad value is
    // searched only after it fails.
    if vector.iter().fold(true, |finite, x| finite & x.is_finite()) {
        return Ok(());
    }
    match vector.iter().position(|x| !x.is_finite()) {
        Some(at) => Err(Failure::invalid(format!(
            "Element {at} of the vector is {}; send finite numbers only.",
            vector[at]
        ))),
        None => Ok(()),
    }
}

/// Writes answers, placements or partitions into a buffer, from its start.
pub(crate) struct Writer<'a> {
    bytes: &'a mut [u8],
    written: usize,
}

/// How much was read for an answer.
#[derive(Clone, Copy)]
pub(crate) struct Scanned {
    /// Leaves; of a group, its rows.
    pub(crate) leaves: usize,
    /// True if rows were left out because a far store gave no answer.
    pub(crate) is_partial: bool,
}

impl From<usize> for Scanned {
    fn from(leaves: usize) -> Scanned {
        Scanned { leaves, is_partial: false }
    }
}

impl Scanned {
    fn to_le_bytes(self) -> [u8; 4] {
        let leaves = i32::try_from(self.leaves).unwrap_or(i32::MAX);
        (if self.is_partial { -1 - leaves } else { leaves }).to_le_bytes()
    }
}

impl<'a> Writer<'a> {
    /// A writer with room for `needed` bytes.
    pub(crate) fn new(bytes: &'a mut [u8], needed: usize) -> Result<Writer<'a>, Failure> {
        if bytes.len() < needed {
            return Err(too_small(needed, bytes.len()));
        }
        Ok(Writer { bytes, written: 0 })
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> usize {
        self.written
    }

    /// Writes one answer: its rows, nearest first, and what they ascend by, if that is not the
    /// distance.
    pub(crate) fn answer(
        &mut self,
        scanned: impl Into<Scanned>,
        neighbors: &[vstream_vector::Neighbor],
        order: &[f64],
    ) {
        put_rows(scanned.into(), neighbors, order, 0, |bytes| self.put(bytes));
    }

    /// Writes one placement.
    pub(crate) fn placement(&mut self, code: u64, shard: u16) {
        self.put(&code.to_le_bytes());
        self.put(&i32::from(shard).to_le_bytes());
        self.put(&[0; 4]);
    }

    /// Writes one partition number.
    pub(crate) fn partition(&mut self, partition: u32) {
        self.put(&partition.to_le_bytes());
    }

    fn put(&mut self, bytes: &[u8]) {
        let end = self.written + bytes.len();
        self.bytes[self.written..end].copy_from_slice(bytes);
        self.written = end;
    }
}

/// Appends the answer to a query that asks what rows carry.
///
/// * `order`: what the rows ascend by; empty if that is the distance.
/// * `fields`: one block for each row, as [`push_fields`] writes it.
pub(crate) fn push_answer(
    out: &mut Vec<u8>,
    scanned: impl Into<Scanned>,
    neighbors: &[vstream_vector::Neighbor],
    order: &[f64],
    fields: &[u8],
) {
    let flags = if fields.is_empty() { 0 } else { ROW_HAS_FIELDS };
    put_rows(scanned.into(), neighbors, order, flags, |bytes| out.extend_from_slice(bytes));
    out.extend_from_slice(fields);
}

fn put_rows(
    scanned: Scanned,
    neighbors: &[vstream_vector::Neighbor],
    order: &[f64],
    flags: u32,
    mut put: impl FnMut(&[u8]),
) {
    assert!(order.is_empty() || order.len() == neighbors.len(), "each row has an order, or none");
    let flags = flags | if order.is_empty() { 0 } else { ROW_HAS_ORDER };
    put(&(neighbors.len() as i32).to_le_bytes());
    put(&scanned.to_le_bytes());
    for neighbor in neighbors {
        put(&neighbor.id.to_le_bytes());
        put(&neighbor.version.to_le_bytes());
        put(&neighbor.distance.to_le_bytes());
        put(&flags.to_le_bytes());
    }
    for value in order {
        put(&value.to_le_bytes());
    }
}

/// Bytes of `count` placements.
pub(crate) fn placement_bytes(count: usize) -> usize {
    count * PLACEMENT
}

/// Bytes of `count` partitions.
pub(crate) fn partition_bytes(count: usize) -> usize {
    count * PARTITION
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], Failure> {
    let (head, tail) =
        bytes.split_at_checked(length).ok_or_else(|| too_small(length, bytes.len()))?;
    *bytes = tail;
    Ok(head)
}

/// Reads a text of so many bytes.
fn take_text<'a>(bytes: &mut &'a [u8], length: usize, what: &str) -> Result<&'a str, Failure> {
    std::str::from_utf8(take(bytes, length)?)
        .map_err(|_| Failure::invalid(format!("{what} is no UTF-8.")))
}

fn take_vector<'a>(bytes: &mut &'a [u8], dimension: usize) -> Result<&'a [f32], Failure> {
    let length = dimension * size_of::<f32>();
    let padded = take(bytes, length.next_multiple_of(ALIGNMENT))?;
    floats(&padded[..length])
}

fn floats(bytes: &[u8]) -> Result<&[f32], Failure> {
    bytemuck::try_cast_slice(bytes)
        .map_err(|error| Failure::invalid(format!("A vector is not aligned: {error}.")))
}

fn too_small(needed: usize, left: usize) -> Failure {
    Failure::invalid(format!(
        "The buffer ends too early: {needed} bytes are needed and {left} are left. Use a larger \
         buffer, and vectors of the collection's dimension."
    ))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    i32_at(bytes, at) as u32
}

fn f32_at(bytes: &[u8], at: usize) -> f32 {
    f32::from_bits(u32_at(bytes, at))
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    i32::from_le_bytes(word)
}

#[cfg(test)]
mod tests;
