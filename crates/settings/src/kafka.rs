//! Kafka topics that a job reads and writes, and which combinations of their settings are safe.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::section::Section;
use crate::units;

/// Longest name of a topic in Kafka.
const TOPIC_MAX: usize = 249;

/// A day, in milliseconds.
const DAY: u64 = 86_400_000;
/// Ten years, longer than any stream is kept.
const LIFE_MAX: u64 = 3_650 * DAY;

/// Kafka properties that other keys set.
const OWNED: &[(&str, &str)] = &[
    ("bootstrap.servers", "brokers"),
    ("group.id", "group"),
    ("auto.offset.reset", "start"),
    ("enable.auto.commit", "checkpoint"),
    ("transactional.id", "transactional-id-prefix"),
    ("transaction.timeout.ms", "transaction-timeout"),
    ("enable.idempotence", "delivery"),
    ("acks", "delivery"),
];

/// A topic to read.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct KafkaInput {
    /// `host:port`, separated by commas.
    pub brokers: String,
    /// The topic. The job reads all of its partitions.
    pub topic: String,
    /// Consumer group that commits the offsets, for display and for `start: committed`.
    pub group: String,
    /// Format of the records.
    pub format: KafkaFormat,
    /// Schema of [`KafkaFormat::Avro`] records, as JSON. `None`: the registry has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// HTTP address of the registry with the schemas of Avro records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_registry: Option<String>,
    /// Where a job without a checkpoint starts to read.
    pub start: KafkaStart,
    /// Milliseconds by which records may be out of the order of their timestamps. The watermark is
    /// this much behind the newest record.
    pub out_of_orderness: u64,
    /// Milliseconds after which a partition without records stops holding back the watermark.
    pub idle_after: u64,
    /// A row is deleted when the watermark is this many milliseconds past its timestamp. `None`
    /// keeps rows until they are deleted or replaced. Always `None` for queries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_to_live: Option<u64>,
    /// Other properties of the Kafka client, such as those of TLS and SASL.
    pub properties: BTreeMap<String, Value>,
}

/// Format of vector and query records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KafkaFormat {
    /// The value is the JSON object that a line of a file would have. The key of a vector is its id
    /// as decimal text; a key without a value deletes the vector.
    Json,
    /// The value is the vector, 4-byte little-endian floats; the key is the id, 8 bytes big-endian.
    Raw,
    /// The value is a Debezium change event in JSON.
    Debezium,
    /// The value is an Avro record. The key of a vector is the same as for `Json`, or an Avro
    /// number.
    Avro,
}

/// Format of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerFormat {
    /// The value is a JSON object.
    Json,
    /// The value is an Avro record. Its schema never changes.
    Avro,
}

/// The first record to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KafkaStart {
    /// The oldest record in the topic.
    Earliest,
    /// The first record after the start of the job.
    Latest,
    /// The group's committed offset. The oldest record if there is none.
    Committed,
}

/// A topic to which answers are written.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct KafkaOutput {
    /// `host:port`, separated by commas.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// Format of the records.
    pub format: AnswerFormat,
    /// HTTP address of the registry where the schema of Avro records is registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_registry: Option<String>,
    /// The effect of a failure on answers: none, or some are repeated.
    pub delivery: Delivery,
    /// Prefix of the names of the job's transactions. No other job may use it. `None` only without
    /// transactions.
    pub transactional_id_prefix: Option<String>,
    /// Milliseconds after which the broker aborts an open transaction.
    pub transaction_timeout: u64,
    /// Milliseconds of the longest outage after which the answers of the last checkpoint can still
    /// be committed.
    pub recovery_time: u64,
    /// Other properties of the Kafka client, such as those of TLS and SASL.
    pub properties: BTreeMap<String, Value>,
}

/// The effect of a failure on answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Each answer is committed exactly once, when a checkpoint completes.
    ExactlyOnce,
    /// Each answer is sent at once. After a failure some are sent again.
    AtLeastOnce,
}

