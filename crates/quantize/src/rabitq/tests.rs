//! The promises of the codes: an orthogonal rotation, exact packing, unbiased estimates, and
//! recall.

use super::*;
use vstream_vector::kernels::{inner_product, l2_squared, norm_squared};
use vstream_vector::SplitMix;

const SEED: u64 = 17;
const NOTHING: Factors = Factors { add: 0.0, scale: 0.0, error: 0.0 };

fn normals(random: &mut SplitMix, n: usize) -> Vec<f32> {
    (0..n).map(|_| random.normal()).collect()
}

fn rotated(rotation: &Rotation, x: &[f32]) -> Vec<f32> {
    let mut out = vec![f32::NAN; rotation.padded()];
    rotation.apply(x, &mut out);
    out
}

/// Vectors in one rotated space, coded against one centroid.
struct Coded {
    blocks: Vec<Vec<u8>>,
    factors: Vec<Factors>,
}

fn code(form: Form, rotation: &Rotation, rows: &[Vec<f32>], centroid: &[f32]) -> Coded {
    let padded = rotation.padded();
    let centroid = rotated(rotation, centroid);
    let mut bits = vec![0; padded / 8];
    let mut coded = Coded { blocks: Vec::new(), factors: Vec::new() };
    for rows in rows.chunks(BLOCK) {
        let mut block = vec![0; block_bytes(padded)];
        clear(&mut block);
        for (lane, row) in rows.iter().enumerate() {
            let factors = encode(form, &rotated(rotation, row), &centroid, &mut bits);
            pack_lane(&mut block, padded, lane, &bits, factors);
            coded.factors.push(factors);
        }
        coded.blocks.push(block);
    }
    coded
}

fn estimates(coded: &Coded, table: &QueryTable, base: f32) -> Vec<f32> {
    let mut all = Vec::new();
    for block in &coded.blocks {
        let mut out = [f32::NAN; BLOCK];
        table.scan_block(block, base, &mut out);
        all.extend_from_slice(&out);
    }
    let empty = all.split_off(coded.factors.len());
    assert!(empty.iter().all(|&x| x == f32::INFINITY), "a lane without a row");
    all
}

fn distance(form: Form, a: &[f32], b: &[f32]) -> f32 {
    match form {
        Form::L2 => l2_squared(a, b),
        Form::InnerProduct => -inner_product(a, b),
    }
}

#[test]
fn rotation_keeps_norms_and_inner_products() {
    let mut random = SplitMix(SEED);
    for dimension in (1..=130).chain([768, 960, 1024, 1536, 4096]) {
        let rotation = Rotation::new(dimension, SEED);
        let (a, b) = (normals(&mut random, dimension), normals(&mut random, dimension));
        let (ra, rb) = (rotated(&rotation, &a), rotated(&rotation, &b));
        let size = (norm_squared(&a) * norm_squared(&b)).sqrt();
        let norm = norm_squared(&a);
        assert!((norm_squared(&ra) - norm).abs() <= 1e-4 * norm, "norm, dimension {dimension}");
        let product = inner_product(&a, &b);
        assert!((inner_product(&ra, &rb) - product).abs() <= 1e-4 * size, "product, {dimension}");
    }
}

/// The rotation must spread a single coordinate over all. Otherwise its sign alone would be a poor
/// code.
#[test]
fn rotation_spreads_a_single_coordinate() {
    for dimension in [64, 100, 128, 192, 320, 768, 960, 1024] {
        let rotation = Rotation::new(dimension, SEED);
        for hot in [0, dimension / 2, dimension - 1] {
            let mut x = vec![0.0; dimension];
            x[hot] = 1.0;
            let out = rotated(&rotation, &x);
            let absolute: f32 = out.iter().map(|x| x.abs()).sum();
            // The share is √(2/π) ≈ 0.80 for a random direction and 1/√D for one that was not
            // spread.
            let share = absolute / (rotation.padded() as f32).sqrt();
            assert!(share > 0.6, "dimension {dimension}, coordinate {hot}: {share}");
        }
    }
}

#[test]
fn rotation_pads_to_64_and_depends_on_its_seed_only() {
    for (dimension, padded) in
        [(1, 64), (64, 64), (65, 128), (100, 128), (128, 128), (768, 768), (960, 960)]
    {
        assert_eq!(Rotation::new(dimension, SEED).padded(), padded);
    }
    let x = normals(&mut SplitMix(SEED), 100);
    let first = rotated(&Rotation::new(100, 1), &x);
    assert_eq!(first, rotated(&Rotation::new(100, 1), &x));
    assert_ne!(first, rotated(&Rotation::new(100, 2), &x));
}

