//! An engine's settings, which are checked once.

use std::sync::Arc;
use std::time::Duration;

use vstream_attribute::{
    Attribute, AttributeKind, Grouping, IdKind, Refused, Schema, GROUP_ATTRIBUTE,
};
use vstream_index::{ClusterSettings, IndexSettings};
use vstream_vector::{Element, Metric};

use crate::error::Error;

/// Largest dimension that an engine accepts.
pub const DIMENSION_MAX: usize = vstream_store::codec::DIMENSION_MAX;
/// Largest `k` of a query.
pub const K_MAX: usize = 1000;

/// Most versions of deleted rows that an engine keeps.
pub const DELETES_REMEMBERED_MAX: usize = 1 << 20;
/// Longest time for which an engine keeps the versions of deleted rows.
const DELETES_REMEMBERED_FOR_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// Vectors of more bytes than this take a second look by default. A second look saves exact
/// distances, whose cost grows with the bytes of a vector; its own cost grows with the dimensions
/// alone.
const SECOND_LOOK_BYTES: usize = 512;

/// The index that serves the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// Exact scan; for small collections and as the oracle of tests.
    Flat,
    /// Centroid tree over leaves of quantization codes; the default.
    Cluster,
}

/// The order in which rows end. It decides how segments are merged; no answer depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeleteOrder {
    /// Any order: compaction merges segments of similar size.
    #[default]
    Any,
    /// Oldest first, or nearly so, such as under a time to live or in a sliding window. Compaction
    /// merges a segment only with neighbours in age. It drops a segment without reading it when all
    /// its rows are gone.
    OldestFirst,
}

impl DeleteOrder {
    /// Name used in settings: `any`, `oldest-first`.
    pub fn name(self) -> &'static str {
        match self {
            DeleteOrder::Any => "any",
            DeleteOrder::OldestFirst => "oldest-first",
        }
    }

    /// Returns the order with this name. Errors: `Invalid`.
    pub fn from_name(name: &str) -> Result<DeleteOrder, Error> {
        match name {
            "any" => Ok(DeleteOrder::Any),
            "oldest-first" => Ok(DeleteOrder::OldestFirst),
            _ => Err(Error::invalid(format!("deletes is '{name}': choose any or oldest-first"))),
        }
    }
}

/// The index of segments. Those that a memtable becomes always have leaves; this setting is about
/// those that merges write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentIndex {
    /// Leaves of coded rows, in every segment.
    #[default]
    Clusters,
    /// A graph over blocks of rows and their neighbours, in the largest segments: those of a merge that
    /// makes none smaller than the others. Rows with fields stay in segments with leaves. At equal memory
    /// it reads more than leaves do.
    ///
    /// Needs a limit to memory, and no schema. The codes of graphs stay in memory, so there is no limit
    /// to these. Building a graph takes a quarter of a millisecond of CPU time per row, and memory for
    /// all rows of the merge, 1,048,576 at most, outside of the limit to memory.
    Graph,
}

impl SegmentIndex {
    /// Name used in settings: `clusters`, `graph`.
    pub fn name(self) -> &'static str {
        match self {
            SegmentIndex::Clusters => "clusters",
            SegmentIndex::Graph => "graph",
        }
    }

    /// Returns the index with this name; `auto` is the one that reads less at equal memory, which is that
    /// with leaves in every measurement so far. Errors: `Invalid`.
    pub fn from_name(name: &str) -> Result<SegmentIndex, Error> {
        match name {
            "auto" | "clusters" => Ok(SegmentIndex::Clusters),
            "graph" => Ok(SegmentIndex::Graph),
            _ => {
                let what = format!("segments is '{name}': choose auto, clusters or graph");
                Err(Error::invalid(what))
            }
        }
    }
}

