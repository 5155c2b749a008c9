//! Rows with attributes, and queries with filters, against brute force.

use std::collections::BTreeMap;

use vstream_attribute::{
    AttributeKind, AttributesBuilder, Fields, FieldsBuffer, Filter, PayloadChange, Range, Schema,
    Test, Update, ValueRef,
};
use vstream_vector::{Element, Metric, Neighbor, SplitMix, TopK};

use super::{clustered, fitted, hits, key, normalised, settings, Contract, Oracle, SEED};
use crate::{
    Effort, IndexRow, IndexSettings, IndexSnapshot, Insert, LeastIds, Outlook, Probe, Scratch,
    Search, VectorBuffer,
};

const ROWS: usize = 8_000;
const CLUSTERS: usize = 40;

/// Runs every check of rows with attributes. Panics with the kind's name and the check's on a failure.
pub fn check_filters(contract: &Contract) {
    for (metric, element, dimension) in [
        (Metric::L2, Element::F32, 64),
        (Metric::Cosine, Element::F16, 96),
        (Metric::InnerProduct, Element::F32, 64),
        (Metric::L2, Element::U8, 64),
    ] {
        println!("{}: filters, {metric} of {element}, seed {SEED}", contract.name);
        Filtered::new(contract, settings(dimension, metric, element)).run();
    }
}

/// The attributes of [`schema`], by column.
const TOPIC: u16 = 0;
const RARE: u16 = 1;
const NUMBER: u16 = 2;
const PRICE: u16 = 3;
const FLAG: u16 = 4;
const TAGS: u16 = 5;

fn schema() -> Schema {
    Schema::new([
        ("topic", AttributeKind::Keyword),
        ("rare", AttributeKind::Keyword),
        ("number", AttributeKind::I64),
        ("price", AttributeKind::F64),
        ("flag", AttributeKind::Bool),
        ("tags", AttributeKind::Keywords),
        ("body", AttributeKind::Text),
    ])
    .expect("a schema")
}

/// Filters that half, a tenth, a hundredth, a thousandth of the rows match, correlated with the vectors
/// (topic) and not, and combinations.
fn filters() -> Vec<Filter> {
    let is = |column, text: &str| Filter::Attribute(column, Test::KeywordIn(vec![text.to_owned()]));
    let below = |most: i64| {
        let (from, to) = (std::ops::Bound::Unbounded, std::ops::Bound::Excluded(most));
        Filter::Attribute(NUMBER, Test::I64Range(Range { from, to }))
    };
    let topics = |count: usize| {
        let mut topics: Vec<String> = (0..count).map(|topic| format!("t{topic}")).collect();
        topics.sort_unstable();
        Filter::Attribute(TOPIC, Test::KeywordIn(topics))
    };
    let at_least = std::ops::Bound::Included(0.5);
    let price = Range { from: at_least, to: std::ops::Bound::Unbounded };
    vec![
        below(500),
        below(100),
        below(10),
        below(1),
        topics(CLUSTERS / 2),
        topics(CLUSTERS / 10),
        is(RARE, "r77"),
        is(RARE, "nobody has it"),
        Filter::Attribute(RARE, Test::KeywordPrefix("r1".to_owned())),
        Filter::And(vec![topics(4), below(100)]),
        Filter::And(vec![is(RARE, "r5"), Filter::Attribute(FLAG, Test::Bool(true))]),
        Filter::Or(vec![is(RARE, "r5"), is(RARE, "r6"), is(TOPIC, "t3")]),
        Filter::Not(Box::new(topics(CLUSTERS - 2))),
        Filter::Not(Box::new(Filter::Attribute(PRICE, Test::Exists))),
        Filter::Attribute(PRICE, Test::F64Range(price)),
        Filter::Attribute(TAGS, Test::AllOf(vec!["even".to_owned(), "three".to_owned()])),
        Filter::AtLeast(2, vec![below(300), topics(10), Filter::Ids((0..900).collect())]),
        Filter::Ids((0..3_000).step_by(37).collect()),
    ]
}

