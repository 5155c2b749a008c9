//! The four kernels of a code at every level. Each gives exactly the scalar kernel's bits.
//!
//! Code that the compiler vectorises well is written once ([`plain`]) and compiled for every level.
//! Only the shuffles and the scan are written by hand.

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

use super::block::{BLOCK, FACTOR_BYTES};
use super::encode::Sums;
use super::query::Line;
use super::rotation::Round;
use std::sync::OnceLock;
use vstream_vector::kernels::Level;

/// Number of groups whose byte sums fit 16 bits: `256 · 255 < 2¹⁶`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const GROUPS_PER_FLUSH: usize = 256;

/// The input of a scan of one block.
///
/// `lines` and the codes of `block` must cover the same dimensions; every kernel relies on it.
pub(super) struct Scan<'a> {
    pub(super) lines: &'a [Line],
    pub(super) block: &'a [u8],
    pub(super) step: f32,
    pub(super) bias: f32,
    pub(super) base: f32,
    pub(super) threshold: f32,
}

impl<'a> Scan<'a> {
    /// The codes and the factors of the block.
    #[inline(always)]
    fn parts(&self) -> (&'a [u8], &'a [u8; FACTOR_BYTES]) {
        self.block.split_last_chunk().expect("a block has factors")
    }
}

/// The kernels of one level. A call is sound only if `level` is available on this machine.
struct KernelSet {
    level: Level,
    rotate: unsafe fn(&Round, &mut [f32]),
    encode: unsafe fn(&[f32], &[f32], &mut [u8]) -> Sums,
    build: unsafe fn(&[f32], &mut [Line]) -> (f32, f32),
    scan: unsafe fn(&Scan, &mut [f32; BLOCK]) -> u32,
}

macro_rules! kernel_set {
    ($level:ident, $module:ident) => {
        KernelSet {
            level: Level::$level,
            rotate: $module::rotate,
            encode: $module::encode,
            build: $module::build,
            scan: $module::scan,
        }
    };
}

/// Every set that was compiled for this target, plainest first.
static SETS: &[KernelSet] = &[
    kernel_set!(Scalar, scalar),
    #[cfg(target_arch = "x86_64")]
    kernel_set!(Avx2, avx2),
    #[cfg(target_arch = "x86_64")]
    kernel_set!(Avx512, avx512),
    #[cfg(target_arch = "aarch64")]
    kernel_set!(Neon, neon),
];

#[inline]
fn active() -> &'static KernelSet {
    static ACTIVE: OnceLock<&'static KernelSet> = OnceLock::new();
    ACTIVE.get_or_init(|| {
        let widest = SETS.iter().rfind(|set| set.level.is_available());
        widest.expect("the scalar level is always available")
    })
}

/// Applies one round of a rotation in place.
#[inline]
pub(super) fn rotate(round: &Round, x: &mut [f32]) {
    // SAFETY: the active set's level was found on this machine.
    unsafe { (active().rotate)(round, x) }
}

/// Writes the signs of `row − centroid` and returns the sums that its factors need.
#[inline]
pub(super) fn encode(row: &[f32], centroid: &[f32], bits: &mut [u8]) -> Sums {
    // SAFETY: the active set's level was found on this machine.
    unsafe { (active().encode)(row, centroid, bits) }
}

/// Fills a query's table; returns its step and bias.
#[inline]
pub(super) fn build(query: &[f32], lines: &mut [Line]) -> (f32, f32) {
    // SAFETY: the active set's level was found on this machine.
    unsafe { (active().build)(query, lines) }
}

/// Estimates a block; returns the lanes below the threshold.
#[inline]
pub(super) fn scan(scan: &Scan, out: &mut [f32; BLOCK]) -> u32 {
    // SAFETY: the active set's level was found on this machine.
    unsafe { (active().scan)(scan, out) }
}
