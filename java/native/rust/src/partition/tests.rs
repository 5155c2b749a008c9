//! Two partitions while rows go from one to the other and place goes on writing: what it sends in
//! each step of a hand-over goes to both, in any order with the steps.

use std::collections::BTreeMap;

use vstream_attribute::{AttributesBuilder, ValueRef};
use vstream_vector::SplitMix;

use super::*;
use crate::handover::write_ranges;

const DIMENSION: usize = 64;
const ROWS: u64 = 1_200;
/// Codes of all rows: the whole range goes from shard 3 to shard 90.
const CODE: u64 = 5_000;
const OLD: u16 = 3;
const NEW: u16 = 90;
const PRICE: u16 = 0;
const STOCK: u16 = 1;

/// A row as it must be: version, price, stock, payload.
type Expected = (u64, Option<i64>, Option<i64>, Option<Vec<u8>>);

fn settings(memory: &str) -> CollectionSettings {
    let text = format!(
        r#"{{"dimension": {DIMENSION}, "metric": "l2", "element": "f32", "index": "cluster",
             "seed": 7, "attributes": {{"price": "i64", "stock": "i64"}}{memory}}}"#
    );
    CollectionSettings::from_json(&text).expect("good settings")
}

/// What place sends, and what must come of it.
struct Place {
    random: SplitMix,
    version: u64,
    rows: BTreeMap<u64, Expected>,
}

/// The change of a row: attributes that are set, columns that are unset, the payload.
#[derive(Default)]
struct Change {
    set: Vec<(u16, i64)>,
    unset: Vec<u16>,
    payload: Option<Vec<u8>>,
    removes_payload: bool,
}

impl Change {
    /// The block that `buffer/fields.rs` draws.
    fn block(&self) -> Vec<u8> {
        let schema = settings("").schema;
        let mut builder = AttributesBuilder::default();
        for (column, value) in &self.set {
            builder.set(&schema, *column, &ValueRef::I64(*value)).expect("a whole number");
        }
        let attributes = builder.build().bytes();
        let payload = self.payload.as_deref().unwrap_or_default();
        let flags = u16::from(self.payload.is_some()) | u16::from(self.removes_payload) << 1;
        let unset: Vec<u8> = self.unset.iter().flat_map(|column| column.to_le_bytes()).collect();
        let length =
            (32 + attributes.len() + payload.len() + unset.len()).next_multiple_of(8) as u32;
        let mut out = Vec::new();
        out.extend(length.to_le_bytes());
        out.extend(flags.to_le_bytes());
        out.extend((self.unset.len() as u16).to_le_bytes());
        out.extend(0_u64.to_le_bytes());
        for part in [0, attributes.len(), payload.len(), 0] {
            out.extend((part as u32).to_le_bytes());
        }
        out.extend([attributes, payload, &unset].concat());
        out.resize(length as usize, 0);
        out
    }
}

fn send(to: &Partition, head: [u64; 3], shard: u16, op: u8, body: &[u8], fields: &[u8]) -> usize {
    let mut record: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
    record.extend(shard.to_le_bytes());
    record.extend([op, u8::from(!fields.is_empty()), 0, 0, 0, 0]);
    record.extend(body);
    record.extend(fields);
    // In words, so that it is aligned as a direct buffer is.
    let words: Vec<u64> = record
        .chunks(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("whole words")))
        .collect();
    let written = to.write(bytemuck::cast_slice(&words), 1).expect("a good record");
    assert_eq!(written.refused(), []);
    written.without_row()
}

impl Place {
    fn new(seed: u64) -> Place {
        Place { random: SplitMix(seed), version: 0, rows: BTreeMap::new() }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next() % bound
    }

    fn payload(&mut self) -> Vec<u8> {
        vec![self.version as u8; self.random.next() as usize % 40]
    }

    fn upsert(&mut self, id: u64, owner: &Partition, shard: u16, others: &[&Partition]) {
        self.version += 1;
        let vector: Vec<u8> =
            (0..DIMENSION).flat_map(|_| self.random.normal().to_le_bytes()).collect();
        let (price, stock) = (self.below(1_000) as i64, self.below(9) as i64);
        let payload = self.payload();
        let change = Change {
            set: vec![(PRICE, price), (STOCK, stock)],
            payload: Some(payload.clone()),
            ..Change::default()
        };
        let head = [id, self.version, CODE];
        send(owner, head, shard, 0, &vector, &change.block());
        for other in others {
            send(other, head, OLD, 1, &[], &[]);
        }
        self.rows.insert(id, (self.version, Some(price), Some(stock), Some(payload)));
    }

