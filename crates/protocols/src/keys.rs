//! Evaluation keys: the client's, with their secret, and the server's, in the form that it computes
//! with.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use spirea_lattice::rlwe::{KeyShape, RingSecret};
use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use crate::life::{Ended, Life};
use crate::process::Process;

/// A client's ring secret with its evaluation keys. Clients of the delta and of other versions of
/// the database reuse them if they need keys of the same shape. Clones share the keys: if one ends,
/// all end.
#[derive(Clone)]
pub struct ClientKeys(Arc<SecretAndKeys>);

struct SecretAndKeys {
    shape: KeyShape,
    bytes: Vec<u8>,
    secret: Life<RingSecret>,
    queries: AtomicU64,
    /// The process that made or restored the keys. A copy of the process ends the keys before it
    /// makes a query.
    process: Process,
}

impl ClientKeys {
    /// Returns the keys of this shape among `known`, or makes new ones.
    pub fn of_shape(shape: KeyShape, known: &[Self], rng: &mut SecretRng) -> Self {
        known.iter().find(|keys| keys.0.shape == shape).cloned().unwrap_or_else(|| {
            let current = RingSecret::sample(shape.set, rng);
            let bytes = current.evaluation_keys(&shape, rng);
            let secret = Life::new(current, RingSecret::sample(shape.set, rng));
            Self(Arc::new(SecretAndKeys {
                shape,
                bytes,
                secret,
                queries: AtomicU64::new(0),
                process: Process::current(),
            }))
        })
    }

    /// Returns true if `self` and `other` share the same keys, so that both end if one ends.
    pub fn are(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Erases the secret permanently, for all clones of these keys. A random secret takes its
    /// place: queries are made as before and name the same keys, but nobody can read their answers.
    pub fn end(&self) {
        // An error means that the secret had already ended.
        let _ = self.0.secret.end();
    }

    /// Refuses an answer, and ends the keys like [`Self::end`].
    ///
    /// # Errors
    /// [`Ended`] if the keys ended before, by another refused answer or [`Self::end`]. The caller
    /// then reports that the keys have ended, so that the server learns nothing from this answer.
    pub fn refuse(&self) -> Result<(), Ended> {
        self.0.secret.end()
    }

    /// Accepts an answer that verified.
    ///
    /// # Errors
    /// [`Ended`] if any thread refused an answer before, if the keys have ended, or if this process
    /// is a copy. The caller then withholds this answer.
    pub fn accept(&self) -> Result<(), Ended> {
        self.end_copies();
        self.0.secret.accept()
    }

    /// Returns true if the secret has been erased. In a copy of the process, this call erases the
    /// secret: otherwise a lying server could make each copy refuse an answer, and learn from each
    /// refusal.
    pub fn have_ended(&self) -> bool {
        self.accept().is_err()
    }

    fn end_copies(&self) {
        if self.0.process != Process::current() {
            self.end();
        }
    }

    /// Adds to the number of queries made under these keys.
    pub fn count_queries(&self, queries: u64) {
        self.0.queries.fetch_add(queries, Ordering::Relaxed);
    }

    /// Returns the number of queries counted.
    pub fn queries(&self) -> u64 {
        self.0.queries.load(Ordering::Relaxed)
    }

    /// Returns the evaluation keys, as sent to a server.
    pub fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// Returns the keys for storage; `None` if they have ended.
    pub fn save(&self) -> Option<SavedKeys> {
        let secret = self.with_secret(RingSecret::to_bytes);
        // This check follows the read of the secret, so that the spare secret of ended keys is
        // never saved.
        self.accept().ok()?;
        Some(SavedKeys {
            shape: self.0.shape.to_string(),
            bytes: self.0.bytes.clone(),
            secret,
            queries: self.queries(),
        })
    }

    /// Restores saved keys; `None` unless their shape is among `shapes`, their length is that of
    /// the shape, and the secret is intact. The caller must ensure that the keys match the secret.
    pub fn restore(
        saved: SavedKeys,
        mut shapes: impl Iterator<Item = KeyShape>,
        rng: &mut SecretRng,
    ) -> Option<Self> {
        let SavedKeys { shape: name, bytes, secret, queries } = saved;
        let shape = shapes.find(|shape| shape.to_string() == name && shape.bytes() == bytes.len())?;
        let current = RingSecret::from_bytes(shape.set, &secret).ok()?;
        let secret = Life::new(current, RingSecret::sample(shape.set, rng));
        let (queries, process) = (queries.into(), Process::current());
        Some(Self(Arc::new(SecretAndKeys { shape, bytes, secret, queries, process })))
    }

    /// Encrypts a query under the secret. In a copy of the process, the secret is first replaced by
    /// a random one: queries look as usual, and their answers cannot be read.
    pub(crate) fn encrypt<T>(&self, encrypt: impl FnOnce(&RingSecret) -> T) -> T {
        self.end_copies();
        self.with_secret(encrypt)
    }

    /// Applies `read` to the secret.
    pub(crate) fn with_secret<T>(&self, read: impl FnOnce(&RingSecret) -> T) -> T {
        self.0.secret.read(read)
    }
}

/// Stored form of [`ClientKeys`], for another session. The secret decrypts all queries made under
/// it.
pub struct SavedKeys {
    /// Name of their shape.
    pub shape: String,
    /// The evaluation keys.
    pub bytes: Vec<u8>,
    /// The secret.
    pub secret: Zeroizing<Vec<u8>>,
    /// Number of queries counted.
    pub queries: u64,
}

/// Evaluation keys in the form that answering needs. Made once from a client's bytes by
/// [`Responder::prepare_keys`](crate::Responder::prepare_keys). Clones share them.
#[derive(Clone)]
pub struct PreparedKeys {
    value: Arc<dyn Any + Send + Sync>,
    bytes: usize,
}

impl PreparedKeys {
    /// Wraps keys that take `bytes` of memory.
    pub fn new<T: Any + Send + Sync>(value: Arc<T>, bytes: usize) -> Self {
        Self { value, bytes }
    }

