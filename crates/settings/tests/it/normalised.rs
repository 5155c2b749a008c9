//! Defaults, units and paths of accepted settings.

use std::path::Path;

use serde_json::{json, Value};
use vstream_engine::DeleteOrder;
use vstream_settings::{CollectionSettings, Document, JobSettings, WhenFull};

use crate::{folder_with_data, smallest_job};

#[test]
fn a_job_is_completed_with_defaults() {
    let (_keep, folder) = folder_with_data();
    let job = JobSettings::from_yaml(&smallest_job(&folder)).expect("accepted");
    job.validate().expect("its files are there");
    let json: Value = serde_json::from_str(&job.to_json()).expect("JSON");
    let expected = json!({
        "name": "vstream",
        "parallelism": 2,
        "collection": {
            "dimension": 4, "metric": "cosine", "element": "f32", "index": "cluster",
            "encoder": {"kind": "cells", "cells": 1024, "recall-target": json["collection"]["encoder"]["recall-target"]},
            "shards": 128, "recall-target": 0.95, "seed": 42, "memory": null,
            "code-memory": null, "remote": null, "disk": null, "segments": "clusters", "deletes": "any", "id": "u64",
            "attributes": {}, "open": false,
            "groups": null, "deletes-remembered": null, "payload-limit": null, "without": []
        },
        "vectors": {"kind": "generator", "path": folder.join("base.fbin"), "preload": 0, "limit": 0},
        "queries": {"kind": "generator", "path": folder.join("query.fbin"), "k": 10},
        "documents": null,
        "embedding": null,
        "workload": {
            "ratio": {"queries": 1, "inserts": 3, "deletes": 1}, "rate": 0, "duration": 1000,
            "warm-up": 0
        },
        "results": {"kind": "blackhole"},
        "training-sample": 20000,
        "merge-deadline": 5000,
        "audit-share": 0.0025,
        "rebalance": {"policy": "none", "interval": 5000, "trigger": 1.15},
        "search": {"threads": 1, "in-flight": 32, "when-full": "wait"},
        "reads": null,
        "checkpoint": null,
        "state": {"path": folder.join("state")},
        "snapshot": null,
        "jvm": {"heap": 2u64 << 30},
        "faults": {}
    });
    assert_eq!(json, expected);
    let near = |value: &Value, wanted: f64| (value.as_f64().expect("a number") - wanted).abs();
    assert!(near(&json["collection"]["encoder"]["recall-target"], 0.98) < 1e-6);
}

#[test]
fn the_normalised_form_reads_back_to_the_same_job() {
    let (_keep, folder) = folder_with_data();
    let text = smallest_job(&folder)
        + "name: all keys\n\
           parallelism: 200\n\
           results: {kind: file, path: out/answers.jsonl}\n\
           checkpoint: {interval: 500 ms, path: run/checkpoints}\n\
           snapshot: {path: run/snapshot}\n\
           merge-deadline: 2 min\n\
           rebalance: {policy: boundary, interval: 2 s, trigger: 1.3}\n\
           search: {threads: 0, in-flight: 7, when-full: shed}\n\
           jvm: {heap: 512 mb}\n\
           faults: {lose-a-record: true}\n";
    let mut document = Document::from_yaml(&text).expect("YAML");
    document.set("collection.memory=256 mb").expect("sets");
    document.set("collection.code-memory=1 gb").expect("sets");
    document.set("collection.shards=1024").expect("sets");
    document.set("collection.id=string").expect("sets");
    document
        .set("collection.attributes={tags: keywords, price: f64, author: keyword}")
        .expect("sets");
    document.set("collection.deletes-remembered=2 h").expect("sets");
    document.without("threshold-stop").expect("sets");
    let job = JobSettings::from_document(&document).expect("accepted");
    let again = JobSettings::from_json(&job.to_json()).expect("accepted again");
    assert_eq!(again, job);
    assert_eq!(again.to_json(), job.to_json());
    assert_eq!(
        (again.collection.route().shards, again.collection.group_store().shards),
        (1024, 1024)
    );
    // The order of the file is that of the columns, which rows are stored by.
    let columns = again.collection.schema.attributes.iter().map(|one| one.name.as_str());
    assert_eq!(columns.collect::<Vec<_>>(), ["tags", "price", "author"]);
    assert_eq!(job.merge_deadline, 120_000);
    assert_eq!((job.search.threads, job.search.in_flight), (0, 7));
    assert_eq!(job.search.when_full, WhenFull::Shed);
    assert_eq!(job.jvm.heap, 512 << 20);
    assert_eq!(job.collection.engine().memory, Some(256 << 20));
    assert_eq!(job.collection.engine().code_memory, Some(1 << 30));
    assert_eq!(job.collection.engine().ablation.names(), ["threshold-stop"]);
    let checkpoint = job.checkpoint.expect("given");
    assert!(checkpoint.path.local().expect("on this machine").is_absolute());
}

