//! What the rows of a collection carry beside their vectors: kind of ids, attributes, groups.

use serde::ser::SerializeMap;
use serde::Serializer;
use serde_json::{Map, Value};
use vstream_engine::{AttributeKind, Grouping, IdKind, Schema};

use crate::section::Section;

/// Second half of the key of string ids, after the seed of the collection.
const ID_KEY_DOMAIN: [u8; 8] = *b"row name";

/// Reads the keys `id`, `attributes`, `open` and `groups`, and notes every problem.
///
/// The key of string ids follows from the collection's seed, so that every task of a job and every
/// restart has the same one.
pub(crate) fn read(section: &Section, seed: u64) -> Schema {
    let mut schema = Schema {
        id: section.choice("id", "a kind of ids", IDS, Some(IdKind::U64)),
        ..Schema::default()
    };
    if schema.id == IdKind::String {
        schema.id_key[..8].copy_from_slice(&seed.to_le_bytes());
        schema.id_key[8..].copy_from_slice(&ID_KEY_DOMAIN);
    }
    for (name, kind) in section.mapping("attributes") {
        let kind_of = |text: &str| AttributeKind::from_name(text);
        match kind.as_str().and_then(kind_of).map(|kind| schema.add(&name, kind)) {
            Some(Ok(_)) => {}
            Some(Err(refused)) => section.note("attributes", &refused.message),
            None => {
                let names = AttributeKind::ALL.map(AttributeKind::name).join(", ");
                let sentence = format!("{kind} is no type of '{name}'. Choose one of {names}.");
                section.note("attributes", &sentence);
            }
        }
    }
    schema.open = section.flag("open", false);
    if section.has("groups") {
        let groups = section.section("groups");
        let grouping = groups.choice("mode", "a mode of groups", GROUPINGS, None);
        if let Err(refused) = schema.set_grouping(grouping) {
            section.note("attributes", &refused.message);
        }
        groups.finish();
    }
    schema
}

/// Writes the keys that [`read`] reads, in the normalised form.
pub(crate) fn write<S: Serializer>(schema: &Schema, serializer: S) -> Result<S::Ok, S::Error> {
    let kind_of = |attribute: &vstream_engine::Attribute| {
        (attribute.name.clone(), Value::from(attribute.kind.name()))
    };
    let attributes: Map<String, Value> = schema.attributes.iter().map(kind_of).collect();
    let groups = match GROUPINGS.iter().find(|(_, grouping)| *grouping == schema.grouping) {
        Some((mode, _)) => serde_json::json!({ "mode": mode }),
        None => Value::Null,
    };
    let id = IDS.iter().find(|(_, id)| *id == schema.id).map(|(name, _)| *name);
    let mut map = serializer.serialize_map(Some(4))?;
    map.serialize_entry("id", &id)?;
    map.serialize_entry("attributes", &attributes)?;
    map.serialize_entry("open", &schema.open)?;
    map.serialize_entry("groups", &groups)?;
    map.end()
}

const IDS: &[(&str, IdKind)] = &[("u64", IdKind::U64), ("string", IdKind::String)];

const GROUPINGS: &[(&str, Grouping)] =
    &[("isolated", Grouping::Isolated), ("shared", Grouping::Shared)];
