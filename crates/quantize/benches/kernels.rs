//! Kernels on data that stays in the caches: `cargo bench -p vstream-quantize --bench kernels`.
//!
//! A case handles `ROWS` rows (or blocks of 32, or centroids) per iteration. Divan's items per
//! second are rows, so 1 Gitem/s is 1 ns per row.

use divan::counter::ItemsCount;
use divan::{black_box, Bencher};
use vstream_quantize::rabitq::extended::{self, ExtendedFactors, ExtendedQuery};
use vstream_quantize::rabitq::{
    block_bytes, encode, pack_lane, Factors, Form, QueryTable, Rotation, BLOCK,
};
use vstream_quantize::scalar8::{Centroids, ScanScratch};
use vstream_vector::kernels;
use vstream_vector::{Bf16, KMeans, KMeansSettings, Number, SplitMix, F16};

const ROWS: usize = 256;
const SEED: u64 = 1;

fn main() {
    eprintln!("level: {}", kernels::level().name());
    divan::main();
}

fn normals(n: usize) -> Vec<f32> {
    let mut random = SplitMix(SEED);
    (0..n).map(|_| random.normal()).collect()
}

#[divan::bench(types = [f32, F16, Bf16, u8, i8], args = [100, 128, 768])]
fn l2<N: Number>(bencher: Bencher, dimension: usize) {
    rows_one_by_one::<N>(bencher, dimension, kernels::l2_squared);
}

#[divan::bench(types = [f32, F16, Bf16, u8, i8], args = [100, 128, 768])]
fn inner_product<N: Number>(bencher: Bencher, dimension: usize) {
    rows_one_by_one::<N>(bencher, dimension, kernels::inner_product);
}

fn rows_one_by_one<N: Number>(
    bencher: Bencher,
    dimension: usize,
    kernel: impl Fn(&[f32], &[N]) -> f32,
) {
    let query = normals(dimension);
    let rows: Vec<N> = (0..ROWS * dimension).map(|i| N::narrow((i % 100) as f32)).collect();
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| {
        let query = black_box(&query);
        rows.chunks_exact(dimension).map(|row| kernel(query, row)).sum::<f32>()
    });
}

/// Conversion to a narrow type, as every insert needs it. Items are numbers.
#[divan::bench(types = [F16, Bf16, i8], args = [128])]
fn narrow<N: Number>(bencher: Bencher, dimension: usize) {
    let (row, mut out) = (normals(dimension), Vec::new());
    bencher.counter(ItemsCount::new(dimension)).bench_local(|| {
        out.clear();
        out.extend(black_box(&row).iter().map(|&x| N::narrow(x)));
    });
}

/// Conversion of a narrow row to `f32`. Items are numbers.
#[divan::bench(types = [F16, Bf16, i8], args = [128])]
fn widen<N: Number>(bencher: Bencher, dimension: usize) {
    let row: Vec<N> = normals(dimension).into_iter().map(N::narrow).collect();
    let mut out = vec![0.0; dimension];
    bencher.counter(ItemsCount::new(dimension)).bench_local(|| {
        out.iter_mut().zip(black_box(&row)).for_each(|(x, number)| *x = number.widen());
    });
}

#[divan::bench(args = [100, 128, 768])]
fn l2_f32_batch(bencher: Bencher, dimension: usize) {
    let (query, rows) = (normals(dimension), normals(ROWS * dimension));
    let mut out = vec![0.0; ROWS];
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| {
        kernels::l2_squared_batch(black_box(&query), &rows, &mut out);
        out[0]
    });
}

/// Items are pairs of a row and a centroid.
#[divan::bench(args = [100, 128])]
fn centroid_tile_f32(bencher: Bencher, dimension: usize) {
    let rows = normals(kernels::TILE_ROWS * dimension);
    let columns: Vec<[f32; kernels::TILE_COLUMNS]> = vec![[0.5; kernels::TILE_COLUMNS]; dimension];
    let pairs = kernels::TILE_ROWS * kernels::TILE_COLUMNS;
    bencher.counter(ItemsCount::new(pairs)).bench_local(|| {
        let views = std::array::from_fn(|r| &rows[r * dimension..(r + 1) * dimension]);
        let mut tile = [[0.0; kernels::TILE_COLUMNS]; kernels::TILE_ROWS];
        kernels::inner_product_tile(views, black_box(&columns), &mut tile);
        tile
    });
}

#[divan::bench(args = [100, 128, 768, 960])]
fn rotation(bencher: Bencher, dimension: usize) {
    let rotation = Rotation::new(dimension, SEED);
    let (x, mut out) = (normals(dimension), vec![0.0; rotation.padded()]);
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| {
        rotation.apply(black_box(&x), &mut out);
        out[0]
    });
}

