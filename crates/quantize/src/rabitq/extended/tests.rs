//! The promises of extended codes: nearly optimal codes, unbiased estimates, and a much better
//! order than one bit gives.

use super::*;
use crate::rabitq::{self, Rotation};
use crate::Form;
use vstream_vector::kernels::{inner_product, l2_squared, norm_squared};
use vstream_vector::SplitMix;

const SEED: u64 = 41;
const FORMS: [Form; 2] = [Form::L2, Form::InnerProduct];

/// Every multiple of 64 up to 1088.
fn padded() -> impl Iterator<Item = usize> {
    (1..=17).map(|groups| groups * GROUP)
}

fn normals(random: &mut SplitMix, n: usize) -> Vec<f32> {
    (0..n).map(|_| random.normal()).collect()
}

fn rotated(rotation: &Rotation, x: &[f32]) -> Vec<f32> {
    let mut out = vec![f32::NAN; rotation.padded()];
    rotation.apply(x, &mut out);
    out
}

fn built(query: &[f32]) -> ExtendedQuery {
    let mut extended = ExtendedQuery::new();
    extended.build(query);
    extended
}

fn coded(form: Form, row: &[f32], centroid: &[f32]) -> (Vec<u8>, ExtendedFactors) {
    let mut code = vec![0x5a; code_bytes(row.len())];
    let factors = encode(form, row, centroid, &mut code);
    (code, factors)
}

/// The coordinates of `v` from a code.
fn decoded(code: &[u8]) -> Vec<f32> {
    let nibble = |i: usize| {
        let byte = code[i / GROUP * (GROUP / 2) + i % (GROUP / 2)];
        if i % GROUP < GROUP / 2 {
            byte & 15
        } else {
            byte >> 4
        }
    };
    (0..2 * code.len()).map(|i| f32::from(nibble(i)) - 7.5).collect()
}

/// `√(1/cos² − 1)` of the angle between a residual and its code. The error of an estimate is
/// proportional to it.
fn tangent(residual: &[f32], v: &[f32]) -> f32 {
    let product = inner_product(residual, v);
    (norm_squared(residual) * norm_squared(v) / (product * product) - 1.0).max(0.0).sqrt()
}

#[test]
fn the_highest_bit_is_the_sign_of_the_one_bit_code() {
    let mut random = SplitMix(SEED);
    for padded in padded() {
        let (row, centroid) = (normals(&mut random, padded), normals(&mut random, padded));
        let (code, _) = coded(Form::L2, &row, &centroid);
        let mut bits = vec![0; padded / 8];
        rabitq::encode(Form::L2, &row, &centroid, &mut bits);
        for (i, v) in decoded(&code).into_iter().enumerate() {
            let sign = bits[i / 8] >> (i % 8) & 1 == 1;
            assert_eq!(v > 0.0, sign, "dimension {i} of {padded}, seed {SEED}");
        }
    }
}

/// Least tangent of 400 scales, from a third to four times the best scale for normal residuals.
fn least_tangent(r: &[f32]) -> f32 {
    let deviation = (norm_squared(r) / r.len() as f32).sqrt();
    let tried = (0..400).map(|i| (0.1 + 0.003 * i as f32) * deviation).map(|step| {
        let code = |x: &f32| (x / step).floor().clamp(-8.0, 7.0) + 0.5;
        tangent(r, &r.iter().map(code).collect::<Vec<f32>>())
    });
    tried.fold(f32::INFINITY, f32::min)
}

fn found_tangent(r: &[f32]) -> f32 {
    tangent(r, &decoded(&coded(Form::L2, r, &vec![0.0; r.len()]).0))
}

#[test]
fn codes_are_nearly_the_best_of_all_scales() {
    let mut random = SplitMix(SEED);
    for padded in padded() {
        let (mut found, mut best) = (0.0, 0.0);
        for _ in 0..32 {
            let r = normals(&mut random, padded);
            found += found_tangent(&r);
            best += least_tangent(&r);
        }
        assert!(found <= 1.02 * best, "{padded}: {found}, best {best}, seed {SEED}");
    }
}

/// Residuals that no rotation produces: all coordinates of one size, or a few large ones among
/// small ones. The scales are not made for them but still give a usable code.
#[test]
fn residuals_that_are_not_normal_get_a_usable_code() {
    let mut random = SplitMix(SEED);
    for padded in padded() {
        let normal = normals(&mut random, padded);
        let even: Vec<f32> = normal.iter().map(|x| 3.0f32.copysign(*x)).collect();
        let found = found_tangent(&even);
        assert!(found < 1e-3, "{padded}: {found}, seed {SEED}");
        let cubes: Vec<f32> = normal.iter().map(|x| x * x * x).collect();
        let (found, best) = (found_tangent(&cubes), least_tangent(&cubes));
        assert!(found <= 3.0 * best, "{padded}: {found}, best {best}, seed {SEED}");
    }
}

