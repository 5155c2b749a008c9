//! Walks over blocks: exact answers, all rows, verification.

use vstream_index::{IndexRow, RowKey, VectorRef};
use vstream_store::blocks::BlockHandle;
use vstream_store::Error;
use vstream_vector::{with_number, Bf16, Element, Neighbor, Number, TopK, Widen, F16};

use crate::build::{reachable, Graph};
use crate::format::{Malformed, KEY_BYTES};
use crate::layout::overlap;
use crate::read::{key, read_area, GraphSegment};
use crate::search::{exact, neighbours};
use crate::write::row_digest;

/// Blocks read together.
const AHEAD: usize = 64;

/// Takes node, record and vector.
type Visit<'a, N> = dyn FnMut(u32, &[u8], &[N]) -> Result<(), Malformed> + 'a;

impl GraphSegment {
    /// Offers the exact distance of every visible row to `out`. Cost: reads all blocks, past the
    /// cache. Errors: `Corrupt`, those of the store.
    pub fn search_exactly(
        &self,
        query: &[f32],
        visible: Option<&dyn Fn(u32) -> bool>,
        out: &mut TopK,
    ) -> Result<(), Error> {
        let all: Vec<u32> = (0..self.places.blocks as u32).collect();
        let is_visible = |row| visible.is_none_or(|visible| visible(row));
        self.score_blocks(&all, query, &is_visible, out)
    }

    /// Offers the exact distance of some rows, ascending, to `out`: the plan for a filter that few rows
    /// match. Cost: reads the blocks of these rows. Errors: `Corrupt`, those of the store. Panics if
    /// the rows do not ascend or are not of the segment.
    pub fn search_rows(&self, rows: &[u32], query: &[f32], out: &mut TopK) -> Result<(), Error> {
        assert!(rows.is_sorted(), "rows must ascend");
        assert!(rows.last().is_none_or(|&row| u64::from(row) < self.rows()), "rows of the segment");
        let mut blocks: Vec<u32> =
            rows.iter().map(|&row| self.block_of(self.node_of(row))).collect();
        blocks.sort_unstable();
        blocks.dedup();
        self.score_blocks(&blocks, query, &|row| rows.binary_search(&row).is_ok(), out)
    }

    fn score_blocks(
        &self,
        blocks: &[u32],
        query: &[f32],
        is_visible: &dyn Fn(u32) -> bool,
        out: &mut TopK,
    ) -> Result<(), Error> {
        assert_eq!(query.len(), self.dimension(), "a query of another dimension");
        with_number!(self.header.element, N => self.for_each_node::<N>(blocks, &mut |node, _, row| {
            let distance = exact(self.metric(), query, row);
            for row in std::iter::once(node).chain(self.further(node)) {
                if is_visible(row) {
                    let (id, version) = (self.ids.get(row), self.versions.get(row));
                    out.offer(Neighbor { distance, id, version });
                }
            }
            Ok(())
        }))
    }

    /// Adds every visible row at a distance of at most `radius` to `out`, in no order, and misses none.
    /// Cost: reads all blocks, past the cache. Errors: `Corrupt`, those of the store.
    pub fn rows_within(
        &self,
        query: &[f32],
        radius: f32,
        is_visible: &dyn Fn(u32) -> bool,
        out: &mut Vec<Neighbor>,
    ) -> Result<(), Error> {
        assert_eq!(query.len(), self.dimension(), "a query of another dimension");
        let all: Vec<u32> = (0..self.places.blocks as u32).collect();
        with_number!(self.header.element, N => self.for_each_node::<N>(&all, &mut |node, _, row| {
            let distance = exact(self.metric(), query, row);
            if distance <= radius {
                let rows = std::iter::once(node).chain(self.further(node));
                out.extend(rows.filter(|&row| is_visible(row)).map(|row| {
                    let (id, version) = (self.ids.get(row), self.versions.get(row));
                    Neighbor { distance, id, version }
                }));
            }
            Ok(())
        }))
    }

