//! Buffers that a call borrows and returns, so that no query allocates.

use std::sync::{Mutex, PoisonError};

/// Idle buffers; at most as many as calls that ever ran at once.
#[derive(Debug, Default)]
pub(crate) struct Pool<T>(Mutex<Vec<T>>);

impl<T: Default> Pool<T> {
    /// Runs `work` with a buffer of the pool. If `work` panics, the buffer is dropped, not
    /// returned.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut buffer = self.idle().pop().unwrap_or_default();
        let result = work(&mut buffer);
        self.idle().push(buffer);
        result
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back() {
        let pool: Pool<Vec<u8>> = Pool::default();
        pool.with(|buffer| buffer.reserve_exact(100));
        pool.with(|buffer| assert_eq!(buffer.capacity(), 100));
    }

    #[test]
    fn calls_within_calls_get_their_own() {
        let pool: Pool<Vec<u8>> = Pool::default();
        pool.with(|outer| {
            outer.push(1);
            pool.with(|inner| assert!(inner.is_empty()));
        });
        assert_eq!(pool.idle().len(), 2);
    }
}
