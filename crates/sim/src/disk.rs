//! A simulated disk: files in memory, faults on demand, and a trace of everything that was done.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vstream_store::{Access, Buffer, Files, InFile, OutFile};
use vstream_vector::SplitMix;

/// Names and contents. Copies share the bytes of files until one of them changes.
pub type Content = BTreeMap<String, Arc<Vec<u8>>>;
/// Number of a file, whatever its name.
pub type Inode = usize;

/// A step of input and output, or a mark of the workload.
#[derive(Clone, Debug)]
pub enum Event {
    /// A new file got a name.
    Create(String, Inode),
    /// Bytes were written at an offset.
    Write(Inode, u64, Arc<[u8]>),
    /// A file was cut.
    Cut(Inode, u64),
    /// A file's bytes were forced to the disk.
    Sync(Inode),
    /// Forcing failed: what was pending is lost, though it can still be read.
    SyncFailed(Inode),
    /// A file changed its name.
    Rename(String, String),
    /// A name was removed.
    Remove(String),
    /// Names were forced to the disk.
    SyncNames,
    /// The collection was made: from here on it must open.
    Made,
    /// Writes up to this LSN were given to the engine.
    Issued(u64),
    /// The engine has promised that writes up to this LSN are durable.
    Acked(u64),
    /// The engine was opened again and had writes up to this LSN; later ones never were.
    Recovered(u64),
}

/// A call that fails.
#[derive(Clone, Copy, Debug)]
pub struct Failing {
    /// Calls before it.
    pub calls: u32,
    /// Calls that only read count, and may fail.
    pub reads: bool,
    /// The disk is full; otherwise EIO. A call that only reads gets EIO.
    pub is_full: bool,
    /// Every later call fails too, until the faults are changed.
    pub stays: bool,
}

/// Faults to come.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// A call of any kind that fails and does nothing.
    pub failing: Option<Failing>,
    /// Syncs until one fails, once, with EIO.
    pub sync_fails_in: Option<u32>,
    /// Bytes that still fit on the disk.
    pub room: Option<usize>,
    /// Reads and writes do a part, or are interrupted, now and then.
    pub short: bool,
}

struct World {
    names: BTreeMap<String, Inode>,
    contents: Vec<Arc<Vec<u8>>>,
    trace: Vec<Event>,
    faults: Faults,
    /// Calls that failed, but for those that found no room.
    failed: u64,
    /// Calls that found no room.
    full: u64,
    /// The process is dead: what it still tries does not happen.
    dead: bool,
    random: SplitMix,
}

/// A disk. Clones are the same one.
#[derive(Clone)]
pub struct Disk(Arc<Mutex<World>>);

impl Disk {
    /// A disk that holds `content`; its trace is empty, and inode n is the n-th file by name.
    pub fn holding(content: &Content, seed: u64) -> Disk {
        let names = content.keys().cloned().zip(0..).collect();
        let contents = content.values().cloned().collect();
        let (faults, random) = (Faults::default(), SplitMix(seed));
        let (trace, dead) = (Vec::new(), false);
        let (failed, full) = (0, 0);
        let world = World { names, contents, trace, faults, failed, full, dead, random };
        Disk(Arc::new(Mutex::new(world)))
    }

    /// Changes what will go wrong.
    pub fn set_faults(&self, faults: Faults) {
        self.world().faults = faults;
    }

    /// What will go wrong.
    pub fn faults(&self) -> Faults {
        self.world().faults.clone()
    }

    /// Calls that failed, but for those that found no room.
    pub fn failed(&self) -> u64 {
        self.world().failed
    }

    /// Calls that found no [`Faults::room`].
    pub fn full(&self) -> u64 {
        self.world().full
    }

    /// Ends the faults, but for short calls: they go on for as long as the disk is used.
    pub fn heal(&self) {
        let mut world = self.world();
        world.faults = Faults { short: world.faults.short, ..Faults::default() };
    }

    /// Runs `end`, the end of a process that was killed: nothing of it reaches the disk, which then
    /// is healed. What was written before stays readable, synced or not.
    pub fn kill(&self, end: impl FnOnce()) {
        self.world().dead = true;
        end();
        self.world().dead = false;
        self.heal();
    }

