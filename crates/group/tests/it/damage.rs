//! A changed byte at rest is an error, never an answer, and never a panic.

use std::sync::Arc;

use vstream_group::{Error, Expression, GroupQuery, GroupSettings, GroupStore, RankBy, With};
use vstream_store::blocks::{checksum, BlockAddress, CHECKSUM_BYTES};
use vstream_store::{Access, FileStore, Files, Memory, Syncing};
use vstream_vector::{Element, Metric};

use crate::model::Pair;

/// Everything that a store can be asked.
fn ask(files: &Memory, pair: &Pair, vector: &[f32]) -> Result<Vec<u64>, Error> {
    let store = FileStore::new(Arc::new(files.clone()), Syncing::Full);
    let mut store = GroupStore::open(store, pair.store.settings().clone())?;
    let reader = store.reader();
    let mut ids = Vec::new();
    for group in ["large", "small"] {
        let query = GroupQuery::nearest(vector, 20);
        ids.extend(reader.search(group, &query)?.rows.iter().map(|hit| hit.row.id));
        let schema = &store.settings().schema;
        let expression = Expression::parse(schema, "closeness - attribute(price)").expect("a rank");
        let rank = RankBy { expression: &expression, parameters: &[], now_ms: 0 };
        let ranked = GroupQuery { rank: Some(rank), ..query };
        ids.extend(reader.search(group, &ranked)?.rows.iter().map(|hit| hit.row.id));
        let rows = reader.scroll(group, None, None, 1000, With::ALL)?;
        ids.extend(rows.iter().map(|row| row.id + row.payload.as_ref().map_or(0, Vec::len) as u64));
    }
    ids.extend(reader.groups(None, 100)?.iter().map(|group| group.rows));
    store.compact_all()?;
    Ok(ids)
}

#[test]
fn a_changed_byte_is_an_error() {
    let settings = GroupSettings::new(64, Metric::Cosine, Element::Bf16);
    let mut pair = Pair::new(GroupSettings { coded_rows: 32, ..settings }, 51);
    (0..200).for_each(|id| pair.upsert("large", id));
    (0..10).for_each(|id| pair.upsert("small", id));
    // Their tombstones are in the run.
    (0..200).step_by(20).for_each(|id| pair.delete("large", id));
    pair.store.flush().unwrap();
    let vector = pair.draw.vector();
    let whole = ask(&copy(&pair.files), &pair, &vector).unwrap();
    assert!(whole.len() > 200);
    for (name, bytes) in pair.files.list().unwrap() {
        // The log is empty but for its header.
        for at in (0..bytes).step_by(if bytes > 4096 { 61 } else { 1 }) {
            let files = copy(&pair.files);
            let byte = files.open(&name, Access::Cached).unwrap().read(at, 1).unwrap()[0];
            files.reopen(&name).unwrap().overwrite(at, &[byte ^ 0x20]).unwrap();
            let error = ask(&files, &pair, &vector)
                .err()
                .unwrap_or_else(|| panic!("byte {at} of {name} was believed"));
            assert!(error.is_corrupt(), "byte {at} of {name}: {error}");
        }
        for cut in [0, 1, bytes / 2, bytes - 1] {
            let files = copy(&pair.files);
            files.reopen(&name).unwrap().cut(cut).unwrap();
            let error = ask(&files, &pair, &vector).expect_err(&format!("{name} cut at {cut}"));
            assert!(error.is_corrupt(), "{name} cut at {cut}: {error}");
        }
    }
}

/// A run whose checksums are right and whose counts are not is refused before memory is taken for
/// its groups.
#[test]
fn a_run_counts_no_more_than_it_holds() {
    let mut pair = Pair::new(GroupSettings::new(64, Metric::L2, Element::F32), 52);
    (0..100).for_each(|id| pair.upsert("large", id));
    pair.store.flush().unwrap();
    let files = pair.files.list().unwrap();
    let name = files.into_iter().map(|(name, _)| name).find(|name| name.starts_with("run-"));
    let name = name.expect("a run");
    let run = pair.files.open(&name, Access::Cached).unwrap();
    let run = run.read(0, run.bytes().unwrap() as usize).unwrap().to_vec();
    let number = |at: usize| u64::from_le_bytes(run[at..at + 8].try_into().unwrap());
    // The footer: magic, identity, then where meta begins; the header's version is that of blocks.
    let footer = run.len() - 40 - CHECKSUM_BYTES;
    let (file, from) = (number(footer + 8), number(footer + 16));
    let version = u32::from_le_bytes(run[8..12].try_into().unwrap());
    let address = BlockAddress { file, number: from, version };
    let (meta, body) = (from as usize, footer - CHECKSUM_BYTES);
    assert_eq!(number(body), checksum(address, &run[meta..body]), "where meta is");
    // Rows, tombstones, groups.
    for (at, is_right) in [(0, 100), (8, 0), (16, 1)] {
        assert_eq!(number(meta + at), is_right);
        for count in [64 * 16_384 + 1, 1 << 40, u64::MAX] {
            let mut bad = run.clone();
            bad[meta + at..meta + at + 8].copy_from_slice(&count.to_le_bytes());
            let sum = checksum(address, &bad[meta..body]);
            bad[body..footer].copy_from_slice(&sum.to_le_bytes());
            let files = copy(&pair.files);
            files.reopen(&name).unwrap().overwrite(meta as u64, &bad[meta..footer]).unwrap();
            let error = ask(&files, &pair, &[1.0; 64]).expect_err("counts that are too large");
            assert!(error.is_corrupt(), "{count} at {at}: {error}");
        }
    }
}

fn copy(files: &Memory) -> Memory {
    let copy = Memory::new();
    for (name, bytes) in files.list().unwrap() {
        let content = files.open(&name, Access::Cached).unwrap().read(0, bytes as usize).unwrap();
        copy.create(&name).unwrap().append(&content).unwrap();
    }
    copy
}
