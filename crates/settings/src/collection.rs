//! Settings of a collection: its vectors, metric, index and encoder.

use serde::{Serialize, Serializer};
use vstream_engine::{Ablation, DeleteOrder, Schema, SegmentIndex};
use vstream_group::SHARDS;
use vstream_route::{CELLS_MAX, FAMILIES_MAX, HASHES_MAX, SHARDS_MAX};
use vstream_vector::{Element, Metric};

use crate::document::Document;
use crate::error::SettingsError;
use crate::schema::{self, GroupingSettings};
use crate::section::{Notes, Section};

/// Largest dimension of a collection.
pub(crate) const DIMENSION_MAX: u64 = 4096;

/// Least and largest memory limit of a partition.
const MEMORY_MIN: u64 = 64 << 10;
const MEMORY_MAX: u64 = 1 << 50;

/// Most bytes of a payload, which the engine stores.
const PAYLOAD_MAX: u64 = 1 << 20;

/// Longest time for which deletes are remembered: 366 days.
const REMEMBERED_MAX_MS: u64 = 366 * 24 * 3_600_000;

/// Complete and validated settings of one collection.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CollectionSettings {
    /// Numbers per vector, 1..=4096.
    pub dimension: usize,
    /// The distance between two vectors.
    #[serde(serialize_with = "metric_name")]
    pub metric: Metric,
    /// The number type of stored vectors.
    #[serde(serialize_with = "element_name")]
    pub element: Element,
    /// Index kind of each partition.
    pub index: IndexName,
    /// The encoder that places records on shards.
    pub encoder: EncoderSettings,
    /// Number of virtual partitions, which are the key groups of Flink: a power of two, 128..=4096.
    /// It never changes, and no job of the collection has more partitions.
    pub shards: u16,
    /// Mean share of the true neighbours that answers hold, 0.5..=0.999.
    pub recall_target: f64,
    /// Seed of all random numbers: projections, training, generated deletes.
    pub seed: u64,
    /// Bytes of memory of each partition for rows outside segments and for data that was read from
    /// segments, 64 kb or more. Further rows lie in segments on the local disk. `None`: all rows
    /// stay in memory.
    pub memory: Option<u64>,
    /// Bytes of memory of each partition for the codes of its segments. The most visited codes stay
    /// in memory. `None`: all do.
    pub code_memory: Option<u64>,
    /// Address of the store for the segments that queries ask for least: a folder, or
    /// `s3://bucket/folder`, which all partitions use together. `None`: all segments lie on the local
    /// disk.
    pub remote: Option<String>,
    /// Bytes of segments of each partition that stay on the local disk; with `remote` only.
    pub disk: Option<u64>,
    /// The index of the segments that merges write.
    #[serde(serialize_with = "segment_index_name")]
    pub segments: SegmentIndex,
    /// The order in which rows are deleted. The default is oldest first for a job whose vectors
    /// have a time to live.
    #[serde(serialize_with = "delete_order_name")]
    pub deletes: DeleteOrder,
    /// Kind of ids, attributes and groups of the rows: the keys `id`, `attributes` and `open`, and the
    /// mode of `groups`.
    #[serde(flatten, serialize_with = "schema::write")]
    pub schema: Schema,
    /// Whether rows belong to groups. `None`: they do not.
    pub groups: Option<GroupingSettings>,
    /// Milliseconds for which versions of deleted rows are kept, so that an older upsert stays
    /// without effect. `None`: not at all.
    pub deletes_remembered: Option<u64>,
    /// Bytes of the payload of a row, up to 1 mb; a job refuses longer ones. `None`: the most, but no
    /// payloads in a job whose collection has neither attributes nor string ids.
    pub payload_limit: Option<u64>,
    /// Parts of the engine that are switched off to measure their effect.
    #[serde(serialize_with = "without_names")]
    pub without: Ablation,
}

/// An index kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IndexName {
    /// Clusters that split as they grow. Approximate.
    Cluster,
    /// Compares every row. Exact.
    Flat,
}

/// The encoder, which turns a vector into a code.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum EncoderSettings {
    /// Balanced clusters of a sample, numbered so that neighbours are close on the line.
    Cells {
        /// Number of clusters, 2..=4096, at most an eighth of the training sample.
        cells: usize,
        /// Share of the true neighbours that the visited partitions hold, 0.5..=1.
        recall_target: f32,
    },
    /// Families of p-stable hashes, each on a space-filling curve.
    Lsh {
        /// The curve.
        curve: CurveName,
        /// Number of independent families, the largest number of partitions that hold one vector,
        /// 1..=64.
        families: usize,
        /// Hashes of one family, which are the dimensions of the curve, 1..=58.
        hashes: usize,
        /// Width of a hash bucket, greater than 0.
        width: f32,
        /// Bits of each hash, 1..=16. Fewer are used if the hashes do not fit a code of 64 bits.
        bits: u32,
    },
    /// A hash of the id. Every query visits every partition.
    Id,
}