#[divan::bench(args = [128, 768])]
fn rabitq_encode_and_pack(bencher: Bencher, padded: usize) {
    let (row, centroid) = (normals(2 * padded), vec![0.1; padded]);
    let mut bits = vec![0; padded / 8];
    let mut block = vec![0; block_bytes(padded)];
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| {
        let factors = encode(Form::L2, black_box(&row[..padded]), &centroid, &mut bits);
        pack_lane(&mut block, padded, 3, &bits, Factors { add: 1.0, scale: 1.0, error: 0.0 });
        factors
    });
}

#[divan::bench(args = [128, 768])]
fn rabitq_encode(bencher: Bencher, padded: usize) {
    let (row, centroid) = (normals(padded), vec![0.1; padded]);
    let mut bits = vec![0; padded / 8];
    bencher
        .counter(ItemsCount::new(1usize))
        .bench_local(|| encode(Form::L2, black_box(&row), &centroid, &mut bits));
}

#[divan::bench(args = [128, 768])]
fn rabitq_query_table(bencher: Bencher, padded: usize) {
    let query = normals(padded);
    let mut table = QueryTable::new();
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| {
        table.build(black_box(&query));
    });
}

#[divan::bench(args = [128, 768, 1536])]
fn rabitq_scan(bencher: Bencher, padded: usize) {
    let mut random = SplitMix(SEED);
    let blocks = ROWS / BLOCK;
    let mut codes = vec![0; blocks * block_bytes(padded)];
    let mut bits = vec![0; padded / 8];
    for block in codes.chunks_exact_mut(block_bytes(padded)) {
        for lane in 0..BLOCK {
            bits.fill_with(|| random.next() as u8);
            pack_lane(block, padded, lane, &bits, Factors { add: 1.0, scale: -0.5, error: 0.0 });
        }
    }
    let mut table = QueryTable::new();
    table.build(&normals(padded));
    let mut out = [0.0; BLOCK];
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| {
        let mut below = 0;
        for block in codes.chunks_exact(block_bytes(padded)) {
            below += table.scan_block_below(block, 1.0, black_box(-50.0), &mut out).count_ones();
        }
        below
    });
}

#[divan::bench(args = [128, 768])]
fn extended_encode(bencher: Bencher, padded: usize) {
    let (rows, centroid) = (normals(ROWS * padded), vec![0.1; padded]);
    let mut code = vec![0; extended::code_bytes(padded)];
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| {
        let rows = black_box(&rows).chunks_exact(padded);
        rows.map(|row| extended::encode(Form::L2, row, &centroid, &mut code).scale).sum::<f32>()
    });
}

#[divan::bench(args = [128, 768])]
fn extended_query(bencher: Bencher, padded: usize) {
    let values = normals(padded);
    let mut query = ExtendedQuery::new();
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| query.build(black_box(&values)));
}

/// Rows follow one another in memory, so this is the cost of a prefetched row.
#[divan::bench(args = [64, 128, 768, 1536])]
fn extended_estimate(bencher: Bencher, padded: usize) {
    let mut random = SplitMix(SEED);
    let code_bytes = extended::code_bytes(padded);
    let codes: Vec<u8> = (0..ROWS * code_bytes).map(|_| random.next() as u8).collect();
    let factors = ExtendedFactors { add: 1.0, scale: -0.5 };
    let mut query = ExtendedQuery::new();
    query.build(&normals(padded));
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| {
        let rows = black_box(&codes).chunks_exact(code_bytes);
        rows.map(|code| query.estimate(code, factors, 1.0)).fold(f32::INFINITY, f32::min)
    });
}

/// Items are centroids; 4096 of 128 dimensions are 512 KiB of codes, more than a first-level cache.
#[divan::bench(args = [(16, 128), (64, 128), (1024, 128), (4096, 128), (1024, 768)])]
fn centroid_scan(bencher: Bencher, (n, dimension): (usize, usize)) {
    let centroids = Centroids::build(&normals(n * dimension), dimension);
    let query = normals(dimension);
    let (mut scratch, mut out) = (ScanScratch::default(), Vec::new());
    bencher.counter(ItemsCount::new(n)).bench_local(|| {
        centroids.scan(Form::L2, black_box(&query), &mut scratch, &mut out);
        out[0]
    });
}

/// Items are pairs of a row and a centroid in one round.
#[divan::bench(args = [(400, 2), (4096, 64), (20_000, 1024)], sample_count = 5)]
fn kmeans(bencher: Bencher, (n, clusters): (usize, usize)) {
    let rows = normals(n * 100);
    let settings = KMeansSettings { clusters, iterations: 4, seed: SEED, balance: 0.5 };
    bencher
        .counter(ItemsCount::new(n * clusters * (settings.iterations + 1)))
        .bench_local(|| KMeans::train(black_box(&rows), 100, settings));
}
