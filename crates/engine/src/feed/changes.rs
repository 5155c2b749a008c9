//! The changes of a group, for those who want to know what happened.

use vstream_vector::cursor::ByteReader;

use super::group::{corrupt, unseal};
use crate::error::Error;
use crate::recovery::Change;
use crate::row::{Row, Update};
use crate::settings::Settings;
use crate::snapshot::{read_vector, stored_element};
use crate::wal::Record;

/// Calls `visit` with sequence and content of every change of a group, in order.
///
/// * `settings`: those of the engine whose feed it is of.
///
/// Errors: `Corrupt`.
pub fn read_changes(
    settings: &Settings,
    group: &[u8],
    visit: &mut dyn FnMut(u64, &Change<'_>),
) -> Result<(), Error> {
    let (header, records) = unseal(group)?;
    let element = stored_element(settings);
    let mut input = ByteReader::new(records);
    let (mut values, mut columns) = (vec![0.0; settings.dimension], Vec::new());
    for sequence in (header.first_lsn..).take(header.records as usize) {
        let record = Record::take(&mut input, settings.dimension * element.bytes());
        let change = match record.ok_or_else(|| corrupt("a record that cannot be"))? {
            Record::Upsert { key, vector, fields } => {
                read_vector(element, vector, &mut values);
                let (id, version, code, shard) = (key.id, key.version, key.code, key.shard);
                Change::Upsert(Row { id, version, code, shard, vector: &values, fields })
            }
            Record::Update { id, version, set, unset, payload } => {
                columns.clear();
                let column = |bytes: &[u8]| u16::from_le_bytes([bytes[0], bytes[1]]);
                columns.extend(unset.chunks_exact(2).map(column));
                Change::Update { id, version, update: Update { set, unset: &columns, payload } }
            }
            Record::Delete { id, version } => Change::Delete { id, version },
            Record::Remember { id, version } => Change::Remember { id, version },
        };
        visit(sequence, &change);
    }
    Ok(())
}
