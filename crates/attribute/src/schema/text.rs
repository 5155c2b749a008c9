//! A schema as JSON.
//!
//! ```json
//! {"id": "string", "attributes": {"price": "f64", "tags": "keywords"}, "open": false,
//!  "groups": {"mode": "isolated"}}
//! ```
//!
//! Each key may be missing: number ids, no attributes, not open, no groups. A collection of string
//! ids has `"id_key"` too, 32 hexadecimal digits; without it the key is all zeros. The order of attributes
//! is the order of columns, and tools that rewrite JSON may sort the keys of an object; therefore
//! [`Schema::to_json`] writes them as an array, `[{"name": "price", "type": "f64"}]`, and
//! [`Schema::from_json`] reads both.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{json, Value as Json};

use crate::error::{shown, Refused, RefusedKind};
use crate::schema::{AttributeKind, Grouping, IdKind, Schema, ATTRIBUTES_MAX};

/// Most bytes of the text of a schema.
const TEXT_BYTES_MAX: usize = 1 << 20;

impl Schema {
    /// The schema as JSON, in one line.
    pub fn to_json(&self) -> String {
        let attributes = self.attributes.iter();
        let attributes = attributes
            .map(|attribute| json!({"name": attribute.name, "type": attribute.kind.name()}));
        let mut schema = json!({
            "id": match self.id { IdKind::U64 => "u64", IdKind::String => "string" },
            "attributes": attributes.collect::<Vec<_>>(),
            "open": self.open,
        });
        if self.id_key != [0; 16] {
            schema["id_key"] = format!("{:032x}", u128::from_be_bytes(self.id_key)).into();
        }
        match self.grouping {
            Grouping::None => {}
            Grouping::Shared => schema["groups"] = json!({"mode": "shared"}),
            Grouping::Isolated => schema["groups"] = json!({"mode": "isolated"}),
        }
        schema.to_string()
    }

    /// Reads a schema from JSON. Errors: `BadSchema` if the text is no JSON, has an unknown key, an
    /// unknown type or a name twice, or if [`Schema::add`] refuses an attribute.
    pub fn from_json(text: &str) -> Result<Schema, Refused> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(bad(format!("A schema has more than {TEXT_BYTES_MAX} bytes.")));
        }
        let parts: Parts = serde_json::from_str(text)
            .map_err(|error| bad(format!("The schema cannot be read: {error}.")))?;
        let mut schema = Schema { id: parts.id, open: parts.open, ..Schema::default() };
        schema.id_key = parts.id_key;
        for (column, (name, kind)) in parts.attributes.iter().enumerate() {
            let Some(kind) = AttributeKind::from_name(kind) else {
                let known = AttributeKind::ALL.map(AttributeKind::name).join(", ");
                let (name, kind) = (shown(name), shown(kind));
                return Err(bad(format!("'{kind}' of '{name}' is no type: use one of {known}.")));
            };
            if usize::from(schema.add(name, kind)?) != column {
                return Err(bad(format!("The attribute '{name}' is there twice.")));
            }
        }
        schema.set_grouping(parts.grouping)?;
        Ok(schema)
    }
}

fn bad(what: String) -> Refused {
    Refused::new(RefusedKind::BadSchema, what)
}

/// What stands in the text. Read by hand, because an object must keep the order of its keys.
#[derive(Default)]
struct Parts {
    id: IdKind,
    id_key: [u8; 16],
    attributes: Vec<(String, String)>,
    open: bool,
    grouping: Grouping,
}

impl<'de> Deserialize<'de> for Parts {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Parts, D::Error> {
        input.deserialize_map(PartsVisitor)
    }
}

struct PartsVisitor;

impl<'de> Visitor<'de> for PartsVisitor {
    type Value = Parts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with id, attributes, open and groups")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Parts, A::Error> {
        let (mut parts, mut seen) = (Parts::default(), Vec::new());
        while let Some(key) = items.next_key::<String>()? {
            match key.as_str() {
                "id" => parts.id = id_kind(&items.next_value::<Json>()?).map_err(Error::custom)?,
                "id_key" => {
                    parts.id_key = id_key(&items.next_value::<Json>()?).map_err(Error::custom)?
                }
                "attributes" => parts.attributes = items.next_value::<Attributes>()?.0,
                "open" => parts.open = items.next_value()?,
                "groups" => {
                    parts.grouping = grouping(&items.next_value()?).map_err(Error::custom)?;
                }
                other => {
                    let other = shown(other);
                    return Err(Error::custom(format!("a schema has no key '{other}'")));
                }
            }
            if seen.contains(&key) {
                return Err(Error::custom(format!("the key '{key}' is there twice")));
            }
            seen.push(key);
        }
        Ok(parts)
    }
}

fn id_kind(json: &Json) -> Result<IdKind, &'static str> {
    match json.as_str() {
        Some("u64") => Ok(IdKind::U64),
        Some("string") => Ok(IdKind::String),
        _ => Err("'id' must be \"u64\" or \"string\""),
    }
}

fn id_key(json: &Json) -> Result<[u8; 16], &'static str> {
    let digits = json.as_str().filter(|text| text.len() == 32);
    let is_hex = |text: &&str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let key = digits.filter(is_hex).and_then(|text| u128::from_str_radix(text, 16).ok());
    key.map(u128::to_be_bytes).ok_or("'id_key' must be 32 hexadecimal digits")
}

fn grouping(json: &Json) -> Result<Grouping, &'static str> {
    let mode = json.as_object().filter(|groups| groups.len() == 1);
    match (json, mode.and_then(|groups| groups.get("mode")?.as_str())) {
        (Json::Null, _) => Ok(Grouping::None),
        (_, Some("shared")) => Ok(Grouping::Shared),
        (_, Some("isolated")) => Ok(Grouping::Isolated),
        _ => Err("'groups' must be {\"mode\": \"shared\"} or {\"mode\": \"isolated\"}"),
    }
}

/// Names and types, in the order of the text.
struct Attributes(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Attributes, D::Error> {
        input.deserialize_any(AttributesVisitor).map(Attributes)
    }
}

struct AttributesVisitor;

impl<'de> Visitor<'de> for AttributesVisitor {
    type Value = Vec<(String, String)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of names and types, or an array of {\"name\", \"type\"}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_entry()? {
            put::<A::Error>(&mut list, item)?;
        }
        Ok(list)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Json>()? {
            let text = |key: &str| item.get(key)?.as_str().map(str::to_owned);
            let is_pair = item.as_object().is_some_and(|object| object.len() == 2);
            let pair = text("name").zip(text("type")).filter(|_| is_pair);
            let pair =
                pair.ok_or_else(|| A::Error::custom("an attribute has a name and a type"))?;
            put::<A::Error>(&mut list, pair)?;
        }
        Ok(list)
    }
}

fn put<E: Error>(list: &mut Vec<(String, String)>, item: (String, String)) -> Result<(), E> {
    if list.len() == ATTRIBUTES_MAX {
        return Err(E::custom(format!("a schema has at most {ATTRIBUTES_MAX} attributes")));
    }
    list.push(item);
    Ok(())
}
