//! What is written, as a function of a seed, and what must be there after each write.
//!
//! The first writes add every id once; those after them replace and remove rows, and bring removed
//! ids back. A write that failed is the next one again, so its LSN alone says what was written.
//!
//! The rows of half of the seeds have fields (`fields.rs`): these scripts also update them, write
//! rows under a condition, and delete by a filter. Where deletes are remembered, they delete rows
//! that are not there, and try upserts that come too late (`late.rs`).

use std::sync::Arc;

use vstream_engine::{
    Applied, Condition, Engine, Error, Fields, FieldsBuffer, IfVersion, Row, RowId, Schema,
};
use vstream_vector::SplitMix;

use crate::fields::{self, Change};
pub use crate::shape::{adjust, hold, settings, Shape, DIMENSION};

/// Shards of the rows.
const SHARDS: u64 = 16;

/// A write. Its LSN is the version of the row that it adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Adds or replaces the row of an id.
    Upsert(u64),
    /// Removes a row that is there.
    Delete(u64),
    /// Replaces the row that is there, of this LSN, if it is still that one; before it, tries the
    /// same under conditions that do not hold.
    UpsertIf(u64, u64),
    /// Adds the row of an id that is not there; before it, tries to replace one.
    Insert(u64),
    /// Deletes an id that is not there, which is remembered.
    DeleteMissing(u64),
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
    /// By LSN, in a script whose deletes are remembered: an id that was deleted, and by which write.
    late: Vec<Option<(u64, u64)>>,
    /// By id, after the last of `writes`: LSN of the delete that is the last write of the id, or 0.
    deleted: Vec<u64>,
    /// By LSN: what the user gives, and what the engine holds; zeros for deletes.
    given: Vec<f32>,
    stored: Vec<f32>,
    /// By LSN: the shard of the row that it leaves.
    shards: Vec<u16>,
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
            late: vec![None],
            deleted: vec![0; ids],
            given: vec![0.0; DIMENSION],
            stored: vec![0.0; DIMENSION],
            shards: vec![0],
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
        self.draw_write(lsn);
        let id = (lsn.wrapping_mul(0x9e37_79b9) % self.ids as u64) as usize;
        // The delete came before this write.
        let deleted = self.deleted[id];
        let is_late = self.shape.remembers && deleted > 0 && deleted < lsn;
        self.late.push(is_late.then_some((id as u64, deleted)));
    }

    fn draw_write(&mut self, lsn: u64) {
        let is_load = lsn <= self.ids as u64;
        let id = if is_load { lsn - 1 } else { self.random.below(self.ids) as u64 };
        let before = self.last[id as usize];
        // An upsert in two moves its row to another shard.
        let moves = lsn.wrapping_mul(0x9e37_79b9) >> 7 & 1;
        self.shards.push(((id + moves * lsn) % SHARDS) as u16);
        let at = self.given.len();
        self.given.resize(at + DIMENSION, 0.0);
        self.stored.resize(at + DIMENSION, 0.0);
        if before > 0 && self.random.below(4) == 0 {
            (self.last[id as usize], self.deleted[id as usize]) = (0, lsn);
            let write = self.delete_of(id, before, lsn);
            self.writes.push(write);
            return;
        }
        if before == 0 && !is_load && self.shape.remembers && self.random.below(3) == 0 {
            self.deleted[id as usize] = lsn;
            self.fields.push(FieldsBuffer::default());
            self.writes.push(Write::DeleteMissing(id));
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
        (self.last[id as usize], self.deleted[id as usize]) = (lsn, 0);
        let mut write = Write::Upsert(id);
        if self.shape.has_fields {
            self.fields.push(fields::of_upsert(&self.schema, id, lsn));
            write = match lsn % 3 {
                0 if before > 0 => Write::UpsertIf(id, before),
                0 if !is_load => Write::Insert(id),
                _ => write,
            };
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

    /// The row keeps its vector and its shard.
    fn draw_update(&mut self, id: u64, before: u64, lsn: u64) {
        let (from, to) = (range_of(before), range_of(lsn).start);
        self.given.copy_within(from.clone(), to);
        self.stored.copy_within(from, to);
        self.shards[lsn as usize] = self.shards[before as usize];
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
                Write::Upsert(id)
                | Write::UpsertIf(id, _)
                | Write::Insert(id)
                | Write::Update(id) => rows[id as usize] = at,
                Write::Delete(id) | Write::DeleteWhere(id, _) | Write::DeleteMissing(id) => {
                    rows[id as usize] = 0;
                }
            }
        }
        rows
    }

    /// By id: LSN of the delete that was its last write after `lsn` writes, 0 if there is none.
    pub fn deletes_after(&self, lsn: u64) -> Vec<u64> {
        let mut deletes = vec![0; self.ids];
        for (write, at) in self.writes[..lsn as usize].iter().zip(1..) {
            match *write {
                Write::Delete(id) | Write::DeleteWhere(id, _) | Write::DeleteMissing(id) => {
                    deletes[id as usize] = at;
                }
                Write::Upsert(id)
                | Write::UpsertIf(id, _)
                | Write::Insert(id)
                | Write::Update(id) => deletes[id as usize] = 0,
            }
        }
        deletes
    }

    /// An upsert that write `lsn` is to be preceded by and that changes nothing: its id, and the
    /// LSN of the delete for which it comes too late.
    pub fn late(&self, lsn: u64) -> Option<(u64, u64)> {
        self.late[lsn as usize]
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

    /// Code and shard of the row that write `lsn` leaves of an id.
    pub fn placed(&self, id: u64, lsn: u64) -> (u64, u16) {
        (id << 8, self.shards[lsn as usize])
    }

    /// Gives the write `lsn` to an engine; before it, in some scripts, what changes nothing.
    /// Errors: those of the engine, which then has not changed.
    pub fn apply(&self, engine: &mut Engine, lsn: u64) -> Result<(), Error> {
        if let Some((id, deleted)) = self.late(lsn) {
            let applied = self.upsert_late(engine, id, deleted)?;
            assert_eq!(applied, Applied::Stale, "row {id} of write {deleted} before {lsn}");
        }
        // A delete that is remembered must not reach the writes after it.
        let version = if self.shape.remembers { lsn } else { u64::MAX };
        match self.write(lsn) {
            Write::Upsert(id) => engine.upsert(&self.row(id, lsn)).map(|_| ()),
            Write::Delete(id) => engine.delete(id, version).map(|_| ()),
            Write::DeleteMissing(id) => {
                let is_there = engine.delete(id, version)?;
                assert!(!is_there, "write {lsn}");
                Ok(())
            }
            Write::UpsertIf(..) | Write::Insert(_) => self.apply_if(engine, lsn),
            Write::Update(id) => {
                let id = RowId { id, check: self.fields(lsn).check };
                let mut change = Change::of(&self.schema, lsn);
                let applied = change.give(|update| engine.update(id, lsn, update))?;
                assert_eq!(applied, Applied::Replaced, "write {lsn}");
                Ok(())
            }
            Write::DeleteWhere(_, before) => {
                let removed = engine.delete_where(&fields::added_by(before), version)?;
                assert_eq!(removed, 1, "write {lsn}");
                Ok(())
            }
        }
    }

    /// A write under a condition: on the attributes or on the version, in turns.
    fn apply_if(&self, engine: &mut Engine, lsn: u64) -> Result<(), Error> {
        let (of_before, of_this);
        let (id, fails, holds, right) = match self.write(lsn) {
            Write::UpsertIf(id, before) if lsn.is_multiple_of(2) => {
                (of_before, of_this) = (fields::added_by(before), fields::added_by(lsn));
                let on = |filter| Condition { filter: Some(filter), ..Condition::default() };
                (id, on(&of_this), on(&of_before), Applied::Replaced)
            }
            Write::UpsertIf(id, before) => {
                let (fails, holds) = match lsn % 5 {
                    0 => (IfVersion::Absent, IfVersion::Present),
                    _ => (IfVersion::Is(lsn), IfVersion::Is(before)),
                };
                (id, on_version(fails), on_version(holds), Applied::Replaced)
            }
            Write::Insert(id) => {
                let (fails, holds) = (IfVersion::Present, IfVersion::Absent);
                (id, on_version(fails), on_version(holds), Applied::Inserted)
            }
            other => unreachable!("{other:?} has no condition"),
        };
        let row = self.row(id, lsn);
        assert_eq!(engine.upsert_if(&row, &fails)?, Applied::ConditionFailed, "write {lsn}");
        assert_eq!(engine.upsert_if(&row, &holds)?, right, "write {lsn}");
        Ok(())
    }

    fn row(&self, id: u64, lsn: u64) -> Row<'_> {
        let ((code, shard), vector) = (self.placed(id, lsn), &self.given[range_of(lsn)]);
        Row { id, version: lsn, code, shard, vector, fields: self.fields(lsn) }
    }

    /// Tries a row of an id that is older than its delete, the write `deleted`.
    pub fn upsert_late(
        &self,
        engine: &mut Engine,
        id: u64,
        deleted: u64,
    ) -> Result<Applied, Error> {
        let (code, shard) = self.placed(id, id + 1);
        // The first writes add every id once.
        let (vector, fields) = (&self.given[range_of(id + 1)], self.fields(id + 1));
        engine.upsert(&Row { id, version: deleted - 1, code, shard, vector, fields })
    }
}

fn on_version(version: IfVersion) -> Condition<'static> {
    Condition { version, ..Condition::default() }
}

fn range_of(lsn: u64) -> std::ops::Range<usize> {
    let at = lsn as usize * DIMENSION;
    at..at + DIMENSION
}
