//! What the Flink connector may import: Flink, the JDK, ours, Kafka's clients, and little else.

use crate::tree::File;

/// Beginnings of what may be imported; docs/design/dependencies.md gives the reasons.
const ALLOWED: &[&str] = &[
    "java.",
    // Of the JDK: what a machine and a process have.
    "com.sun.management.",
    "javax.net.",
    "io.vstream.",
    "org.apache.flink.",
    "org.apache.avro.",
    "org.apache.kafka.",
    "org.rocksdb.",
    "org.HdrHistogram.",
    "org.slf4j.",
];

/// Serialisers that no code may use: slow, and dangerous on bytes of others.
const FORBIDDEN: &[&str] =
    &["Kryo", "kryo", "ObjectInputStream", "ObjectOutputStream", "GenericTypeInfo"];

/// Imports and words of the connector's sources that are not allowed.
pub fn imports(files: &[File]) -> Vec<String> {
    let mut breaches = Vec::new();
    let ours = |file: &&File| file.path.starts_with("java/flink/src/main/") && file.is("java");
    for file in files.iter().filter(ours) {
        for (line, number) in file.text.lines().map(str::trim).zip(1..) {
            let import =
                line.strip_prefix("import ").map(|name| name.trim_start_matches("static "));
            if import.is_some_and(|name| !ALLOWED.iter().any(|start| name.starts_with(start))) {
                breaches.push(format!("{}:{number}: not a dependency: {line}", file.path));
            }
            let is_comment = line.starts_with('*') || line.starts_with('/');
            if !is_comment && FORBIDDEN.iter().any(|word| line.contains(word)) {
                breaches.push(format!("{}:{number}: write a TypeSerializer: {line}", file.path));
            }
        }
    }
    breaches
}