const VECTOR_FORMATS: &[(&str, KafkaFormat)] = &[
    ("json", KafkaFormat::Json),
    ("raw", KafkaFormat::Raw),
    ("debezium", KafkaFormat::Debezium),
    ("avro", KafkaFormat::Avro),
];

const QUERY_FORMATS: &[(&str, KafkaFormat)] =
    &[("json", KafkaFormat::Json), ("raw", KafkaFormat::Raw), ("avro", KafkaFormat::Avro)];

const ANSWER_FORMATS: &[(&str, AnswerFormat)] =
    &[("json", AnswerFormat::Json), ("avro", AnswerFormat::Avro)];

const STARTS: &[(&str, KafkaStart)] = &[
    ("earliest", KafkaStart::Earliest),
    ("latest", KafkaStart::Latest),
    ("committed", KafkaStart::Committed),
];

const DELIVERIES: &[(&str, Delivery)] =
    &[("exactly-once", Delivery::ExactlyOnce), ("at-least-once", Delivery::AtLeastOnce)];

impl KafkaInput {
    /// Reads all keys except `kind`. The caller finishes the section.
    pub(crate) fn read_vectors(section: &Section) -> KafkaInput {
        let lives = section.has("time-to-live");
        let time_to_live = lives.then(|| section.duration_ms("time-to-live", 1..=LIFE_MAX, 1));
        KafkaInput { time_to_live, ..KafkaInput::read(section, VECTOR_FORMATS, "id") }
    }

    /// Reads the input of queries: as [`KafkaInput::read_vectors`], without the keys for deletes.
    pub(crate) fn read_queries(section: &Section) -> KafkaInput {
        KafkaInput::read(section, QUERY_FORMATS, "query_id")
    }

