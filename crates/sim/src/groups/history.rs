//! What is written to a group store, as a function of a seed, and what must be there after each
//! write.
//!
//! Groups are of very different sizes: the first has codes, others are read whole, some are dropped
//! and begin anew. Names begin alike, differ in case, or are no ASCII. A write is known by its
//! number, which is its version.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use vstream_engine::{Fields, FieldsBuffer};
use vstream_group::{
    Applied, Condition, Error, GroupSettings, GroupStore, PayloadChange, RowRef, Update,
};
use vstream_vector::{with_number, Element, Metric, Number, SplitMix, Widen};
use xxhash_rust::xxh3::xxh3_64;

use super::defect::{active, GroupDefect};
use crate::fields::{self, Change};

/// Dimensions of the vectors.
pub const DIMENSION: usize = 64;
/// The groups. Each gets about half as many writes as the one before it, down to few.
pub const GROUPS: [&str; 10] =
    ["ann", "ann2", "Ann", "an", "ännchen", "ben", "b", "ben@example.org", "\u{0}", "c/../ann"];
/// Ids of the first group; the later ones have fewer.
const IDS: usize = 120;
/// Rows from which a part of a group has codes, and bytes of new rows before a flush.
const CODED_ROWS: usize = 24;
const MEMORY: usize = 48 << 10;
/// How long stores of even seeds remember deletes: longer than any run.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// A write. Its number is the version of what it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Adds or replaces a row of a group.
    Upsert(usize, u64),
    /// Replaces the row that is there, of this write, if it is still that one; before it, tries the
    /// same under a condition that does not hold.
    UpsertIf(usize, u64, u64),
    /// Changes attributes or payload of a row that is there.
    Update(usize, u64),
    /// Removes a row of a group, there or not.
    Delete(usize, u64),
    /// Removes the row of this write, which is there, by a filter.
    DeleteWhere(usize, u64, u64),
    /// Removes a whole group.
    Drop(usize),
}

/// Where rows are: the write that left each of them, by group and id.
pub type Rows = BTreeMap<(usize, u64), u64>;

/// The sequence of writes of a seed, as far as it was asked for.
pub struct History {
    /// Settings of the store, with a seed.
    pub settings: GroupSettings,
    random: SplitMix,
    writes: Vec<Write>,
    rows: Rows,
    /// By number of a write: digest of the rows that are there after it.
    digests: Vec<u64>,
    given: Vec<Vec<f32>>,
    fields: Vec<FieldsBuffer>,
    /// Writes that a crash may have taken back without a trace in the rows.
    doubtful: BTreeSet<u64>,
}

/// Settings of the store of a seed: three pairs of metric and element in turns.
pub fn settings(seed: u64) -> GroupSettings {
    let (metric, element) = match seed % 3 {
        0 => (Metric::Cosine, Element::F32),
        1 => (Metric::L2, Element::U8),
        _ => (Metric::InnerProduct, Element::Bf16),
    };
    GroupSettings {
        schema: (*fields::schema()).clone(),
        coded_rows: CODED_ROWS,
        clustered_rows: 2 * CODED_ROWS,
        memory: MEMORY,
        cache: 64 << 10,
        fanout: 2 + (seed % 2) as usize,
        deletes_remembered: seed.is_multiple_of(2).then_some(REMEMBERED),
        seed: Some(seed),
        ..GroupSettings::new(DIMENSION, metric, element)
    }
}

impl History {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> History {
        History {
            settings: settings(seed),
            random: SplitMix(seed ^ 0x96_0409),
            writes: Vec::new(),
            rows: Rows::new(),
            digests: vec![0],
            given: vec![Vec::new()],
            fields: vec![FieldsBuffer::default()],
            doubtful: BTreeSet::new(),
        }
    }

    /// Draws the writes up to `number`.
    pub fn extend_to(&mut self, number: u64) {
        while (self.writes.len() as u64) < number {
            self.draw();
        }
    }

    fn draw(&mut self) {
        let number = self.writes.len() as u64 + 1;
        let random = &mut self.random;
        let mut group = 0;
        while group + 1 < GROUPS.len() && random.below(2) == 0 {
            group += 1;
        }
        let id = random.below(IDS >> group.min(5)) as u64;
        let before = self.rows.get(&(group, id)).copied();
        let write = match (random.below(64), before) {
            (0, _) => Write::Drop(group),
            (1..=5, Some(before)) => Write::DeleteWhere(group, id, before),
            (1..=10, _) => Write::Delete(group, id),
            (11..=25, Some(_)) => Write::Update(group, id),
            (26..=34, Some(before)) => Write::UpsertIf(group, id, before),
            _ => Write::Upsert(group, id),
        };
        let (mut vector, schema) = (self.vector(), &self.settings.schema);
        self.fields.push(match (write, before) {
            (Write::Upsert(_, id) | Write::UpsertIf(_, id, _), _) => {
                fields::of_upsert(schema, id, number)
            }
            (Write::Update(..), Some(before)) => {
                // The row keeps its vector.
                vector.clone_from(&self.given[before as usize]);
                let before = &self.fields[before as usize];
                Change::of(schema, number).over(schema, before)
            }
            _ => FieldsBuffer::default(),
        });
        self.given.push(vector);
        play(&mut self.rows, write, number);
        self.digests.push(digest(self.rows.iter().map(|(key, version)| (*key, *version))));
        self.writes.push(write);
    }

