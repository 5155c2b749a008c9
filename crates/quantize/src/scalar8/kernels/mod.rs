//! The scan at every level. Each kernel gives exactly the scalar one's bits.
//!
//! They differ only in how they sum the byte products of a block, which is exact. The float part is
//! written once ([`plain`]) and compiled for every level.

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

use super::{Centroids, ScanScratch, LANES};
use crate::Form;
use std::sync::OnceLock;
use vstream_vector::kernels::Level;

type Scan = unsafe fn(&Centroids, Form, &[f32], &mut ScanScratch, &mut [[f32; LANES]]);

/// The scan of one instruction set. A call is sound only where the set is available.
struct Kernel {
    #[cfg_attr(not(test), expect(dead_code, reason = "names the form when a test fails"))]
    name: &'static str,
    is_available: fn() -> bool,
    scan: Scan,
}

/// Every kernel that was compiled for this target, slowest first.
static KERNELS: &[Kernel] = &[
    Kernel { name: "scalar", is_available: || true, scan: scalar::scan },
    #[cfg(target_arch = "x86_64")]
    Kernel { name: "avx2", is_available: || Level::Avx2.is_available(), scan: avx2::scan },
    #[cfg(target_arch = "x86_64")]
    Kernel {
        name: "avx-vnni",
        is_available: || Level::Avx2.is_available() && is_x86_feature_detected!("avxvnni"),
        scan: avx2::scan_vnni,
    },
    #[cfg(target_arch = "x86_64")]
    Kernel {
        name: "avx512-vnni",
        is_available: || Level::Avx512.is_available() && is_x86_feature_detected!("avx512vnni"),
        scan: avx512::scan,
    },
    #[cfg(target_arch = "aarch64")]
    Kernel { name: "neon", is_available: || Level::Neon.is_available(), scan: neon::scan },
];

/// Writes one estimate per lane. The buffers must have the sizes that `centroids` needs.
#[inline]
pub(super) fn scan(
    centroids: &Centroids,
    form: Form,
    query: &[f32],
    scratch: &mut ScanScratch,
    out: &mut [[f32; LANES]],
) {
    static ACTIVE: OnceLock<Scan> = OnceLock::new();
    let scan = ACTIVE.get_or_init(|| {
        let fastest = KERNELS.iter().rfind(|kernel| (kernel.is_available)());
        fastest.expect("the scalar form is always available").scan
    });
    // SAFETY: the form's features were found on this machine.
    unsafe { scan(centroids, form, query, scratch, out) }
}
