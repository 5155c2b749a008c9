//! A permutation of the ids of a table, which spreads them evenly over its buckets and can be undone: what the
//! bucket of an id says of it need not be stored ("quotienting": D. Knuth, The Art of Computer Programming,
//! volume 3, section 6.4, exercise 13).

use vstream_vector::SplitMix;

/// A one-to-one map of the numbers below 2^bits to themselves.
pub(super) struct Permutation {
    bits: u32,
    /// Odd numbers, and their inverses modulo 2^64.
    factors: [u64; 2],
    inverses: [u64; 2],
}

impl Permutation {
    /// Of numbers of so many bits, 0 to 64. Nobody who does not know `seed` can choose numbers that come to lie
    /// together.
    pub(super) fn new(bits: u32, seed: u64) -> Permutation {
        let mut random = SplitMix(seed);
        let factors = [random.next() | 1, random.next() | 1];
        Permutation { bits, factors, inverses: factors.map(inverse) }
    }

    /// Bits of its numbers.
    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    /// Where a number goes. The highest bits are the best mixed.
    #[inline]
    pub(super) fn of(&self, number: u64) -> u64 {
        let [first, second] = self.factors;
        self.cut(self.fold(self.cut(number.wrapping_mul(first))).wrapping_mul(second))
    }

    /// The number that goes there.
    #[inline]
    pub(super) fn undo(&self, place: u64) -> u64 {
        let [first, second] = self.inverses;
        self.cut(self.fold(self.cut(place.wrapping_mul(second))).wrapping_mul(first))
    }

    /// Adds the upper half to the lower one, bit by bit; a second time undoes it.
    #[inline]
    fn fold(&self, number: u64) -> u64 {
        number ^ number >> self.bits.div_ceil(2).max(1)
    }

    #[inline]
    fn cut(&self, number: u64) -> u64 {
        lowest(number, self.bits)
    }
}

/// The lowest bits of a number, 0 to 64.
#[inline]
pub(super) fn lowest(number: u64, bits: u32) -> u64 {
    number & u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0)
}

/// The inverse of an odd number modulo 2^64. Each step of Newton's doubles the bits that are right, of which a
/// number itself has three.
fn inverse(odd: u64) -> u64 {
    let step = |inverse: u64, _| inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
    (0..5).fold(odd, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_place_of_its_own_from_which_it_comes_back() {
        for bits in 0..=12 {
            let permutation = Permutation::new(bits, u64::from(bits) ^ 77);
            let mut is_taken = vec![false; 1 << bits];
            for number in 0..1 << bits {
                let place = permutation.of(number);
                assert!(!std::mem::replace(&mut is_taken[place as usize], true));
                assert_eq!(permutation.undo(place), number);
            }
        }
        let mut random = SplitMix(5);
        for bits in [31, 32, 33, 63, 64] {
            let permutation = Permutation::new(bits, random.next());
            for _ in 0..1000 {
                let number = random.next() >> (u64::BITS - bits);
                assert_eq!(permutation.undo(permutation.of(number)), number, "{bits} bits");
            }
        }
    }

    #[test]
    fn numbers_in_a_row_and_far_steps_spread_evenly() {
        for (bits, step) in [(24, 1), (24, 100), (40, 1 << 20), (64, 1 << 44), (64, 3)] {
            let permutation = Permutation::new(bits, 9);
            let mut counts = vec![0u32; 1 << 12];
            let places = (0..1u64 << 15).map(|nth| permutation.of(nth * step));
            places.for_each(|place| counts[(place >> (bits - 12)) as usize] += 1);
            let most = *counts.iter().max().unwrap();
            assert!(most <= 32, "{most} of 8 by steps of {step} in {bits} bits");
        }
    }
}
