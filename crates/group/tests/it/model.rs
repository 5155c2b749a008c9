//! The oracle: groups as maps, searched by brute force.

use std::collections::BTreeMap;

use vstream_attribute::{AttributeKind, Attributes, AttributesBuilder, Filter, Schema, ValueRef};
use vstream_group::{
    Applied, Condition, GroupAnswer, GroupSettings, GroupStore, IfVersion, PayloadChange, RowRef,
    Update,
};
use vstream_store::{FileStore, Memory, Syncing};
use vstream_vector::{kernels, with_number, Element, Metric, Neighbor, Number, SplitMix, Widen};

/// A row of the oracle.
#[derive(Clone, Debug)]
pub struct ModelRow {
    /// As stored: normalised and rounded.
    pub vector: Vec<f32>,
    pub attributes: Vec<u8>,
    pub payload: Option<Vec<u8>>,
}

/// A change of a row without its vector.
#[derive(Clone, Debug)]
pub struct Change {
    pub price: i64,
    /// A column whose value goes.
    pub unset: u16,
    /// An empty one is removed.
    pub payload: Option<Vec<u8>>,
}

impl Change {
    /// Calls `apply` with the change as the store takes it.
    pub fn with<T>(&self, apply: impl FnOnce(&Update<'_>) -> T) -> T {
        let mut builder = AttributesBuilder::default();
        builder.set(&schema(), 0, &ValueRef::I64(self.price)).unwrap();
        let payload = match self.payload.as_deref() {
            None => PayloadChange::Keep,
            Some([]) => PayloadChange::Remove,
            Some(payload) => PayloadChange::Set(payload),
        };
        apply(&Update { set: builder.build(), unset: &[self.unset], payload })
    }
}

type Rows = BTreeMap<u64, (u64, Option<ModelRow>)>;

/// What the store should hold.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub groups: BTreeMap<String, Rows>,
}

impl Model {
    pub fn put(&mut self, group: &str, id: u64, version: u64, row: Option<ModelRow>) {
        let rows = self.groups.entry(group.to_owned()).or_default();
        if rows.get(&id).is_none_or(|(known, _)| *known <= version) {
            rows.insert(id, (version, row));
        }
    }

    pub fn drop_group(&mut self, group: &str) {
        self.groups.remove(group);
    }

    /// Changes what a row carries. False if there is none, or a newer one.
    pub fn update(&mut self, group: &str, id: u64, version: u64, change: &Change) -> bool {
        let rows = self.groups.get_mut(group).and_then(|rows| rows.get_mut(&id));
        let Some((known, Some(row))) = rows.filter(|(known, _)| *known <= version) else {
            return false;
        };
        *known = version;
        let mut builder = AttributesBuilder::default();
        builder.set_all(Attributes::decode(&row.attributes).unwrap());
        builder.unset(change.unset);
        builder.set(&schema(), 0, &ValueRef::I64(change.price)).unwrap();
        row.attributes = builder.build().bytes().to_vec();
        match &change.payload {
            Some(payload) if payload.is_empty() => row.payload = None,
            Some(payload) => row.payload = Some(payload.clone()),
            None => {}
        }
        true
    }

    /// Living rows by id.
    pub fn rows(&self, group: &str) -> impl Iterator<Item = (u64, u64, &ModelRow)> {
        let rows = self.groups.get(group).into_iter().flatten();
        rows.filter_map(|(id, (version, row))| Some((*id, *version, row.as_ref()?)))
    }

