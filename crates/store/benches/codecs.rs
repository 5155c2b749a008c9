//! Speed of the codecs: one block of 32 rows of 128 numbers.

use divan::counter::BytesCount;
use divan::Bencher;
use vstream_store::codec::{Decoder, Encoder, Kind, Policy, Shape, Tier};

const DIMENSION: usize = 128;
const POLICIES: [Policy; 4] =
    [Policy::Best(Tier::Hot), Policy::Best(Tier::Cold), Policy::Xor, Policy::Raw];
const SHAPE: Shape = Shape { kind: Kind::F32, dimension: DIMENSION };

fn main() {
    divan::main();
}

/// An endless sequence of numbers between 0 and 1.
fn units() -> impl Iterator<Item = f64> {
    let mut state = 1u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 11) as f64 / (1u64 << 53) as f64
    })
}

/// Whole numbers like those of SIFT: many small ones, few large ones.
fn whole() -> Vec<u32> {
    units().take(32 * DIMENSION).map(|x| ((x.powi(3) * 160.0).floor() as f32).to_bits()).collect()
}

/// Full floats around zero.
fn float() -> Vec<u32> {
    units().take(32 * DIMENSION).map(|x| ((x - 0.5) as f32).to_bits()).collect()
}

/// Numbers of two decimals, of another range in each dimension.
fn spread() -> Vec<u32> {
    let range = |at: usize| ((at * 37 % DIMENSION) * 40) as f64;
    let numbers = units().take(32 * DIMENSION).enumerate();
    numbers.map(|(i, x)| (((x * range(i % DIMENSION)).floor() / 100.0) as f32).to_bits()).collect()
}

fn encode(bencher: Bencher, rows: Vec<u32>, policy: Policy) {
    let (mut encoder, mut out) = (Encoder::new(), Vec::new());
    bencher.counter(BytesCount::of_slice(&rows)).bench_local(|| {
        out.clear();
        encoder.encode(SHAPE, divan::black_box(&rows), policy, &mut out)
    });
}

fn decode(bencher: Bencher, rows: Vec<u32>, policy: Policy, wanted: usize) {
    let (mut decoder, mut bytes) = (Decoder::new(), Vec::new());
    Encoder::new().encode(SHAPE, &rows, policy, &mut bytes);
    let mut out = vec![0u32; wanted * DIMENSION];
    bencher
        .counter(BytesCount::of_slice(&out))
        .bench_local(|| decoder.decode(SHAPE, divan::black_box(&bytes), 0..wanted, &mut out));
}

#[divan::bench(args = POLICIES)]
fn encode_whole(bencher: Bencher, policy: Policy) {
    encode(bencher, whole(), policy);
}

#[divan::bench(args = POLICIES)]
fn encode_float(bencher: Bencher, policy: Policy) {
    encode(bencher, float(), policy);
}

#[divan::bench(args = POLICIES)]
fn decode_block_whole(bencher: Bencher, policy: Policy) {
    decode(bencher, whole(), policy, 32);
}

#[divan::bench(args = POLICIES)]
fn decode_block_float(bencher: Bencher, policy: Policy) {
    decode(bencher, float(), policy, 32);
}

#[divan::bench(args = POLICIES)]
fn decode_block_spread(bencher: Bencher, policy: Policy) {
    decode(bencher, spread(), policy, 32);
}

#[divan::bench(args = POLICIES)]
fn decode_row_spread(bencher: Bencher, policy: Policy) {
    decode(bencher, spread(), policy, 1);
}

#[divan::bench(args = POLICIES)]
fn decode_row_whole(bencher: Bencher, policy: Policy) {
    decode(bencher, whole(), policy, 1);
}

#[divan::bench(args = POLICIES)]
fn decode_row_float(bencher: Bencher, policy: Policy) {
    decode(bencher, float(), policy, 1);
}