struct Filtered<'a> {
    contract: &'a Contract,
    settings: IndexSettings,
    random: SplitMix,
    index: Box<dyn Insert>,
    oracle: Oracle,
    /// What each living row carries.
    fields: BTreeMap<u64, FieldsBuffer>,
    vectors: Vec<f32>,
    builder: AttributesBuilder,
    schema: Schema,
    scratch: Scratch,
}

impl<'a> Filtered<'a> {
    fn new(contract: &'a Contract, settings: IndexSettings) -> Filtered<'a> {
        let mut random = SplitMix(SEED);
        let dimension = settings.dimension;
        let vectors = fitted(settings.element, clustered(&mut random, ROWS, dimension, CLUSTERS));
        let vectors = normalised(settings.metric, vectors, dimension);
        Filtered {
            contract,
            settings,
            random,
            index: (contract.make)(settings),
            oracle: Oracle::new(settings.metric),
            fields: BTreeMap::new(),
            vectors,
            builder: AttributesBuilder::default(),
            schema: schema(),
            scratch: Scratch::new(),
        }
    }

    fn vector(&self, at: usize) -> &[f32] {
        &self.vectors[at * self.settings.dimension..][..self.settings.dimension]
    }

    /// New fields for a row; some rows carry nothing. The topic follows the vector's first number.
    fn draw(&mut self, at: usize) -> FieldsBuffer {
        let mut held = FieldsBuffer::default();
        if self.random.below(20) == 0 {
            return held;
        }
        let topic = (self.vector(at)[0] * 7.0).abs() as usize % CLUSTERS;
        let random = &mut self.random;
        let number = random.below(1_000) as i64;
        let (topic, rare) = (format!("t{topic}"), format!("r{}", random.below(400)));
        let price = (random.below(4) > 0).then(|| f64::from(random.normal()));
        let flag = random.below(2) == 0;
        let mut tags = Vec::new();
        tags.extend((number % 2 == 0).then_some("even"));
        tags.extend((number % 3 == 0).then_some("three"));
        let body = format!("a text of {number}");
        let builder = &mut self.builder;
        builder.clear();
        let mut set = |column: u16, value: ValueRef<'_>| {
            builder.set(&self.schema, column, &value).expect("a value of the column's kind");
        };
        set(TOPIC, ValueRef::Keyword(&topic));
        set(RARE, ValueRef::Keyword(&rare));
        set(NUMBER, ValueRef::I64(number));
        if let Some(price) = price {
            set(PRICE, ValueRef::F64(price));
        }
        set(FLAG, ValueRef::Bool(flag));
        set(TAGS, ValueRef::Keywords(tags));
        set(TAGS + 1, ValueRef::Text(&body));
        let name = format!("row {at}");
        let payload = body.as_bytes();
        let attributes = builder.build();
        held.set(Fields { name: &name, check: number as u64, attributes, payload: Some(payload) });
        held
    }

    fn run(mut self) {
        let mut narrowed = VectorBuffer::new(self.settings.element);
        for step in 0..2 * ROWS as u64 {
            let id = self.random.below(ROWS) as u64;
            let at = self.random.below(ROWS);
            let fields = self.draw(at);
            match self.random.below(10) {
                0 => {
                    assert_eq!(self.index.delete(id, step), self.oracle.delete(id, step));
                    self.fields.remove(&id);
                }
                1 => self.change(id, step, &fields),
                2 => {
                    let there = self.index.replace_fields(id, step, fields.fields());
                    assert_eq!(there, self.oracle.touch(id, step), "{}", self.contract.name);
                    if there {
                        self.fields.insert(id, fields);
                    }
                }
                _ => {
                    narrowed.narrow(
                        &self.vectors[at * self.settings.dimension..][..self.settings.dimension],
                    );
                    let (key, vector) = (key(id, step), narrowed.vector());
                    let row = IndexRow { key, vector, fields: fields.fields() };
                    let applied = self.index.upsert_over(row, &mut |_| {});
                    assert_eq!(applied, self.oracle.upsert(id, step, &narrowed));
                    self.fields.insert(id, fields);
                }
            }
            if step % 2_000 == 1_999 {
                self.check_filters();
            }
        }
        self.check_rows();
    }