#[test]
fn checkpoints_may_lie_on_any_file_system() {
    let (_keep, folder) = folder_with_data();
    let path_of = |given: &str| {
        let text = smallest_job(&folder) + &format!("checkpoint: {{path: \"{given}\"}}\n");
        let job = JobSettings::from_yaml(&text).expect("accepted");
        job.validate().expect("nothing to look at on this machine");
        let json = job.to_json();
        assert_eq!(JobSettings::from_json(&json).expect("accepted again"), job);
        let json: Value = serde_json::from_str(&json).expect("JSON");
        json["checkpoint"]["path"].as_str().expect("a text").to_owned()
    };
    let elsewhere = ["s3://b/x", "s3a://bucket/a b/c", "hdfs:///jobs", "abfss://c@a.host/jobs"];
    for address in elsewhere {
        assert_eq!(path_of(address), address);
    }
    let here = std::env::current_dir().expect("a folder");
    assert_eq!(path_of("run/checkpoints"), here.join("run/checkpoints").display().to_string());
    for file in ["file:///tmp/c", "file:/tmp/c", "/tmp/c"] {
        assert_eq!(path_of(file), "/tmp/c");
    }
}

#[test]
fn a_ratio_is_given_whole() {
    let (_keep, folder) = folder_with_data();
    let mut document = Document::from_yaml(&smallest_job(&folder)).expect("YAML");
    document.set("workload.ratio={inserts: 1}").expect("sets");
    document.set("queries=null").expect("sets");
    let job = JobSettings::from_document(&document).expect("accepted");
    assert_eq!((job.workload.ratio.queries, job.workload.ratio.deletes), (0, 0));
    assert!(job.queries.is_none());
}

#[test]
fn file_jobs_need_no_workload() {
    let text = "collection: {dimension: 3, metric: l2, encoder: {kind: id}}\n\
                vectors: {kind: file, path: in.jsonl}\n\
                queries: {kind: file, path: queries.jsonl, k: 3}\n";
    let job = JobSettings::from_yaml(text).expect("accepted");
    assert_eq!(JobSettings::from_json(&job.to_json()).as_ref(), Ok(&job));
    assert!(job.vectors.path().expect("a file").is_absolute());
    let queries = job.queries.expect("given");
    let path = queries.path().expect("a file");
    assert_eq!(path.file_name(), Some("queries.jsonl".as_ref()));
}

#[test]
fn kafka_topics_are_completed_with_defaults() {
    let text = "collection: {dimension: 3, metric: l2, encoder: {kind: id}}\n\
                vectors: {kind: kafka, brokers: 'a:1,b:2', topic: v, group: g, \
                          properties: {security.protocol: SSL, retries: 3}}\n\
                queries: {kind: kafka, brokers: 'a:1', topic: q, group: g, format: raw, \
                          start: committed, k: 3}\n\
                results: {kind: kafka, brokers: 'a:1', topic: r, transactional-id-prefix: p}\n\
                checkpoint: {path: /tmp/c}\n";
    let job = JobSettings::from_yaml(text).expect("accepted");
    let json: Value = serde_json::from_str(&job.to_json()).expect("JSON");
    assert_eq!(
        json["vectors"],
        json!({
            "kind": "kafka", "brokers": "a:1,b:2", "topic": "v", "group": "g", "format": "json",
            "start": "earliest", "out-of-orderness": 1000, "idle-after": 5000,
            "properties": {"security.protocol": "SSL", "retries": 3}
        })
    );
    assert_eq!(
        json["queries"],
        json!({
            "kind": "kafka", "brokers": "a:1", "topic": "q", "group": "g", "format": "raw",
            "start": "committed", "out-of-orderness": 1000, "idle-after": 5000, "properties": {},
            "k": 3
        })
    );
    assert_eq!(
        json["results"],
        json!({
            "kind": "kafka", "brokers": "a:1", "topic": "r", "format": "json",
            "delivery": "exactly-once",
            "transactional-id-prefix": "p", "transaction-timeout": 900000, "recovery-time": 300000,
            "properties": {}
        })
    );
    assert_eq!(JobSettings::from_json(&job.to_json()), Ok(job));
}

