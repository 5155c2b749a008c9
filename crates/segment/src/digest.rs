//! The digest of a set of rows, which does not depend on their order or place.

/// Hash of a row's id and version; the digest of a set is the sum over its rows, mod 2^128.
pub fn row_digest(id: u64, version: u64) -> u128 {
    let mut bytes = [0u8; 16];
    bytes[..8].copy_from_slice(&id.to_le_bytes());
    bytes[8..].copy_from_slice(&version.to_le_bytes());
    xxhash_rust::xxh3::xxh3_128(&bytes)
}