/// Compares the kernel's estimate with the formula in double precision. Only the query's rounding
/// differs.
#[test]
fn an_estimate_is_its_formula() {
    let mut random = SplitMix(SEED);
    for padded in padded() {
        let query = normals(&mut random, padded);
        let extended = built(&query);
        for _ in 0..8 {
            let code: Vec<u8> = (0..code_bytes(padded)).map(|_| random.next() as u8).collect();
            let factors = ExtendedFactors { add: random.normal(), scale: -random.unit() };
            let base = random.normal();
            let found = extended.estimate(&code, factors, base);
            let v = decoded(&code);
            let product: f64 =
                v.iter().zip(&query).map(|(v, q)| f64::from(*v) * f64::from(*q)).sum();
            let exact = f64::from(base + factors.add) + f64::from(factors.scale) * product;
            let absolute: f32 = v.iter().map(|v| v.abs()).sum();
            let bound = f64::from(0.5 * extended.step * absolute + 1e-5 * absolute);
            let error = (f64::from(found) - exact).abs();
            assert!(error <= bound, "{padded}: off by {error}, bound {bound}, seed {SEED}");
        }
    }
}

#[test]
fn stored_factors_come_back() {
    let mut random = SplitMix(SEED);
    for case in 0..1000 {
        let size = 10f32.powi(case % 30 - 15);
        let row: Vec<f32> = normals(&mut random, 64).iter().map(|x| x * size).collect();
        let centroid: Vec<f32> = normals(&mut random, 64).iter().map(|x| x * size).collect();
        for form in FORMS {
            let (_, factors) = coded(form, &row, &centroid);
            assert!(factors.scale < 0.0 && factors.add.is_finite());
            let found = ExtendedFactors::from_bytes(factors.to_bytes());
            assert_eq!(found, factors, "case {case}, {form:?}, seed {SEED}");
        }
    }
}

/// A row on its centroid, or too near to it for floats to square, is estimated exactly. For a zero
/// query the estimate is the row's own part.
#[test]
fn degenerate_rows_and_queries_are_exact() {
    let mut random = SplitMix(SEED);
    for padded in padded() {
        let (centroid, query) = (normals(&mut random, padded), normals(&mut random, padded));
        let (zero, row) = (vec![0.0; padded], normals(&mut random, padded));
        let tiny: Vec<f32> = row.iter().map(|x| x * 1e-30).collect();
        for form in FORMS {
            for (row, centroid) in [(&centroid, &centroid), (&tiny, &zero)] {
                let (code, factors) = coded(form, row, centroid);
                assert_eq!(factors, ExtendedFactors { add: 0.0, scale: 0.0 });
                let base = form.base(&query, centroid);
                assert_eq!(built(&query).estimate(&code, factors, base), base);
            }
            let (code, factors) = coded(form, &row, &zero);
            let found = built(&zero).estimate(&code, factors, form.base(&zero, &zero));
            let exact = form.base(&zero, &row);
            assert!((found - exact).abs() <= 1e-4 * norm_squared(&row), "{found}, {exact}");
        }
    }
}

/// Rows of one cluster and queries near it. `away` moves everything from the origin.
fn cluster(
    random: &mut SplitMix,
    dimension: usize,
    n: usize,
    away: f32,
) -> (Vec<f32>, Vec<Vec<f32>>) {
    let centroid: Vec<f32> = normals(random, dimension).iter().map(|x| away * x).collect();
    let spread: Vec<f32> = (0..dimension).map(|_| 0.2 + random.unit()).collect();
    let rows = (0..n)
        .map(|_| centroid.iter().zip(&spread).map(|(c, s)| c + s * random.normal()).collect())
        .collect();
    (centroid, rows)
}

