//! Copies of rows of one moment.

use std::collections::BinaryHeap;

use vstream_attribute::{Attributes, AttributesBuilder, Fields, FieldsBuffer, Filter, Schema};
use vstream_index::IndexRow;

use super::{StoredRow, With, WithAttributes};
use crate::error::Error;
use crate::tree::Pinned;

/// The rows of some ids, in the order of `ids`; `None` where there is none.
pub(super) fn read(
    pinned: &Pinned,
    schema: &Schema,
    dimension: usize,
    ids: &[u64],
    with: &With,
) -> Result<Vec<Option<StoredRow>>, Error> {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut found: Vec<Option<StoredRow>> = vec![None; sorted.len()];
    let mut builder = AttributesBuilder::default();
    let mut failed = None;
    pinned.show(
        &sorted,
        &mut |at, row| match copy(&row, schema, dimension, with, &mut builder) {
            Ok(row) => found[at] = Some(row),
            Err(error) => failed = Some(error),
        },
    )?;
    if let Some(error) = failed {
        return Err(error);
    }
    let at = |id| sorted.binary_search(id).expect("an id that was asked for");
    Ok(ids.iter().map(|id| found[at(id)].clone()).collect())
}

fn copy(
    row: &IndexRow<'_>,
    schema: &Schema,
    dimension: usize,
    with: &With,
    builder: &mut AttributesBuilder,
) -> Result<StoredRow, Error> {
    let IndexRow { key, vector, fields } = row;
    let vector = with.vector.then(|| {
        let mut values = vec![0.0; dimension];
        vector.read(&mut values);
        values
    });
    let payload = fields.payload.filter(|_| with.payload);
    let attributes = match &with.attributes {
        WithAttributes::None => Attributes::NONE,
        WithAttributes::All => fields.attributes,
        WithAttributes::Of(columns) => {
            builder.clear();
            for (column, value) in fields.attributes.iter() {
                if columns.contains(&column) {
                    builder.set(schema, column, &value)?;
                }
            }
            builder.build()
        }
    };
    let fields = FieldsBuffer::from(&Fields { attributes, payload, ..*fields });
    let (id, version, code, shard) = (key.id, key.version, key.code, key.shard);
    Ok(StoredRow { id, version, code, shard, vector, fields })
}

/// The `limit` least ids of matches above `after`, ascending, and the last of them if there are more.
///
/// Memory: `limit` ids.
pub(super) fn first_ids(
    pinned: &Pinned,
    filter: Option<&Filter>,
    after: Option<u64>,
    limit: usize,
) -> Result<(Vec<u64>, Option<u64>), Error> {
    let (mut least, mut is_more) = (BinaryHeap::new(), false);
    pinned.for_each_match(filter, &mut |key| {
        if after.is_some_and(|after| key.id <= after) {
            return;
        }
        if least.len() < limit {
            least.push(key.id);
            return;
        }
        is_more = true;
        if least.peek().is_some_and(|&last| key.id < last) {
            least.pop();
            least.push(key.id);
        }
    })?;
    let ids = least.into_sorted_vec();
    let next = ids.last().copied().filter(|_| is_more);
    Ok((ids, next))
}
