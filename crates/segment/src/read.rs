//! Opens a segment and reads its blocks.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use vstream_quantize::rabitq::Rotation;
use vstream_quantize::scalar8::Centroids;
use vstream_store::blocks::{
    unseal, Block, BlockAddress, BlockHandle, BlockReader, CHECKSUM_BYTES,
};
use vstream_store::codec::{Shape, BLOCK_ROWS};
use vstream_store::{
    Access, Cache, Counted, Error, ErrorKind, FileStore, IoCounts, Range, ReadAt, Store, Syncing,
};
use vstream_vector::{Element, Metric};

use crate::attached::Attached;
use crate::centroid::StoredCentroid;
use crate::codes::Part;
use crate::format::{Footer, Header, HeaderError, Meta, FOOTER, FOOTER_NUMBER, HEADER, NUMBERED};
use crate::write::{LeafCentroid, SegmentKind};

/// Blocks read together when a whole area is read.
pub(crate) const BLOCKS_AHEAD: usize = 128;

/// Knows the bytes of a centroid to hold in place of equal ones, given the number of the leaf.
pub type SharedCentroid<'a> =
    dyn FnMut(u64, &Arc<StoredCentroid>) -> Option<Arc<StoredCentroid>> + 'a;

/// Place of the codes of an open segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codes {
    /// In memory, read once at open: `padded / 8 + 4` bytes per row.
    Resident,
    /// In the file: each query reads the postings of the leaves that it visits.
    OnDemand,
}

/// Options of [`Segment::open`].
#[derive(Clone)]
pub struct OpenOptions {
    /// Cache of blocks, shared with other segments. Without it every read goes to the file.
    pub cache: Option<Arc<Cache<Block>>>,
    /// Place of the codes.
    pub codes: Codes,
}

/// Bytes of memory of an open segment, without the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentMemory {
    /// Leaf directory, block offsets, and the directory of fields.
    pub directory: u64,
    /// Part of `directory`: summaries of leaves, block offsets of fields, shared dictionaries.
    pub fields: u64,
    /// Part of `directory`: centroids, which other segments may hold too ([`Segment::share_centroids`]).
    pub centroids: u64,
    /// Codes and factors that are in memory.
    pub codes: u64,
}

/// Position and reach of a leaf.
pub(crate) struct LeafLayout {
    pub(crate) rows: u32,
    pub(crate) reach: f32,
    pub(crate) number: u64,
    pub(crate) first_row: u32,
    pub(crate) first_block: u32,
    /// Runs of one leaf share it: see [`Segment::share_centroids`].
    pub(crate) centroid: Arc<StoredCentroid>,
}

/// An open segment: immutable, shared by any number of readers.
pub struct Segment {
    pub(crate) header: Header,
    pub(crate) rotation: Rotation,
    pub(crate) leaves: Vec<LeafLayout>,
    /// The centroids of the leaves, laid out for ranking when a query ranks this segment alone. An engine
    /// ranks the leaves of all its segments together.
    centroids: OnceLock<Centroids>,
    /// Offset of each row block, then the end of the last.
    row_blocks: Vec<u64>,
    /// Offset of the first posting.
    postings: u64,
    /// Number and end of each row block that blocks of fields follow.
    breaks: Vec<(u32, u64)>,
    /// Smallest id and offset of each id block, then the end of the last.
    pub(crate) ids: Vec<(u64, u64)>,
    /// Fields of the rows, if they may have some.
    pub(crate) attached: Option<Attached>,
    rows: u64,
    digest: u128,
    codes: (u64, u64),
    /// Codes and factors by part.
    pub(crate) parts: Vec<Part>,
    /// Reads through the cache.
    pub(crate) blocks: BlockReader,
    /// Reads that bypass the cache, for walks over the whole segment.
    pub(crate) passing: BlockReader,
    counted: Arc<Counted>,
}

