//! Rows with every kind of attribute, and random filters over them.

use std::ops::Bound;

use vstream_attribute::{FieldsBuffer, Filter, Range, Test, ValueRef};
use vstream_index::{IndexRow, RowKey, VectorBuffer};
use vstream_segment::{LeafRows, SegmentSettings, SegmentSummary, SegmentWriter};
use vstream_store::Store;
use vstream_vector::{kernels, KMeans, KMeansSettings, SplitMix};

pub(crate) const COLOUR: u16 = 0;
pub(crate) const WORD: u16 = 1;
pub(crate) const SKU: u16 = 2;
pub(crate) const TAGS: u16 = 3;
pub(crate) const PRICE: u16 = 4;
pub(crate) const STOCK: u16 = 5;
pub(crate) const AT: u16 = 6;
pub(crate) const SOLD: u16 = 7;
pub(crate) const BODY: u16 = 8;
/// Only rows of the second half have it.
pub(crate) const LATE: u16 = 9;
/// Lists with so many words that each block has a dictionary of its own.
pub(crate) const AUTHORS: u16 = 12;
/// No row has it.
pub(crate) const ABSENT: u16 = 200;

const COLOURS: [&str; 4] = ["red", "", "grün", "blue"];

/// Rows in the order of their leaves.
pub(crate) struct Rows {
    pub(crate) dimension: usize,
    pub(crate) keys: Vec<RowKey>,
    pub(crate) vectors: Vec<Vec<f32>>,
    pub(crate) fields: Vec<FieldsBuffer>,
    /// Rows of each leaf.
    pub(crate) leaves: Vec<usize>,
}

