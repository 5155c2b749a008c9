//! The three kernels of an extended code, for every instruction set. Each gives exactly the scalar
//! kernel's bits.
//!
//! They differ in how they sum the byte products of a row, which is exact. The rest is written once
//! ([`plain`]) and compiled for every level.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod plain;
mod scalar;
#[cfg(test)]
mod tests;

use super::encode::Sums;
use super::query::Planes;
use std::sync::OnceLock;
use vstream_vector::kernels::Level;

/// The kernels of one instruction set. A call is sound only where the set is available.
struct KernelSet {
    #[cfg_attr(not(test), expect(dead_code, reason = "names the form when a test fails"))]
    name: &'static str,
    is_available: fn() -> bool,
    encode: unsafe fn(&[f32], &[f32], &mut [u8]) -> Sums,
    build: unsafe fn(&[f32], &mut [Planes]) -> (f32, f32),
    /// `Σ uᵢ · integerᵢ`. There is one set of planes for each 64 bytes of the code, the last may be
    /// partial.
    product: unsafe fn(&[u8], &[Planes]) -> i32,
}

/// Every set that was compiled for this target, slowest first.
static SETS: &[KernelSet] = &[
    KernelSet {
        name: "scalar",
        is_available: || true,
        encode: scalar::encode,
        build: scalar::build,
        product: scalar::product,
    },
    #[cfg(target_arch = "x86_64")]
    KernelSet {
        name: "avx2",
        is_available: || Level::Avx2.is_available(),
        encode: avx2::encode,
        build: avx2::build,
        product: avx2::product,
    },
    #[cfg(target_arch = "x86_64")]
    KernelSet {
        name: "avx-vnni",
        is_available: || Level::Avx2.is_available() && is_x86_feature_detected!("avxvnni"),
        encode: avx2::encode,
        build: avx2::build,
        product: avx2::product_vnni,
    },
    #[cfg(target_arch = "x86_64")]
    KernelSet {
        name: "avx512-vnni",
        is_available: || Level::Avx512.is_available() && is_x86_feature_detected!("avx512vnni"),
        encode: avx512::encode,
        build: avx512::build,
        product: avx512::product,
    },
    #[cfg(target_arch = "aarch64")]
    KernelSet {
        name: "neon",
        is_available: || Level::Neon.is_available(),
        encode: neon::encode,
        build: neon::build,
        product: neon::product,
    },
];

#[inline]
fn active() -> &'static KernelSet {
    static ACTIVE: OnceLock<&'static KernelSet> = OnceLock::new();
    ACTIVE.get_or_init(|| {
        let fastest = SETS.iter().rfind(|set| (set.is_available)());
        fastest.expect("the scalar form is always available")
    })
}

/// Writes the code of `row − centroid` and returns the sums that its factors need.
#[inline]
pub(super) fn encode(row: &[f32], centroid: &[f32], code: &mut [u8]) -> Sums {
    // SAFETY: the active form's features were found on this machine.
    unsafe { (active().encode)(row, centroid, code) }
}

/// Fills a query's planes, which must be zero before. Returns its step and bias.
#[inline]
pub(super) fn build(query: &[f32], planes: &mut [Planes]) -> (f32, f32) {
    // SAFETY: the active form's features were found on this machine.
    unsafe { (active().build)(query, planes) }
}

/// The product of a code and a query's integers.
#[inline]
pub(super) fn product(code: &[u8], planes: &[Planes]) -> i32 {
    // SAFETY: the active form's features were found on this machine.
    unsafe { (active().product)(code, planes) }
}