    /// A change that goes to all who may hold the row: an update, or now and then a delete.
    fn change(&mut self, holders: &[&Partition]) {
        let id = self.below(ROWS);
        let Some(mut row) = self.rows.get(&id).cloned() else { return };
        self.version += 1;
        row.0 = self.version;
        let head = [id, self.version, CODE];
        if self.below(8) == 0 {
            for to in holders {
                send(to, head, OLD, 1, &[], &[]);
            }
            self.rows.remove(&id);
            return;
        }
        let mut change = Change::default();
        match self.below(5) {
            0 => {
                change.unset.push(STOCK);
                row.2 = None;
            }
            1 => {
                change.removes_payload = true;
                row.3 = None;
            }
            2 => {
                let payload = self.payload();
                change.payload = Some(payload.clone());
                row.3 = Some(payload);
            }
            _ => {
                let price = self.below(1_000) as i64;
                change.set.push((PRICE, price));
                row.1 = Some(price);
            }
        }
        let block = change.block();
        for to in holders {
            send(to, head, OLD, 2, &[], &block);
        }
        self.rows.insert(id, row);
    }

    fn changes(&mut self, count: u64, holders: &[&Partition]) {
        (0..count).for_each(|_| self.change(holders));
    }
}

fn rows(partition: &Partition) -> BTreeMap<u64, Expected> {
    let mut all = BTreeMap::new();
    for chunk in (0..ROWS).collect::<Vec<u64>>().chunks(500) {
        let ids: Vec<RowId> = chunk.iter().map(|&id| RowId { id, check: 0 }).collect();
        let found = partition.reader.get(&ids, &vstream_engine::With::everything()).expect("rows");
        for (id, row) in chunk.iter().zip(found) {
            let Some(row) = row else { continue };
            let fields = row.fields.fields();
            let number = |column| match fields.attributes.get(column) {
                Some(ValueRef::I64(number)) => Some(number),
                _ => None,
            };
            let payload = fields.payload.map(<[u8]>::to_vec);
            all.insert(*id, (row.version, number(PRICE), number(STOCK), payload));
        }
    }
    all
}

/// A hand-over of all rows with writes in every step, as docs/design/handover.md tells it.
fn hand_over(seed: u64, memory: &str) {
    let settings = settings(memory);
    let folder = tempfile::tempdir().expect("a folder");
    let all = || Shards::new(0, 127).expect("shards");
    let old = Partition::create_in(&settings, &folder.path().join("old"), all()).expect("empty");
    let new = Partition::create_in(&settings, &folder.path().join("new"), all()).expect("empty");
    let mut place = Place::new(seed);
    for id in 0..ROWS {
        place.upsert(id, &old, OLD, &[]);
    }
    place.changes(200, &[&old]);

    // Switch: place sends changes to both owners, and new rows to the new one.
    new.await_rows(true).expect("it awaits");
    place.changes(300, &[&old, &new]);
    let moves = [vstream_route::Move { first: 0, last: 9_999, from: OLD, to: NEW }];
    let ranges = write_ranges(&moves);
    let sealed = folder.path().join("sealed");
    let pinned = old.pin().expect("pinned");
    place.changes(150, &[&old, &new]);
    pinned.write_moved(&sealed, &ranges).expect("sealed");

    // Adopt, some rows at a time, between changes of rows that have come and of others.
    let adopting = Adopting::open(&settings, &sealed).expect("what was sealed");
    while new.adopt(&adopting, 64).expect("adopted") > 0 {
        place.changes(20, &[&old, &new]);
        let id = place.below(ROWS);
        place.upsert(id, &new, NEW, &[&old]);
    }
    new.await_rows(false).expect("all are in");
    let moved: BTreeMap<u64, Expected> = rows(&new);
    assert_eq!(moved, place.rows, "seed {seed}: the new owner has every row as it is");

    // Settle: the old owner lists the rows and drops them, and is still sent every change.
    place.changes(50, &[&old, &new]);
    let mut left = old.release(&ranges, 0).expect("listed");
    assert!(left > 500, "{left} rows are left");
    while left > 0 {
        place.changes(40, &[&old, &new]);
        left = old.release(&ranges, 64).expect("dropped");
    }
    assert_eq!(rows(&old), BTreeMap::new(), "seed {seed}: the old owner has no row");
    place.changes(100, &[&new]);
    assert_eq!(rows(&new), place.rows, "seed {seed}: and nothing is lost");
}