/// Settings of one engine. Build them with [`Settings::new`] and change fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Dimensions of every vector, 1..=[`DIMENSION_MAX`].
    pub dimension: usize,
    /// Formula of the distance.
    pub metric: Metric,
    /// Type of the stored numbers. It limits the values that a vector may hold
    /// ([`Element::range`]).
    pub element: Element,
    /// Index kind.
    pub index: IndexKind,
    /// Recall@k that the engine aims at in searches of `Effort::Auto`, 0.5..=0.999.
    pub recall_target: f64,
    /// Whether the recall guard sets the effort: it audits sampled queries in the background. The
    /// guard takes at most 3 % of one core, except while queries wait for its first decision.
    /// Without the guard the effort is a fixed function of the collection's size, and the engine
    /// does not hold the recall.
    pub recall_guard: bool,
    /// Seed of every random choice.
    pub seed: u64,
    /// Sizes of the cluster index.
    pub cluster: ClusterSettings,
    /// Bytes of memory for rows that are in no segment yet, and for blocks that were read from
    /// segments. The engine keeps all other rows in segments on the disk. The ids of segments are
    /// in memory besides, and so are their codes, as `code_memory` says: some 15 and 20 bytes per
    /// row at 128 dimensions. 64 KiB or more; `None`: all rows stay in memory. A limit needs an
    /// engine that keeps its rows in a directory.
    pub memory: Option<u64>,
    /// Bytes of memory for the codes of segments. The engine holds the codes that queries visit
    /// most, and reads the others when a query needs them. `None`: it holds all codes.
    pub code_memory: Option<u64>,
    /// The index of the segments that merges write.
    pub segments: SegmentIndex,
    /// The order in which rows end, by deletes or because newer rows replace them.
    pub deletes: DeleteOrder,
    /// What rows carry beside key and vector: ids of texts, attributes, groups. The default is
    /// nothing, and costs nothing.
    pub schema: Arc<Schema>,
    /// How long the engine keeps the versions of deleted rows, at least: meanwhile an upsert older
    /// than the delete of its id changes nothing. 1 s to a year; `None`: not at all. At most
    /// [`DELETES_REMEMBERED_MAX`] versions are kept, in some 64 bytes of memory each; the oldest go first.
    pub deletes_remembered: Option<Duration>,
    /// Parts that are left out, to measure their worth. The collection does not store this setting.
    pub ablation: Ablation,
    /// Bytes of rows in a segment that a merge writes, about: merges take time and memory in proportion
    /// to it. 64 MiB by default. The collection does not store this setting.
    pub segment_bytes: u64,
    /// Least bytes of a part of the base image, about: without a limit to memory, a checkpoint writes the
    /// rows of some shards that are so many bytes, or a 128th of all rows. A base image of less than twice
    /// these bytes is written whole, and so is one of rows of one shard. 2 MiB by default. The collection
    /// does not store this setting.
    pub image_part_bytes: u64,
}

/// Parts of the engine to leave out in an ablation; `true` leaves the part out. Exact answers do not
/// change; only their cost does. Without `split`, `reassign` or `join`, approximate answers cost more at the
/// same recall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ablation {
    /// Ignores heat: searches visit segments in the order of their rows, and memory holds the codes
    /// of the first segments.
    pub hot_cold: bool,
    /// Stores vectors in new segments raw, instead of in the codec that makes them shortest.
    pub compression: bool,
    /// Scans every leaf against the candidates of its own segment alone. Passes over no leaf
    /// because better rows are known already.
    pub threshold_stop: bool,
    /// Merges of segments do not divide leaves, however many rows they have.
    pub split: bool,
    /// Merges of segments leave each row in its leaf or a part of it, though another leaf is nearer.
    pub reassign: bool,
    /// Merges of segments leave leaves of few rows as they are.
    pub join: bool,
    /// Reads segments past the operating system's page cache. This is also useful where the page
    /// cache counts as memory of the process. This part has no name in settings.
    pub page_cache: bool,
}

impl Ablation {
    /// Names used in settings.
    const NAMES: [&'static str; 6] =
        ["hot-cold", "compression", "threshold-stop", "split", "reassign", "join"];

    fn part(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "hot-cold" => Some(&mut self.hot_cold),
            "compression" => Some(&mut self.compression),
            "threshold-stop" => Some(&mut self.threshold_stop),
            "split" => Some(&mut self.split),
            "reassign" => Some(&mut self.reassign),
            "join" => Some(&mut self.join),
            _ => None,
        }
    }

