//! Opens a graph segment.

use std::sync::Arc;

use vstream_index::stages::form_of;
use vstream_index::RowKey;
use vstream_quantize::rabitq::Rotation;
use vstream_store::blocks::{
    unseal, Block, BlockAddress, BlockHandle, BlockReader, CHECKSUM_BYTES,
};
use vstream_store::{Cache, Counted, Error, ErrorKind, IoCounts, Range, ReadAt};
use vstream_vector::cursor::ByteReader;
use vstream_vector::{with_number, Element, Metric};

use crate::codes::Codes;
use crate::format::{
    Area, Footer, Header, Malformed, Meta, Places, FOOTER, FOOTER_NUMBER, MAGIC, PAGE, VERSION,
};
use crate::layout::Layout;
use crate::navigate::{Navigate, Navigation};

/// Chunks that are read together.
const AHEAD: usize = 64;

/// Ids or versions of rows, in as few bytes as their range needs.
pub(crate) struct Narrow {
    least: u64,
    width: usize,
    bytes: Vec<u8>,
}

impl Narrow {
    fn of(values: &[u64]) -> Narrow {
        let least = values.iter().copied().min().unwrap_or(0);
        let most = values.iter().copied().max().unwrap_or(0);
        let width = (u64::BITS - (most - least).leading_zeros()).div_ceil(8) as usize;
        let each = values.iter().map(|value| (value - least).to_le_bytes());
        let bytes = each.flat_map(|bytes| bytes.into_iter().take(width)).collect();
        Narrow { least, width, bytes }
    }

    #[inline]
    pub(crate) fn get(&self, row: u32) -> u64 {
        let mut word = [0; 8];
        word[..self.width].copy_from_slice(&self.bytes[row as usize * self.width..][..self.width]);
        self.least + u64::from_le_bytes(word)
    }
}

/// Numbers of an open segment, as `inspect` shows them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphNumbers {
    /// Rows, deleted ones included.
    pub rows: u64,
    /// Different vectors.
    pub nodes: u64,
    /// Blocks of nodes.
    pub blocks: u64,
    /// Records of a block (ε).
    pub capacity: usize,
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Most neighbours of a node (Λ).
    pub degree: usize,
    /// How blocks were filled.
    pub layout: Layout,
    /// OR(G), the overlap ratio.
    pub overlap: f64,
    /// Nodes of the navigation graph.
    pub sample: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of memory of codes and their centroids.
    pub code_bytes: u64,
    /// Bytes of memory of the navigation graph.
    pub sample_bytes: u64,
    /// Bytes of memory of ids, versions and the directory.
    pub key_bytes: u64,
}

/// An open segment: immutable, shared by any number of readers.
pub struct GraphSegment {
    pub(crate) header: Header,
    pub(crate) meta: Meta,
    pub(crate) places: Places,
    pub(crate) rotation: Rotation,
    pub(crate) codes: Codes,
    pub(crate) navigation: Option<Box<dyn Navigate>>,
    /// Node, its first further row, how many; ascending.
    pub(crate) copies: Vec<(u32, u32, u32)>,
    pub(crate) ids: Narrow,
    pub(crate) versions: Narrow,
    pub(crate) blocks: BlockReader,
    pub(crate) passing: BlockReader,
    counted: Arc<Counted>,
}

/// True if a file begins as a graph segment; it may be damaged all the same. Cost: a read of 8 bytes.
/// Errors: those of the store.
pub fn is_graph(file: &dyn ReadAt) -> Result<bool, Error> {
    if file.bytes() < MAGIC.len() as u64 {
        return Ok(false);
    }
    Ok(file.read(Range { offset: 0, bytes: MAGIC.len() })?[..] == MAGIC[..])
}

