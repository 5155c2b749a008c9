//! What the reference says in words: the page's frame, its tables and the meaning of each key.

pub(super) const OPENING: &str = "\
# Job files

After this page you can write a job file, and look up every key that one can have.

<!-- Written by `vstream reference`; do not edit it here. -->

A job file is YAML. It names one collection, a stream of vectors, a stream of queries and a place for the
answers. `vstream check FILE` checks it and prints it with every default filled in; `vstream run FILE` runs it;
`--set workload.rate=8000` replaces one value. This job answers queries from a Kafka topic:
";

pub(super) const CONVENTIONS: &str = "
- A *duration* is a whole number and one of `ms`, `s`, `min`, `h`, `d`: `500 ms`, `2 min`.
- A *size* is a whole number and one of `b`, `kb`, `mb`, `gb`, `tb`, which are powers of 1,024: `256 mb`.
- A *path* is on the machine that runs the job and may be relative to the working directory. Where a *path or
  address* may stand, so may `s3://bucket/folder`: [object stores](object-store.md).
- An unknown key, a missing key or a value out of range is refused before the job starts. All problems are
  reported at once.
- Sources are of one kind: if vectors come from Kafka, so do queries.
";

pub(super) const CLOSING: &str = "
## Rules between keys

- With `encoder.kind: cells`, `training-sample` is at least 8 times `cells`.
- `rebalance.policy` other than `none` needs a `checkpoint` section: rows change partition through its
  folder. It also needs the encoder `cells`, or `lsh` with `families: 1`, whose policy is `boundary`.
- `delivery: exactly-once` needs a `checkpoint` section, and a `transaction-timeout` longer than
  `checkpoint.interval`, `checkpoint.timeout` and `recovery-time` together. The job also asks the broker for
  its own limit when it starts.
- `format: avro` needs `schema` or `schema-registry`, not both.
- `workload` belongs to generated vectors. A generated stream needs an end: `workload.duration` or
  `vectors.limit`.
- `documents` and `embedding` belong together. They need `collection.id: string` and the metric `cosine`, files or
  topics with `format: json`, and neither groups that are isolated nor a `time-to-live`.
- `snapshot` is refused in a job over topics: it is written when a job ends by itself.
";

