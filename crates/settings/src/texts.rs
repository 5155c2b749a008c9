//! How a job turns documents into chunks, and texts into vectors.

use std::path::PathBuf;

use serde::Serialize;
use vstream_engine::IdKind;
use vstream_vector::Metric;

use crate::job::JobSettings;
use crate::kafka::{KafkaFormat, KafkaInput};
use crate::section::Section;
use crate::stream::{QuerySource, VectorSource};

/// Records are documents: texts that are cut into chunks, each of which is a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DocumentSettings {
    /// Key of the text in a record.
    pub text: String,
    /// How documents are cut.
    pub chunk: ChunkSettings,
}

/// How documents are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ChunkSettings {
    /// Most characters of a chunk, 16..=8000.
    pub size: u32,
    /// Most characters that a chunk repeats of the one before, at most half of the size.
    pub overlap: u32,
}

/// The model that turns chunks and questions into vectors.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct EmbeddingSettings {
    /// A folder with a tokenizer and a table or a transformer, or one of the latter two files.
    pub model: PathBuf,
    /// The shared library of ONNX Runtime. `None`: beside the model, or named by the environment.
    pub runtime: Option<PathBuf>,
    /// Tokens of a text that a transformer reads, 8..=8192.
    pub tokens: u32,
    /// Threads that a transformer computes with, in each subtask, 1..=64.
    pub threads: u32,
    /// Subtasks that embed chunks, and as many again that embed questions, 1..=4096.
    pub parallelism: u32,
    /// Most texts that are embedded together, 1..=4096.
    pub batch: u32,
}

impl DocumentSettings {
    pub(crate) fn read(section: &Section) -> DocumentSettings {
        let text = section.text("text", Some("text"));
        if ["id", "op", "if", "attributes", "vector"].contains(&text.as_str()) {
            section.note("text", &format!("'{text}' is another part of a record. Name its text."));
        }
        let settings =
            DocumentSettings { text, chunk: ChunkSettings::read(&section.section("chunk")) };
        section.finish();
        settings
    }
}

impl ChunkSettings {
    fn read(section: &Section) -> ChunkSettings {
        let size = section.integer("size", 16..=8_000, Some(500)) as u32;
        // A chunk that is shorter than usual overlaps by less.
        let usual = u64::from(size / 5).min(100);
        let overlap = section.integer("overlap", 0..=4_000, Some(usual)) as u32;
        if overlap > size / 2 {
            let sentence =
                format!("{overlap} is more than half of {size}, the size of a chunk. Lower it.");
            section.note("overlap", &sentence);
        }
        section.finish();
        ChunkSettings { size, overlap }
    }
}

impl EmbeddingSettings {
    pub(crate) fn read(section: &Section) -> EmbeddingSettings {
        let settings = EmbeddingSettings {
            model: section.path("model", None),
            runtime: section.has("runtime").then(|| section.path("runtime", None)),
            tokens: section.integer("tokens", 8..=8_192, Some(256)) as u32,
            threads: section.integer("threads", 1..=64, Some(1)) as u32,
            parallelism: section.integer("parallelism", 1..=4_096, Some(1)) as u32,
            batch: section.integer("batch", 1..=4_096, Some(32)) as u32,
        };
        section.finish();
        settings
    }
}

/// Checks what documents need of the rest of a job.
pub(crate) fn check_together(job: &JobSettings, root: &Section) {
    if job.documents.is_some() != job.embedding.is_some() {
        let (there, missing) = if job.documents.is_some() {
            ("documents", "embedding")
        } else {
            ("embedding", "documents")
        };
        let sentence = format!("this key is missing, and {there} is there. Give both or neither.");
        root.note(missing, &sentence);
    }
    if job.documents.is_none() {
        return;
    }
    let collection = &job.collection;
    if collection.schema.id != IdKind::String {
        root.note("collection.id", "chunks have texts as ids. Set it to string.");
    }
    if collection.metric != Metric::Cosine {
        root.note("collection.metric", "vectors of texts are directions. Set it to cosine.");
    }
    if collection.is_isolated() {
        let sentence = "documents are in no isolated groups. Remove it, or documents.";
        root.note("collection.groups", sentence);
    }
    let is_json = |input: &KafkaInput| input.format == KafkaFormat::Json;
    let vectors = match &job.vectors {
        VectorSource::Generator { .. } => {
            Some(("kind", "a generator makes no texts. Set it to file or kafka."))
        }
        VectorSource::Kafka(input) if !is_json(input) => {
            Some(("format", "documents come as JSON. Set it to json."))
        }
        VectorSource::Kafka(KafkaInput { time_to_live: Some(_), .. }) => {
            Some(("time-to-live", "documents live until they are deleted. Remove it."))
        }
        VectorSource::Kafka(_) | VectorSource::File { .. } => None,
    };
    if let Some((key, sentence)) = vectors {
        root.note(&format!("vectors.{key}"), sentence);
    }
    if let Some(QuerySource::Kafka { input, .. }) = &job.queries {
        if !is_json(input) {
            root.note("queries.format", "questions come as JSON. Set it to json.");
        }
    }
}
