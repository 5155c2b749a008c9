//! Applies the groups of another engine's feed.

use vstream_attribute::Schema;

use super::group::{corrupt, unseal};
use super::last_of;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::recovery::{Change, GroupReplay, Replay, SegmentFiles};
use crate::remembered::RememberedDelete;
use crate::snapshot::ImageFiles;

impl Engine {
    /// Applies a group of the feed of the engine whose rows this one has, and returns the sequence of the
    /// last write. Searches see its writes from then on; they are logged here under the same sequences, so
    /// an engine that is opened again goes on where it was. Writes that this engine has already are
    /// passed over.
    ///
    /// The engine must have the attributes of the writer ([`super::Feed::schema`]), and must get no
    /// other writes. Cost: that of the writes. Errors: `Invalid` if the group does not follow the last
    /// write; `Corrupt` if its bytes changed on the way, or if it does not lead to the rows that the writer
    /// had: then the two have different histories, and this one must begin again from the writer's files.
    /// `Io`, `Unavailable`.
    pub fn apply_group(&mut self, group: &[u8]) -> Result<u64, Error> {
        let (header, records) = unseal(group)?;
        let before = self.state();
        let last = last_of(&header);
        if header.first_lsn > before.lsn + 1 {
            return Err(Error::invalid(format!(
                "the group begins with write {}, and write {} is the last one here",
                header.first_lsn, before.lsn
            )));
        }
        if last <= before.lsn {
            return Ok(before.lsn);
        }
        let (settings, mut state) = (self.settings.clone(), before);
        let mut follower = Follower { engine: self, failed: None };
        let mut replay = GroupReplay::new(&settings, None, &mut follower, &mut state);
        let done = replay.apply(&header, records);
        if let Some(failed) = follower.failed {
            return Err(failed);
        }
        done.map_err(|what| corrupt(&what))?;
        if let Some((_, borrowed)) = &mut self.borrowed {
            *borrowed = state;
        }
        if self.state() != state {
            return Err(corrupt("its writes were not all new here"));
        }
        Ok(last)
    }
}

impl Engine {
    /// Adds the attributes of a writer's schema that this engine lacks, in the writer's order.
    ///
    /// * `schema`: as [`vstream_attribute::Schema::encode`] writes it.
    ///
    /// Errors: `Corrupt` if it is none; those of [`Engine::add_attribute`].
    pub fn add_attributes_of(&mut self, schema: &[u8]) -> Result<(), Error> {
        let schema = Schema::decode(schema).map_err(|_| corrupt("its schema is none"))?;
        let mut attributes = schema.attributes.iter();
        attributes.try_for_each(|one| self.add_attribute(&one.name, one.kind).map(|_| ()))
    }
}

/// Applies changes as they come from a writer: each takes one sequence.
struct Follower<'a> {
    engine: &'a mut Engine,
    /// The error of a write that the engine could not make, and not of one that cannot be.
    failed: Option<Error>,
}

impl Replay for Follower<'_> {
    fn apply(&mut self, change: &Change<'_>) -> Result<(), Error> {
        let before = self.engine.sequence();
        let mut done = Replay::apply(self.engine, change);
        if let (Change::Remember { id, version }, Some(journal)) =
            (change, &mut self.engine.journal)
        {
            // A delete that the writer has forgotten may be remembered here for a while longer.
            if done.is_ok() && journal.state().lsn == before {
                done = journal.remember(*id, *version);
            }
        }
        if let Err(error) = &done {
            let cannot_be = matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Corrupt);
            self.failed = (!cannot_be).then(|| error.clone());
        }
        done
    }

    fn image(&mut self, _: &ImageFiles<'_>) -> Result<(u64, u128), Error> {
        Err(Error::internal("a group has no image"))
    }

    fn segments(&mut self, _: &SegmentFiles<'_>) -> Result<(u64, u128), Error> {
        Err(Error::internal("a group has no segments"))
    }

    fn remembered(&mut self, _: Vec<RememberedDelete>) {}

    fn foresee(&mut self, ids: Vec<u64>) {
        Replay::foresee(self.engine, ids);
    }

    fn version_of(&self, id: u64) -> Option<u64> {
        Replay::version_of(self.engine, id)
    }

    fn shard_of(&self, id: u64) -> Option<u16> {
        Replay::shard_of(self.engine, id)
    }
}