impl Segment {
    /// Opens a segment: reads and checks header, footer and meta, and the codes if they are to be
    /// resident. Every other block is checked when it is read.
    ///
    /// Cost: two rounds of reads; with fields two more; with resident codes one more per MiB of them.
    /// Errors: `Corrupt` with file and offset, `Unsupported` if a newer version wrote it, those of the
    /// store.
    pub fn open(file: Arc<dyn ReadAt>, options: OpenOptions) -> Result<Segment, Error> {
        let counted = Arc::new(Counted::new(file));
        let (header, meta, meta_offset) = read_ends(&*counted)?;
        let file: Arc<dyn ReadAt> = counted.clone();
        let reader =
            |cache| BlockReader::new(file.clone(), header.identity, header.version(), cache);
        let (blocks, passing) = (reader(options.cache), reader(None));
        let fields_offset = meta_offset - u64::from(meta.fields_bytes);
        let attached = match header.has_fields {
            true => Some(Attached::read(&passing, fields_offset, &meta)?),
            false => None,
        };
        let mut segment = Segment {
            header,
            rotation: Rotation::new(header.dimension, header.seed),
            leaves: Vec::with_capacity(meta.leaves.len()),
            centroids: OnceLock::new(),
            row_blocks: Vec::with_capacity(meta.row_blocks.len() + 1),
            postings: 0,
            breaks: Vec::new(),
            ids: Vec::with_capacity(meta.id_blocks.len() + 1),
            attached,
            rows: meta.rows,
            digest: meta.digest,
            codes: meta.codes,
            parts: Vec::new(),
            blocks,
            passing,
            counted,
        };
        let end = segment.lay_out(&meta);
        if end != Some(fields_offset) {
            return Err(segment.corrupt(meta_offset, "the areas do not fill the file"));
        }
        if let Some(attached) = &mut segment.attached {
            attached.hold_dictionaries(&segment.passing)?;
        }
        segment.parts = segment.make_parts();
        if options.codes == Codes::Resident {
            segment.hold_all()?;
        }
        Ok(segment)
    }

