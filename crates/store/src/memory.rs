//! A directory in memory, for tests and for files that need not survive the process.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::buffer::Buffer;
use crate::files::{Access, Files, InFile, OutFile};

type Content = Arc<Mutex<Vec<u8>>>;

/// Files in memory. Clones are the same directory.
#[derive(Clone, Default)]
pub struct Memory {
    files: Arc<Mutex<BTreeMap<String, Content>>>,
}

impl Memory {
    /// An empty directory.
    pub fn new() -> Memory {
        Memory::default()
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Content>> {
        lock(&self.files)
    }

    fn content(&self, name: &str) -> io::Result<Content> {
        self.files().get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// No code panics while it holds one of these locks, so a poisoned lock cannot occur.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files for Memory {
    fn create(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        let content = Content::default();
        self.files().insert(name.to_owned(), content.clone());
        Ok(Box::new(MemoryFile(content)))
    }

    fn reopen(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        Ok(Box::new(MemoryFile(self.content(name)?)))
    }

    fn open(&self, name: &str, _access: Access) -> io::Result<Arc<dyn InFile>> {
        Ok(Arc::new(MemoryFile(self.content(name)?)))
    }

    fn rename(&self, from: &str, to: &str, replace: bool) -> io::Result<()> {
        let mut files = self.files();
        if !replace && files.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let content = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files().remove(name).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let files = self.files();
        Ok(files.iter().map(|(name, file)| (name.clone(), lock(file).len() as u64)).collect())
    }
}

struct MemoryFile(Content);

impl OutFile for MemoryFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let start = offset as usize;
        lock(&self.0)[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        lock(&self.0).truncate(bytes as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl InFile for MemoryFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(lock(&self.0).len() as u64)
    }

    fn read(&self, offset: u64, bytes: usize) -> io::Result<Buffer> {
        let content = lock(&self.0);
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let end = start.saturating_add(bytes).min(content.len());
        Ok(Buffer::from(content[start..end].to_vec()))
    }

    fn waits(&self) -> bool {
        false
    }
}
