//! Pointers: small files of a directory, each of which says where the far copy of another file is.
//!
//! ```text
//! vstream-far 1
//! name of the far copy
//! its length
//! sole | shared
//! XXH3-64 of the lines above, 16 hex digits
//! ```

use std::fmt::Write;
use std::io;

use xxhash_rust::xxh3::xxh3_64;

use crate::files::{Access, Files};
use crate::names::{is_name, PARTIAL};

/// Suffix of the name of a pointer.
pub(super) const POINTER: &str = ".far";
const FIRST_LINE: &str = "vstream-far 1";
const BYTES_MAX: u64 = 1024;

/// Who deletes a far copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// This directory made it.
    This,
    /// The directory before this one made it, and this directory alone goes on with it.
    Before,
    /// Several directories may read it, so none of them deletes it.
    Nobody,
}

/// A far copy of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FarCopy {
    /// Its name in the far store.
    pub(super) name: String,
    /// Its length.
    pub(super) bytes: u64,
    pub(super) owner: Owner,
}

/// Name of the pointer of a file.
pub(super) fn pointer_name(name: &str) -> String {
    format!("{name}{POINTER}")
}

/// Writes the pointer of a file whole, in place of the one before.
pub(super) fn write(near: &dyn Files, name: &str, copy: &FarCopy) -> io::Result<()> {
    let pointer = pointer_name(name);
    let partial = format!("{pointer}{PARTIAL}");
    let mut out = near.create(&partial)?;
    let text = copy.encode();
    let mut left = text.as_bytes();
    while !left.is_empty() {
        left = &left[out.append(left)?..];
    }
    out.sync()?;
    near.rename(&partial, &pointer, true)?;
    near.sync_names()
}

/// Reads the pointer of a file. Errors: `InvalidData` unless every byte is as it was written.
pub(super) fn read(near: &dyn Files, name: &str) -> io::Result<FarCopy> {
    let file = near.open(&pointer_name(name), Access::Cached)?;
    let damaged =
        || io::Error::new(io::ErrorKind::InvalidData, "this is no pointer as it was made");
    let bytes = file.bytes()?;
    if bytes > BYTES_MAX {
        return Err(damaged());
    }
    let text = file.read(0, bytes as usize)?;
    let text = std::str::from_utf8(&text).map_err(|_| damaged())?;
    FarCopy::decode(text).ok_or_else(damaged)
}

impl FarCopy {
    fn encode(&self) -> String {
        let owner = if self.owner == Owner::Nobody { "shared" } else { "sole" };
        let mut text = format!("{FIRST_LINE}\n{}\n{}\n{owner}\n", self.name, self.bytes);
        let checksum = xxh3_64(text.as_bytes());
        writeln!(text, "{checksum:016x}").expect("a string takes every line");
        text
    }

    /// The far copy that a pointer names; `None` for any other text.
    fn decode(text: &str) -> Option<FarCopy> {
        let (lines, checksum) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let lines = format!("{lines}\n");
        if checksum != format!("{:016x}", xxh3_64(lines.as_bytes())) {
            return None;
        }
        let mut lines = lines.lines();
        let first = lines.next()?;
        let (name, bytes) = (lines.next()?.to_owned(), lines.next()?.parse().ok()?);
        let owner = match lines.next()? {
            "sole" => Owner::Before,
            "shared" => Owner::Nobody,
            _ => return None,
        };
        let is_whole = first == FIRST_LINE && is_name(&name) && lines.next().is_none();
        is_whole.then_some(FarCopy { name, bytes, owner })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_survives_being_written_and_no_byte_of_it_may_change() {
        for owner in [Owner::This, Owner::Nobody] {
            let copy = FarCopy { name: "a-1.segment-0000000017".to_owned(), bytes: 12_345, owner };
            let text = copy.encode();
            let expected = if owner == Owner::This { Owner::Before } else { owner };
            assert_eq!(FarCopy::decode(&text), Some(FarCopy { owner: expected, ..copy }));
            for at in 0..text.len() {
                let mut changed = text.clone().into_bytes();
                changed[at] ^= 1;
                let changed = String::from_utf8(changed).expect("ASCII");
                assert_eq!(FarCopy::decode(&changed), None, "byte {at}");
                assert_eq!(FarCopy::decode(&text[..at]), None, "{at} bytes");
            }
        }
    }
}