impl GraphSegment {
    /// Opens a segment: reads and checks all parts but the blocks of nodes, which are checked when
    /// they are read.
    ///
    /// * `cache`: keeps blocks, shared with other files. Without it every read goes to the file.
    ///
    /// Cost: reads codes, sample and keys. Errors: `Corrupt` with file and offset, `Unsupported` if
    /// another version wrote it, those of the store.
    pub fn open(
        file: Arc<dyn ReadAt>,
        cache: Option<Arc<Cache<Block>>>,
    ) -> Result<GraphSegment, Error> {
        let counted = Arc::new(Counted::new(file));
        let file: Arc<dyn ReadAt> = counted.clone();
        let (header, meta) = read_ends(&*file)?;
        let name = file.name().to_owned();
        let corrupt = |offset: u64, what: Malformed| Error::corrupt(&name, offset, what.0);
        let places = Places::of(&header, &meta);
        let reader = |cache| BlockReader::new(file.clone(), header.identity, VERSION, cache);
        let (blocks, passing) = (reader(cache), reader(None));
        let codes = Codes {
            bits: header.codes,
            form: form_of(header.metric),
            padded: header.padded(),
            centroids: floats(&read_area(&passing, places.centroids)?),
            bytes: read_area(&passing, places.codes)?,
        };
        let stride = places.codes.item_bytes;
        let is_known = |code: &[u8]| u32::from(code[0]) < meta.centroids;
        let is_finite = codes.centroids.iter().all(|x| x.is_finite());
        if !codes.bytes.chunks_exact(stride).all(is_known) || !is_finite {
            return Err(corrupt(places.codes.handle(0).offset, Malformed("a code is damaged")));
        }
        let sample = read_area(&passing, places.sample)?;
        let navigation = (meta.sample > 0).then(|| {
            let counts = (meta.sample as usize, meta.nodes);
            let graph = (header.sample_degree, meta.sample_entry);
            let shape = (header.dimension, header.metric);
            with_number!(header.element, N => {
                Navigation::<N>::decode(&sample, counts, graph, shape)
                    .map(|it| Box::new(it) as Box<dyn Navigate>)
            })
        });
        let navigation = navigation.transpose();
        let navigation =
            navigation.map_err(|what| corrupt(places.sample.handle(0).offset, what))?;
        let copies = further_rows(&read_area(&passing, places.copies)?, &meta);
        let copies = copies.map_err(|what| corrupt(places.meta.1, what))?;
        let keys = read_area(&passing, places.keys)?;
        let (ids, versions) = columns(&keys, &meta).map_err(|what| corrupt(places.meta.1, what))?;
        let rotation = Rotation::new(header.dimension, header.seed);
        let segment = GraphSegment {
            header,
            meta,
            places,
            rotation,
            codes,
            navigation,
            copies,
            ids,
            versions,
            blocks,
            passing,
            counted,
        };
        Ok(segment)
    }

