//! The part of a scan that is the same at every level; the compiler inlines it into each. Sums run
//! over 16 lanes in a fixed order and no multiply-add is fused, so every level gives the same bits.

use super::super::{Centroids, Group, ScanScratch, GROUP, LANES, ZERO};
use crate::lanes::{self, ROUND};
use crate::Form;

/// Codes the query, then estimates block by block.
///
/// `dot` sums the products of a block's codes and the query's words, lane by lane; both slices have
/// the same length, a multiple of four.
#[inline(always)]
pub(super) fn scan(
    centroids: &Centroids,
    form: Form,
    query: &[f32],
    scratch: &mut ScanScratch,
    out: &mut [[f32; LANES]],
    dot: impl Fn(&[Group], &[[i8; GROUP]]) -> [i32; LANES],
) {
    let ScanScratch { centred, words } = scratch;
    let query = Query::code(&centroids.mean, form, query, centred, words);
    let blocks = centroids.codes.chunks_exact(centroids.groups).zip(&centroids.blocks);
    for ((codes, block), out) in blocks.zip(out) {
        let products = dot(codes, words);
        let constant = query.base - query.weight * (block.middle * query.sum);
        let scale = query.weight * (block.step * query.step);
        for lane in 0..LANES {
            let row = match form {
                Form::L2 => block.norms[lane],
                Form::InnerProduct => -block.mean_products[lane],
            };
            let product = (products[lane] - query.code_sum) as f32;
            out[lane] = (constant + row) - scale * product;
        }
    }
}

/// The numbers of a coded query.
struct Query {
    /// The part of every estimate that depends on the query alone.
    base: f32,
    /// Factor of the product: 2 for L2, 1 for the inner product.
    weight: f32,
    step: f32,
    /// `Σ q̂ᵢ`
    sum: f32,
    /// `128 · Σ vᵢ`
    code_sum: i32,
}

impl Query {
    #[inline(always)]
    fn code(
        mean: &[f32],
        form: Form,
        query: &[f32],
        centred: &mut [f32],
        words: &mut [[i8; GROUP]],
    ) -> Query {
        for ((centred, x), m) in centred.iter_mut().zip(query).zip(mean) {
            *centred = x - m;
        }
        centred[query.len()..].fill(0.0);
        let reach = lanes::reach(centred);
        let per_step = 127.0 / reach;
        let per_step = if per_step.is_finite() { per_step } else { 0.0 };
        let mut code_sums = [0i32; LANES];
        let codes = words.as_flattened_mut().as_chunks_mut::<LANES>().0;
        for (codes, values) in codes.iter_mut().zip(centred.as_chunks::<LANES>().0) {
            *codes = values.map(|x| (x * per_step + ROUND).to_bits() as i8);
        }
        for codes in codes.iter() {
            for lane in 0..LANES {
                code_sums[lane] += i32::from(codes[lane]);
            }
        }
        let (base, weight) = match form {
            Form::L2 => (lanes::sum(centred, centred, |x, _| x * x), 2.0),
            Form::InnerProduct => (-lanes::sum(centred, mean, |x, m| (x + m) * m), 1.0),
        };
        let code_sum = i32::from(ZERO) * code_sums.iter().sum::<i32>();
        Query {
            base,
            weight,
            step: reach / 127.0,
            sum: lanes::sum(centred, centred, |x, _| x),
            code_sum,
        }
    }
}
