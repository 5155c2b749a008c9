//! The serialised form of a template, version 3. All numbers are little-endian.
//!
//! ```text
//! magic "VSROUTE\0" · u16 version · u8 metric · u8 encoder (0 unplaced, 1 id, 2 cells, 3 lsh)
//! u16 shards · u16 zero · u32 dimension · f32 length (inner_product) · u64 epoch
//! u32 ranges · ranges × (u64 start, u16 shard)
//! cells: u32 root cells · f32 temperature · root cells × form dimension × f32 centroids
//!        u32 cells · cells × u64 start: not before version 3, where every root cell is a cell
//!        subcells × form dimension × f32 centroids
//!        cells × f32 weights · cells × shards × u8 affinity · shards × f32 thresholds
//!        cells × (u16 counts · counts × (u16 root cell, u16 neighbours)): not in version 1
//! lsh:   u8 curve · u8 bits · u16 families · u16 hashes · f32 width · u64 seed
//!        families × (hashes × form dimension × f32 projections, hashes × f32 offsets,
//!                    hashes × f32 starts, hashes × f32 lengths)
//! u32 CRC-32C of all bytes before
//! ```
//!
//! The form dimension is the dimension, plus 1 for inner_product. The decoder verifies the checksum
//! before it uses any value but the version. It compares every count with the bytes that are left
//! before it allocates memory for it.

use crate::cells::{self, Cells, Children, NeighborCounts};
use crate::error::RouteError;
use crate::lsh::{Curve, Family, Grid, Lsh, LshSettings};
use crate::ranges::Ranges;
use crate::settings::{EncoderSpec, RouteSettings, CELLS_MAX};
use crate::space::Space;
use crate::template::{Encoder, Inner, Template};
use std::sync::Arc;
use vstream_vector::cursor::ByteReader;
use vstream_vector::Metric;

const MAGIC: &[u8; 8] = b"VSROUTE\0";
const VERSION: u16 = 3;
/// The oldest version that this program reads.
const VERSION_MIN: u16 = 1;
const CHECKSUM_BYTES: usize = 4;

impl Template {
    /// Serialises the template. The source of this module shows the layout.
    pub fn to_bytes(&self) -> Vec<u8> {
        let inner = &*self.inner;
        let mut out = Writer(Vec::new());
        out.0.extend_from_slice(MAGIC);
        out.u16(VERSION);
        out.0.push(inner.space.metric.tag());
        out.0.push(match inner.encoder {
            Encoder::Unplaced => 0,
            Encoder::Id => 1,
            Encoder::Cells(_) => 2,
            Encoder::Lsh(_) => 3,
        });
        out.u16(inner.shards);
        out.u16(0);
        out.u32(inner.space.dimension as u32);
        out.f32s(&[inner.space.length]);
        out.u64(inner.epoch);
        out.u32(inner.ranges.len() as u32);
        for (start, shard) in inner.ranges.pairs() {
            out.u64(start);
            out.u16(shard);
        }
        match &inner.encoder {
            Encoder::Unplaced | Encoder::Id => {}
            Encoder::Cells(cells) => write_cells(cells, &mut out),
            Encoder::Lsh(lsh) => write_lsh(lsh, &mut out),
        }
        let checksum = crc32c::crc32c(&out.0);
        out.u32(checksum);
        out.0
    }

    /// Reads the bytes that [`Template::to_bytes`] wrote, in this version or an older one.
    ///
    /// Errors: `Corrupt` if a byte is changed, missing or added; `Unsupported` if a newer version
    /// wrote the bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Template, RouteError> {
        let body = verified(bytes)?;
        let mut input = ByteReader::new(body);
        input.skip(MAGIC.len())?;
        let version = input.u16()?;
        let (metric, encoder) = (input.u8()?, input.u8()?);
        let metric = Metric::from_tag(metric)
            .ok_or_else(|| RouteError::corrupt(format!("The template has no metric {metric}.")))?;
        let (shards, _reserved) = (input.u16()?, input.u16()?);
        let dimension = input.u32()? as usize;
        let length = read_f32(&mut input)?;
        let epoch = input.u64()?;
        let space = Space { dimension, metric, length };
        // The rules for settings hold for a template too. Each encoder adds its own below.
        let settings =
            RouteSettings { encoder: EncoderSpec::Id, dimension, metric, shards, seed: 0 };
        valid(&settings)?;
        if !(length.is_finite() && length >= 0.0) {
            return Err(RouteError::corrupt("The template's norm is negative or not finite."));
        }
        let ranges = read_ranges(&mut input, shards)?;
        let encoder = match encoder {
            0 => Encoder::Unplaced,
            1 => Encoder::Id,
            2 => Encoder::Cells(read_cells(&mut input, &space, shards, version)?),
            3 => Encoder::Lsh(read_lsh(&mut input, &settings, &space)?),
            _ => {
                return Err(RouteError::corrupt(format!("The template has no encoder {encoder}.")))
            }
        };
        if (encoder == Encoder::Unplaced) != (epoch == 0) {
            return Err(RouteError::corrupt("The template's epoch does not fit its encoder."));
        }
        if !input.is_empty() {
            return Err(RouteError::corrupt(format!(
                "The template has {} bytes too many.",
                input.left()
            )));
        }
        Ok(Template { inner: Arc::new(Inner { epoch, shards, space, encoder, ranges }) })
    }
}

