//! Masks and summaries against `Filter::holds`, over random rows and filters.

use std::ops::Bound;
use std::sync::Arc;

use vstream_attribute::{
    Attribute, AttributeKind, Attributes, AttributesBuilder, Fields, FieldsBuffer, Filter, Range,
    Schema, Test, ValueRef,
};
use vstream_vector::{Element, SplitMix};

use super::{Check, Compiled, Counts, Lanes, Summaries, Words, PIECE};
use crate::rows::{
    Carrier, CodeCounts, Dictionary, IndexRow, RowChunk, RowKey, RowWriter, VectorRef,
};

const WORDS: [&str; 12] =
    ["", "a", "ab", "abc", "abd", "b", "red", "redder", "\u{e4}", "\u{e4}b", "zebra", "zz"];
/// A text that no row has.
const UNKNOWN: &str = "unknown";
const NUMBERS: [f64; 9] = [-0.0, 0.0, 1.5, -1.5, f64::MAX, f64::MIN, 5e-324, -3.0, 42.0];

fn schema(columns: usize, random: &mut SplitMix) -> Schema {
    let kind = |random: &mut SplitMix| AttributeKind::ALL[random.below(7)];
    let attributes =
        (0..columns).map(|at| Attribute { name: format!("a{at}"), kind: kind(random) }).collect();
    Schema { attributes, ..Schema::default() }
}

fn word(random: &mut SplitMix) -> &'static str {
    WORDS[random.below(WORDS.len())]
}

fn whole(random: &mut SplitMix) -> i64 {
    [i64::MIN, i64::MAX, -1, 0, 1, 2, 3, 1_000][random.below(8)]
}

fn set_row(schema: &Schema, random: &mut SplitMix, row: &mut AttributesBuilder) {
    row.clear();
    for (column, attribute) in schema.attributes.iter().enumerate() {
        if random.below(3) == 0 {
            continue;
        }
        let value = match attribute.kind {
            AttributeKind::Keyword => ValueRef::Keyword(word(random)),
            AttributeKind::Text => ValueRef::Text(word(random)),
            AttributeKind::Keywords => {
                ValueRef::Keywords((0..random.below(4)).map(|_| word(random)).collect())
            }
            AttributeKind::I64 => ValueRef::I64(whole(random)),
            AttributeKind::Timestamp => ValueRef::Timestamp(whole(random)),
            AttributeKind::F64 => ValueRef::F64(NUMBERS[random.below(NUMBERS.len())]),
            AttributeKind::Bool => ValueRef::Bool(random.below(2) == 0),
        };
        row.set(schema, column as u16, &value).expect("a value of the column's kind");
    }
}

fn range<T: Copy>(random: &mut SplitMix, mut value: impl FnMut(&mut SplitMix) -> T) -> Range<T> {
    let mut bound = |random: &mut SplitMix| match random.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(value(random)),
        _ => Bound::Excluded(value(random)),
    };
    Range { from: bound(random), to: bound(random) }
}

fn texts(random: &mut SplitMix) -> Vec<String> {
    let mut texts: Vec<String> = (0..random.below(11)).map(|_| word(random).to_owned()).collect();
    if random.below(4) == 0 {
        texts.push(UNKNOWN.to_owned());
    }
    texts.sort_unstable();
    texts.dedup();
    texts
}

fn test(random: &mut SplitMix) -> Test {
    match random.below(11) {
        0 => Test::Exists,
        1 => Test::KeywordIn(texts(random)),
        2 => Test::KeywordPrefix(word(random).to_owned()),
        3 => Test::AnyOf(texts(random)),
        4 => Test::AllOf(texts(random).into_iter().take(2).collect()),
        5 => Test::IsEmpty,
        6 => {
            let mut numbers: Vec<i64> = (0..random.below(3)).map(|_| whole(random)).collect();
            numbers.sort_unstable();
            Test::I64In(numbers)
        }
        7 => Test::I64Range(range(random, whole)),
        8 => {
            let any = |random: &mut SplitMix| [f64::NAN, 1.5, -0.0, 0.0, 7.0][random.below(5)];
            Test::F64In((0..random.below(3)).map(|_| any(random)).collect())
        }
        9 => {
            let ends = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.5, -2.0];
            Test::F64Range(range(random, |random| ends[random.below(ends.len())]))
        }
        _ => Test::Bool(random.below(2) == 0),
    }
}

fn filter(random: &mut SplitMix, depth: usize, columns: usize) -> Filter {
    let parts = |random: &mut SplitMix| {
        (0..random.below(4)).map(|_| filter(random, depth - 1, columns)).collect::<Vec<_>>()
    };
    match random.below(if depth == 0 { 2 } else { 6 }) {
        // One column more than there are.
        0 => Filter::Attribute(random.below(columns + 1) as u16, test(random)),
        1 => {
            let mut ids: Vec<u64> = (0..random.below(6)).map(|_| random.below(80) as u64).collect();
            ids.sort_unstable();
            Filter::Ids(ids)
        }
        2 => Filter::And(parts(random)),
        3 => Filter::Or(parts(random)),
        4 => Filter::AtLeast(random.below(4), parts(random)),
        _ => Filter::Not(Box::new(filter(random, depth - 1, columns))),
    }
}

fn push(rows: &mut RowWriter, carrier: &mut Carrier, id: u64, attributes: Attributes<'_>) {
    let key = RowKey { id, version: 1, code: 0, shard: 0 };
    let fields = Fields { attributes, ..Fields::NONE };
    rows.push(carrier, IndexRow { key, vector: VectorRef::F32(&[0.0]), fields }, 1);
}

