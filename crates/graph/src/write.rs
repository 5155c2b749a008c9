//! Writes a graph segment: takes rows, builds the graph, writes all parts.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use vstream_index::{IndexRow, RowKey, VectorRef};
use vstream_quantize::rabitq::Rotation;
use vstream_store::blocks::{seal, BlockAddress};
use vstream_store::{Error, ErrorKind, FileWriter, Store};
use vstream_vector::{with_number, Element, Number, SplitMix};

use crate::build::{build, shuffle, BuildSettings, Graph};
use crate::codes::Codes;
use crate::format::{
    Area, Footer, Header, Meta, Places, FOOTER_NUMBER, KEY_BYTES, KEY_ROWS, ROWS_MAX, VERSION,
};
use crate::layout::{arrange, overlap};
use crate::settings::GraphSettings;
use crate::vectors::Vectors;

/// Counts of a written segment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GraphSummary {
    /// Number of rows.
    pub rows: u64,
    /// Number of different vectors.
    pub nodes: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Records of a block (ε).
    pub capacity: usize,
    /// OR(G) of the layout.
    pub overlap: f64,
    /// Mean number of neighbours.
    pub mean_degree: f64,
    /// Sum, mod 2^128, of a hash of (id, version) of every row.
    pub digest: u128,
}

/// Writes one segment. All rows are in memory until [`GraphWriter::finish`]. If it is dropped before
/// that, no file exists.
pub struct GraphWriter {
    name: String,
    settings: GraphSettings,
    out: Box<dyn FileWriter>,
    keys: Vec<RowKey>,
    bytes: Vec<u8>,
}

/// The hash of a row's id and version.
pub(crate) fn row_digest(id: u64, version: u64) -> u128 {
    let mut bytes = [0u8; 16];
    bytes[..8].copy_from_slice(&id.to_le_bytes());
    bytes[8..].copy_from_slice(&version.to_le_bytes());
    xxhash_rust::xxh3::xxh3_128(&bytes)
}

fn element_of(vector: VectorRef<'_>) -> (Element, usize) {
    match vector {
        VectorRef::F32(row) => (Element::F32, row.len()),
        VectorRef::F16(row) => (Element::F16, row.len()),
        VectorRef::Bf16(row) => (Element::Bf16, row.len()),
        VectorRef::U8(row) => (Element::U8, row.len()),
        VectorRef::I8(row) => (Element::I8, row.len()),
    }
}

impl GraphWriter {
    /// Begins the file `name`. Errors: `Invalid` settings, those of the store.
    pub fn create(
        store: &dyn Store,
        name: &str,
        settings: GraphSettings,
    ) -> Result<GraphWriter, Error> {
        let name_in_errors = store.describe(name);
        if let Some(defect) = settings.defect() {
            return Err(Error::new(ErrorKind::Invalid, name_in_errors, defect));
        }
        let out = store.create(name)?;
        Ok(GraphWriter { name: name_in_errors, settings, out, keys: vec![], bytes: vec![] })
    }

    /// Takes a row. Fields are not stored yet.
    ///
    /// Errors: `Invalid` if its vector is of another element type or dimension, has a number that is
    /// not finite or a norm beyond 1e15, if it has fields, or if there are 2^31 rows. The row is not
    /// taken then.
    pub fn push(&mut self, row: IndexRow<'_>) -> Result<(), Error> {
        let wanted = (self.settings.element, self.settings.dimension);
        if element_of(row.vector) != wanted {
            return Err(self.invalid("a row of another element type or dimension"));
        }
        if !row.fields.is_empty() {
            return Err(self.invalid("a row with fields: graph segments hold keys and vectors"));
        }
        if self.keys.len() as u64 >= ROWS_MAX {
            return Err(self.invalid("too many rows: write several segments"));
        }
        let mut wide = vec![0.0; self.settings.dimension];
        row.vector.read(&mut wide);
        let norm = vstream_vector::kernels::norm_squared(&wide);
        // Rows are checked before they are rounded to their element, after which they may be a little longer.
        if !norm.is_finite() {
            return Err(self.invalid("a row is not finite, or so long that its square is not"));
        }
        row.vector.put(&mut self.bytes);
        self.keys.push(row.key);
        Ok(())
    }

    /// Builds the graph, writes the file and makes it visible.
    ///
    /// Cost: that of the build, 0.25 ms per row for 100,000 rows of 128 bytes, on this thread.
    /// Errors: `Invalid` if an id came twice, those of the store. No file exists after an error.
    pub fn finish(self) -> Result<GraphSummary, Error> {
        let written = self.finish_unless(&AtomicBool::new(false))?;
        Ok(written.expect("nobody else has the flag").0)
    }

