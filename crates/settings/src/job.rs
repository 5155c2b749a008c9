//! Settings of one job: its collection, its streams and how it runs.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};
use vstream_engine::DeleteOrder;
use vstream_route::{ROWS_PER_CELL, SHARDS_MAX};

use crate::address::FolderAddress;
use crate::collection::{CollectionSettings, EncoderSettings};
use crate::document::Document;
use crate::environment;
use crate::error::SettingsError;
use crate::section::{Notes, Section};
use crate::stream::{QuerySource, ResultSink, VectorSource, WorkloadSettings};
use crate::texts::{self, DocumentSettings, EmbeddingSettings};

/// Largest parallelism of any collection: one partition for each shard.
const PARALLELISM_MAX: u64 = SHARDS_MAX as u64;

/// Complete and validated settings of one job.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct JobSettings {
    /// The job's name in Flink and in messages.
    pub name: String,
    /// Number of partitions, which are the subtasks of the search operator, 1 to the shards of the collection.
    pub parallelism: u32,
    /// The collection to index.
    pub collection: CollectionSettings,
    /// The source of vectors.
    pub vectors: VectorSource,
    /// The source of queries. `None`: the job only ingests.
    pub queries: Option<QuerySource>,
    /// Records are documents. `None`: they come with vectors.
    pub documents: Option<DocumentSettings>,
    /// The model that embeds documents and questions.
    pub embedding: Option<EmbeddingSettings>,
    /// Mix and rate of the generated records.
    pub workload: WorkloadSettings,
    /// The destination of answers.
    pub results: ResultSink,
    /// Number of first vectors of the stream on which the encoder is trained.
    pub training_sample: usize,
    /// How long the merge waits for partial answers, in milliseconds.
    pub merge_deadline: u64,
    /// Share of the queries that are answered exactly too, to measure recall, 0..=1.
    pub audit_share: f64,
    /// When and how ranges of codes move to another partition.
    pub rebalance: RebalanceSettings,
    /// How partitions answer.
    pub search: SearchSettings,
    /// How partitions answer questions from outside. `None`: they do not.
    pub reads: Option<ReadSettings>,
    /// Checkpoints. `None`: the job makes none.
    pub checkpoint: Option<CheckpointSettings>,
    /// Private local folder of the engines.
    pub state: FolderSettings,
    /// Folder for a snapshot of every partition, which is written when the job ends by itself.
    /// `None`: no snapshot.
    pub snapshot: Option<FolderSettings>,
    /// The Java virtual machine that runs the job.
    pub jvm: JvmSettings,
    /// Switches for failure tests. They are passed on without validation.
    pub faults: Map<String, Value>,
}

/// When and how ranges of codes move to another partition, with the encoder `cells` and with `lsh`
/// of one family.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RebalanceSettings {
    /// How ranges are chosen.
    pub policy: RebalancePolicy,
    /// Milliseconds between two checks of the loads, at least 100.
    pub interval: u64,
    /// Ranges move if the load of the fullest partition exceeds this many times the mean, 1.06 to
    /// 100.
    pub trigger: f64,
}

/// How a plan chooses the ranges that move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RebalancePolicy {
    /// No range moves.
    None,
    /// Single cells move from the fullest partitions to the emptiest.
    Cells,
    /// Boundaries between neighbouring partitions shift, as in the VStream paper: those of ranges of
    /// hash codes with `lsh`, and of learned cells with `cells`.
    Boundary,
}

const POLICIES: &[(&str, RebalancePolicy)] = &[
    ("none", RebalancePolicy::None),
    ("cells", RebalancePolicy::Cells),
    ("boundary", RebalancePolicy::Boundary),
];

/// How a partition answers queries.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SearchSettings {
    /// Search threads beside the partition's own thread. With 0, the partition's own thread
    /// searches.
    pub threads: u32,
    /// Largest number of searches in flight. Exact searches and audits have the same number of
    /// slots of their own.
    pub in_flight: u32,
    /// The treatment of a query when all slots are taken.
    pub when_full: WhenFull,
}