    fn read(
        section: &Section,
        formats: &[(&'static str, KafkaFormat)],
        id: &'static str,
    ) -> KafkaInput {
        let format = section.choice("format", "a format", formats, Some(KafkaFormat::Json));
        let avro = format == KafkaFormat::Avro;
        let schema_registry = registry(section, avro);
        KafkaInput {
            brokers: brokers(section),
            topic: topic(section),
            group: section.text("group", None),
            format,
            schema: schema(section, avro, schema_registry.is_some(), id),
            schema_registry,
            start: section.choice("start", "a start", STARTS, Some(KafkaStart::Earliest)),
            out_of_orderness: section.duration_ms("out-of-orderness", 0..=DAY, 1_000),
            idle_after: section.duration_ms("idle-after", 1..=DAY, 5_000),
            time_to_live: None,
            properties: properties(section),
        }
    }
}

impl KafkaOutput {
    /// Reads all keys except `kind`. The caller finishes the section.
    pub(crate) fn read(section: &Section) -> KafkaOutput {
        let delivery =
            section.choice("delivery", "a delivery", DELIVERIES, Some(Delivery::ExactlyOnce));
        let prefixed = delivery == Delivery::ExactlyOnce || section.has("transactional-id-prefix");
        let format = section.choice("format", "a format", ANSWER_FORMATS, Some(AnswerFormat::Json));
        KafkaOutput {
            brokers: brokers(section),
            topic: topic(section),
            format,
            schema_registry: registry(section, format == AnswerFormat::Avro),
            delivery,
            transactional_id_prefix: prefixed
                .then(|| section.text("transactional-id-prefix", None)),
            transaction_timeout: section.duration_ms("transaction-timeout", 1_000..=DAY, 900_000),
            recovery_time: section.duration_ms("recovery-time", 0..=DAY, 300_000),
            properties: properties(section),
        }
    }

    /// Notes at `section` why transactions could expire before a checkpoint commits them.
    ///
    /// A transaction begins with one checkpoint and is committed after the next one has completed,
    /// if necessary by the restarted job. So it must last `interval + timeout` of a checkpoint and
    /// `recovery_time`. Only the broker knows its own limit, which the job compares when it starts.
    pub(crate) fn check(&self, section: &Section, checkpoint: Option<(u64, u64)>) {
        if self.delivery == Delivery::AtLeastOnce {
            return;
        }
        let Some((interval, timeout)) = checkpoint else {
            section.note(
                "delivery",
                "'exactly-once' commits answers when a checkpoint completes, and there are no \
                 checkpoints. Add a checkpoint section, or set it to at-least-once.",
            );
            return;
        };
        let needed = interval + timeout + self.recovery_time;
        if self.transaction_timeout <= needed {
            section.note(
                "transaction-timeout",
                &format!(
                    "{} is not more than checkpoint.interval, checkpoint.timeout and \
                     results.recovery-time together ({}), so the broker could abort answers that a \
                     checkpoint counts as sent. Make it longer, or one of the others shorter.",
                    units::duration_text(self.transaction_timeout),
                    units::duration_text(needed)
                ),
            );
        }
    }
}

fn brokers(section: &Section) -> String {
    let text = section.text("brokers", None);
    for broker in text.split(',').map(str::trim).filter(|_| !text.is_empty()) {
        let port = broker.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        if port.and_then(|(_, port)| port.parse::<u16>().ok()).is_none_or(|port| port == 0) {
            section.note(
                "brokers",
                &format!(
                    "'{broker}' is not host:port. Write them like broker-1:9092,broker-2:9092."
                ),
            );
        }
    }
    text
}

fn topic(section: &Section) -> String {
    let text = section.text("topic", None);
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if text.len() > TOPIC_MAX || !text.chars().all(legal) || text == "." || text == ".." {
        section.note(
            "topic",
            &format!(
                "'{text}' cannot be the name of a topic. Use at most {TOPIC_MAX} letters, digits, \
                 dots, underscores and hyphens."
            ),
        );
    }
    text
}

/// The address of the registry, if the file has one.
fn registry(section: &Section, avro: bool) -> Option<String> {
    let key = "schema-registry";
    if !section.has(key) {
        return None;
    }
    let text = section.text(key, None);
    if !avro {
        section.note(key, "a registry has schemas of Avro. Remove it, or set format to avro.");
    } else if !text.is_empty() && !text.starts_with("http://") && !text.starts_with("https://") {
        section.note(
            key,
            &format!("'{text}' is not an HTTP address. Write it like http://registry-1:8081."),
        );
    }
    Some(text)
}

/// The schema of Avro records, if the file has one. It must have the fields `id` and `vector`.
/// Avro's own library checks the rest when the job reads it.
fn schema(section: &Section, avro: bool, registered: bool, id: &str) -> Option<String> {
    let key = "schema";
    if !section.has(key) {
        if avro && !registered {
            section.note(
                key,
                "records in Avro are read by a schema. Give it as JSON, or set schema-registry.",
            );
        }
        return None;
    }
    let text = section.text(key, None);
    if !avro {
        section.note(key, "only Avro has a schema here. Remove it, or set format to avro.");
    } else if registered {
        section.note(key, "the registry has the schemas. Remove this key, or schema-registry.");
    } else if !has_fields(&text, &[id, "vector"]) {
        section.note(
            key,
            &format!("this is not an Avro record with the fields {id} and vector, as JSON."),
        );
    }
    Some(text)
}

fn has_fields(schema: &str, wanted: &[&str]) -> bool {
    let Ok(schema) = serde_json::from_str::<Value>(schema) else { return false };
    let fields = schema["fields"].as_array().filter(|_| schema["type"] == "record");
    fields.is_some_and(|fields| {
        wanted.iter().all(|name| fields.iter().any(|field| field["name"] == *name))
    })
}

fn properties(section: &Section) -> BTreeMap<String, Value> {
    let properties = section.mapping("properties");
    for (name, value) in &properties {
        let key = format!("properties.{name}");
        if let Some((_, owner)) = OWNED.iter().find(|(owned, _)| owned == name) {
            section.note(&key, &format!("the job sets this itself. Remove it and use {owner}."));
        } else if !(value.is_string() || value.is_number() || value.is_boolean()) {
            section.note(&key, "a property of a Kafka client is a text, a number, true or false.");
        }
    }
    properties.into_iter().collect()
}