    /// Sets some of these attributes, removes others, and keeps the rest of the row.
    fn change(&mut self, id: u64, step: u64, fields: &FieldsBuffer) {
        let fields = fields.fields();
        let pick = self.random.next();
        self.builder.clear();
        for (column, value) in fields.attributes.iter().filter(|(at, _)| pick >> at & 1 == 1) {
            self.builder.set(&self.schema, column, &value).expect("a value of the column's kind");
        }
        let unset: Vec<u16> = (0..=TAGS + 1).filter(|at| pick >> (at + 16) & 3 == 1).collect();
        let payload = match pick >> 60 & 3 {
            0 => PayloadChange::Set(fields.payload.unwrap_or_default()),
            1 => PayloadChange::Remove,
            _ => PayloadChange::Keep,
        };
        let update = Update { set: self.builder.build(), unset: &unset, payload };
        let outlook = self.index.outlook(id, &update);
        let version = self.index.version_of(id);
        let there = self.index.change_fields(id, step, &update);
        assert_eq!(there, self.oracle.touch(id, step), "{}", self.contract.name);
        assert_eq!(outlook.is_some(), there);
        if let Some(held) = self.fields.get_mut(&id) {
            let check = held.fields().check;
            let version = version.expect("a row with an outlook");
            assert_eq!(outlook, Some(Outlook { version, check, fits: true }));
            let mut merged = AttributesBuilder::default();
            let after = FieldsBuffer::from(&update.apply(held.fields(), &mut merged));
            *held = after;
        }
    }

    /// Every row shows what it carries, by walk and by id.
    fn check_rows(&mut self) {
        let mut seen = BTreeMap::new();
        self.index.reader().for_each_row(&mut |row| {
            let mut held = FieldsBuffer::default();
            held.set(row.fields);
            assert!(seen.insert(row.key.id, held).is_none(), "a row twice");
        });
        assert_eq!(seen, self.fields, "{}: what rows carry", self.contract.name);
        let mut held = FieldsBuffer::default();
        for (id, fields) in &self.fields {
            assert!(self.index.fields_of(*id, &mut held));
            assert_eq!(held, *fields);
        }
        assert!(!self.index.fields_of(u64::MAX, &mut held));
    }

    fn check_filters(&mut self) {
        let reader = self.index.reader();
        for filter in filters() {
            let matching: Vec<u64> = (self.fields.iter())
                .filter(|(id, held)| filter.holds(**id, held.fields().attributes))
                .map(|(&id, _)| id)
                .collect();
            let snapshot = reader.snapshot(None);
            let mut shown = Vec::new();
            let Ok(()) = snapshot.for_each_match(Some(&filter), &mut |key| shown.push(key.id));
            shown.sort_unstable();
            assert_eq!(shown, matching, "{}: {filter:?}", self.contract.name);
            self.check_pages(&*snapshot, &filter, &matching);
            let Ok(most) = snapshot.select(Some(&filter), &mut self.scratch);
            assert!(most >= matching.len() as u64, "{most} for {filter:?}");
            let query = self.vector(self.random.0 as usize % ROWS).to_vec();
            self.random.next();
            let mut truth = self.oracle.search(&query, ROWS);
            truth.retain(|row| matching.binary_search(&row.id).is_ok());
            self.check_sweep(&*snapshot, most, &query, &truth);
            self.check_answers(&*reader, &filter, &query, &truth);
        }
    }

    /// The least ids of a moment, above some id of it.
    fn check_pages(&mut self, snapshot: &dyn IndexSnapshot, filter: &Filter, matching: &[u64]) {
        let all: Vec<u64> = self.fields.keys().copied().collect();
        let after = all[self.random.below(all.len())];
        for (filter, ids) in [(Some(filter), matching), (None, &all)] {
            for after in [None, Some(after)] {
                let mut least = LeastIds::new(after, 100);
                snapshot.least_ids(filter, &mut least);
                let rest = &ids[ids.partition_point(|&id| after.is_some_and(|last| id <= last))..];
                let page = &rest[..rest.len().min(100)];
                let next = page.last().copied().filter(|_| page.len() < rest.len());
                assert_eq!(least.finish(), (page.to_vec(), next), "{}", self.contract.name);
            }
        }
    }