#[test]
fn what_rows_carry_follows_them_whatever_is_written_meanwhile() {
    for seed in 1..=3 {
        hand_over(seed, "");
    }
}

/// A hand-over of which both owners are one partition since a restore at another parallelism.
fn hand_over_to_itself(seed: u64, memory: &str) {
    let settings = settings(memory);
    let folder = tempfile::tempdir().expect("a folder");
    let shards = Shards::new(0, 127).expect("shards");
    let both = Partition::create_in(&settings, &folder.path().join("both"), shards).expect("empty");
    let mut place = Place::new(seed);
    for id in 0..ROWS {
        place.upsert(id, &both, OLD, &[]);
    }
    place.changes(200, &[&both]);
    let moves = [vstream_route::Move { first: 0, last: 9_999, from: OLD, to: NEW }];
    let ranges = write_ranges(&moves);
    let sealed = folder.path().join("sealed");
    both.await_rows(true).expect("it awaits");
    let pinned = both.pin().expect("pinned");
    // Place names each holder once, so a change is sent once.
    place.changes(300, &[&both]);
    pinned.write_moved(&sealed, &ranges).expect("sealed");
    let adopting = Adopting::open(&settings, &sealed).expect("what was sealed");
    while both.adopt(&adopting, 64).expect("adopted") > 0 {
        place.changes(20, &[&both]);
        let id = place.below(ROWS);
        place.upsert(id, &both, NEW, &[]);
    }
    both.await_rows(false).expect("all are in");
    assert_eq!(both.release(&ranges, 0).expect("listed"), 0, "seed {seed}: none has left");
    assert!(rows(&both) == place.rows, "seed {seed}: every row is as it was written");
}

#[test]
fn rows_that_are_updated_on_their_way_to_the_same_partition_stay() {
    for seed in 1..=3 {
        hand_over_to_itself(seed, "");
    }
    hand_over_to_itself(12, r#", "memory": 65536"#);
}

#[test]
fn rows_in_segments_carry_it_too() {
    hand_over(11, r#", "memory": 65536"#);
}

#[test]
fn a_row_that_was_put_here_anew_is_not_dropped() {
    let settings = settings("");
    let old = Partition::create(&settings).expect("empty");
    let mut place = Place::new(5);
    for id in 0..ROWS {
        place.upsert(id, &old, OLD, &[]);
    }
    let moves = [vstream_route::Move { first: 0, last: 9_999, from: OLD, to: NEW }];
    let ranges = write_ranges(&moves);
    assert_eq!(old.release(&ranges, 0).expect("listed"), ROWS as usize);
    // A new vector brings it to another shard of this partition, and then its price changes.
    place.upsert(7, &old, OLD + 1, &[]);
    let stays = place.rows[&7].clone();
    send(&old, [7, place.version + 1, CODE], OLD, 2, &[], &Change::default().block());
    while old.release(&ranges, 100).expect("dropped") > 0 {}
    let left = rows(&old);
    assert_eq!(left.keys().collect::<Vec<_>>(), [&7]);
    assert_eq!((&left[&7].1, &left[&7].3), (&stays.1, &stays.3));
}

#[test]
fn an_update_of_a_row_that_nobody_awaits_has_no_effect_and_is_counted() {
    let new = Partition::create(&settings("")).expect("empty");
    let block = Change { set: vec![(PRICE, 1)], ..Change::default() }.block();
    assert_eq!(send(&new, [1, 1, CODE], NEW, 2, &[], &block), 1, "without a row");
    new.await_rows(true).expect("it awaits");
    assert_eq!(send(&new, [1, 2, CODE], NEW, 2, &[], &block), 0, "the row may come");
    new.await_rows(false).expect("all are in");
    Place::new(1).upsert(1, &new, NEW, &[]);
    assert_eq!(rows(&new)[&1].0, 1, "the update is forgotten");
}
