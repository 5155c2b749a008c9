//! The bytes of a graph segment. Little-endian; a checksum follows every block.
//!
//! ```text
//! header   block 0, 4,096 bytes: settings and identity
//! nodes    blocks of a multiple of 4,096 bytes: `capacity` records each
//! codes    chunks of 1,024 codes
//! centres  chunks of 64 centroids of the codes
//! sample   chunks of 256 nodes of the navigation graph, with neighbours and vector
//! copies   chunks of 4,096 (node, number of further rows with its vector)
//! keys     chunks of 1,024 rows by id
//! meta     counts, smallest id of each chunk of keys
//! footer   where meta is, how long the file is
//! ```
//!
//! A *node* is a vector that no other node equals. A record is the vector, the number of neighbours
//! in one byte, and Λ places of four bytes. Nodes are numbered by place, so that block and lane
//! follow from a number and no table says where a node is. One byte for the degree leaves room for
//! the checksum of the block also where 16 records of 253 bytes are in it.
//!
//! Row `i` below the number of nodes is the first row of node `i`; further rows of nodes with copies
//! follow, by node.

use vstream_store::blocks::{BlockHandle, CHECKSUM_BYTES};
use vstream_store::codec::DIMENSION_MAX;
use vstream_vector::cursor::{ByteReader, Truncated};
use vstream_vector::{Element, Metric};

use crate::codes::{stride, CENTROIDS_MAX};
use crate::layout::Layout;
use crate::settings::CodeBits;

pub(crate) const VERSION: u32 = 1;
pub(crate) const MAGIC: &[u8; 8] = b"VSTRGRPH";
const FOOTER_MAGIC: &[u8; 8] = b"VSTRGRPF";
/// Bytes of a page; the header takes one.
pub(crate) const PAGE: usize = 4096;
pub(crate) const FOOTER: usize = 40;
pub(crate) const FOOTER_NUMBER: u64 = u64::MAX;
/// Rows of a chunk of keys.
pub(crate) const KEY_ROWS: usize = 1024;
/// Bytes of a key: id, version, code, shard, row.
pub(crate) const KEY_BYTES: usize = 30;
/// Most rows of a segment.
pub(crate) const ROWS_MAX: u64 = (1 << 31) - 1;

/// Reason that bytes are no graph segment.
#[derive(Debug)]
pub(crate) struct Malformed(pub(crate) &'static str);

impl From<Truncated> for Malformed {
    fn from(_: Truncated) -> Malformed {
        Malformed("a block is too short")
    }
}

/// The settings that readers need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Header {
    pub(crate) dimension: usize,
    pub(crate) metric: Metric,
    pub(crate) element: Element,
    pub(crate) codes: CodeBits,
    pub(crate) layout: Layout,
    pub(crate) degree: usize,
    pub(crate) sample_degree: usize,
    pub(crate) seed: u64,
    pub(crate) identity: u64,
}

