//! Every message about invalid settings, word for word: the key, the value and the remedy.

use std::fs;

use vstream_settings::{CollectionSettings, Document, JobSettings};

use crate::{folder_with_data, smallest_job, write_matrix};

/// The problems of the smallest job after the `assignments`, including those of files. The path of
/// the folder is replaced by `DIR`.
fn problems_after(assignments: &[&str]) -> Vec<String> {
    let (_keep, folder) = folder_with_data();
    let shown = folder.display().to_string();
    let mut document = Document::from_yaml(&smallest_job(&folder)).expect("YAML");
    for assignment in assignments {
        document.set(&assignment.replace("DIR", &shown)).expect("an assignment");
    }
    let error = match JobSettings::from_document(&document) {
        Err(error) => error,
        Ok(job) => job.validate().expect_err("refused"),
    };
    error.problems().iter().map(|problem| problem.replace(&shown, "DIR")).collect()
}

#[track_caller]
fn refuses(assignment: &str, sentence: &str) {
    assert_eq!(problems_after(&[assignment]), [sentence]);
}

#[test]
fn values_out_of_range() {
    refuses(
        "collection.dimension=0",
        "collection.dimension: 0 is out of range. Give a whole number from 1 to 4096.",
    );
    refuses(
        "collection.dimension=x",
        "collection.dimension: 'x' is out of range. Give a whole number from 1 to 4096.",
    );
    refuses(
        "parallelism=129",
        "parallelism: 129 is more than the 128 shards of the collection. Give 128 at most, or set \
         collection.shards to 256 when the collection is made.",
    );
    refuses("parallelism=0", "parallelism: 0 is out of range. Give a whole number from 1 to 4096.");
    refuses(
        "parallelism=4097",
        "parallelism: 4097 is out of range. Give a whole number from 1 to 4096.",
    );
    for (shards, sentence) in [
        ("64", "collection.shards: 64 is out of range. Give a whole number from 128 to 4096."),
        ("8192", "collection.shards: 8192 is out of range. Give a whole number from 128 to 4096."),
        ("-1", "collection.shards: -1 is out of range. Give a whole number from 128 to 4096."),
        ("300", "collection.shards: 300 is no power of two. Give 256 or 512."),
    ] {
        refuses(&format!("collection.shards={shards}"), sentence);
    }
    refuses(
        "collection.encoder={kind: cells, cells: 5000}",
        "collection.encoder.cells: 5000 is out of range. Give a whole number from 2 to 4096.",
    );
    refuses("queries.k=0", "queries.k: 0 is out of range. Give a whole number from 1 to 1000.");
    refuses(
        "queries.k=1001",
        "queries.k: 1001 is out of range. Give a whole number from 1 to 1000.",
    );
    refuses(
        "workload.rate=-1",
        "workload.rate: -1 is out of range. Give a whole number from 0 to 100000000.",
    );
    refuses(
        "search.in-flight=0",
        "search.in-flight: 0 is out of range. Give a whole number from 1 to 4096.",
    );
    refuses(
        "collection.code-memory=-1",
        "collection.code-memory: -1 is not a size. Write a whole number and its unit, such as \
         64 mb or 4 gb.",
    );
    refuses(
        "collection.deletes=newest-first",
        "collection.deletes: 'newest-first' is not an order in which rows end. Choose one of any, \
         oldest-first.",
    );
    refuses(
        "collection.without=[hot]",
        "collection.without: there is no 'hot' to leave out: choose from hot-cold, compression, \
         threshold-stop, split, reassign and join.",
    );
    refuses(
        "collection.without=hot-cold",
        "collection.without: 'hot-cold' is not a list of texts. Write [a, b].",
    );
    refuses(
        "collection.without=[dynamic-partitions]",
        "collection.without: dynamic partitions are no part of a collection. Set rebalance.policy \
         to none.",
    );
    refuses(
        "collection.id=text",
        "collection.id: 'text' is not a kind of ids. Choose one of u64, string.",
    );
    refuses(
        "collection.attributes={price: number}",
        "collection.attributes: \"number\" is no type of 'price'. Choose one of keyword, keywords, i64, \
         f64, bool, timestamp, text.",
    );
    refuses(
        "collection.attributes={$price: f64}",
        "collection.attributes: '$price' is no name of an attribute: use 1 to 128 bytes, not \
         beginning with '$'.",
    );
    refuses("collection.open=1", "collection.open: 1 is neither true nor false. Write one.");
    refuses(
        "collection.groups={mode: open}",
        "collection.groups.mode: 'open' is not a mode of groups. Choose one of isolated, shared.",
    );
    refuses(
        "collection.deletes-remembered=1 ms",
        "collection.deletes-remembered: '1 ms' is out of range. Give a duration from 1 s to 366 d.",
    );
    refuses(
        "collection.memory=16 kb",
        "collection.memory: '16 kb' is out of range. Give a size from 64 kb to 1024 tb.",
    );
    refuses("audit-share=1.5", "audit-share: 1.5 is out of range. Give a number from 0 to 1.");
    refuses("audit-share=.nan", "audit-share: '.nan' is out of range. Give a number from 0 to 1.");
    refuses(
        "collection.recall-target=0.2",
        "collection.recall-target: 0.2 is out of range. Give a number from 0.5 to 0.999.",
    );
    refuses(
        "checkpoint={interval: 5 ms, path: DIR/c}",
        "checkpoint.interval: '5 ms' is out of range. Give a duration from 100 ms to 1 d.",
    );
    refuses(
        "rebalance.trigger=1",
        "rebalance.trigger: 1 is out of range. Give a number from 1.06 to 100.",
    );
    refuses("jvm.heap=1 mb", "jvm.heap: '1 mb' is out of range. Give a size from 256 mb to 1 tb.");
}

