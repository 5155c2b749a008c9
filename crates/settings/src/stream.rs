//! The sources of vectors and queries, their rates, and the destination of answers.

use std::path::PathBuf;

use serde::Serialize;

use crate::kafka::{KafkaInput, KafkaOutput};
use crate::section::Section;
use crate::units;

/// Largest number of neighbours that a query may ask for.
pub(crate) const K_MAX: u64 = 1000;

/// A higher rate of records per second is regarded as a typing error.
const RATE_MAX: u64 = 100_000_000;

/// A month, in milliseconds.
const DURATION_MAX: u64 = 30 * 86_400_000;

/// A number of records that no run reaches.
const RECORDS_MAX: u64 = 1 << 48;

/// The source of inserts, updates and deletes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum VectorSource {
    /// Rows of a matrix file, at a given rate and mix.
    Generator {
        /// A `.fbin`, `.u8bin` or `.i8bin` file.
        path: PathBuf,
        /// Rows that are inserted at full speed before the measured phase.
        preload: u64,
        /// Records after the preload. 0: until the duration is over.
        limit: u64,
    },
    /// JSON lines: `{"id": 1, "vector": [..]}` or `{"id": 1, "op": "delete"}`.
    File {
        /// The file.
        path: PathBuf,
    },
    /// An endless Kafka topic.
    Kafka(KafkaInput),
}

/// The source of queries.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum QuerySource {
    /// Rows of a matrix file, repeated endlessly.
    Generator {
        /// A `.fbin`, `.u8bin` or `.i8bin` file.
        path: PathBuf,
        /// Neighbours per answer, 1..=1000.
        k: u32,
    },
    /// JSON lines: `{"query_id": 1, "vector": [..], "k": 10}`.
    File {
        /// The file.
        path: PathBuf,
        /// Neighbours per answer if a line has no `k`, 1..=1000.
        k: u32,
    },
    /// An endless Kafka topic.
    Kafka {
        /// The topic and how to read it.
        #[serde(flatten)]
        input: KafkaInput,
        /// Neighbours per answer if a record has no `k`, 1..=1000.
        k: u32,
    },
}

/// The mix and the rate of generated records.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct WorkloadSettings {
    /// Ratio of queries, inserts and deletes.
    pub ratio: RatioSettings,
    /// Records per second, including queries. 0: as fast as back-pressure allows.
    pub rate: u64,
    /// Milliseconds of the stream after the preload. 0: until the limit is reached.
    pub duration: u64,
    /// Milliseconds at the beginning of the stream that are not measured.
    pub warm_up: u64,
}

/// Queries : inserts : deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RatioSettings {
    /// Share of queries.
    pub queries: u32,
    /// Share of inserts.
    pub inserts: u32,
    /// Share of deletes, at most the share of inserts.
    pub deletes: u32,
}

/// The destination of answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ResultSink {
    /// Answers are counted and dropped.
    Blackhole,
    /// The command prints one line of JSON per answer to standard output.
    Console,
    /// JSON lines.
    File {
        /// The file, or the folder in which the sink writes its part files.
        path: PathBuf,
    },
    /// A Kafka topic.
    Kafka(KafkaOutput),
}

#[derive(Clone, Copy, PartialEq)]
enum SourceKind {
    Generator,
    File,
    Kafka,
}

const SOURCES: &[(&str, SourceKind)] = &[
    ("generator", SourceKind::Generator),
    ("file", SourceKind::File),
    ("kafka", SourceKind::Kafka),
];

#[derive(Clone, Copy, PartialEq)]
enum SinkKind {
    Blackhole,
    Console,
    File,
    Kafka,
}

const SINKS: &[(&str, SinkKind)] = &[
    ("blackhole", SinkKind::Blackhole),
    ("console", SinkKind::Console),
    ("file", SinkKind::File),
    ("kafka", SinkKind::Kafka),
];

impl VectorSource {
    pub(crate) fn read(section: &Section) -> VectorSource {
        let source = match section.choice("kind", "a source", SOURCES, None) {
            SourceKind::Generator => VectorSource::Generator {
                path: section.path("path", None),
                preload: section.integer("preload", 0..=RECORDS_MAX, Some(0)),
                limit: section.integer("limit", 0..=RECORDS_MAX, Some(0)),
            },
            SourceKind::File => VectorSource::File { path: section.path("path", None) },
            SourceKind::Kafka => VectorSource::Kafka(KafkaInput::read_vectors(section)),
        };
        section.finish();
        source
    }

