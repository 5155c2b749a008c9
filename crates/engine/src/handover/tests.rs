//! Two engines, rows that go from one to the other, and what happens to them meanwhile.

use super::{Adoption, Awaiting, MovedRange};
use crate::{
    Effort, Element, Engine, ErrorKind, Metric, PayloadChange, Query, Row, Scratch, Settings,
    Syncing, Update, With,
};
use std::collections::BTreeMap;
use vstream_vector::SplitMix;

const DIMENSION: usize = 8;
/// Codes from 1000 to 1999 go from shard 1 to shard 70.
const RANGES: [MovedRange; 1] = [MovedRange { first: 1000, last: 1999, from: 1, to: 70 }];

fn engine(metric: Metric) -> Engine {
    Engine::create(Settings::new(DIMENSION, metric, Element::F32)).expect("good settings")
}

fn vector(random: &mut SplitMix) -> Vec<f32> {
    (0..DIMENSION).map(|_| random.normal()).collect()
}

fn rows(engine: &Engine) -> BTreeMap<u64, (u64, u64, u16, Vec<u32>)> {
    let mut rows = BTreeMap::new();
    engine
        .pin()
        .for_each_row(&mut |row| {
            let bits = row.vector.iter().map(|x| x.to_bits()).collect();
            let twice = rows.insert(row.id, (row.version, row.code, row.shard, bits));
            assert!(twice.is_none(), "row {} twice", row.id);
        })
        .expect("rows in memory");
    rows
}

fn adopt(engine: &mut Engine, awaiting: &Awaiting, dir: &std::path::Path) -> usize {
    let mut adoption = Adoption::open(engine.settings(), dir).expect("whole files");
    let mut total = 0;
    loop {
        match adoption.step(engine, awaiting, 7).expect("whole files") {
            0 => return total,
            rows => total += rows,
        }
    }
}

#[test]
fn rows_of_the_range_move_to_the_bit_and_the_others_stay() {
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        let (mut old, mut new) = (engine(metric), engine(metric));
        let mut random = SplitMix(9);
        for id in 0..3000u64 {
            let vector = vector(&mut random);
            let shard = if id % 5 == 0 { 2 } else { 1 };
            old.upsert(&Row {
                id,
                version: id + 1,
                code: id,
                shard,
                vector: &vector,
                fields: Default::default(),
            })
            .expect("a good row");
        }
        let before = rows(&old);
        let dir = tempfile::tempdir().expect("a folder");
        let files = dir.path().join("sealed");
        let summary = old.pin().write_moved(&files, &RANGES, Syncing::Off).expect("a snapshot");
        assert_eq!(summary.rows, 800);
        assert_eq!(adopt(&mut new, &Awaiting::default(), &files), 800);
        let leaving = old.leaving(&RANGES).expect("rows in memory");
        assert_eq!(leaving.len(), 800);
        for (id, version) in leaving {
            assert!(old.delete(id, version).expect("a delete"));
        }
        let (stayed, moved) = (rows(&old), rows(&new));
        assert_eq!(stayed.len() + moved.len(), before.len());
        for (id, row) in before {
            let leaves = row.2 == 1 && (1000..2000).contains(&row.1);
            let (now, shard) = if leaves { (&moved[&id], 70) } else { (&stayed[&id], row.2) };
            assert_eq!((now.0, now.1, &now.3), (row.0, row.1, &row.3));
            assert_eq!(now.2, shard);
        }
        let query = vector(&mut random);
        let query =
            Query { vector: &query, k: 5, effort: Effort::Exact, filter: None, radius: None };
        let mut found = Vec::new();
        new.reader().search(&query, &mut Scratch::default(), &mut found).expect("a good query");
        assert_eq!(found.len(), 5);
    }
}