#[test]
fn rows_change_partition_only_where_they_can() {
    refuses(
        "rebalance.policy=cells",
        "rebalance.policy: rows change partition through the folder of the checkpoints, and there \
         is none. Add checkpoint with a path, or set it to none.",
    );
    let problems = |encoder: &str, policy: &str| {
        let text = format!(
            "collection: {{dimension: 3, metric: l2, encoder: {encoder}}}\n\
             vectors: {{kind: kafka, group: g, {TOPIC}}}\n\
             queries: {{kind: kafka, group: g, {TOPIC}}}\n\
             results: {{kind: kafka, {OUTPUT}}}\n\
             rebalance: {{policy: {policy}}}\n{CHECKPOINT}"
        );
        match JobSettings::from_yaml(&text) {
            Ok(_) => Vec::new(),
            Err(error) => error.problems().to_vec(),
        }
    };
    assert_eq!(problems("{kind: lsh, families: 1}", "boundary"), [""; 0]);
    assert_eq!(
        problems("{kind: lsh, families: 1}", "cells"),
        ["rebalance.policy: the encoder lsh has no cells to move. Set it to boundary, which \
          shifts the boundaries of its ranges, or to none."]
    );
    for policy in ["cells", "boundary"] {
        assert_eq!(
            problems("{kind: lsh, families: 2}", policy),
            ["rebalance.policy: with several families of hashes no range can change partition, \
              because a row has copies that depend on the boundaries. Set it to none, or \
              collection.encoder.families to 1."]
        );
        assert_eq!(
            problems("{kind: id}", policy),
            ["rebalance.policy: the encoder id has no ranges that can change partition. Set it to \
              none, or collection.encoder.kind to cells."]
        );
    }
}

