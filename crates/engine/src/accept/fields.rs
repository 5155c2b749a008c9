//! Checks what rows carry beside their vectors against the schema of a collection.

use vstream_attribute::{
    Fields, Grouping, IdKind, Refused, RefusedKind, Schema, ValueRef, ATTRIBUTES_BYTES_MAX,
    GROUP_ATTRIBUTE, PAYLOAD_BYTES_MAX, STRING_ID_BYTES_MAX,
};

use crate::row::{PayloadChange, Update};

/// Checks id, attributes and payload of a row that is to be stored. Cost: a pass over the
/// attributes; nothing for a row without any in a collection without a schema.
///
/// Every interface of the engine that checks a batch before it writes any of it calls this function,
/// so that all refuse the same rows. Errors: `BadId`, `UnknownAttribute`, `WrongType`, `TooLarge`, and
/// `BadGroup` for a row without a group where groups are shared.
pub fn check_fields(fields: &Fields<'_>, schema: &Schema) -> Result<(), Refused> {
    check_name(fields, schema)?;
    if !fields.attributes.is_empty() {
        check_attributes(fields.attributes, schema)?;
    }
    if schema.grouping == Grouping::Shared {
        check_group(fields.attributes, schema)?;
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

/// Every row of a collection of shared groups has a group.
fn check_group(
    attributes: vstream_attribute::Attributes<'_>,
    schema: &Schema,
) -> Result<(), Refused> {
    match schema.group_column().and_then(|column| attributes.get(column)) {
        Some(ValueRef::Keyword(group)) if !group.is_empty() => Ok(()),
        _ => {
            let what = format!(
                "The row has no group: the collection has shared groups, so give the attribute \
                 '{GROUP_ATTRIBUTE}'."
            );
            Err(Refused::new(RefusedKind::BadGroup, what))
        }
    }
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
    if let Some(group) = schema.group_column() {
        if update.unset.contains(&group) || update.set.get(group) == Some(ValueRef::Keyword("")) {
            let what = "A row of a collection of shared groups keeps a group: name another one.";
            return Err(Refused::new(RefusedKind::BadGroup, what));
        }
    }
    match update.payload {
        PayloadChange::Set(payload) => check_payload(payload),
        PayloadChange::Keep | PayloadChange::Remove => Ok(()),
    }
}

#[cfg(test)]
mod tests;
