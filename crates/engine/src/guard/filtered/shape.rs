//! The shape of a filter: what it tests and on which columns, without the values. Filters of one shape
//! stand in one relation to the vectors, mostly, so they need about the same θ.

use std::sync::atomic::{AtomicU64, Ordering};

use vstream_attribute::{Filter, Test};

/// Shapes with a θ of their own. Later ones share those of the first.
pub(in crate::guard) const SHAPES: usize = 16;
/// Most conditions that are looked at.
const CONDITIONS_MAX: u32 = 64;

/// The shapes that came first, by slot; 0 while a slot is free.
#[derive(Default)]
pub(in crate::guard) struct ShapeSlots([AtomicU64; SHAPES]);

impl ShapeSlots {
    /// The slot of the shape of a filter.
    pub(in crate::guard) fn of(&self, filter: &Filter) -> usize {
        // Never 0, which marks a free slot.
        let shape = shape_of(filter) | 1;
        for (at, slot) in self.0.iter().enumerate() {
            let mut is = slot.load(Ordering::Relaxed);
            if is == 0 {
                let claimed = slot.compare_exchange(0, shape, Ordering::Relaxed, Ordering::Relaxed);
                is = claimed.err().unwrap_or(shape);
            }
            if is == shape {
                return at;
            }
        }
        (shape >> 32) as usize % SHAPES
    }
}

/// A hash of the shape.
fn shape_of(filter: &Filter) -> u64 {
    let mut left = CONDITIONS_MAX;
    visit(filter, 0, &mut left)
}

fn visit(filter: &Filter, hash: u64, left: &mut u32) -> u64 {
    if *left == 0 {
        return hash;
    }
    *left -= 1;
    let all = |hash: u64, of: &[Filter], left: &mut u32| {
        let within = of.iter().fold(hash, |hash, one| visit(one, hash, left));
        mix(within, 1)
    };
    match filter {
        Filter::And(of) => all(mix(hash, 2), of, left),
        Filter::Or(of) => all(mix(hash, 3), of, left),
        Filter::AtLeast(_, of) => all(mix(hash, 4), of, left),
        Filter::Not(one) => mix(visit(one, mix(hash, 5), left), 1),
        Filter::Ids(_) => mix(hash, 6),
        Filter::Attribute(column, test) => mix(hash, kind(test) << 16 | u64::from(*column)),
    }
}

fn kind(test: &Test) -> u64 {
    match test {
        Test::Exists => 1,
        Test::KeywordIn(_) => 2,
        Test::KeywordPrefix(_) => 3,
        Test::AnyOf(_) => 4,
        Test::AllOf(_) => 5,
        Test::IsEmpty => 6,
        Test::I64In(_) => 7,
        Test::I64Range(_) => 8,
        Test::F64In(_) => 9,
        Test::F64Range(_) => 10,
        // The rows of one truth value may lie where those of the other do not.
        Test::Bool(true) => 11,
        Test::Bool(false) => 12,
    }
}

fn mix(hash: u64, with: u64) -> u64 {
    (hash ^ with).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use vstream_attribute::Range;

    use super::*;

    fn is(column: u16, word: &str) -> Filter {
        Filter::Attribute(column, Test::KeywordIn(vec![word.to_owned()]))
    }

    #[test]
    fn values_make_no_shape_but_columns_and_tests_do() {
        let range =
            |to: i64| Range { from: std::ops::Bound::Unbounded, to: std::ops::Bound::Excluded(to) };
        let under = |to| Filter::Attribute(1, Test::I64Range(range(to)));
        let not = |one| Filter::Not(Box::new(one));
        assert_eq!(shape_of(&is(0, "red")), shape_of(&is(0, "blue")));
        assert_eq!(shape_of(&under(3)), shape_of(&under(4)));
        let all = [
            is(0, "red"),
            is(1, "red"),
            under(3),
            not(under(3)),
            Filter::And(vec![is(0, "red"), under(3)]),
            Filter::Or(vec![is(0, "red"), under(3)]),
            Filter::And(vec![Filter::And(vec![is(0, "red")]), under(3)]),
            Filter::And(vec![Filter::And(vec![is(0, "red"), under(3)])]),
            Filter::Attribute(2, Test::Bool(true)),
            Filter::Attribute(2, Test::Bool(false)),
            Filter::Ids(vec![1]),
        ];
        let shapes: std::collections::BTreeSet<u64> = all.iter().map(shape_of).collect();
        assert_eq!(shapes.len(), all.len());
    }

    #[test]
    fn the_first_shapes_have_slots_and_later_ones_share_them() {
        let slots = ShapeSlots::default();
        for column in 0..SHAPES as u16 {
            assert_eq!(slots.of(&is(column, "red")), usize::from(column));
        }
        let shared: Vec<usize> = (100..200).map(|column| slots.of(&is(column, "red"))).collect();
        assert!(shared.iter().all(|&slot| slot < SHAPES));
        assert!(shared.iter().collect::<std::collections::BTreeSet<_>>().len() > SHAPES / 2);
        assert_eq!(slots.of(&is(3, "blue")), 3);
    }

    #[test]
    fn a_filter_of_any_size_is_hashed_quickly() {
        let deep = (0..1_000).fold(is(0, "red"), |one, _| Filter::Not(Box::new(one)));
        let wide = Filter::Or((0..10_000).map(|column| is(column, "red")).collect());
        assert_ne!(shape_of(&deep), shape_of(&wide));
    }
}