/// Masks of the chunks of a run together are those of each.
fn check_masks(compiled: &Compiled, chunks: &[Arc<RowChunk>]) {
    let carried = chunks.iter().find_map(|chunk| chunk.carried());
    let words = Words {
        len: chunks.len(),
        rows: &|word| chunks.get(word).map(|chunk| &**chunk),
        carried: carried.map(|(carried, _)| (carried, 0)),
    };
    let mut masks = [7; PIECE];
    compiled.masks(&words, &mut masks);
    for (chunk, mask) in chunks.iter().zip(masks) {
        let published = chunk.published();
        assert_eq!(mask & published, compiled.mask(Lanes::of(chunk, 0)) & published);
    }
    assert!(masks[chunks.len()..].iter().all(|&mask| mask == 0));
}

#[test]
fn masks_summaries_and_counts_agree_with_the_definition() {
    for seed in 0..300 {
        println!("seed {seed}");
        let mut random = SplitMix(seed);
        let columns = 1 + random.below(6);
        let schema = schema(columns, &mut random);
        let dictionary = Arc::new(Dictionary::new());
        let mut carrier = Carrier::new(dictionary.clone());
        // Rows arrive in one chunk and move, in another order, to two chunks of a run.
        let rows = 1 + random.below(64);
        let mut first = RowWriter::new(Element::F32, 1, 64);
        let mut builder = AttributesBuilder::default();
        let mut held: Vec<Vec<u8>> = Vec::new();
        for id in 0..rows {
            set_row(&schema, &mut random, &mut builder);
            let attributes = builder.build();
            push(&mut first, &mut carrier, id as u64, attributes);
            held.push(attributes.bytes().to_vec());
        }
        let (summaries, living) = (Summaries::default(), CodeCounts::default());
        let load = crate::rows::Load::new(64);
        let mut moved = vec![RowWriter::in_run(Element::F32, 1, 32, load)];
        let mut chunks = vec![moved[0].chunk().clone()];
        for lane in (0..rows).rev() {
            if moved[0].is_full() {
                let load = moved.pop().expect("a chunk").into_load();
                moved.push(RowWriter::in_run(Element::F32, 1, 32, load));
                chunks.push(moved[0].chunk().clone());
            }
            let mut values = carrier.take_values();
            first.chunk().copy_values(lane, &dictionary, &mut values);
            summaries.widen(values.gained());
            values.codes().for_each(|code| living.raise(code));
            let row = (first.chunk().key(lane), first.chunk().vector(lane));
            moved[0].push_values(&mut carrier, row, &mut values, 2);
            carrier.give_back(values);
        }
        let attributes_of =
            |id: u64| Attributes::decode(&held[id as usize]).expect("attributes of a row");
        let mut buffer = FieldsBuffer::default();
        for chunk in chunks.iter().chain([first.chunk()]) {
            for lane in 0..chunk.len() {
                chunk.read_fields(lane, &mut buffer);
                assert_eq!(buffer.fields().attributes, attributes_of(chunk.id(lane)), "as written");
            }
        }
        for _ in 0..60 {
            let filter = filter(&mut random, 3, columns);
            let compiled = Compiled::new(&filter, &dictionary);
            let mut matches = 0;
            for chunk in &chunks {
                let mask = compiled.mask(Lanes::of(chunk, 0));
                for lane in 0..chunk.len() {
                    let id = chunk.id(lane);
                    let holds = filter.holds(id, attributes_of(id));
                    assert_eq!(mask >> lane & 1 == 1, holds, "row {id} and {filter:?}");
                    matches += u64::from(holds);
                }
            }
            check_masks(&compiled, &chunks);
            let sample = |_: &Compiled| matches as f64 / rows as f64;
            let counts = Counts { rows: rows as u64, living: &living, sample: &sample };
            let likely = compiled.likely_share(&counts);
            assert!((0.0..=1.0).contains(&likely), "{likely} for {filter:?}");
            let is_counted = match &compiled {
                Compiled::Nothing => true,
                Compiled::Column(column, Check::Keyword(_)) => {
                    schema.attributes[usize::from(*column)].kind == AttributeKind::Keyword
                }
                _ => false,
            };
            if is_counted {
                assert_eq!((likely * rows as f64).round() as u64, matches, "{filter:?}");
            }
            for word in 0..rows.div_ceil(32) {
                let mask = compiled.mask(Lanes::of(first.chunk(), word));
                for lane in word * 32..rows.min(word * 32 + 32) {
                    let holds = filter.holds(lane as u64, attributes_of(lane as u64));
                    assert_eq!(mask >> (lane % 32) & 1 == 1, holds, "row {lane} and {filter:?}");
                }
            }
            assert!(matches == 0 || summaries.may_match(&compiled), "{filter:?}");
            assert!(matches <= compiled.at_most(rows as u64, &living), "{filter:?}");
            if let Some(codes) = compiled.required(&|_| 1) {
                let has_one = |lane: usize| {
                    let mut has = false;
                    first.chunk().for_each_code(lane, |code| has |= codes.contains(&code));
                    has
                };
                for id in 0..rows {
                    let holds = filter.holds(id as u64, attributes_of(id as u64));
                    assert!(!holds || has_one(id), "row {id} and {filter:?}");
                }
            }
        }
        drop((chunks, moved));
        drop(first);
        assert!(dictionary.is_empty(), "no chunk is left, so no text is");
    }
}