/// How partitions answer questions from outside the job.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReadSettings {
    /// Address that each partition listens at, at a free port.
    pub host: String,
    /// File on each machine whose first line is the key that readers must know.
    pub key_file: Option<PathBuf>,
    /// PKCS#12 file on each machine with the certificate for TLS.
    pub keystore: Option<PathBuf>,
    /// File on each machine whose first line is the password of the keystore.
    pub password_file: Option<PathBuf>,
    /// Largest number of connections to a partition.
    pub connections: u32,
}

/// The treatment of a query when the largest number of searches is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// The query is answered at once as partial, and writes go on. For topics, which cannot wait.
    Shed,
    /// The query waits and blocks everything upstream. For files and generators, which can wait.
    Wait,
}

const WHEN_FULL: &[(&str, WhenFull)] = &[("shed", WhenFull::Shed), ("wait", WhenFull::Wait)];

/// When and where the job makes checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CheckpointSettings {
    /// Milliseconds between two checkpoints, at least 100.
    pub interval: u64,
    /// Folder of the checkpoints, on this machine or on any file system that Flink supports.
    pub path: FolderAddress,
    /// Milliseconds after which an incomplete checkpoint is abandoned.
    pub timeout: u64,
    /// Number of consecutive checkpoints that may fail before the job fails.
    pub tolerable_failures: u32,
}

/// A folder.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FolderSettings {
    /// The path; created if it does not exist.
    pub path: PathBuf,
}

/// Settings of the Java virtual machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct JvmSettings {
    /// Largest Java heap in bytes. Vectors are stored outside the heap.
    pub heap: u64,
}

impl JobSettings {
    /// Reads and validates a job file that a person wrote, and fills in the defaults.
    ///
    /// Errors: one error with every missing, unknown and wrong key. Files are not checked here; see
    /// [`JobSettings::validate`].
    pub fn from_yaml(text: &str) -> Result<JobSettings, SettingsError> {
        let document = Document::from_yaml(text)?;
        JobSettings::from_document(&document)
    }

    /// Reads a normalised job file; `from_json(to_json(job))` is `job`.
    pub fn from_json(text: &str) -> Result<JobSettings, SettingsError> {
        let document = Document::from_json(text)?;
        JobSettings::from_document(&document)
    }

    /// Reads and validates a parsed file; see [`JobSettings::from_yaml`].
    pub fn from_document(document: &Document) -> Result<JobSettings, SettingsError> {
        let notes = Notes::default();
        let job = JobSettings::read(document, &notes);
        notes.or_error(job)
    }

    /// Reads the file's keys; problems and keys go to `notes`.
    pub(crate) fn read(document: &Document, notes: &Notes) -> JobSettings {
        let root = Section::root(document, notes);
        let name = root.text("name", Some("vstream"));
        let parallelism = root.integer("parallelism", 1..=PARALLELISM_MAX, Some(2)) as u32;
        let collection = CollectionSettings::read(&root.section("collection"));
        let vectors = VectorSource::read(&root.section("vectors"));
        // Topics cannot wait; files and generators can.
        let when_full = match vectors {
            VectorSource::Kafka(_) => WhenFull::Shed,
            VectorSource::Generator { .. } | VectorSource::File { .. } => WhenFull::Wait,
        };
        let mut job = JobSettings {
            name,
            parallelism,
            collection,
            vectors,
            queries: root.has("queries").then(|| QuerySource::read(&root.section("queries"))),
            documents: root
                .has("documents")
                .then(|| DocumentSettings::read(&root.section("documents"))),
            embedding: root
                .has("embedding")
                .then(|| EmbeddingSettings::read(&root.section("embedding"))),
            workload: WorkloadSettings::read(&root.section("workload")),
            results: ResultSink::read(&root.section("results")),
            training_sample: root.integer("training-sample", 16..=10_000_000, Some(20_000))
                as usize,
            merge_deadline: root.duration_ms("merge-deadline", 1..=600_000, 5_000),
            audit_share: root.number("audit-share", 0.0..=1.0, 0.0025),
            rebalance: RebalanceSettings::read(&root.section("rebalance")),
            search: SearchSettings::read(&root.section("search"), when_full),
            reads: root.has("reads").then(|| ReadSettings::read(&root.section("reads"))),
            checkpoint: root
                .has("checkpoint")
                .then(|| CheckpointSettings::read(&root.section("checkpoint"))),
            state: FolderSettings::read(&root.section("state"), Some("run/state")),
            snapshot: root
                .has("snapshot")
                .then(|| FolderSettings::read(&root.section("snapshot"), None)),
            jvm: JvmSettings::read(&root.section("jvm")),
            faults: root.mapping("faults"),
        };
        root.finish();
        if job.vectors.has_time_to_live() && !root.section("collection").has("deletes") {
            job.collection.deletes = DeleteOrder::OldestFirst;
        }
        // Wrong values were replaced by valid ones, so a comparison of them would give misleading
        // errors.
        if root.is_clean() {
            job.check_together(&root);
        }
        job
    }