    /// Living rows that a filter allows.
    pub fn passing<'a>(
        &'a self,
        group: &str,
        filter: Option<&'a Filter>,
    ) -> impl Iterator<Item = (u64, u64, &'a ModelRow)> {
        self.rows(group).filter(move |(id, _, row)| {
            let attributes = Attributes::decode(&row.attributes).unwrap();
            filter.is_none_or(|filter| filter.holds(*id, attributes))
        })
    }

    pub fn search(
        &self,
        group: &str,
        settings: &GroupSettings,
        query: &[f32],
        k: usize,
        filter: Option<&Filter>,
    ) -> Vec<Neighbor> {
        let query = direction(settings.metric, query);
        let neighbor = |(id, version, row): (u64, u64, &ModelRow)| {
            let distance = match settings.metric {
                Metric::L2 => kernels::l2_squared(&query, &row.vector),
                Metric::Cosine => 1.0 - kernels::inner_product(&query, &row.vector),
                Metric::InnerProduct => -kernels::inner_product(&query, &row.vector),
            };
            Neighbor { distance, id, version }
        };
        let mut all: Vec<Neighbor> = self.passing(group, filter).map(neighbor).collect();
        all.sort_by(Neighbor::order);
        all.truncate(k);
        all
    }
}

fn direction(metric: Metric, vector: &[f32]) -> Vec<f32> {
    if metric != Metric::Cosine {
        return vector.to_vec();
    }
    let norm = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    vector.iter().map(|&x| (f64::from(x) / norm) as f32).collect()
}

/// A vector as the store keeps it.
pub fn stored(settings: &GroupSettings, vector: &[f32]) -> Vec<f32> {
    let vector = direction(settings.metric, vector);
    with_number!(settings.element, N => vector.iter().map(|&x| N::narrow(x).widen()).collect())
}

/// The schema of the tests: a price, a colour, a flag.
pub fn schema() -> Schema {
    let attributes = [
        ("price", AttributeKind::I64),
        ("colour", AttributeKind::Keyword),
        ("sold", AttributeKind::Bool),
    ];
    Schema::new(attributes).unwrap()
}

/// The same with a moment and two texts.
pub fn schema_with_texts() -> Schema {
    let mut schema = schema();
    schema.add("sent", AttributeKind::Timestamp).unwrap();
    schema.add("subject", AttributeKind::Text).unwrap();
    schema.add("body", AttributeKind::Text).unwrap();
    schema
}

/// The time of queries by freshness.
pub const NOW_MS: i64 = 1_700_000_000_000;

const WORDS: [&str; 12] = [
    "meeting", "invoice", "invite", "red", "car", "offer", "price", "spam", "holiday", "Über",
    "東京", "don't",
];

pub const COLOURS: [&str; 4] = ["red", "green", "blue", "black"];

/// Draws vectors with the spectrum of text embeddings, around topics.
pub struct Draw {
    pub random: SplitMix,
    settings: GroupSettings,
    topics: Vec<Vec<f32>>,
}

impl Draw {
    pub fn new(settings: &GroupSettings, seed: u64) -> Draw {
        let mut random = SplitMix(seed);
        let mut topic = || (0..settings.dimension).map(|_| random.normal()).collect();
        let topics = (0..20).map(|_| topic()).collect();
        Draw { random, settings: settings.clone(), topics }
    }

    pub fn vector(&mut self) -> Vec<f32> {
        let topic = &self.topics[self.random.below(self.topics.len())];
        let random = &mut self.random;
        let number = |(at, x): (usize, &f32)| {
            let spread = (8.0 / (at + 8) as f32).sqrt();
            spread * (x + random.normal())
        };
        let vector: Vec<f32> = topic.iter().enumerate().map(number).collect();
        match self.settings.element {
            Element::U8 => {
                vector.iter().map(|x| (x * 30.0 + 128.0).round().clamp(0.0, 255.0)).collect()
            }
            Element::I8 => vector.iter().map(|x| (x * 30.0).round().clamp(-128.0, 127.0)).collect(),
            _ => vector,
        }
    }