#[test]
fn rows_of_a_topic_may_live_for_a_time() {
    let text = "collection: {dimension: 3, metric: l2, encoder: {kind: id}}\n\
                vectors: {kind: kafka, brokers: 'a:1', topic: v, group: g, time-to-live: 2 h}\n\
                queries: {kind: kafka, brokers: 'a:1', topic: q, group: g}\n\
                results: {kind: blackhole}\n\
                checkpoint: {path: /tmp/c}\n";
    let job = JobSettings::from_yaml(text).expect("accepted");
    let json: Value = serde_json::from_str(&job.to_json()).expect("JSON");
    assert_eq!(json["vectors"]["time-to-live"], json!(7_200_000));
    assert_eq!(JobSettings::from_json(&job.to_json()).as_ref(), Ok(&job));
    // Without the key, rows with a time to live are deleted oldest first.
    assert_eq!(job.collection.engine().deletes, DeleteOrder::OldestFirst);
    let otherwise = text.replace("metric: l2,", "metric: l2, deletes: any,");
    let otherwise = JobSettings::from_yaml(&otherwise).expect("accepted");
    assert_eq!(otherwise.collection.engine().deletes, DeleteOrder::Any);
    let forever = JobSettings::from_yaml(&text.replace(", time-to-live: 2 h", ""));
    assert_eq!(forever.expect("accepted").collection.engine().deletes, DeleteOrder::Any);

    let of_queries = text.replace("topic: q,", "topic: q, time-to-live: 2 h,");
    let refused = JobSettings::from_yaml(&of_queries).expect_err("queries do not live").to_string();
    assert!(refused.contains("queries.time-to-live"), "{refused}");
    let refused = JobSettings::from_yaml(&text.replace("2 h", "0 s")).expect_err("no time");
    assert!(refused.to_string().contains("vectors.time-to-live"), "{refused}");
}

#[test]
fn avro_is_read_by_a_schema_or_a_registry() {
    let schema = r#"{"type": "record", "name": "V", "fields": [{"name": "id", "type": "long"},
        {"name": "vector", "type": {"type": "array", "items": "float"}}]}"#;
    let text = format!(
        "collection: {{dimension: 3, metric: l2, encoder: {{kind: id}}}}\n\
         vectors: {{kind: kafka, brokers: 'a:1', topic: v, group: g, format: avro, \
                   schema: '{schema}'}}\n\
         queries: {{kind: kafka, brokers: 'a:1', topic: q, group: g, format: avro, \
                   schema-registry: 'http://r:8081'}}\n\
         results: {{kind: kafka, brokers: 'a:1', topic: r, delivery: at-least-once, \
                   format: avro, schema-registry: 'https://r:8081'}}\n"
    );
    let job = JobSettings::from_yaml(&text).expect("accepted");
    let json: Value = serde_json::from_str(&job.to_json()).expect("JSON");
    // A line break in a quoted text of YAML is a space.
    let read: Value = serde_json::from_str(json["vectors"]["schema"].as_str().expect("a text"))
        .expect("the schema is JSON");
    assert_eq!(read, serde_json::from_str::<Value>(schema).expect("JSON"));
    assert_eq!(json["vectors"]["schema-registry"], Value::Null);
    assert_eq!(json["queries"]["schema-registry"], "http://r:8081");
    assert_eq!(json["results"]["format"], "avro");
    assert_eq!(json["results"]["schema-registry"], "https://r:8081");
    assert_eq!(JobSettings::from_json(&job.to_json()), Ok(job));
}

#[test]
fn every_encoder_is_read() {
    let read = |encoder: &str| {
        let text = format!("{{\"dimension\": 8, \"metric\": \"l2\", \"encoder\": {encoder}}}");
        let settings = CollectionSettings::from_json(&text).expect("accepted");
        let json: Value = serde_json::from_str(&settings.to_json()).expect("JSON");
        assert_eq!(CollectionSettings::from_json(&settings.to_json()), Ok(settings));
        json["encoder"].clone()
    };
    assert_eq!(read(r#"{"kind": "id"}"#), json!({"kind": "id"}));
    for curve in ["zorder", "hilbert", "gray", "peano", "sierpinski"] {
        let text = format!(r#"{{"kind": "lsh", "curve": "{curve}", "width": 2}}"#);
        let expected = json!({
            "kind": "lsh", "curve": curve, "families": 8, "hashes": 10, "width": 2.0, "bits": 6
        });
        assert_eq!(read(&text), expected);
    }
}

#[test]
fn the_examples_are_valid() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(examples).expect("the examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = std::fs::read_to_string(&path).expect("text");
            if let Err(error) = JobSettings::from_yaml(&text) {
                panic!("{}: {error}", path.display());
            }
            seen += 1;
        }
    }
    assert!(seen >= 3, "only {seen} examples found");
}

#[test]
fn names_from_other_systems_become_ours() {
    for (alias, name) in [("ip", "inner_product"), ("dot", "inner_product"), ("euclid", "l2")] {
        let text = format!(r#"{{"dimension": 8, "metric": "{alias}", "element": "float32"}}"#);
        let settings = CollectionSettings::from_json(&text).expect("accepted");
        assert_eq!((settings.metric.name(), settings.element.name()), (name, "f32"));
    }
}
