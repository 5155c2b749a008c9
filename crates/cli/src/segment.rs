//! `vstream inspect` of a segment: what it holds, how each of its blocks is stored, its columns.

use std::collections::BTreeMap;

use serde_json::{json, Value};
use vstream_segment::{BlockReport, Codes, OpenOptions, Segment, SegmentKind};

use crate::arguments::InspectArguments;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::text;

/// Blocks that one codec won.
#[derive(Clone, Copy, Default)]
pub(crate) struct Won {
    pub(crate) blocks: u64,
    pub(crate) rows: u64,
    pub(crate) coded: u64,
    pub(crate) raw: u64,
}

impl Won {
    fn add(&mut self, block: &BlockReport) {
        self.blocks += 1;
        self.rows += block.rows as u64;
        self.coded += block.coded_bytes;
        self.raw += block.raw_bytes;
    }
}

/// What each codec won, by its name.
pub(crate) type ByCodec = BTreeMap<String, Won>;

/// How a segment is opened to be described.
pub(crate) fn options() -> OpenOptions {
    OpenOptions { cache: None, codes: Codes::OnDemand }
}

/// Describes a segment.
pub(crate) fn inspect(segment: &Segment, arguments: &InspectArguments) -> Result<(), Failure> {
    let mut blocks = Vec::new();
    segment.report(&mut |block| blocks.push(block))?;
    let mut fields = Fields::default();
    fields.add(segment)?;
    if arguments.json {
        let mut description = as_json(&arguments.snapshot, segment, &blocks);
        description["fields"] = fields.as_json(None);
        let description = serde_json::to_string_pretty(&description);
        return text::print_line(&description.expect("plain numbers"));
    }
    let mut table = as_table(segment, &blocks) + &fields.as_table(None);
    if arguments.blocks {
        table.push('\n');
        blocks.iter().for_each(|block| table.push_str(&format!("  {block}\n")));
    }
    text::print(&table)
}

fn by_codec<'a>(blocks: impl IntoIterator<Item = &'a BlockReport>) -> ByCodec {
    let mut codecs = ByCodec::new();
    for block in blocks {
        codecs.entry(block.codec.to_string()).or_default().add(block);
    }
    codecs
}

/// What each codec won of a segment. Cost: its vector area is read.
pub(crate) fn codecs(segment: &Segment) -> Result<ByCodec, Failure> {
    let mut codecs = ByCodec::new();
    segment.report(&mut |block| codecs.entry(block.codec.to_string()).or_default().add(&block))?;
    Ok(codecs)
}

/// As JSON.
pub(crate) fn codecs_json(codecs: ByCodec) -> Value {
    let won = |Won { blocks, rows, coded, raw }| json!({ "blocks": blocks, "rows": rows, "coded-bytes": coded, "raw-bytes": raw });
    codecs.into_iter().map(|(codec, of)| (codec, won(of))).collect()
}

fn kind(segment: &Segment) -> &'static str {
    match segment.kind() {
        SegmentKind::Flat => "flat",
        SegmentKind::Cluster => "cluster",
    }
}

/// The least and the largest number of a leaf; none without leaves.
fn numbers(segment: &Segment) -> Option<[u64; 2]> {
    let numbers = || (0..segment.leaves()).map(|leaf| segment.leaf_number(leaf));
    Some([numbers().min()?, numbers().max()?])
}

fn as_json(path: &str, segment: &Segment, blocks: &[BlockReport]) -> Value {
    json!({
        "segment": path,
        "kind": kind(segment),
        "dimension": segment.dimension(),
        "metric": segment.metric().name(),
        "element": segment.element().name(),
        "rows": segment.rows(),
        "leaves": segment.leaves(),
        "leaf-numbers": numbers(segment),
        "bytes": segment.bytes(),
        "digest": format!("{:032x}", segment.digest()),
        "codecs": codecs_json(by_codec(blocks)),
    })
}

fn as_table(segment: &Segment, blocks: &[BlockReport]) -> String {
    let mut table = format!(
        "{} vectors, {} dimensions, {}, {}, {} with {} leaves{}, {}\n\n  {:<16} {:>8} {:>12} {:>12} {:>7}\n",
        text::count(segment.rows()),
        segment.dimension(),
        segment.metric(),
        segment.element(),
        kind(segment),
        text::count(segment.leaves() as u64),
        numbers(segment).map_or(String::new(), |[from, to]| format!(" numbered {from} to {to}")),
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