impl Header {
    /// The payload of block 0.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(self.dimension as u32).to_le_bytes());
        let bits = if self.codes == CodeBits::One { 1 } else { 4 };
        out.extend_from_slice(&[self.metric.tag(), self.element.tag(), bits]);
        out.extend_from_slice(&self.layout.tags());
        out.extend_from_slice(&[self.degree as u8, self.sample_degree as u8]);
        out.extend_from_slice(&self.seed.to_le_bytes());
        out.extend_from_slice(&self.identity.to_le_bytes());
        out.resize(PAGE - CHECKSUM_BYTES, 0);
        out
    }

    /// Reads a header; the checksum is checked later, because it needs the identity.
    /// `Err(Some(_))` is the number of a newer version.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Header, (Malformed, Option<u32>)> {
        let plain = |what| (Malformed(what), None);
        let short = |_: Truncated| plain("a block is too short");
        let mut input = ByteReader::new(bytes);
        if &input.array().map_err(short)? != MAGIC {
            return Err(plain("it does not begin as a graph segment"));
        }
        let version = input.u32().map_err(short)?;
        if version != VERSION {
            return Err((Malformed("another version wrote it"), Some(version)));
        }
        let dimension = input.u32().map_err(short)? as usize;
        let [metric, element, bits, kind, passes, swaps, degree, sample_degree] =
            input.array().map_err(short)?;
        let (seed, identity) = (input.u64().map_err(short)?, input.u64().map_err(short)?);
        let codes = [(1, CodeBits::One), (4, CodeBits::Four)];
        let codes = codes.iter().find(|(tag, _)| *tag == bits).map(|(_, codes)| *codes);
        let parts = (Metric::from_tag(metric), Element::from_tag(element), codes);
        let (Some(metric), Some(element), Some(codes)) = parts else {
            return Err(plain("an unknown metric, element or width of codes"));
        };
        let Some(layout) = Layout::from_tags([kind, passes, swaps]) else {
            return Err(plain("an unknown layout"));
        };
        if !(1..=DIMENSION_MAX).contains(&dimension) || degree < 2 || sample_degree < 2 {
            return Err(plain("the dimension or a degree is out of range"));
        }
        let (degree, sample_degree) = (usize::from(degree), usize::from(sample_degree));
        let header = Header {
            dimension,
            metric,
            element,
            codes,
            layout,
            degree,
            sample_degree,
            seed,
            identity,
        };
        Ok(header)
    }

    pub(crate) fn padded(&self) -> usize {
        self.dimension.next_multiple_of(64)
    }

    pub(crate) fn vector_bytes(&self) -> usize {
        self.dimension * self.element.bytes()
    }

    /// Bytes of a record: vector, degree, neighbours.
    pub(crate) fn record_bytes(&self) -> usize {
        self.vector_bytes() + 1 + 4 * self.degree
    }

    /// Bytes of a block of nodes: as few pages as hold one record.
    pub(crate) fn block_bytes(&self) -> usize {
        (self.record_bytes() + CHECKSUM_BYTES).next_multiple_of(PAGE)
    }

    /// Records of a block (ε).
    pub(crate) fn capacity(&self) -> usize {
        (self.block_bytes() - CHECKSUM_BYTES) / self.record_bytes()
    }

    /// Bytes of a node of the sample: its number, degree, neighbours, vector.
    pub(crate) fn sample_bytes(&self) -> usize {
        5 + 4 * self.sample_degree + self.vector_bytes()
    }
}

/// The footer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footer {
    pub(crate) identity: u64,
    pub(crate) meta_number: u64,
    pub(crate) meta_bytes: u64,
    pub(crate) file_bytes: u64,
}

impl Footer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = FOOTER_MAGIC.to_vec();
        for word in [self.identity, self.meta_number, self.meta_bytes, self.file_bytes] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Footer, Malformed> {
        let mut input = ByteReader::new(bytes);
        if &input.array()? != FOOTER_MAGIC {
            return Err(Malformed("it does not end as a graph segment: torn, or not ours"));
        }
        let (identity, meta_number) = (input.u64()?, input.u64()?);
        Ok(Footer { identity, meta_number, meta_bytes: input.u64()?, file_bytes: input.u64()? })
    }
}

/// Counts of a segment, from which the places of all its parts follow.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Meta {
    pub(crate) nodes: u64,
    pub(crate) rows: u64,
    pub(crate) digest: u128,
    pub(crate) overlap: f64,
    pub(crate) entry: u32,
    pub(crate) centroids: u32,
    pub(crate) sample: u32,
    pub(crate) sample_entry: u32,
    pub(crate) copies: u32,
    /// Smallest id of each chunk of keys.
    pub(crate) first_ids: Vec<u64>,
}

