//! What a user decides about an engine, checked once.

use vstream_index::{ClusterSettings, IndexSettings};
use vstream_vector::{Element, Metric};

use crate::error::Error;

/// Largest dimension that is accepted.
pub const DIMENSION_MAX: usize = vstream_store::codec::DIMENSION_MAX;
/// Largest `k` of a query.
pub const K_MAX: usize = 1000;

/// Bytes of a vector above which a second look is taken: what it saves in exact distances grows
/// with the vector, what it costs with its dimensions alone.
const SECOND_LOOK_BYTES: usize = 512;

/// Which index serves the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// Exact scan; for small collections and as an oracle.
    Flat,
    /// Centroid tree over coded leaves; the default.
    Cluster,
}

/// In which order rows end: how segments are merged depends on it, no answer does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeleteOrder {
    /// In any: segments of one size are merged.
    #[default]
    Any,
    /// Oldest first, or nearly so, as under a time to live or in a sliding window: segments are
    /// merged with neighbours in age alone, and dropped without being read when all their rows are
    /// gone.
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

    /// The order of a name. Errors: `Invalid`.
    pub fn from_name(name: &str) -> Result<DeleteOrder, Error> {
        match name {
            "any" => Ok(DeleteOrder::Any),
            "oldest-first" => Ok(DeleteOrder::OldestFirst),
            _ => Err(Error::invalid(format!("deletes is '{name}': choose any or oldest-first"))),
        }
    }
}

/// Settings of one engine. Build with [`Settings::new`] and change fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Dimensions of every vector, 1..=[`DIMENSION_MAX`].
    pub dimension: usize,
    /// Formula of the distance.
    pub metric: Metric,
    /// Type of the stored numbers, which says what a vector may hold ([`Element::range`]).
    pub element: Element,
    /// Index kind.
    pub index: IndexKind,
    /// Recall@k that searches of `Effort::Auto` are steered to, 0.5..=0.999.
    pub recall_target: f64,
    /// Steer the effort by sampled exact checks in the background, within 3 % of one core but for
    /// while queries wait for a first decision. Without it the effort is a fixed function of the
    /// collection's size, and recall is not held.
    pub recall_guard: bool,
    /// Seed of every random choice.
    pub seed: u64,
    /// Sizes of the cluster index.
    pub cluster: ClusterSettings,
    /// Bytes of memory for rows that are in no segment yet and for blocks of segments that were
    /// read; what does not fit is kept in segments on the disk, whose codes, as `code_memory` says,
    /// and ids are in memory besides (some 20 and 15 bytes per row at 128 dimensions). 64 KiB or
    /// more; `None`: all rows stay in memory. Needs an engine that keeps its rows in a directory.
    pub memory: Option<u64>,
    /// Bytes of memory for the codes of segments: those that are visited most are held, the others
    /// are read when a query needs them. `None`: all are held.
    pub code_memory: Option<u64>,
    /// In which order rows end, by deletes or because newer ones replace them.
    pub deletes: DeleteOrder,
    /// What is left out, to measure what it is worth. Not kept with the collection.
    pub ablation: Ablation,
}

/// Parts of the engine that are left out, for ablations: `true` leaves one out. Answers stay what
/// they are; only their cost changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ablation {
    /// Segments in the order of their rows, the codes of the first of them in memory, instead of
    /// by heat.
    pub hot_cold: bool,
    /// Vectors in new segments as they are, instead of in the codec that is shortest.
    pub compression: bool,
    /// Every leaf is scanned against its own segment's candidates alone, none is passed over
    /// because better rows are known already.
    pub threshold_stop: bool,
    /// Segments are read past the page cache of the operating system; also useful where the page
    /// cache counts as memory of the process. No name in settings.
    pub page_cache: bool,
}

impl Ablation {
    /// Names used in settings.
    const NAMES: [&'static str; 3] = ["hot-cold", "compression", "threshold-stop"];

    fn part(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "hot-cold" => Some(&mut self.hot_cold),
            "compression" => Some(&mut self.compression),
            "threshold-stop" => Some(&mut self.threshold_stop),
            _ => None,
        }
    }

    /// Leaves out the part of this name too. Errors: `Invalid` for a name that there is not.
    pub fn and(mut self, name: &str) -> Result<Ablation, Error> {
        let Some(part) = self.part(name) else {
            return Err(Error::invalid(format!(
                "there is no '{name}' to leave out: choose from hot-cold, compression and \
                 threshold-stop"
            )));
        };
        *part = true;
        Ok(self)
    }

    /// Names of the parts that are left out.
    pub fn names(mut self) -> Vec<&'static str> {
        let is_out = |name: &&'static str| self.part(name).is_some_and(|part| *part);
        Ablation::NAMES.into_iter().filter(is_out).collect()
    }
}

/// A memory setting at least.
const MEMORY_MIN: u64 = 64 << 10;

impl Settings {
    /// The defaults for a collection.
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
            deletes: DeleteOrder::default(),
            ablation: Ablation::default(),
        }
    }

    /// Checks every field; the error names the field and what to change.
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
        check_cluster(&self.cluster)
    }

    /// Rows under cosine are normalised when they are accepted: an integer element cannot hold a
    /// direction, so they are held as `f32` then.
    pub(crate) fn index_settings(&self) -> IndexSettings {
        let direction = self.metric == Metric::Cosine && self.element.is_integer();
        let element = if direction { Element::F32 } else { self.element };
        IndexSettings { dimension: self.dimension, metric: self.metric, element, seed: self.seed }
    }
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
