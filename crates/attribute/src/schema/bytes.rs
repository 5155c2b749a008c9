//! A schema as bytes, for manifests, logs and snapshots.
//!
//! ```text
//! u8 version = 1 | u8 id: 0 u64, 1 string | u8 open: 0, 1
//! u8 groups: 0 none, 1 shared, 2 isolated | 16 B key of string ids
//! u16 attributes | for each: u8 kind | u8 bytes | name in UTF-8
//! ```
//!
//! Little-endian; the attributes by column.

use vstream_vector::cursor::ByteReader;

use crate::error::Malformed;
use crate::schema::{AttributeKind, Grouping, IdKind, Schema, ATTRIBUTES_MAX};

/// The version of this format.
const VERSION: u8 = 1;

impl Schema {
    /// Appends the schema's bytes. Cost: one pass.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[
            VERSION,
            u8::from(self.id == IdKind::String),
            u8::from(self.open),
            self.grouping as u8,
        ]);
        out.extend_from_slice(&self.id_key);
        out.extend_from_slice(&(self.attributes.len() as u16).to_le_bytes());
        for attribute in &self.attributes {
            out.push(attribute.kind.tag());
            out.push(attribute.name.len() as u8);
            out.extend_from_slice(attribute.name.as_bytes());
        }
    }

    /// Reads a schema's bytes, all of them. Errors: `Malformed` if they are no schema, are too
    /// short or too long, or have another version.
    pub fn decode(bytes: &[u8]) -> Result<Schema, Malformed> {
        let short = |_| Malformed("the bytes of a schema are too short");
        let mut input = ByteReader::new(bytes);
        let [version, id, open, grouping] = input.array().map_err(short)?;
        if version != VERSION {
            return Err(Malformed("a schema of an unknown version"));
        }
        let id = [IdKind::U64, IdKind::String].get(usize::from(id)).copied();
        let groupings = [Grouping::None, Grouping::Shared, Grouping::Isolated];
        let grouping = groupings.get(usize::from(grouping)).copied();
        let (Some(id), Some(grouping), 0 | 1) = (id, grouping, open) else {
            return Err(Malformed("a schema with an unknown setting"));
        };
        let id_key = input.array().map_err(short)?;
        let mut schema = Schema { id, id_key, open: open == 1, grouping, attributes: Vec::new() };
        let count = usize::from(input.u16().map_err(short)?);
        if count > ATTRIBUTES_MAX {
            return Err(Malformed("a schema has too many attributes"));
        }
        for column in 0..count {
            let [kind, name_bytes] = input.array().map_err(short)?;
            let kind = AttributeKind::from_tag(kind).ok_or(Malformed("an unknown kind"))?;
            let name = input.bytes(usize::from(name_bytes)).map_err(short)?;
            let name = std::str::from_utf8(name).map_err(|_| Malformed("a name is no UTF-8"))?;
            match schema.add(name, kind) {
                Ok(added) if usize::from(added) == column => {}
                Ok(_) => return Err(Malformed("a schema has a name twice")),
                Err(_) => return Err(Malformed("a schema has a wrong name")),
            }
        }
        if !input.is_empty() {
            return Err(Malformed("bytes follow a schema"));
        }
        let group = schema.group_column().and_then(|column| schema.kind(column));
        if grouping == Grouping::Shared && group != Some(AttributeKind::Keyword) {
            return Err(Malformed("shared groups without their attribute"));
        }
        Ok(schema)
    }
}
