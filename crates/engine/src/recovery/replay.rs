//! Applies the groups of a log: at recovery, and as a follower gets them.

use vstream_index::RowKey;
use vstream_vector::cursor::ByteReader;
use vstream_vector::Element;

use super::fuzzy;
use super::recover::{Change, Replay};
use crate::defect::{self, Defect};
use crate::row::{PayloadChange, Row, Update};
use crate::settings::Settings;
use crate::snapshot::{read_vector, stored_element, Image};
use crate::wal::{GroupHeader, Record, State};

/// Applies groups in order.
pub(crate) struct GroupReplay<'a> {
    settings: &'a Settings,
    /// A state that the rows must have at its LSN.
    known: Option<State>,
    /// The base image, until the state is one that it had as a whole.
    pub(super) fuzzy: Option<&'a Image>,
    /// By shard, whether its rows are wanted; `None` for all. The state is that of the wanted rows.
    pub(super) wanted: Option<&'a [bool]>,
    vector: Vec<f32>,
    unset: Vec<u16>,
    pub(super) rows: &'a mut dyn Replay,
    /// State after the last record that was applied.
    pub(crate) state: &'a mut State,
}

impl<'a> GroupReplay<'a> {
    pub(crate) fn new(
        settings: &'a Settings,
        known: Option<State>,
        rows: &'a mut dyn Replay,
        state: &'a mut State,
    ) -> GroupReplay<'a> {
        let (vector, unset) = (vec![0.0; settings.dimension], Vec::new());
        GroupReplay { settings, known, fuzzy: None, wanted: None, vector, unset, rows, state }
    }

    /// Applies the records of a group whose checksum matches, without those up to the state's LSN.
    /// Errors: no engine wrote it after the records before.
    pub(crate) fn apply(&mut self, header: &GroupHeader, records: &[u8]) -> Result<(), String> {
        let mut records = ByteReader::new(records);
        let element = stored_element(self.settings);
        let vector_bytes = self.settings.dimension * element.bytes();
        let is_new = header.first_lsn + u64::from(header.records) > self.state.lsn + 1;
        if is_new {
            self.rows.foresee(ids(records, header.records, vector_bytes));
        }
        let done = self.records((&mut records, vector_bytes), header, element);
        if is_new {
            self.rows.foresee(Vec::new());
        }
        done?;
        if !records.is_empty() {
            return Err("bytes are left over after its records".to_owned());
        }
        if self.fuzzy.is_some() || self.wanted.is_some() {
            // A log ends where a part begins, so that a group does too.
            return Ok(());
        }
        if (self.state.live, self.state.digest) != (header.live, header.digest) {
            return Err(format!(
                "it leads to {} rows, and {} were there when it was written, or their digest \
                 differs",
                self.state.live, header.live
            ));
        }
        if self.known.is_some_and(|known| self.state.lsn == known.lsn && *self.state != known) {
            return Err("its rows are not those that the manifest knows".to_owned());
        }
        Ok(())
    }

    /// Applies the records of a group, without those up to the state's LSN. Errors: as for the group.
    fn records(
        &mut self,
        (records, vector_bytes): (&mut ByteReader<'_>, usize),
        header: &GroupHeader,
        element: Element,
    ) -> Result<(), String> {
        for lsn in (header.first_lsn..).take(header.records as usize) {
            let Some(record) = Record::take(records, vector_bytes) else {
                return Err("a record that cannot be".to_owned());
            };
            if lsn > self.state.lsn {
                self.record(record, element)?;
            }
        }
        Ok(())
    }

    /// What a record says of wanted rows; `None` if nothing. An upsert to another shard takes its row away
    /// from here.
    fn of_wanted<'r>(&self, record: Record<'r>) -> Option<Record<'r>> {
        let Some(wanted) = self.wanted else { return Some(record) };
        let is_here = |id| self.rows.version_of(id).is_some();
        match record {
            Record::Upsert { key, .. } if wanted[usize::from(key.shard)] => Some(record),
            Record::Upsert { key: RowKey { id, version, .. }, .. } => {
                is_here(id).then_some(Record::Delete { id, version })
            }
            Record::Update { id, .. } | Record::Delete { id, .. } => is_here(id).then_some(record),
            Record::Remember { .. } => None,
        }
    }

    /// Applies one record. Errors: no engine wrote it after those before.
    fn record(&mut self, record: Record<'_>, element: Element) -> Result<(), String> {
        let Some(record) = &self.of_wanted(record) else {
            self.state.pass_over();
            return Ok(());
        };
        let GroupReplay { rows, state, vector: values, unset, fuzzy, .. } = self;
        if let Some(image) = fuzzy {
            if !fuzzy::is_to_apply(image, record, *rows, state)? {
                return Ok(());
            }
        }
        let before = |id| rows.version_of(id);
        let missing = |id| format!("it changes row {id}, which is not there");
        match *record {
            Record::Upsert { key, vector, fields } => {
                let before = before(key.id);
                read_vector(element, vector, values);
                let RowKey { id, version, code, shard } = key;
                let row = Row { id, version, code, shard, vector: values, fields };
                rows.apply(&Change::Upsert(row)).map_err(|error| error.to_string())?;
                state.upsert(id, before, version);
            }
            Record::Update { id, version, set, unset: columns, payload } => {
                let before = before(id).ok_or_else(|| missing(id))?;
                let column = |bytes: &[u8]| u16::from_le_bytes([bytes[0], bytes[1]]);
                unset.clear();
                unset.extend(columns.chunks_exact(2).map(column));
                let mut update = Update { set, unset, payload };
                if defect::active(Defect::PayloadUpdatesSkipped) {
                    update.payload = PayloadChange::Keep;
                }
                let change = Change::Update { id, version, update };
                rows.apply(&change).map_err(|error| error.to_string())?;
                state.upsert(id, Some(before), version);
            }
            Record::Delete { id, version } => {
                let before = before(id).ok_or_else(|| missing(id))?;
                let change = Change::Delete { id, version };
                rows.apply(&change).map_err(|error| error.to_string())?;
                state.delete(id, before);
            }
            Record::Remember { id, version } => {
                let change = Change::Remember { id, version };
                rows.apply(&change).map_err(|error| error.to_string())?;
                state.pass_over();
            }
        }
        Ok(())
    }
}

/// The ids of the rows that records change, up to the first that cannot be.
fn ids(mut records: ByteReader<'_>, count: u32, vector_bytes: usize) -> Vec<u64> {
    let mut ids = Vec::new();
    for _ in 0..count {
        match Record::take(&mut records, vector_bytes) {
            Some(Record::Upsert { key: RowKey { id, .. }, .. }) => ids.push(id),
            Some(Record::Update { id, .. } | Record::Delete { id, .. }) => ids.push(id),
            Some(Record::Remember { .. }) => {}
            None => break,
        }
    }
    ids
}