#[test]
fn packed_bits_come_back_and_leave_their_neighbours_alone() {
    let mut random = SplitMix(SEED);
    for padded in [64, 128, 192, 768] {
        let mut block = vec![0; block_bytes(padded)];
        let mut codes: Vec<Vec<u8>> =
            (0..BLOCK).map(|_| (0..padded / 8).map(|_| random.next() as u8).collect()).collect();
        for (lane, code) in codes.iter().enumerate() {
            pack_lane(&mut block, padded, lane, code, NOTHING);
        }
        codes[9] = codes[3].clone();
        pack_lane(&mut block, padded, 9, &codes[3], NOTHING);
        for (lane, code) in codes.iter().enumerate() {
            let mut found = vec![0xaa; padded / 8];
            unpack_lane(&block, padded, lane, &mut found);
            assert_eq!(&found, code, "lane {lane} of {padded} dimensions");
        }
    }
}

#[test]
fn scan_sums_the_query_under_the_signs_of_the_row() {
    let mut random = SplitMix(SEED);
    for padded in [64, 128, 768, 4096] {
        let query = normals(&mut random, padded);
        let mut table = QueryTable::new();
        table.build(&query);
        let mut block = vec![0; block_bytes(padded)];
        let mut bits = vec![0; padded / 8];
        for lane in 0..BLOCK {
            bits.fill_with(|| random.next() as u8);
            pack_lane(&mut block, padded, lane, &bits, Factors { scale: 1.0, ..NOTHING });
        }
        let mut out = [f32::NAN; BLOCK];
        table.scan_block(&block, 0.0, &mut out);
        for (lane, &found) in out.iter().enumerate() {
            unpack_lane(&block, padded, lane, &mut bits);
            let sign = |i: usize| if bits[i / 8] >> (i % 8) & 1 == 1 { 1.0 } else { -1.0 };
            let exact: f32 = query.iter().enumerate().map(|(i, x)| sign(i) * x).sum();
            let bound = table.step * (0.5 * padded as f32 / 4.0) + 1e-3;
            assert!((found - exact).abs() <= bound, "{found}, exactly {exact}, ± {bound}");
        }
    }
}

/// A row on its centroid is estimated exactly. For a zero query the estimate is the row's own part.
#[test]
fn degenerate_rows_and_queries_are_exact() {
    let mut random = SplitMix(SEED);
    let rotation = Rotation::new(100, SEED);
    let (centroid, row) = (normals(&mut random, 100), normals(&mut random, 100));
    let zero = vec![0.0; 100];
    for form in [Form::L2, Form::InnerProduct] {
        let coded = code(form, &rotation, std::slice::from_ref(&centroid), &centroid);
        assert_eq!(coded.factors[0], NOTHING);
        let mut table = QueryTable::new();
        table.build(&rotated(&rotation, &row));
        let base = form.base(&row, &centroid);
        assert_eq!(estimates(&coded, &table, base), [base]);
        table.build(&rotated(&rotation, &zero));
        let coded = code(form, &rotation, std::slice::from_ref(&row), &zero);
        let found = estimates(&coded, &table, form.base(&zero, &zero))[0];
        let exact = distance(form, &zero, &row);
        // Factors are rounded to 8 bits.
        assert!((found - exact).abs() < 4e-3 * norm_squared(&row), "{found}, exactly {exact}");
    }
}

/// Rows of one cluster and queries near it, as a search meets them.
fn cluster(random: &mut SplitMix, dimension: usize, n: usize) -> (Vec<f32>, Vec<Vec<f32>>) {
    let centroid: Vec<f32> = normals(random, dimension).iter().map(|x| 3.0 * x).collect();
    let spread: Vec<f32> = (0..dimension).map(|_| 0.2 + random.unit()).collect();
    let rows = (0..n)
        .map(|_| {
            let pairs = centroid.iter().zip(&spread);
            pairs.map(|(c, s)| c + s * random.normal()).collect()
        })
        .collect();
    (centroid, rows)
}

