//! Stemming: words that differ by their ending compare as equal.

use rust_stemmers::{Algorithm, Stemmer};

use crate::error::{QueryError, QueryErrorKind};

/// A language whose words can be stemmed, by the algorithms of Snowball.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Language(usize);

const LANGUAGES: [(&str, Algorithm); 18] = [
    ("arabic", Algorithm::Arabic),
    ("danish", Algorithm::Danish),
    ("dutch", Algorithm::Dutch),
    ("english", Algorithm::English),
    ("finnish", Algorithm::Finnish),
    ("french", Algorithm::French),
    ("german", Algorithm::German),
    ("greek", Algorithm::Greek),
    ("hungarian", Algorithm::Hungarian),
    ("italian", Algorithm::Italian),
    ("norwegian", Algorithm::Norwegian),
    ("portuguese", Algorithm::Portuguese),
    ("romanian", Algorithm::Romanian),
    ("russian", Algorithm::Russian),
    ("spanish", Algorithm::Spanish),
    ("swedish", Algorithm::Swedish),
    ("tamil", Algorithm::Tamil),
    ("turkish", Algorithm::Turkish),
];

impl Language {
    /// The language with this English name in lower case. Errors: `WrongType` for any other name.
    pub fn from_name(name: &str) -> Result<Language, QueryError> {
        LANGUAGES.iter().position(|(of_language, _)| *of_language == name).map(Language).ok_or_else(
            || {
                let names: Vec<_> = LANGUAGES.iter().map(|(name, _)| *name).collect();
                let what =
                    format!("Words of '{name}' cannot be stemmed; choose {}.", names.join(", "));
                QueryError::new(QueryErrorKind::WrongType, 0, what)
            },
        )
    }

    /// The name: `english`.
    pub fn name(self) -> &'static str {
        LANGUAGES[self.0].0
    }

    pub(crate) fn stemmer(self) -> Stemmer {
        Stemmer::create(LANGUAGES[self.0].1)
    }
}