    /// As [`GraphWriter::finish`]; also returns the number in the segment of every row, in the order in
    /// which rows were taken. `None`, and no file, if `stop` was set while the graph was built: it is
    /// looked at every 32 rows.
    pub fn finish_unless(
        self,
        stop: &AtomicBool,
    ) -> Result<Option<(GraphSummary, Vec<u32>)>, Error> {
        let mut ids: Vec<u64> = self.keys.iter().map(|key| key.id).collect();
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(self.invalid(&format!("id {} came twice", pair[0])));
        }
        with_number!(self.settings.element, N => self.write::<N>(stop))
    }

    fn invalid(&self, what: &str) -> Error {
        Error::new(ErrorKind::Invalid, &self.name, what)
    }

    fn build_settings(&self, degree: usize) -> BuildSettings {
        let GraphSettings { list, alpha, seed, .. } = self.settings;
        BuildSettings { degree, list, alpha, seed }
    }

    fn header(&self) -> Header {
        let GraphSettings { dimension, metric, element, degree, sample_degree, .. } = self.settings;
        let GraphSettings { layout, codes, seed, identity, .. } = self.settings;
        Header { dimension, metric, element, codes, layout, degree, sample_degree, seed, identity }
    }

    /// The first row of each group.
    fn vectors<N: Number>(&self, groups: &[Vec<u32>], vector_bytes: usize) -> Vectors<N> {
        let GraphSettings { dimension, metric, element, .. } = self.settings;
        let firsts = groups.iter().map(|rows| rows[0] as usize * vector_bytes);
        let numbers = firsts
            .flat_map(|at| self.bytes[at..at + vector_bytes].chunks_exact(element.bytes()))
            .map(N::take)
            .collect();
        Vectors::new(numbers, dimension, metric)
    }

    fn write<N: Number>(
        mut self,
        stop: &AtomicBool,
    ) -> Result<Option<(GraphSummary, Vec<u32>)>, Error> {
        let GraphSettings { dimension, metric, degree, codes, layout, seed, .. } = self.settings;
        let header = self.header();
        let groups = group(&self.bytes, header.vector_bytes());
        let vectors = self.vectors::<N>(&groups, header.vector_bytes());
        self.bytes = Vec::new();
        let Some(graph) = build(&vectors, self.build_settings(degree), stop) else {
            return Ok(None);
        };
        let order = arrange(&graph, header.capacity(), layout, seed);
        let overlap = overlap(&graph, &order, header.capacity());
        let graph = graph.renumbered(&order);
        let rotation = Rotation::new(dimension, seed);
        let built = match order.is_empty() {
            true => None,
            false => Some(Codes::build(&vectors, &order, (codes, metric), &rotation)),
        };
        let Some((sample, navigation)) = self.navigation(&vectors, &order, stop) else {
            return Ok(None);
        };
        let (rows, copies) = numbered(&order, &groups);
        let mut keys: Vec<(RowKey, u32)> =
            (0..).zip(&rows).map(|(at, &row)| (self.keys[row as usize], at)).collect();
        keys.sort_unstable_by_key(|(key, _)| key.id);
        let digests = keys.iter().map(|(key, _)| row_digest(key.id, key.version));
        let centroids = built.as_ref().map_or(0, |codes| codes.centroids.len() / codes.padded);
        let meta = Meta {
            nodes: order.len() as u64,
            rows: keys.len() as u64,
            digest: digests.fold(0, u128::wrapping_add),
            overlap,
            entry: graph.entry,
            centroids: centroids as u32,
            sample: sample.len() as u32,
            sample_entry: navigation.entry,
            copies: copies.len() as u32,
            first_ids: keys.chunks(KEY_ROWS).map(|chunk| chunk[0].0.id).collect(),
        };
        let places = Places::of(&header, &meta);
        let mut file = Parts { identity: header.identity, out: self.out, number: 0, offset: 0 };
        file.append(header.encode())?;
        file.blocks(&header, &vectors, &order, &graph)?;
        if let Some(codes) = built {
            let centroids: Vec<u8> = codes.centroids.iter().flat_map(|x| x.to_le_bytes()).collect();
            file.area(&codes.bytes, places.codes)?;
            file.area(&centroids, places.centroids)?;
        }
        let bytes = put_sample(&header, &vectors, &order, (&sample, &navigation));
        file.area(&bytes, places.sample)?;
        let pairs = copies.iter().flat_map(|&(node, count)| [node, count]);
        file.area(&pairs.flat_map(u32::to_le_bytes).collect::<Vec<u8>>(), places.copies)?;
        file.area(&put_keys(&keys), places.keys)?;
        let numbers = inverse(&rows);
        let summary = GraphSummary {
            rows: meta.rows,
            nodes: meta.nodes,
            bytes: file.finish(&meta)?,
            capacity: header.capacity(),
            overlap,
            mean_degree: graph.mean_degree(),
            digest: meta.digest,
        };
        Ok(Some((summary, numbers)))
    }

    /// The nodes of the navigation graph, ascending, and the graph over them.
    fn navigation<N: Number>(
        &self,
        vectors: &Vectors<N>,
        order: &[u32],
        stop: &AtomicBool,
    ) -> Option<(Vec<u32>, Graph)> {
        let GraphSettings { dimension, metric, sample, sample_degree, seed, .. } = self.settings;
        let wanted = (order.len() as f64 * f64::from(sample)).ceil() as usize;
        let mut nodes: Vec<u32> = (0..order.len() as u32).collect();
        shuffle(&mut nodes, &mut SplitMix(seed ^ 0x5a3d));
        nodes.truncate(wanted);
        nodes.sort_unstable();
        let numbers =
            nodes.iter().flat_map(|&node| vectors.row(order[node as usize])).copied().collect();
        let vectors = Vectors::new(numbers, dimension, metric);
        Some((nodes, build(&vectors, self.build_settings(sample_degree), stop)?))
    }
}