    /// A vector near one of a few centres.
    pub fn vector(&mut self) -> Vec<f32> {
        let random = &mut self.random;
        let mut centre = SplitMix(random.next() % 12 + 1);
        let number = |_| {
            let value = 2.0 * centre.normal() + random.normal();
            match self.settings.element {
                Element::U8 => (128.0 + 24.0 * value).round().clamp(0.0, 255.0),
                _ => value,
            }
        };
        (0..DIMENSION).map(number).collect()
    }

    /// What is there after the first `number` writes.
    pub fn rows_after(&self, number: u64) -> Rows {
        let mut rows = Rows::new();
        for (write, at) in self.writes[..number as usize].iter().zip(1..) {
            play(&mut rows, *write, at);
        }
        rows
    }

    /// The last writes up to `number` of which rows do not tell whether they were made, if those up
    /// to `promised` were: without them the rows were the same. A delete of a row that is not there
    /// leaves no row, but a memory of it.
    pub fn doubtful_before(&self, number: u64, promised: u64) -> RangeInclusive<u64> {
        let digest = self.digest_after(number);
        let first = (promised..=number).find(|&at| self.digest_after(at) == digest);
        first.unwrap_or(number) + 1..=number
    }

    /// Notes writes that may not have been made, though later ones were.
    pub fn doubt(&mut self, writes: RangeInclusive<u64>) {
        self.doubtful.extend(writes);
    }

    /// Rows whose last write of the first `number` was their delete, which was certainly made: which
    /// write that was.
    pub fn deletes_after(&self, number: u64) -> Rows {
        let mut deletes = Rows::new();
        for (write, at) in self.writes[..number as usize].iter().zip(1..) {
            match *write {
                Write::Delete(group, id) | Write::DeleteWhere(group, id, _) => {
                    deletes.insert((group, id), at);
                }
                Write::Upsert(group, id)
                | Write::UpsertIf(group, id, _)
                | Write::Update(group, id) => {
                    deletes.remove(&(group, id));
                }
                Write::Drop(group) => deletes.retain(|(of, _), _| *of != group),
            }
        }
        deletes.retain(|_, at| !self.doubtful.contains(at));
        deletes
    }

    /// Gives a store a row that is older than its delete, the write `deleted`. Errors: those of the
    /// store.
    pub fn upsert_late(
        &self,
        store: &mut GroupStore,
        (group, id): (usize, u64),
        deleted: u64,
    ) -> Result<(), Error> {
        let fields = fields::of_upsert(&self.settings.schema, id, deleted - 1);
        let (vector, fields) = (&self.given[deleted as usize], fields.fields());
        let row = RowRef { id, version: deleted - 1, vector, fields };
        store.upsert(GROUPS[group], &row).map(drop)
    }

    /// The digest of what is there after the first `number` writes.
    pub fn digest_after(&self, number: u64) -> u64 {
        self.digests[number as usize]
    }

    /// True if the rows after the first `number` writes are those after one of `promise` too.
    pub fn is_as_after(&self, number: u64, promise: &RangeInclusive<u64>) -> bool {
        let digest = self.digest_after(number);
        promise.clone().any(|at| self.digest_after(at) == digest)
    }

