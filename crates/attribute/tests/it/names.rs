//! String ids and their hashes.

use std::collections::HashSet;

use vstream_attribute::{NameHash, RefusedKind, STRING_ID_BYTES_MAX};

#[test]
fn the_hash_is_siphash_with_128_bits() {
    // The first vectors of SipHash's reference implementation, `vectors_sip128`: the key is
    // 00 01 … 0f and the text 00, then 00 01.
    let hash = NameHash::new(std::array::from_fn(|i| i as u8));
    let hashed = |text: &str| {
        let hashed = hash.hash(text).unwrap();
        let mut bytes = hashed.id.to_le_bytes().to_vec();
        bytes.extend(hashed.check.to_le_bytes());
        bytes
    };
    assert_eq!(
        hashed("\u{0}"),
        [
            0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22,
            0xfc, 0x45
        ]
    );
    assert_eq!(
        hashed("\u{0}\u{1}"),
        [
            0x81, 0x77, 0x22, 0x8d, 0xa4, 0xa4, 0x5d, 0xc7, 0xfc, 0xa3, 0x8b, 0xde, 0xf6, 0x0a,
            0xff, 0xe4
        ]
    );
}

#[test]
fn names_and_keys_make_different_hashes() {
    let (one, other) = (NameHash::new([1; 16]), NameHash::new([2; 16]));
    let mut ids = HashSet::new();
    for row in 0..100_000 {
        let name = format!("doc-{row}");
        let hashed = one.hash(&name).unwrap();
        assert_ne!(hashed.id, u64::MAX);
        assert!(ids.insert(hashed.id) && ids.insert(hashed.check), "{name}");
        assert_ne!(hashed, other.hash(&name).unwrap());
    }
    assert!(!format!("{one:?}").contains('1'), "the key is shown");
}

#[test]
fn names_have_1_to_512_bytes_of_utf8() {
    let hash = NameHash::new([0; 16]);
    let longest = "é".repeat(STRING_ID_BYTES_MAX / 2);
    assert_eq!(hash.hash(&longest), hash.hash_bytes(longest.as_bytes()));
    assert!(hash.hash(&longest).is_ok());
    for bytes in [&[][..], &[b'x'; STRING_ID_BYTES_MAX + 1], &[0xff, 0xfe]] {
        assert_eq!(hash.hash_bytes(bytes).unwrap_err().kind, RefusedKind::BadId);
    }
}
