//! Size and speed of the codecs over the blocks of a matrix.

use std::collections::BTreeMap;
use std::time::Instant;

use vstream_store::codec::{Codec, Decoder, Encoder, Kind, Policy, Shape, Tier, BLOCK_ROWS, HEAD};

use crate::runbook::Matrix;

/// What one policy makes of a matrix.
#[derive(Clone, Debug)]
pub struct CodecRow {
    /// `hot`, `cold`, `xor` or `raw`.
    pub policy: &'static str,
    /// Bytes over the bytes of the numbers, checksums of blocks not counted.
    pub ratio: f64,
    /// The largest ratio of a single block.
    pub worst: f64,
    /// Million bytes of numbers per second of one thread: encoded.
    pub encode_mb: f64,
    /// As `encode_mb`: decoded, block by block.
    pub decode_mb: f64,
    /// Nanoseconds to decode one row of a block alone.
    pub row_ns: f64,
    /// Share of the blocks that each codec won.
    pub chosen: BTreeMap<String, f64>,
}

/// Encodes and decodes every block of 32 rows under each policy, as `f32` and, if all numbers are
/// whole and fit, as bytes. Panics if a number does not come back to the bit.
pub fn codec_table(matrix: &Matrix) -> Vec<CodecRow> {
    let shape = Shape { kind: Kind::F32, dimension: matrix.dimension };
    let bits: Vec<u32> = matrix.values.iter().map(|x| x.to_bits()).collect();
    [
        ("hot", Policy::Best(Tier::Hot)),
        ("cold", Policy::Best(Tier::Cold)),
        ("xor", Policy::Xor),
        ("raw", Policy::Raw),
    ]
    .into_iter()
    .map(|(name, policy)| measure(name, policy, shape, &bits))
    .collect()
}

fn measure(name: &'static str, policy: Policy, shape: Shape, rows: &[u32]) -> CodecRow {
    let mut encoder = Encoder::new();
    let (mut bytes, mut ends, mut codecs) = (Vec::new(), vec![0], Vec::<Codec>::new());
    let mut worst = 0.0f64;
    let begin = Instant::now();
    for block in rows.chunks(BLOCK_ROWS * shape.dimension) {
        codecs.push(encoder.encode(shape, block, policy, &mut bytes));
        let length = bytes.len() - ends[ends.len() - 1];
        assert!(length <= HEAD + size_of_val(block), "a block expands");
        worst = worst.max(length as f64 / size_of_val(block) as f64);
        ends.push(bytes.len());
    }
    let encoded = begin.elapsed();
    let mut decoder = Decoder::new();
    let mut out = vec![0u32; BLOCK_ROWS * shape.dimension];
    let begin = Instant::now();
    for (at, block) in rows.chunks(BLOCK_ROWS * shape.dimension).enumerate() {
        let n = block.len() / shape.dimension;
        let coded = &bytes[ends[at]..ends[at + 1]];
        let out = &mut out[..block.len()];
        decoder.decode(shape, coded, 0..n, out).expect("a block that was just encoded");
        assert!(out == block, "a block does not come back");
    }
    let decoded = begin.elapsed();
    let (begin, mut asked) = (Instant::now(), 0u32);
    for at in 0..codecs.len() {
        let n = BLOCK_ROWS.min(rows.len() / shape.dimension - at * BLOCK_ROWS);
        let row = at * 7 % n;
        let out = &mut out[..shape.dimension];
        let coded = &bytes[ends[at]..ends[at + 1]];
        decoder.decode(shape, coded, row..row + 1, out).expect("a block that was just encoded");
        asked += 1;
    }
    let row_ns = begin.elapsed().as_nanos() as f64 / f64::from(asked);
    let mut chosen = BTreeMap::new();
    for codec in &codecs {
        *chosen.entry(codec.to_string()).or_insert(0.0) += 1.0 / codecs.len() as f64;
    }
    let raw = size_of_val(rows) as f64;
    CodecRow {
        policy: name,
        ratio: bytes.len() as f64 / raw,
        worst,
        encode_mb: raw / 1e6 / encoded.as_secs_f64(),
        decode_mb: raw / 1e6 / decoded.as_secs_f64(),
        row_ns,
        chosen,
    }
}
