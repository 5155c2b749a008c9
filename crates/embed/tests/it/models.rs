//! What models and tokenizers give is what the libraries gave that wrote the fixtures.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{json, Value};
use vstream_embed::{EmbedErrorKind, Model, ModelKind, ModelSettings, Tokenizer, TEXT_BYTES_MAX};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn open(path: &Path) -> Result<Model, EmbedErrorKind> {
    Model::open(path, &ModelSettings::default()).map_err(|error| error.kind())
}

fn cases(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(fixture(name).join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn tokens_are_those_of_the_reference() {
    for name in ["words", "pairs"] {
        let tokenizer = Tokenizer::open(&fixture(name).join("tokenizer.json")).unwrap();
        for case in cases(name) {
            let (text, expected) = (case["text"].as_str().unwrap(), &case["ids"]);
            // Once more, because words are kept.
            for _ in 0..2 {
                let mut found = Vec::new();
                tokenizer.tokens(text, &mut found);
                assert_eq!(&json!(found), expected, "{name}: {text:?}");
            }
        }
    }
}

#[test]
fn vectors_of_a_table_are_those_of_the_reference() {
    for name in ["words", "pairs"] {
        let model = open(&fixture(name)).unwrap();
        assert_eq!((model.kind(), model.dimension()), (ModelKind::Static, 8));
        let cases = cases(name);
        let texts: Vec<&str> = cases.iter().map(|case| case["text"].as_str().unwrap()).collect();
        let mut found = Vec::new();
        model.embed(&texts, &mut found).unwrap();
        for (case, vector) in cases.iter().zip(found.chunks(8)) {
            for (expected, number) in case["vector"].as_array().unwrap().iter().zip(vector) {
                let apart = expected.as_f64().unwrap() - f64::from(*number);
                assert!(apart.abs() < 1e-5, "{name}: {}: {apart}", case["text"]);
            }
        }
    }
}

#[test]
fn a_fingerprint_changes_with_the_files() {
    let (words, pairs) = (open(&fixture("words")).unwrap(), open(&fixture("pairs")).unwrap());
    assert_eq!(words.fingerprint().len(), 16);
    assert_ne!(words.fingerprint(), pairs.fingerprint());
    let file = open(&fixture("words").join("model.safetensors")).unwrap();
    assert_eq!(words.fingerprint(), file.fingerprint());
}

#[test]
fn long_texts_are_refused_and_change_nothing() {
    let model = open(&fixture("pairs")).unwrap();
    let (long, mut out) = ("a".repeat(TEXT_BYTES_MAX + 1), Vec::new());
    let refused = model.embed(&["a", &long], &mut out).unwrap_err();
    assert_eq!(refused.kind(), EmbedErrorKind::Invalid);
    assert!(refused.message().starts_with("Text 1 has 65537 bytes"), "{refused}");
    assert!(out.is_empty());
    model.embed(&[&long[1..]], &mut out).unwrap();
    assert_eq!(out.len(), 8);
}

#[test]
fn files_that_are_no_model_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(open(dir.path()).err(), Some(EmbedErrorKind::Io));
    assert_eq!(open(&fixture("make.py")).err(), Some(EmbedErrorKind::Unsupported));
    let (weights, tokens) =
        (dir.path().join("model.safetensors"), dir.path().join("tokenizer.json"));
    let whole = fs::read(fixture("words").join("model.safetensors")).unwrap();
    fs::write(&weights, &whole).unwrap();
    assert_eq!(open(dir.path()).err(), Some(EmbedErrorKind::Io), "no tokenizer");
    fs::write(&tokens, r#"{"model": {"type": "Unigram"}}"#).unwrap();
    assert_eq!(open(dir.path()).err(), Some(EmbedErrorKind::Unsupported));
    fs::write(&tokens, "{").unwrap();
    assert_eq!(open(dir.path()).err(), Some(EmbedErrorKind::Corrupt));
    fs::copy(fixture("words").join("tokenizer.json"), &tokens).unwrap();
    assert!(open(dir.path()).is_ok());
    for cut in [0, 7, 40, whole.len() - 1] {
        fs::write(&weights, &whole[..cut]).unwrap();
        assert_eq!(open(dir.path()).err(), Some(EmbedErrorKind::Corrupt), "{cut} bytes");
    }
    fs::copy(fixture("pairs").join("model.safetensors"), &weights).unwrap();
    fs::write(&tokens, fs::read(fixture("pairs").join("tokenizer.json")).unwrap()).unwrap();
    assert!(open(dir.path()).is_ok());
}

/// Where a runtime is, `ORT_DYLIB_PATH` names it; the tests of Python embed with it.
#[test]
fn a_transformer_without_its_runtime_says_what_is_missing() {
    let runtime = Some(PathBuf::from("no/such/libonnxruntime.so"));
    let settings = ModelSettings { runtime, ..ModelSettings::default() };
    let refused = Model::open(&fixture("words/transformer"), &settings).err().unwrap();
    assert_eq!(refused.kind(), EmbedErrorKind::Io);
    assert!(refused.message().contains("no runtime of ONNX"), "{refused}");
}
