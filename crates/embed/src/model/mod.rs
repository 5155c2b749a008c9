//! Models: a table of token vectors, or a sentence transformer.

mod table;
mod transformer;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::EmbedError;
use crate::tokenizer::Tokenizer;

use table::Table;
use transformer::Transformer;

/// Longest text of a call, in bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 16;

const TABLE_FILE: &str = "model.safetensors";
const TRANSFORMER_FILE: &str = "model.onnx";
const TOKENIZER_FILE: &str = "tokenizer.json";

/// Digits of the fingerprint.
const FINGERPRINT_DIGITS: usize = 16;

/// How a model is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelSettings {
    /// The shared library of ONNX Runtime, 1.17 or newer; for a transformer alone. `None`: the file
    /// named by the variable `ORT_DYLIB_PATH`, or `libonnxruntime.so` beside the model. A process
    /// loads the first one that it is given.
    pub runtime: Option<PathBuf>,
    /// Tokens of a text that a transformer reads, the two around it included; the rest is cut off.
    /// 0: 256.
    pub tokens_max: usize,
    /// Threads that a transformer computes with. 0: one, that of the caller.
    pub threads: usize,
}

/// Kinds of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// The mean of a vector per token, from a table: some ten thousand short texts per second.
    Static,
    /// The mean of a transformer's last layer: some hundred short texts per second.
    Transformer,
}

impl ModelKind {
    /// Its name: `static` or `transformer`.
    pub fn name(self) -> &'static str {
        match self {
            ModelKind::Static => "static",
            ModelKind::Transformer => "transformer",
        }
    }
}

/// Turns texts into vectors of length 1.
///
/// ```no_run
/// use vstream_embed::{Model, ModelSettings};
///
/// let model = Model::open("data/models/static".as_ref(), &ModelSettings::default())?;
/// let mut vectors = Vec::new();
/// model.embed(&["the cost of war", "a good harvest"], &mut vectors)?;
/// assert_eq!(vectors.len(), 2 * model.dimension());
/// # Ok::<(), vstream_embed::EmbedError>(())
/// ```
pub struct Model {
    tokenizer: Tokenizer,
    form: Form,
    fingerprint: String,
}

enum Form {
    Static(Table),
    Transformer(Box<Transformer>),
}

impl Model {
    /// Opens the model at `path`: a folder with `tokenizer.json` and with `model.safetensors` (one
    /// matrix of `F16` or `F32`, a row per token) or `model.onnx`; or one of the latter two files.
    /// In a folder with both the transformer is taken.
    ///
    /// Errors: `Io`, `Corrupt`, `Unsupported`; `Internal` if the runtime of ONNX fails.
    pub fn open(path: &Path, settings: &ModelSettings) -> Result<Model, EmbedError> {
        let file = weights(path)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let tokenizer = Tokenizer::open(&folder.join(TOKENIZER_FILE))?;
        let form = if file.extension().is_some_and(|extension| extension == "onnx") {
            Form::Transformer(Box::new(Transformer::open(&file, &tokenizer, settings)?))
        } else {
            Form::Static(Table::open(&file, tokenizer.last_token())?)
        };
        let fingerprint = fingerprint(&[&file, &folder.join(TOKENIZER_FILE)])?;
        Ok(Model { tokenizer, form, fingerprint })
    }

    /// The kind of the model.
    pub fn kind(&self) -> ModelKind {
        match self.form {
            Form::Static(_) => ModelKind::Static,
            Form::Transformer(_) => ModelKind::Transformer,
        }
    }

    /// Numbers per vector.
    pub fn dimension(&self) -> usize {
        match &self.form {
            Form::Static(table) => table.dimension(),
            Form::Transformer(transformer) => transformer.dimension(),
        }
    }

    /// Sixteen hexadecimal digits that change with the files of the model: vectors of models with
    /// different ones must not meet.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Appends a vector of length 1 for each text; zeros for a text without tokens. The same text
    /// has the same vector in any batch of a static model, and nearly so with a transformer.
    ///
    /// Cost: a static model reads a row per token. Errors: `Invalid` if a text is longer than
    /// [`TEXT_BYTES_MAX`], and then nothing is appended; `Internal` if the runtime fails.
    pub fn embed(&self, texts: &[&str], out: &mut Vec<f32>) -> Result<(), EmbedError> {
        if let Some(at) = texts.iter().position(|text| text.len() > TEXT_BYTES_MAX) {
            return Err(EmbedError::invalid(format!(
                "Text {at} has {} bytes; cut it into parts of {TEXT_BYTES_MAX} at most.",
                texts[at].len()
            )));
        }
        match &self.form {
            Form::Static(table) => {
                let mut tokens = Vec::new();
                for text in texts {
                    tokens.clear();
                    self.tokenizer.tokens(text, &mut tokens);
                    table.mean(&tokens, out);
                }
                Ok(())
            }
            Form::Transformer(transformer) => transformer.embed(&self.tokenizer, texts, out),
        }
    }
}

/// The file of weights that `path` names.
fn weights(path: &Path) -> Result<PathBuf, EmbedError> {
    if path.is_file() {
        let known = path.extension().is_some_and(|ext| ext == "onnx" || ext == "safetensors");
        return if known {
            Ok(path.to_owned())
        } else {
            Err(EmbedError::unsupported(format!(
                "{} is no model: name a folder, a .onnx or a .safetensors file.",
                path.display()
            )))
        };
    }
    [TRANSFORMER_FILE, TABLE_FILE]
        .map(|name| path.join(name))
        .into_iter()
        .find(|file| file.is_file())
        .ok_or_else(|| {
            EmbedError::io(path, format!("there is no {TRANSFORMER_FILE} and no {TABLE_FILE}"))
        })
}

fn fingerprint(files: &[&Path]) -> Result<String, EmbedError> {
    let mut hash = Sha256::new();
    let mut block = vec![0; 1 << 16];
    for path in files {
        let failed = |error: io::Error| EmbedError::io(path, error);
        let mut file = File::open(path).map_err(failed)?;
        loop {
            let read = file.read(&mut block).map_err(failed)?;
            if read == 0 {
                break;
            }
            hash.update(&block[..read]);
        }
    }
    let digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(digits[..FINGERPRINT_DIGITS].to_owned())
}

/// Scales a vector to length 1; zeros stay.
fn normalise(vector: &mut [f32]) {
    let norm = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    if norm > 0.0 {
        let scale = (1.0 / norm) as f32;
        vector.iter_mut().for_each(|x| *x *= scale);
    }
}
