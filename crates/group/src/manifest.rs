//! The manifest: the settings of a store and the files that hold its rows. It is replaced as a
//! whole, which is the commit point of every change of files.
//!
//! ```text
//! magic 8 | u32 version, 3 with 128 shards and else 4 | u64 identity | u64 seed | u64 next number | u64 log
//! u32 dimension | u8 metric | u8 element | u8 bound | f32 deviations | u64 coded | u64 clustered
//! u64 milliseconds for which deletes are remembered, 0 for not
//! in version 4: u16 shards
//! u8 ids | u8 open | u8 grouping | u16 attributes, each: u8 kind | u16 bytes | name
//! u32 runs, newest first, each: u64 number | u64 bytes | u64 identity | u16 first shard | u16 last
//! ```

use std::time::Duration;

use vstream_attribute::{
    Attribute, AttributeKind, Grouping, IdKind, Schema, ATTRIBUTES_MAX, NAME_BYTES_MAX,
};
use vstream_store::blocks::{seal, unseal, BlockAddress};
use vstream_store::{Access, Error as StoreError, Range, Store};
use vstream_vector::cursor::ByteReader;
use vstream_vector::{Element, Metric, SplitMix};

use crate::error::{Error, Malformed};
use crate::settings::{Bound, GroupSettings};
use crate::shard::{ShardRange, SHARDS};

pub(crate) const NAME: &str = "GROUPS";
const MAGIC: &[u8; 8] = b"VSTRGMAN";
/// Version of a store of [`SHARDS`] shards.
const USUAL: u32 = 3;
/// Version of a store of any other number of shards.
const VERSION: u32 = 4;
/// Most runs that a manifest names.
const RUNS_MAX: u32 = 65_536;
/// Largest manifest that is read.
const BYTES_MAX: u64 = 16 << 20;

/// What a manifest of some version is sealed with.
const fn address(version: u32) -> BlockAddress {
    BlockAddress { file: 0, number: 0, version }
}

/// A run that the manifest names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunEntry {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// Identity in the file. A run that came from another store keeps the one it was written with.
    pub(crate) identity: u64,
    /// Groups in other shards are not read and not merged: they belong to other stores.
    pub(crate) shards: ShardRange,
}

/// Bytes of a run in the manifest.
const RUN_BYTES: usize = 28;

/// What a store consists of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifest {
    /// Number of the store; identities of its files follow from it.
    pub(crate) identity: u64,
    /// Seed of rotations and of the hash of names.
    pub(crate) seed: u64,
    /// Number of the next file.
    pub(crate) next: u64,
    /// The log of the rows that are in no run.
    pub(crate) log: u64,
    /// The fixed settings; those of memory are not stored.
    pub(crate) settings: GroupSettings,
    /// Newest first.
    pub(crate) runs: Vec<RunEntry>,
}

pub(crate) fn run_name(number: u64) -> String {
    format!("run-{number:010}")
}

pub(crate) fn log_name(number: u64) -> String {
    format!("log-{number:010}")
}

impl Manifest {
    /// Identity of a file: no other file of this or another store has it.
    pub(crate) fn file_identity(&self, number: u64) -> u64 {
        SplitMix(self.identity ^ SplitMix(number).next()).next()
    }

    /// The entry of a run that this store wrote.
    pub(crate) fn own_run(&self, number: u64, bytes: u64) -> RunEntry {
        let identity = self.file_identity(number);
        let shards = ShardRange::all(self.settings.shards).expect("settings were validated");
        RunEntry { number, bytes, identity, shards }
    }

    /// The bytes of the file.
    pub(crate) fn sealed(&self) -> Vec<u8> {
        let mut bytes = self.encode();
        seal(address(self.version()), &mut bytes);
        bytes
    }

    fn version(&self) -> u32 {
        if self.settings.shards == SHARDS {
            USUAL
        } else {
            VERSION
        }
    }

    /// Publishes the manifest.
    pub(crate) fn publish(&self, store: &dyn Store) -> Result<(), Error> {
        Ok(store.replace(NAME, &self.sealed())?)
    }

    /// Reads the manifest of a store; `None` if there is none.
    pub(crate) fn read(store: &dyn Store) -> Result<Option<Manifest>, Error> {
        Manifest::read_from(store, NAME)
    }

