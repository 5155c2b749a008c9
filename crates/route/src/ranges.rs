//! The table of a template: sorted ranges of codes, each with its shard.

use crate::error::RouteError;

/// Ranges of codes in ascending order. Range `i` runs from `starts[i]` to just before
/// `starts[i + 1]`. The first range starts at 0 and the last one ends at the end of the line, so
/// every code lies in exactly one range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranges {
    starts: Vec<u64>,
    shards: Vec<u16>,
}

impl Ranges {
    /// `shards` ranges of equal length. Range `i` belongs to shard `i`.
    pub(crate) fn even(shards: u16) -> Ranges {
        let start = |s: u16| (u128::from(s) << 64).div_ceil(u128::from(shards)) as u64;
        Ranges { starts: (0..shards).map(start).collect(), shards: (0..shards).collect() }
    }

    /// Builds the table from `(start, shard)` pairs in ascending order of start.
    ///
    /// Errors: `Corrupt` if there is no pair, if the first does not start at 0, if the starts do
    /// not ascend, or if a shard is not below `shards`.
    pub(crate) fn from_pairs(pairs: &[(u64, u16)], shards: u16) -> Result<Ranges, RouteError> {
        if pairs.first().is_none_or(|p| p.0 != 0) {
            return Err(RouteError::corrupt("The template's first code range must start at 0."));
        }
        if let Some(index) = pairs.windows(2).position(|w| w[0].0 >= w[1].0) {
            let range = index + 1;
            return Err(RouteError::corrupt(format!(
                "The template's code range {range} does not start after the one before it."
            )));
        }
        if let Some(pair) = pairs.iter().find(|p| p.1 >= shards) {
            return Err(RouteError::corrupt(format!(
                "The template names shard {}, but it has only {shards} shards.",
                pair.1
            )));
        }
        Ok(Ranges {
            starts: pairs.iter().map(|p| p.0).collect(),
            shards: pairs.iter().map(|p| p.1).collect(),
        })
    }

    /// The shard whose range holds `code`. Cost: O(log ranges).
    #[inline]
    pub(crate) fn shard_of(&self, code: u64) -> u16 {
        let after = self.starts.partition_point(|&start| start <= code);
        self.shards[after - 1]
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn pairs(&self) -> impl Iterator<Item = (u64, u16)> + '_ {
        self.starts.iter().copied().zip(self.shards.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_ranges_cut_the_line_into_equal_parts() {
        for shards in [1u16, 3, 128, 4096] {
            let ranges = Ranges::even(shards);
            assert_eq!(ranges.shard_of(0), 0);
            assert_eq!(ranges.shard_of(u64::MAX), shards - 1);
            for (start, shard) in ranges.pairs() {
                assert_eq!(ranges.shard_of(start), shard);
                assert_eq!(ranges.shard_of(start.saturating_sub(1)), shard.saturating_sub(1));
            }
        }
    }

    #[test]
    fn pairs_that_do_not_cover_the_line_are_refused() {
        assert!(Ranges::from_pairs(&[], 4).is_err());
        assert!(Ranges::from_pairs(&[(1, 0)], 4).is_err());
        assert!(Ranges::from_pairs(&[(0, 0), (9, 1), (9, 2)], 4).is_err());
        assert!(Ranges::from_pairs(&[(0, 0), (9, 4)], 4).is_err());
        assert!(Ranges::from_pairs(&[(0, 3), (9, 0)], 4).is_ok());
    }
}
