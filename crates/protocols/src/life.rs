//! The life of a secret that several threads use. It ends with the first answer that does not
//! verify.
//!
//! The module depends only on the locks of `super::sync`, so that `conformance/interleavings` can
//! test it with loom's locks.

use super::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Error: the secret ended before this answer was decided on, so the caller withholds the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

/// A secret and its replacement.
pub struct Life<S>(RwLock<Secrets<S>>);

struct Secrets<S> {
    /// Encrypts queries and reads answers.
    current: S,
    /// Replaces `current` at the end. Drawn in advance, so that ending takes no extra time.
    spare: Option<S>,
}

impl<S> Life<S> {
    /// Creates a life that begins with `current` and ends with `spare`.
    pub fn new(current: S, spare: S) -> Self {
        Self(RwLock::new(Secrets { current, spare: Some(spare) }))
    }

    /// Drops the secret permanently and replaces it by the spare.
    ///
    /// # Errors
    /// [`Ended`] if it had ended before.
    pub fn end(&self) -> Result<(), Ended> {
        let mut secrets = self.0.write().unwrap_or_else(PoisonError::into_inner);
        secrets.current = secrets.spare.take().ok_or(Ended)?;
        Ok(())
    }

    /// Decides on an answer that verified: it counts only if no other answer was refused before.
    ///
    /// A server with two answers in flight therefore learns from the first refusal only.
    ///
    /// # Errors
    /// [`Ended`] if an answer was refused before.
    pub fn accept(&self) -> Result<(), Ended> {
        if self.secrets().spare.is_none() { Err(Ended) } else { Ok(()) }
    }

    /// Applies `read` to the secret, or after the end to the spare.
    pub fn read<T>(&self, read: impl FnOnce(&S) -> T) -> T {
        read(&self.secrets().current)
    }

    // Poisoning is ignored: a reader that panicked has changed nothing, and `end` cannot panic.
    fn secrets(&self) -> RwLockReadGuard<'_, Secrets<S>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}
