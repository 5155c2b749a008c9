//! A directory of the operating system.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSliceMut, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use rustix::fs::{renameat_with, OFlags, RenameFlags};
use rustix::io::{preadv2, Errno, ReadWriteFlags};

use crate::buffer::{Buffer, ALIGNMENT};
use crate::files::{Access, Files, InFile, OutFile};
use crate::ring::PlannedRead;

/// The files of one directory. New directories and files are readable by their owner alone.
pub struct Disk {
    root: PathBuf,
}

impl Disk {
    /// Opens the directory `root` and creates it if it does not exist. Errors: those of the
    /// operating system.
    pub fn create(root: &Path) -> io::Result<Disk> {
        let missing: Vec<&Path> = root.ancestors().take_while(|path| !path.exists()).collect();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        for parent in missing.iter().filter_map(|path| path.parent()) {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            File::open(parent)?.sync_all()?;
        }
        Ok(Disk { root: root.to_owned() })
    }

    /// Opens the existing directory `root`. Errors: those of the operating system.
    pub fn open(root: &Path) -> io::Result<Disk> {
        fs::read_dir(root)?;
        Ok(Disk { root: root.to_owned() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

impl Files for Disk {
    fn create(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600);
        Ok(Box::new(DiskWriter(file.open(self.path(name))?)))
    }

    fn reopen(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        // Append mode does not work here: with it Linux appends positional writes too.
        let mut file = OpenOptions::new().write(true).open(self.path(name))?;
        file.seek(SeekFrom::End(0))?;
        Ok(Box::new(DiskWriter(file)))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn InFile>> {
        let path = self.path(name);
        let cached = Arc::new(File::open(&path)?);
        let direct = match access {
            Access::Cached => None,
            Access::Direct => open_direct(&path)?.map(Arc::new),
        };
        Ok(Arc::new(DiskReader { cached, direct, knows_ready: AtomicBool::new(true) }))
    }

    fn rename(&self, from: &str, to: &str, replace: bool) -> io::Result<()> {
        if replace {
            return fs::rename(self.path(from), self.path(to));
        }
        let directory = File::open(&self.root)?;
        // Opens the directory and renames within it, since `root` may be a relative path.
        match renameat_with(&directory, from, &directory, to, RenameFlags::NOREPLACE) {
            // Some file systems do not know the flag. Only one process at a time writes to a
            // directory, so a check before the rename is as good there.
            Err(Errno::INVAL | Errno::NOSYS) if self.path(to).exists() => {
                Err(io::ErrorKind::AlreadyExists.into())
            }
            Err(Errno::INVAL | Errno::NOSYS) => fs::rename(self.path(from), self.path(to)),
            done => Ok(done?),
        }
    }

    fn link(&self, from: &dyn Files, name: &str, to: &str) -> bool {
        let linked = from.root().map(|root| fs::hard_link(root.join(name), self.path(to)));
        linked.is_some_and(|linked| linked.is_ok())
    }

    fn root(&self) -> Option<&Path> {
        Some(&self.root)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.root)?.sync_all()
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            // Ignores links: a file outside must not become a file of this directory.
            if !entry.file_type()?.is_file() {
                continue;
            }
            match entry.metadata() {
                Ok(metadata) => found.push((name, metadata.len())),
                // Another thread removed or renamed the file after it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    fn describe(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

/// Opens the file past the page cache. `None` if the file system does not support that.
fn open_direct(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::DIRECT.bits() as i32;
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        Err(error) => Err(error),
    }
}

struct DiskWriter(File);

impl OutFile for DiskWriter {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)?;
        self.0.seek(SeekFrom::Start(bytes)).map(|_| ())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

struct DiskReader {
    cached: Arc<File>,
    direct: Option<Arc<File>>,
    /// False if the file system cannot say what is in the page cache.
    knows_ready: AtomicBool,
}

impl InFile for DiskReader {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.cached.metadata()?.len())
    }

    fn read(&self, offset: u64, bytes: usize) -> io::Result<Buffer> {
        let Some(direct) = &self.direct else {
            let mut buffer = Buffer::from(vec![0; bytes]);
            let read = self.cached.read_at(buffer.as_mut(), offset)?;
            return Ok(buffer.narrow(0, read));
        };
        let (mut buffer, skip) = aligned_for(offset, bytes);
        let read = direct.read_at(buffer.as_mut(), offset - skip as u64)?;
        Ok(buffer.narrow(skip.min(read), read.saturating_sub(skip).min(bytes)))
    }

    fn read_ready(&self, offset: u64, bytes: usize) -> Option<io::Result<Buffer>> {
        if self.direct.is_some() || !self.knows_ready.load(Ordering::Relaxed) {
            return None;
        }
        let mut buffer = Buffer::from(vec![0; bytes]);
        let mut into = [IoSliceMut::new(buffer.as_mut())];
        match preadv2(&*self.cached, &mut into, offset, ReadWriteFlags::NOWAIT) {
            Ok(read) => Some(Ok(buffer.narrow(0, read))),
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                self.knows_ready.store(false, Ordering::Relaxed);
                None
            }
            Err(error) => Some(Err(error.into())),
        }
    }

    fn plan(&self, offset: u64, bytes: usize) -> Option<PlannedRead> {
        match &self.direct {
            None => {
                let buffer = Buffer::from(vec![0; bytes]);
                PlannedRead::new((self.cached.clone(), offset), buffer, (0, bytes))
            }
            Some(direct) => {
                let (buffer, skip) = aligned_for(offset, bytes);
                PlannedRead::new((direct.clone(), offset - skip as u64), buffer, (skip, bytes))
            }
        }
    }

    fn waits(&self) -> bool {
        true
    }
}

/// A buffer for a read past the page cache, and how many of its bytes are before `offset`.
fn aligned_for(offset: u64, bytes: usize) -> (Buffer, usize) {
    let skip = (offset % ALIGNMENT as u64) as usize;
    (Buffer::aligned((skip + bytes).next_multiple_of(ALIGNMENT)), skip)
}