    /// Changes bytes of a file at rest.
    pub fn poke(&self, name: &str, offset: usize, bytes: &[u8]) {
        let mut world = self.world();
        let inode = world.names[name];
        let content = Arc::make_mut(&mut world.contents[inode]);
        content[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// Puts a mark into the trace.
    pub fn mark(&self, event: Event) {
        self.world().trace.push(event);
    }

    /// What was done so far.
    pub fn trace(&self) -> Vec<Event> {
        self.world().trace.clone()
    }

    /// What a reader sees.
    pub fn content(&self) -> Content {
        let world = self.world();
        let entries = world.names.iter();
        entries.map(|(name, &inode)| (name.clone(), world.contents[inode].clone())).collect()
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    /// Before a call that changes something.
    fn writes(&mut self) -> io::Result<()> {
        if self.dead {
            return Err(io::Error::other("the process is dead"));
        }
        self.call(false)
    }

    /// Before a call that only reads.
    fn reads(&mut self) -> io::Result<()> {
        match self.faults.failing {
            Some(Failing { reads: true, .. }) => self.call(true),
            _ => Ok(()),
        }
    }

    fn call(&mut self, is_read: bool) -> io::Result<()> {
        let Some(failing) = &mut self.faults.failing else { return Ok(()) };
        if failing.calls > 0 {
            failing.calls -= 1;
            return Ok(());
        }
        let Failing { is_full, stays, .. } = *failing;
        self.failed += 1;
        if !stays {
            self.faults.failing = None;
        }
        match is_full && !is_read {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Err(io::Error::other("EIO of the simulation")),
        }
    }

    fn inode(&self, name: &str) -> io::Result<Inode> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// How much of `bytes` is done this time.
    fn part(&mut self, bytes: usize) -> io::Result<usize> {
        if !self.faults.short || bytes == 0 {
            return Ok(bytes);
        }
        match self.random.below(4) {
            0 => Err(io::ErrorKind::Interrupted.into()),
            1 => Ok(1 + self.random.below(bytes)),
            _ => Ok(bytes),
        }
    }
}

impl Files for Disk {
    fn create(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        let mut world = self.world();
        world.writes()?;
        let inode = world.contents.len();
        world.contents.push(Arc::default());
        world.names.insert(name.to_owned(), inode);
        world.trace.push(Event::Create(name.to_owned(), inode));
        Ok(Box::new(Open { disk: self.clone(), inode }))
    }

    fn reopen(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        let mut world = self.world();
        world.reads()?;
        Ok(Box::new(Open { disk: self.clone(), inode: world.inode(name)? }))
    }

    fn open(&self, name: &str, _access: Access) -> io::Result<Arc<dyn InFile>> {
        let mut world = self.world();
        world.reads()?;
        Ok(Arc::new(Open { disk: self.clone(), inode: world.inode(name)? }))
    }

    fn rename(&self, from: &str, to: &str, replace: bool) -> io::Result<()> {
        let mut world = self.world();
        world.writes()?;
        if !replace && world.names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = world.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        world.names.insert(to.to_owned(), inode);
        world.trace.push(Event::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut world = self.world();
        world.writes()?;
        world.inode(name)?;
        world.names.remove(name);
        world.trace.push(Event::Remove(name.to_owned()));
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut world = self.world();
        world.writes()?;
        world.trace.push(Event::SyncNames);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut world = self.world();
        world.reads()?;
        let length = |inode: &Inode| world.contents[*inode].len() as u64;
        Ok(world.names.iter().map(|(name, inode)| (name.clone(), length(inode))).collect())
    }
}

struct Open {
    disk: Disk,
    inode: Inode,
}

impl OutFile for Open {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut world = self.disk.world();
        world.writes()?;
        let mut part = world.part(bytes.len())?;
        if let Some(room) = &mut world.faults.room {
            // A disk fills up in the middle of a write.
            part = part.min(*room);
            *room -= part;
            if part == 0 && !bytes.is_empty() {
                world.full += 1;
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        let offset = world.contents[self.inode].len() as u64;
        Arc::make_mut(&mut world.contents[self.inode]).extend_from_slice(&bytes[..part]);
        world.trace.push(Event::Write(self.inode, offset, bytes[..part].into()));
        Ok(part)
    }

    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.disk.world();
        world.writes()?;
        let start = offset as usize;
        let content = Arc::make_mut(&mut world.contents[self.inode]);
        content[start..start + bytes.len()].copy_from_slice(bytes);
        world.trace.push(Event::Write(self.inode, offset, bytes.into()));
        Ok(())
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        let mut world = self.disk.world();
        world.writes()?;
        Arc::make_mut(&mut world.contents[self.inode]).truncate(bytes as usize);
        world.trace.push(Event::Cut(self.inode, bytes));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut world = self.disk.world();
        if let Err(error) = world.writes() {
            if !world.dead {
                world.trace.push(Event::SyncFailed(self.inode));
            }
            return Err(error);
        }
        let fails = world.faults.sync_fails_in == Some(0);
        world.faults.sync_fails_in = match world.faults.sync_fails_in {
            Some(0) | None => None,
            Some(left) => Some(left - 1),
        };
        if fails {
            world.failed += 1;
            world.trace.push(Event::SyncFailed(self.inode));
            return Err(io::Error::other("EIO of the simulation"));
        }
        world.trace.push(Event::Sync(self.inode));
        Ok(())
    }
}

impl InFile for Open {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.disk.world().contents[self.inode].len() as u64)
    }

    fn read(&self, offset: u64, bytes: usize) -> io::Result<Buffer> {
        let mut world = self.disk.world();
        world.reads()?;
        let part = world.part(bytes)?;
        let content = &world.contents[self.inode];
        let start = (offset as usize).min(content.len());
        Ok(Buffer::from(content[start..(start + part).min(content.len())].to_vec()))
    }

    fn waits(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_counts_when_it_fires_and_short_calls_outlive_a_kill() {
        let disk = Disk::holding(&Content::new(), 1);
        let armed = Faults { sync_fails_in: Some(1), room: Some(1), short: true, failing: None };
        disk.set_faults(armed);
        let mut file = disk.create("a").expect("a file");
        file.sync().expect("the first sync");
        assert_eq!((disk.failed(), disk.full()), (0, 0));
        file.sync().expect_err("the second sync");
        let is_full = |error: io::Error| error.kind() == io::ErrorKind::StorageFull;
        // Others are interrupted or write the one byte.
        assert!((0..100).any(|_| file.append(b"ab").is_err_and(is_full)), "it never fills up");
        assert_eq!((disk.failed(), disk.full()), (1, 1));
        disk.kill(|| {});
        let faults = disk.faults();
        assert!(faults.short && faults.room.is_none() && faults.sync_fails_in.is_none());
    }
}
