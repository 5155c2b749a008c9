//! What reads give beside answers: rows by id, pages, counts, and upserts that come too late.

use vstream_engine::{Applied, Engine, FieldsBuffer, RowId, StoredRow, With};
use vstream_vector::SplitMix;

use crate::check::{Breach, Violation};
use crate::fields;
use crate::script::Script;

/// Ids that are read, rows of a page, and upserts that are tried.
const IDS: usize = 12;
const PAGE: usize = 24;
const LATE: usize = 6;

/// Compares reads of an engine after write `lsn` with the script, where rows have fields.
///
/// Errors: a row that differs, or a count; the engine's own as `Unread`.
pub fn look(engine: &Engine, script: &Script, lsn: u64) -> Result<(), Violation> {
    if !script.shape.has_fields {
        return Ok(());
    }
    let unread = |e| Violation::new(Breach::Unread, format!("cannot be read: {e}"));
    let rows = script.rows_after(lsn);
    let mut random = SplitMix(lsn ^ 0x4ead);
    let ids: Vec<RowId> = (0..IDS).map(|_| RowId::from(random.below(rows.len()) as u64)).collect();
    let reader = engine.reader();
    let with = With::everything();
    for (id, found) in ids.iter().zip(reader.get(&ids, &with).map_err(unread)?) {
        is_right(script, id.id, rows[id.id as usize], found.as_ref(), lsn)?;
    }
    let filter = fields::some_of(lsn);
    let matches = |&(id, row): &(usize, &u64)| {
        *row > 0 && filter.holds(id as u64, script.fields(*row).attributes)
    };
    let wanted: Vec<(usize, &u64)> = rows.iter().enumerate().filter(matches).collect();
    let count = reader.count(Some(&filter)).map_err(unread)?;
    if count != wanted.len() as u64 {
        let what = format!("{count} rows match after write {lsn}, not {}", wanted.len());
        return Err(Violation::new(Breach::Lost, what));
    }
    let from = wanted.get(random.below(wanted.len().max(1))).map_or(0, |(id, _)| *id);
    let page = reader.scroll(Some(&filter), Some(from as u64), PAGE, &with).map_err(unread)?;
    let mut found = page.rows.iter();
    for (id, row) in wanted.iter().filter(|(id, _)| *id > from).take(PAGE) {
        is_right(script, *id as u64, **row, found.next(), lsn)?;
    }
    match found.next() {
        Some(more) => {
            let what = format!("row {} is on a page after write {lsn}", more.id);
            Err(Violation::new(Breach::Ghost, what))
        }
        None => Ok(()),
    }
}

/// Errors: a row that was read is not that of write `row`, or is there although that is 0.
fn is_right(
    script: &Script,
    id: u64,
    row: u64,
    found: Option<&StoredRow>,
    lsn: u64,
) -> Result<(), Violation> {
    let wanted = (row > 0).then(|| StoredRow {
        id,
        version: row,
        vector: Some(script.stored(row).to_vec()),
        fields: FieldsBuffer::from(&script.fields(row)),
    });
    if found == wanted.as_ref() {
        return Ok(());
    }
    let breach = if found.is_none() { Breach::Lost } else { Breach::Ghost };
    Err(Violation::new(
        breach,
        format!("row {id} is read as another than of write {row} after {lsn}"),
    ))
}

/// Upserts that are older than the deletes of their ids, after write `lsn`, change nothing.
///
/// Errors: one is applied; the engine's own as `Refused`.
pub fn late(engine: &mut Engine, script: &Script, lsn: u64) -> Result<(), Violation> {
    if !script.shape.remembers {
        return Ok(());
    }
    let deletes = script.deletes_after(lsn);
    let dead: Vec<(usize, &u64)> = deletes.iter().enumerate().filter(|(_, at)| **at > 0).collect();
    let mut random = SplitMix(lsn ^ 0x1a7e);
    for _ in 0..LATE.min(dead.len()) {
        let (id, deleted) = dead[random.below(dead.len())];
        let applied = script
            .upsert_late(engine, id as u64, *deleted)
            .map_err(|e| Violation::new(Breach::Refused, format!("no late upsert: {e}")))?;
        if applied != Applied::Stale {
            let what = format!("row {id} lives again: its delete, write {deleted}, is forgotten");
            return Err(Violation::new(Breach::Ghost, what));
        }
    }
    Ok(())
}
