//! String ids: a keyed hash stands for the text in tables and filters.

use std::fmt;
use std::hash::BuildHasher;

use siphasher::sip128::SipHasher24;

use crate::error::{Refused, RefusedKind};
use crate::schema::{Schema, STRING_ID_BYTES_MAX};

/// What stands for a string id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HashedName {
    /// The id of the key: the low half of the hash. Never `u64::MAX`, which stands for "no id".
    pub id: u64,
    /// The high half, which tells apart two texts with one `id`.
    pub check: u64,
}

/// Hashes string ids by SipHash-2-4 with 128 bits of output.
///
/// The key keeps a stranger who chooses ids from making two that collide. It belongs to the
/// collection and must not change, because the hashes are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NameHash {
    key: [u8; 16],
}

impl fmt::Debug for NameHash {
    /// Does not show the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NameHash")
    }
}

impl NameHash {
    /// A hash with its key of 16 random bytes.
    pub fn new(key: [u8; 16]) -> NameHash {
        NameHash { key }
    }

    /// A key drawn at random, for a new collection.
    pub fn random_key() -> [u8; 16] {
        let half = |salt: u64| std::hash::RandomState::new().hash_one(salt);
        (u128::from(half(0)) << 64 | u128::from(half(1))).to_be_bytes()
    }

    /// The hash of a string id. Cost: one pass, no allocation. Errors: `BadId` if the
    /// text has not 1 to [`STRING_ID_BYTES_MAX`] bytes.
    pub fn hash(&self, name: &str) -> Result<HashedName, Refused> {
        if name.is_empty() || name.len() > STRING_ID_BYTES_MAX {
            let what =
                format!("A string id has {} bytes: use 1 to {STRING_ID_BYTES_MAX}.", name.len());
            return Err(Refused::new(RefusedKind::BadId, what));
        }
        let (low, check) = SipHasher24::new_with_key(&self.key).hash(name.as_bytes()).as_u64();
        Ok(HashedName { id: low.min(u64::MAX - 1), check })
    }

    /// The hash of a string id that comes as bytes. Cost and errors: as [`NameHash::hash`], and
    /// `BadId` if the bytes are no UTF-8.
    pub fn hash_bytes(&self, name: &[u8]) -> Result<HashedName, Refused> {
        let bad = |_| Refused::new(RefusedKind::BadId, "A string id is no UTF-8.");
        self.hash(std::str::from_utf8(name).map_err(bad)?)
    }
}

impl Schema {
    /// The hash of string ids.
    pub fn name_hash(&self) -> NameHash {
        NameHash::new(self.id_key)
    }
}

/// What a reader of filters knows about a collection. A `&Schema` turns into one without a hash,
/// which is enough unless a filter names string ids.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The attributes.
    pub schema: &'a Schema,
    /// The hash of string ids. Without it, a filter that names a string id is refused.
    pub hash: Option<&'a NameHash>,
}

impl<'a> Names<'a> {
    /// Names of a collection of string ids.
    pub fn new(schema: &'a Schema, hash: &'a NameHash) -> Names<'a> {
        Names { schema, hash: Some(hash) }
    }
}

impl<'a> From<&'a Schema> for Names<'a> {
    fn from(schema: &'a Schema) -> Names<'a> {
        Names { schema, hash: None }
    }
}
