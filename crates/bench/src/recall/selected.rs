//! Filters of the cases: which rows they select, as a function of a row's number or place.

use clap::ValueEnum;
use serde::Serialize;
use vstream_engine::{AttributeKind, AttributesBuilder, Filter, Schema, Test, ValueRef};
use vstream_vector::{kernels, SplitMix};

use super::DataSet;

/// Seed of the drawn attributes and of the centres.
const SEED: u64 = 23;
/// Rows that stand for regions, each of the rows nearest to it.
const REGIONS: usize = 25;
/// Values of the two keywords: together they select 1 row in 125.
const VALUES: [usize; 2] = [5, 25];

/// A filter. All but the last one are drawn, independent of the vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Selected {
    /// Half of the rows.
    Percent50,
    /// A fifth.
    Percent20,
    /// 4 %.
    Percent4,
    /// 1 %.
    Percent1,
    /// One row in a thousand.
    Permille1,
    /// Rows with one of 5 keywords and one of 25 others: 0.8 %.
    TwoKeywords,
    /// Rows of one region of 25: some 4 %, all far from most queries.
    Region,
}

impl Selected {
    /// The name that is typed and printed.
    pub fn name(self) -> &'static str {
        match self {
            Selected::Percent50 => "50 %",
            Selected::Percent20 => "20 %",
            Selected::Percent4 => "4 %",
            Selected::Percent1 => "1 %",
            Selected::Permille1 => "0.1 %",
            Selected::TwoKeywords => "two keywords, 0.8 %",
            Selected::Region => "a region of 25",
        }
    }

    /// One row in so many matches, for those that are drawn with one number.
    fn one_in(self) -> Option<i64> {
        match self {
            Selected::Percent50 => Some(2),
            Selected::Percent20 => Some(5),
            Selected::Percent4 => Some(25),
            Selected::Percent1 => Some(100),
            Selected::Permille1 => Some(1000),
            Selected::TwoKeywords | Selected::Region => None,
        }
    }

    /// The filter over [`schema`].
    pub(super) fn filter(self) -> Filter {
        let keyword =
            |column, text: &str| Filter::Attribute(column, Test::KeywordIn(vec![text.to_owned()]));
        match self {
            Selected::TwoKeywords => Filter::And(vec![keyword(1, "a1"), keyword(2, "b3")]),
            Selected::Region => Filter::Attribute(3, Test::I64In(vec![7])),
            _ => {
                let below = 1000 / self.one_in().expect("a share");
                let to = std::ops::Bound::Excluded(below);
                let range = vstream_engine::Range { from: std::ops::Bound::Unbounded, to };
                Filter::Attribute(0, Test::I64Range(range))
            }
        }
    }
}

/// What every row of a case with a filter carries.
pub(super) fn schema() -> Schema {
    let attributes = [
        ("share", AttributeKind::I64),
        ("first", AttributeKind::Keyword),
        ("second", AttributeKind::Keyword),
        ("region", AttributeKind::I64),
    ];
    Schema::new(attributes).expect("four attributes")
}

/// The values of rows, by their numbers.
pub(super) struct Values {
    schema: Schema,
    regions: Vec<u8>,
}

impl Values {
    /// Cost: a distance from each row to each of 25 centres.
    pub(super) fn new(data: &DataSet) -> Values {
        let (mut chance, rows) = (SplitMix(SEED), data.base.rows());
        let centres: Vec<usize> = (0..REGIONS).map(|_| chance.below(rows)).collect();
        let region = |row: usize| {
            let from =
                |&centre: &usize| kernels::l2_squared(data.base.row(row), data.base.row(centre));
            let distances: Vec<f32> = centres.iter().map(from).collect();
            let nearest = (0..REGIONS).min_by(|&a, &b| distances[a].total_cmp(&distances[b]));
            nearest.expect("25 centres") as u8
        };
        Values { schema: schema(), regions: (0..rows).map(region).collect() }
    }

    /// Sets the attributes of a row.
    pub(super) fn set(&self, row: usize, builder: &mut AttributesBuilder) {
        let mut chance = SplitMix(SEED ^ (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let share = ValueRef::I64(chance.below(1000) as i64);
        let keywords = [("a", VALUES[0]), ("b", VALUES[1])]
            .map(|(letter, values)| format!("{letter}{}", chance.below(values)));
        let region = ValueRef::I64(i64::from(self.regions[row]));
        let [first, second] = [0, 1].map(|at: usize| ValueRef::Keyword(&keywords[at]));
        builder.clear();
        for (column, value) in (0..).zip([share, first, second, region]) {
            builder.set(&self.schema, column, &value).expect("a value of its kind");
        }
    }
}