#[test]
fn estimates_are_unbiased_and_within_their_bound() {
    let mut random = SplitMix(SEED);
    for (dimension, form) in
        [(100, Form::L2), (128, Form::InnerProduct), (128, Form::L2), (960, Form::InnerProduct)]
    {
        let (mut inside, mut count, mut bias, mut spread) = (0, 0, 0.0f64, 0.0f64);
        for trial in 0..10 {
            let rotation = Rotation::new(dimension, SEED + trial);
            let (centroid, rows) = cluster(&mut random, dimension, 256);
            let coded = code(form, &rotation, &rows, &centroid);
            let mut table = QueryTable::new();
            for query in rows.iter().step_by(31) {
                let query: Vec<f32> = query.iter().map(|x| x + random.normal()).collect();
                table.build(&rotated(&rotation, &query));
                let found = estimates(&coded, &table, form.base(&query, &centroid));
                let away = l2_squared(&query, &centroid).sqrt();
                for ((row, found), factors) in rows.iter().zip(found).zip(&coded.factors) {
                    let error = found - distance(form, &query, row);
                    let bound = factors.error * away;
                    inside += usize::from(error.abs() <= bound);
                    count += 1;
                    bias += f64::from(error / bound);
                    spread += f64::from((error / bound) * (error / bound));
                }
            }
        }
        let inside = inside as f64 / count as f64;
        let (bias, spread) = (bias / count as f64, (spread / count as f64).sqrt());
        // 1.9 standard deviations: 0.943 of the rows inside, a spread of 1 / 1.9 = 0.53.
        let context = format!("dimension {dimension}, {form:?}, seed {SEED}");
        assert!(inside > 0.92, "{inside} inside the bound, {context}");
        assert!(bias.abs() < 0.03, "mean error {bias} bounds, {context}");
        assert!((0.45..0.6).contains(&spread), "spread {spread} bounds, {context}");
    }
}

/// Many clusters, each with its own centroid; all rows are ranked by estimate.
fn recall(form: Form, dimension: usize, best: usize) -> f32 {
    let mut random = SplitMix(SEED);
    let rotation = Rotation::new(dimension, SEED);
    let clusters: Vec<_> = (0..32).map(|_| cluster(&mut random, dimension, 256)).collect();
    let coded: Vec<Coded> =
        clusters.iter().map(|(centroid, rows)| code(form, &rotation, rows, centroid)).collect();
    let mut table = QueryTable::new();
    let (mut found, mut wanted) = (0, 0);
    for (_, rows) in &clusters {
        for query in rows.iter().step_by(128) {
            let query: Vec<f32> = query.iter().map(|x| x + 0.5 * random.normal()).collect();
            table.build(&rotated(&rotation, &query));
            let mut ranked = Vec::new();
            for ((centroid, rows), coded) in clusters.iter().zip(&coded) {
                let estimates = estimates(coded, &table, form.base(&query, centroid));
                let exact = rows.iter().map(|row| distance(form, &query, row));
                ranked.extend(estimates.into_iter().zip(exact));
            }
            let mut exact: Vec<f32> = ranked.iter().map(|pair| pair.1).collect();
            exact.sort_by(f32::total_cmp);
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
            found += ranked[..best].iter().filter(|pair| pair.1 <= exact[9]).count();
            wanted += 10;
        }
    }
    found as f32 / wanted as f32
}

#[test]
fn best_160_by_estimate_hold_the_true_top_10() {
    for (form, dimension) in [(Form::L2, 128), (Form::InnerProduct, 128), (Form::L2, 100)] {
        let recall = recall(form, dimension, 160);
        assert!(recall >= 0.97, "{recall} at {dimension} dimensions, {form:?}, seed {SEED}");
    }
}

#[test]
fn a_table_is_reused_for_other_dimensions() {
    let mut random = SplitMix(SEED);
    let (large, small) = (normals(&mut random, 256), normals(&mut random, 64));
    let mut reused = QueryTable::new();
    reused.build(&large);
    reused.build(&small);
    let mut fresh = QueryTable::new();
    fresh.build(&small);
    assert!(reused.lines() == fresh.lines());
    assert_eq!((reused.step, reused.bias), (fresh.step, fresh.bias));
}

#[test]
#[should_panic(expected = "block of another dimension")]
fn a_block_of_another_dimension_is_refused() {
    let mut table = QueryTable::new();
    table.build(&[1.0; 128]);
    table.scan_block(&vec![0; block_bytes(64)], 0.0, &mut [0.0; BLOCK]);
}

