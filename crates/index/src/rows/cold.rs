//! The fields of a row that no mask tests, as one byte string in memory.
//!
//! ```text
//! u64 check | u16 name bytes | u32 text bytes | u8 has a payload | name | texts | payload
//! texts: as attributes (`vstream_attribute::Attributes`)
//! ```

use std::collections::BTreeMap;

use vstream_attribute::{Attributes, Fields, FieldsBuffer, Update, ValueRef};
use vstream_vector::cursor::{ByteReader, Truncated};

/// Bytes of the check, which comes first.
const CHECK: usize = size_of::<u64>();

/// The fields of a row that no mask tests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cold<'a> {
    pub(super) name: &'a str,
    pub(super) check: u64,
    /// Attributes of the kind text alone.
    pub(super) texts: Attributes<'a>,
    pub(super) payload: Option<&'a [u8]>,
}

/// The cold fields of a row; `None` if there are none.
pub(super) fn encode(fields: Fields<'_>) -> Option<Vec<u8>> {
    let mut texts = FieldsBuffer::default();
    for (column, value) in fields.attributes.iter() {
        if matches!(value, ValueRef::Text(_)) {
            texts.push(column, &value);
        }
    }
    let Fields { name, check, payload, .. } = fields;
    put(Cold { name, check, texts: texts.fields().attributes, payload })
}

/// The cold fields of a row after an update; `None` if there are none.
pub(super) fn change(before: Cold<'_>, update: &Update<'_>) -> Option<Vec<u8>> {
    let mut texts: BTreeMap<u16, ValueRef<'_>> = before.texts.iter().collect();
    texts.retain(|column, _| !update.unset.contains(column));
    texts.extend(update.set.iter().filter(|(_, value)| matches!(value, ValueRef::Text(_))));
    let mut buffer = FieldsBuffer::default();
    texts.iter().for_each(|(column, value)| buffer.push(*column, value));
    let payload = update.payload.of(before.payload);
    put(Cold { texts: buffer.fields().attributes, payload, ..before })
}

fn put(cold: Cold<'_>) -> Option<Vec<u8>> {
    let Cold { name, check, texts, payload } = cold;
    let has_name = !name.is_empty() || check != 0;
    if !has_name && texts.is_empty() && payload.is_none() {
        return None;
    }
    let (texts, bytes) = (texts.bytes(), payload.unwrap_or_default());
    let mut out = Vec::with_capacity(CHECK + 7 + name.len() + texts.len() + bytes.len());
    out.extend_from_slice(&check.to_le_bytes());
    let name_bytes = u16::try_from(name.len()).expect("a string id within its limit");
    out.extend_from_slice(&name_bytes.to_le_bytes());
    out.extend_from_slice(&(texts.len() as u32).to_le_bytes());
    out.push(u8::from(payload.is_some()));
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(texts);
    out.extend_from_slice(bytes);
    Some(out)
}

/// The check of the string id, without the other fields.
pub(super) fn check_of(bytes: &[u8]) -> u64 {
    let check = bytes.first_chunk::<CHECK>().expect("cold fields of this process");
    u64::from_le_bytes(*check)
}

/// The fields of bytes that [`encode`] made.
pub(super) fn decode(bytes: &[u8]) -> Cold<'_> {
    let read = || -> Result<Cold<'_>, Truncated> {
        let mut input = ByteReader::new(bytes);
        let check = input.u64()?;
        let (name, texts) = (usize::from(input.u16()?), input.u32()? as usize);
        let has_payload = input.u8()? == 1;
        let name = std::str::from_utf8(input.bytes(name)?).expect("a name of this process");
        let texts = Attributes::decode(input.bytes(texts)?).expect("texts of this process");
        let payload = has_payload.then(|| input.rest());
        Ok(Cold { name, check, texts, payload })
    };
    read().expect("cold fields of this process")
}

#[cfg(test)]
mod tests {
    use super::{decode, encode, Cold};
    use vstream_attribute::{AttributeKind, AttributesBuilder, Fields, Schema, ValueRef};

    #[test]
    fn cold_fields_come_back() {
        let kinds = [("kind", AttributeKind::Keyword), ("body", AttributeKind::Text)];
        let schema = Schema::new(kinds).expect("a schema");
        let mut builder = AttributesBuilder::default();
        builder.set(&schema, 0, &ValueRef::Keyword("mail")).expect("a keyword");
        assert_eq!(encode(Fields { attributes: builder.build(), ..Fields::NONE }), None);
        builder.set(&schema, 1, &ValueRef::Text("Dear all, \u{e4}")).expect("a text");
        let attributes = builder.build();
        for payload in [None, Some(&b""[..]), Some(&[7u8; 1 << 20][..])] {
            let fields = Fields { name: "a\u{df}", check: u64::MAX - 1, attributes, payload };
            let bytes = encode(fields).expect("cold fields");
            let Cold { name, check, texts, payload: held } = decode(&bytes);
            assert_eq!((name, check, held), (fields.name, fields.check, payload));
            let texts: Vec<_> = texts.iter().collect();
            assert_eq!(texts, [(1, ValueRef::Text("Dear all, \u{e4}"))]);
        }
    }
}