    /// The normalised form: every key, durations in milliseconds, sizes in bytes, absolute paths.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain numbers and texts")
    }

    /// Checks the job against this machine: that data files exist, are complete and have the
    /// collection's dimension, and that folders can be written. Changes nothing.
    ///
    /// Errors: one error with every file and folder that cannot be used.
    pub fn validate(&self) -> Result<(), SettingsError> {
        environment::validate(self)
    }

    /// Checks rules that involve several keys.
    fn check_together(&self, root: &Section) {
        self.check_sources(root);
        self.check_parallelism(root);
        if let ResultSink::Kafka(output) = &self.results {
            let checkpoint = self.checkpoint.as_ref().map(|c| (c.interval, c.timeout));
            output.check(&root.section("results"), checkpoint);
        }
        self.check_rebalance(root);
        self.check_groups(root);
        self.check_closed(root);
        self.check_reads(root);
        texts::check_together(self, root);
        if let EncoderSettings::Cells { cells, .. } = self.collection.encoder {
            if cells * ROWS_PER_CELL > self.training_sample {
                let sentence = format!(
                    "{} vectors are too few to train {cells} cells. Set it to at least {}, or \
                     collection.encoder.cells to at most {}.",
                    self.training_sample,
                    cells * ROWS_PER_CELL,
                    (self.training_sample / ROWS_PER_CELL).max(2)
                );
                root.note("training-sample", &sentence);
            }
        }
    }

    /// Refuses what isolated groups have not: a group stays in its shard until it is dropped.
    fn check_groups(&self, root: &Section) {
        if !self.collection.is_isolated() {
            return;
        }
        if matches!(self.vectors, VectorSource::Generator { .. }) {
            let sentence = "generated rows are in no group. Set it to kafka or file, or remove \
                            collection.groups.";
            root.note("vectors.kind", sentence);
        }
        if self.vectors.has_time_to_live() {
            let sentence = "rows of isolated groups live until they are deleted, or until their \
                            group is dropped. Remove it, or collection.groups.";
            root.note("vectors.time-to-live", sentence);
        }
        if self.snapshot.is_some() {
            let sentence = "a snapshot holds no isolated groups; checkpoints do. Remove it, or \
                            collection.groups.";
            root.note("snapshot", sentence);
        }
        if self.rebalance.policy != RebalancePolicy::None {
            let sentence = "an isolated group stays in its shard. Set it to none.";
            root.note("rebalance.policy", sentence);
        }
    }

    /// Refuses attributes that rows bring with them: the partitions of a job could not agree about them.
    fn check_closed(&self, root: &Section) {
        if self.collection.schema.open {
            let sentence = "the partitions of a job cannot agree about attributes that rows bring with them. List \
                            them under collection.attributes, and remove it.";
            root.note("collection.open", sentence);
        }
    }

    /// Refuses an address that other machines reach without a key and TLS, and reads that nobody finds.
    fn check_reads(&self, root: &Section) {
        let Some(reads) = &self.reads else { return };
        let is_loopback = reads.host == "localhost"
            || reads.host.parse().is_ok_and(|host: std::net::IpAddr| host.is_loopback());
        let secrets = [&reads.key_file, &reads.keystore, &reads.password_file];
        if !is_loopback && secrets.iter().any(|file| file.is_none()) {
            let sentence =
                "other machines reach this address: give reads.key-file, reads.keystore \
                            and reads.password-file too, or set it to 127.0.0.1.";
            root.note("reads.host", sentence);
        }
        // An address that others reach needs both, and more.
        match (&reads.keystore, &reads.password_file) {
            (Some(_), None) if is_loopback => root.note(
                "reads.keystore",
                "no password opens it. Give reads.password-file too, or leave it out.",
            ),
            (None, Some(_)) if is_loopback => root.note(
                "reads.password-file",
                "there is no keystore that it opens. Give reads.keystore too, or leave it out.",
            ),
            _ => {}
        }
        if self.checkpoint.is_none() {
            let sentence =
                "where partitions answer is published in the folder of the checkpoints, \
                            and there is none. Add checkpoint with a path, or remove it.";
            root.note("reads", sentence);
        }
        if self.collection.is_isolated() {
            let sentence = "isolated groups cannot be asked from outside the job. Remove it, or \
                            collection.groups.";
            root.note("reads", sentence);
        }
    }

    fn check_rebalance(&self, root: &Section) {
        if self.rebalance.policy == RebalancePolicy::None {
            return;
        }
        let cells = self.rebalance.policy == RebalancePolicy::Cells;
        let problem = match self.collection.encoder {
            EncoderSettings::Lsh { families, .. } if families > 1 => Some(
                "with several families of hashes no range can change partition, because a row has \
                 copies that depend on the boundaries. Set it to none, or \
                 collection.encoder.families to 1.",
            ),
            EncoderSettings::Lsh { .. } if cells => Some(
                "the encoder lsh has no cells to move. Set it to boundary, which shifts the \
                 boundaries of its ranges, or to none.",
            ),
            EncoderSettings::Id => Some(
                "the encoder id has no ranges that can change partition. Set it to none, or \
                 collection.encoder.kind to cells.",
            ),
            EncoderSettings::Lsh { .. } | EncoderSettings::Cells { .. } => None,
        };
        if let Some(sentence) = problem {
            root.note("rebalance.policy", sentence);
        }
        if self.checkpoint.is_none() {
            root.note(
                "rebalance.policy",
                "rows change partition through the folder of the checkpoints, and there is none. \
                 Add checkpoint with a path, or set it to none.",
            );
        }
    }

    fn check_parallelism(&self, root: &Section) {
        let (parallelism, shards) = (self.parallelism, u32::from(self.collection.shards));
        if parallelism > shards {
            root.note(
                "parallelism",
                &format!(
                    "{parallelism} is more than the {shards} shards of the collection. Give \
                     {shards} at most, or set collection.shards to {} when the collection is made.",
                    parallelism.next_power_of_two()
                ),
            );
        }
    }

    fn check_sources(&self, root: &Section) {
        let vectors = match &self.vectors {
            VectorSource::Generator { .. } => ("generator", "generated vectors"),
            VectorSource::File { .. } => ("file", "vectors from a file"),
            VectorSource::Kafka(_) => ("kafka", "vectors from Kafka"),
        };
        let queries = self.queries.as_ref().map(|queries| match queries {
            QuerySource::Generator { .. } => "generator",
            QuerySource::File { .. } => "file",
            QuerySource::Kafka { .. } => "kafka",
        });
        if let Some(queries) = queries.filter(|queries| *queries != vectors.0) {
            root.note(
                "queries.kind",
                &format!(
                    "'{queries}' cannot be mixed with {}. Set it to {}, or vectors.kind to \
                     {queries}.",
                    vectors.1, vectors.0
                ),
            );
        }
        match &self.vectors {
            VectorSource::Generator { limit, .. } => self.check_workload(*limit, root),
            VectorSource::File { .. } => self.refuse_workload("files are", root),
            VectorSource::Kafka(_) => {
                self.refuse_workload("topics are", root);
                self.refuse_snapshot(root);
            }
        }
    }

    fn check_workload(&self, limit: u64, root: &Section) {
        if self.queries.is_none() && self.workload.ratio.queries > 0 {
            root.note(
                "queries",
                "this key is missing, but workload.ratio.queries is not 0. Add a query source, or \
                 set workload.ratio.queries to 0.",
            );
        }
        if limit == 0 && self.workload.duration == 0 {
            root.note(
                "workload.duration",
                "the job would never end. Set it, such as 60 s, or set vectors.limit.",
            );
        }
    }

    fn refuse_snapshot(&self, root: &Section) {
        if self.snapshot.is_some() {
            root.note(
                "snapshot",
                "it is written when a job ends, and a job over topics ends only when it is \
                 stopped, which writes none. Remove it; checkpoint keeps the rows.",
            );
        }
    }

    /// The default value passes, because the normalised form of every job contains it.
    fn refuse_workload(&self, inputs: &str, root: &Section) {
        if self.workload != WorkloadSettings::default() {
            root.note(
                "workload",
                &format!(
                    "{inputs} read as they are, so there is no mix and no rate to set. Remove it, \
                     or set vectors.kind to generator."
                ),
            );
        }
    }
}

