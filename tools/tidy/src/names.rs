//! Names that say nothing about what a thing is, and files that a history should not hold.

use crate::tree::File;

/// Largest file that may be tracked: a clone stays small for ever.
const BLOB_BYTES_MAX: u64 = 1 << 20;

const EMPTY_WORDS: &[&str] =
    &["util", "utils", "common", "misc", "helper", "helpers", "manager", "impl", "v2"];

/// Files and folders with an empty word in their name: `StreamUtil`, `stream_util`, `util/`.
pub fn names(files: &[File]) -> Vec<String> {
    let mut breaches = Vec::new();
    for path in files.iter().map(|file| &file.path) {
        if let Some(word) = words(path).iter().find(|word| EMPTY_WORDS.contains(&&***word)) {
            breaches.push(format!("{path}: '{word}' says nothing; name what it is"));
        }
    }
    breaches
}

/// The words of a path, in lower case: cut at signs and before capitals.
fn words(path: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in path.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && !before.is_uppercase()) {
            words.push(String::new());
        }
        words.last_mut().expect("a word").extend(c.to_lowercase().filter(|c| c.is_alphanumeric()));
        before = c;
    }
    words
}

/// Files, with their bytes, that are too large.
pub fn blobs(tracked: &[(String, u64)]) -> Vec<String> {
    let large = tracked.iter().filter(|(_, bytes)| *bytes > BLOB_BYTES_MAX);
    large.map(|(path, bytes)| format!("{path}: {bytes} bytes; at most {BLOB_BYTES_MAX}")).collect()
}
