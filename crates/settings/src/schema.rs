//! What the rows of a collection carry beside their vectors: kind of ids, attributes, groups.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use vstream_engine::{AttributeKind, Grouping, IdKind, Schema};

use crate::section::Section;

/// Second half of the key of string ids, after the seed of the collection.
const ID_KEY_DOMAIN: [u8; 8] = *b"row name";

/// Reads the keys `id`, `attributes`, `open` and `groups`, and notes every problem.
///
/// The key of string ids follows from the collection's seed, so that every task of a job and every
/// restart has the same one.
pub(crate) fn read(section: &Section, seed: u64) -> (Schema, Option<GroupingSettings>) {
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
    let groups = section.has("groups").then(|| GroupingSettings::read(section, &mut schema));
    (schema, groups)
}

/// Whether rows belong to groups, and what becomes of large ones: the key `groups`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct GroupingSettings {
    /// Isolated or shared.
    #[serde(serialize_with = "mode_name")]
    pub mode: Grouping,
    /// Rows from which a job spreads a group over several partitions, 1,000 or more. `None` where
    /// groups are shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread_rows: Option<u64>,
}

impl GroupingSettings {
    fn read(section: &Section, schema: &mut Schema) -> GroupingSettings {
        let groups = section.section("groups");
        let mode = groups.choice("mode", "a mode of groups", GROUPINGS, None);
        if let Err(refused) = schema.set_grouping(mode) {
            section.note("attributes", &refused.message);
        }
        let rows = SPREAD_ROWS_MIN..=SPREAD_ROWS_MAX;
        let is_isolated = mode == Grouping::Isolated;
        let spread_rows =
            is_isolated.then(|| groups.integer("spread-rows", rows, Some(SPREAD_ROWS)));
        groups.finish();
        GroupingSettings { mode, spread_rows }
    }
}

fn mode_name<S: Serializer>(mode: &Grouping, serializer: S) -> Result<S::Ok, S::Error> {
    let name = GROUPINGS.iter().find(|(_, grouping)| grouping == mode).map(|(name, _)| *name);
    serializer.serialize_str(name.unwrap_or_default())
}

/// Writes the keys that [`read`] reads, but for `groups`, in the normalised form.
pub(crate) fn write<S: Serializer>(schema: &Schema, serializer: S) -> Result<S::Ok, S::Error> {
    let kind_of = |attribute: &vstream_engine::Attribute| {
        (attribute.name.clone(), Value::from(attribute.kind.name()))
    };
    let attributes: Map<String, Value> = schema.attributes.iter().map(kind_of).collect();
    let id = IDS.iter().find(|(_, id)| *id == schema.id).map(|(name, _)| *name);
    let mut map = serializer.serialize_map(Some(3))?;
    map.serialize_entry("id", &id)?;
    map.serialize_entry("attributes", &attributes)?;
    map.serialize_entry("open", &schema.open)?;
    map.end()
}

/// Rows from which an isolated group is spread, if nothing is said. A query of 10,000 rows takes 1.5 ms
/// from the page cache.
const SPREAD_ROWS: u64 = 50_000;
const SPREAD_ROWS_MIN: u64 = 1_000;
const SPREAD_ROWS_MAX: u64 = 1 << 40;

const IDS: &[(&str, IdKind)] = &[("u64", IdKind::U64), ("string", IdKind::String)];

const GROUPINGS: &[(&str, Grouping)] =
    &[("isolated", Grouping::Isolated), ("shared", Grouping::Shared)];