/// Errors in units of `|r| · |q − c| · 0.101 / √(D − 1)`: zero on average and about one in size,
/// near the origin and far from it.
#[test]
fn estimates_are_unbiased_and_as_good_as_said() {
    for (dimension, away) in
        [(64, 1.0), (100, 1.0), (128, 1.0), (128, 30.0), (192, 1.0), (960, 3.0)]
    {
        for form in FORMS {
            let mut random = SplitMix(SEED);
            let (mut count, mut bias, mut spread) = (0.0f64, 0.0f64, 0.0f64);
            for trial in 0..10 {
                let rotation = Rotation::new(dimension, SEED + trial);
                let (centroid, rows) = cluster(&mut random, dimension, 128, away);
                let turned = rotated(&rotation, &centroid);
                let weight = if form == Form::L2 { 2.0 } else { 1.0 };
                let unit = weight * 0.101 / ((rotation.padded() - 1) as f32).sqrt();
                let codes: Vec<_> =
                    rows.iter().map(|row| coded(form, &rotated(&rotation, row), &turned)).collect();
                for query in rows.iter().step_by(31) {
                    let query: Vec<f32> = query.iter().map(|x| x + random.normal()).collect();
                    let extended = built(&rotated(&rotation, &query));
                    let size = unit * l2_squared(&query, &centroid).sqrt();
                    for (row, (code, factors)) in rows.iter().zip(&codes) {
                        let found = extended.estimate(code, *factors, form.base(&query, &centroid));
                        let error = found - form.base(&query, row);
                        let error = f64::from(error / (size * l2_squared(row, &centroid).sqrt()));
                        assert!(error.abs() < 7.0, "{error} units, {form:?}, seed {SEED}");
                        count += 1.0;
                        bias += error;
                        spread += error * error;
                    }
                }
            }
            let (bias, spread) = (bias / count, (spread / count).sqrt());
            let context = format!("dimension {dimension}, away {away}, {form:?}, seed {SEED}");
            assert!(bias.abs() < 0.06, "mean error {bias} units, {context}");
            assert!((0.85..1.15).contains(&spread), "spread {spread} units, {context}");
        }
    }
}

/// Share of the true 10 nearest among the best `keep` by an estimate, for one and for four bits.
fn shares(form: Form, dimension: usize, keep: usize) -> [f32; 2] {
    let mut random = SplitMix(SEED);
    let rotation = Rotation::new(dimension, SEED);
    let clusters: Vec<_> = (0..16).map(|_| cluster(&mut random, dimension, 256, 1.0)).collect();
    let mut rows = Vec::new();
    for (centroid, members) in &clusters {
        let turned = rotated(&rotation, centroid);
        for row in members {
            let turned_row = rotated(&rotation, row);
            let mut bits = vec![0; rotation.padded() / 8];
            let one = rabitq::encode(form, &turned_row, &turned, &mut bits);
            rows.push((row, centroid, bits, one, coded(form, &turned_row, &turned)));
        }
    }
    let mut found = [0; 2];
    let queries: Vec<Vec<f32>> = rows
        .iter()
        .step_by(97)
        .map(|row| row.0.iter().map(|x| x + 0.5 * random.normal()).collect())
        .collect();
    for query in &queries {
        let turned = rotated(&rotation, query);
        let extended = built(&turned);
        let mut ranked: Vec<([f32; 2], f32)> = rows
            .iter()
            .map(|(row, centroid, bits, one, (code, factors))| {
                let base = form.base(query, centroid);
                let sign = |i: usize| if bits[i / 8] >> (i % 8) & 1 == 1 { 1.0 } else { -1.0 };
                let sum: f32 = turned.iter().enumerate().map(|(i, x)| sign(i) * x).sum();
                let estimates =
                    [base + one.add + one.scale * sum, extended.estimate(code, *factors, base)];
                (estimates, form.base(query, row))
            })
            .collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        let worst = ranked[9].1;
        for (kind, found) in found.iter_mut().enumerate() {
            ranked.sort_by(|a, b| a.0[kind].total_cmp(&b.0[kind]));
            *found += ranked[..keep].iter().filter(|row| row.1 <= worst).count();
        }
    }
    found.map(|found| found as f32 / (10 * queries.len()) as f32)
}

#[test]
fn four_bits_order_rows_far_better_than_one() {
    for (form, dimension) in [(Form::L2, 128), (Form::InnerProduct, 128), (Form::L2, 100)] {
        for (keep, least) in [(10, 0.85), (15, 0.985), (20, 0.998)] {
            let [one, four] = shares(form, dimension, keep);
            let context = format!("best {keep}, {dimension} dimensions, {form:?}, seed {SEED}");
            assert!(four >= least, "{four} with four bits, {context}");
            assert!(four > one + 0.05, "{one} with one bit, {four} with four, {context}");
        }
    }
}

#[test]
fn a_query_is_reused_for_other_dimensions() {
    let mut random = SplitMix(SEED);
    let mut reused = built(&normals(&mut random, 320));
    for padded in [64, 256, 192] {
        let query = normals(&mut random, padded);
        reused.build(&query);
        let fresh = built(&query);
        assert_eq!(reused.planes(), fresh.planes());
        assert_eq!((reused.step, reused.bias), (fresh.step, fresh.bias));
    }
}

#[test]
#[should_panic(expected = "code of another dimension")]
fn a_code_of_another_dimension_is_refused() {
    built(&[1.0; 128]).estimate(&[0; 32], ExtendedFactors { add: 0.0, scale: 0.0 }, 0.0);
}

#[test]
#[should_panic(expected = "a code has 8192 dimensions at most")]
fn dimensions_beyond_the_exact_ones_are_refused() {
    built(&vec![1.0; 8256]);
}