    /// Also leaves out the part with this name. Errors: `Invalid` for an unknown name.
    pub fn and(mut self, name: &str) -> Result<Ablation, Error> {
        let Some(part) = self.part(name) else {
            return Err(Error::invalid(format!(
                "there is no '{name}' to leave out: choose from hot-cold, compression, \
                 threshold-stop, split, reassign and join"
            )));
        };
        *part = true;
        Ok(self)
    }

    /// Returns the names of the parts that are left out.
    pub fn names(mut self) -> Vec<&'static str> {
        let is_out = |name: &&'static str| self.part(name).is_some_and(|part| *part);
        Ablation::NAMES.into_iter().filter(is_out).collect()
    }
}

/// Default of [`Settings::image_part_bytes`].
const IMAGE_PART_BYTES: u64 = 2 << 20;
/// Default of [`Settings::segment_bytes`].
const SEGMENT_BYTES: u64 = 64 << 20;
/// Bounds of the rows of such a segment: enough for some leaves, and few enough to be merged in a
/// second or two.
const SEGMENT_ROWS_MIN: u64 = 256;
const SEGMENT_ROWS_MAX: u64 = 1 << 17;
/// Least bytes of a memory limit.
const MEMORY_MIN: u64 = 64 << 10;

impl Settings {
    /// Returns the defaults for a collection.
    pub fn new(dimension: usize, metric: Metric, element: Element) -> Settings {
        Settings {
            dimension,
            metric,
            element,
            index: IndexKind::Cluster,
            recall_target: 0.95,
            recall_guard: true,
            seed: 42,
            cluster: ClusterSettings {
                second_look: dimension * element.bytes() > SECOND_LOOK_BYTES,
                ..ClusterSettings::default()
            },
            memory: None,
            code_memory: None,
            segments: SegmentIndex::default(),
            deletes: DeleteOrder::default(),
            schema: Arc::default(),
            deletes_remembered: None,
            ablation: Ablation::default(),
            segment_bytes: SEGMENT_BYTES,
            image_part_bytes: IMAGE_PART_BYTES,
        }
    }

    /// The settings that stored rows depend on: they cannot change once there are rows.
    pub(crate) fn row_form(&self) -> RowForm<'_> {
        let Settings { dimension, metric, element, schema, .. } = self;
        RowForm {
            vectors: (*dimension, *metric, *element),
            ids: (schema.id, schema.id_key),
            groups: schema.grouping,
            attributes: &schema.attributes,
        }
    }

    /// Checks every field. The error names the field and the values that it may have.
    pub fn validate(&self) -> Result<(), Error> {
        if !(1..=DIMENSION_MAX).contains(&self.dimension) {
            return Err(Error::invalid(format!(
                "dimension is {}: choose a value from 1 to {DIMENSION_MAX}",
                self.dimension
            )));
        }
        if !(0.5..=0.999).contains(&self.recall_target) {
            return Err(Error::invalid(format!(
                "recall-target is {}: choose a value from 0.5 to 0.999",
                self.recall_target
            )));
        }
        if self.memory.is_some_and(|bytes| bytes < MEMORY_MIN) {
            return Err(Error::invalid(format!(
                "memory is {} bytes: choose 64 kb or more, or no limit",
                self.memory.unwrap_or(0)
            )));
        }
        let least = Duration::from_secs(1);
        let allowed = least..=DELETES_REMEMBERED_FOR_MAX;
        if self.deletes_remembered.is_some_and(|time| !allowed.contains(&time)) {
            return Err(Error::invalid(format!(
                "deletes-remembered is {:?}: choose a time from 1 s to 366 d, or none",
                self.deletes_remembered.unwrap_or_default()
            )));
        }
        check_schema(&self.schema)?;
        if self.segments == SegmentIndex::Graph {
            self.check_graph()?;
        }
        check_cluster(&self.cluster)
    }

    /// Checks what graphs need of other settings.
    fn check_graph(&self) -> Result<(), Error> {
        let what = if self.index == IndexKind::Flat {
            "index is flat, which makes every search exact: choose index cluster"
        } else if self.memory.is_none() {
            "memory has no limit, so that no segment is written: set a limit to memory"
        } else if self.code_memory.is_some() {
            "code-memory is set, and the codes of a graph stay in memory: leave it out"
        } else if !self.schema.is_plain() {
            "rows have string ids, attributes or groups, which a graph does not hold: leave them out"
        } else {
            return Ok(());
        };
        Err(Error::invalid(format!("segments is graph, and {what}, or choose segments clusters")))
    }

    /// Most rows of a segment that a merge by ranges writes: they have some [`Settings::segment_bytes`].
    pub(crate) fn segment_rows(&self) -> u64 {
        let index = self.index_settings();
        let row = index.dimension * index.element.bytes() + index.dimension / 8 + 48;
        (self.segment_bytes / row as u64).clamp(SEGMENT_ROWS_MIN, SEGMENT_ROWS_MAX)
    }

    /// True if segments are merged by ranges of leaves. Where rows end oldest first, segments are merged
    /// whole, so that they are dropped whole; graphs and flat segments have no leaves.
    pub(crate) fn merges_ranges(&self) -> bool {
        self.index == IndexKind::Cluster
            && self.segments == SegmentIndex::Clusters
            && self.deletes == DeleteOrder::Any
    }

    /// Returns the settings of the index. The engine normalises rows under cosine when it accepts
    /// them. An integer element cannot hold a direction, so the index then holds `f32`.
    pub(crate) fn index_settings(&self) -> IndexSettings {
        let direction = self.metric == Metric::Cosine && self.element.is_integer();
        let element = if direction { Element::F32 } else { self.element };
        IndexSettings { dimension: self.dimension, metric: self.metric, element, seed: self.seed }
    }
}

