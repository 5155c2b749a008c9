//! Directories with pointers, whose far copies outlive them.
//!
//! 1. Many directories share a far store. The far copies that one makes have names of their own, and it
//!    lists nothing: its pointers say where the copies are. A directory that gets the pointers of
//!    another one reads the same copies.
//! 2. Others copy a directory: [`Tiered::lend`] says for each file whether they copy the pointer, or the
//!    file, which then stays here until [`Tiered::give_back`].
//! 3. A directory deletes its own far copies alone. Those of the directory before it are its own once it
//!    is told so ([`Tiered::inherit`]): when nothing leads back to that directory any more. Copies whose
//!    pointer was taken by one of several directories ([`Tiered::take`]) are deleted by none.
//! 4. [`Tiered::end_deletes`] comes before whatever holds far copies for others lets go of them only
//!    because this directory ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::far::Far;
use super::pointer::{self, FarCopy, Owner, POINTER};
use super::{Doomed, Known, Moving, Tiered};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind};
use crate::file_store::FileStore;
use crate::files::{Access, Files};
use crate::store::{Range, Store, WALK_BYTES};

impl Tiered {
    /// A store over the files of `near`, and over the far copies that the pointers there name.
    ///
    /// * `prefix`: what the names of far copies made here begin with. No other directory over this far
    ///   store may ever have had it.
    ///
    /// Cost: reads the pointers, asks nothing of the far store. Errors: those of the directory, `Corrupt`
    /// if a pointer is damaged.
    pub fn with_pointers(
        near: &FileStore,
        far: Arc<dyn Store>,
        may_move: fn(&str) -> bool,
        clock: Arc<dyn Clock>,
        prefix: &str,
    ) -> Result<(FileStore, Tiered), Error> {
        Tiered::pointed(near, Arc::new(Far::new(far, clock)), may_move, prefix)
    }

    /// A store over the files of `near` and the far store of this directory; nothing may be sent from
    /// there. Errors: as [`Tiered::with_pointers`].
    pub fn reading(&self, near: &FileStore) -> Result<(FileStore, Tiered), Error> {
        Tiered::pointed(near, self.shared.far.clone(), self.shared.may_move, "none")
    }

    fn pointed(
        near: &FileStore,
        far: Arc<Far>,
        may_move: fn(&str) -> bool,
        prefix: &str,
    ) -> Result<(FileStore, Tiered), Error> {
        let (files, syncing) = near.parts();
        let copies = copies(&*files, may_move)?;
        let tiered = Tiered::over(files, far, may_move, Some(prefix.to_owned()), copies);
        Ok((FileStore::new(Arc::new(tiered.clone()), syncing), tiered))
    }

    /// True if a directory has pointers. Errors: those of the directory.
    pub fn has_pointers(near: &FileStore) -> Result<bool, Error> {
        Ok(near.list("")?.iter().any(|entry| entry.name.ends_with(POINTER)))
    }

    /// True if this directory keeps pointers.
    pub fn keeps_pointers(&self) -> bool {
        self.shared.prefix.is_some()
    }

    /// True if a file has a far copy, be it also here.
    pub fn has_far_copy(&self, name: &str) -> bool {
        self.shared.known().far.contains_key(name)
    }

    /// The name of the pointer of a file that has a far copy, which others may copy for it. Else `None`,
    /// and the file stays here until [`Tiered::give_back`].
    pub fn lend(&self, name: &str) -> Option<String> {
        let mut known = self.shared.known();
        if self.keeps_pointers() && known.far.contains_key(name) {
            return Some(pointer::pointer_name(name));
        }
        *known.lent.entry(name.to_owned()).or_insert(0) += 1;
        None
    }

    /// Ends what [`Tiered::lend`] began for a file without a pointer.
    pub fn give_back(&self, name: &str) {
        let mut known = self.shared.known();
        let holders = known.lent.get_mut(name).expect("a file that was lent");
        *holders -= 1;
        if *holders == 0 {
            known.lent.remove(name);
        }
    }

    /// Takes the far copy of the file `name` of another directory over the same far store as file `to`.
    /// False, and nothing has changed, if it has no far copy there, or if there are no pointers here.
    ///
    /// Errors: `Exists`, those of this directory.
    pub fn take(&self, from: &Tiered, name: &str, to: &str) -> Result<bool, Error> {
        let copy = from.shared.known().far.get(name).cloned();
        let are_alike = Arc::ptr_eq(&self.shared.far, &from.shared.far) && self.keeps_pointers();
        let Some(copy) = copy.filter(|_| are_alike) else { return Ok(false) };
        let mut known = self.shared.known();
        if known.far.contains_key(to) || self.shared.near.open(to, Access::Cached).is_ok() {
            let what = "there is a file of this name";
            return Err(Error::new(ErrorKind::Exists, self.shared.near.describe(to), what));
        }
        self.shared.note(&mut known, to, FarCopy { owner: Owner::Nobody, ..copy })?;
        Ok(true)
    }