/// The lanes that may be nearer to another centroid include nearly every row that is, for both
/// distances, and far fewer rows than there are. An empty lane is never included.
#[test]
fn rows_that_another_centroid_serves_better_are_found_by_their_codes() {
    let mut random = SplitMix(SEED);
    for (dimension, offset) in [(64, 0.0), (100, 0.0), (128, 5.0), (768, 0.0)] {
        let rotation = Rotation::new(dimension, SEED);
        // Rows lie equally in all directions, the hardest case. One in 28 is nearer to the other
        // centroid.
        let centroid: Vec<f32> =
            normals(&mut random, dimension).iter().map(|x| x + offset).collect();
        let away = 3.6 / (dimension as f32).sqrt();
        let step: Vec<f32> = normals(&mut random, dimension).iter().map(|x| x * away).collect();
        let other: Vec<f32> = centroid.iter().zip(&step).map(|(c, d)| c + d).collect();
        let rows: Vec<Vec<f32>> =
            (0..4_005).map(|_| centroid.iter().map(|c| c + random.normal()).collect()).collect();
        let nearer = |row: &[f32]| l2_squared(row, &other) < l2_squared(row, &centroid);
        let away: Vec<f32> = (rotated(&rotation, &other).iter())
            .zip(rotated(&rotation, &centroid))
            .map(|(a, b)| a - b)
            .collect();
        let mut table = QueryTable::new();
        table.build(&away);
        let gap = norm_squared(&away);
        for (form, deviations, least, most) in
            [(Form::L2, 1.9, 95, 50), (Form::InnerProduct, 1.9, 95, 50), (Form::L2, 1.0, 75, 30)]
        {
            let coded = code(form, &rotation, &rows, &centroid);
            let blocks = coded.blocks.iter();
            let lanes: Vec<u32> =
                blocks.map(|block| table.lanes_nearer(form, block, gap, deviations)).collect();
            let may = |row: usize| lanes[row / BLOCK] >> (row % BLOCK) & 1 == 1;
            let nearer: Vec<usize> = (0..rows.len()).filter(|&i| nearer(&rows[i])).collect();
            let found = nearer.iter().filter(|&&i| may(i)).count();
            let all = (0..rows.len()).filter(|&i| may(i)).count();
            let case = format!("{dimension}, {form:?}: {found} of {}, {all} may be", nearer.len());
            assert!(nearer.len() > 80, "{case}");
            assert!(found * 100 >= nearer.len() * least, "{case}");
            assert!(all * 100 < rows.len() * most, "{case}");
            let empty = lanes[rows.len() / BLOCK] >> (rows.len() % BLOCK);
            assert_eq!(empty, 0, "a lane without a row");
        }
    }
}

/// Few rows are nearer than their lowered estimates say, also where all vectors are far from the origin, and the estimates
/// are not lowered by much more than that takes.
#[test]
fn lowered_estimates_hide_few_rows_wherever_the_vectors_lie() {
    let mut random = SplitMix(SEED);
    for dimension in [64, 100, 768] {
        let rotation = Rotation::new(dimension, SEED);
        for offset in [0.0, 3.0, 30.0, 300.0, 1_000.0] {
            let near = |random: &mut SplitMix| -> Vec<f32> {
                (0..dimension).map(|_| offset + random.normal()).collect()
            };
            let centroid: Vec<f32> =
                near(&mut random).iter().map(|x| offset + 0.3 * (x - offset)).collect();
            let rows: Vec<Vec<f32>> = (0..4_000).map(|_| near(&mut random)).collect();
            let query = near(&mut random);
            let mut table = QueryTable::new();
            table.build(&rotated(&rotation, &query));
            let gap = l2_squared(&query, &centroid).sqrt();
            for form in [Form::L2, Form::InnerProduct] {
                let coded = code(form, &rotation, &rows, &centroid);
                let bases = (form.base(&query, &centroid), gap);
                let mut hidden = 0;
                for (block, rows) in coded.blocks.iter().zip(rows.chunks(BLOCK)) {
                    let mut lowered = [f32::NAN; BLOCK];
                    table.scan_block_lowered(block, bases, 2.0, f32::INFINITY, &mut lowered);
                    let nearer =
                        |(row, lowered): (&Vec<f32>, &f32)| distance(form, &query, row) < *lowered;
                    hidden += rows.iter().zip(&lowered).filter(|&one| nearer(one)).count();
                }
                // 91 of 4,000 normal numbers are beyond two deviations on one side.
                let case = format!("{dimension} {offset} {form:?}: {hidden} of 4,000");
                assert!((20..200).contains(&hidden), "{case}");
            }
        }
    }
}

#[test]
fn a_lane_is_copied_with_its_factors_and_nothing_else_changes() {
    let mut random = SplitMix(SEED);
    let rotation = Rotation::new(100, SEED);
    let rows: Vec<Vec<f32>> = (0..BLOCK).map(|_| normals(&mut random, 100)).collect();
    let coded = code(Form::L2, &rotation, &rows, &rows[0]);
    let padded = rotation.padded();
    let from = &coded.blocks[0];
    let mut to = from.clone();
    for lane in 0..BLOCK {
        copy_lane(padded, (from, lane), (&mut to, BLOCK - 1 - lane));
    }
    let bits = |block: &[u8], lane| {
        let mut bits = vec![0; padded / 8];
        unpack_lane(block, padded, lane, &mut bits);
        bits
    };
    let mut table = QueryTable::new();
    table.build(&rotated(&rotation, &normals(&mut random, 100)));
    let estimates = |block: &[u8]| {
        let mut out = [0.0; BLOCK];
        table.scan_block(block, 0.0, &mut out);
        out
    };
    let (before, after) = (estimates(from), estimates(&to));
    for lane in 0..BLOCK {
        assert_eq!(bits(from, lane), bits(&to, BLOCK - 1 - lane));
        assert_eq!(before[lane], after[BLOCK - 1 - lane]);
    }
}
