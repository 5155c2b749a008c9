//! The two kinds of sealed segments behind one type. The bytes of a file say which kind it is.

use std::sync::Arc;

use vstream_attribute::FieldsBuffer;
use vstream_graph::{is_graph, GraphSegment};
use vstream_index::IndexRow;
use vstream_segment::{OpenOptions, Segment, SegmentKind, SegmentMemory, WantedFields};
use vstream_store::{Error, ErrorKind, IoCounts, ReadAt};
use vstream_vector::{Element, Metric};

use super::SegmentEntry;

/// Rows of a graph that count as a leaf where the size of a collection is told in leaves.
const ROWS_PER_LEAF: u64 = 256;

/// An immutable file of rows with an index.
pub(crate) enum SealedSegment {
    /// Leaves of coded rows, or none: everything is scanned.
    Leaves(Box<Segment>),
    /// A graph over blocks. Its rows have no fields.
    Graph(Box<GraphSegment>),
}

impl SealedSegment {
    /// Opens a segment of either kind, whose leaves have numbers from that of `entry` on, or those of
    /// another collection. Errors: as `Segment::open` and `GraphSegment::open`, `Corrupt` if the entry
    /// lacks a number.
    pub(crate) fn open(
        file: Arc<dyn ReadAt>,
        options: OpenOptions,
        entry: &SegmentEntry,
    ) -> Result<SealedSegment, Error> {
        let (name, cache) = (file.name().to_owned(), options.cache.clone());
        let mut segment = match Segment::open(file.clone(), options) {
            Ok(segment) => segment,
            // Few are graphs: to ask first would cost each of the others a round of reads.
            Err(error) if error.kind() == ErrorKind::Corrupt && is_graph(&*file)? => {
                let graph = GraphSegment::open(file, cache)?;
                return Ok(SealedSegment::Graph(Box::new(graph)));
            }
            Err(error) => return Err(error),
        };
        segment.number_from(entry.first_leaf());
        let are_known =
            entry.origin.as_ref().is_none_or(|origin| segment.renumber(&|leaf| origin.leaf(leaf)));
        if !are_known {
            let what = "its leaves are not those that the manifest knows";
            return Err(Error::new(ErrorKind::Corrupt, name, what));
        }
        Ok(SealedSegment::Leaves(Box::new(segment)))
    }

    /// The segment if it has leaves.
    pub(crate) fn leaves(&self) -> Option<&Segment> {
        match self {
            SealedSegment::Leaves(segment) => Some(segment),
            SealedSegment::Graph(_) => None,
        }
    }

    /// The segment if it is a graph.
    pub(crate) fn graph(&self) -> Option<&GraphSegment> {
        match self {
            SealedSegment::Leaves(_) => None,
            SealedSegment::Graph(graph) => Some(graph),
        }
    }

    /// True if every search reads every row.
    pub(crate) fn is_flat(&self) -> bool {
        self.leaves().is_some_and(|segment| segment.kind() == SegmentKind::Flat)
    }

    /// Number of leaves, or of as many rows of a graph as a leaf usually has.
    pub(crate) fn leaf_count(&self) -> usize {
        match self {
            SealedSegment::Leaves(segment) => segment.leaves(),
            SealedSegment::Graph(graph) => graph.rows().div_ceil(ROWS_PER_LEAF) as usize,
        }
    }

    pub(crate) fn rows(&self) -> u64 {
        match self {
            SealedSegment::Leaves(segment) => segment.rows(),
            SealedSegment::Graph(graph) => graph.rows(),
        }
    }

    /// Dimensions, metric and element type of its rows.
    pub(crate) fn vectors(&self) -> (usize, Metric, Element) {
        match self {
            SealedSegment::Leaves(of) => (of.dimension(), of.metric(), of.element()),
            SealedSegment::Graph(of) => (of.dimension(), of.metric(), of.element()),
        }
    }

