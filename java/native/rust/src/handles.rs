//! Numbers that Java holds instead of pointers.
//!
//! A handle is `tag (8 bits) | generation (24 bits) | slot (32 bits)`. The slot finds the object.
//! The generation tells whether the slot still has the object that the handle was made for. The tag
//! refuses the handle of another kind of object. Zero is never a handle.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::failure::{Failure, Kind};

const GENERATION_MAX: u32 = (1 << 24) - 1;

/// The live objects of one kind.
pub(crate) struct Handles<T> {
    name: &'static str,
    tag: u8,
    table: RwLock<Table<T>>,
}

struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

struct Slot<T> {
    generation: u32,
    object: Option<Arc<T>>,
}

impl<T> Handles<T> {
    /// An empty table. `tag` is 1..=127, different for each kind of object.
    pub(crate) const fn new(name: &'static str, tag: u8) -> Handles<T> {
        Handles { name, tag, table: RwLock::new(Table { slots: Vec::new(), free: Vec::new() }) }
    }

    /// Keeps `object` and gives it a number.
    pub(crate) fn insert(&self, object: T) -> i64 {
        let mut table = self.write();
        let slot = match table.free.pop() {
            Some(slot) => slot,
            None => {
                table.slots.push(Slot { generation: 1, object: None });
                table.slots.len() as u32 - 1
            }
        };
        let entry = &mut table.slots[slot as usize];
        entry.object = Some(Arc::new(object));
        self.number(slot, entry.generation)
    }

    /// The object of a handle; it lives at least as long as the returned `Arc`.
    pub(crate) fn get(&self, handle: i64) -> Result<Arc<T>, Failure> {
        let table = self.read();
        let slot = self.slot(&table, handle)?;
        table.slots[slot].object.clone().ok_or_else(|| self.closed())
    }

    /// Removes a handle. The object is freed when its last running call ends.
    pub(crate) fn remove(&self, handle: i64) -> Result<Arc<T>, Failure> {
        let mut table = self.write();
        let slot = self.slot(&table, handle)?;
        let entry = &mut table.slots[slot];
        let object = entry.object.take().ok_or_else(|| self.closed())?;
        // A slot that has used up its generations is retired: an old handle never fits again.
        if entry.generation < GENERATION_MAX {
            entry.generation += 1;
            table.free.push(slot as u32);
        }
        Ok(object)
    }

    fn number(&self, slot: u32, generation: u32) -> i64 {
        i64::from(self.tag) << 56 | i64::from(generation) << 32 | i64::from(slot)
    }

    fn slot(&self, table: &Table<T>, handle: i64) -> Result<usize, Failure> {
        let slot = handle as u32;
        match table.slots.get(slot as usize) {
            Some(entry) if self.number(slot, entry.generation) == handle => Ok(slot as usize),
            Some(entry) if self.is_older(slot, entry.generation, handle) => Err(self.closed()),
            _ => Err(Failure::invalid(format!(
                "{handle:#x} is no {}; use the handle that its constructor returned.",
                self.name
            ))),
        }
    }

    fn is_older(&self, slot: u32, generation: u32, handle: i64) -> bool {
        handle >= self.number(slot, 1) && handle < self.number(slot, generation)
    }

    fn closed(&self) -> Failure {
        Failure::new(Kind::Closed, format!("This {} is closed; open a new one.", self.name))
    }

    // No table operation can panic half way, so a poisoned lock would guard nothing.
    fn read(&self) -> RwLockReadGuard<'_, Table<T>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table<T>> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_finds_its_object_until_it_is_removed() {
        let handles = Handles::new("thing", 3);
        let a = handles.insert("a");
        let b = handles.insert("b");
        assert_eq!(*handles.get(a).unwrap(), "a");
        assert_eq!(*handles.get(b).unwrap(), "b");
        assert_eq!(*handles.remove(a).unwrap(), "a");
        assert_eq!(handles.get(a).unwrap_err().kind, Kind::Closed);
        assert_eq!(handles.remove(a).unwrap_err().kind, Kind::Closed);
        assert_eq!(*handles.get(b).unwrap(), "b");
    }

    #[test]
    fn a_reused_slot_refuses_the_old_handle() {
        let handles = Handles::new("thing", 3);
        let old = handles.insert(1);
        handles.remove(old).unwrap();
        let new = handles.insert(2);
        assert_eq!(old as u32, new as u32, "the slot is reused");
        assert_eq!(handles.get(old).unwrap_err().kind, Kind::Closed);
        assert_eq!(*handles.get(new).unwrap(), 2);
    }

    #[test]
    fn made_up_and_foreign_handles_are_invalid() {
        let handles = Handles::new("thing", 3);
        let foreign = Handles::new("other", 4);
        handles.insert(1);
        let other = foreign.insert(2);
        for wrong in [0, 1, -1, i64::MIN, i64::MAX, other, 3 << 56 | 2 << 32] {
            assert_eq!(handles.get(wrong).unwrap_err().kind, Kind::Invalid, "{wrong:#x}");
        }
    }

    #[test]
    fn a_slot_without_generations_left_is_retired() {
        let handles = Handles::new("thing", 3);
        let first = handles.insert(0);
        handles.write().slots[0].generation = GENERATION_MAX;
        let last = handles.number(0, GENERATION_MAX);
        handles.remove(last).unwrap();
        let next = handles.insert(1);
        assert_eq!(next as u32, 1, "another slot");
        assert_eq!(handles.get(first).unwrap_err().kind, Kind::Closed);
        assert_eq!(handles.get(last).unwrap_err().kind, Kind::Closed);
    }

    #[test]
    fn removing_waits_for_nobody_and_frees_nothing_in_use() {
        let handles = Handles::new("thing", 3);
        let handle = handles.insert(vec![1, 2, 3]);
        let used = handles.get(handle).unwrap();
        drop(handles.remove(handle).unwrap());
        assert_eq!(*used, [1, 2, 3]);
    }
}
