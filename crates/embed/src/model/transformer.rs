//! A sentence transformer in ONNX, run by ONNX Runtime, which is loaded as a shared library.
//!
//! 1. Texts of about one length share a call of the model: padding costs as much as words.
//! 2. The mean of the last layer over the tokens of a text is its vector; a model that takes the
//!    mean itself gives one vector per text.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use ort::environment::Environment;
use ort::session::builder::GraphOptimizationLevel;
use ort::session::Session;
use ort::value::Tensor;

use super::{normalise, ModelSettings};
use crate::error::EmbedError;
use crate::tokenizer::Tokenizer;

/// Texts of one call of the model. Of 256 glosses of WordNet a core embeds 109 per second by one, 146
/// by eight and 112 by 32 in a call: more texts of unequal length share more padding.
const CALL_TEXTS_MAX: usize = 8;
/// Tokens of a text that are read unless the settings say otherwise.
const TOKENS_MAX: usize = 256;
const TOKENS_LIMIT: usize = 8_192;
const THREADS_LIMIT: usize = 64;

const RUNTIME_VARIABLE: &str = "ORT_DYLIB_PATH";
const RUNTIME_FILE: &str = "libonnxruntime.so";

/// What a sentence transformer is given.
const INPUTS: [&str; 3] = ["input_ids", "attention_mask", "token_type_ids"];

/// The runtime, once per process.
static RUNTIME: OnceLock<Result<Environment, String>> = OnceLock::new();

pub(super) struct Transformer {
    session: Mutex<Session>,
    inputs: Vec<&'static str>,
    dimension: usize,
    tokens_max: usize,
}

impl Transformer {
    pub(super) fn open(
        path: &Path,
        tokenizer: &Tokenizer,
        settings: &ModelSettings,
    ) -> Result<Transformer, EmbedError> {
        let tokens_max = if settings.tokens_max == 0 { TOKENS_MAX } else { settings.tokens_max };
        let threads = settings.threads.max(1);
        let (before, behind) = tokenizer.around();
        if !(before.len() + behind.len() + 1..=TOKENS_LIMIT).contains(&tokens_max)
            || threads > THREADS_LIMIT
        {
            return Err(EmbedError::invalid(format!(
                "A transformer reads {tokens_max} tokens on {threads} threads; give it a few to \
                 {TOKENS_LIMIT}, and {THREADS_LIMIT} threads at most."
            )));
        }
        let runtime = runtime(path, settings)?;
        let session = session(runtime, path, threads)
            .map_err(|error| EmbedError::internal(format!("{}: {error}", path.display())))?;
        let mut inputs = Vec::new();
        for input in session.inputs() {
            let known = INPUTS.into_iter().find(|name| *name == input.name());
            inputs.push(known.ok_or_else(|| {
                EmbedError::unsupported(format!(
                    "{} wants '{}', and a sentence transformer wants {}. Choose another model.",
                    path.display(),
                    input.name(),
                    INPUTS.join(", ")
                ))
            })?);
        }
        let mut made =
            Transformer { session: Mutex::new(session), inputs, dimension: 0, tokens_max };
        let mut probe = Vec::new();
        made.embed(tokenizer, &["a"], &mut probe)?;
        made.dimension = probe.len();
        Ok(made)
    }

    pub(super) fn dimension(&self) -> usize {
        self.dimension
    }

    pub(super) fn embed(
        &self,
        tokenizer: &Tokenizer,
        texts: &[&str],
        out: &mut Vec<f32>,
    ) -> Result<(), EmbedError> {
        let tokens: Vec<Vec<u32>> = texts.iter().map(|text| self.tokens(tokenizer, text)).collect();
        let mut by_length: Vec<usize> = (0..texts.len()).collect();
        by_length.sort_by_key(|at| tokens[*at].len());
        let mut vectors: Vec<Vec<f32>> = vec![Vec::new(); texts.len()];
        for places in by_length.chunks(CALL_TEXTS_MAX) {
            let call: Vec<&[u32]> = places.iter().map(|at| tokens[*at].as_slice()).collect();
            for (at, vector) in places.iter().zip(self.call(&call)?) {
                vectors[*at] = vector;
            }
        }
        vectors.iter().for_each(|vector| out.extend_from_slice(vector));
        Ok(())
    }

