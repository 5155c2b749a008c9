//! The navigation graph: a small graph over a sample of the nodes, in memory.

use vstream_vector::cursor::ByteReader;
use vstream_vector::{Metric, Number};

use crate::build::{Graph, Greedy};
use crate::format::Malformed;
use crate::vectors::{Vectors, Wide};

/// A search for entries, whatever the element type.
pub(crate) trait Navigate: Send + Sync {
    /// Appends up to `width` nodes near to the query, nearest first.
    fn nearest(&self, query: &Wide, width: usize, greedy: &mut Greedy, out: &mut Vec<u32>);

    /// Bytes of memory.
    fn bytes(&self) -> usize;
}

/// The sample with vectors of one element type.
pub(crate) struct Navigation<N> {
    nodes: Vec<u32>,
    vectors: Vectors<N>,
    graph: Graph,
}

impl<N: Number> Navigation<N> {
    /// Reads `count` nodes; `nodes` is their number in the segment.
    pub(crate) fn decode(
        bytes: &[u8],
        (count, nodes): (usize, u64),
        (degree, entry): (usize, u32),
        (dimension, metric): (usize, Metric),
    ) -> Result<Navigation<N>, Malformed> {
        let mut input = ByteReader::new(bytes);
        let width = N::ELEMENT.bytes();
        input.require_items(count, 5 + 4 * degree + dimension * width)?;
        let mut graph = Graph::empty(count, degree, entry);
        let mut sample = Vec::with_capacity(count);
        let mut numbers: Vec<N> = Vec::with_capacity(count * dimension);
        for at in 0..count as u32 {
            let (node, used) = (input.u32()?, usize::from(input.u8()?));
            let places = input.bytes(4 * degree)?;
            if u64::from(node) >= nodes || used > degree {
                return Err(Malformed("a node of the sample is out of range"));
            }
            let (places, _) = places.as_chunks::<4>();
            let ends: Vec<u32> = places[..used].iter().map(|b| u32::from_le_bytes(*b)).collect();
            if ends.iter().any(|&end| end as usize >= count) {
                return Err(Malformed("an edge of the sample is out of range"));
            }
            graph.set(at, &ends);
            sample.push(node);
            numbers.extend(input.bytes(dimension * width)?.chunks_exact(width).map(N::take));
        }
        let vectors = Vectors::new(numbers, dimension, metric);
        Ok(Navigation { nodes: sample, vectors, graph })
    }
}

impl<N: Number> Navigate for Navigation<N> {
    fn nearest(&self, query: &Wide, width: usize, greedy: &mut Greedy, out: &mut Vec<u32>) {
        greedy.fit(self.nodes.len());
        greedy.search(&self.graph, &self.vectors, query, (width, &[self.graph.entry]));
        out.extend(greedy.nearest().map(|near| self.nodes[near.row as usize]));
    }

    fn bytes(&self) -> usize {
        self.vectors.bytes() + self.graph.bytes() + size_of_val(&*self.nodes)
    }
}
