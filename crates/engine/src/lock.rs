use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even after a panic. Code under a lock never panics, so the data is consistent.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