impl Meta {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.nodes.to_le_bytes());
        out.extend_from_slice(&self.rows.to_le_bytes());
        out.extend_from_slice(&self.digest.to_le_bytes());
        out.extend_from_slice(&self.overlap.to_le_bytes());
        for n in [self.entry, self.centroids, self.sample, self.sample_entry, self.copies] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        self.first_ids.iter().for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
        out
    }

    /// Reads a meta block; checks counts before it takes memory for them.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Meta, Malformed> {
        let mut input = ByteReader::new(bytes);
        let (nodes, rows, digest) = (input.u64()?, input.u64()?, input.u128()?);
        let overlap = input.f64()?;
        let (entry, centroids, sample) = (input.u32()?, input.u32()?, input.u32()?);
        let (sample_entry, copies) = (input.u32()?, input.u32()?);
        if rows > ROWS_MAX || nodes > rows || (nodes == 0) != (rows == 0) {
            return Err(Malformed("the number of rows is out of range"));
        }
        let is_whole = (0.0..=1.0).contains(&overlap)
            && centroids as usize <= CENTROIDS_MAX
            && (centroids > 0 || nodes == 0)
            && u64::from(sample) <= nodes
            && u64::from(copies) <= (rows - nodes).min(nodes)
            && (copies == 0) == (rows == nodes)
            && (u64::from(entry) < nodes || nodes == 0)
            && (sample_entry < sample || sample == 0);
        if !is_whole {
            return Err(Malformed("a count is out of range"));
        }
        let chunks = (rows as usize).div_ceil(KEY_ROWS);
        if input.left() != chunks * 8 {
            return Err(Malformed("the directory is not as long as its counts say"));
        }
        let first_ids = (0..chunks).map(|_| input.u64()).collect::<Result<_, _>>()?;
        Ok(Meta {
            nodes,
            rows,
            digest,
            overlap,
            entry,
            centroids,
            sample,
            sample_entry,
            copies,
            first_ids,
        })
    }
}

/// A part of the file: items of one length in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) items: usize,
    pub(crate) item_bytes: usize,
    pub(crate) per_chunk: usize,
    first_number: u64,
    offset: u64,
}

impl Area {
    pub(crate) fn chunks(&self) -> usize {
        self.items.div_ceil(self.per_chunk)
    }

    /// Items of a chunk.
    pub(crate) fn in_chunk(&self, chunk: usize) -> usize {
        (self.items - chunk * self.per_chunk).min(self.per_chunk)
    }

    pub(crate) fn handle(&self, chunk: usize) -> BlockHandle {
        let before = chunk * (self.per_chunk * self.item_bytes + CHECKSUM_BYTES);
        BlockHandle {
            number: self.first_number + chunk as u64,
            offset: self.offset + before as u64,
            bytes: self.in_chunk(chunk) * self.item_bytes + CHECKSUM_BYTES,
        }
    }

    fn end(&self) -> (u64, u64) {
        let bytes = self.items * self.item_bytes + self.chunks() * CHECKSUM_BYTES;
        (self.first_number + self.chunks() as u64, self.offset + bytes as u64)
    }
}

/// Where everything is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Blocks of nodes.
    pub(crate) blocks: usize,
    block_bytes: usize,
    pub(crate) codes: Area,
    pub(crate) centroids: Area,
    pub(crate) sample: Area,
    pub(crate) copies: Area,
    pub(crate) keys: Area,
    /// Number and offset of meta.
    pub(crate) meta: (u64, u64),
}

impl Places {
    pub(crate) fn of(header: &Header, meta: &Meta) -> Places {
        let blocks = (meta.nodes as usize).div_ceil(header.capacity());
        let bytes = header.block_bytes();
        let mut at = (1 + blocks as u64, (PAGE + blocks * bytes) as u64);
        let mut area = |items: usize, item_bytes: usize, per_chunk: usize| {
            let (first_number, offset) = at;
            let area = Area { items, item_bytes, per_chunk, first_number, offset };
            at = area.end();
            area
        };
        Places {
            blocks,
            block_bytes: bytes,
            codes: area(meta.nodes as usize, stride(header.codes, header.padded()), 1024),
            centroids: area(meta.centroids as usize, 4 * header.padded(), 64),
            sample: area(meta.sample as usize, header.sample_bytes(), 256),
            copies: area(meta.copies as usize, 8, 4096),
            keys: area(meta.rows as usize, KEY_BYTES, KEY_ROWS),
            meta: at,
        }
    }

    /// A block of nodes.
    pub(crate) fn block(&self, block: u32) -> BlockHandle {
        BlockHandle {
            number: 1 + u64::from(block),
            offset: (PAGE + block as usize * self.block_bytes) as u64,
            bytes: self.block_bytes,
        }
    }
}
