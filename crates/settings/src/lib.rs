//! The schema of VStream's settings.
//!
//! This crate reads a job file (YAML) or a collection's settings (JSON). The result is complete and
//! valid: defaults are filled in, durations are milliseconds, sizes are bytes and paths are
//! absolute. Addresses on other file systems stay unchanged. Invalid settings are refused with all
//! problems at once. Each problem is a sentence that names the key, the value and the remedy.
//! `to_json` writes the normalised form that the JVM reads, and
//! `JobSettings::reference` the list of all keys.
//!
//! Tier 5, an edge: the only crate that knows the settings of `route`, `engine` and `group`.
//!
//! A good first change: suggest the nearest known key for one that is misspelt (`src/section.rs`;
//! its test: `tests/it/refused.rs`).

#![forbid(unsafe_code)]

mod address;
mod collection;
mod document;
mod engine;
mod environment;
mod error;
mod group;
mod inside;
mod job;
mod kafka;
mod known;
mod reference;
mod route;
mod schema;
mod section;
mod stream;
mod texts;
mod units;

pub use address::FolderAddress;
pub use collection::{CollectionSettings, CurveName, EncoderSettings, IndexName};
pub use document::Document;
pub use environment::{read_matrix_header, MatrixHeader};
pub use error::SettingsError;
pub use inside::MergedAudits;
pub use job::{
    CheckpointSettings, FolderSettings, JobSettings, JvmSettings, RebalancePolicy,
    RebalanceSettings, SearchSettings, WhenFull,
};
pub use kafka::{AnswerFormat, Delivery, KafkaFormat, KafkaInput, KafkaOutput, KafkaStart};
pub use schema::GroupingSettings;
pub use stream::{QuerySource, RatioSettings, ResultSink, VectorSource, WorkloadSettings};
pub use texts::{ChunkSettings, DocumentSettings, EmbeddingSettings};
