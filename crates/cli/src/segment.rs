//! `vstream inspect` of a segment: what it holds and how each of its blocks is stored.

use std::collections::BTreeMap;

use serde_json::{json, Value};
use vstream_engine::segment::{BlockReport, Codes, OpenOptions, Segment, SegmentKind};

use crate::arguments::InspectArguments;
use crate::failure::Failure;
use crate::text;

/// Blocks that one codec won.
#[derive(Clone, Copy, Default)]
struct Won {
    blocks: u64,
    rows: u64,
    coded: u64,
    raw: u64,
}

/// How a segment is opened to be described.
pub(crate) fn options() -> OpenOptions {
    OpenOptions { cache: None, codes: Codes::OnDemand }
}

/// Describes a segment.
pub(crate) fn inspect(segment: &Segment, arguments: &InspectArguments) -> Result<(), Failure> {
    let mut blocks = Vec::new();
    segment.report(&mut |block| blocks.push(block))?;
    if arguments.json {
        let description =
            serde_json::to_string_pretty(&as_json(&arguments.snapshot, segment, &blocks));
        return text::print_line(&description.expect("plain numbers"));
    }
    let mut table = as_table(segment, &blocks);
    if arguments.blocks {
        table.push('\n');
        blocks.iter().for_each(|block| table.push_str(&format!("  {block}\n")));
    }
    text::print(&table)
}

fn by_codec(blocks: &[BlockReport]) -> BTreeMap<String, Won> {
    let mut codecs: BTreeMap<String, Won> = BTreeMap::new();
    for block in blocks {
        let won = codecs.entry(block.codec.to_string()).or_default();
        won.blocks += 1;
        won.rows += block.rows as u64;
        won.coded += block.coded_bytes;
        won.raw += block.raw_bytes;
    }
    codecs
}

fn kind(segment: &Segment) -> &'static str {
    match segment.kind() {
        SegmentKind::Flat => "flat",
        SegmentKind::Cluster => "cluster",
    }
}

fn as_json(path: &str, segment: &Segment, blocks: &[BlockReport]) -> Value {
    let codecs: BTreeMap<String, Value> = by_codec(blocks)
        .into_iter()
        .map(|(codec, Won { blocks, rows, coded, raw })| {
            let won =
                json!({ "blocks": blocks, "rows": rows, "coded-bytes": coded, "raw-bytes": raw });
            (codec, won)
        })
        .collect();
    json!({
        "segment": path,
        "kind": kind(segment),
        "dimension": segment.dimension(),
        "metric": segment.metric().name(),
        "element": segment.element().name(),
        "rows": segment.rows(),
        "leaves": segment.leaves(),
        "bytes": segment.bytes(),
        "digest": format!("{:032x}", segment.digest()),
        "codecs": codecs,
    })
}

fn as_table(segment: &Segment, blocks: &[BlockReport]) -> String {
    let mut table = format!(
        "{} vectors, {} dimensions, {}, {}, {} with {} leaves, {}\n\n  {:<16} {:>8} {:>12} {:>12} {:>7}\n",
        text::count(segment.rows()),
        segment.dimension(),
        segment.metric(),
        segment.element(),
        kind(segment),
        text::count(segment.leaves() as u64),
        text::bytes(segment.bytes()),
        "codec",
        "blocks",
        "rows",
        "size",
        "ratio"
    );
    for (codec, won) in by_codec(blocks) {
        table.push_str(&format!(
            "  {codec:<16} {:>8} {:>12} {:>12} {:>7.3}\n",
            text::count(won.blocks),
            text::count(won.rows),
            text::bytes(won.coded),
            won.coded as f64 / won.raw as f64
        ));
    }
    table
}