    /// Reads a manifest from a file of some name; `None` if there is none.
    pub(crate) fn read_from(store: &dyn Store, name: &str) -> Result<Option<Manifest>, Error> {
        if !store.list(name)?.iter().any(|entry| entry.name == name) {
            return Ok(None);
        }
        let file = store.open(name, Access::Cached)?;
        let corrupt = |what: &str| StoreError::corrupt(file.name(), 0, what);
        if file.bytes() > BYTES_MAX {
            return Err(corrupt("too long for a manifest").into());
        }
        let bytes = file.read(Range { offset: 0, bytes: file.bytes() as usize })?;
        // A version that is not known does not matter: the manifest is refused by its checksum.
        let version = bytes
            .get(8..12)
            .map_or(USUAL, |four| u32::from_le_bytes(four.try_into().expect("four bytes")));
        let payload = unseal(address(version.clamp(USUAL, VERSION)), &bytes, file.name(), 0)?;
        let manifest = Manifest::decode(payload).map_err(|what| corrupt(what.0))?;
        manifest.settings.validate().map_err(|_| corrupt("a setting is out of range"))?;
        Ok(Some(manifest))
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.version().to_le_bytes());
        for number in [self.identity, self.seed, self.next, self.log] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let settings = &self.settings;
        out.extend_from_slice(&(settings.dimension as u32).to_le_bytes());
        let (bound, deviations) = match settings.bound {
            Bound::Proven => (0, 0.0f32),
            Bound::Deviations(deviations) => (1, deviations),
        };
        out.extend_from_slice(&[settings.metric.tag(), settings.element.tag(), bound]);
        out.extend_from_slice(&deviations.to_le_bytes());
        for rows in [settings.coded_rows, settings.clustered_rows] {
            out.extend_from_slice(&(rows as u64).to_le_bytes());
        }
        let remembered = settings.deletes_remembered.map_or(0, |time| time.as_millis() as u64);
        out.extend_from_slice(&remembered.to_le_bytes());
        if self.version() == VERSION {
            out.extend_from_slice(&settings.shards.to_le_bytes());
        }
        put_schema(&mut out, &settings.schema);
        out.extend_from_slice(&(self.runs.len() as u32).to_le_bytes());
        for run in &self.runs {
            out.extend_from_slice(&run.number.to_le_bytes());
            out.extend_from_slice(&run.bytes.to_le_bytes());
            out.extend_from_slice(&run.identity.to_le_bytes());
            out.extend_from_slice(&run.shards.first().to_le_bytes());
            out.extend_from_slice(&run.shards.last().to_le_bytes());
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Manifest, Malformed> {
        let mut input = ByteReader::new(bytes);
        if &input.array()? != MAGIC {
            return Err(Malformed("it is no manifest of groups"));
        }
        let version = input.u32()?;
        if ![USUAL, VERSION].contains(&version) {
            return Err(Malformed("another version wrote the manifest"));
        }
        let (identity, seed, next, log) = (input.u64()?, input.u64()?, input.u64()?, input.u64()?);
        let dimension = input.u32()? as usize;
        let [metric, element, bound] = input.array()?;
        let kinds = (Metric::from_tag(metric), Element::from_tag(element));
        let (Some(metric), Some(element)) = kinds else {
            return Err(Malformed("an unknown metric or element"));
        };
        let mut settings = GroupSettings::new(dimension, metric, element);
        let deviations = input.f32()?;
        settings.bound = match bound {
            0 => Bound::Proven,
            1 => Bound::Deviations(deviations),
            _ => return Err(Malformed("an unknown bound")),
        };
        settings.coded_rows = input.u64()? as usize;
        settings.clustered_rows = input.u64()? as usize;
        let remembered = Some(input.u64()?).filter(|&ms| ms > 0);
        settings.deletes_remembered = remembered.map(Duration::from_millis);
        if version == VERSION {
            settings.shards = input.u16()?;
        }
        settings.schema = take_schema(&mut input)?;
        settings.seed = Some(seed);
        let count = input.u32()?;
        if count > RUNS_MAX || input.left() != count as usize * RUN_BYTES {
            return Err(Malformed("the manifest is not as long as its runs say"));
        }
        let mut runs = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let (number, bytes, identity) = (input.u64()?, input.u64()?, input.u64()?);
            let shards = ShardRange::new(input.u16()?..=input.u16()?, settings.shards);
            let shards = shards.map_err(|_| Malformed("a run of shards that do not exist"))?;
            runs.push(RunEntry { number, bytes, identity, shards });
        }
        let numbers = runs.iter().map(|run| run.number).chain([log]);
        if numbers.into_iter().any(|number| number >= next) {
            return Err(Malformed("a file has a number that is not taken"));
        }
        Ok(Manifest { identity, seed, next, log, settings, runs })
    }
}

fn put_schema(out: &mut Vec<u8>, schema: &Schema) {
    let grouping = match schema.grouping {
        Grouping::None => 0,
        Grouping::Shared => 1,
        Grouping::Isolated => 2,
    };
    out.extend_from_slice(&[
        u8::from(schema.id == IdKind::String),
        u8::from(schema.open),
        grouping,
    ]);
    out.extend_from_slice(&(schema.attributes.len() as u16).to_le_bytes());
    for attribute in &schema.attributes {
        out.push(attribute.kind.tag());
        out.extend_from_slice(&(attribute.name.len() as u16).to_le_bytes());
        out.extend_from_slice(attribute.name.as_bytes());
    }
}

fn take_schema(input: &mut ByteReader<'_>) -> Result<Schema, Malformed> {
    let [ids, open, grouping] = input.array()?;
    let mut schema = Schema { open: open == 1, ..Schema::default() };
    if ids == 1 {
        schema.id = IdKind::String;
    }
    schema.grouping = match grouping {
        0 => Grouping::None,
        1 => Grouping::Shared,
        2 => Grouping::Isolated,
        _ => return Err(Malformed("an unknown grouping")),
    };
    let count = usize::from(input.u16()?);
    if count > ATTRIBUTES_MAX {
        return Err(Malformed("too many attributes"));
    }
    for _ in 0..count {
        let kind = AttributeKind::from_tag(input.u8()?).ok_or(Malformed("an unknown kind"))?;
        let bytes = usize::from(input.u16()?);
        if bytes > NAME_BYTES_MAX {
            return Err(Malformed("the name of an attribute is too long"));
        }
        let name = std::str::from_utf8(input.bytes(bytes)?);
        let name = name.map_err(|_| Malformed("the name of an attribute is no UTF-8"))?;
        schema.attributes.push(Attribute { name: name.to_owned(), kind });
    }
    Ok(schema)
}
