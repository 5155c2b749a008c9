//! Keys that requests must have.
//!
//! A key is 32 random bytes in hexadecimal. The file holds their SHA-256 alone: random keys need no
//! slow hash. Every key has a name, for the audit log, and says what it may do.

use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::Access;

/// What a key may do. All may ask, and `Admin` may do everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Ask.
    Read,
    /// Be a replica: fetch files and follow what is written.
    Follow,
    /// Change rows.
    Write,
    /// Make and drop collections.
    Admin,
}

impl Scope {
    /// True if a key of this scope may do what needs the scope `wanted`.
    pub(super) fn allows(self, wanted: Scope) -> bool {
        self == Scope::Admin || self == wanted || wanted == Scope::Read
    }
}

/// A key as the file has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    name: String,
    /// SHA-256 of the key, in hexadecimal.
    sha256: String,
    scope: Scope,
    /// Collections that it may use; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    collections: Option<Vec<String>>,
}

/// The keys of a server.
#[derive(Clone, Debug)]
pub struct KeyFile {
    keys: Vec<(Key, [u8; 32])>,
}

/// A new key, and the entry of the file that stands for it: `{"keys": [ENTRY, …]}`.
///
/// Errors: a sentence, if the system has no random bytes.
pub fn new_key(
    name: &str,
    scope: Scope,
    collections: &[String],
) -> Result<(String, String), String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| format!("no random bytes: {error}"))?;
    let secret = hex(&bytes);
    let entry = Key {
        name: name.to_owned(),
        sha256: hex(&hash(&secret)),
        scope,
        collections: (!collections.is_empty()).then(|| collections.to_vec()),
    };
    let entry = serde_json::to_string(&entry).map_err(|error| error.to_string())?;
    Ok((secret, entry))
}

impl KeyFile {
    /// Reads `{"keys": [{"name": …, "sha256": …, "scope": "read", "collections": […]}, …]}`. Errors: a
    /// sentence with what is wrong, which names no hash.
    pub fn read(path: &Path) -> Result<KeyFile, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("the keys cannot be read: {}: {error}", path.display()))?;
        KeyFile::parse(&text)
    }

    fn parse(text: &str) -> Result<KeyFile, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Keys {
            keys: Vec<Key>,
        }
        let Keys { keys } =
            serde_json::from_str(text).map_err(|error| format!("the keys are wrong: {error}"))?;
        if keys.is_empty() {
            return Err("there is no key: nobody could ask anything".to_owned());
        }
        let with_hash = |key: Key| {
            let bytes = bytes_of(&key.sha256);
            let bytes = bytes.ok_or_else(|| {
                format!("the key '{}' has no SHA-256 of 64 hexadecimal digits", key.name)
            });
            bytes.map(|bytes| (key, bytes))
        };
        Ok(KeyFile { keys: keys.into_iter().map(with_hash).collect::<Result<_, _>>()? })
    }

    /// What a key may do; `None` if it is none. Takes the same time for every key of a length.
    pub(crate) fn access(&self, secret: &str) -> Option<Access> {
        let given = hash(secret);
        let (mut found, mut is_found) = (0u32, Choice::from(0));
        for (at, (_, hash)) in (0..).zip(&self.keys) {
            let is_this = hash.ct_eq(&given);
            found.conditional_assign(&at, is_this);
            is_found |= is_this;
        }
        bool::from(is_found).then(|| {
            let key = &self.keys[found as usize].0;
            Access::of(&key.name, key.scope, key.collections.as_deref())
        })
    }
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(hex: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_opens_what_its_entry_says() {
        let (read, entry) = new_key("reader", Scope::Read, &["news".to_owned()]).unwrap();
        let (admin, other) = new_key("owner", Scope::Admin, &[]).unwrap();
        assert!(!entry.contains(&read));
        let keys = KeyFile::parse(&format!(r#"{{"keys": [{entry}, {other}]}}"#)).unwrap();
        let access = keys.access(&read).unwrap();
        assert!(access.may(Scope::Read, Some("news")).is_ok());
        assert!(access.may(Scope::Write, Some("news")).is_err());
        assert!(access.may(Scope::Read, Some("olds")).is_err());
        assert!(access.may(Scope::Read, None).is_err(), "all collections");
        assert!(keys.access(&admin).unwrap().may(Scope::Admin, Some("olds")).is_ok());
        for wrong in ["", "x", &read[1..], &read.to_uppercase()] {
            assert!(keys.access(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn files_that_would_let_nobody_or_anybody_in_are_refused() {
        let entry = |hash: &str| format!(r#"{{"name": "a", "sha256": "{hash}", "scope": "read"}}"#);
        for bad in [
            "".to_owned(),
            "{}".to_owned(),
            r#"{"keys": []}"#.to_owned(),
            format!(r#"{{"keys": [{}]}}"#, entry("")),
            format!(r#"{{"keys": [{}]}}"#, entry(&"z".repeat(64))),
            format!(r#"{{"keys": [{}]}}"#, entry(&"0".repeat(64)).replace("read", "all")),
        ] {
            assert!(KeyFile::parse(&bad).is_err(), "{bad}");
        }
    }
}