#[test]
fn names_that_are_not_choices() {
    refuses(
        "collection.metric=manhattan",
        "collection.metric: 'manhattan' is not a metric. Choose one of l2, cosine, inner_product.",
    );
    refuses(
        "collection.element=f64",
        "collection.element: 'f64' is not an element type. Choose one of f32, f16, bf16, u8, i8.",
    );
    refuses(
        "collection.index=hnsw",
        "collection.index: 'hnsw' is not an index kind. Choose one of cluster, flat.",
    );
    refuses(
        "collection.encoder={kind: random}",
        "collection.encoder.kind: 'random' is not an encoder. Choose one of cells, lsh, id.",
    );
    refuses(
        "collection.encoder={kind: lsh, curve: moore}",
        "collection.encoder.curve: 'moore' is not a curve. Choose one of zorder, hilbert, gray, \
         peano, sierpinski.",
    );
    refuses(
        "results.kind=printer",
        "results.kind: 'printer' is not a sink. Choose one of blackhole, console, file, kafka.",
    );
    let both = problems_after(&["vectors={kind: pulsar, path: DIR/base.fbin}"]);
    assert_eq!(
        both,
        ["vectors.kind: 'pulsar' is not a source. Choose one of generator, file, kafka."]
    );
}

#[test]
fn keys_that_are_missing_unknown_or_of_another_shape() {
    refuses(
        "collection.metric=null",
        "collection.metric: this key is missing. Add it with one of l2, cosine, inner_product.",
    );
    refuses(
        "collection.dimension=null",
        "collection.dimension: this key is missing. Add it with a whole number from 1 to 4096.",
    );
    refuses("queries.path=null", "queries.path: this key is missing. Add it with a path.");
    refuses("snapshot={}", "snapshot.path: this key is missing. Add it with a path.");
    refuses(
        "vectors.prelaod=5",
        "vectors.prelaod: there is no such key. The keys here are kind, path, preload, limit.",
    );
    refuses("state=here", "state: 'here' is not a mapping. Write key: value pairs.");
    refuses("name=7", "name: 7 is not a text. Write one, in quotes.");
    refuses("name=\"  \"", "name: '  ' is not a text. Write one, in quotes.");
}

#[test]
fn quantities_without_a_unit() {
    refuses(
        "workload.duration=60",
        "workload.duration: 60 is not a duration. Write a whole number and its unit, such as 10 s, \
         500 ms or 2 min.",
    );
    refuses(
        "merge-deadline=5 parsecs",
        "merge-deadline: '5 parsecs' is not a duration. Write a whole number and its unit, such as \
         10 s, 500 ms or 2 min.",
    );
    refuses(
        "jvm.heap=4",
        "jvm.heap: 4 is not a size. Write a whole number and its unit, such as 64 mb or 4 gb.",
    );
}

#[test]
fn values_that_do_not_fit_together() {
    refuses(
        "workload.ratio={queries: 0, inserts: 0, deletes: 0}",
        "workload.ratio: queries, inserts and deletes are all 0, so nothing would be sent. Give at \
         least one of them a share, such as {queries: 1, inserts: 3, deletes: 1}.",
    );
    refuses(
        "workload.ratio={queries: 1, inserts: 1, deletes: 2}",
        "workload.ratio: 2 deletes to 1 inserts would run out of rows to delete. Give deletes at \
         most the share of inserts.",
    );
    refuses(
        "workload.duration=0",
        "workload.duration: the job would never end. Set it, such as 60 s, or set vectors.limit.",
    );
    refuses(
        "training-sample=800",
        "training-sample: 800 vectors are too few to train 1024 cells. Set it to at least 8192, or \
         collection.encoder.cells to at most 100.",
    );
    refuses(
        "collection.encoder={kind: lsh, curve: peano, hashes: 50}",
        "collection.encoder: A peano curve through 50 hashes does not fit the code beside 8 \
         families: use fewer hashes.",
    );
    refuses(
        "workload.warm-up=1 s",
        "workload.warm-up: it takes the whole duration of 1 s, so nothing would be measured. Make \
         it shorter.",
    );
    refuses(
        "queries=null",
        "queries: this key is missing, but workload.ratio.queries is not 0. Add a query source, or \
         set workload.ratio.queries to 0.",
    );
    refuses(
        "queries.kind=file",
        "queries.kind: 'file' cannot be mixed with generated vectors. Set it to generator, or \
         vectors.kind to file.",
    );
    assert_eq!(
        problems_after(&["vectors={kind: file, path: DIR/base.fbin}", "workload=null"]),
        ["queries.kind: 'generator' cannot be mixed with vectors from a file. Set it to file, or \
          vectors.kind to generator."]
    );
    assert_eq!(
        problems_after(&["vectors={kind: file, path: DIR/base.fbin}", "queries.kind=file"]),
        ["workload: files are read as they are, so there is no mix and no rate to set. Remove it, \
          or set vectors.kind to generator."]
    );
}

