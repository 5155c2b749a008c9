//! Reads a base image: the files of all its parts that serve a shard, as one set of rows.
//!
//! A row that moved from shard to shard may be in the files of both, if these are of different moments.
//! Then the row of the newer part counts. With more than one part a first pass over all wanted files finds the
//! ids that come more than once, so that nobody gets a row that does not count.

use std::collections::HashSet;
use std::path::Path;

use vstream_segment::row_digest;
use vstream_store::{FileStore, Store};

use super::image::{Image, Part};
use super::read::{FileRows, READ_BYTES};
use super::rows::file_name;
use super::{format, inspect_in, SnapshotFile, SnapshotSummary, MANIFEST};
use crate::defect::{self, Defect};
use crate::error::Error;
use crate::layout::base_prefix;
use crate::row::Row;
use crate::settings::Settings;

/// Bytes of the buffers of all files together, unless there are very many files.
const BUFFERS_BYTES: usize = 64 << 20;
/// Comes after every leaf.
const NO_LEAF: u64 = u64::MAX;

/// Receives a row, and the serial of the leaf that it was in.
pub(crate) type ApplyLeafRow<'a> = dyn FnMut(Option<u32>, &Row<'_>) -> Result<(), Error> + 'a;

/// The files of an image.
#[derive(Clone, Copy)]
pub(crate) struct ImageFiles<'a> {
    pub(crate) store: &'a FileStore,
    pub(crate) image: &'a Image,
    /// Those of the collection.
    pub(crate) settings: &'a Settings,
    /// By shard, whether its rows are wanted; `None` for all. No other file is opened.
    pub(crate) wanted: Option<&'a [bool]>,
}

/// A file that serves a shard.
struct Served {
    name: String,
    file: SnapshotFile,
    /// Position of its part.
    part: u16,
}