    /// Opens a segment by the path of its file. Errors: as [`Segment::open`].
    pub fn open_file(path: &Path, options: OpenOptions) -> Result<Segment, Error> {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
            let file = path.display().to_string();
            Error::new(ErrorKind::Invalid, file, "is no name of a segment: give a file")
        })?;
        let store = FileStore::open_dir(folder, Syncing::Off)?;
        Segment::open(store.open(name, Access::Cached)?, options)
    }

    /// Computes the offsets of the areas; returns the offset after the last. `None` if a block of
    /// fields lies where none can be.
    fn lay_out(&mut self, meta: &Meta) -> Option<u64> {
        let mut offset = self.lay_out_rows(meta)?;
        self.postings = offset;
        let cluster = self.header.kind == SegmentKind::Cluster;
        let (mut first_row, mut first_block) = (0, 0);
        for (leaf, at) in meta.leaves.iter().zip(0..) {
            self.leaves.push(LeafLayout {
                rows: leaf.rows,
                reach: leaf.reach,
                number: leaf.number.unwrap_or(at),
                first_row,
                first_block,
                centroid: leaf.centroid.clone(),
            });
            if cluster {
                offset += self.header.posting_bytes(leaf.rows) as u64;
            }
            first_row += leaf.rows;
            first_block += (leaf.rows as usize).div_ceil(BLOCK_ROWS) as u32;
        }
        for block in &meta.id_blocks {
            self.ids.push((block.first, offset));
            offset += u64::from(block.bytes);
        }
        self.ids.push((u64::MAX, offset));
        Some(offset)
    }

    /// Computes the offsets of the row blocks, between which blocks of fields may lie; returns the
    /// offset after the last of both.
    fn lay_out_rows(&mut self, meta: &Meta) -> Option<u64> {
        let extents = self.attached.as_ref().map(Attached::extents).unwrap_or_default();
        let mut others = extents.into_iter().peekable();
        let mut skip = |offset: &mut u64| {
            while let Some(other) = others.next_if(|other| other.offset == *offset) {
                *offset += u64::from(other.bytes);
            }
        };
        let mut offset = (HEADER + CHECKSUM_BYTES) as u64;
        for (&bytes, block) in meta.row_blocks.iter().zip(0..) {
            let end = offset;
            skip(&mut offset);
            if offset > end && block > 0 {
                self.breaks.push((block - 1, end));
            }
            self.row_blocks.push(offset);
            offset += u64::from(bytes);
        }
        self.row_blocks.push(offset);
        skip(&mut offset);
        others.next().is_none().then_some(offset)
    }

    /// Number of rows, deleted ones included.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Number of leaves.
    pub fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// Number of a leaf, which is that of its runs in all segments of a partition. Leaves of a file
    /// before version 3 are numbered from 0: see [`Segment::number_from`].
    pub fn leaf_number(&self, leaf: usize) -> u64 {
        self.leaves[leaf].number
    }

    /// Gives the leaves other numbers: those of the partition that has taken the file over from another
    /// one. False if `number` knows none for a leaf. A file without numbers of its own keeps those of
    /// [`Segment::number_from`].
    pub fn renumber(&mut self, number: &dyn Fn(u64) -> Option<u64>) -> bool {
        if !self.header.is_numbered {
            return true;
        }
        for leaf in &mut self.leaves {
            let Some(number) = number(leaf.number) else { return false };
            leaf.number = number;
        }
        true
    }

    /// The number of a leaf, as [`Segment::number_from`] would give it.
    pub fn leaf_number_from(&self, first: u64, leaf: usize) -> u64 {
        if self.header.is_numbered {
            return self.leaf_number(leaf);
        }
        first.wrapping_add(leaf as u64)
    }

    /// Numbers the leaves from `first` on, if the file has no numbers of its own: it is of a version
    /// before 3. So no other segment has leaves of these numbers, if `first` is the file's alone.
    pub fn number_from(&mut self, first: u64) {
        if !self.header.is_numbered {
            let numbers = self.leaves.iter_mut().zip(0..);
            numbers.for_each(|(leaf, at)| leaf.number = first.wrapping_add(at));
        }
    }

    /// Replaces the bytes of centroids by equal ones that others hold, so that runs of one leaf in several
    /// segments hold them once.
    pub fn share_centroids(&mut self, shared: &mut SharedCentroid<'_>) {
        for leaf in &mut self.leaves {
            let other = shared(leaf.number, &leaf.centroid);
            if let Some(other) = other.filter(|other| *other == leaf.centroid) {
                leaf.centroid = other;
            }
        }
    }

    /// The rows of some successive leaves.
    pub fn rows_of_leaves(&self, leaves: std::ops::Range<u32>) -> std::ops::Range<u32> {
        let first_row = |leaf: u32| match self.leaves.get(leaf as usize) {
            Some(leaf) => leaf.first_row,
            None => self.rows as u32,
        };
        first_row(leaves.start)..first_row(leaves.end)
    }

    /// Number of row blocks, each of up to 32 rows.
    pub fn row_blocks(&self) -> usize {
        self.row_blocks.len() - 1
    }

    /// Dimensions of its vectors.
    pub fn dimension(&self) -> usize {
        self.header.dimension
    }

    /// Formula of its distance.
    pub fn metric(&self) -> Metric {
        self.header.metric
    }

    /// Element type of its rows.
    pub fn element(&self) -> Element {
        self.header.element
    }

    /// A number that no other file ever had.
    pub fn identity(&self) -> u64 {
        self.header.identity
    }

    /// True if its rows may have fields.
    pub fn has_fields(&self) -> bool {
        self.header.has_fields
    }

    /// Kind of its index.
    pub fn kind(&self) -> SegmentKind {
        self.header.kind
    }

    /// Smallest and largest routing code of its rows; if it has no rows, the first is above the
    /// second.
    pub fn code_range(&self) -> (u64, u64) {
        self.codes
    }

    /// Sum, mod 2^128, of a hash of (id, version) of every row.
    pub fn digest(&self) -> u128 {
        self.digest
    }

    /// Length of the file.
    pub fn bytes(&self) -> u64 {
        self.counted.bytes()
    }

    /// False while its file is in a far store alone.
    pub fn is_near(&self) -> bool {
        self.counted.is_near()
    }

    /// Counts of reads of the file so far, by all readers.
    pub fn io(&self) -> IoCounts {
        self.counted.counts()
    }

    /// Memory that the segment holds now.
    pub fn memory(&self) -> SegmentMemory {
        let ranked = self.centroids.get().map_or(0, |c| c.len() * (c.dimension() + 16));
        let of = |leaf: &LeafLayout| leaf.centroid.memory_bytes();
        let centroids = if self.is_cluster() { self.leaves.iter().map(of).sum() } else { 0 };
        let directory = size_of_val(&*self.leaves)
            + centroids
            + ranked
            + size_of_val(&*self.row_blocks)
            + size_of_val(&*self.ids);
        let parts = size_of_val(&*self.parts);
        let fields = self.attached.as_ref().map_or(0, Attached::memory_bytes) as u64;
        let directory = (directory + parts + size_of_val(&*self.breaks)) as u64 + fields;
        SegmentMemory { directory, fields, centroids: centroids as u64, codes: self.code_bytes().0 }
    }

    /// Address of a row block.
    pub(crate) fn row_block(&self, block: u32) -> BlockHandle {
        let from = self.row_blocks[block as usize];
        let to = match self.breaks.binary_search_by_key(&block, |&(before, _)| before) {
            Ok(at) => self.breaks[at].1,
            Err(_) => self.row_blocks[block as usize + 1],
        };
        BlockHandle { number: 1 + u64::from(block), offset: from, bytes: (to - from) as usize }
    }

    /// Address of the posting of a leaf of a cluster segment.
    pub(crate) fn posting(&self, leaf: u32) -> BlockHandle {
        let place = &self.leaves[leaf as usize];
        BlockHandle {
            number: (1 + self.row_blocks() + leaf as usize) as u64,
            offset: self.postings
                + u64::from(place.first_block) * self.header.posting_block_bytes() as u64
                + u64::from(leaf) * CHECKSUM_BYTES as u64,
            bytes: self.header.posting_bytes(place.rows),
        }
    }

    /// Writes to `out` the rounded centroid, rotated, that the codes of a leaf refer to.
    pub(crate) fn centroid(&self, leaf: u32, out: &mut [f32]) {
        self.leaves[leaf as usize].centroid.write(out);
    }

    /// True if its leaves have centroids and codes.
    pub(crate) fn is_cluster(&self) -> bool {
        self.header.kind == SegmentKind::Cluster
    }

    /// The centroids of a cluster segment, laid out for ranking.
    pub(crate) fn centroids(&self) -> &Centroids {
        self.centroids.get_or_init(|| {
            let of = &mut |leaf: usize, out: &mut [f32]| self.centroid(leaf as u32, out);
            Centroids::of(self.leaves.len(), self.rotation.padded(), of)
        })
    }

    /// Largest Euclidean distance of a row of a leaf to its centroid.
    pub fn leaf_reach(&self, leaf: usize) -> f32 {
        self.leaves[leaf].reach
    }

    /// Number of rows of a leaf, deleted ones included.
    pub fn leaf_rows(&self, leaf: usize) -> u32 {
        self.leaves[leaf].rows
    }

    /// The leaf that a row is in.
    pub fn leaf_of(&self, row: u32) -> usize {
        self.leaves.partition_point(|leaf| leaf.first_row <= row) - 1
    }

    /// Number and centroid of a leaf of a cluster segment.
    pub fn leaf_definition(&self, leaf: usize) -> LeafCentroid {
        let LeafLayout { number, ref centroid, .. } = self.leaves[leaf];
        LeafCentroid { number, centroid: centroid.clone() }
    }

    /// Seed of the rotation of its codes and centroids.
    pub fn seed(&self) -> u64 {
        self.header.seed
    }

    /// Shape of the vectors, for a codec.
    pub(crate) fn shape(&self) -> Shape {
        Shape { kind: self.header.codec_kind(), dimension: self.header.dimension }
    }

    pub(crate) fn corrupt(&self, offset: u64, what: impl std::fmt::Display) -> Error {
        Error::corrupt(self.counted.name(), offset, what)
    }
}