/// The problems of a job between topics whose `vectors`, `queries` or `results` end with `more`.
fn kafka_problems(vectors: &str, queries: &str, results: &str, rest: &str) -> Vec<String> {
    let text = format!(
        "collection: {{dimension: 3, metric: l2, encoder: {{kind: id}}}}\n\
         vectors: {{kind: kafka, group: g, {vectors}}}\n\
         queries: {{kind: kafka, group: g, {queries}}}\n\
         results: {{kind: kafka, {results}}}\n{rest}"
    );
    match JobSettings::from_yaml(&text) {
        Err(error) => error.problems().to_vec(),
        Ok(_) => Vec::new(),
    }
}

const TOPIC: &str = "brokers: 'a:1', topic: t";
const OUTPUT: &str = "brokers: 'a:1', topic: t, transactional-id-prefix: p";
const CHECKPOINT: &str = "checkpoint: {path: /tmp/c}\n";

#[test]
fn a_job_over_topics_cannot_leave_a_snapshot_at_an_end_that_never_comes() {
    let rest = format!("{CHECKPOINT}snapshot: {{path: run/snapshot}}\n");
    assert_eq!(
        kafka_problems(TOPIC, TOPIC, OUTPUT, &rest),
        ["snapshot: it is written when a job ends, and a job over topics ends only when it is \
             stopped, which writes none. Remove it; checkpoint keeps the rows."]
    );
}

#[test]
fn what_isolated_groups_have_not() {
    refuses(
        "collection.groups={mode: isolated}",
        "vectors.kind: generated rows are in no group. Set it to kafka or file, or remove \
         collection.groups.",
    );
    let timed = format!("{TOPIC}, time-to-live: 2 h");
    let text = format!(
        "collection: {{dimension: 3, metric: l2, groups: {{mode: isolated}}}}\n\
         vectors: {{kind: kafka, group: g, {timed}}}\n\
         queries: {{kind: kafka, group: g, {TOPIC}}}\n\
         results: {{kind: kafka, {OUTPUT}}}\n\
         rebalance: {{policy: boundary}}\n{CHECKPOINT}"
    );
    let error = JobSettings::from_yaml(&text).expect_err("refused");
    assert_eq!(
        error.problems(),
        [
            "vectors.time-to-live: rows of isolated groups live until they are deleted, or until \
             their group is dropped. Remove it, or collection.groups.",
            "rebalance.policy: an isolated group stays in its shard. Set it to none.",
        ]
    );
}

#[test]
fn attributes_that_rows_would_bring_with_them() {
    assert_eq!(
        problems_after(&["collection.open=true"]),
        ["collection.open: the partitions of a job cannot agree about attributes that rows bring with \
          them. List them under collection.attributes, and remove it."]
    );
}