    /// Calls `visit` with number and key of every row, deleted or not, by id. Cost: reads the keys, past
    /// the cache. Errors: `Corrupt`, those of the store.
    pub fn for_each_key(&self, visit: &mut dyn FnMut(u32, RowKey)) -> Result<(), Error> {
        for bytes in read_area(&self.passing, self.places.keys)?.chunks_exact(KEY_BYTES) {
            let (key, row) = key(bytes).map_err(|what| self.corrupt(self.places.meta.1, what))?;
            // Opening checked the same bytes, so the row is in range unless they changed since.
            if u64::from(row) < self.rows() {
                visit(row, key);
            }
        }
        Ok(())
    }

    /// Calls `visit` with some rows, given in ascending order, by number. Cost: one round of reads
    /// through the cache, a block of rows and one of keys for each row at most. Errors: `Corrupt`,
    /// those of the store. Panics if a row is not of the segment.
    pub fn for_each_of(
        &self,
        rows: &[u32],
        visit: &mut dyn FnMut(u32, IndexRow<'_>),
    ) -> Result<(), Error> {
        assert!(rows.is_sorted(), "rows must ascend");
        assert!(rows.last().is_none_or(|&row| u64::from(row) < self.rows()), "rows of the segment");
        let chunk_of = |row: u32| {
            let id = self.ids.get(row);
            self.meta.first_ids.partition_point(|&first| first <= id).saturating_sub(1)
        };
        let mut chunks: Vec<usize> = rows.iter().map(|&row| chunk_of(row)).collect();
        let mut blocks: Vec<u32> =
            rows.iter().map(|&row| self.block_of(self.node_of(row))).collect();
        chunks.sort_unstable();
        chunks.dedup();
        blocks.sort_unstable();
        blocks.dedup();
        let handles: Vec<BlockHandle> = (blocks.iter().map(|&block| self.places.block(block)))
            .chain(chunks.iter().map(|&chunk| self.places.keys.handle(chunk)))
            .collect();
        let read = self.blocks.read_many(&handles)?;
        let (nodes, keys) = read.split_at(blocks.len());
        for &row in rows {
            let chunk = chunks.binary_search(&chunk_of(row)).unwrap_or(0);
            let handle = handles[blocks.len() + chunk];
            let key =
                self.key_in(&keys[chunk], row).map_err(|what| self.corrupt(handle.offset, what))?;
            let node = self.node_of(row);
            let block = blocks.binary_search(&self.block_of(node)).unwrap_or(0);
            let record = self.record(&nodes[block], node);
            let bytes = &record[..self.header.vector_bytes()];
            with_vector(self.element(), bytes, &mut |vector| {
                visit(row, IndexRow::plain(key, vector))
            });
        }
        Ok(())
    }

    /// The key of a row in its chunk of keys, which are ordered by id.
    fn key_in(&self, chunk: &[u8], row: u32) -> Result<RowKey, Malformed> {
        let wanted = self.ids.get(row);
        let keys: Vec<&[u8]> = chunk.chunks_exact(KEY_BYTES).collect();
        let at = keys.partition_point(|bytes| key(bytes).is_ok_and(|(key, _)| key.id < wanted));
        match keys.get(at).map(|bytes| key(bytes)) {
            Some(Ok((key, at))) if key.id == wanted && at == row => Ok(key),
            Some(Err(what)) => Err(what),
            _ => Err(Malformed("the keys lack a row")),
        }
    }

    /// Calls `visit` with the number of every row and the row, by node. Memory: 8 bytes per row for the
    /// keys. Errors: `Corrupt`, those of the store.
    pub fn for_each_row(&self, visit: &mut dyn FnMut(u32, IndexRow<'_>)) -> Result<(), Error> {
        let mut keys = vec![RowKey { id: 0, version: 0, code: 0, shard: 0 }; self.rows() as usize];
        self.for_each_key(&mut |row, key| keys[row as usize] = key)?;
        let all: Vec<u32> = (0..self.places.blocks as u32).collect();
        let bytes = self.header.vector_bytes();
        with_number!(self.header.element, N => {
            self.for_each_node::<N>(&all, &mut |node, record, _| {
                with_vector(self.element(), &record[..bytes], &mut |vector| {
                    for row in std::iter::once(node).chain(self.further(node)) {
                        visit(row, IndexRow::plain(keys[row as usize], vector));
                    }
                });
                Ok(())
            })
        })
    }

    /// Reads and checks everything: checksums, neighbours, vectors, keys, digest, OR(G), and that
    /// searches can reach every node. Cost: reads the file; 4 bytes per edge of memory. Errors:
    /// `Corrupt`, those of the store.
    pub fn verify(&self) -> Result<(), Error> {
        let nodes = self.meta.nodes as usize;
        let mut graph = Graph::empty(nodes, self.header.degree, self.meta.entry);
        let all: Vec<u32> = (0..self.places.blocks as u32).collect();
        with_number!(self.header.element, N => {
            self.for_each_node::<N>(&all, &mut |node, record, numbers| {
                let ends: Vec<u32> = neighbours(record, &self.header, self.meta.nodes)?.collect();
                if ends.contains(&node) {
                    return Err(Malformed("a node is its own neighbour"));
                }
                if !numbers.iter().all(|x| x.widen().is_finite()) {
                    return Err(Malformed("a vector is not finite"));
                }
                graph.set(node, &ends);
                Ok(())
            })
        })?;
        let fail = |what| Err(self.corrupt(self.places.meta.1, Malformed(what)));
        if reachable(&graph).contains(&u32::MAX) {
            return fail("a node cannot be reached");
        }
        let order: Vec<u32> = (0..nodes as u32).collect();
        if (overlap(&graph, &order, self.header.capacity()) - self.meta.overlap).abs() > 1e-9 {
            return fail("the overlap ratio is another");
        }
        let rows = 0..self.rows() as u32;
        let digests = rows.map(|row| row_digest(self.ids.get(row), self.versions.get(row)));
        if digests.fold(0, u128::wrapping_add) != self.meta.digest {
            return fail("the digest of the rows is another");
        }
        Ok(())
    }

    /// Calls `visit` with node, record and vector of every node of some blocks.
    pub(crate) fn for_each_node<N: Number>(
        &self,
        blocks: &[u32],
        visit: &mut Visit<'_, N>,
    ) -> Result<(), Error> {
        let mut numbers = Vec::with_capacity(self.dimension());
        for part in blocks.chunks(AHEAD) {
            let handles: Vec<BlockHandle> =
                part.iter().map(|&block| self.places.block(block)).collect();
            let read = self.passing.read_many(&handles)?;
            for ((&block, bytes), handle) in part.iter().zip(&read).zip(&handles) {
                for node in self.nodes_of(block) {
                    let record = self.record(bytes, node);
                    let vector = &record[..self.header.vector_bytes()];
                    numbers.clear();
                    numbers.extend(vector.chunks_exact(N::ELEMENT.bytes()).map(N::take));
                    visit(node, record, &numbers)
                        .map_err(|what| self.corrupt(handle.offset, what))?;
                }
            }
        }
        Ok(())
    }
}

/// Calls `visit` with the vector that some bytes of an element type are.
fn with_vector(element: Element, bytes: &[u8], visit: &mut dyn FnMut(VectorRef<'_>)) {
    macro_rules! vector {
        ($($variant:ident($number:ty)),*) => {
            match element {
                $(Element::$variant => {
                    let numbers = bytes.chunks_exact(element.bytes()).map(<$number>::take);
                    let numbers: Vec<$number> = numbers.collect();
                    visit(VectorRef::$variant(&numbers));
                })*
            }
        };
    }
    vector!(F32(f32), F16(F16), Bf16(Bf16), U8(u8), I8(i8));
}