    /// True if rows are deleted after a time to live.
    pub(crate) fn has_time_to_live(&self) -> bool {
        matches!(self, VectorSource::Kafka(KafkaInput { time_to_live: Some(_), .. }))
    }

    /// The path of the input file, if the source is a file.
    pub fn path(&self) -> Option<&PathBuf> {
        match self {
            VectorSource::Generator { path, .. } | VectorSource::File { path } => Some(path),
            VectorSource::Kafka(_) => None,
        }
    }
}

impl QuerySource {
    pub(crate) fn read(section: &Section) -> QuerySource {
        let kind = section.choice("kind", "a source", SOURCES, None);
        let k = section.integer("k", 1..=K_MAX, Some(10)) as u32;
        let path = || section.path("path", None);
        let source = match kind {
            SourceKind::Generator => QuerySource::Generator { path: path(), k },
            SourceKind::File => QuerySource::File { path: path(), k },
            SourceKind::Kafka => QuerySource::Kafka { input: KafkaInput::read_queries(section), k },
        };
        section.finish();
        source
    }

    /// The path of the input file, if the source is a file.
    pub fn path(&self) -> Option<&PathBuf> {
        match self {
            QuerySource::Generator { path, .. } | QuerySource::File { path, .. } => Some(path),
            QuerySource::Kafka { .. } => None,
        }
    }
}

impl Default for WorkloadSettings {
    /// No rate, no limit and no warm-up.
    fn default() -> WorkloadSettings {
        let ratio = RatioSettings { queries: 1, inserts: 3, deletes: 1 };
        WorkloadSettings { ratio, rate: 0, duration: 0, warm_up: 0 }
    }
}

impl WorkloadSettings {
    pub(crate) fn read(section: &Section) -> WorkloadSettings {
        let ratio = RatioSettings::read(&section.section("ratio"));
        let workload = WorkloadSettings {
            ratio,
            rate: section.integer("rate", 0..=RATE_MAX, Some(0)),
            duration: section.duration_ms("duration", 0..=DURATION_MAX, 0),
            warm_up: section.duration_ms("warm-up", 0..=DURATION_MAX, 0),
        };
        if workload.duration > 0 && workload.warm_up >= workload.duration {
            section.note(
                "warm-up",
                &format!(
                    "it takes the whole duration of {}, so nothing would be measured. Make it \
                     shorter.",
                    units::duration_text(workload.duration)
                ),
            );
        }
        if ratio.queries + ratio.inserts + ratio.deletes == 0 {
            section.note(
                "ratio",
                "queries, inserts and deletes are all 0, so nothing would be sent. Give at least \
                 one of them a share, such as {queries: 1, inserts: 3, deletes: 1}.",
            );
        }
        if ratio.deletes > ratio.inserts {
            section.note(
                "ratio",
                &format!(
                    "{} deletes to {} inserts would run out of rows to delete. Give deletes at most \
                     the share of inserts.",
                    ratio.deletes, ratio.inserts
                ),
            );
        }
        section.finish();
        workload
    }
}

impl RatioSettings {
    fn read(section: &Section) -> RatioSettings {
        // A given ratio is complete: a missing share is 0 and not the default.
        let given = ["queries", "inserts", "deletes"].iter().any(|key| section.has(key));
        let default = |share: u64| Some(if given { 0 } else { share });
        let ratio = RatioSettings {
            queries: section.integer("queries", 0..=1000, default(1)) as u32,
            inserts: section.integer("inserts", 0..=1000, default(3)) as u32,
            deletes: section.integer("deletes", 0..=1000, default(1)) as u32,
        };
        section.finish();
        ratio
    }
}

impl ResultSink {
    pub(crate) fn read(section: &Section) -> ResultSink {
        let sink = match section.choice("kind", "a sink", SINKS, Some(SinkKind::Blackhole)) {
            SinkKind::Blackhole => ResultSink::Blackhole,
            SinkKind::Console => ResultSink::Console,
            SinkKind::File => ResultSink::File { path: section.path("path", None) },
            SinkKind::Kafka => ResultSink::Kafka(KafkaOutput::read(section)),
        };
        section.finish();
        sink
    }
}