    /// Makes the far copies of the directory before this one its own: nobody else leads to them any
    /// more. Those of files that were removed meanwhile are deleted.
    pub fn inherit(&self) {
        let mut known = self.shared.known();
        for copy in known.far.values_mut().filter(|copy| copy.owner == Owner::Before) {
            copy.owner = Owner::This;
        }
        for left in std::mem::take(&mut known.left) {
            known.doom(&left.copy.clone(), left);
        }
    }

    /// Far copies are deleted no more, whatever is removed here.
    pub fn end_deletes(&self) {
        let mut known = self.shared.known();
        (known.is_over, known.doomed) = (true, BTreeMap::new());
    }

    /// Copies the far copy of a file to one of this directory's own, unless it is that; returns the bytes
    /// that were copied. Readers follow.
    ///
    /// Cost: the bytes pass through here. Errors: `NotFound`, those of the far store. The old copy stays.
    pub fn make_own(&self, name: &str) -> Result<u64, Error> {
        let shared = &self.shared;
        let Some(copy) = shared.known().far.get(name).cloned() else { return Ok(0) };
        if copy.owner == Owner::This {
            return Ok(0);
        }
        let _moving = self.wait_to_move(name)?;
        let own = FarCopy { name: shared.far_name(name), bytes: copy.bytes, owner: Owner::This };
        shared.far.ask(|far| copy_far(far, &copy, &own.name))?;
        let mut known = shared.known();
        if !known.far.contains_key(name) {
            // It was removed meanwhile.
            known.doom(name, Doomed { copy: own.name, open: Vec::new() });
            return Ok(copy.bytes);
        }
        known.for_each_open(name, &mut |file| file.move_far(&own.name));
        shared.note(&mut known, name, own)?;
        Ok(copy.bytes)
    }

    /// Waits until no other thread moves a file.
    fn wait_to_move<'a>(&'a self, name: &'a str) -> Result<Moving<'a>, Error> {
        loop {
            if let Some(moving) = self.shared.begin_move(name)? {
                return Ok(moving);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl Known {
    /// Has a far copy deleted, unless no more are.
    pub(super) fn doom(&mut self, name: &str, doomed: Doomed) {
        if !self.is_over {
            self.doomed.insert(name.to_owned(), doomed);
        }
    }
}

/// The far copies that the pointers of a directory name.
fn copies(
    near: &dyn Files,
    may_move: fn(&str) -> bool,
) -> Result<BTreeMap<String, FarCopy>, Error> {
    let listed = near.list().map_err(|e| Error::io(near.describe(""), "list", &e))?;
    let mut copies = BTreeMap::new();
    for (pointer, _) in listed {
        let Some(name) = pointer.strip_suffix(POINTER).filter(|name| may_move(name)) else {
            continue;
        };
        let copy = pointer::read(near, name);
        let copy = copy.map_err(|e| match e.kind() {
            std::io::ErrorKind::InvalidData => Error::corrupt(near.describe(&pointer), 0, e),
            _ => Error::io(near.describe(&pointer), "read", &e),
        })?;
        copies.insert(name.to_owned(), copy);
    }
    Ok(copies)
}

/// Copies a file of the far store under another name, unless that is there already.
fn copy_far(far: &dyn Store, copy: &FarCopy, to: &str) -> Result<(), Error> {
    let file = far.open(&copy.name, Access::Cached)?;
    if file.bytes() != copy.bytes {
        let what = format!("it has {} bytes, and {} were sent there", file.bytes(), copy.bytes);
        return Err(Error::corrupt(file.name(), 0, what));
    }
    let mut out = far.create(to)?;
    out.expect(copy.bytes)?;
    let mut offset = 0;
    while offset < file.bytes() {
        let bytes = (file.bytes() - offset).min(WALK_BYTES as u64) as usize;
        out.append(&file.read(Range { offset, bytes })?)?;
        offset += bytes as u64;
    }
    match out.finish() {
        // An earlier attempt made it, and its answer was lost. The name is of this directory alone.
        Err(error) if error.kind() == ErrorKind::Exists => Ok(()),
        done => done.map(|_| ()),
    }
}
