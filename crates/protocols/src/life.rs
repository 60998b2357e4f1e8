//! The life of a secret that several threads use: until the first answer that does not verify.
//!
//! The module has no dependency but the locks of `super::sync`, so that `conformance/interleavings` can test it with those of loom.

use super::sync::{PoisonError, RwLock, RwLockReadGuard};

/// The secret ended before this answer was decided on, so the caller withholds the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

/// A secret, and one to take its place.
pub struct Life<S>(RwLock<Secrets<S>>);

struct Secrets<S> {
    /// The one that queries are made under and answers are read with.
    current: S,
    /// Takes the place of `current` at the end. It is drawn with it, so that the end takes no time of its own.
    spare: Option<S>,
}

impl<S> Life<S> {
    /// A life that begins with `current` and ends with `spare`.
    pub fn new(current: S, spare: S) -> Self {
        Self(RwLock::new(Secrets { current, spare: Some(spare) }))
    }

    /// Drops the secret, for good. The spare takes its place.
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
    /// A server that has two answers in flight therefore learns from one refusal, the first, and not from each.
    ///
    /// # Errors
    /// [`Ended`] if one was.
    pub fn accept(&self) -> Result<(), Ended> {
        if self.secrets().spare.is_none() { Err(Ended) } else { Ok(()) }
    }

    /// The result of reading the secret, or the spare after the end.
    pub fn read<T>(&self, read: impl FnOnce(&S) -> T) -> T {
        read(&self.secrets().current)
    }

    // A reader that panicked has changed nothing; `end` cannot panic.
    fn secrets(&self) -> RwLockReadGuard<'_, Secrets<S>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}