/// Reads and checks header, footer and meta; returns header, meta and the offset of meta.
fn read_ends(file: &dyn ReadAt) -> Result<(Header, Meta, u64), Error> {
    let (name, length) = (file.name(), file.bytes());
    let head = HEADER + CHECKSUM_BYTES;
    let foot = FOOTER + CHECKSUM_BYTES;
    let corrupt = |offset, what: &str| Error::corrupt(name, offset, what);
    if length < (head + foot) as u64 {
        return Err(corrupt(0, "too short for a segment: torn, or not ours"));
    }
    let foot_offset = length - foot as u64;
    let ends = file.read_many(&[
        Range { offset: 0, bytes: head },
        Range { offset: foot_offset, bytes: foot },
    ])?;
    let header = match Header::decode(&ends[0]) {
        Ok(header) => header,
        Err(HeaderError::Malformed(what)) => return Err(corrupt(0, what.0)),
        Err(HeaderError::Version(version)) => {
            let what = format!(
                "segment version {version}, this one reads versions up to {NUMBERED}: use a newer"
            );
            return Err(Error::new(ErrorKind::Unsupported, name, what));
        }
    };
    let place = |number| BlockAddress { file: header.identity, number, version: header.version() };
    unseal(place(0), &ends[0], name, 0)?;
    unseal(place(FOOTER_NUMBER), &ends[1], name, foot_offset)?;
    let footer = Footer::decode(&ends[1]).map_err(|what| corrupt(foot_offset, what.0))?;
    let meta_offset = foot_offset.checked_sub(footer.meta_bytes);
    let meta_offset = match meta_offset {
        Some(at)
            if at >= head as u64
                && footer.identity == header.identity
                && footer.file_bytes == length =>
        {
            at
        }
        _ => return Err(corrupt(foot_offset, "the footer is not of a file of this length")),
    };
    let range = Range { offset: meta_offset, bytes: footer.meta_bytes as usize };
    let bytes = file.read(range)?;
    let payload = unseal(place(footer.meta_number), &bytes, name, meta_offset)?;
    let meta = Meta::decode(&header, payload).map_err(|what| corrupt(meta_offset, what.0))?;
    let postings = if header.kind == SegmentKind::Cluster { meta.leaves.len() } else { 0 };
    let before = 1 + meta.row_blocks.len() + postings + meta.id_blocks.len();
    if u64::from(meta.fields_bytes) > meta_offset - head as u64 {
        return Err(corrupt(meta_offset, "the directory of fields is longer than the file"));
    }
    if footer.meta_number != before as u64 {
        return Err(corrupt(foot_offset, "the number of blocks is not that of the directory"));
    }
    Ok((header, meta, meta_offset))
}
