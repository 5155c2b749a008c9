//! `vstream inspect` of a collection that is kept in a directory: its files, how the vectors of its
//! segments are stored, the leaves that they share, and what their rows carry.

use std::path::Path;

use serde_json::{json, Value};
use vstream_engine::CollectionSummary;
use vstream_graph::GraphNumbers;

use crate::arguments::InspectArguments;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::graph::{self, Opened};
use crate::leaves;
use crate::segment::{self, ByCodec, Won};
use crate::text;

/// Describes the collection in `folder`, open or not. Cost: vectors and attributes of its segments
/// are read, but for those in the remote level.
pub(crate) fn inspect(
    folder: &Path,
    summary: &CollectionSummary,
    arguments: &InspectArguments,
) -> Result<(), Failure> {
    let (mut stored, mut fields) = (Vec::new(), Fields::default());
    let mut with_leaves = Vec::new();
    for of in &summary.segments {
        if of.is_remote {
            stored.push(Stored::Away);
            with_leaves.push(None);
            continue;
        }
        match graph::open_file(&folder.join(&of.name))? {
            Opened::Leaves(opened) => {
                fields.add(&opened)?;
                stored.push(Stored::Leaves(segment::codecs(&opened)?));
                with_leaves.push(Some(opened));
            }
            Opened::Graph(graph) => {
                stored.push(Stored::Graph(graph.inspect()));
                with_leaves.push(None);
            }
        }
    }
    let counts = summary.count_leaves(&with_leaves);
    let schema = Some(&*summary.schema);
    if arguments.json {
        let mut description = as_json(summary, stored);
        leaves::add_json(&counts, &mut description);
        description["fields"] = fields.as_json(schema);
        let description = serde_json::to_string_pretty(&description);
        return text::print_line(&description.expect("plain numbers"));
    }
    text::print(
        &(as_table(summary, &stored)
            + &leaves::as_table(summary, &counts)
            + &fields.as_table(schema)),
    )
}

/// How the vectors of a segment are stored.
enum Stored {
    /// In the remote level: nothing of it is read.
    Away,
    Leaves(ByCodec),
    Graph(GraphNumbers),
}

fn as_json(summary: &CollectionSummary, stored: Vec<Stored>) -> Value {
    let segments = summary.segments.iter().zip(stored).map(|(segment, stored)| {
        let mut described = json!({
            "name": segment.name,
            "rows": segment.rows,
            "gone": segment.gone,
            "served-leaves": segment.served.iter().map(|of| [of.start, of.end]).collect::<Vec<_>>(),
            "bytes": segment.bytes,
            "remote": segment.is_remote,
        });
        match stored {
            Stored::Away => {}
            Stored::Leaves(codecs) => described["codecs"] = segment::codecs_json(codecs),
            Stored::Graph(numbers) => described["graph"] = graph::as_json(&numbers),
        }
        described
    });
    let mut schema: Value =
        serde_json::from_str(&summary.schema.to_json()).expect("a schema is JSON");
    let logs = summary.logs.iter().map(|(name, bytes)| json!({ "name": name, "bytes": bytes }));
    json!({
        "dimension": summary.dimension,
        "metric": summary.metric.name(),
        "element": summary.element.name(),
        "memory": summary.memory,
        "code-memory": summary.code_memory,
        "segment-index": summary.index.name(),
        "deletes": summary.deletes.name(),
        "deletes-remembered-s": summary.deletes_remembered.map(|kept| kept.as_secs()),
        "schema": schema.as_object_mut().map(|schema| {
            // The key of the hash is a secret of the collection.
            schema.remove("id_key");
            json!(schema)
        }),
        "write": summary.lsn,
        "rows": summary.rows,
        "digest": format!("{:032x}", summary.digest),
        "image-bytes": summary.image_bytes,
        "image-parts": summary.image_parts,
        "segments": segments.collect::<Vec<_>>(),
        "logs": logs.collect::<Vec<_>>(),
    })
}

fn as_table(summary: &CollectionSummary, stored: &[Stored]) -> String {
    let mut table = format!(
        "{} vectors after write {}, {} dimensions, {}, {}\n\n  {:<20} {:>12} {:>10} {:>12}   {}\n",
        text::count(summary.rows),
        text::count(summary.lsn),
        summary.dimension,
        summary.metric,
        summary.element,
        "file",
        "rows",
        "gone",
        "size",
        "codecs, share of raw"
    );
    for (segment, stored) in summary.segments.iter().zip(stored) {
        table.push_str(&format!(
            "  {:<20} {:>12} {:>10} {:>12}   {}\n",
            segment.name,
            text::count(segment.rows),
            text::count(segment.gone),
            text::bytes(segment.bytes),
            match stored {
                Stored::Away => "in the remote level".to_owned(),
                Stored::Leaves(codecs) => shares(codecs),
                Stored::Graph(numbers) => graph::as_line(numbers),
            }
        ));
    }
    let image = match summary.image_parts {
        0 => None,
        1 => Some(("base image".to_owned(), summary.image_bytes)),
        parts => Some((format!("base image, {parts} parts"), summary.image_bytes)),
    };
    for (name, bytes) in image.iter().chain(&summary.logs) {
        let size = text::bytes(*bytes);
        table.push_str(&format!("  {name:<20} {:>12} {:>10} {size:>12}\n", "", ""));
    }
    table
}

/// Which codecs were chosen and what they make of the vectors.
fn shares(codecs: &ByCodec) -> String {
    let share = |(codec, Won { coded, raw, .. }): (&String, &Won)| {
        format!("{codec} {:.3}", *coded as f64 / *raw as f64)
    };
    codecs.iter().map(share).collect::<Vec<_>>().join(", ")
}
