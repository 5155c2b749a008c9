//! The head of a part: the name of its group, its leaves, and where its blocks lie.
//!
//! ```text
//! u16 bytes | name | u8 coded | u32 rows | u32 entries | u32 id blocks | u32 leaves
//! u32 payload blocks
//! per id block: u64 first id | u32 bytes
//! per leaf: u32 rows | u32 bytes of codes, of attributes, of names | if coded: f32 reach, largest
//!           add, largest scale, low, step | D bytes
//! per payload block: u32 first row | u32 rows | u32 bytes
//! ```
//!
//! Lengths are those of blocks with their checksums, and 0 where there is no block.

use vstream_store::blocks::{BlockHandle, CHECKSUM_BYTES};
use vstream_vector::cursor::ByteReader;

use super::format::{PartEntry, Shape, ID_ENTRIES};
use crate::accept::GROUP_BYTES_MAX;
use crate::error::Malformed;

/// A leaf of a part.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LeafHead {
    pub(crate) rows: u32,
    /// Lengths of its blocks of codes, attributes and names.
    pub(crate) bytes: [u32; 3],
    pub(crate) reach: f32,
    pub(crate) add_max: f32,
    pub(crate) scale_max: f32,
    pub(crate) low: f32,
    pub(crate) step: f32,
    pub(crate) steps: Vec<u8>,
}

impl LeafHead {
    /// Writes the rotated centroid to `out`.
    pub(crate) fn centroid(&self, out: &mut [f32]) {
        let pairs = out.iter_mut().zip(&self.steps);
        pairs.for_each(|(x, &steps)| *x = self.low + self.step * f32::from(steps));
    }
}

/// A block of payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PayloadHead {
    pub(crate) first_row: u32,
    /// Rows up to the next block; some may lack a payload.
    pub(crate) rows: u32,
    pub(crate) bytes: u32,
}

/// The head of a part.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PartHead {
    pub(crate) group: String,
    pub(crate) coded: bool,
    pub(crate) rows: u32,
    pub(crate) entries: u32,
    /// First id and length of each id block.
    pub(crate) ids: Vec<(u64, u32)>,
    pub(crate) leaves: Vec<LeafHead>,
    pub(crate) payloads: Vec<PayloadHead>,
}

