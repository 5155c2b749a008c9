//! Copies of rows of one moment.

use vstream_attribute::{Attributes, AttributesBuilder, Fields, FieldsBuffer, IdKind, Schema};
use vstream_segment::{WantedColumns, WantedFields};

use super::{StoredRow, With, WithAttributes};
use crate::error::Error;
use crate::tree::{Answered, Pinned, ReadRow, Wanted};

/// The rows of some ids, in the order of `ids`; `None` where there is none.
///
/// * `answered`: if the ids are those of an answer.
pub(super) fn read(
    pinned: &Pinned,
    schema: &Schema,
    dimension: usize,
    ids: &[u64],
    with: &With,
    answered: Option<Answered<'_>>,
) -> Result<Vec<Option<StoredRow>>, Error> {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut found: Vec<Option<StoredRow>> = Vec::new();
    found.resize_with(sorted.len(), || None);
    let mut builder = AttributesBuilder::default();
    let mut columns = match &with.attributes {
        WithAttributes::Of(columns) => columns.clone(),
        WithAttributes::None | WithAttributes::All => Vec::new(),
    };
    columns.sort_unstable();
    let columns = match with.attributes {
        WithAttributes::None => WantedColumns::None,
        WithAttributes::All => WantedColumns::All,
        WithAttributes::Of(_) => WantedColumns::These(&columns),
    };
    let fields =
        WantedFields { names: schema.id == IdKind::String, columns, payload: with.payload };
    let wanted = Wanted { vector: with.vector, fields };
    let mut failed = None;
    let copy = &mut |at: usize, row: ReadRow<'_>| match copy(
        sorted[at],
        &row,
        (schema, dimension),
        wanted,
        &mut builder,
    ) {
        Ok(row) => found[at] = Some(row),
        Err(error) => failed = Some(error),
    };
    pinned.read(&sorted, wanted, answered, copy)?;
    if let Some(error) = failed {
        return Err(error);
    }
    let at = |id| sorted.binary_search(id).expect("an id that was asked for");
    if sorted.len() < ids.len() {
        // An id that comes twice gets its row twice.
        return Ok(ids.iter().map(|id| found[at(id)].clone()).collect());
    }
    Ok(ids.iter().map(|id| found[at(id)].take()).collect())
}

/// Copies what is wanted of a row.
fn copy(
    id: u64,
    row: &ReadRow<'_>,
    (schema, dimension): (&Schema, usize),
    wanted: Wanted<'_>,
    builder: &mut AttributesBuilder,
) -> Result<StoredRow, Error> {
    let ReadRow { version, vector, fields } = row;
    let vector = vector.filter(|_| wanted.vector).map(|vector| {
        let mut values = vec![0.0; dimension];
        vector.read(&mut values);
        values
    });
    let payload = fields.payload.filter(|_| wanted.fields.payload);
    let attributes = match wanted.fields.columns {
        WantedColumns::None => Attributes::NONE,
        WantedColumns::All => fields.attributes,
        WantedColumns::These(columns) => {
            builder.clear();
            for (column, value) in fields.attributes.iter() {
                if columns.binary_search(&column).is_ok() {
                    builder.set(schema, column, &value)?;
                }
            }
            builder.build()
        }
    };
    let fields = FieldsBuffer::from(&Fields { attributes, payload, ..*fields });
    Ok(StoredRow { id, version: *version, vector, fields })
}