    /// A sweep of the filter that was selected last finds the nearest of all matches, or says that there
    /// are too many and leaves the answer as it is.
    fn check_sweep(
        &mut self,
        snapshot: &dyn IndexSnapshot,
        most: u64,
        query: &[f32],
        truth: &[Neighbor],
    ) {
        let name = self.contract.name;
        assert!(snapshot.likely(most, &mut self.scratch) <= most, "{name}: more than the bound");
        let mut top = TopK::new(10);
        let Ok(swept) = snapshot.sweep(query, u64::MAX, &mut self.scratch, &mut top);
        let Some(work) = swept else { return };
        assert_eq!(work.exact, truth.len(), "{name}: matches");
        let mut answer = Vec::new();
        top.drain_sorted(&mut answer);
        assert_eq!(answer.len(), truth.len().min(10), "{name}");
        assert_eq!(hits(&truth[..answer.len()], &answer), answer.len(), "{name}");
        // More than what may be in no leaf.
        if truth.len() >= 64 {
            top.reset(10);
            let few = truth.len() as u64 / 4;
            let Ok(swept) = snapshot.sweep(query, few, &mut self.scratch, &mut top);
            assert!(swept.is_none() && top.is_empty(), "{name}: more matches than wanted");
        }
    }

    /// Exact, thorough and approximate answers to a query, whose matching rows are `truth`.
    fn check_answers(
        &mut self,
        reader: &dyn Search,
        filter: &Filter,
        query: &[f32],
        truth: &[Neighbor],
    ) {
        let name = self.contract.name;
        let k = 10;
        let nearest = &truth[..truth.len().min(k)];
        for effort in [Effort::Exact, Effort::Thorough { depth: 0 }, self.contract.effort] {
            let mut top = TopK::new(k);
            let probe = Probe { vector: query, k, effort, filter: Some(filter) };
            reader.search(&probe, &mut self.scratch, &mut top);
            let mut answer = Vec::new();
            top.drain_sorted(&mut answer);
            assert_eq!(answer.len(), nearest.len(), "{name}: {effort:?}, {filter:?}");
            self.oracle.check_sound(query, k, &answer);
            let is_match =
                |row: &Neighbor| truth.iter().any(|t| (t.id, t.version) == (row.id, row.version));
            assert!(answer.iter().all(is_match), "{name}: a row that does not match {filter:?}");
            if effort == Effort::Exact {
                assert_eq!(hits(nearest, &answer), nearest.len(), "{name}: {filter:?}");
            }
            let mut read = 0;
            reader.snapshot(None).read_rows(&answer, &mut self.scratch, &mut |at, row| {
                let id = answer[at].id;
                assert_eq!(row.fields, self.fields[&id].fields());
                assert_eq!(row.vector, self.oracle.rows[&id].1.vector());
                read += 1;
            });
            assert_eq!(read, answer.len(), "{name}: fields of an answer");
            let mut ids: Vec<u64> = answer.iter().map(|row| row.id).collect();
            // One that no row has.
            ids.push(u64::MAX);
            let mut read = vec![0; ids.len()];
            reader.snapshot(None).read_ids(&ids, &mut |at, row| {
                assert_eq!(row.key.id, ids[at]);
                assert_eq!(row.fields, self.fields[&ids[at]].fields());
                assert_eq!(row.vector, self.oracle.rows[&ids[at]].1.vector());
                read[at] += 1;
            });
            let once = |(at, &times): (usize, &i32)| times == i32::from(at < answer.len());
            assert!(read.iter().enumerate().all(once), "{name}: rows of ids: {read:?}");
        }
        if let Some(last) = nearest.last() {
            let mut near = Vec::new();
            reader.search_radius(query, last.distance, Some(filter), &mut near);
            near.sort_by(Neighbor::order);
            let within = truth.iter().filter(|row| row.distance <= last.distance);
            assert_eq!(near, within.copied().collect::<Vec<_>>(), "{name}: radius, {filter:?}");
        }
    }
}
