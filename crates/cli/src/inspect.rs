//! `vstream inspect`: what a snapshot holds, from its manifests alone; segments and collections are
//! described beside this file.

use std::path::Path;

use serde_json::{json, Value};
use vstream_store::remote::Location;

use crate::arguments::InspectArguments;
use crate::collection;
use crate::failure::Failure;
use crate::graph;
use crate::groups;
use crate::pushed;
use crate::snapshot::{self, Part};
use crate::text;

/// Describes a segment, a collection, a place that was pushed to, or a snapshot's partitions.
pub(crate) fn inspect(arguments: &InspectArguments) -> Result<(), Failure> {
    let location = Location::parse(&arguments.snapshot)?;
    let path = match location.folder() {
        Some(path) if path.is_file() => {
            return graph::open_file(path)?.inspect(arguments);
        }
        Some(path) if path.is_dir() && !pushed::is_place(&location)? => path,
        _ => return pushed::inspect(&location, arguments),
    };
    if let Some(summary) = vstream_group::inspect_groups(path)? {
        return groups::inspect(&summary, arguments);
    }
    if let Some(summary) = vstream_engine::inspect_collection(path)? {
        return collection::inspect(path, &summary, arguments);
    }
    let parts = snapshot::open(path)?;
    if arguments.json {
        let description = serde_json::to_string_pretty(&as_json(&parts)).expect("plain numbers");
        text::print_line(&description)
    } else {
        text::print(&as_table(&parts))
    }
}

fn as_json(parts: &[Part]) -> Value {
    let first = &parts[0].summary;
    let partitions: Vec<Value> = parts
        .iter()
        .map(|part| {
            let files = part.summary.files.iter().map(|file| {
                json!({
                    "shard": file.shard,
                    "rows": file.rows,
                    "bytes": file.bytes,
                    "checksum": format!("{:016x}", file.checksum),
                })
            });
            json!({
                "folder": part.folder,
                "rows": part.summary.rows,
                "digest": format!("{:032x}", part.summary.digest),
                "files": files.collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "dimension": first.dimension,
        "metric": first.metric.name(),
        "element": first.element.name(),
        "rows": parts.iter().map(|part| part.summary.rows).sum::<u64>(),
        "partitions": partitions,
    })
}

fn as_table(parts: &[Part]) -> String {
    let first = &parts[0].summary;
    let mut table = format!(
        "{} vectors, {} dimensions, {}, {}\n\n  {:<16} {:>12} {:>8} {:>12}   {}\n",
        text::count(parts.iter().map(|part| part.summary.rows).sum()),
        first.dimension,
        first.metric,
        first.element,
        "partition",
        "rows",
        "shards",
        "size",
        "digest"
    );
    for part in parts {
        let bytes = part.summary.files.iter().map(|file| file.bytes).sum();
        table.push_str(&format!(
            "  {:<16} {:>12} {:>8} {:>12}   {:032x}\n",
            name(&part.folder),
            text::count(part.summary.rows),
            part.summary.files.len(),
            text::bytes(bytes),
            part.summary.digest
        ));
    }
    table
}

fn name(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or(folder.as_os_str());
    name.to_string_lossy().into_owned()
}