    fn texts(&mut self, schema: &Schema, builder: &mut AttributesBuilder) {
        if self.random.below(8) > 0 {
            let sent = NOW_MS - self.random.below(200_000_000) as i64;
            builder.set(schema, 3, &ValueRef::Timestamp(sent)).unwrap();
        }
        for (column, words) in [(4, 4), (5, 40)] {
            let count = self.random.below(2 * words);
            let word = |_| {
                // Low numbers are frequent words.
                let number = self.random.below(WORDS.len()).min(self.random.below(WORDS.len()));
                WORDS[number]
            };
            let text = (0..count).map(word).collect::<Vec<_>>().join(" ");
            if count > 0 {
                builder.set(schema, column, &ValueRef::Text(&text)).unwrap();
            }
        }
    }

    pub fn change(&mut self) -> Change {
        let payload = match self.random.below(4) {
            0 => Some(Vec::new()),
            1 => Some(vec![7; 1 + self.random.below(300)]),
            _ => None,
        };
        let price = self.random.below(100) as i64;
        Change { price, unset: 1 + self.random.below(2) as u16, payload }
    }

    pub fn row(&mut self) -> (Vec<f32>, ModelRow) {
        let vector = self.vector();
        let schema = self.settings.schema.clone();
        let mut builder = AttributesBuilder::default();
        if self.random.below(10) > 0 {
            let price = self.random.below(100) as i64;
            builder.set(&schema, 0, &ValueRef::I64(price)).unwrap();
            let colour = COLOURS[self.random.below(COLOURS.len())];
            builder.set(&schema, 1, &ValueRef::Keyword(colour)).unwrap();
            builder.set(&schema, 2, &ValueRef::Bool(self.random.below(2) == 0)).unwrap();
        }
        if schema.attributes.len() > 3 {
            self.texts(&schema, &mut builder);
        }
        let attributes = builder.build().bytes().to_vec();
        let payload = (self.random.below(3) == 0)
            .then(|| format!("letter {}", self.random.next()).into_bytes());
        let row = ModelRow { vector: stored(&self.settings, &vector), attributes, payload };
        (vector, row)
    }
}

/// A store beside its oracle.
pub struct Pair {
    pub files: Memory,
    pub store: GroupStore,
    pub model: Model,
    pub draw: Draw,
    pub version: u64,
}

impl Pair {
    pub fn new(settings: GroupSettings, seed: u64) -> Pair {
        Pair::with(GroupSettings { schema: schema(), seed: Some(seed), ..settings }, seed)
    }

    /// A store whose rows have texts and moments as well.
    pub fn with_texts(settings: GroupSettings, seed: u64) -> Pair {
        let schema = schema_with_texts();
        Pair::with(GroupSettings { schema, seed: Some(seed), ..settings }, seed)
    }

    fn with(settings: GroupSettings, seed: u64) -> Pair {
        let files = Memory::new();
        let store = open(&files, &settings);
        let draw = Draw::new(&settings, seed);
        Pair { files, store, model: Model::default(), draw, version: 0 }
    }

    pub fn upsert(&mut self, group: &str, id: u64) {
        self.version += 1;
        self.upsert_as(group, id, self.version);
    }

    pub fn upsert_as(&mut self, group: &str, id: u64, version: u64) {
        let (vector, row) = self.draw.row();
        let fields = vstream_attribute::Fields {
            attributes: Attributes::decode(&row.attributes).unwrap(),
            payload: row.payload.as_deref(),
            ..vstream_attribute::Fields::NONE
        };
        self.store.upsert(group, &RowRef { id, version, vector: &vector, fields }).unwrap();
        self.model.put(group, id, version, Some(row));
    }

    pub fn delete(&mut self, group: &str, id: u64) {
        self.version += 1;
        self.store.delete(group, id, self.version).unwrap();
        self.model.put(group, id, self.version, None);
    }

    /// Changes a row without its vector, if there is one.
    pub fn update(&mut self, group: &str, id: u64) {
        self.version += 1;
        let change = self.draw.change();
        let store = &mut self.store;
        let applied = change.with(|update| store.update(group, id, self.version, update)).unwrap();
        let is_there = self.model.update(group, id, self.version, &change);
        let wanted = if is_there { Applied::Replaced } else { Applied::Missing };
        assert_eq!(applied, wanted, "update of {id} in {group}");
    }