    pub(crate) fn identity(&self) -> u64 {
        match self {
            SealedSegment::Leaves(segment) => segment.identity(),
            SealedSegment::Graph(graph) => graph.identity(),
        }
    }

    pub(crate) fn digest(&self) -> u128 {
        match self {
            SealedSegment::Leaves(segment) => segment.digest(),
            SealedSegment::Graph(graph) => graph.digest(),
        }
    }

    /// Length of the file.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            SealedSegment::Leaves(segment) => segment.bytes(),
            SealedSegment::Graph(graph) => graph.bytes(),
        }
    }

    /// False while its file is in a far store alone.
    pub(crate) fn is_near(&self) -> bool {
        match self {
            SealedSegment::Leaves(segment) => segment.is_near(),
            SealedSegment::Graph(graph) => graph.is_near(),
        }
    }

    pub(crate) fn io(&self) -> IoCounts {
        match self {
            SealedSegment::Leaves(segment) => segment.io(),
            SealedSegment::Graph(graph) => graph.io(),
        }
    }

    /// Memory that the segment holds now. The sample of a graph counts with its directory.
    pub(crate) fn memory(&self) -> SegmentMemory {
        match self {
            SealedSegment::Leaves(segment) => segment.memory(),
            SealedSegment::Graph(graph) => {
                let numbers = graph.inspect();
                let directory = numbers.sample_bytes + numbers.key_bytes;
                SegmentMemory { directory, codes: numbers.code_bytes, ..SegmentMemory::default() }
            }
        }
    }

    /// Parts of codes that can leave memory. Those of a graph cannot.
    pub(crate) fn parts(&self) -> usize {
        self.leaves().map_or(0, Segment::parts)
    }

    pub(crate) fn has_fields(&self) -> bool {
        self.leaves().is_some_and(Segment::has_fields)
    }

    /// The check of the string id of a row; 0 without one. Errors: `Corrupt`, those of the store.
    pub(crate) fn check_of(&self, id: u64) -> Result<u64, Error> {
        let Some(segment) = self.leaves() else { return Ok(0) };
        Ok(segment.find_row(id)?.map_or(0, |row| row.check))
    }

    /// Calls `visit` with id, version and number of every row, deleted or not. Errors: `Corrupt`, those
    /// of the store.
    pub(crate) fn for_each_id(&self, visit: &mut dyn FnMut(u64, u64, u32)) -> Result<(), Error> {
        match self {
            SealedSegment::Leaves(segment) => segment.for_each_id(visit),
            SealedSegment::Graph(graph) => {
                graph.for_each_id(visit);
                Ok(())
            }
        }
    }

    /// Calls `visit` with some rows, given in ascending order. Cost: one round of reads through the
    /// cache. Errors: `Corrupt`, those of the store.
    pub(crate) fn for_each_of(
        &self,
        rows: &[u32],
        visit: &mut dyn FnMut(u32, IndexRow<'_>),
    ) -> Result<(), Error> {
        match self {
            SealedSegment::Leaves(segment) => segment.for_each_of(rows, segment.cached(), visit),
            SealedSegment::Graph(graph) => graph.for_each_of(rows, visit),
        }
    }

    /// The fields of some rows. Cost and errors: as `Segment::fields`; a graph reads nothing.
    pub(crate) fn fields(
        &self,
        rows: &[u32],
        wanted: &WantedFields<'_>,
    ) -> Result<Vec<FieldsBuffer>, Error> {
        match self {
            SealedSegment::Leaves(segment) => segment.fields(rows, wanted),
            SealedSegment::Graph(_) => Ok(vec![FieldsBuffer::default(); rows.len()]),
        }
    }

    /// Reads and checks every byte. Errors: `Corrupt`, those of the store.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        match self {
            SealedSegment::Leaves(segment) => segment.verify(),
            SealedSegment::Graph(graph) => graph.verify(),
        }
    }
}
