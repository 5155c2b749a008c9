//! Rows with fields, in the files of a snapshot and back.

use vstream_attribute::{AttributeKind, AttributesBuilder, Fields, IdKind, ValueRef};
use vstream_index::{RowKey, VectorRef};
use vstream_store::Memory;
use vstream_vector::{Element, Metric, SplitMix};

use super::*;

const DIMENSION: usize = 64;

/// Rows with a text id, some attributes and some payloads; every fourth has nothing but its id.
struct Drawn {
    schema: Schema,
    rows: u64,
}

impl RowSource for Drawn {
    fn for_each_row(&self, visit: &mut dyn FnMut(IndexRow<'_>)) -> Result<(), Error> {
        let (mut random, mut builder) = (SplitMix(9), AttributesBuilder::default());
        for id in 0..self.rows {
            let vector: Vec<f32> = (0..DIMENSION).map(|_| random.normal()).collect();
            let name = format!("row-{id}");
            builder.clear();
            let payload = vec![id as u8; random.below(3_000)];
            let mut payload = Some(payload.as_slice());
            if id % 4 == 0 {
                payload = None;
            } else {
                let price = ValueRef::F64(f64::from(random.normal()));
                builder.set(&self.schema, 0, &price)?;
                let tags = ["a", "b", "c"][..random.below(4)].to_vec();
                builder.set(&self.schema, 1, &ValueRef::Keywords(tags))?;
            }
            let fields = Fields { name: &name, check: !id, attributes: builder.build(), payload };
            let key = RowKey { id, version: id + 1, code: id << 4, shard: (id % 3) as u16 };
            visit(IndexRow { key, vector: VectorRef::F32(&vector), fields });
        }
        Ok(())
    }
}

fn drawn(rows: u64) -> (Drawn, Settings) {
    let attributes = [("price", AttributeKind::F64), ("tags", AttributeKind::Keywords)];
    let schema = Schema::new(attributes).expect("a schema");
    let schema = Schema { id: IdKind::String, ..schema };
    let settings = Settings::new(DIMENSION, Metric::L2, Element::F32);
    (Drawn { schema: schema.clone(), rows }, Settings { schema: Arc::new(schema), ..settings })
}

/// A row as bytes, to compare.
fn bytes_of(id: u64, vector: &[f32], fields: &Fields<'_>) -> Vec<u8> {
    let mut bytes = id.to_le_bytes().to_vec();
    vector.iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
    crate::field_bytes::put(fields, &mut bytes);
    bytes
}

#[test]
fn fields_are_read_as_they_were_written() {
    let (source, settings) = drawn(5_000);
    let store = FileStore::new(Arc::new(Memory::new()), Syncing::Off);
    let summary = write(&store, "", (&settings, false), (&source, &|_| true)).expect("written");
    assert_eq!((summary.rows, &summary.schema), (5_000, &settings.schema));
    assert_eq!(inspect_in(&store, "").as_ref(), Ok(&summary));
    let mut expected = std::collections::BTreeMap::new();
    let mut vector = vec![0.0; DIMENSION];
    source
        .for_each_row(&mut |row| {
            row.vector.read(&mut vector);
            expected.insert(row.key.id, bytes_of(row.key.id, &vector, &row.fields));
        })
        .expect("rows");
    read(&store, "", &settings, &mut |row, schema| {
        assert_eq!(schema, &settings.schema);
        let expected = expected.remove(&row.id).expect("a row that was written, once");
        assert_eq!(bytes_of(row.id, row.vector, &row.fields), expected, "row {}", row.id);
        Ok(())
    })
    .expect("read");
    assert!(expected.is_empty(), "{} rows are missing", expected.len());
}

#[test]
fn every_changed_byte_of_a_small_snapshot_is_noticed() {
    let (source, settings) = drawn(7);
    let store = FileStore::new(Arc::new(Memory::new()), Syncing::Off);
    write(&store, "", (&settings, false), (&source, &|_| true)).expect("written");
    for entry in store.list("").expect("files") {
        let file = store.open(&entry.name, vstream_store::Access::Cached).expect("a file");
        let whole = vstream_store::Range { offset: 0, bytes: entry.bytes as usize };
        let bytes = file.read(whole).expect("its bytes").to_vec();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            store.delete(&entry.name).expect("removed");
            store.put(&entry.name, &changed).expect("written");
            let read = read(&store, "", &settings, &mut |_, _| Ok(()));
            assert!(read.is_err(), "byte {at} of {}", entry.name);
        }
        store.delete(&entry.name).expect("removed");
        store.put(&entry.name, &bytes).expect("written");
    }
    read(&store, "", &settings, &mut |_, _| Ok(())).expect("as it was");
}

#[test]
fn a_collection_without_a_schema_has_the_format_that_it_had() {
    let (source, settings) = drawn(10);
    let plain = Settings { schema: Arc::default(), ..settings };
    let store = FileStore::new(Arc::new(Memory::new()), Syncing::Off);
    write(&store, "", (&plain, false), (&source, &|_| true)).expect("written");
    let row = 24 + DIMENSION * 4;
    for (name, rows) in [("shard-000.rows", 4), ("shard-001.rows", 3)] {
        let file = store.open(name, vstream_store::Access::Cached).expect("a file");
        assert_eq!(file.bytes(), (32 + rows * row + 24) as u64);
        let format = vstream_store::Range { offset: 8, bytes: 4 };
        assert_eq!(file.read(format).expect("its format")[..], [1, 0, 0, 0]);
    }
}