impl ImageFiles<'_> {
    /// The content of the image, if it is of one part; `None` otherwise. Errors: as
    /// [`ImageFiles::summary_of`].
    pub(crate) fn whole(&self) -> Result<Option<SnapshotSummary>, Error> {
        let is_whole = self.image.is_whole();
        is_whole.then(|| self.summary_of(self.image.oldest())).transpose()
    }

    /// The content of a part when it was written. Errors: `Corrupt` if its manifest is not the one that
    /// the image names, `Io`.
    pub(crate) fn summary_of(&self, part: &Part) -> Result<SnapshotSummary, Error> {
        let prefix = base_prefix(part.number);
        let summary = inspect_in(self.store, &prefix)?;
        let manifest = self.store.describe(&format!("{prefix}{MANIFEST}"));
        if summary.checksum() != part.checksum {
            let what = "this is not the image that is named";
            return Err(Error::corrupt(Path::new(&manifest), what));
        }
        format::check_collection(Path::new(&manifest), self.settings, &summary)?;
        Ok(summary)
    }

    /// The names of all wanted files of the image. Errors: as [`ImageFiles::summary_of`].
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        let manifest = |part: &Part| format!("{}{MANIFEST}", base_prefix(part.number));
        let manifests = self.image.parts().iter().map(manifest);
        Ok(manifests.chain(self.served()?.into_iter().map(|served| served.name)).collect())
    }

    /// Calls `apply` with every row, file by file. Returns the number and the digest of the rows.
    ///
    /// Verifies a file before its first row. Errors: `Corrupt`, `Invalid`, `Unsupported`, `Io`; the
    /// caller drops what it got until then.
    pub(crate) fn read(
        &self,
        apply: &mut dyn FnMut(&Row<'_>) -> Result<(), Error>,
    ) -> Result<(u64, u128), Error> {
        let files = self.served()?;
        let superseded = self.superseded(&files)?;
        let mut sum = Sum::default();
        for served in &files {
            let mut source = self.open(served, READ_BYTES)?;
            while source.next.is_some() {
                let row = source.file.decoder.row()?;
                if superseded.is_empty() || !superseded.contains(&(row.id, served.part)) {
                    sum.add(&row);
                    apply(&row)?;
                }
                source.advance()?;
            }
        }
        self.check(sum)
    }

    /// Calls `apply` with every row, in the order of the leaves' serials. Rows in no leaf come last, as
    /// do all rows of files that do not say the leaf. Returns the number and the digest of the rows.
    ///
    /// Verifies every file before the first row. Errors: as [`ImageFiles::read`].
    pub(crate) fn read_leaves(&self, apply: &mut ApplyLeafRow<'_>) -> Result<(u64, u128), Error> {
        let files = self.served()?;
        let superseded = self.superseded(&files)?;
        let read_bytes = (BUFFERS_BYTES / files.len().max(1)).clamp(1 << 12, READ_BYTES);
        let open = |served: &Served| Ok((self.open(served, read_bytes)?, served.part));
        let mut sources: Vec<(Source, u16)> =
            files.iter().map(open).collect::<Result<_, Error>>()?;
        let mut sum = Sum::default();
        while let Some(next) = sources.iter().filter_map(|(source, _)| source.next).min() {
            for (source, part) in &mut sources {
                while source.next == Some(next) {
                    let row = source.file.decoder.row()?;
                    if superseded.is_empty() || !superseded.contains(&(row.id, *part)) {
                        sum.add(&row);
                        apply(u32::try_from(next).ok(), &row)?;
                    }
                    source.advance()?;
                }
            }
        }
        self.check(sum)
    }

    /// The files that serve a shard, by part and shard. Errors: as [`ImageFiles::summary_of`].
    fn served(&self) -> Result<Vec<Served>, Error> {
        let mut served = Vec::new();
        for (part, at) in self.image.parts().iter().zip(0..) {
            let prefix = base_prefix(part.number);
            let files = self.summary_of(part)?.files.into_iter();
            let is_wanted = |shard| self.wanted.is_none_or(|wanted| wanted[usize::from(shard)]);
            let files =
                files.filter(|file| self.image.part_of(file.shard) == at && is_wanted(file.shard));
            served.extend(files.map(|file| Served {
                name: format!("{prefix}{}", file_name(file.shard)),
                file,
                part: at,
            }));
        }
        Ok(served)
    }

    /// Ids with the parts in which a row of theirs does not count. Verifies all files, if the image has
    /// more than one part.
    ///
    /// Memory: 16 bytes a row, which are given back before the rows are read. Errors: `Corrupt` if an id
    /// is in one part twice, and those of [`ImageFiles::read`].
    fn superseded(&self, files: &[Served]) -> Result<HashSet<(u64, u16)>, Error> {
        let mut superseded = HashSet::new();
        if self.image.is_whole() {
            return Ok(superseded);
        }
        let mut ids: Vec<(u64, u16)> = Vec::new();
        for served in files {
            let Served { name, file, part } = served;
            let note = &mut |id| ids.push((id, *part));
            FileRows::for_each_id(self.store, name, self.settings, (file, note))?;
        }
        ids.sort_unstable();
        for same in ids.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
            if same.windows(2).any(|pair| pair[0].1 == pair[1].1) {
                return Err(self.twice());
            }
            if defect::active(Defect::OlderPartCounts) {
                superseded.extend(&same[1..]);
            } else {
                superseded.extend(&same[..same.len() - 1]);
            }
        }
        Ok(superseded)
    }

    /// Opens a file, which is verified before unless the image has one part.
    fn open(&self, served: &Served, read_bytes: usize) -> Result<Source, Error> {
        let (store, expected) = (self.store, (&served.file, read_bytes));
        let file = match self.image.is_whole() {
            true => {
                FileRows::open(store, &served.name, self.settings, (Some(&served.file), read_bytes))
            }
            false => FileRows::begin(store, &served.name, self.settings, expected),
        };
        let mut source = Source { file: file?, next: None };
        source.advance()?;
        Ok(source)
    }

    /// Errors if all rows of an image of one part are not those that it had. What the rows of several
    /// parts become is known when the logs are replayed.
    fn check(&self, sum: Sum) -> Result<(u64, u128), Error> {
        if self.wanted.is_none()
            && self.whole()?.is_some_and(|summary| summary.digest != sum.digest)
        {
            return Err(Error::corrupt(
                Path::new(&self.manifest()),
                "the rows of the files are not those of the manifest (digest differs)",
            ));
        }
        Ok((sum.rows, sum.digest))
    }

    /// The error for an image with two rows of one id.
    pub(crate) fn twice(&self) -> Error {
        Error::corrupt(Path::new(&self.manifest()), "an id is in the image twice")
    }

    /// Names the manifest of the newest part.
    pub(crate) fn manifest(&self) -> String {
        self.store.describe(&format!("{}{MANIFEST}", base_prefix(self.image.newest().number)))
    }
}

#[derive(Clone, Copy, Default)]
struct Sum {
    rows: u64,
    digest: u128,
}

impl Sum {
    fn add(&mut self, row: &Row<'_>) {
        self.rows += 1;
        self.digest = self.digest.wrapping_add(row_digest(row.id, row.version));
    }
}

/// A file, and the leaf of the row that was read of it last; `None` at its end.
struct Source {
    file: FileRows,
    next: Option<u64>,
}

impl Source {
    fn advance(&mut self) -> Result<(), Error> {
        let is_there = self.file.advance()?;
        let leaf = || self.file.decoder.leaf().map_or(NO_LEAF, u64::from);
        self.next = is_there.then(leaf);
        Ok(())
    }
}
