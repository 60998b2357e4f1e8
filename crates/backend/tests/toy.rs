//! An operation outside this crate. It needs a trait, an entry in the list of operations that
//! composed backends forward, and a method of each backend that does not use the default body.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use spirea_backend::{BackendError, Observed, Observer, Operation, Split, Timed, check_answers, forward};

/// A backend that adds up answers.
trait Sums: Send + Sync {
    /// Returns the sum of the words of each answer, modulo 2^32.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the words do not divide evenly among the queries.
    fn sums(&self, queries: usize, words: &[u32]) -> Result<Vec<u32>, BackendError> {
        check_answers(queries, words.len())?;
        let answers = words.chunks_exact(words.len() / queries);
        Ok(answers.map(|answer| answer.iter().copied().fold(0, u32::wrapping_add)).collect())
    }
}

forward! {
    Rings rings: Sums {
        fn sums(&self, queries: usize, words: &[u32]) -> Vec<u32> => SUMS;
    }
}

const SUMS: Operation = Operation::Other { name: "sums", step: "fold_again" };

/// Backend with only the default body.
struct Toy;

impl Sums for Toy {}

/// Backend with its own body, which counts its calls.
#[derive(Default)]
struct Quick(AtomicUsize);

impl Sums for Quick {
    fn sums(&self, queries: usize, words: &[u32]) -> Result<Vec<u32>, BackendError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        check_answers(queries, words.len())?;
        let of_answer = words.len() / queries;
        let mut sums = vec![0u32; queries];
        words.iter().enumerate().for_each(|(i, word)| {
            sums[i / of_answer] = sums[i / of_answer].wrapping_add(*word);
        });
        Ok(sums)
    }
}

/// Observer that records operations and their success.
#[derive(Default)]
struct Notes(Mutex<Vec<(Operation, bool)>>);

impl Observer for Notes {
    fn observe<T>(
        &self,
        operation: Operation,
        work: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        let result = work();
        self.0.lock().push((operation, result.is_ok()));
        result
    }
}

const WORDS: [u32; 6] = [1, 2, 3, u32::MAX, 5, 7];

fn adds_up(backend: &impl Sums) {
    assert_eq!(backend.sums(2, &WORDS).unwrap(), [6, 11]);
    assert_eq!(backend.sums(6, &WORDS).unwrap(), WORDS);
    assert!(matches!(backend.sums(4, &WORDS), Err(BackendError::Shape(_))));
}

#[test]
fn a_backend_has_an_added_operation_by_its_default_body() {
    adds_up(&Toy);
    adds_up(&Split::new(Arc::new(Toy), Arc::new(())));
    adds_up(&Timed::new(Arc::new(Toy)));
}

#[test]
fn composed_backends_run_the_body_of_the_backend_instead_of_the_default() {
    let quick = Arc::new(Quick::default());
    let split = Split::new(Arc::clone(&quick), Arc::new(()));
    let observed = Observed::<_, Notes>::new(Arc::new(split));
    adds_up(&observed);
    assert_eq!(quick.0.load(Ordering::Relaxed), 3);
    assert_eq!(*observed.observer().0.lock(), [(SUMS, true), (SUMS, true), (SUMS, false)]);
}

#[test]
fn the_time_of_an_added_operation_is_that_of_its_step() {
    let timed = Timed::new(Arc::new(Quick::default()));
    adds_up(&timed);
    assert_eq!(timed.observer().take().into_keys().collect::<Vec<_>>(), ["fold_again"]);
}
