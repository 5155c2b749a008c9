//! Jobs that together have every key that a job file can have.

/// The job that the reference begins with.
pub(super) const SHOWN: &str = "\
name: products
parallelism: 4
collection:
  dimension: 384
  metric: cosine
  recall-target: 0.95
  memory: 1 gb               # of each partition; older rows lie on the local disk
vectors:
  kind: kafka
  brokers: broker-1:9092,broker-2:9092
  topic: vectors
  group: vstream
queries:
  kind: kafka
  brokers: broker-1:9092,broker-2:9092
  topic: queries
  group: vstream
  start: committed
results:
  kind: kafka
  brokers: broker-1:9092,broker-2:9092
  topic: answers
  delivery: exactly-once
  transactional-id-prefix: products
checkpoint: {interval: 1 s, path: s3://bucket/products}
";

/// The smallest jobs, one of each kind of source: nothing is given that has a default.
const MINIMAL: &[&str] = &[
    "collection: {dimension: 4, metric: l2}\n\
     vectors: {kind: generator, path: v.fbin}\n\
     queries: {kind: generator, path: q.fbin}\n",
    "collection: {dimension: 4, metric: l2, encoder: {kind: lsh}}\n\
     vectors: {kind: file, path: v.jsonl}\n\
     queries: {kind: file, path: q.jsonl}\n\
     results: {kind: file, path: a.jsonl}\n",
    "collection: {dimension: 4, metric: l2, encoder: {kind: id}}\n\
     vectors: {kind: kafka, brokers: 'a:1', topic: v, group: g}\n\
     queries: {kind: kafka, brokers: 'a:1', topic: q, group: g}\n\
     results: {kind: kafka, brokers: 'a:1', topic: r, transactional-id-prefix: p}\n\
     checkpoint: {path: c}\n",
    "collection: {dimension: 4, metric: cosine, id: string}\n\
     vectors: {kind: file, path: v.jsonl}\n\
     documents: {}\n\
     embedding: {model: m}\n",
];

/// Jobs with the keys that are absent unless they are given.
const FULL: &[&str] = &[
    "collection: {dimension: 4, metric: l2, memory: 1 mb, code-memory: 1 mb, remote: r, disk: 1 gb, \
                  groups: {mode: shared}, deletes-remembered: 1 h, payload-limit: 64 kb}\n\
     vectors: {kind: generator, path: v.fbin}\n\
     queries: {kind: generator, path: q.fbin}\n\
     results: {kind: console}\n\
     workload: {duration: 1 s}\n\
     checkpoint: {path: c}\n\
     reads: {key-file: k, keystore: s, password-file: p}\n\
     snapshot: {path: s}\n",
    "collection: {dimension: 4, metric: l2, groups: {mode: isolated, spread-rows: 5000}}\n\
     vectors: {kind: kafka, brokers: 'a:1', topic: v, group: g}\n\
     queries: {kind: kafka, brokers: 'a:1', topic: q, group: g}\n\
     results: {kind: kafka, brokers: 'a:1', topic: r, transactional-id-prefix: p}\n\
     checkpoint: {path: c}\n",
    "collection: {dimension: 4, metric: l2}\n\
     vectors: {kind: kafka, brokers: 'a:1', topic: v, group: g, time-to-live: 2 h, \
               format: avro, schema-registry: 'http://r:1'}\n\
     queries: {kind: kafka, brokers: 'a:1', topic: q, group: g, format: avro, \
               schema: 'SCHEMA'}\n\
     results: {kind: kafka, brokers: 'a:1', topic: r, transactional-id-prefix: p, \
               format: avro, schema-registry: 'http://r:1'}\n\
     checkpoint: {path: c}\n",
    "collection: {dimension: 4, metric: l2}\n\
     vectors: {kind: kafka, brokers: 'a:1', topic: v, group: g, format: avro, \
               schema: 'SCHEMA'}\n\
     queries: {kind: kafka, brokers: 'a:1', topic: q, group: g, format: avro, \
               schema-registry: 'http://r:1'}\n\
     results: {kind: blackhole}\n",
    "collection: {dimension: 4, metric: cosine, id: string}\n\
     vectors: {kind: file, path: v.jsonl}\n\
     documents: {chunk: {}}\n\
     embedding: {model: m, runtime: r}\n",
];

/// Every job, with whether it is one of the smallest. The full ones come first, so that keys keep
/// the order in which the parser asks for them.
pub(super) fn jobs() -> impl Iterator<Item = (String, bool)> {
    let full = FULL.iter().map(|job| (job.replace("SCHEMA", SCHEMA), false));
    full.chain(MINIMAL.iter().map(|job| ((*job).to_owned(), true)))
}

/// Has the fields that records of vectors and queries need.
const SCHEMA: &str =
    r#"{"type": "record", "fields": [{"name": "id"}, {"name": "query_id"}, {"name": "vector"}]}"#;