/// The bytes without the checksum, after magic, checksum and version are verified.
fn verified(bytes: &[u8]) -> Result<&[u8], RouteError> {
    let header = MAGIC.len() + 2;
    if bytes.len() < header + CHECKSUM_BYTES || !bytes.starts_with(MAGIC) {
        return Err(RouteError::corrupt("These bytes are not a routing template."));
    }
    let (body, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    if crc32c::crc32c(body).to_le_bytes() != checksum {
        return Err(RouteError::corrupt(format!(
            "The routing template of {} bytes fails its checksum: it was damaged or cut off.",
            bytes.len()
        )));
    }
    let version = ByteReader::new(&body[MAGIC.len()..]).u16()?;
    if !(VERSION_MIN..=VERSION).contains(&version) {
        return Err(RouteError::unsupported(format!(
            "The routing template has version {version}, and this program reads versions up to \
             {VERSION}: use a newer program."
        )));
    }
    Ok(body)
}

/// Checks settings that were read from bytes; invalid ones mean that the bytes are damaged.
fn valid(settings: &RouteSettings) -> Result<(), RouteError> {
    settings.validate().map_err(|error| RouteError::corrupt(format!("In the template: {error}")))
}

fn read_ranges(input: &mut ByteReader, shards: u16) -> Result<Ranges, RouteError> {
    let count = input.u32()? as usize;
    input.require_items(count, 8 + 2)?;
    let pairs: Result<Vec<(u64, u16)>, RouteError> =
        (0..count).map(|_| Ok((input.u64()?, input.u16()?))).collect();
    Ranges::from_pairs(&pairs?, shards)
}

fn write_cells(cells: &Cells, out: &mut Writer) {
    out.u32(cells.root_count() as u32);
    out.f32s(&[cells.temperature]);
    out.f32s(&cells.roots);
    out.u32(cells.len() as u32);
    cells.starts.iter().for_each(|&start| out.u64(start));
    out.f32s(&cells.subcells);
    out.f32s(&cells.weights);
    out.0.extend_from_slice(&cells.affinity);
    out.f32s(&cells.thresholds);
    for counts in &cells.neighbor_counts.by_cell {
        out.u16(counts.len() as u16);
        for &(root, count) in counts {
            out.u16(root);
            out.u16(count);
        }
    }
}

fn read_cells(
    input: &mut ByteReader,
    space: &Space,
    shards: u16,
    version: u16,
) -> Result<Cells, RouteError> {
    let root_count = input.u32()? as usize;
    if !(1..=CELLS_MAX).contains(&root_count) {
        return Err(RouteError::corrupt(format!("The template cannot have {root_count} cells.")));
    }
    let dimension = space.form_dimension();
    let temperature = read_f32(input)?;
    let roots = read_f32s(input, root_count * dimension)?;
    let starts = match version {
        1 | 2 => (0..root_count).map(|root| cells::code(root, root_count)).collect(),
        _ => read_starts(input)?,
    };
    let children = Children::from_starts(&starts, root_count).ok_or_else(|| {
        RouteError::corrupt("The template's cells do not begin where its root cells do, in order.")
    })?;
    let count = starts.len();
    let cells = Cells {
        subcells: read_f32s(input, children.subcell_count() * dimension)?,
        roots,
        starts,
        children,
        dimension,
        shards,
        temperature,
        weights: read_f32s(input, count)?,
        affinity: input.bytes(count * usize::from(shards))?.to_vec(),
        thresholds: read_f32s(input, usize::from(shards))?,
        neighbor_counts: match version {
            1 => NeighborCounts::default(),
            _ => read_neighbor_counts(input, count, root_count)?,
        },
    };
    let positive = |x: &f32| *x >= 0.0;
    if !(cells.temperature > 0.0
        && cells.weights.iter().all(positive)
        && cells.thresholds.iter().all(|x| (0.0..=1.0).contains(x)))
    {
        return Err(RouteError::corrupt(
            "The template's cells have a weight, threshold or temperature out of range.",
        ));
    }
    Ok(cells)
}

fn read_starts(input: &mut ByteReader) -> Result<Vec<u64>, RouteError> {
    let count = input.u32()? as usize;
    if !(1..=CELLS_MAX).contains(&count) {
        return Err(RouteError::corrupt(format!("The template cannot have {count} cells.")));
    }
    input.require_items(count, 8)?;
    (0..count).map(|_| Ok(input.u64()?)).collect()
}

fn read_neighbor_counts(
    input: &mut ByteReader,
    cells: usize,
    roots: usize,
) -> Result<NeighborCounts, RouteError> {
    let mut by_cell = Vec::with_capacity(cells);
    for _ in 0..cells {
        let count = usize::from(input.u16()?);
        input.require_items(count, 4)?;
        let counts: Result<Vec<(u16, u16)>, RouteError> =
            (0..count).map(|_| Ok((input.u16()?, input.u16()?))).collect();
        let counts = counts?;
        let ascending = counts.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !ascending || counts.last().is_some_and(|last| usize::from(last.0) >= roots) {
            return Err(RouteError::corrupt(
                "The template counts neighbours in a root cell that it does not have.",
            ));
        }
        by_cell.push(counts);
    }
    Ok(NeighborCounts { by_cell })
}

fn write_lsh(lsh: &Lsh, out: &mut Writer) {
    out.0.push(lsh.settings.curve.tag());
    out.0.push(lsh.settings.bits as u8);
    out.u16(lsh.settings.families as u16);
    out.u16(lsh.settings.hashes as u16);
    out.f32s(&[lsh.settings.width]);
    out.u64(lsh.settings.seed);
    for family in &lsh.families {
        out.f32s(&family.projections);
        out.f32s(&family.offsets);
        out.f32s(&family.starts);
        out.f32s(&family.lengths);
    }
}

fn read_lsh(
    input: &mut ByteReader,
    settings: &RouteSettings,
    space: &Space,
) -> Result<Lsh, RouteError> {
    let (curve, bits) = (input.u8()?, u32::from(input.u8()?));
    let curve = Curve::from_tag(curve)
        .ok_or_else(|| RouteError::corrupt(format!("The template has no curve {curve}.")))?;
    let (families, hashes) = (usize::from(input.u16()?), usize::from(input.u16()?));
    let (width, seed) = (read_f32(input)?, input.u64()?);
    let encoder = EncoderSpec::Lsh { curve, families, hashes, width, bits };
    valid(&RouteSettings { encoder, ..settings.clone() })?;
    let grid = Grid::for_code(curve, hashes, bits, families)?;
    let dimension = space.form_dimension();
    input.require_items(families, hashes * (dimension + 3) * 4)?;
    let family = |_| -> Result<Family, RouteError> {
        Ok(Family {
            projections: read_f32s(input, hashes * dimension)?,
            offsets: read_f32s(input, hashes)?,
            starts: read_f32s(input, hashes)?,
            lengths: read_f32s(input, hashes)?,
        })
    };
    let families_read: Result<Vec<Family>, RouteError> = (0..families).map(family).collect();
    let settings = LshSettings { curve, families, hashes, width, bits, seed };
    Ok(Lsh { settings, grid, families: families_read? })
}

/// Reads one finite number.
fn read_f32(input: &mut ByteReader) -> Result<f32, RouteError> {
    read_f32s(input, 1).map(|numbers| numbers[0])
}

/// Reads `count` finite numbers.
fn read_f32s(input: &mut ByteReader, count: usize) -> Result<Vec<f32>, RouteError> {
    let numbers = input.f32s(count)?;
    match numbers.iter().all(|x| x.is_finite()) {
        true => Ok(numbers),
        false => Err(RouteError::corrupt("The template holds a number that is not finite.")),
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u16(&mut self, x: u16) {
        self.0.extend_from_slice(&x.to_le_bytes());
    }

    fn u32(&mut self, x: u32) {
        self.0.extend_from_slice(&x.to_le_bytes());
    }

    fn u64(&mut self, x: u64) {
        self.0.extend_from_slice(&x.to_le_bytes());
    }

    fn f32s(&mut self, values: &[f32]) {
        values.iter().for_each(|x| self.0.extend_from_slice(&x.to_le_bytes()));
    }
}