/// Tables in their order: the section with its kind, the heading, and what stands above the table.
pub(super) const TABLES: &[(&str, &str, &str)] = &[
    ("", "The job", "Keys at the top of the file."),
    ("collection", "`collection`", "The vectors, their metric and their index."),
    (
        "collection.encoder",
        "`collection.encoder`",
        "How records are spread over partitions. `id` spreads them by id, and every query visits every \
         partition; it has no other keys.",
    ),
    (
        "collection.encoder[cells]",
        "`kind: cells`",
        "Clusters are learned from the first vectors. A query visits the partitions of the clusters near it.",
    ),
    (
        "collection.encoder[lsh]",
        "`kind: lsh`",
        "Families of hashes, each folded onto a space-filling curve, as in the VStream paper. A vector may \
         be kept in several partitions.",
    ),
    (
        "collection.groups",
        "`collection.groups`",
        "Groups of rows, such as the users of an application.",
    ),
    ("vectors", "`vectors`", "Where upserts and deletes come from."),
    ("vectors[kafka]", "`kind: kafka`", "A topic without end: [Kafka](kafka.md)."),
    (
        "vectors[file]",
        "`kind: file`",
        "JSON lines: `{\"id\": 1, \"vector\": [0.5, 1]}` or `{\"id\": 1, \"op\": \"delete\"}`. The job ends \
         with the file.",
    ),
    (
        "vectors[generator]",
        "`kind: generator`",
        "Rows of a matrix file at the rate and mix of `workload`: for measurements.",
    ),
    (
        "queries",
        "`queries`",
        "Where queries come from. A job without this section only ingests.",
    ),
    ("queries[kafka]", "`kind: kafka`", "A topic without end: [Kafka](kafka.md)."),
    (
        "queries[file]",
        "`kind: file`",
        "JSON lines: `{\"query_id\": 1, \"vector\": [0.5, 1], \"k\": 3}`.",
    ),
    ("queries[generator]", "`kind: generator`", "Rows of a matrix file, over and over."),
    (
        "documents",
        "`documents`",
        "Records are documents: `{\"id\": \"speech-7\", \"text\": \"...\"}`. Each is cut into chunks, and \
         a query asks with `text` in place of `vector`: [documents and questions](rag.md). With \
         `embedding`.",
    ),
    ("documents.chunk", "`documents.chunk`", "How documents are cut."),
    (
        "embedding",
        "`embedding`",
        "The model that turns texts into vectors. With `documents`.",
    ),
    (
        "results",
        "`results`",
        "Where answers go. `blackhole` counts and drops them, `console` prints a line of JSON for each; \
         neither has other keys.",
    ),
    ("results[kafka]", "`kind: kafka`", "A topic: [Kafka](kafka.md)."),
    ("results[file]", "`kind: file`", "JSON lines. A job that starts anew overwrites the file."),
    ("workload", "`workload`", "Rate and length of a generated stream."),
    (
        "workload.ratio",
        "`workload.ratio`",
        "Shares of the stream. If you give one of them, those that you leave out are 0.",
    ),
    (
        "rebalance",
        "`rebalance`",
        "When ranges of vectors change partition because loads have shifted.",
    ),
    ("search", "`search`", "How each partition answers."),
    (
        "reads",
        "`reads`",
        "How programs outside the job ask its partitions, without a topic: \
         [ask a job](ask-a-job.md). Without this section they cannot.",
    ),
    (
        "checkpoint",
        "`checkpoint`",
        "When the job's state is saved, and where. Without this section there are no checkpoints: \
         [operations](operations.md#checkpoints).",
    ),
    ("state", "`state`", "The engines' working files."),
    (
        "snapshot",
        "`snapshot`",
        "A copy of every partition for `vstream search` and `vstream inspect`, written when the job ends \
         by itself.",
    ),
    ("jvm", "`jvm`", "The Java virtual machine that `vstream run` starts."),
];

/// The meaning of a key, first by its table, then by the kind alone.
pub(super) fn meaning(table: &str, key: &str) -> Option<&'static str> {
    let kind = table.find('[').map(|bracket| &table[bracket..]);
    let find = |table: &str| MEANINGS.iter().find(|one| (one.0, one.1) == (table, key));
    find(table).or_else(|| find(kind?)).map(|(_, _, meaning)| *meaning)
}