    /// The fields of the row that a write left.
    pub fn fields(&self, number: u64) -> Fields<'_> {
        self.fields[number as usize].fields()
    }

    /// The vector of the row that a write left, as the store holds it: under cosine a direction,
    /// rounded to the element.
    pub fn stored(&self, number: u64) -> Vec<f32> {
        let given = direction(self.settings.metric, &self.given[number as usize]);
        with_number!(self.settings.element, N => given.iter().map(|&x| N::narrow(x).widen()).collect())
    }

    /// Gives a write to a store. Errors: those of the store.
    pub fn apply(&self, store: &mut GroupStore, number: u64) -> Result<(), Error> {
        let defect = active().filter(|_| number.is_multiple_of(11));
        match self.writes[number as usize - 1] {
            Write::Upsert(group, id) => {
                let mut name = GROUPS[group];
                if defect == Some(GroupDefect::WrongGroup) {
                    name = GROUPS[(group + 1) % GROUPS.len()];
                }
                store.upsert(name, &self.row(id, number)).map(drop)
            }
            Write::UpsertIf(group, id, before) => {
                let (fails, holds) = (fields::added_by(number), fields::added_by(before));
                let on = |filter| Condition { filter: Some(filter), ..Condition::default() };
                let row = self.row(id, number);
                let applied = store.upsert_if(GROUPS[group], &row, &on(&fails))?;
                assert_eq!(applied, Applied::ConditionFailed, "write {number}");
                let applied = store.upsert_if(GROUPS[group], &row, &on(&holds))?;
                assert_eq!(applied, Applied::Replaced, "write {number}");
                Ok(())
            }
            Write::Update(group, id) if active() != Some(GroupDefect::UpdatesSkipped) => {
                let mut change = Change::of(&self.settings.schema, number);
                let applied = change.give(|update| {
                    let payload = match update.payload {
                        vstream_engine::PayloadChange::Keep => PayloadChange::Keep,
                        vstream_engine::PayloadChange::Remove => PayloadChange::Remove,
                        vstream_engine::PayloadChange::Set(bytes) => PayloadChange::Set(bytes),
                    };
                    let update = Update { set: update.set, unset: update.unset, payload };
                    store.update(GROUPS[group], id, number, &update)
                })?;
                assert_eq!(applied, Applied::Replaced, "write {number}");
                Ok(())
            }
            Write::Delete(..) | Write::Drop(_) | Write::DeleteWhere(..)
                if active() == Some(GroupDefect::DeletesSkipped) =>
            {
                Ok(())
            }
            Write::Update(..) => Ok(()),
            Write::Delete(group, id) => store.delete(GROUPS[group], id, number).map(drop),
            Write::DeleteWhere(group, _, before) => {
                let filter = fields::added_by(before);
                let removed = store.delete_where(GROUPS[group], &filter, number)?;
                assert_eq!(removed, 1, "write {number}");
                Ok(())
            }
            Write::Drop(group) => store.drop_group(GROUPS[group]),
        }
    }

    /// The row of an upsert, or what a defect makes of it.
    fn row(&self, id: u64, number: u64) -> RowRef<'_> {
        let (mut vector, mut fields) = (&self.given[number as usize], self.fields(number));
        let before = number.saturating_sub(1);
        match active().filter(|_| number.is_multiple_of(11)) {
            Some(GroupDefect::FieldsOfAnotherRow) => {
                let other = self.fields(before);
                (fields.attributes, fields.payload) = (other.attributes, other.payload);
            }
            Some(GroupDefect::VectorOfAnotherRow) => vector = &self.given[before as usize],
            Some(GroupDefect::PayloadLost) => fields.payload = None,
            _ => {}
        }
        RowRef { id, version: number, vector, fields }
    }
}

fn play(rows: &mut Rows, write: Write, number: u64) {
    match write {
        Write::Upsert(group, id) | Write::UpsertIf(group, id, _) | Write::Update(group, id) => {
            rows.insert((group, id), number);
        }
        Write::Delete(group, id) | Write::DeleteWhere(group, id, _) => {
            rows.remove(&(group, id));
        }
        Write::Drop(group) => rows.retain(|(of, _), _| *of != group),
    }
}

/// A digest of rows in any order.
pub fn digest(rows: impl Iterator<Item = ((usize, u64), u64)>) -> u64 {
    let row = |((group, id), version): ((usize, u64), u64)| {
        let words = [group as u64, id, version].map(u64::to_le_bytes);
        xxh3_64(words.as_flattened())
    };
    rows.map(row).fold(0, u64::wrapping_add)
}

/// A vector as the metric holds it.
pub fn direction(metric: Metric, vector: &[f32]) -> Vec<f32> {
    if metric != Metric::Cosine {
        return vector.to_vec();
    }
    let norm = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    vector.iter().map(|&x| (f64::from(x) / norm) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A write that finds nothing to remove leaves the rows as they were; any other write does not.
    #[test]
    fn writes_that_change_nothing_are_told_from_those_that_do() {
        let mut history = History::new(946);
        history.extend_to(400);
        let mut idle = 0;
        for number in 1..=400 {
            let same = history.rows_after(number) == history.rows_after(number - 1);
            assert_eq!(history.is_as_after(number - 1, &(number..=number)), same, "{number}");
            idle += u64::from(same);
        }
        assert!(idle > 4, "{idle}");
        assert!(history.is_as_after(300, &(200..=300)));
    }
}
