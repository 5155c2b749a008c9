//! The durable engine: opens, commits, checkpoints, shares and closes.

use std::path::Path;

use vstream_store::FileStore;

use crate::checkpoint::SharedState;
use crate::engine::{rows_of, Engine};
use crate::error::Error;
use crate::journal::{Commit, Journal};
use crate::priority::{in_order, threads};
use crate::recovery::{insert_image, recover, Change, Replay, SegmentFiles};
use crate::remembered::{RememberedDelete, RememberedDeletes};
use crate::remote::RemoteStats;
use crate::settings::IndexKind;
use crate::snapshot::ImageFiles;
use crate::tree::Known;
use crate::version::{Directory, Manifest};

/// Bytes of logs that an engine reads in some 10 ms when it opens.
const SHORT_LOG: u64 = 1 << 20;

impl Engine {
    /// Opens the engine that was created in the directory `dir`; short for [`Engine::builder`].
    /// Errors: the same as [`crate::EngineBuilder::open`].
    pub fn open(dir: &Path) -> Result<Engine, Error> {
        Engine::builder().dir(dir).open()
    }

    /// Fills an empty engine from its files, and continues to write to them.
    pub(crate) fn replay(&mut self, directory: Directory, manifest: Manifest) -> Result<(), Error> {
        let _paused = self.guard.pause();
        let recovered = recover(&directory.store, &manifest, self)?;
        self.journal = Some(Journal::start(directory, manifest, recovered, &self.tree)?);
        Ok(())
    }

    /// Fills an engine of [`Engine::borrowing`] from files that another one may write, and leaves them alone.
    pub(crate) fn borrow(&mut self, store: &FileStore, manifest: &Manifest) -> Result<(), Error> {
        let paused = self.guard.pause();
        let recovered = recover(store, manifest, self)?;
        self.borrowed = Some((manifest.collection, recovered.state));
        self.tree.hold_behind(paused);
        Ok(())
    }

    /// Makes all writes so far durable, to the degree that the collection's durability says. The
    /// writes since the last commit survive all or none, in groups of about 1 MiB. Does nothing for
    /// an engine in memory alone.
    ///
    /// Errors: `Io`. After a full disk the engine keeps the rows, and the next commit tries again.
    /// After any other error the engine takes no more writes.
    pub fn commit(&mut self) -> Result<(), Error> {
        self.begin_commit()?.wait()
    }

    /// Begins a commit; [`Commit::wait`] ends it. Other threads may write while this one waits. One
    /// sync serves all threads that wait.
    pub fn begin_commit(&mut self) -> Result<Commit, Error> {
        let rows = rows_of(&self.settings, &self.tree, self.remembered.as_ref());
        match &mut self.journal {
            Some(journal) => journal.commit(&rows),
            None => Ok(Commit::nothing()),
        }
    }

    /// Forces everything to the disk, whatever the durability. Errors: the same as
    /// [`Engine::commit`].
    pub fn flush(&mut self) -> Result<(), Error> {
        self.journal.as_mut().map_or(Ok(()), Journal::flush)
    }

    /// Writes a base and drops the logs that it replaces. Without a memory limit the base is an
    /// image of all rows. With a limit, the rows that are in no segment yet become a segment. The
    /// engine also does this in the background when the log or memory has grown; then it writes only
    /// a part of a large image. Errors: `Io`; no row is lost then.
    pub fn checkpoint(&mut self) -> Result<(), Error> {
        let rows = rows_of(&self.settings, &self.tree, self.remembered.as_ref());
        self.journal.as_mut().map_or(Ok(()), |journal| journal.checkpoint(&rows))
    }

    /// Merges segments until no merge pays. Segments with leaves are merged until nearly all rows of a leaf
    /// lie together: in the background the engine merges them less, so that each row is written few times.
    /// Two threads do it, if the engine may have threads. Cost: reads and writes most rows once, and some
    /// twice after a collection was taken over. Errors: `Corrupt`, `Io`; no row is lost then.
    pub fn compact(&mut self) -> Result<(), Error> {
        self.journal.as_mut().map_or(Ok(()), Journal::compact)
    }

    /// Moves the codes that queries visit most into memory and other codes out of it, within the
    /// limit of `code_memory`. The engine also does this in the background. Returns the bytes that
    /// came to memory. Errors: `Corrupt`, `Io`; codes that were not moved yet stay where they are.
    pub fn place_codes(&self) -> Result<u64, Error> {
        self.tree.place_codes()
    }

    /// Moves the segments that queries ask for most into the engine's directory and others to its
    /// remote level, within the limit ([`crate::RemoteLevel`]). The engine also does this in the
    /// background. Returns the bytes that were copied; 0 without a remote level.
    ///
    /// Errors: `Unavailable` if the far store gives no answer, `Io`; no row is lost then.
    pub fn place_segments(&self) -> Result<u64, Error> {
        self.journal.as_ref().map_or(Ok(0), Journal::place_segments)
    }