/// A space-filling curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CurveName {
    /// Bit interleaving.
    ZOrder,
    /// The Hilbert curve.
    Hilbert,
    /// Gray code of the interleaved bits.
    Gray,
    /// The Peano curve, base 3.
    Peano,
    /// The Sierpinski curve.
    Sierpinski,
}

impl CollectionSettings {
    /// Reads and validates a collection's settings from JSON and fills in the defaults.
    ///
    /// Errors: one error with every missing, unknown and wrong key.
    pub fn from_json(text: &str) -> Result<CollectionSettings, SettingsError> {
        let document = Document::from_json(text)?;
        CollectionSettings::from_document(&document)
    }

    /// Reads and validates a collection's settings from YAML and fills in the defaults.
    pub fn from_yaml(text: &str) -> Result<CollectionSettings, SettingsError> {
        let document = Document::from_yaml(text)?;
        CollectionSettings::from_document(&document)
    }

    /// The normalised form: one line with every key.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain numbers and texts")
    }

    fn from_document(document: &Document) -> Result<CollectionSettings, SettingsError> {
        let notes = Notes::default();
        let settings = CollectionSettings::read(&Section::root(document, &notes));
        notes.or_error(settings)
    }

    /// Reads the keys of the section and notes every problem.
    pub(crate) fn read(section: &Section) -> CollectionSettings {
        let seed = || section.integer("seed", 0..=u64::MAX >> 1, Some(42));
        // Keys are named to users in the order in which they are read.
        let groups;
        let settings = CollectionSettings {
            dimension: section.integer("dimension", 1..=DIMENSION_MAX, None) as usize,
            metric: section
                .choice_or_alias("metric", "a metric", METRICS, None, |name| name.parse().ok()),
            element: section.choice_or_alias(
                "element",
                "an element type",
                ELEMENTS,
                Some(Element::F32),
                |name| name.parse().ok(),
            ),
            index: section.choice("index", "an index kind", INDEXES, Some(IndexName::Cluster)),
            encoder: EncoderSettings::read(&section.section("encoder")),
            shards: read_shards(section),
            recall_target: section.number("recall-target", 0.5..=0.999, 0.95),
            seed: seed(),
            memory: section
                .has("memory")
                .then(|| section.size_bytes("memory", MEMORY_MIN..=MEMORY_MAX, MEMORY_MIN)),
            code_memory: section
                .has("code-memory")
                .then(|| section.size_bytes("code-memory", 0..=MEMORY_MAX, 0)),
            remote: section.has("remote").then(|| section.far_store("remote")),
            disk: section.has("disk").then(|| section.size_bytes("disk", 0..=MEMORY_MAX, 0)),
            segments: section.choice(
                "segments",
                "an index of segments",
                SEGMENT_INDEXES,
                Some(SegmentIndex::Clusters),
            ),
            deletes: section.choice(
                "deletes",
                "an order in which rows end",
                DELETE_ORDERS,
                Some(DeleteOrder::Any),
            ),
            schema: {
                let (schema, read) = schema::read(section, seed());
                groups = read;
                schema
            },
            groups,
            deletes_remembered: section.has("deletes-remembered").then(|| {
                section.duration_ms("deletes-remembered", 1_000..=REMEMBERED_MAX_MS, 3_600_000)
            }),
            payload_limit: section
                .has("payload-limit")
                .then(|| section.size_bytes("payload-limit", 0..=PAYLOAD_MAX, PAYLOAD_MAX)),
            without: read_without(section),
        };
        section.finish();
        settings.check_graph(section);
        settings.check_remote(section);
        if section.is_clean() {
            // The router checks rules that involve several values.
            if let Err(error) = settings.route().validate() {
                section.note("encoder", &error.to_string());
            }
        }
        settings
    }
}

impl CollectionSettings {
    /// Notes what graphs cannot have beside them; the engine refuses the same.
    fn check_graph(&self, section: &Section) {
        if self.segments != SegmentIndex::Graph {
            return;
        }
        if self.index == IndexName::Flat {
            let sentence = "a flat index has no graphs. Choose cluster, or leave segments out.";
            section.note("index", sentence);
        }
        if self.memory.is_none() {
            section.note(
                "memory",
                "graphs are made of rows that leave memory. Give a limit, or leave segments out.",
            );
        }
        if self.code_memory.is_some() {
            let sentence =
                "the codes of graphs stay in memory. Leave it out, or leave segments out.";
            section.note("code-memory", sentence);
        }
        if !self.schema.is_plain() {
            section.note(
                "segments",
                "graphs hold no string ids, attributes or groups. Leave these out, or choose clusters.",
            );
        }
    }
}