    fn tokens(&self, tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
        let (before, behind) = tokenizer.around();
        let mut tokens = before.to_vec();
        tokenizer.tokens(text, &mut tokens);
        tokens.truncate(self.tokens_max - behind.len());
        tokens.extend_from_slice(behind);
        tokens
    }

    /// Runs the model on texts of about one length.
    fn call(&self, texts: &[&[u32]]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let width = texts.iter().map(|tokens| tokens.len()).max().unwrap_or(0);
        if width == 0 {
            return Err(EmbedError::unsupported(
                "The tokenizer puts nothing around a text, and a blank one is no text for a \
                 transformer. Choose another model.",
            ));
        }
        self.run(texts, width).map_err(|error| {
            EmbedError::internal(format!("The transformer failed: {error}. Choose another model."))
        })
    }

    fn run(&self, texts: &[&[u32]], width: usize) -> ort::Result<Vec<Vec<f32>>> {
        let mut given = Vec::with_capacity(self.inputs.len());
        for name in &self.inputs {
            let mut numbers = vec![0_i64; texts.len() * width];
            for (row, tokens) in numbers.chunks_mut(width).zip(texts) {
                for (number, token) in row.iter_mut().zip(*tokens) {
                    *number = match *name {
                        "input_ids" => i64::from(*token),
                        "attention_mask" => 1,
                        _ => 0,
                    };
                }
            }
            let shape = [texts.len() as i64, width as i64];
            given.push((*name, Tensor::from_array((shape, numbers))?));
        }
        // A call that panicked left the session as it was.
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let outputs = session.run(given)?;
        let (shape, numbers) = outputs[0].try_extract_tensor::<f32>()?;
        let dimension = shape.last().copied().unwrap_or(1).max(1) as usize;
        let by_token = shape.len() == 3;
        let stride = if by_token { width * dimension } else { dimension };
        Ok(texts
            .iter()
            .zip(numbers.chunks(stride))
            .map(|(tokens, rows)| {
                let mut vector = vec![0.0; dimension];
                let count = if by_token { tokens.len() } else { 1 };
                for row in rows.chunks(dimension).take(count) {
                    vector.iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
                }
                normalise(&mut vector);
                vector
            })
            .collect())
    }
}

fn session(runtime: &Environment, path: &Path, threads: usize) -> Result<Session, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    Session::builder(runtime)
        .map_err(|error| text(&error))?
        .with_optimization_level(GraphOptimizationLevel::All)
        .map_err(|error| text(&error))?
        .with_intra_threads(threads)
        .map_err(|error| text(&error))?
        .commit_from_file(path)
        .map_err(|error| text(&error))
}

/// Loads the runtime, unless that was done.
fn runtime(model: &Path, settings: &ModelSettings) -> Result<&'static Environment, EmbedError> {
    let file = settings
        .runtime
        .clone()
        .or_else(|| std::env::var_os(RUNTIME_VARIABLE).map(PathBuf::from))
        .unwrap_or_else(|| model.with_file_name(RUNTIME_FILE));
    // Looked for first, because a failure to load is kept: the process tries one file.
    if RUNTIME.get().is_none() && !file.is_file() {
        return Err(EmbedError::io(
            &file,
            "there is no runtime of ONNX, which a transformer needs. Name its shared library, or put \
             it beside the model",
        ));
    }
    let loaded = RUNTIME.get_or_init(|| {
        let builder = ort::init_from(&file).map_err(|error| error.to_string())?;
        builder.with_telemetry(false).build().map_err(|error| error.to_string())
    });
    loaded.as_ref().map_err(|error| {
        EmbedError::new(crate::EmbedErrorKind::Io, format!("{}: {error}.", file.display()))
    })
}
