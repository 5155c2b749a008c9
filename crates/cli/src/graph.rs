//! `vstream inspect` of a segment that is a graph: its blocks, its neighbours in them, its memory.

use std::path::Path;
use std::sync::Arc;

use serde_json::{json, Value};
use vstream_graph::{is_graph, GraphNumbers, GraphSegment};
use vstream_segment::Segment;
use vstream_store::{Access, FileStore, ReadAt, Store, Syncing};

use crate::arguments::InspectArguments;
use crate::failure::Failure;
use crate::segment;
use crate::text;

/// A segment of either kind.
pub(crate) enum Opened {
    /// It has leaves, or is flat.
    Leaves(Segment),
    /// It is a graph.
    Graph(GraphSegment),
}

/// Opens the segment at a path. Errors: those of the store, `Corrupt`.
pub(crate) fn open_file(path: &Path) -> Result<Opened, Failure> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let store = FileStore::open_dir(folder.unwrap_or(Path::new(".")), Syncing::Off)?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    open(store.open(name, Access::Cached)?)
}

/// Opens a segment. Errors: as [`open_file`].
pub(crate) fn open(file: Arc<dyn ReadAt>) -> Result<Opened, Failure> {
    if is_graph(&*file)? {
        return Ok(Opened::Graph(GraphSegment::open(file, None)?));
    }
    Ok(Opened::Leaves(Segment::open(file, segment::options())?))
}

impl Opened {
    /// Describes the segment.
    pub(crate) fn inspect(&self, arguments: &InspectArguments) -> Result<(), Failure> {
        match self {
            Opened::Leaves(segment) => segment::inspect(segment, arguments),
            Opened::Graph(graph) => inspect(graph, arguments),
        }
    }
}

fn inspect(graph: &GraphSegment, arguments: &InspectArguments) -> Result<(), Failure> {
    let numbers = graph.inspect();
    if arguments.json {
        let mut description = json!({
            "segment": arguments.snapshot,
            "kind": "graph",
            "dimension": graph.dimension(),
            "metric": graph.metric().name(),
            "element": graph.element().name(),
            "rows": graph.rows(),
            "bytes": graph.bytes(),
            "digest": format!("{:032x}", graph.digest()),
        });
        description["graph"] = as_json(&numbers);
        let description = serde_json::to_string_pretty(&description);
        return text::print_line(&description.expect("plain numbers"));
    }
    let head = format!(
        "{} vectors, {} dimensions, {}, {}, graph, {}\n\n",
        text::count(graph.rows()),
        graph.dimension(),
        graph.metric(),
        graph.element(),
        text::bytes(graph.bytes()),
    );
    text::print(&(head + &as_table(&numbers)))
}

/// The numbers of a graph as JSON.
pub(crate) fn as_json(numbers: &GraphNumbers) -> Value {
    json!({
        "nodes": numbers.nodes,
        "blocks": numbers.blocks,
        "block-bytes": numbers.block_bytes,
        "nodes-per-block": numbers.capacity,
        "degree": numbers.degree,
        "overlap": numbers.overlap,
        "sample": numbers.sample,
        "code-bytes": numbers.code_bytes,
        "sample-bytes": numbers.sample_bytes,
        "key-bytes": numbers.key_bytes,
    })
}

fn as_table(numbers: &GraphNumbers) -> String {
    let GraphNumbers { nodes, blocks, capacity, block_bytes, degree, .. } = *numbers;
    let lines = [
        ("different vectors", text::count(nodes)),
        ("blocks", format!("{} of {}", text::count(blocks), text::bytes(block_bytes as u64))),
        ("vectors per block", capacity.to_string()),
        ("neighbours", format!("{degree} at most")),
        ("OR(G)", format!("{:.4}", numbers.overlap)),
        ("sample in memory", text::count(numbers.sample)),
        ("memory of codes", text::bytes(numbers.code_bytes)),
        ("memory of sample", text::bytes(numbers.sample_bytes)),
        ("memory of keys", text::bytes(numbers.key_bytes)),
    ];
    lines.iter().map(|(name, value)| format!("  {name:<18} {value:>16}\n")).collect()
}

/// One line of a graph in the table of a collection.
pub(crate) fn as_line(numbers: &GraphNumbers) -> String {
    format!("graph, OR(G) {:.3}", numbers.overlap)
}
