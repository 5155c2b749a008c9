//! The one schema of VStream's settings.
//!
//! This crate reads a job file (YAML) or a collection's settings (JSON) once. The result is complete
//! and within its ranges: defaults are filled, durations are milliseconds, sizes are bytes, paths are
//! absolute, and addresses of other file systems stay as they are. It refuses a bad file with all its
//! problems at once, each a sentence that names the key, the value and the remedy. `to_json` writes
//! the normalised form that the JVM reads, and `JobSettings::reference` the list of all keys.
//!
//! Tier 4, an edge: the only place where the settings of `route` and of `engine` meet.

#![forbid(unsafe_code)]

mod address;
mod collection;
mod document;
mod engine;
mod environment;
mod error;
mod inside;
mod job;
mod kafka;
mod known;
mod reference;
mod route;
mod section;
mod stream;
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
pub use stream::{QuerySource, RatioSettings, ResultSink, VectorSource, WorkloadSettings};
