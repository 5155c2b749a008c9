//! The set of kernels of each level, and the choice of a level.

use std::sync::OnceLock;

use super::{bits, lanes, scalar, Fields, Level, Tile, CODES, LANES, TILE_COLUMNS, TILE_ROWS};
use crate::widen::{Bf16, Widen, F16};

type TileKernel = unsafe fn([&[f32]; TILE_ROWS], &[[f32; TILE_COLUMNS]], &mut Tile);

/// The kernels for an `f32` query and a row of number type `N`.
pub struct PairKernels<N> {
    pub(super) l2_squared: unsafe fn(&[f32], &[N]) -> f32,
    pub(super) inner_product: unsafe fn(&[f32], &[N]) -> f32,
}

/// The kernels of one level. A call is sound only if `level` is available on this machine.
pub struct KernelSet {
    pub(super) level: Level,
    f32: PairKernels<f32>,
    f16: PairKernels<F16>,
    bf16: PairKernels<Bf16>,
    u8: PairKernels<u8>,
    i8: PairKernels<i8>,
    pub(super) l2_squared_batch: unsafe fn(&[f32], &[f32], &mut [f32]),
    pub(super) inner_product_batch: unsafe fn(&[f32], &[f32], &mut [f32]),
    pub(super) inner_product_tile: TileKernel,
    pub(super) lanes_equal: unsafe fn(&[u32; LANES], u32) -> u32,
    pub(super) lanes_within: unsafe fn(&[u64; LANES], i64, i64) -> u32,
    pub(super) unpack: unsafe fn(&[u8], usize, u32, u32, &mut [u32]),
    pub(super) unpack_fields: unsafe fn(&[u8], usize, &Fields, &mut [u32]),
    pub(super) join: unsafe fn(&mut [u32], u32, &[u8; CODES], u32, &[u8]),
}

/// A number type with kernels. Sealed, because `KernelSet` is private to this module.
pub trait Kernels: Sized {
    /// The kernels of `set` for rows of this number type.
    fn pair(set: &KernelSet) -> &PairKernels<Self>;
}

macro_rules! kernels {
    ($($number:ty => $field:ident),*) => {
        $(impl Kernels for $number {
            #[inline]
            fn pair(set: &KernelSet) -> &PairKernels<$number> {
                &set.$field
            }
        })*
    };
}

kernels!(f32 => f32, F16 => f16, Bf16 => bf16, u8 => u8, i8 => i8);

const fn scalar_pair<N: Widen>() -> PairKernels<N> {
    PairKernels { l2_squared: scalar::l2_squared::<N>, inner_product: scalar::inner_product::<N> }
}

const SCALAR: KernelSet = KernelSet {
    level: Level::Scalar,
    f32: scalar_pair(),
    f16: scalar_pair(),
    bf16: scalar_pair(),
    u8: scalar_pair(),
    i8: scalar_pair(),
    l2_squared_batch: scalar::l2_squared_batch,
    inner_product_batch: scalar::inner_product_batch,
    inner_product_tile: scalar::inner_product_tile,
    lanes_equal: lanes::equal,
    lanes_within: lanes::within,
    unpack: bits::unpack,
    unpack_fields: bits::unpack_fields,
    join: bits::join,
};

macro_rules! pair {
    ($module:ident, $l2_squared:ident, $inner_product:ident) => {
        PairKernels {
            l2_squared: super::$module::$l2_squared,
            inner_product: super::$module::$inner_product,
        }
    };
}

macro_rules! simd_set {
    ($level:ident, $module:ident, $($bits:ident)::+) => {
        KernelSet {
            level: Level::$level,
            f32: pair!($module, l2_squared, inner_product),
            f16: pair!($module, l2_squared_f16, inner_product_f16),
            bf16: pair!($module, l2_squared_bf16, inner_product_bf16),
            u8: pair!($module, l2_squared_u8, inner_product_u8),
            i8: pair!($module, l2_squared_i8, inner_product_i8),
            l2_squared_batch: super::$module::l2_squared_batch,
            inner_product_batch: super::$module::inner_product_batch,
            inner_product_tile: super::$module::inner_product_tile,
            lanes_equal: super::$module::lanes_equal,
            lanes_within: super::$module::lanes_within,
            unpack: $($bits)::+::unpack,
            unpack_fields: $($bits)::+::unpack_fields,
            join: $($bits)::+::join,
        }
    };
}

/// Every set compiled for this target, plainest first.
pub(super) static SETS: &[KernelSet] = &[
    SCALAR,
    #[cfg(target_arch = "x86_64")]
    simd_set!(Avx2, avx2, bits::avx2),
    #[cfg(target_arch = "x86_64")]
    simd_set!(Avx512, avx512, bits::avx2),
    #[cfg(target_arch = "aarch64")]
    simd_set!(Neon, neon, bits),
];

#[inline]
pub(super) fn active() -> &'static KernelSet {
    static ACTIVE: OnceLock<&'static KernelSet> = OnceLock::new();
    ACTIVE.get_or_init(|| {
        let widest = SETS.iter().rfind(|set| set.level.is_available());
        widest.expect("the scalar level is always available")
    })
}