/// Rows with equal bytes together, in the order of their first rows.
fn group(bytes: &[u8], vector_bytes: usize) -> Vec<Vec<u32>> {
    let mut groups: Vec<Vec<u32>> = Vec::new();
    let mut by_vector: HashMap<&[u8], usize> = HashMap::new();
    for (row, vector) in (0..).zip(bytes.chunks_exact(vector_bytes)) {
        let at = *by_vector.entry(vector).or_insert(groups.len());
        if at == groups.len() {
            groups.push(Vec::new());
        }
        groups[at].push(row);
    }
    groups
}

/// The rows as given by their numbers in the file, and the nodes with further rows, with how many.
fn numbered(order: &[u32], groups: &[Vec<u32>]) -> (Vec<u32>, Vec<(u32, u32)>) {
    let mut rows: Vec<u32> = order.iter().map(|&node| groups[node as usize][0]).collect();
    let mut copies = Vec::new();
    for (node, &group) in (0..).zip(order) {
        let further = &groups[group as usize][1..];
        if !further.is_empty() {
            copies.push((node, further.len() as u32));
            rows.extend_from_slice(further);
        }
    }
    (rows, copies)
}

/// The place of each number in a permutation.
fn inverse(order: &[u32]) -> Vec<u32> {
    let mut places = vec![0; order.len()];
    (0..).zip(order).for_each(|(place, &number)| places[number as usize] = place);
    places
}

/// The bytes of the navigation graph.
fn put_sample<N: Number>(
    header: &Header,
    vectors: &Vectors<N>,
    order: &[u32],
    (sample, navigation): (&[u32], &Graph),
) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (&node, at) in sample.iter().zip(0..) {
        bytes.extend_from_slice(&node.to_le_bytes());
        put_neighbours(&mut bytes, navigation.neighbours(at), header.sample_degree);
        vectors.row(order[node as usize]).iter().for_each(|x| x.put(&mut bytes));
    }
    bytes
}

/// Appends a degree and `places` places.
fn put_neighbours(out: &mut Vec<u8>, neighbours: &[u32], places: usize) {
    out.push(neighbours.len() as u8);
    neighbours.iter().for_each(|to| out.extend_from_slice(&to.to_le_bytes()));
    out.resize(out.len() + 4 * (places - neighbours.len()), 0);
}

/// The bytes of keys, with their rows.
fn put_keys(keys: &[(RowKey, u32)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(keys.len() * KEY_BYTES);
    for (key, row) in keys {
        for word in [key.id, key.version, key.code] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&key.shard.to_le_bytes());
        bytes.extend_from_slice(&row.to_le_bytes());
    }
    bytes
}

/// The file as it grows.
struct Parts {
    identity: u64,
    out: Box<dyn FileWriter>,
    number: u64,
    offset: u64,
}

impl Parts {
    fn append(&mut self, payload: Vec<u8>) -> Result<(), Error> {
        let number = self.number;
        self.number += 1;
        self.append_as(number, payload)
    }

    fn append_as(&mut self, number: u64, mut payload: Vec<u8>) -> Result<(), Error> {
        seal(BlockAddress { file: self.identity, number, version: VERSION }, &mut payload);
        self.offset += payload.len() as u64;
        self.out.append(&payload)
    }

    fn area(&mut self, bytes: &[u8], area: Area) -> Result<(), Error> {
        bytes
            .chunks(area.per_chunk * area.item_bytes)
            .try_for_each(|chunk| self.append(chunk.to_vec()))
    }

    fn blocks<N: Number>(
        &mut self,
        header: &Header,
        vectors: &Vectors<N>,
        order: &[u32],
        graph: &Graph,
    ) -> Result<(), Error> {
        let payload_bytes = header.block_bytes() - vstream_store::blocks::CHECKSUM_BYTES;
        let mut node = 0;
        for block in order.chunks(header.capacity()) {
            let mut payload = Vec::with_capacity(header.block_bytes());
            for &row in block {
                vectors.row(row).iter().for_each(|x| x.put(&mut payload));
                put_neighbours(&mut payload, graph.neighbours(node), header.degree);
                node += 1;
            }
            payload.resize(payload_bytes, 0);
            self.append(payload)?;
        }
        Ok(())
    }

    fn finish(mut self, meta: &Meta) -> Result<u64, Error> {
        let (identity, meta_number, from) = (self.identity, self.number, self.offset);
        self.append(meta.encode())?;
        let meta_bytes = self.offset - from;
        let whole = crate::format::FOOTER + vstream_store::blocks::CHECKSUM_BYTES;
        let file_bytes = self.offset + whole as u64;
        let footer = Footer { identity, meta_number, meta_bytes, file_bytes };
        self.append_as(FOOTER_NUMBER, footer.encode())?;
        self.out.finish()
    }
}