#[test]
fn reads_that_others_could_make_or_nobody_could_find() {
    let sentence = "reads.host: other machines reach this address: give reads.key-file, \
                    reads.keystore and reads.password-file too, or set it to 127.0.0.1.";
    let checkpoint = "checkpoint.path=c";
    let problems = problems_after(&["reads.host=0.0.0.0", "reads.key-file=k", checkpoint]);
    assert_eq!(problems, [sentence]);
    let (_keep, folder) = folder_with_data();
    for host in ["127.0.0.1", "'::1'", "localhost"] {
        let text = smallest_job(&folder);
        let job = format!("{text}checkpoint: {{path: c}}\nreads: {{host: {host}}}\n");
        assert!(JobSettings::from_yaml(&job).is_ok(), "{host}");
    }
    // Half of TLS would be none.
    let problems = problems_after(&["reads.keystore=k", checkpoint]);
    assert_eq!(
        problems,
        ["reads.keystore: no password opens it. Give reads.password-file too, or leave it out."]
    );
    let problems = problems_after(&["reads.password-file=p", checkpoint]);
    assert_eq!(
        problems,
        ["reads.password-file: there is no keystore that it opens. Give reads.keystore too, or leave it \
          out."]
    );
    let problems = problems_after(&["reads.connections=3"]);
    assert_eq!(
        problems,
        ["reads: where partitions answer is published in the folder of the checkpoints, and there is \
          none. Add checkpoint with a path, or remove it."]
    );
}

#[test]
fn topics_that_cannot_be_used() {
    assert_eq!(kafka_problems(TOPIC, TOPIC, OUTPUT, CHECKPOINT), [""; 0]);
    assert_eq!(
        kafka_problems("brokers: 'a', topic: a b", "topic: t", "brokers: ':1', topic: t", ""),
        [
            "vectors.brokers: 'a' is not host:port. Write them like \
             broker-1:9092,broker-2:9092.",
            "vectors.topic: 'a b' cannot be the name of a topic. Use at most 249 letters, digits, \
             dots, underscores and hyphens.",
            "queries.brokers: this key is missing. Add it with a text.",
            "results.brokers: ':1' is not host:port. Write them like \
             broker-1:9092,broker-2:9092.",
            "results.transactional-id-prefix: this key is missing. Add it with a text.",
        ]
    );
    let debezium = format!("{TOPIC}, format: debezium");
    assert_eq!(
        kafka_problems(&debezium, &debezium, OUTPUT, CHECKPOINT),
        ["queries.format: 'debezium' is not a format. Choose one of json, raw, avro."]
    );
    let owned = format!("{TOPIC}, properties: {{group.id: x, ssl: {{}}}}");
    assert_eq!(
        kafka_problems(&owned, TOPIC, OUTPUT, CHECKPOINT),
        [
            "vectors.properties.group.id: the job sets this itself. Remove it and use group.",
            "vectors.properties.ssl: a property of a Kafka client is a text, a number, true or \
             false.",
        ]
    );
}

#[test]
fn avro_that_nobody_could_read() {
    let problems = |vectors: &str| {
        let vectors = format!("{TOPIC}, {vectors}");
        kafka_problems(&vectors, TOPIC, OUTPUT, CHECKPOINT)
    };
    assert_eq!(
        problems("format: avro"),
        ["vectors.schema: records in Avro are read by a schema. Give it as JSON, or set \
          schema-registry."]
    );
    assert_eq!(
        problems("format: avro, schema: '{\"type\": \"record\", \"fields\": []}'"),
        ["vectors.schema: this is not an Avro record with the fields id and vector, as JSON."]
    );
    assert_eq!(
        problems("schema: '{}'"),
        ["vectors.schema: only Avro has a schema here. Remove it, or set format to avro."]
    );
    assert_eq!(
        problems("format: avro, schema: '{}', schema-registry: 'http://r'"),
        ["vectors.schema: the registry has the schemas. Remove this key, or schema-registry."]
    );
    assert_eq!(
        problems("format: avro, schema-registry: 'r:8081'"),
        ["vectors.schema-registry: 'r:8081' is not an HTTP address. Write it like \
          http://registry-1:8081."]
    );
    assert_eq!(
        problems("schema-registry: 'http://r'"),
        ["vectors.schema-registry: a registry has schemas of Avro. Remove it, or set format to \
          avro."]
    );
}