/// What stored rows depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowForm<'a> {
    vectors: (usize, Metric, Element),
    /// With the key of their hash.
    ids: (IdKind, [u8; 16]),
    groups: Grouping,
    attributes: &'a [Attribute],
}

impl RowForm<'_> {
    /// True if rows of one form can become rows of the other: they differ in attributes at most.
    pub(crate) fn is_like(&self, other: &RowForm<'_>) -> bool {
        (self.vectors, self.ids, self.groups) == (other.vectors, other.ids, other.groups)
    }

    /// True if rows of the other form are rows of this one as they are.
    pub(crate) fn extends(&self, other: &RowForm<'_>) -> bool {
        self.is_like(other) && self.attributes.starts_with(other.attributes)
    }
}

/// Checks a schema that a caller may have put together field by field.
fn check_schema(schema: &Schema) -> Result<(), Error> {
    if schema.grouping == Grouping::Isolated {
        return Err(Error::invalid(
            "groups are isolated: this engine keeps all rows in one index, so choose shared groups, \
             or the store of isolated groups",
        ));
    }
    let group = schema.group_column().and_then(|column| schema.kind(column));
    if schema.grouping == Grouping::Shared && group != Some(AttributeKind::Keyword) {
        return Err(Error::invalid(format!(
            "groups are shared and there is no attribute '{GROUP_ATTRIBUTE}' of type keyword: use \
             Schema::set_grouping"
        )));
    }
    let mut again = Schema { attributes: Vec::new(), ..schema.clone() };
    for (at, Attribute { name, kind }) in schema.attributes.iter().enumerate() {
        if usize::from(again.add(name, *kind)?) != at {
            let what = format!("The attribute '{name}' is in the schema twice.");
            return Err(Refused::new(vstream_attribute::RefusedKind::BadSchema, what).into());
        }
    }
    Ok(())
}

fn check_cluster(sizes: &ClusterSettings) -> Result<(), Error> {
    let fits = (64..=1024).contains(&sizes.leaf_rows_max)
        && sizes.leaf_rows_min <= sizes.leaf_rows_max / 2
        && (1..=1024).contains(&sizes.batch_rows)
        && sizes.reassign_leaves <= 1024
        && (2..=1024).contains(&sizes.node_leaves_max)
        && (1..=1024).contains(&sizes.jobs_per_batch);
    if !fits {
        return Err(Error::invalid(
            "cluster sizes are out of range: leaf rows from 64 to 1024, at least twice the minimum, \
             batches from 1 to 1024 rows, reassignments of 0 to 1024 leaves, nodes of 2 to 1024 \
             leaves, and 1 to 1024 jobs a batch",
        ));
    }
    Ok(())
}
