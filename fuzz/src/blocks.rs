//! Blocks of coded vectors. Input: kind u8, dimension u8, then the block.

use vstream_store::codec::{
    describe, Bits, Decoder, Encoder, Kind, Policy, Shape, Tier, BLOCK_ROWS,
};
use vstream_vector::{SplitMix, F16};

const KINDS: [Kind; 4] = [Kind::F32, Kind::Half, Kind::U8, Kind::I8];

pub(crate) fn decode(bytes: &[u8]) {
    let [kind, dimension, block @ ..] = bytes else { return };
    let kind = KINDS[usize::from(*kind) % KINDS.len()];
    let shape = Shape { kind, dimension: usize::from(*dimension).max(1) };
    let rows = describe(block).map_or(1, |(_, rows)| rows);
    match kind {
        Kind::F32 => read::<f32>(shape, block, rows),
        Kind::Half => read::<F16>(shape, block, rows),
        Kind::U8 => read::<u8>(shape, block, rows),
        Kind::I8 => read::<i8>(shape, block, rows),
    }
}

fn read<B: Bits>(shape: Shape, block: &[u8], rows: usize) {
    let mut decoder = Decoder::new();
    for range in [0..rows, rows / 2..rows, 0..1, rows - 1..rows, 0..BLOCK_ROWS] {
        let mut out = vec![B::default(); range.len() * shape.dimension];
        // An error is as good as rows: nobody vouches for the bytes.
        let _ = decoder.decode(shape, block, range, &mut out);
    }
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let mut random = SplitMix(3);
    let mut corpus = Vec::new();
    for policy in [Policy::Best(Tier::Hot), Policy::Best(Tier::Cold), Policy::Raw, Policy::Xor] {
        for dimension in [1usize, 7, 20] {
            for rows in [1usize, 5, BLOCK_ROWS] {
                let whole: Vec<f32> =
                    (0..rows * dimension).map(|_| random.below(200) as f32 / 10.0).collect();
                let normal: Vec<f32> = (0..rows * dimension).map(|_| random.normal()).collect();
                let narrow: Vec<F16> = normal.iter().map(|&x| narrow(x)).collect();
                let bytes: Vec<u8> = whole.iter().map(|&x| x as u8).collect();
                push(&mut corpus, Kind::F32, dimension, &whole, policy);
                push(&mut corpus, Kind::F32, dimension, &normal, policy);
                push(&mut corpus, Kind::Half, dimension, &narrow, policy);
                push(&mut corpus, Kind::U8, dimension, &bytes, policy);
            }
        }
    }
    corpus
}

fn narrow(x: f32) -> F16 {
    vstream_vector::Number::narrow(x)
}

fn push<B: Bits>(
    corpus: &mut Vec<Vec<u8>>,
    kind: Kind,
    dimension: usize,
    rows: &[B],
    policy: Policy,
) {
    let tag = KINDS.iter().position(|&other| other == kind).expect("a kind") as u8;
    let mut bytes = vec![tag, dimension as u8];
    Encoder::new().encode(Shape { kind, dimension }, rows, policy, &mut bytes);
    corpus.push(bytes);
}
