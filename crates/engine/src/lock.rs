use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also after a panic: nothing that can panic runs while a lock guards data, so the data is whole.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
