//! Checks what rows carry beside their vectors, and filters, against the schema of a collection.

use vstream_attribute::{
    Fields, Filter, IdKind, Refused, RefusedKind, Schema, Test, ATTRIBUTES_BYTES_MAX,
    PAYLOAD_BYTES_MAX, STRING_ID_BYTES_MAX,
};

use crate::row::{PayloadChange, Update};

/// Deepest filter, and most conditions of one.
const FILTER_DEPTH_MAX: usize = 16;
const FILTER_NODES_MAX: usize = 4096;
/// Most values in the lists of a filter.
const FILTER_VALUES_MAX: usize = 1 << 16;

/// Checks id, attributes and payload of a row that is to be stored. Cost: a pass over the
/// attributes; nothing for a row without any in a collection without a schema.
///
/// Every interface of the engine that checks a batch before it writes any of it calls this function,
/// so that all refuse the same rows. Errors: `BadId`, `UnknownAttribute`, `WrongType`, `TooLarge`.
pub fn check_fields(fields: &Fields<'_>, schema: &Schema) -> Result<(), Refused> {
    check_name(fields, schema)?;
    if !fields.attributes.is_empty() {
        check_attributes(fields.attributes, schema)?;
    }
    fields.payload.map_or(Ok(()), check_payload)
}

fn check_name(fields: &Fields<'_>, schema: &Schema) -> Result<(), Refused> {
    let what = match schema.id {
        IdKind::U64 if fields.name.is_empty() && fields.check == 0 => return Ok(()),
        IdKind::U64 => "The ids of the collection are numbers, and the row has a text.".to_owned(),
        IdKind::String if (1..=STRING_ID_BYTES_MAX).contains(&fields.name.len()) => return Ok(()),
        IdKind::String => format!(
            "The id of the row has {} bytes; an id is a text of 1 to {STRING_ID_BYTES_MAX} bytes.",
            fields.name.len()
        ),
    };
    Err(Refused::new(RefusedKind::BadId, what))
}

fn check_attributes(
    attributes: vstream_attribute::Attributes<'_>,
    schema: &Schema,
) -> Result<(), Refused> {
    if attributes.bytes().len() > ATTRIBUTES_BYTES_MAX {
        let what =
            format!("The attributes of the row take more than {ATTRIBUTES_BYTES_MAX} bytes.");
        return Err(Refused::new(RefusedKind::TooLarge, what));
    }
    for (column, value) in attributes.iter() {
        let Some(attribute) = schema.attributes.get(usize::from(column)) else {
            return Err(unknown(column));
        };
        if value.kind() != attribute.kind {
            let what = format!(
                "The attribute '{}' is of type {}, the value of type {}.",
                attribute.name,
                attribute.kind.name(),
                value.kind().name()
            );
            return Err(Refused::new(RefusedKind::WrongType, what));
        }
    }
    Ok(())
}

fn check_payload(payload: &[u8]) -> Result<(), Refused> {
    if payload.len() <= PAYLOAD_BYTES_MAX {
        return Ok(());
    }
    let what = format!(
        "The payload of the row has {} bytes; the limit is {PAYLOAD_BYTES_MAX}.",
        payload.len()
    );
    Err(Refused::new(RefusedKind::TooLarge, what))
}

fn unknown(column: u16) -> Refused {
    let what = format!("The collection has no attribute of column {column}.");
    Refused::new(RefusedKind::UnknownAttribute, what)
}

/// Checks an update of a row. Errors: as [`check_fields`].
pub(crate) fn check_update(update: &Update<'_>, schema: &Schema) -> Result<(), Refused> {
    check_attributes(update.set, schema)?;
    if let Some(column) = update.unset.iter().find(|&&column| schema.kind(column).is_none()) {
        return Err(unknown(*column));
    }
    match update.payload {
        PayloadChange::Set(payload) => check_payload(payload),
        PayloadChange::Keep | PayloadChange::Remove => Ok(()),
    }
}

/// Checks a filter: its attributes exist, its lists are sorted, and it is neither too deep nor too
/// large. Errors: `UnknownAttribute`, `BadFilter`.
pub(crate) fn check_filter(filter: &Filter, schema: &Schema) -> Result<(), Refused> {
    let bad = |what: String| Err(Refused::new(RefusedKind::BadFilter, what));
    let (mut nodes, mut values) = (0, 0);
    let mut left: Vec<(&Filter, usize)> = vec![(filter, 1)];
    while let Some((node, depth)) = left.pop() {
        nodes += 1;
        if nodes > FILTER_NODES_MAX || depth > FILTER_DEPTH_MAX {
            return bad(format!(
                "The filter has more than {FILTER_NODES_MAX} conditions, or more than \
                 {FILTER_DEPTH_MAX} inside each other."
            ));
        }
        let (count, is_sorted) = match node {
            Filter::And(of) | Filter::Or(of) | Filter::AtLeast(_, of) => {
                if of.len() > FILTER_NODES_MAX {
                    return bad(format!("The filter has more than {FILTER_NODES_MAX} conditions."));
                }
                left.extend(of.iter().map(|one| (one, depth + 1)));
                (0, true)
            }
            Filter::Not(one) => {
                left.push((one, depth + 1));
                (0, true)
            }
            Filter::Ids(ids) => (ids.len(), ids.is_sorted()),
            Filter::Attribute(column, test) => {
                if schema.kind(*column).is_none() {
                    return Err(unknown(*column));
                }
                values_of(test)
            }
        };
        values += count;
        if values > FILTER_VALUES_MAX || !is_sorted {
            return bad(format!(
                "The lists of the filter have more than {FILTER_VALUES_MAX} values, or are not \
                 sorted."
            ));
        }
    }
    Ok(())
}

/// Number of values of a condition, and whether they have the order that the condition needs.
fn values_of(test: &Test) -> (usize, bool) {
    match test {
        Test::KeywordIn(texts) | Test::AnyOf(texts) | Test::AllOf(texts) => {
            (texts.len(), texts.is_sorted())
        }
        Test::I64In(numbers) => (numbers.len(), numbers.is_sorted()),
        Test::F64In(numbers) => (numbers.len(), true),
        Test::Exists
        | Test::KeywordPrefix(_)
        | Test::IsEmpty
        | Test::I64Range(_)
        | Test::F64Range(_)
        | Test::Bool(_) => (1, true),
    }
}

#[cfg(test)]
mod tests;
