//! Mailboxes as groups have them: a subject, a body, a moment, a folder, stars; some are missing.

use vstream_attribute::{AttributeKind, Attributes, AttributesBuilder, Schema, ValueRef};
use vstream_vector::SplitMix;

pub const SUBJECT: u16 = 0;
pub const SENT: u16 = 1;
pub const FOLDER: u16 = 2;
pub const STARS: u16 = 3;
pub const BODY: u16 = 4;
pub const NOW_MS: i64 = 1_700_000_000_000;

pub fn schema() -> Schema {
    Schema::new([
        ("subject", AttributeKind::Text),
        ("sent", AttributeKind::Timestamp),
        ("folder", AttributeKind::Keyword),
        ("stars", AttributeKind::I64),
        ("body", AttributeKind::Text),
    ])
    .expect("a schema")
}

/// A mail as its sender wrote it, and as it is stored.
pub struct Mail {
    pub subject: Option<String>,
    pub body: Option<String>,
    pub sent_ms: Option<i64>,
    pub folder: Option<&'static str>,
    pub stars: Option<i64>,
    bytes: Vec<u8>,
}

impl Mail {
    pub fn attributes(&self) -> Attributes<'_> {
        Attributes::decode(&self.bytes).expect("attributes")
    }

    /// The texts by column.
    pub fn texts(&self) -> [(u16, Option<&str>); 2] {
        [(SUBJECT, self.subject.as_deref()), (BODY, self.body.as_deref())]
    }
}

/// Word number `rank` of a language of `words` words: some begin alike, as prefixes need it.
pub fn word(rank: usize) -> String {
    let syllables = ["ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu"];
    let mut rest = rank + 1;
    let mut word = String::new();
    while rest > 0 {
        word.push_str(syllables[rest % 10]);
        rest /= 10;
    }
    word
}

/// A word of a language in which the number of a word says how rare it is.
pub fn random_word(random: &mut SplitMix, words: usize) -> String {
    let rank = (words as f64).powf(f64::from(random.unit())) as usize - 1;
    word(rank)
}

/// Words in mixed case between spaces and signs that are no words.
pub fn random_text(random: &mut SplitMix, words: usize, length: usize) -> String {
    let mut text = String::new();
    for _ in 0..length {
        let word = random_word(random, words);
        match random.below(8) {
            0 => text.push_str(&word.to_uppercase()),
            1 => {
                text.push_str(&word[..1].to_uppercase());
                text.push_str(&word[1..]);
            }
            _ => text.push_str(&word),
        }
        text.push_str([" ", " ", " ", ", ", " - ", "! ", "/", "\n"][random.below(8)]);
    }
    text
}

/// A mailbox. Texts use a language of `words` words.
pub fn mails(random: &mut SplitMix, count: usize, words: usize) -> Vec<Mail> {
    let (schema, mut builder) = (schema(), AttributesBuilder::default());
    (0..count)
        .map(|_| {
            let mut text = |one_in: usize, words_mean: usize| {
                let length = random_length(random, words_mean);
                (random.below(one_in) > 0).then(|| random_text(random, words, length))
            };
            let (subject, body) = (text(10, 8), text(20, 60));
            let sent_ms =
                (random.below(10) > 0).then(|| NOW_MS - random.below(200 * 86_400) as i64 * 1_000);
            let folder = [Some("inbox"), Some("sent"), Some("spam"), None][random.below(4)];
            let stars = (random.below(3) == 0).then(|| random.below(6) as i64);
            builder.clear();
            let values = [
                (SUBJECT, subject.as_deref().map(ValueRef::Text)),
                (SENT, sent_ms.map(ValueRef::Timestamp)),
                (FOLDER, folder.map(ValueRef::Keyword)),
                (STARS, stars.map(ValueRef::I64)),
                (BODY, body.as_deref().map(ValueRef::Text)),
            ];
            for (column, value) in values {
                if let Some(value) = value {
                    builder.set(&schema, column, &value).expect("a value");
                }
            }
            let bytes = builder.build().bytes().to_vec();
            Mail { subject, body, sent_ms, folder, stars, bytes }
        })
        .collect()
}

fn random_length(random: &mut SplitMix, mean: usize) -> usize {
    random.below(2 * mean)
}

/// The words of a text by other means than the crate's: runs of letters and digits, in lower case.
/// Equal for texts of this module, which have no words with signs inside.
pub fn plain_words(text: &str) -> Vec<String> {
    let runs = text.split(|c: char| !c.is_alphanumeric());
    runs.filter(|run| !run.is_empty()).map(str::to_lowercase).collect()
}