impl Rows {
    /// Random rows around `n / 300` centres, in leaves by 2-means.
    pub(crate) fn random(seed: u64, n: usize, dimension: usize) -> Rows {
        let mut random = SplitMix(seed);
        let centres: Vec<Vec<f32>> = (0..n.div_ceil(300))
            .map(|_| (0..dimension).map(|_| random.normal()).collect())
            .collect();
        let vectors: Vec<(usize, Vec<f32>)> = (0..n)
            .map(|_| {
                let centre = random.below(centres.len());
                let near = centres[centre].iter().map(|x| x + 0.6 * random.normal()).collect();
                (centre, near)
            })
            .collect();
        let flat: Vec<f32> = vectors.iter().flat_map(|(_, vector)| vector).copied().collect();
        let clusters = n.div_ceil(200);
        let settings = KMeansSettings { clusters, iterations: 4, seed, balance: 0.0 };
        let centroids = KMeans::train(&flat, dimension, settings).centroids;
        let nearest = |vector: &[f32]| {
            let gap = |centroid: &[f32]| kernels::l2_squared(vector, centroid);
            let gaps = centroids.chunks_exact(dimension).map(gap).zip(0..);
            gaps.min_by(|a: &(f32, usize), b| a.0.total_cmp(&b.0)).expect("a centroid").1
        };
        let mut order: Vec<(usize, usize)> =
            vectors.iter().enumerate().map(|(at, (_, vector))| (nearest(vector), at)).collect();
        order.sort_unstable();
        let leaves = order.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).collect();
        let mut rows = Rows { dimension, keys: vec![], vectors: vec![], fields: vec![], leaves };
        for (row, &(_, at)) in order.iter().enumerate() {
            let (centre, vector) = &vectors[at];
            // Ids in another order than rows.
            let id = (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 3;
            rows.keys.push(RowKey { id, version: row as u64 + 3, code: id >> 8, shard: 7 });
            rows.vectors.push(vector.clone());
            rows.fields.push(fields(&mut random, row, *centre, row >= n / 2));
        }
        rows
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn write(
        &self,
        store: &dyn Store,
        name: &str,
        settings: SegmentSettings,
    ) -> SegmentSummary {
        let mut writer = SegmentWriter::create_with_fields(store, name, settings).unwrap();
        let mut leaf = LeafRows::new(settings.element, self.dimension);
        let mut row = 0;
        for &rows in &self.leaves {
            leaf.clear();
            for at in row..row + rows {
                let mut vector = VectorBuffer::new(settings.element);
                let vector = vector.narrow(&self.vectors[at]);
                leaf.push(IndexRow {
                    key: self.keys[at],
                    vector,
                    fields: self.fields[at].fields(),
                });
            }
            writer.leaf(&leaf).unwrap();
            row += rows;
        }
        writer.finish().unwrap()
    }

    /// The rows for which a filter holds, by its definition.
    pub(crate) fn matching(&self, filter: &Filter) -> Vec<usize> {
        let holds =
            |&row: &usize| filter.holds(self.keys[row].id, self.fields[row].fields().attributes);
        (0..self.len()).filter(holds).collect()
    }
}

fn fields(random: &mut SplitMix, row: usize, centre: usize, is_late: bool) -> FieldsBuffer {
    let mut out = FieldsBuffer::default();
    let some = |random: &mut SplitMix, percent: usize| random.below(100) < percent;
    if !some(random, 3) {
        out.set_name(&format!("item-{row}-ü{}", random.below(9)), random.next() | 1);
    }
    if some(random, 90) {
        out.push(COLOUR, &ValueRef::Keyword(COLOURS[random.below(4).min(random.below(4))]));
    }
    if some(random, 95) {
        // Correlated with the vector.
        let word = format!("word{:02}", (centre * 7 + random.below(12)) % 100);
        out.push(WORD, &ValueRef::Keyword(&word));
    }
    out.push(SKU, &ValueRef::Keyword(&format!("{:08x}-{row:05}-sku", random.next() as u32)));
    if some(random, 70) {
        let tags: Vec<String> =
            (0..random.below(5)).map(|_| format!("t{}", random.below(30))).collect();
        out.push(TAGS, &ValueRef::Keywords(tags.iter().map(String::as_str).collect()));
    }
    if some(random, 99) {
        let price = [0.0, -0.0, -3.5, f64::from(random.unit()) * 100.0][random.below(12).min(3)];
        out.push(PRICE, &ValueRef::F64(price));
    }
    if some(random, 50) {
        let stock = [i64::MIN, i64::MAX, -1, random.below(200) as i64][random.below(30).min(3)];
        out.push(STOCK, &ValueRef::I64(stock));
    }
    out.push(AT, &ValueRef::Timestamp(1_700_000_000_000 + row as i64 * 1000));
    if some(random, 60) {
        out.push(SOLD, &ValueRef::Bool(random.below(4) == 0));
    }
    if some(random, 5) {
        out.push(BODY, &ValueRef::Text(&"long text ".repeat(random.below(40))));
    }
    if is_late && some(random, 20) {
        out.push(LATE, &ValueRef::Keyword("late"));
    }
    if some(random, 80) {
        let authors: Vec<String> = (0..1 + random.below(3))
            .map(|_| format!("author {:x}", random.below(20_000)))
            .collect();
        out.push(AUTHORS, &ValueRef::Keywords(authors.iter().map(String::as_str).collect()));
    }
    match random.below(20) {
        0 => out.set_payload(Some(&[])),
        1..=9 => out.set_payload(Some(format!("{{\"row\":{row},\"title\":\"x\"}}").as_bytes())),
        10 => {
            let bytes: Vec<u8> = (0..random.below(9000)).map(|_| random.next() as u8).collect();
            out.set_payload(Some(&bytes));
        }
        _ => {}
    }
    out
}

/// A random filter of at most `depth` levels.
pub(crate) fn filter(random: &mut SplitMix, rows: &Rows, depth: usize) -> Filter {
    if depth > 0 && random.below(3) > 0 {
        let parts = (0..random.below(4)).map(|_| filter(random, rows, depth - 1)).collect();
        return match random.below(5) {
            0 | 1 => Filter::And(parts),
            2 => Filter::Or(parts),
            3 => Filter::AtLeast(random.below(4), parts),
            _ => Filter::Not(Box::new(filter(random, rows, depth - 1))),
        };
    }
    if random.below(12) == 0 {
        let pick = |random: &mut SplitMix| match random.below(4) {
            0 => random.next(),
            _ => rows.keys[random.below(rows.len())].id,
        };
        let mut ids: Vec<u64> = (0..random.below(60)).map(|_| pick(random)).collect();
        ids.sort_unstable();
        return Filter::Ids(ids);
    }
    let columns =
        [COLOUR, WORD, SKU, TAGS, PRICE, STOCK, AT, SOLD, BODY, LATE, 11, AUTHORS, ABSENT];
    let column = columns[random.below(columns.len())];
    // Now and then a test of another kind than its column.
    let by = if random.below(12) == 0 { columns[random.below(columns.len())] } else { column };
    Filter::Attribute(column, test(random, rows, by))
}

fn test(random: &mut SplitMix, rows: &Rows, column: u16) -> Test {
    if random.below(8) == 0 {
        return Test::Exists;
    }
    let held = |random: &mut SplitMix| -> Vec<String> {
        let row = &rows.fields[random.below(rows.len())];
        match row.fields().attributes.get(column) {
            Some(ValueRef::Keyword(text)) => vec![text.to_owned()],
            Some(ValueRef::Keywords(texts)) => texts.iter().map(|&text| text.to_owned()).collect(),
            _ => vec!["no such word".to_owned()],
        }
    };
    let words = |random: &mut SplitMix, most: usize| {
        let mut words: Vec<String> = (0..random.below(most)).flat_map(|_| held(random)).collect();
        words.sort_unstable();
        words
    };
    match column {
        COLOUR | WORD | SKU | LATE | BODY => match random.below(3) {
            0 => {
                let word = held(random).remove(0);
                let chars = random.below(word.chars().count() + 1);
                Test::KeywordPrefix(word.chars().take(chars).collect())
            }
            _ => Test::KeywordIn(words(random, 9)),
        },
        TAGS | AUTHORS => match random.below(4) {
            0 => Test::IsEmpty,
            1 => Test::AllOf(words(random, 3)),
            _ => Test::AnyOf(words(random, 5)),
        },
        PRICE => match random.below(2) {
            0 => Test::F64In((0..random.below(4)).map(|_| number(random)).collect()),
            _ => Test::F64Range(range(random, number)),
        },
        SOLD => Test::Bool(random.below(2) == 0),
        AT => Test::I64Range(range(random, |random| {
            1_700_000_000_000 + 1000 * random.below(rows.len()) as i64
        })),
        _ => match random.below(2) {
            0 => {
                let mut xs: Vec<i64> = (0..random.below(9)).map(|_| whole(random)).collect();
                xs.sort_unstable();
                Test::I64In(xs)
            }
            _ => Test::I64Range(range(random, whole)),
        },
    }
}

fn number(random: &mut SplitMix) -> f64 {
    let odd = [0.0, -0.0, -3.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN];
    match random.below(3) {
        0 => odd[random.below(odd.len())],
        _ => f64::from(random.unit()) * 100.0,
    }
}

fn whole(random: &mut SplitMix) -> i64 {
    let odd = [i64::MIN, i64::MAX, -1, 0];
    match random.below(3) {
        0 => odd[random.below(odd.len())],
        _ => random.below(200) as i64,
    }
}

fn range<T>(random: &mut SplitMix, value: impl Fn(&mut SplitMix) -> T) -> Range<T> {
    let mut bound = || match random.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(value(random)),
        _ => Bound::Excluded(value(random)),
    };
    Range { from: bound(), to: bound() }
}

/// Writes a small segment with blocks of every kind.
pub(crate) fn small_segment(store: &dyn Store, name: &str, settings: SegmentSettings) -> Rows {
    let mut rows = Rows::random(77, 45, settings.dimension);
    for fields in &mut rows.fields {
        let short = fields.fields().payload.map(|bytes| bytes[..bytes.len().min(60)].to_vec());
        fields.set_payload(short.as_deref());
    }
    rows.write(store, name, settings);
    rows
}
