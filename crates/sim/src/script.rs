//! What is written, as a function of a seed, and what must be there after each write.
//!
//! The first writes add every id once; those after them replace and remove rows, and bring removed
//! ids back. A write that failed is the next one again, so its LSN alone says what was written.

use vstream_engine::{DeleteOrder, Element, Engine, Error, Metric, Row, Settings};
use vstream_vector::{kernels, SplitMix};

/// Dimensions of the collections of the lab.
pub const DIMENSION: usize = 32;
/// Centres near which vectors lie.
const CENTRES: u64 = 60;
/// Small enough for a few hundred rows to have several leaves.
const LEAF_ROWS_MAX: usize = 64;
const LEAF_ROWS_MIN: usize = 16;
/// The least that is accepted: a few hundred rows, then a segment is written.
const MEMORY_BYTES: u64 = 64 << 10;

/// What the collections of a seed hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Formula of the distance.
    pub metric: Metric,
    /// Type of the stored numbers.
    pub element: Element,
    /// Rows leave memory for segments, which are merged; otherwise checkpoints are base images.
    pub has_segments: bool,
}

impl Shape {
    /// Of every four seeds three keep their rows in segments: f32 under cosine, u8 and f32 under
    /// l2. The fourth keeps f32 under inner product in memory.
    pub fn of(seed: u64) -> Shape {
        let (metric, element) = match seed % 4 {
            0 => (Metric::Cosine, Element::F32),
            1 => (Metric::L2, Element::U8),
            2 => (Metric::L2, Element::F32),
            _ => (Metric::InnerProduct, Element::F32),
        };
        Shape { metric, element, has_segments: seed % 4 != 3 }
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
    settings.deletes = match seed % 8 < 4 {
        true => DeleteOrder::OldestFirst,
        false => DeleteOrder::Any,
    };
    settings.cluster.leaf_rows_max = LEAF_ROWS_MAX;
    settings.cluster.leaf_rows_min = LEAF_ROWS_MIN;
    adjust(&mut settings);
    settings
}

/// Changes what is not kept with a collection: no thread audits queries.
pub fn adjust(settings: &mut Settings) {
    settings.recall_guard = false;
}

/// A write. Its LSN is the version of the row that it adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Adds or replaces the row of an id.
    Upsert(u64),
    /// Removes a row that is there.
    Delete(u64),
}

/// The sequence of writes of a seed, as far as it was asked for.
pub struct Script {
    /// What the rows are.
    pub shape: Shape,
    /// Ids are below this.
    pub ids: usize,
    random: SplitMix,
    writes: Vec<Write>,
    /// By id, after the last of `writes`: LSN of the row that is there, 0 if none is.
    last: Vec<u64>,
    /// By LSN: what the user gives, and what the engine holds; zeros for deletes.
    given: Vec<f32>,
    stored: Vec<f32>,
}

impl Script {
    /// The sequence of `seed` over that many ids.
    pub fn new(seed: u64, ids: usize) -> Script {
        Script {
            shape: Shape::of(seed),
            ids,
            random: SplitMix(seed ^ 0x0005_c819),
            writes: Vec::new(),
            last: vec![0; ids],
            given: vec![0.0; DIMENSION],
            stored: vec![0.0; DIMENSION],
        }
    }

    /// Draws the writes up to `lsn`.
    pub fn extend_to(&mut self, lsn: u64) {
        while (self.writes.len() as u64) < lsn {
            self.draw();
        }
    }

    fn draw(&mut self) {
        let lsn = self.writes.len() as u64 + 1;
        let is_load = lsn <= self.ids as u64;
        let id = if is_load { lsn - 1 } else { self.random.below(self.ids) as u64 };
        let before = self.last[id as usize];
        let at = self.given.len();
        self.given.resize(at + DIMENSION, 0.0);
        self.stored.resize(at + DIMENSION, 0.0);
        if before > 0 && self.random.below(4) == 0 {
            self.last[id as usize] = 0;
            self.writes.push(Write::Delete(id));
            return;
        }
        // Half of the rows that are replaced hardly move.
        let vector = if before > 0 && self.random.below(2) == 0 {
            self.moved(before)
        } else {
            self.shape.vector(&mut self.random)
        };
        self.given[at..].copy_from_slice(&vector);
        hold(self.shape.metric, &vector, &mut self.stored[at..]);
        self.last[id as usize] = lsn;
        self.writes.push(Write::Upsert(id));
    }

    /// A vector near that of an older write.
    fn moved(&mut self, lsn: u64) -> Vec<f32> {
        let is_integer = self.shape.element.is_integer();
        let near = |&x: &f32| match is_integer {
            true => (x + 2.0 * self.random.normal()).round().clamp(0.0, 255.0),
            false => x + 0.05 * self.random.normal(),
        };
        self.given[range_of(lsn)].iter().map(near).collect()
    }

    /// The write `lsn`, which was drawn.
    pub fn write(&self, lsn: u64) -> Write {
        self.writes[lsn as usize - 1]
    }

    /// By id: LSN of the row that is there after `lsn` writes, 0 if none is.
    pub fn rows_after(&self, lsn: u64) -> Vec<u64> {
        let mut rows = vec![0; self.ids];
        for (write, at) in self.writes[..lsn as usize].iter().zip(1..) {
            match *write {
                Write::Upsert(id) => rows[id as usize] = at,
                Write::Delete(id) => rows[id as usize] = 0,
            }
        }
        rows
    }

    /// The vector of an upsert, as the engine holds it.
    pub fn stored(&self, lsn: u64) -> &[f32] {
        &self.stored[range_of(lsn)]
    }

    /// Gives the write `lsn` to an engine. Errors: those of the engine, which then has not changed.
    pub fn apply(&self, engine: &mut Engine, lsn: u64) -> Result<(), Error> {
        match self.write(lsn) {
            Write::Upsert(id) => {
                let (code, shard) = placed(id);
                let vector = &self.given[range_of(lsn)];
                engine
                    .upsert(&Row {
                        id,
                        version: lsn,
                        code,
                        shard,
                        vector,
                        fields: Default::default(),
                    })
                    .map(|_| ())
            }
            Write::Delete(id) => engine.delete(id, u64::MAX).map(|_| ()),
        }
    }
}

/// Code and shard of the row of an id.
pub fn placed(id: u64) -> (u64, u16) {
    (id << 8, (id % 3) as u16)
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

fn range_of(lsn: u64) -> std::ops::Range<usize> {
    let at = lsn as usize * DIMENSION;
    at..at + DIMENSION
}

/// Writes a vector as a collection of this metric holds it: under cosine, a direction.
pub fn hold(metric: Metric, given: &[f32], out: &mut [f32]) {
    let norm = match metric {
        Metric::Cosine => kernels::norm_squared(given).sqrt(),
        _ => 1.0,
    };
    out.iter_mut().zip(given).for_each(|(out, given)| *out = given / norm);
}
