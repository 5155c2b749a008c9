//! Graph segments against brute force, and damaged files.

mod contract;
mod damage;

use std::sync::Arc;

use vstream_graph::{GraphSegment, GraphSettings, GraphSummary, GraphWriter};
use vstream_index::{IndexRow, RowKey, VectorRef};
use vstream_store::{Access, Error, FileStore, Memory, Store, Syncing};
use vstream_vector::{Bf16, Element, Number, SplitMix, F16};

pub(crate) fn memory() -> FileStore {
    FileStore::new(Arc::new(Memory::new()), Syncing::Off)
}

/// Rows around 30 centres that the element type can hold. Rows under cosine have length 1.
pub(crate) fn rows(settings: &GraphSettings, count: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut centres = SplitMix(1);
    let dimension = settings.dimension;
    let centres: Vec<f32> = (0..30 * dimension).map(|_| centres.normal() * 20.0).collect();
    let mut random = SplitMix(seed);
    let integer = settings.element.is_integer();
    let shift = if settings.element == Element::U8 { 128.0 } else { 0.0 };
    let mut row = || {
        let centre = random.below(30) * dimension;
        let x = |d: usize| centres[centre + d] + random.normal() * 14.0;
        let mut row: Vec<f32> = (0..dimension).map(x).collect();
        if settings.metric == vstream_vector::Metric::Cosine {
            let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            row.iter_mut().for_each(|x| *x /= length);
        }
        if integer {
            row.iter_mut()
                .for_each(|x| *x = (*x + shift).round().clamp(shift - 128.0, shift + 127.0));
        }
        row
    };
    (0..count).map(|_| row()).collect()
}

/// The key of row `at`: ids are not in order.
pub(crate) fn key(at: usize) -> RowKey {
    let id = (at as u64).wrapping_mul(0x9e37_79b9) % (1 << 40);
    RowKey { id, version: at as u64 % 3 + 1, code: at as u64 * 7, shard: at as u16 % 128 }
}

fn push<N: Number>(writer: &mut GraphWriter, at: usize, row: &[f32]) -> Result<(), Error>
where
    for<'a> VectorRef<'a>: From<&'a [N]>,
{
    let row: Vec<N> = row.iter().map(|&x| N::narrow(x)).collect();
    writer.push(IndexRow::plain(key(at), VectorRef::from(row.as_slice())))
}

pub(crate) fn put(
    writer: &mut GraphWriter,
    element: Element,
    at: usize,
    row: &[f32],
) -> Result<(), Error> {
    match element {
        Element::F32 => push::<f32>(writer, at, row),
        Element::F16 => push::<F16>(writer, at, row),
        Element::Bf16 => push::<Bf16>(writer, at, row),
        Element::U8 => push::<u8>(writer, at, row),
        Element::I8 => push::<i8>(writer, at, row),
    }
}

pub(crate) fn write(store: &FileStore, settings: GraphSettings, rows: &[Vec<f32>]) -> GraphSummary {
    let mut writer = GraphWriter::create(store, "a.graph", settings).unwrap();
    for (at, row) in rows.iter().enumerate() {
        put(&mut writer, settings.element, at, row).unwrap();
    }
    writer.finish().unwrap()
}

pub(crate) fn open(store: &FileStore) -> Result<GraphSegment, Error> {
    GraphSegment::open(store.open("a.graph", Access::Direct)?, None)
}
