//! The process dies in any of its calls to the file system: what was committed is there, and beyond
//! it a beginning of what was written.

use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::Arc;

use vstream_group::{Error, GroupSettings, GroupStore, OwnedRow, RowRef, With};
use vstream_store::{Access, FileStore, Files, InFile, Memory, OutFile, Syncing};
use vstream_vector::{Element, Metric};

use crate::model::{open, schema, Draw, Model, ModelRow};

/// A directory whose changes fail from some call on; that call is done by half.
struct Dying {
    files: Memory,
    left: Arc<AtomicI64>,
}

fn dead() -> io::Error {
    io::Error::other("the process is dead")
}

impl Dying {
    fn step(&self) -> io::Result<()> {
        step(&self.left)
    }
}

fn step(left: &AtomicI64) -> io::Result<()> {
    if left.fetch_sub(1, Ordering::Relaxed) > 0 {
        Ok(())
    } else {
        Err(dead())
    }
}

struct DyingFile {
    file: Box<dyn OutFile>,
    left: Arc<AtomicI64>,
}

impl OutFile for DyingFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(error) = step(&self.left) {
            if self.left.load(Ordering::Relaxed) == -1 {
                self.file.append(&bytes[..bytes.len() / 2])?;
            }
            return Err(error);
        }
        self.file.append(bytes)
    }

    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        step(&self.left)?;
        self.file.overwrite(offset, bytes)
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        step(&self.left)?;
        self.file.cut(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        step(&self.left)?;
        self.file.sync()
    }
}

impl Files for Dying {
    fn create(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        self.step()?;
        Ok(Box::new(DyingFile { file: self.files.create(name)?, left: self.left.clone() }))
    }

    fn reopen(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        self.step()?;
        Ok(Box::new(DyingFile { file: self.files.reopen(name)?, left: self.left.clone() }))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn InFile>> {
        self.files.open(name, access)
    }

    fn rename(&self, from: &str, to: &str, replace: bool) -> io::Result<()> {
        self.step()?;
        self.files.rename(from, to, replace)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.step()?;
        self.files.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.step()?;
        self.files.sync_names()
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.files.list()
    }
}

fn settings() -> GroupSettings {
    GroupSettings {
        schema: schema(),
        coded_rows: 8,
        fanout: 2,
        seed: Some(5),
        ..GroupSettings::new(64, Metric::L2, Element::F32)
    }
}

const GROUPS: [&str; 3] = ["ann", "ben", "cat"];

/// Writes until the end or the first error. `moments` gets the oracle after every write; returns how
/// many of them are certainly on the disk.
fn write(store: FileStore, moments: &mut Vec<Model>) -> Result<usize, (usize, Error)> {
    let mut durable = 1;
    let run = || -> Result<(), Error> {
        let mut store = GroupStore::open(store, settings())?;
        let mut draw = Draw::new(&settings(), 5);
        for number in 0..160u64 {
            let mut model = moments.last().expect("a moment").clone();
            let (group, id) = (GROUPS[number as usize % 3], number * 7 % 31);
            let ((vector, row), change) = (draw.row(), draw.change());
            // The write may reach the log although its call fails, so the moment comes first.
            match number % 40 {
                13 => model.drop_group(group),
                n if n % 5 == 4 => model.put(group, id, number, None),
                n if n % 5 == 2 => drop(model.update(group, id, number, &change)),
                _ => model.put(group, id, number, Some(row.clone())),
            }
            moments.push(model);
            match number % 40 {
                13 => store.drop_group(group)?,
                n if n % 5 == 4 => drop(store.delete(group, id, number)?),
                n if n % 5 == 2 => {
                    change.with(|update| store.update(group, id, number, update)).map(drop)?;
                }
                _ => {
                    let fields = vstream_attribute::Fields {
                        attributes: vstream_attribute::Attributes::decode(&row.attributes)
                            .expect("attributes"),
                        payload: row.payload.as_deref(),
                        ..vstream_attribute::Fields::NONE
                    };
                    store
                        .upsert(group, &RowRef { id, version: number, vector: &vector, fields })?;
                }
            }
            match number % 23 {
                7 | 15 => store.commit()?,
                22 => store.flush()?,
                _ => continue,
            }
            durable = moments.len();
            store.compact()?;
        }
        Ok(())
    };
    match run() {
        Ok(()) => Ok(durable),
        Err(error) => Err((durable, error)),
    }
}

/// Ids, versions, vectors, attributes and payloads of every group.
type Found = Vec<Vec<(u64, u64, Vec<f32>, Vec<u8>, Option<Vec<u8>>)>>;

fn found(store: &GroupStore) -> Found {
    let rows = |group| store.reader().scroll(group, None, None, 1000, With::ALL).expect("rows");
    let key = |row: OwnedRow| {
        let attributes = row.attributes().bytes().to_vec();
        (row.id, row.version, row.vector, attributes, row.payload)
    };
    let keys = |group| rows(group).into_iter().map(key).collect();
    GROUPS.into_iter().map(keys).collect()
}

fn wanted(model: &Model) -> Found {
    let key = |(id, version, row): (u64, u64, &ModelRow)| {
        let ModelRow { vector, attributes, payload } = row.clone();
        (id, version, vector, attributes, payload)
    };
    let keys = |group| model.rows(group).map(key).collect();
    GROUPS.into_iter().map(keys).collect()
}

#[test]
fn what_was_committed_survives_a_death_in_any_call() {
    let mut deaths = 0;
    for calls in 0.. {
        let (files, left) = (Memory::new(), Arc::new(AtomicI64::new(calls)));
        let dying = Dying { files: files.clone(), left };
        let mut moments = vec![Model::default()];
        let died = write(FileStore::new(Arc::new(dying), Syncing::Full), &mut moments);
        let (durable, is_over) = match &died {
            Ok(durable) => (*durable, true),
            Err((durable, _)) => (*durable, false),
        };
        let mut store = open(&files, &settings());
        let rows = found(&store);
        let at = moments.iter().rposition(|model| wanted(model) == rows);
        let at = at.unwrap_or_else(|| panic!("death in call {calls}: rows of no moment"));
        assert!(at + 1 >= durable, "death in call {calls}: {durable} durable, {at} found");
        // The store goes on.
        store.flush().expect("a flush");
        store.compact_all().expect("a merge");
        assert_eq!(found(&store), rows, "death in call {calls}");
        if is_over {
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 100, "the process died {deaths} times only");
}
