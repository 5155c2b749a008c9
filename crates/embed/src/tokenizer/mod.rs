//! Tokens of a text, as `tokenizer.json` describes them.
//!
//! Two kinds are built in: WordPiece behind BERT's normalisation, and byte pairs behind a mark for
//! each space, as Llama 2 has them. Their tokens are those of the `tokenizers` library, which the
//! tests compare with, but for one thing: the text of a special token, such as `[SEP]`, is text like
//! any other, so that no document can end a sentence of the model.

mod bert;
mod pairs;

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::error::EmbedError;

use bert::WordPiece;
use pairs::BytePairs;

/// Turns texts into the numbers of their tokens.
pub struct Tokenizer {
    kind: Kind,
    before: Vec<u32>,
    behind: Vec<u32>,
}

enum Kind {
    WordPiece(WordPiece),
    BytePairs(BytePairs),
}

impl Tokenizer {
    /// Reads a `tokenizer.json`. Errors: `Io`, `Corrupt`; `Unsupported` if it is of another kind.
    pub fn open(path: &Path) -> Result<Tokenizer, EmbedError> {
        let bytes = fs::read(path).map_err(|error| EmbedError::io(path, error))?;
        let file: Value =
            serde_json::from_slice(&bytes).map_err(|error| EmbedError::corrupt(path, error))?;
        let kind = match file["model"]["type"].as_str() {
            Some("WordPiece") => Kind::WordPiece(WordPiece::read(path, &file)?),
            Some("BPE") => Kind::BytePairs(BytePairs::read(path, &file)?),
            other => {
                let found = other.unwrap_or("none");
                return Err(unsupported(path, &format!("a model of tokens of kind '{found}'")));
            }
        };
        let (before, behind) = template(path, &file)?;
        Ok(Tokenizer { kind, before, behind })
    }

    /// Appends the tokens of `text`, without those that a transformer wants around them.
    pub fn tokens(&self, text: &str, out: &mut Vec<u32>) {
        match &self.kind {
            Kind::WordPiece(words) => words.tokens(text, out),
            Kind::BytePairs(pairs) => pairs.tokens(text, out),
        }
    }

    /// The tokens before and behind those of a text, for a transformer.
    pub fn around(&self) -> (&[u32], &[u32]) {
        (&self.before, &self.behind)
    }

    /// The largest number of a token.
    pub fn last_token(&self) -> u32 {
        match &self.kind {
            Kind::WordPiece(words) => words.last_token(),
            Kind::BytePairs(pairs) => pairs.last_token(),
        }
    }
}

fn unsupported(path: &Path, what: &str) -> EmbedError {
    EmbedError::unsupported(format!(
        "{}: it has {what}, and WordPiece of BERT and byte pairs of Llama 2 are built in. Choose \
         another model.",
        path.display()
    ))
}

/// Tokens around a single text, from the post-processor.
fn template(path: &Path, file: &Value) -> Result<(Vec<u32>, Vec<u32>), EmbedError> {
    let (mut before, mut behind, mut seen) = (Vec::new(), Vec::new(), false);
    let Some(parts) = file["post_processor"]["single"].as_array() else {
        return Ok((before, behind));
    };
    for part in parts {
        let Some(name) = part["SpecialToken"]["id"].as_str() else {
            seen = true;
            continue;
        };
        let ids = &file["post_processor"]["special_tokens"][name]["ids"];
        let id = ids[0].as_u64().and_then(|id| u32::try_from(id).ok());
        let id = id.ok_or_else(|| EmbedError::corrupt(path, format!("'{name}' has no number")))?;
        if seen { &mut behind } else { &mut before }.push(id);
    }
    Ok((before, behind))
}

/// A token's number. Errors: `Corrupt` if it is none.
fn number(path: &Path, token: &str, value: &Value) -> Result<u32, EmbedError> {
    let found = value.as_u64().and_then(|id| u32::try_from(id).ok());
    found.ok_or_else(|| EmbedError::corrupt(path, format!("the token '{token}' has no number")))
}