    /// Number of rows, deleted ones included.
    pub fn rows(&self) -> u64 {
        self.meta.rows
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

    /// Sum, mod 2^128, of a hash of (id, version) of every row.
    pub fn digest(&self) -> u128 {
        self.meta.digest
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

    /// Calls `visit` with id, version and number of every row, deleted or not, by number. Reads
    /// nothing.
    pub fn for_each_id(&self, visit: &mut dyn FnMut(u64, u64, u32)) {
        (0..self.meta.rows as u32)
            .for_each(|row| visit(self.ids.get(row), self.versions.get(row), row));
    }

    /// The numbers of the segment.
    pub fn inspect(&self) -> GraphNumbers {
        let keys = self.ids.bytes.len() + self.versions.bytes.len();
        let directory = size_of_val(&*self.meta.first_ids) + size_of_val(&*self.copies);
        GraphNumbers {
            rows: self.meta.rows,
            nodes: self.meta.nodes,
            blocks: self.places.blocks as u64,
            capacity: self.header.capacity(),
            block_bytes: self.header.block_bytes(),
            degree: self.header.degree,
            layout: self.header.layout,
            overlap: self.meta.overlap,
            sample: u64::from(self.meta.sample),
            file_bytes: self.blocks.file().bytes(),
            code_bytes: self.codes.memory() as u64,
            sample_bytes: self.navigation.as_ref().map_or(0, |it| it.bytes()) as u64,
            key_bytes: (keys + directory) as u64,
        }
    }

    /// Row number and key of an id, deleted or not. Cost: one block. Errors: `Corrupt`, those of the
    /// store.
    pub fn find(&self, id: u64) -> Result<Option<(u32, RowKey)>, Error> {
        let after = self.meta.first_ids.partition_point(|&first| first <= id);
        let Some(chunk) = after.checked_sub(1) else { return Ok(None) };
        let handle = self.places.keys.handle(chunk);
        let block = self.blocks.read(handle)?;
        let keys = block.chunks_exact(self.places.keys.item_bytes).map(key);
        for found in keys {
            let (key, row) = found.map_err(|what| self.corrupt(handle.offset, what))?;
            if key.id == id && u64::from(row) < self.meta.rows {
                return Ok(Some((row, key)));
            }
        }
        Ok(None)
    }

    pub(crate) fn corrupt(&self, offset: u64, what: Malformed) -> Error {
        Error::corrupt(self.blocks.file().name(), offset, what.0)
    }

    /// The further rows of a node.
    #[inline]
    pub(crate) fn further(&self, node: u32) -> std::ops::Range<u32> {
        if self.copies.is_empty() {
            return 0..0;
        }
        match self.copies.binary_search_by_key(&node, |copy| copy.0) {
            Ok(at) => self.copies[at].1..self.copies[at].1 + self.copies[at].2,
            Err(_) => 0..0,
        }
    }

    /// The node of a row.
    pub(crate) fn node_of(&self, row: u32) -> u32 {
        if u64::from(row) < self.meta.nodes {
            return row;
        }
        let after = self.copies.partition_point(|copy| copy.1 <= row);
        self.copies[after - 1].0
    }
}

/// A key and its row.
pub(crate) fn key(bytes: &[u8]) -> Result<(RowKey, u32), Malformed> {
    let mut input = ByteReader::new(bytes);
    let (id, version, code) = (input.u64()?, input.u64()?, input.u64()?);
    let (shard, row) = (input.u16()?, input.u32()?);
    Ok((RowKey { id, version, code, shard }, row))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// Reads and verifies a whole area.
pub(crate) fn read_area(reader: &BlockReader, area: Area) -> Result<Vec<u8>, Error> {
    let handles: Vec<BlockHandle> = (0..area.chunks()).map(|chunk| area.handle(chunk)).collect();
    let mut bytes = Vec::with_capacity(area.items * area.item_bytes);
    for handles in handles.chunks(AHEAD) {
        for block in reader.read_many(handles)? {
            bytes.extend_from_slice(&block);
        }
    }
    Ok(bytes)
}

/// Reads the nodes with copies; the further rows of all follow the nodes without a gap.
fn further_rows(bytes: &[u8], meta: &Meta) -> Result<Vec<(u32, u32, u32)>, Malformed> {
    let mut input = ByteReader::new(bytes);
    let mut copies: Vec<(u32, u32, u32)> = Vec::with_capacity(meta.copies as usize);
    let mut row = meta.nodes;
    for _ in 0..meta.copies {
        let (node, count) = (input.u32()?, input.u32()?);
        let ascends = copies.last().is_none_or(|last| last.0 < node);
        if !ascends || u64::from(node) >= meta.nodes || count == 0 || row >= meta.rows {
            return Err(Malformed("the table of copies is damaged"));
        }
        copies.push((node, row as u32, count));
        row += u64::from(count);
    }
    if row != meta.rows {
        return Err(Malformed("the copies are not as many as the rows"));
    }
    Ok(copies)
}

/// Ids and versions by row.
fn columns(bytes: &[u8], meta: &Meta) -> Result<(Narrow, Narrow), Malformed> {
    let rows = meta.rows as usize;
    let (mut ids, mut versions) = (vec![0; rows], vec![0; rows]);
    let mut is_set = vec![false; rows];
    let mut last = None;
    for bytes in bytes.chunks_exact(crate::format::KEY_BYTES) {
        let (key, row) = key(bytes)?;
        let row = row as usize;
        if last.is_some_and(|last| last >= key.id) || row >= rows || is_set[row] {
            return Err(Malformed("the keys are out of order"));
        }
        last = Some(key.id);
        (ids[row], versions[row], is_set[row]) = (key.id, key.version, true);
    }
    Ok((Narrow::of(&ids), Narrow::of(&versions)))
}

/// Reads and checks header, footer and meta.
fn read_ends(file: &dyn ReadAt) -> Result<(Header, Meta), Error> {
    let corrupt = |offset: u64, what: Malformed| Error::corrupt(file.name(), offset, what.0);
    let tail = FOOTER + CHECKSUM_BYTES;
    let Some(footer_offset) = file.bytes().checked_sub((PAGE + tail) as u64) else {
        return Err(corrupt(0, Malformed("it is too short for a graph segment")));
    };
    let footer_offset = footer_offset + PAGE as u64;
    let ends = [Range { offset: 0, bytes: PAGE }, Range { offset: footer_offset, bytes: tail }];
    let ends = file.read_many(&ends)?;
    let header = Header::decode(&ends[0]).map_err(|(what, version)| match version {
        Some(version) => {
            let what = format!("it has version {version} of the format, which is not known here");
            Error::new(ErrorKind::Unsupported, file.name(), what)
        }
        None => corrupt(0, what),
    })?;
    let address = |number| BlockAddress { file: header.identity, number, version: VERSION };
    unseal(address(0), &ends[0], file.name(), 0)?;
    let footer = unseal(address(FOOTER_NUMBER), &ends[1], file.name(), footer_offset)?;
    let footer = Footer::decode(footer).map_err(|what| corrupt(footer_offset, what))?;
    let meta_offset = footer_offset.checked_sub(footer.meta_bytes);
    let is_ours = footer.identity == header.identity && footer.file_bytes == file.bytes();
    let (Some(meta_offset), true) = (meta_offset, is_ours) else {
        return Err(corrupt(footer_offset, Malformed("the footer is of another file")));
    };
    let meta = file.read(Range { offset: meta_offset, bytes: footer.meta_bytes as usize })?;
    let meta = unseal(address(footer.meta_number), &meta, file.name(), meta_offset)?;
    let meta = Meta::decode(meta).map_err(|what| corrupt(meta_offset, what))?;
    if Places::of(&header, &meta).meta != (footer.meta_number, meta_offset) {
        return Err(corrupt(meta_offset, Malformed("the parts do not fill the file")));
    }
    Ok((header, meta))
}
