//! Schemas and types of attributes as Python names them.

use vstream_engine::{AttributeKind, IdKind, NameHash, Schema};

use crate::failure::Failure;

/// The schema of a new collection, with a key of its own for string ids.
pub(crate) fn new_schema(json: &str) -> Result<Schema, Failure> {
    let mut schema = Schema::from_json(json)?;
    if schema.id == IdKind::String {
        schema.id_key = NameHash::random_key();
    }
    Ok(schema)
}

/// The type with this name.
pub(crate) fn kind_of(name: &str) -> Result<AttributeKind, Failure> {
    AttributeKind::from_name(name).ok_or_else(|| {
        let known: Vec<&str> = AttributeKind::ALL.iter().map(|kind| kind.name()).collect();
        Failure::invalid(format!("'{name}' is no type: choose from {}", known.join(", ")))
    })
}