#[test]
fn transactions_that_could_end_too_early() {
    assert_eq!(
        kafka_problems(TOPIC, TOPIC, OUTPUT, ""),
        ["results.delivery: 'exactly-once' commits answers when a checkpoint completes, and there \
          are no checkpoints. Add a checkpoint section, or set it to at-least-once."]
    );
    let short = format!("{OUTPUT}, transaction-timeout: 430 s");
    assert_eq!(
        kafka_problems(TOPIC, TOPIC, &short, CHECKPOINT),
        ["results.transaction-timeout: 430 s is not more than checkpoint.interval, \
          checkpoint.timeout and results.recovery-time together (430 s), so the broker could abort \
          answers that a checkpoint counts as sent. Make it longer, or one of the others shorter."]
    );
    let enough = format!("{OUTPUT}, transaction-timeout: 431 s");
    assert_eq!(kafka_problems(TOPIC, TOPIC, &enough, CHECKPOINT), [""; 0]);
    let without = format!("{TOPIC}, delivery: at-least-once");
    assert_eq!(kafka_problems(TOPIC, TOPIC, &without, ""), [""; 0]);
}

#[test]
fn files_that_are_missing_or_damaged() {
    refuses(
        "vectors.path=DIR/absent.fbin",
        "vectors.path: DIR/absent.fbin does not exist. Correct the path, or create the file first \
         (`make data` gets the examples' data).",
    );
    refuses(
        "queries.path=DIR",
        "queries.path: DIR ends in none of .fbin, .u8bin and .i8bin. Give such a file.",
    );
    let of = |key: &str, file: &str| {
        format!(
            "{key}: DIR/{file} holds vectors of dimension 4, but collection.dimension is 5. Set \
             collection.dimension to 4 or give another file."
        )
    };
    assert_eq!(
        problems_after(&["collection.dimension=5"]),
        [of("vectors.path", "base.fbin"), of("queries.path", "query.fbin")]
    );
    refuses(
        "vectors.preload=101",
        "vectors.preload: 101 is more than the 100 rows of DIR/base.fbin. Set it to at most that \
         number.",
    );
}

#[test]
fn damaged_matrix_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.fbin");
    let says = || {
        let sentence = vstream_settings::read_matrix_header(&path).expect_err("refused");
        sentence.replace(&path.display().to_string(), "FILE")
    };
    fs::write(&path, [0u8; 7]).expect("writes");
    assert_eq!(says(), "FILE is too short to be a matrix file. Create it again.");
    write_matrix(&path, 0, 4);
    assert_eq!(
        says(),
        "FILE says that it holds 0 vectors of dimension 4, which cannot be used. Give a file with \
         at least one vector of dimension 1 to 4096."
    );
    write_matrix(&path, 2, 4);
    fs::write(&path, &fs::read(&path).expect("reads")[..39]).expect("writes");
    assert_eq!(
        says(),
        "FILE has 39 bytes, but 2 vectors of dimension 4 need 40. The file is cut short or \
         damaged: create it again."
    );
}

#[test]
fn folders_that_cannot_be_written() {
    for (key, assignment) in [
        ("state.path", "state.path=DIR/base.fbin/state"),
        ("checkpoint.path", "checkpoint={path: DIR/base.fbin/state}"),
        ("snapshot.path", "snapshot={path: DIR/base.fbin/state}"),
        ("results.path", "results={kind: file, path: DIR/base.fbin/state/answers.jsonl}"),
    ] {
        refuses(
            assignment,
            &format!(
                "{key}: DIR/base.fbin/state cannot be written (DIR/base.fbin is not a folder). \
                 Choose a folder that this user may write."
            ),
        );
    }
    let [sentence] = problems_after(&["state.path=/proc/vstream"]).try_into().expect("one");
    assert!(sentence.starts_with("state.path: /proc/vstream cannot be written ("), "{sentence}");
}