    /// Writes a row if the one that is there is cheap, or has some version.
    pub fn upsert_if(&mut self, group: &str, id: u64) {
        self.version += 1;
        let (vector, row) = self.draw.row();
        let there = self.model.groups.get(group).and_then(|rows| rows.get(&id)).cloned();
        let living = there.and_then(|(version, row)| Some((version, row?)));
        let cheap = cheap();
        let condition = match self.draw.random.below(5) {
            0 => Condition { version: IfVersion::Absent, ..Condition::default() },
            1 => Condition { version: IfVersion::Present, ..Condition::default() },
            2 => Condition { version: IfVersion::Is(self.version / 2), ..Condition::default() },
            3 => {
                let version = living.as_ref().map_or(0, |(version, _)| *version);
                Condition { version: IfVersion::Is(version), filter: Some(&cheap) }
            }
            _ => Condition { filter: Some(&cheap), ..Condition::default() },
        };
        let is_version = match condition.version {
            IfVersion::Any => true,
            IfVersion::Absent => living.is_none(),
            IfVersion::Present => living.is_some(),
            IfVersion::Is(wanted) => living.as_ref().is_some_and(|(found, _)| *found == wanted),
        };
        let passes = living.as_ref().is_none_or(|(_, row)| {
            let attributes = Attributes::decode(&row.attributes).unwrap();
            condition.filter.is_none_or(|filter| filter.holds(id, attributes))
        });
        let wanted = match (is_version && passes, &living) {
            (false, _) => Applied::ConditionFailed,
            (true, None) => Applied::Inserted,
            (true, Some(_)) => Applied::Replaced,
        };
        let fields = vstream_attribute::Fields {
            attributes: Attributes::decode(&row.attributes).unwrap(),
            payload: row.payload.as_deref(),
            ..vstream_attribute::Fields::NONE
        };
        let new = RowRef { id, version: self.version, vector: &vector, fields };
        assert_eq!(self.store.upsert_if(group, &new, &condition).unwrap(), wanted, "{condition:?}");
        if wanted.is_applied() {
            self.model.put(group, id, self.version, Some(row));
        }
    }

    /// Deletes the cheap rows of a group.
    pub fn delete_where(&mut self, group: &str) {
        self.version += 1;
        let cheap = cheap();
        let ids: Vec<u64> = self.model.passing(group, Some(&cheap)).map(|(id, _, _)| id).collect();
        let deleted = self.store.delete_where(group, &cheap, self.version).unwrap();
        assert_eq!(deleted, ids.len() as u64, "cheap rows of {group}");
        ids.iter().for_each(|id| self.model.put(group, *id, self.version, None));
    }

    pub fn drop_group(&mut self, group: &str) {
        self.store.drop_group(group).unwrap();
        self.model.drop_group(group);
    }

    /// Closes the store, whose files stay, and opens it again.
    pub fn reopen(&mut self) {
        let settings = self.store.settings().clone();
        self.store = open(&self.files, &settings);
    }
}

/// Rows of a low price.
fn cheap() -> Filter {
    let to = std::ops::Bound::Excluded(20);
    let range = vstream_attribute::Range { from: std::ops::Bound::Unbounded, to };
    Filter::Attribute(0, vstream_attribute::Test::I64Range(range))
}

pub fn open(files: &Memory, settings: &GroupSettings) -> GroupStore {
    let store = FileStore::new(std::sync::Arc::new(files.clone()), Syncing::Full);
    GroupStore::open(store, settings.clone()).unwrap()
}

/// The rows of an answer by distance.
pub fn neighbors(answer: &GroupAnswer) -> Vec<Neighbor> {
    let neighbor = |hit: &vstream_group::GroupHit| Neighbor {
        distance: hit.distance.expect("a distance"),
        id: hit.row.id,
        version: hit.row.version,
    };
    answer.rows.iter().map(neighbor).collect()
}