#[test]
fn what_is_newer_wins_over_what_is_adopted() {
    let (mut old, mut new) = (engine(Metric::L2), engine(Metric::L2));
    let far = [9.0; DIMENSION];
    let row = |id, version, code, shard| Row {
        id,
        version,
        code,
        shard,
        vector: &far,
        fields: Default::default(),
    };
    for id in 1..=5 {
        old.upsert(&row(id, 10, 1500, 1)).expect("a good row");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let files = dir.path().join("sealed");
    old.pin().write_moved(&files, &RANGES, Syncing::Off).expect("a snapshot");
    let mut awaiting = Awaiting::default();
    // 1 was updated here, 2 deleted, 3 updated here and then deleted, 4 sent here by the update
    // whose delete came here too, of one version with it.
    new.upsert(&row(1, 11, 1400, 70)).expect("a good row");
    awaiting.deleted(2, 12);
    new.upsert(&row(3, 13, 1400, 70)).expect("a good row");
    new.delete(3, 14).expect("a delete");
    awaiting.deleted(3, 14);
    awaiting.deleted(4, 10);
    awaiting.deleted(4, 9);
    assert_eq!(adopt(&mut new, &awaiting, &files), 5);
    let versions: Vec<(u64, u64)> = rows(&new).iter().map(|(&id, row)| (id, row.0)).collect();
    assert_eq!(versions, [(1, 11), (4, 10), (5, 10)]);
    // Again, as after a restore: nothing changes.
    adopt(&mut new, &awaiting, &files);
    assert_eq!(rows(&new).len(), 3);
}

#[test]
fn within_one_engine_rows_only_change_their_shard() {
    let mut engine = engine(Metric::L2);
    for id in 0..100u64 {
        let vector = [id as f32; DIMENSION];
        let row = Row {
            id,
            version: 3,
            code: 950 + id,
            shard: 1,
            vector: &vector,
            fields: Default::default(),
        };
        engine.upsert(&row).expect("a good row");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let files = dir.path().join("sealed");
    engine.pin().write_moved(&files, &RANGES, Syncing::Off).expect("a snapshot");
    adopt(&mut engine, &Awaiting::default(), &files);
    assert!(engine.leaving(&RANGES).expect("rows in memory").is_empty());
    let count = |shard| rows(&engine).values().filter(|row| row.2 == shard).count();
    assert_eq!([count(1), count(70)], [50, 50]);
}

#[test]
fn a_row_that_is_updated_before_it_is_adopted_follows_to_its_new_shard() {
    const ROWS: u64 = 2_000;
    let mut engine = Engine::create(Settings::new(64, Metric::Cosine, Element::Bf16)).expect("new");
    let mut random = SplitMix(11);
    let mut put = |engine: &mut Engine, id, version, code, shard| {
        let vector: Vec<f32> = (0..64).map(|_| random.normal()).collect();
        let row = Row { id, version, code, shard, vector: &vector, fields: Default::default() };
        assert!(engine.upsert(&row).expect("a good row").is_applied());
    };
    (0..ROWS).for_each(|id| put(&mut engine, id, 3, 500 + id, 1));
    let dir = tempfile::tempdir().expect("a folder");
    let files = dir.path().join("sealed");
    engine.pin().write_moved(&files, &RANGES, Syncing::Off).expect("a snapshot");
    let before = rows(&engine);
    let mut awaiting = Awaiting::default();
    let update = Update { payload: PayloadChange::Set(b"new"), ..Update::default() };
    for id in 0..ROWS {
        match id % 4 {
            0 => assert!(engine.update(id, 5, &update).expect("an update").is_applied()),
            1 => put(&mut engine, id, 5, 4_000, 2),
            2 => {
                engine.delete(id, 5).expect("a delete");
                awaiting.deleted(id, 5);
            }
            _ => {}
        }
    }
    adopt(&mut engine, &awaiting, &files);
    assert_eq!(engine.leaving(&RANGES).expect("rows"), [], "all have their new shard");
    let after = rows(&engine);
    assert_eq!(after.len() as u64, ROWS / 4 * 3);
    for (id, (version, code, shard, vector)) in after {
        let of_range = if (1000..2000).contains(&(500 + id)) { 70 } else { 1 };
        match id % 4 {
            0 => assert_eq!((version, code, shard), (5, 500 + id, of_range)),
            1 => assert_eq!((version, code, shard), (5, 4_000, 2)),
            _ => assert_eq!((version, code, shard), (3, 500 + id, of_range)),
        }
        assert!(id % 4 == 1 || vector == before[&id].3, "row {id} has its vector");
        let found = engine.reader().get(&[id.into()], &With::everything()).expect("rows");
        let found = found[0].as_ref().expect("a row");
        let payload = (id % 4 == 0).then_some(&b"new"[..]);
        assert_eq!(found.fields.fields().payload, payload, "row {id}");
    }
}

#[test]
fn a_damaged_or_foreign_file_is_refused_before_any_row() {
    let mut old = engine(Metric::L2);
    let vector = [1.0; DIMENSION];
    let row = Row {
        id: 1,
        version: 1,
        code: 1500,
        shard: 1,
        vector: &vector,
        fields: Default::default(),
    };
    old.upsert(&row).expect("a good row");
    let dir = tempfile::tempdir().expect("a folder");
    let files = dir.path().join("sealed");
    old.pin().write_moved(&files, &RANGES, Syncing::Off).expect("a snapshot");
    let foreign =
        Adoption::open(&Settings::new(4, Metric::L2, Element::F32), &files).err().expect("refused");
    assert_eq!(foreign.kind(), ErrorKind::Invalid);
    let path = files.join("shard-070.rows");
    let mut bytes = std::fs::read(&path).expect("the file");
    bytes[60] ^= 1;
    std::fs::write(&path, bytes).expect("written");
    let damaged = Adoption::open(old.settings(), &files).err().expect("refused");
    assert_eq!(damaged.kind(), ErrorKind::Corrupt);
}