    /// Says that no state of the engine before this one will be opened again, not even that from which
    /// this one was opened ([`crate::RemoteLevel::with_pointers`]). From now on this engine deletes the
    /// far copies of that one which it does not need. Far copies that several engines have taken are not
    /// among them.
    pub fn inherit_remote(&self) {
        self.journal.iter().for_each(Journal::inherit_remote);
    }

    /// Where the segments are; `None` without a remote level. Cost: lists the directory.
    pub fn remote_stats(&self) -> Option<RemoteStats> {
        self.journal.as_ref()?.remote_stats()
    }

    /// Returns the present rows as files, including writes that were not committed yet. The files
    /// stay as long as the returned state; see [`SharedState`].
    ///
    /// Cost: begins a new log, and a checkpoint if one is due. With
    /// [`crate::Journaling::background`] this call writes no row. Errors: `Invalid` for an engine
    /// in memory alone, `Io`.
    pub fn share(&mut self) -> Result<SharedState, Error> {
        let rows = rows_of(&self.settings, &self.tree, self.remembered.as_ref());
        let nothing =
            || Error::invalid("the engine keeps its rows in memory: create it in a directory");
        self.journal.as_mut().ok_or_else(nothing)?.share(&rows)
    }

    /// Writes the rows in memory to a segment if memory has a limit and the log is long, so that the next
    /// open reads a short log; else does nothing. Cost: at most that of [`Engine::checkpoint`]. Errors: the
    /// same; no row is lost then.
    pub fn shorten_log(&mut self) -> Result<(), Error> {
        let log_bytes = self.journal.as_ref().map_or(0, |journal| journal.stats().log_bytes);
        if self.settings.memory.is_none() || log_bytes <= SHORT_LOG {
            return Ok(());
        }
        // After a sync that fails nothing more is written: the rows are in the log before that.
        self.flush()?;
        self.checkpoint()
    }

    /// Shortens the log ([`Engine::shorten_log`]), forces everything to the disk and unlocks the directory.
    /// Dropping the engine leaves the log as it is, does the rest, and ignores errors.
    pub fn close(mut self) -> Result<(), Error> {
        // The log has every row first: a checkpoint that fails costs the next open some time.
        let _ = self.shorten_log();
        self.detach()
    }

    /// Closes the files as [`Engine::close`] does, but leaves the log as it is, and keeps the engine in memory, for example
    /// while it still has readers. After an error the engine is as before the call.
    pub fn detach(&mut self) -> Result<(), Error> {
        if let Some(journal) = &mut self.journal {
            journal.close()?;
        }
        self.journal = None;
        Ok(())
    }
}

impl Replay for Engine {
    fn apply(&mut self, change: &Change<'_>) -> Result<(), Error> {
        match change {
            Change::Upsert(row) => self.restore_row(row).map(|_| ()),
            Change::Update { id, version, update } => {
                self.update(*id, *version, update).map(|_| ())
            }
            Change::Delete { id, version } | Change::Remember { id, version } => {
                self.delete(*id, *version).map(|_| ())
            }
        }
    }

    fn image(&mut self, files: &ImageFiles<'_>) -> Result<(u64, u128), Error> {
        match self.settings.index {
            IndexKind::Cluster => self.load_image(files),
            IndexKind::Flat => insert_image(self, files),
        }
    }

    fn segments(&mut self, files: &SegmentFiles<'_>) -> Result<(u64, u128), Error> {
        let open = |at: usize| {
            let (entry, deleted) = &files.entries[at];
            let known = Known { deleted, wanted: files.wanted, ids: None };
            self.tree.open(files.store, entry, files.collection, known)
        };
        let opened = in_order(files.entries.len(), files.readers, &open)?;
        let found = opened.iter().map(|live| live.opened);
        let found = found.fold((0, 0u128), |(rows, digest), (more, others)| {
            (rows + more, digest.wrapping_add(others))
        });
        let threads = threads(files.readers > 1);
        self.tree.adopt(opened.into_iter().enumerate().collect(), threads);
        Ok(found)
    }

    fn remembered(&mut self, deletes: Vec<RememberedDelete>) {
        let Some(kept) = self.settings.deletes_remembered else { return };
        let mut remembered = RememberedDeletes::new(kept);
        deletes.into_iter().for_each(|delete| remembered.note(delete));
        self.remembered = Some(remembered);
    }

    fn foresee(&mut self, ids: Vec<u64>) {
        self.tree.writer().foresee(ids);
    }

    fn version_of(&self, id: u64) -> Option<u64> {
        self.tree.writer().find(id).map(|found| found.version)
    }

    fn shard_of(&self, id: u64) -> Option<u16> {
        self.tree.writer().shard_in_memory(id)
    }
}
