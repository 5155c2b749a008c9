//! What the collections of a seed hold: metric, element, segments, fields.

use std::time::Duration;

use vstream_engine::{DeleteOrder, Element, Metric, SegmentIndex, Settings};
use vstream_vector::{kernels, SplitMix};

use crate::fields;

/// Dimensions of the collections of the lab.
pub const DIMENSION: usize = 32;
/// Centres near which vectors lie.
const CENTRES: u64 = 60;
/// Small enough for a few hundred rows to have several leaves.
const LEAF_ROWS_MAX: usize = 64;
const LEAF_ROWS_MIN: usize = 16;
/// The least that is accepted: a few hundred rows, then a segment is written.
const MEMORY_BYTES: u64 = 64 << 10;
/// Of a range.
const SEGMENT_BYTES: u64 = 64 << 10;
/// Of a part of a base image: the rows of a shard or two.
const IMAGE_PART_BYTES: u64 = 5 << 10;
/// Longer than any run: no delete is forgotten because of the time.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// What the collections of a seed hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Formula of the distance.
    pub metric: Metric,
    /// Type of the stored numbers.
    pub element: Element,
    /// Rows leave memory for segments, which are merged; otherwise checkpoints are base images.
    pub has_segments: bool,
    /// Merges write graphs.
    pub has_graphs: bool,
    /// Merges take ranges of leaves, not whole segments.
    pub merges_ranges: bool,
    /// Rows have text ids, attributes and payloads.
    pub has_fields: bool,
    /// Deletes are remembered: an upsert that is older than the delete of its id changes nothing.
    pub remembers: bool,
}

impl Shape {
    /// Of every four seeds three keep their rows in segments: f32 under cosine, u8 and f32 under
    /// l2. The fourth keeps f32 under inner product in memory. Rows have fields in four of every
    /// eight seeds, and deletes are remembered in half of those. Of those with segments and without
    /// fields, the ones with f32 make graphs. Seeds that agree modulo eight have one shape.
    pub fn of(seed: u64) -> Shape {
        let (metric, element) = match seed % 4 {
            0 => (Metric::Cosine, Element::F32),
            1 => (Metric::L2, Element::U8),
            2 => (Metric::L2, Element::F32),
            _ => (Metric::InnerProduct, Element::F32),
        };
        let (has_segments, has_fields) = (seed % 4 != 3, seed / 4 % 2 == 1);
        let remembers = has_fields && matches!(seed % 4, 0 | 3);
        let has_graphs = matches!(seed % 8, 0 | 2);
        let merges_ranges = has_segments && !has_graphs && seed % 8 >= 4;
        Shape { metric, element, has_segments, has_graphs, merges_ranges, has_fields, remembers }
    }

    /// Ids of a collection of this shape: its rows are read anew for every state.
    pub fn ids(&self) -> usize {
        if self.has_segments {
            3_000
        } else {
            400
        }
    }
}

/// Settings of the collection of a seed, with small leaves. Half of those with segments merge
/// neighbours in age.
pub fn settings(seed: u64) -> Settings {
    let shape = Shape::of(seed);
    let mut settings = Settings::new(DIMENSION, shape.metric, shape.element);
    settings.memory = shape.has_segments.then_some(MEMORY_BYTES);
    if shape.has_graphs {
        settings.segments = SegmentIndex::Graph;
    }
    settings.deletes = match seed % 8 < 4 {
        true => DeleteOrder::OldestFirst,
        false => DeleteOrder::Any,
    };
    if shape.has_fields {
        settings.schema = fields::schema();
    }
    settings.deletes_remembered = shape.remembers.then_some(REMEMBERED);
    settings.cluster.leaf_rows_max = LEAF_ROWS_MAX;
    settings.cluster.leaf_rows_min = LEAF_ROWS_MIN;
    adjust(&mut settings);
    settings
}

/// Changes what is not kept with a collection: no thread audits queries, a range has a few hundred rows,
/// and a base image is written part by part.
pub fn adjust(settings: &mut Settings) {
    settings.recall_guard = false;
    settings.segment_bytes = SEGMENT_BYTES;
    settings.image_part_bytes = IMAGE_PART_BYTES;
}

impl Shape {
    /// A vector near one of the centres.
    pub fn vector(&self, random: &mut SplitMix) -> Vec<f32> {
        let mut centre = SplitMix(random.next() % CENTRES + 1);
        let scale = match self.metric {
            Metric::InnerProduct => 0.5 + random.unit(),
            _ => 1.0,
        };
        let place = |_| {
            let value = 2.0 * centre.normal() + random.normal();
            match self.element.is_integer() {
                true => (128.0 + 24.0 * value).round().clamp(0.0, 255.0),
                false => scale * value,
            }
        };
        (0..DIMENSION).map(place).collect()
    }
}

/// Writes a vector as a collection of this metric holds it: under cosine, a direction.
pub fn hold(metric: Metric, given: &[f32], out: &mut [f32]) {
    let norm = match metric {
        Metric::Cosine => kernels::norm_squared(given).sqrt(),
        _ => 1.0,
    };
    out.iter_mut().zip(given).for_each(|(out, given)| *out = given / norm);
}
