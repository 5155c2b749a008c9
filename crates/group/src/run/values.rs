//! Blocks of attributes, names and payloads.
//!
//! ```text
//! list         u32 end of each item | items
//! attributes   list, an item per row of a leaf
//! names        u64 check of each row | list
//! payloads     u32 bytes of the list | zstd of the list; the first byte of an item is 1 if there is
//!              a payload, and its bytes follow
//! ```

use vstream_vector::cursor::ByteReader;

use super::format::PART_BYTES_MAX;
use crate::error::Malformed;

/// Bytes of payloads that fill a block.
pub(crate) const PAYLOAD_BLOCK_BYTES: usize = 16 << 10;
/// Level of zstd: the fastest of its standard ones.
const LEVEL: i32 = 1;

/// Encodes a list of byte strings.
pub(crate) fn encode_list<'a>(items: impl Iterator<Item = &'a [u8]> + Clone) -> Vec<u8> {
    let mut out = Vec::new();
    let mut end = 0u32;
    for item in items.clone() {
        end += item.len() as u32;
        out.extend_from_slice(&end.to_le_bytes());
    }
    items.for_each(|item| out.extend_from_slice(item));
    out
}

/// A list of byte strings, borrowed from a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<'a> {
    ends: &'a [[u8; 4]],
    bytes: &'a [u8],
}

impl<'a> List<'a> {
    /// Reads a list of `count` items that fills `bytes`.
    pub(crate) fn decode(bytes: &'a [u8], count: usize) -> Result<List<'a>, Malformed> {
        let mut input = ByteReader::new(bytes);
        let (ends, _) = input.bytes(count.saturating_mul(4))?.as_chunks::<4>();
        let bytes = input.rest();
        let mut last = 0;
        for end in ends {
            let end = u32::from_le_bytes(*end);
            if end < last {
                return Err(Malformed("the items of a list are out of order"));
            }
            last = end;
        }
        if last as usize != bytes.len() {
            return Err(Malformed("the items of a list do not fill it"));
        }
        Ok(List { ends, bytes })
    }

    /// A list that [`List::decode`] accepted before. Panics if it is too short.
    pub(crate) fn again(bytes: &'a [u8], count: usize) -> List<'a> {
        let (ends, bytes) = bytes.split_at(4 * count);
        List { ends: ends.as_chunks::<4>().0, bytes }
    }

    /// Item `at`, which must be in the list.
    pub(crate) fn get(&self, at: usize) -> &'a [u8] {
        let end = |at: usize| u32::from_le_bytes(self.ends[at]) as usize;
        let from = if at == 0 { 0 } else { end(at - 1) };
        &self.bytes[from..end(at)]
    }
}

/// Encodes a block of names with the checks of their hashes.
pub(crate) fn encode_names<'a>(rows: impl Iterator<Item = (u64, &'a str)> + Clone) -> Vec<u8> {
    let mut out = Vec::new();
    rows.clone().for_each(|(check, _)| out.extend_from_slice(&check.to_le_bytes()));
    out.extend_from_slice(&encode_list(rows.map(|(_, name)| name.as_bytes())));
    out
}

/// The names of the rows of a leaf.
pub(crate) struct Names<'a> {
    checks: &'a [[u8; 8]],
    names: List<'a>,
}

impl<'a> Names<'a> {
    pub(crate) fn decode(bytes: &'a [u8], rows: usize) -> Result<Names<'a>, Malformed> {
        let mut input = ByteReader::new(bytes);
        let (checks, _) = input.bytes(rows.saturating_mul(8))?.as_chunks::<8>();
        Ok(Names { checks, names: List::decode(input.rest(), rows)? })
    }

    /// Check and name of a row of the leaf.
    pub(crate) fn get(&self, row: usize) -> Result<(u64, &'a str), Malformed> {
        let name = std::str::from_utf8(self.names.get(row));
        let name = name.map_err(|_| Malformed("a name is no UTF-8"))?;
        Ok((u64::from_le_bytes(self.checks[row]), name))
    }
}

/// Encodes a block of payloads.
pub(crate) fn encode_payloads<'a>(rows: impl Iterator<Item = Option<&'a [u8]>>) -> Vec<u8> {
    let marked = |payload: Option<&[u8]>| {
        let mut item = vec![u8::from(payload.is_some())];
        item.extend_from_slice(payload.unwrap_or_default());
        item
    };
    let items: Vec<Vec<u8>> = rows.map(marked).collect();
    let list = encode_list(items.iter().map(Vec::as_slice));
    let mut out = (list.len() as u32).to_le_bytes().to_vec();
    let coded = zstd::bulk::compress(&list, LEVEL).expect("memory for a block of payloads");
    out.extend_from_slice(&coded);
    out
}

/// Decompresses a block of payloads: a list of an item per row.
pub(crate) fn decode_payloads(bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut input = ByteReader::new(bytes);
    let length = input.u32()? as usize;
    if length > 2 * PART_BYTES_MAX {
        return Err(Malformed("a block of payloads is too large"));
    }
    let list = zstd::bulk::decompress(input.rest(), length);
    let list = list.map_err(|_| Malformed("a block of payloads cannot be decompressed"))?;
    if list.len() != length {
        return Err(Malformed("a block of payloads has another length"));
    }
    Ok(list)
}

/// The payload in an item of a list.
pub(crate) fn payload(item: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    match item {
        [0] => Ok(None),
        [1, payload @ ..] => Ok(Some(payload)),
        _ => Err(Malformed("a payload without its mark")),
    }
}
