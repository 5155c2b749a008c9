//! Every kernel gives the scalar kernel's bits.

use super::super::GROUP;
use super::*;
use vstream_vector::SplitMix;

const SEED: u64 = 9;

/// Every kernel of this target that this machine can run. Prints the others to standard error.
fn available() -> Vec<&'static Kernel> {
    let (runnable, missing): (Vec<_>, Vec<_>) =
        KERNELS.iter().partition(|kernel| (kernel.is_available)());
    for kernel in missing {
        eprintln!("SKIPPED: this machine lacks {}", kernel.name);
    }
    runnable
}

fn scanned(
    scan: Scan,
    centroids: &Centroids,
    form: Form,
    query: &[f32],
) -> (Vec<[i8; GROUP]>, Vec<[f32; LANES]>) {
    let mut scratch = ScanScratch {
        centred: vec![f32::NAN; centroids.groups * GROUP],
        words: vec![[99; GROUP]; centroids.groups],
    };
    let mut out = vec![[f32::NAN; LANES]; centroids.blocks.len()];
    // SAFETY: callers take `scan` from `available`.
    unsafe { scan(centroids, form, query, &mut scratch, &mut out) };
    (scratch.words, out)
}

#[test]
fn estimates_are_bit_equal() {
    let mut random = SplitMix(SEED);
    for dimension in [1, 3, 4, 16, 17, 63, 64, 100, 128, 200, 768, 4096] {
        for n in [1, 15, 16, 17, 50] {
            let rows: Vec<f32> = (0..n * dimension).map(|_| random.normal()).collect();
            let query: Vec<f32> = (0..dimension).map(|_| 2.0 * random.normal()).collect();
            let centroids = Centroids::build(&rows, dimension);
            for form in [Form::L2, Form::InnerProduct] {
                let expected = scanned(scalar::scan, &centroids, form, &query);
                for kernel in available() {
                    let found = scanned(kernel.scan, &centroids, form, &query);
                    assert_eq!(found, expected, "{} {dimension} × {n}, {form:?}", kernel.name);
                }
            }
        }
    }
}

/// The largest codes of both sides: no kernel may saturate or overflow.
#[test]
fn extreme_products_are_exact() {
    let dimension = 4096;
    let mut rows = vec![1.0; 16 * dimension];
    rows[5 * dimension..6 * dimension].fill(-1.0);
    let centroids = Centroids::build(&rows, dimension);
    for sign in [1.0, -1.0] {
        let query: Vec<f32> = centroids.mean.iter().map(|m| m + sign * 3.0).collect();
        let expected = scanned(scalar::scan, &centroids, Form::L2, &query);
        for kernel in available() {
            let found = scanned(kernel.scan, &centroids, Form::L2, &query);
            assert_eq!(found, expected, "{}", kernel.name);
        }
    }
}