    /// Returns the keys of a server that does not compute with them.
    pub(crate) fn unused() -> Self {
        Self::new(Arc::new(()), 0)
    }

    /// Returns the keys if they are of type `T`.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.value.downcast_ref()
    }

    /// Returns the number of bytes of memory that they take.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use spirea_lattice::RingSet;
    use spirea_lattice::rlwe::Conversion;

    use super::*;

    fn shape(levels: u32) -> KeyShape {
        KeyShape { set: RingSet::Small, levels, rotations: None, conversion: Conversion::None }
    }

    #[test]
    fn keys_of_a_known_shape_are_shared_and_end_together() {
        let mut rng = SecretRng::deterministic_for_tests(1);
        let keys = ClientKeys::of_shape(shape(1), &[], &mut rng);
        let shared = ClientKeys::of_shape(shape(1), std::slice::from_ref(&keys), &mut rng);
        let other = ClientKeys::of_shape(shape(2), std::slice::from_ref(&keys), &mut rng);
        assert!(shared.bytes() == keys.bytes() && other.bytes().len() == shape(2).bytes());
        keys.count_queries(3);
        shared.count_queries(4);
        assert_eq!((keys.queries(), other.queries()), (7, 0));
        let secret = |keys: &ClientKeys| keys.with_secret(|secret| secret.to_bytes().to_vec());
        let before = secret(&keys);
        assert!(!keys.have_ended() && keys.save().is_some());
        shared.end();
        assert!(keys.have_ended() && keys.save().is_none() && !other.have_ended());
        // A second end has no effect; the erased secret does not come back.
        let spare = secret(&keys);
        keys.end();
        assert!(spare != before && secret(&shared) == spare);
    }

    #[test]
    fn a_copy_in_another_process_encrypts_under_another_secret_and_accepts_nothing() {
        let mut rng = SecretRng::deterministic_for_tests(3);
        let secret = |secret: &RingSecret| secret.to_bytes().to_vec();
        for another in Process::others() {
            let mut copied = || {
                let mut keys = ClientKeys::of_shape(shape(1), &[], &mut rng);
                Arc::get_mut(&mut keys.0).unwrap().process = another.clone();
                let before = keys.with_secret(secret);
                (keys, before)
            };
            let [(asking, before), (accepting, _), (saving, _)] = std::array::from_fn(|_| copied());
            assert!(asking.encrypt(secret) != before, "{another:?}");
            assert_eq!(accepting.accept(), Err(Ended), "{another:?}");
            assert!(saving.save().is_none(), "{another:?}");
        }
    }

    #[test]
    fn saved_keys_are_restored_if_their_shape_and_length_are_known() {
        let mut rng = SecretRng::deterministic_for_tests(2);
        let keys = ClientKeys::of_shape(shape(1), &[], &mut rng);
        keys.count_queries(5);
        let mut restore = |change: fn(&mut SavedKeys), shapes: &[KeyShape]| {
            let mut saved = keys.save().unwrap();
            change(&mut saved);
            ClientKeys::restore(saved, shapes.iter().copied(), &mut rng)
        };
        let shapes = [shape(2), shape(1)];
        let restored = restore(|_| (), &shapes).unwrap();
        assert_eq!((restored.bytes(), restored.queries()), (keys.bytes(), 5));
        let secret = |keys: &ClientKeys| keys.with_secret(|secret| secret.to_bytes().to_vec());
        assert!(secret(&restored) == secret(&keys) && !restored.have_ended());
        assert!(restore(|_| (), &shapes[..1]).is_none());
        assert!(restore(|saved| saved.shape.push('x'), &shapes).is_none());
        assert!(restore(|saved| saved.bytes.push(0), &shapes).is_none());
        assert!(restore(|saved| saved.secret[0] = 3, &shapes).is_none());
    }
}