/// Table or kind, key, meaning.
pub(super) const MEANINGS: &[(&str, &str, &str)] = &[
    ("", "name", "The job's name in Flink and in messages."),
    (
        "",
        "parallelism",
        "Partitions of the collection, `collection.shards` of them at most; each is one subtask with an \
         engine of its own.",
    ),
    ("", "collection", "What is indexed."),
    ("", "vectors", "Where vectors come from."),
    ("", "queries", "Where queries come from."),
    ("", "documents", "That records are texts, and how they are cut."),
    ("", "embedding", "How texts become vectors."),
    ("documents", "text", "Key of the text in a record."),
    ("documents", "chunk", "How documents are cut."),
    (
        "documents.chunk",
        "size",
        "Most characters of a chunk. Sentences stay whole unless they are longer.",
    ),
    (
        "documents.chunk",
        "overlap",
        "Most characters that a chunk repeats of the one before, in whole sentences; at most half of \
         `size`.",
    ),
    (
        "embedding",
        "model",
        "A folder with `tokenizer.json` and with `model.safetensors`, a table with a vector per token, or \
         `model.onnx`, a sentence transformer; or one of the latter two files. Its dimension is that of \
         the collection.",
    ),
    (
        "embedding",
        "runtime",
        "The shared library of ONNX Runtime, for a transformer. Without it the file that the variable \
         `ORT_DYLIB_PATH` names, or `libonnxruntime.so` beside the model.",
    ),
    ("embedding", "tokens", "Tokens of a text that a transformer reads; the rest is cut off."),
    ("embedding", "threads", "Threads that a transformer computes with, in each subtask."),
    (
        "embedding",
        "parallelism",
        "Subtasks that embed chunks, and as many again that embed questions. Each has its own copy of \
         the model.",
    ),
    ("embedding", "batch", "Most texts that are embedded together."),
    ("", "workload", "Rate and mix of a generated stream."),
    ("", "results", "Where answers go."),
    ("", "training-sample", "First vectors of the stream, from which the encoder is trained."),
    (
        "",
        "merge-deadline",
        "How long a query waits for all its partitions. After that its answer is sent with `partial: true`.",
    ),
    (
        "",
        "audit-share",
        "Share of the queries that are also answered exactly, to measure recall and to steer the \
         partitions by it.",
    ),
    ("", "rebalance", "When ranges change partition."),
    ("", "search", "How partitions answer."),
    ("", "reads", "How programs outside the job ask it."),
    ("", "checkpoint", "When and where the job's state is saved."),
    ("", "state", "Where the engines work."),
    ("", "snapshot", "Where a snapshot goes at the end."),
    ("", "jvm", "The Java virtual machine."),
    ("", "faults", "Switches of the failure tests. Leave it out."),
    ("collection", "dimension", "Numbers per vector."),
    (
        "collection",
        "metric",
        "Smaller distances are closer. `l2` is the squared Euclidean distance, `cosine` is 1 - cos, \
         `inner_product` is the negated product.",
    ),
    (
        "collection",
        "element",
        "How one number of a stored vector is held. `f16` and `bf16` take half the memory; `u8` and `i8` \
         hold whole numbers.",
    ),
    ("collection", "index", "`cluster` is approximate; `flat` compares every row."),
    ("collection", "encoder", "How records are spread over partitions."),
    (
        "collection",
        "recall-target",
        "Share of the true neighbours that answers hold on average. The engine adjusts its effort to it.",
    ),
    (
        "collection",
        "shards",
        "Parts that partitions share out among them, a power of two: the largest parallelism that a job \
         of the collection can ever have. It never changes, and a checkpoint of another number is \
         refused. More shards make the template larger and a query slower to route: by 1 MB and 50 µs with \
         1,024 cells and 1,024 shards.",
    ),
    ("collection", "seed", "Seed of projections, of training and of generated deletes."),
    (
        "collection",
        "memory",
        "Memory of each partition for its newest rows and for what it reads of older ones, which lie on \
         the local disk. Without it all rows stay in memory.",
    ),
    (
        "collection",
        "code-memory",
        "Memory of each partition for the codes of rows on the disk; those that are asked for most stay. \
         Without it all codes are in memory.",
    ),
    (
        "collection",
        "remote",
        "A store for the rows that queries ask for least, which all partitions use together: they lie \
         there alone, are searched there by ranges, and come back when they are asked for. It needs \
         `memory` and `disk`: [a remote level](object-store.md#a-remote-level). Without it all rows lie on \
         the machine.",
    ),
    (
        "collection",
        "disk",
        "Local disk of each partition for files of rows; the others are in `remote`.",
    ),
    (
        "collection",
        "segments",
        "The index of the largest files of rows. `auto` is the one that reads less at equal memory, which is \
         `clusters` in every measurement so far. With `graph` merges write a disk graph, which takes more disk and CPU time \
         too. It needs `memory`, and takes none of `code-memory`, string ids, `attributes` and `groups`: \
         [limits](limits.md).",
    ),
    (
        "collection",
        "deletes",
        "`oldest-first` says that rows end in about the order in which they came, so whole files can be \
         dropped. A `time-to-live` sets it unless you do.",
    ),
    ("collection", "id", "Whether ids are whole numbers or texts of up to 512 bytes."),
    (
        "collection",
        "attributes",
        "What rows carry beside their vectors, by name: `{price: f64, colour: keyword}`. Types are \
         `keyword`, `keywords`, `i64`, `f64`, `bool`, `timestamp` and `text`. Every value may be missing. \
         Attributes may be added later, and stay as they are.",
    ),
    (
        "collection",
        "open",
        "Whether an attribute that is not listed is added with the type of its first value. A job takes only \
         `false`: a record with such an attribute is refused.",
    ),
    ("collection", "groups", "Whether rows belong to groups. Without it they do not."),
    (
        "collection.groups",
        "mode",
        "`isolated`: a query sees the rows of one group alone. `shared`: of one group or of all; the \
         group is the attribute `group`, which every row has.",
    ),
    (
        "collection.groups",
        "spread-rows",
        "Rows from which a job spreads an isolated group over several partitions, 50,000 unless set; \
         `isolated` only.",
    ),
    (
        "collection",
        "deletes-remembered",
        "How long the version of a deleted row is kept: meanwhile an older upsert of its id stays without \
         effect. Without it an upsert after a delete always counts.",
    ),
    (
        "collection",
        "payload-limit",
        "Most bytes of the payload of a row; a job refuses longer ones. Without it 1 mb; but a job whose \
         collection has neither `attributes` nor string ids then skips payloads.",
    ),
    (
        "collection",
        "without",
        "Parts of the engine that are left out, to measure their worth: `hot-cold`, `compression`, \
         `threshold-stop`, `split`, `reassign`, `join`.",
    ),
    ("collection.encoder", "kind", "The encoder."),
    ("collection.encoder[cells]", "cells", "Clusters; at most an eighth of `training-sample`."),
    (
        "collection.encoder[cells]",
        "recall-target",
        "Share of the true neighbours inside the partitions that a query visits.",
    ),
    ("collection.encoder[lsh]", "curve", "The curve."),
    (
        "collection.encoder[lsh]",
        "families",
        "Independent families; a vector is kept in at most as many partitions.",
    ),
    ("collection.encoder[lsh]", "hashes", "Hashes per family, the dimensions of the curve."),
    ("collection.encoder[lsh]", "width", "Width of a hash bucket."),
    (
        "collection.encoder[lsh]",
        "bits",
        "Bits per hash. Fewer are used where all hashes do not fit into 64 bits.",
    ),
    ("vectors", "kind", "The kind of source."),
    ("queries", "kind", "The kind of source; the same as that of `vectors`."),
    ("results", "kind", "The kind of sink."),
    ("[generator]", "path", "A matrix file: `.fbin`, `.u8bin` or `.i8bin`."),
    (
        "vectors[generator]",
        "preload",
        "Rows that are inserted at full speed before the stream begins.",
    ),
    (
        "vectors[generator]",
        "limit",
        "Records that are streamed after the preload; 0 streams until `workload.duration` is over.",
    ),
    ("vectors[file]", "path", "The file."),
    ("queries[file]", "path", "The file."),
    ("results[file]", "path", "The file."),
    ("[generator]", "k", "Neighbours per answer."),
    ("queries[file]", "k", "Neighbours per answer where a line does not say."),
    ("queries[kafka]", "k", "Neighbours per answer where a record does not say."),
    ("[kafka]", "brokers", "`host:port`, several separated by commas."),
    ("vectors[kafka]", "topic", "The topic. All of its partitions are read."),
    ("queries[kafka]", "topic", "The topic. All of its partitions are read."),
    ("results[kafka]", "topic", "The topic."),
    (
        "[kafka]",
        "group",
        "Consumer group under which offsets are committed, for display and for `start: committed`. A \
         restored job goes by its checkpoint instead.",
    ),
    ("[kafka]", "format", "How a record is written: [formats](kafka.md#formats)."),
    (
        "[kafka]",
        "schema",
        "Schema of Avro records as JSON, where there is no registry: [Avro](avro.md).",
    ),
    ("[kafka]", "schema-registry", "Address of a schema registry, http or https: [Avro](avro.md)."),
    (
        "[kafka]",
        "start",
        "Where a job without a checkpoint begins: with the oldest record, with new ones, or where the \
         group stands.",
    ),
    (
        "[kafka]",
        "out-of-orderness",
        "How far the watermark stays behind the newest timestamp.",
    ),
    (
        "[kafka]",
        "idle-after",
        "A partition of the topic without records for this long no longer holds back the watermark.",
    ),
    (
        "vectors[kafka]",
        "time-to-live",
        "A row is deleted when the watermark has reached its timestamp plus this. Without it rows stay.",
    ),
    (
        "[kafka]",
        "properties",
        "More properties of the Kafka client, such as those of TLS and SASL.",
    ),
    (
        "results[kafka]",
        "delivery",
        "`exactly-once` commits each answer once, when a checkpoint completes. `at-least-once` sends it at \
         once and may send it again after a failure.",
    ),
    (
        "results[kafka]",
        "transactional-id-prefix",
        "Begins the names of the job's transactions; no other job may use it. `at-least-once` does not \
         need it.",
    ),
    (
        "results[kafka]",
        "transaction-timeout",
        "After this the broker aborts a transaction that nobody ended.",
    ),
    (
        "results[kafka]",
        "recovery-time",
        "The longest outage after which the answers of the last checkpoint must still be committed.",
    ),
    ("workload", "ratio", "Shares of queries, inserts and deletes."),
    (
        "workload",
        "rate",
        "Records per second, queries included; 0 streams as fast as back-pressure allows.",
    ),
    (
        "workload",
        "duration",
        "Length of the stream after the preload; 0 streams until `vectors.limit` is reached.",
    ),
    ("workload", "warm-up", "Beginning of the stream that is not measured."),
    ("workload.ratio", "queries", "Share of queries."),
    ("workload.ratio", "inserts", "Share of inserts."),
    ("workload.ratio", "deletes", "Share of deletes; never more than that of inserts."),
    (
        "rebalance",
        "policy",
        "`cells` moves single cells from the fullest partitions to the emptiest; `boundary` shifts the \
         boundaries between neighbouring partitions.",
    ),
    ("rebalance", "interval", "Time between two looks at the loads."),
    (
        "rebalance",
        "trigger",
        "Load of the fullest partition, as a multiple of the mean, from which ranges are moved.",
    ),
    (
        "search",
        "threads",
        "Threads of each partition that search beside its writer, as many again for exact queries and \
         audits, at low priority, and as many once more while the task waits for these. 0 searches in the task itself.",
    ),
    (
        "search",
        "in-flight",
        "Searches of each partition under way at most. The default is 256 with `shed` and 32 with `wait`. \
         Exact ones count apart, at most 8 per thread.",
    ),
    (
        "search",
        "when-full",
        "`shed` answers a query without a place at once as `partial`; `wait` makes it wait, and the source \
         with it. The default is `shed` for topics.",
    ),
    (
        "reads",
        "host",
        "Address that each partition listens at, at a free port. Any but this machine's own needs the \
         three files. The default is `127.0.0.1`.",
    ),
    ("reads", "key-file", "File on each machine whose first line is the key that readers must know."),
    ("reads", "keystore", "PKCS#12 file on each machine with the certificate for TLS."),
    (
        "reads",
        "password-file",
        "File on each machine whose first line is the password of the keystore.",
    ),
    ("reads", "connections", "Connections to each partition at most. The default is 64."),
    ("checkpoint", "interval", "Time between two checkpoints."),
    ("checkpoint", "path", "Folder of the checkpoints."),
    ("checkpoint", "timeout", "After this a checkpoint that has not completed is given up."),
    (
        "checkpoint",
        "tolerable-failures",
        "Checkpoints in a row that may fail before the job does. The next one goes on with the files that \
         a failed one has uploaded.",
    ),
    (
        "state",
        "path",
        "Local folder, created when absent, with logs and segments. On a cluster the task manager's \
         working directory is used instead.",
    ),
    ("snapshot", "path", "Local folder, created when absent."),
    ("jvm", "heap", "Size of the Java heap, which does not grow. Vectors live outside it."),
];
