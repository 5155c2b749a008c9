//! Space-filling curves, which order the cells of an n-dimensional grid on a line.
//!
//! | curve | side of the grid | consecutive cells |
//! |---|---|---|
//! | z-order | 2^levels | no promise; a cell that is nowhere smaller comes later |
//! | Hilbert | 2^levels | share a face |
//! | Gray | 2^levels | differ in one bit of the interleaved word, so in one dimension |
//! | Peano | 3^levels | share a face |
//! | Sierpinski | 2^levels | no face promised; cells that agree in a prefix lie in one simplex |
//!
//! Every curve uses every dimension. The positions of a curve are exactly `0..side^dimensions`,
//! except for Sierpinski, whose positions are distinct but leave gaps (see `sierpinski.rs`).

mod gray;
mod hilbert;
mod peano;
mod sierpinski;
mod zorder;

#[cfg(test)]
mod tests;

use crate::error::RouteError;
use std::fmt;
use std::str::FromStr;

/// A space-filling curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Curve {
    /// Bits of the coordinates interleaved (Morton).
    ZOrder,
    /// Hilbert's curve in n dimensions (Skilling's form).
    Hilbert,
    /// Rank of the interleaved word in the binary reflected Gray code (Faloutsos).
    Gray,
    /// Peano's curve in n dimensions, base 3.
    Peano,
    /// Order of recursive bisection of simplices; in 2 dimensions the Sierpinski-Knopp curve.
    Sierpinski,
}

impl Curve {
    /// All curves, in the order of their stored tags.
    pub const ALL: [Curve; 5] =
        [Curve::ZOrder, Curve::Hilbert, Curve::Gray, Curve::Peano, Curve::Sierpinski];

    /// The name in settings: `zorder`, `hilbert`, `gray`, `peano`, `sierpinski`.
    pub fn name(self) -> &'static str {
        match self {
            Curve::ZOrder => "zorder",
            Curve::Hilbert => "hilbert",
            Curve::Gray => "gray",
            Curve::Peano => "peano",
            Curve::Sierpinski => "sierpinski",
        }
    }

    /// The stored tag, which no other curve ever gets.
    pub(crate) fn tag(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_tag(tag: u8) -> Option<Curve> {
        Curve::ALL.into_iter().find(|curve| curve.tag() == tag)
    }

    /// Cells per axis at one level.
    fn base(self) -> u32 {
        match self {
            Curve::Peano => 3,
            _ => 2,
        }
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Curve {
    type Err = RouteError;

    fn from_str(name: &str) -> Result<Curve, RouteError> {
        Curve::ALL.into_iter().find(|curve| curve.name() == name).ok_or_else(|| {
            RouteError::invalid(format!(
                "Unknown curve '{name}': choose one of zorder, hilbert, gray, peano, sierpinski."
            ))
        })
    }
}

/// A grid of `side` cells per axis with a curve through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    curve: Curve,
    dimensions: usize,
    levels: u32,
    side: u32,
}

impl Grid {
    /// A grid of `base^levels` cells per axis. The base is 3 for Peano and 2 for the others.
    ///
    /// Errors: `Invalid` for no dimension or no level, if a side does not fit 16 bits, or if
    /// positions do not fit 64 bits.
    pub fn new(curve: Curve, dimensions: usize, levels: u32) -> Result<Grid, RouteError> {
        let side = curve.base().checked_pow(levels).filter(|&side| side <= 1 << 16);
        let fits = dimensions >= 1 && levels >= 1 && positions_fit(curve, dimensions, levels, 64);
        match side {
            Some(side) if fits => Ok(Grid { curve, dimensions, levels, side }),
            _ => Err(RouteError::invalid(format!(
                "A {curve} curve of {levels} levels in {dimensions} dimensions does not fit a \
                 64-bit code: use fewer hashes."
            ))),
        }
    }

    /// The finest grid with at most `bits` bits per axis whose positions fit a 64-bit code beside
    /// the number of the family.
    ///
    /// A grid of base 3 gets the least number of levels that is at least as fine as `bits`, if that
    /// fits.
    pub(crate) fn for_code(
        curve: Curve,
        hashes: usize,
        bits: u32,
        families: usize,
    ) -> Result<Grid, RouteError> {
        let room = 64 - family_bits(families);
        let wanted = match curve {
            Curve::Peano => (1..).find(|&l| 3u64.pow(l) >= 1 << bits.min(16)).unwrap_or(1).min(10),
            _ => bits.min(16),
        };
        let levels = (1..=wanted).rev().find(|&l| positions_fit(curve, hashes, l, room));
        match levels {
            Some(levels) => Grid::new(curve, hashes, levels),
            None => Err(RouteError::invalid(format!(
                "A {curve} curve through {hashes} hashes does not fit the code beside {families} \
                 families: use fewer hashes."
            ))),
        }
    }

    /// Cells along each axis.
    pub fn side(&self) -> u32 {
        self.side
    }

    /// Levels of the recursion.
    pub fn levels(&self) -> u32 {
        self.levels
    }

    /// Position of `cell` on the curve.
    ///
    /// * `cell`: one coordinate for each dimension, each below [`Grid::side`].
    ///
    /// Cost: O(dimensions · levels), for Sierpinski O(dimensions² · levels). No allocation.
    pub fn position(&self, cell: &[u32]) -> u64 {
        assert_eq!(cell.len(), self.dimensions, "a cell has one coordinate per dimension");
        debug_assert!(cell.iter().all(|&x| x < self.side));
        match self.curve {
            Curve::ZOrder => zorder::position(cell, self.levels),
            Curve::Hilbert => hilbert::position(cell, self.levels),
            Curve::Gray => gray::position(cell, self.levels),
            Curve::Peano => peano::position(cell, self.levels),
            Curve::Sierpinski => sierpinski::position(cell, self.levels),
        }
    }

    /// Scales `position` to a code whose top bits hold the number of the family.
    pub(crate) fn code(&self, position: u64, family: usize, families: usize) -> u64 {
        let family_bits = family_bits(families);
        let room = 1u128 << (64 - family_bits);
        // A whole factor keeps the order and keeps positions distinct. A power of two is a shift,
        // so the position on a curve of base 2 is left-aligned.
        let stretch = room / positions(self.curve, self.dimensions, self.levels);
        let head = if family_bits == 0 { 0 } else { (family as u64) << (64 - family_bits) };
        head | (u128::from(position) * stretch) as u64
    }
}

/// Bits that hold the number of a family.
pub(crate) fn family_bits(families: usize) -> u32 {
    families.max(1).next_power_of_two().trailing_zeros()
}

/// Number of positions, saturating.
fn positions(curve: Curve, dimensions: usize, levels: u32) -> u128 {
    let digits = (dimensions as u32).saturating_mul(levels);
    let grid = u128::from(curve.base()).checked_pow(digits).unwrap_or(u128::MAX);
    match curve {
        Curve::Sierpinski => grid.saturating_mul(sierpinski::roots(dimensions)),
        _ => grid,
    }
}

fn positions_fit(curve: Curve, dimensions: usize, levels: u32, bits: u32) -> bool {
    positions(curve, dimensions, levels) <= 1 << bits
}