impl CollectionSettings {
    /// Notes what a remote level cannot be without or beside.
    fn check_remote(&self, section: &Section) {
        if self.remote.is_none() {
            if self.disk.is_some() {
                let sentence =
                    "it says what stays here of what may go to a remote level, and there is \
                                none. Set remote, or leave it out.";
                section.note("disk", sentence);
            }
            return;
        }
        if self.disk.is_none() {
            let sentence =
                "this key is missing: with a remote level it says how much stays on the local \
                            disk. Write it as in disk: 10 gb.";
            section.note("disk", sentence);
        }
        if self.is_isolated() {
            let sentence =
                "isolated groups have no remote level. Leave it out, or collection.groups.";
            section.note("remote", sentence);
        } else if self.memory.is_none() {
            section.note(
                "memory",
                "a remote level holds segments, and without a limit to memory there are none. Give a \
                 limit, or leave remote out.",
            );
        }
    }
}

/// Reads the number of shards.
fn read_shards(section: &Section) -> u16 {
    let least = u64::from(SHARDS);
    let shards = section.integer("shards", least..=u64::from(SHARDS_MAX), Some(least)) as u16;
    if shards.is_power_of_two() {
        return shards;
    }
    let (below, above) = (shards.next_power_of_two() / 2, shards.next_power_of_two());
    let sentence = format!("{shards} is no power of two. Give {below} or {above}.");
    section.note("shards", &sentence);
    SHARDS
}

/// Reads the names of the parts to switch off.
fn read_without(section: &Section) -> Ablation {
    let mut without = Ablation::default();
    for name in section.texts("without") {
        match without.and(&name) {
            Ok(more) => without = more,
            Err(_) if name == "dynamic-partitions" => section.note(
                "without",
                "dynamic partitions are no part of a collection. Set rebalance.policy to none.",
            ),
            Err(error) => section.note("without", &format!("{error}.")),
        }
    }
    without
}

impl EncoderSettings {
    fn read(section: &Section) -> EncoderSettings {
        let kind = section.choice("kind", "an encoder", ENCODERS, Some(EncoderKind::Cells));
        let settings = match kind {
            EncoderKind::Cells => EncoderSettings::Cells {
                cells: section.integer("cells", 2..=CELLS_MAX as u64, Some(1024)) as usize,
                recall_target: section.number("recall-target", 0.5..=1.0, 0.98) as f32,
            },
            EncoderKind::Lsh => EncoderSettings::read_lsh(section),
            EncoderKind::Id => EncoderSettings::Id,
        };
        section.finish();
        settings
    }

    fn read_lsh(section: &Section) -> EncoderSettings {
        EncoderSettings::Lsh {
            curve: section.choice("curve", "a curve", CURVES, Some(CurveName::Hilbert)),
            families: section.integer("families", 1..=FAMILIES_MAX as u64, Some(8)) as usize,
            hashes: section.integer("hashes", 1..=HASHES_MAX as u64, Some(10)) as usize,
            width: section.number("width", 1e-6..=1e6, 0.25) as f32,
            bits: section.integer("bits", 1..=16, Some(6)) as u32,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum EncoderKind {
    Cells,
    Lsh,
    Id,
}

const ENCODERS: &[(&str, EncoderKind)] =
    &[("cells", EncoderKind::Cells), ("lsh", EncoderKind::Lsh), ("id", EncoderKind::Id)];

const METRICS: &[(&str, Metric)] =
    &[("l2", Metric::L2), ("cosine", Metric::Cosine), ("inner_product", Metric::InnerProduct)];

const ELEMENTS: &[(&str, Element)] = &[
    ("f32", Element::F32),
    ("f16", Element::F16),
    ("bf16", Element::Bf16),
    ("u8", Element::U8),
    ("i8", Element::I8),
];

const DELETE_ORDERS: &[(&str, DeleteOrder)] =
    &[("any", DeleteOrder::Any), ("oldest-first", DeleteOrder::OldestFirst)];

const SEGMENT_INDEXES: &[(&str, SegmentIndex)] = &[
    ("clusters", SegmentIndex::Clusters),
    ("auto", SegmentIndex::Clusters),
    ("graph", SegmentIndex::Graph),
];

const INDEXES: &[(&str, IndexName)] = &[("cluster", IndexName::Cluster), ("flat", IndexName::Flat)];

const CURVES: &[(&str, CurveName)] = &[
    ("zorder", CurveName::ZOrder),
    ("hilbert", CurveName::Hilbert),
    ("gray", CurveName::Gray),
    ("peano", CurveName::Peano),
    ("sierpinski", CurveName::Sierpinski),
];

fn metric_name<S: Serializer>(metric: &Metric, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(metric.name())
}

fn element_name<S: Serializer>(element: &Element, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(element.name())
}

fn segment_index_name<S: Serializer>(
    index: &SegmentIndex,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(index.name())
}

fn delete_order_name<S: Serializer>(order: &DeleteOrder, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(order.name())
}

fn without_names<S: Serializer>(without: &Ablation, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(without.names())
}
