//! Replays logs over rows of different moments: those of a base image of several parts.
//!
//! A part has the rows that its shards had after its last write, and the logs begin after the oldest
//! part. So the logs tell of rows what some parts know already. *Fuzzy time* lasts up to the last write
//! of the newest part. Meanwhile, for every write `n`, what is known of a shard holds at the later of `n`
//! and its part's last write, and of an id the row of the latest shard that has it is kept:
//!
//! 1. A row of a part that has the write `n` already is the outcome of later writes too: the record
//!    changes nothing.
//! 2. An upsert to a shard whose part has the write already, and in which the id is not there: the row is
//!    gone from that shard by the part's last write, and whatever comes of it is in later records. Its
//!    row of before, in a shard whose part is older, goes.
//! 3. An update or delete of a row that is not there: as in 2.
//! 4. Any other record is applied. The row that it changes, if there is one, is the one that was there.
//!
//! So at the end each shard has the rows of one moment. If all rows are wanted, their number and digest are then those that the
//! manifest says, or something is corrupt. Deletes that are remembered are those of that moment.

use vstream_index::RowKey;

use super::recover::{Change, Replay};
use crate::defect::{self, Defect};
use crate::snapshot::Image;
use crate::wal::{Record, State};

/// Returns true if the next record of a log is to be applied; otherwise does what it asks for.
///
/// * `state`: before the record. Errors: `rows` refuses what the record asks for.
pub(super) fn is_to_apply(
    image: &Image,
    record: &Record<'_>,
    rows: &mut dyn Replay,
    state: &mut State,
) -> Result<bool, String> {
    if defect::active(Defect::PartsReplayedOver) {
        return Ok(true);
    }
    let (id, version, to) = match *record {
        Record::Upsert { key: RowKey { id, version, shard, .. }, .. } => (id, version, Some(shard)),
        Record::Update { id, version, .. } | Record::Delete { id, version } => (id, version, None),
        Record::Remember { .. } => return Ok(true),
    };
    let lsn = state.lsn + 1;
    let is_known = |shard: u16| image.lsn_of(shard) >= lsn;
    let before = rows.version_of(id);
    let is_outcome = before.is_some() && rows.shard_of(id).is_some_and(is_known);
    if !is_outcome {
        match (to.is_some_and(is_known), before) {
            (true, Some(before)) => {
                let gone = Change::Delete { id, version };
                rows.apply(&gone).map_err(|error| error.to_string())?;
                state.delete(id, before);
                return Ok(false);
            }
            (true, None) => {}
            (false, before) if to.is_some() || before.is_some() => return Ok(true),
            (false, _) => {}
        }
    }
    state.pass_over();
    Ok(false)
}
