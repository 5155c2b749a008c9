//! What is written, as a function of a seed, and what must be there after each write.
//!
//! The first writes add every id once; those after them replace and remove rows, and bring removed
//! ids back. A write that failed is the next one again, so its LSN alone says what was written.
//!
//! The rows of half of the seeds have fields (`fields.rs`): these scripts also update them, replace
//! rows under a condition, and delete by a filter.

use std::sync::Arc;

use vstream_engine::{
    Applied, Condition, DeleteOrder, Element, Engine, Error, Fields, FieldsBuffer, Metric, Row,
    RowId, Schema, Settings,
};
use vstream_vector::{kernels, SplitMix};

use crate::fields::{self, Change};

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
    /// Rows have text ids, attributes and payloads.
    pub has_fields: bool,
}

impl Shape {
    /// Of every four seeds three keep their rows in segments: f32 under cosine, u8 and f32 under
    /// l2. The fourth keeps f32 under inner product in memory. Rows have fields in four of every
    /// eight seeds.
    pub fn of(seed: u64) -> Shape {
        let (metric, element) = match seed % 4 {
            0 => (Metric::Cosine, Element::F32),
            1 => (Metric::L2, Element::U8),
            2 => (Metric::L2, Element::F32),
            _ => (Metric::InnerProduct, Element::F32),
        };
        Shape { metric, element, has_segments: seed % 4 != 3, has_fields: seed / 4 % 2 == 1 }
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
    if shape.has_fields {
        settings.schema = fields::schema();
    }
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
    /// Replaces the row that is there, of this LSN, if it is still that one; before it, tries the
    /// same under a condition that does not hold.
    UpsertIf(u64, u64),
    /// Changes attributes or payload of a row that is there.
    Update(u64),
    /// Removes the row of this id and LSN, which is there, by a filter.
    DeleteWhere(u64, u64),
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
    /// By LSN, in a script whose rows have fields: those of the row that it leaves.
    fields: Vec<FieldsBuffer>,
    schema: Arc<Schema>,
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
            fields: vec![FieldsBuffer::default()],
            schema: fields::schema(),
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
            let write = self.delete_of(id, before, lsn);
            self.writes.push(write);
            return;
        }
        if before > 0 && self.shape.has_fields && self.random.below(3) == 0 {
            self.draw_update(id, before, lsn);
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
        let mut write = Write::Upsert(id);
        if self.shape.has_fields {
            self.fields.push(fields::of_upsert(&self.schema, id, lsn));
            if before > 0 && lsn.is_multiple_of(3) {
                write = Write::UpsertIf(id, before);
            }
        }
        self.writes.push(write);
    }

    fn delete_of(&mut self, id: u64, before: u64, lsn: u64) -> Write {
        if !self.shape.has_fields {
            return Write::Delete(id);
        }
        self.fields.push(FieldsBuffer::default());
        match lsn % 2 {
            0 => Write::Delete(id),
            _ => Write::DeleteWhere(id, before),
        }
    }

    /// The row keeps its vector.
    fn draw_update(&mut self, id: u64, before: u64, lsn: u64) {
        let (from, to) = (range_of(before), range_of(lsn).start);
        self.given.copy_within(from.clone(), to);
        self.stored.copy_within(from, to);
        let fields =
            Change::of(&self.schema, lsn).over(&self.schema, &self.fields[before as usize]);
        self.fields.push(fields);
        self.last[id as usize] = lsn;
        self.writes.push(Write::Update(id));
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
                Write::Upsert(id) | Write::UpsertIf(id, _) | Write::Update(id) => {
                    rows[id as usize] = at;
                }
                Write::Delete(id) | Write::DeleteWhere(id, _) => rows[id as usize] = 0,
            }
        }
        rows
    }

    /// The vector of an upsert, as the engine holds it.
    pub fn stored(&self, lsn: u64) -> &[f32] {
        &self.stored[range_of(lsn)]
    }

    /// The fields of the row that a write leaves.
    pub fn fields(&self, lsn: u64) -> Fields<'_> {
        match self.shape.has_fields {
            true => self.fields[lsn as usize].fields(),
            false => Fields::NONE,
        }
    }

    /// Gives the write `lsn` to an engine. Errors: those of the engine, which then has not changed.
    pub fn apply(&self, engine: &mut Engine, lsn: u64) -> Result<(), Error> {
        let row = |id| {
            let ((code, shard), vector) = (placed(id), &self.given[range_of(lsn)]);
            Row { id, version: lsn, code, shard, vector, fields: self.fields(lsn) }
        };
        match self.write(lsn) {
            Write::Upsert(id) => engine.upsert(&row(id)).map(|_| ()),
            Write::Delete(id) => engine.delete(id, u64::MAX).map(|_| ()),
            Write::UpsertIf(id, before) => {
                let (holds, fails) = (fields::added_by(before), fields::added_by(lsn));
                let condition = |filter| Condition { filter: Some(filter), ..Condition::default() };
                let failed = engine.upsert_if(&row(id), &condition(&fails))?;
                assert_eq!(failed, Applied::ConditionFailed, "write {lsn}");
                let applied = engine.upsert_if(&row(id), &condition(&holds))?;
                assert_eq!(applied, Applied::Replaced, "write {lsn}");
                Ok(())
            }
            Write::Update(id) => {
                let id = RowId { id, check: self.fields(lsn).check };
                let mut change = Change::of(&self.schema, lsn);
                let applied = change.give(|update| engine.update(id, lsn, update))?;
                assert_eq!(applied, Applied::Replaced, "write {lsn}");
                Ok(())
            }
            Write::DeleteWhere(_, before) => {
                let removed = engine.delete_where(&fields::added_by(before), u64::MAX)?;
                assert_eq!(removed, 1, "write {lsn}");
                Ok(())
            }
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