impl PartHead {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&(self.group.len() as u16).to_le_bytes());
        out.extend_from_slice(self.group.as_bytes());
        out.push(u8::from(self.coded));
        let counts = [self.ids.len(), self.leaves.len(), self.payloads.len()];
        for count in [self.rows, self.entries].into_iter().chain(counts.map(|n| n as u32)) {
            out.extend_from_slice(&count.to_le_bytes());
        }
        for (first, bytes) in &self.ids {
            out.extend_from_slice(&first.to_le_bytes());
            out.extend_from_slice(&bytes.to_le_bytes());
        }
        for leaf in &self.leaves {
            for number in [leaf.rows, leaf.bytes[0], leaf.bytes[1], leaf.bytes[2]] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            if self.coded {
                for x in [leaf.reach, leaf.add_max, leaf.scale_max, leaf.low, leaf.step] {
                    out.extend_from_slice(&x.to_le_bytes());
                }
                out.extend_from_slice(&leaf.steps);
            }
        }
        for block in &self.payloads {
            for number in [block.first_row, block.rows, block.bytes] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        out
    }

    /// Decodes the head of the part of `entry`. Checks its counts against the entry and against its
    /// length before it takes memory for them.
    pub(crate) fn decode(
        shape: &Shape,
        entry: &PartEntry,
        bytes: &[u8],
    ) -> Result<PartHead, Malformed> {
        let mut input = ByteReader::new(bytes);
        let name = usize::from(input.u16()?);
        if name > GROUP_BYTES_MAX {
            return Err(Malformed("the name of a group is too long"));
        }
        let name = std::str::from_utf8(input.bytes(name)?);
        let group = name.map_err(|_| Malformed("the name of a group is no UTF-8"))?.to_owned();
        let coded = input.u8()? == 1;
        let (rows, entries) = (input.u32()?, input.u32()?);
        let counts = [input.u32()? as usize, input.u32()? as usize, input.u32()? as usize];
        if rows != entry.rows || entries != entry.entries {
            return Err(Malformed("a part has other rows than the directory says"));
        }
        let steps = if coded { shape.padded() } else { 0 };
        let leaf_bytes = 16 + if coded { 20 + steps } else { 0 };
        let needed: usize =
            [12, leaf_bytes, 12].iter().zip(counts).map(|(bytes, n)| bytes * n).sum();
        if input.left() != needed || counts[0] != (entries as usize).div_ceil(ID_ENTRIES) {
            return Err(Malformed("the head of a part is not as long as its counts say"));
        }
        let mut head = PartHead {
            group,
            coded,
            rows,
            entries,
            ids: Vec::with_capacity(counts[0]),
            leaves: Vec::with_capacity(counts[1]),
            payloads: Vec::with_capacity(counts[2]),
        };
        for _ in 0..counts[0] {
            head.ids.push((input.u64()?, input.u32()?));
        }
        for _ in 0..counts[1] {
            head.leaves.push(take_leaf(&mut input, steps)?);
        }
        for _ in 0..counts[2] {
            let (first_row, rows, bytes) = (input.u32()?, input.u32()?, input.u32()?);
            head.payloads.push(PayloadHead { first_row, rows, bytes });
        }
        head.check(shape)?;
        Ok(head)
    }

    fn check(&self, shape: &Shape) -> Result<(), Malformed> {
        let rows: u64 = self.leaves.iter().map(|leaf| u64::from(leaf.rows)).sum();
        if rows != u64::from(self.rows) || self.leaves.iter().any(|leaf| leaf.rows == 0) {
            return Err(Malformed("the rows of the leaves do not add up"));
        }
        let code_bytes = |leaf: &LeafHead| {
            let bytes = shape.codes.leaf_bytes(leaf.rows as usize, shape.padded());
            if self.coded {
                bytes + CHECKSUM_BYTES
            } else {
                0
            }
        };
        if self.leaves.iter().any(|leaf| leaf.bytes[0] as usize != code_bytes(leaf)) {
            return Err(Malformed("the codes of a leaf are not as long as its rows say"));
        }
        let ascends = self.ids.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let mut next = 0;
        let payloads_ascend = self.payloads.iter().all(|block| {
            let from = std::mem::replace(&mut next, block.first_row.saturating_add(block.rows));
            block.first_row >= from && next <= self.rows
        });
        if !ascends || !payloads_ascend {
            return Err(Malformed("the blocks of a part are out of order"));
        }
        Ok(())
    }

    /// Computes where the blocks lie. Errors: if they do not fill the part.
    pub(crate) fn lay_out(&self, shape: &Shape, entry: &PartEntry) -> Result<Layout, Malformed> {
        let mut at = entry.offset + u64::from(entry.head_bytes);
        let mut block = |bytes: u32| {
            let handle = BlockHandle { number: at, offset: at, bytes: bytes as usize };
            at += u64::from(bytes);
            handle
        };
        let ids = self.ids.iter().map(|(_, bytes)| block(*bytes)).collect();
        let mut leaves = [const { Vec::new() }; 3];
        for (kind, handles) in leaves.iter_mut().enumerate() {
            *handles = self.leaves.iter().map(|leaf| block(leaf.bytes[kind])).collect();
        }
        let seconds_at = at;
        if self.coded && shape.second_bytes() > 0 {
            at += (self.rows as usize * (shape.second_bytes() + CHECKSUM_BYTES)) as u64;
        }
        let rows_at = at;
        let blocks = (self.rows as usize).div_ceil(shape.block_rows(self.coded));
        let rows_bytes = self.rows as usize * shape.row_bytes() + blocks * CHECKSUM_BYTES;
        at += rows_bytes as u64;
        let mut block = |bytes: u32| {
            let handle = BlockHandle { number: at, offset: at, bytes: bytes as usize };
            at += u64::from(bytes);
            handle
        };
        let payloads = self.payloads.iter().map(|payload| block(payload.bytes)).collect();
        if at != entry.offset + entry.bytes {
            return Err(Malformed("the blocks of a part do not fill it"));
        }
        let [codes, attributes, names] = leaves;
        Ok(Layout { ids, codes, attributes, names, seconds_at, rows_at, payloads })
    }
}

fn take_leaf(input: &mut ByteReader<'_>, steps: usize) -> Result<LeafHead, Malformed> {
    let (rows, bytes) = (input.u32()?, [input.u32()?, input.u32()?, input.u32()?]);
    let mut leaf = LeafHead { rows, bytes, ..LeafHead::default() };
    if steps > 0 {
        let mut numbers = [0.0; 5];
        for x in &mut numbers {
            *x = input.f32()?;
        }
        [leaf.reach, leaf.add_max, leaf.scale_max, leaf.low, leaf.step] = numbers;
        if numbers.iter().any(|x| !x.is_finite()) || leaf.reach < 0.0 || leaf.step < 0.0 {
            return Err(Malformed("a leaf with a number that is out of range"));
        }
        leaf.steps = input.bytes(steps)?.to_vec();
    }
    Ok(leaf)
}

/// Where the blocks of a part lie. A block of length 0 is not there.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) ids: Vec<BlockHandle>,
    pub(crate) codes: Vec<BlockHandle>,
    pub(crate) attributes: Vec<BlockHandle>,
    pub(crate) names: Vec<BlockHandle>,
    /// Codes for a second look, a block per row, if the run has them.
    pub(crate) seconds_at: u64,
    pub(crate) rows_at: u64,
    pub(crate) payloads: Vec<BlockHandle>,
}