#[test]
fn addresses_that_are_no_folder() {
    for (path, sentence) in [
        ("s3://", "'s3://' names no bucket. Write s3://bucket/folder."),
        (
            "s3://key:secret@b/x",
            "an address holds no credentials. Leave them to the environment: AWS_ACCESS_KEY_ID and \
             AWS_SECRET_ACCESS_KEY.",
        ),
        (
            "s3://key:a/secret@b/x?region=here",
            "an address holds no credentials. Leave them to the environment: AWS_ACCESS_KEY_ID and \
             AWS_SECRET_ACCESS_KEY.",
        ),
        (
            "s3://b/x?region=here",
            "'s3://b/x?region=here' has more than a bucket and a folder. Leave endpoint and region \
             to the environment: AWS_ENDPOINT_URL and AWS_REGION.",
        ),
        ("file:x", "'file:x' is no folder. Write file:///folder."),
    ] {
        refuses(
            &format!("checkpoint={{path: \"{path}\"}}"),
            &format!("checkpoint.path: {sentence}"),
        );
    }
    for key in ["state", "snapshot"] {
        refuses(
            &format!("{key}={{path: \"s3://b/x\"}}"),
            &format!(
                "{key}.path: this is a path of this machine, and no address. Write it without ://."
            ),
        );
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let error = JobSettings::from_yaml("parallelism: 0\nrate: 5\n").expect_err("refused");
    let keys: Vec<&str> =
        error.problems().iter().filter_map(|problem| problem.split(':').next()).collect();
    assert!(keys.starts_with(&["parallelism", "collection.dimension", "collection.metric"]));
    assert!(keys.contains(&"vectors.kind") && keys.contains(&"rate"));
    assert_eq!(error.to_string().lines().count(), error.problems().len());
}

#[test]
fn a_collection_from_json_says_the_same() {
    let error = CollectionSettings::from_json(r#"{"dimension": 5000, "metric": "l2", "x": 1}"#)
        .expect_err("refused");
    assert_eq!(
        error.problems(),
        [
            "dimension: 5000 is out of range. Give a whole number from 1 to 4096.",
            "x: there is no such key. The keys here are dimension, metric, element, index, encoder, \
             shards, recall-target, seed, memory, code-memory, remote, disk, segments, deletes, id, \
             attributes, open, groups, deletes-remembered, payload-limit, without."
        ]
    );
}

#[test]
fn documents_and_what_they_need() {
    refuses(
        "documents={chunk: {size: 100, overlap: 60}}",
        "documents.chunk.overlap: 60 is more than half of 100, the size of a chunk. Lower it.",
    );
    refuses(
        "documents={text: id}",
        "documents.text: 'id' is another part of a record. Name its text.",
    );
    assert_eq!(
        problems_after(&["documents={}", "collection.metric=l2"]),
        [
            "embedding: this key is missing, and documents is there. Give both or neither.",
            "collection.id: chunks have texts as ids. Set it to string.",
            "collection.metric: vectors of texts are directions. Set it to cosine.",
            "vectors.kind: a generator makes no texts. Set it to file or kafka.",
        ]
    );
    refuses(
        "embedding={model: m}",
        "documents: this key is missing, and embedding is there. Give both or neither.",
    );
    let topic = "kind: kafka, brokers: 'a:1', topic: t, group: g";
    assert_eq!(
        problems_after(&[
            "collection.id=string",
            &format!("vectors={{{topic}, format: raw}}"),
            &format!("queries={{{topic}, format: raw}}"),
            "workload.duration=0 ms",
            "documents={}",
            "embedding={model: m}",
        ]),
        [
            "vectors.format: documents come as JSON. Set it to json.",
            "queries.format: questions come as JSON. Set it to json.",
        ]
    );
    assert_eq!(
        problems_after(&[
            "collection.id=string",
            "vectors={kind: file, path: DIR/base.fbin}",
            "queries={kind: file, path: DIR/base.fbin}",
            "workload.duration=0 ms",
            "documents={}",
            "embedding={model: DIR/none}",
        ]),
        [
            "embedding.model: DIR/none does not exist. Correct the path, or get a model first (`make \
             data-models` gets those of the examples)."
        ]
    );
}