impl RebalanceSettings {
    fn read(section: &Section) -> RebalanceSettings {
        let settings = RebalanceSettings {
            policy: section.choice("policy", "a policy", POLICIES, Some(RebalancePolicy::None)),
            interval: section.duration_ms("interval", 100..=86_400_000, 5_000),
            trigger: section.number("trigger", 1.06..=100.0, 1.15),
        };
        section.finish();
        settings
    }
}

impl SearchSettings {
    fn read(section: &Section, usual: WhenFull) -> SearchSettings {
        let when_full = section.choice("when-full", "shed or wait", WHEN_FULL, Some(usual));
        // Each slot keeps the rows of one snapshot alive. Jobs that shed queries need more slots,
        // so that a stall of some tens of milliseconds costs no answer.
        let places = if when_full == WhenFull::Shed { 256 } else { 32 };
        let settings = SearchSettings {
            threads: section.integer("threads", 0..=64, Some(1)) as u32,
            in_flight: section.integer("in-flight", 1..=4_096, Some(places)) as u32,
            when_full,
        };
        section.finish();
        settings
    }
}

impl ReadSettings {
    fn read(section: &Section) -> ReadSettings {
        let file = |key| section.has(key).then(|| section.path(key, None));
        let settings = ReadSettings {
            host: section.text("host", Some("127.0.0.1")),
            key_file: file("key-file"),
            keystore: file("keystore"),
            password_file: file("password-file"),
            connections: section.integer("connections", 1..=4_096, Some(64)) as u32,
        };
        section.finish();
        settings
    }
}

impl CheckpointSettings {
    fn read(section: &Section) -> CheckpointSettings {
        let settings = CheckpointSettings {
            interval: section.duration_ms("interval", 100..=86_400_000, 10_000),
            path: section.address("path"),
            timeout: section.duration_ms("timeout", 1_000..=86_400_000, 120_000),
            // A checkpoint that reaches its timeout leaves its uploaded files for the next one. So
            // a large state needs several attempts and no restart.
            tolerable_failures: section.integer("tolerable-failures", 0..=1_000_000, Some(10))
                as u32,
        };
        section.finish();
        settings
    }
}

impl FolderSettings {
    fn read(section: &Section, default: Option<&str>) -> FolderSettings {
        let settings = FolderSettings { path: section.path("path", default) };
        section.finish();
        settings
    }
}

impl JvmSettings {
    fn read(section: &Section) -> JvmSettings {
        let settings =
            JvmSettings { heap: section.size_bytes("heap", 256 << 20..=1 << 40, 2 << 30) };
        section.finish();
        settings
    }
}
