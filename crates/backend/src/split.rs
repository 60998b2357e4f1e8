//! Rings on one backend, shares on another.

use std::sync::Arc;

use crate::{BackendError, Composed, Operation};

/// Rings and matrices on one backend, shares on another.
#[derive(Clone, Debug)]
pub struct Split<R, S> {
    rings: Arc<R>,
    shares: Arc<S>,
}

impl<R, S> Split<R, S> {
    /// Combines the two backends into one.
    pub fn new(rings: Arc<R>, shares: Arc<S>) -> Self {
        Self { rings, shares }
    }
}

impl<R: Send + Sync + 'static, S: Send + Sync + 'static> Composed for Split<R, S> {
    type Rings = R;
    type Shares = S;

    fn rings(&self) -> &R {
        &self.rings
    }

    fn shares(&self) -> &S {
        &self.shares
    }

    fn run<T>(
        &self,
        _: Operation,
        work: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        work()
    }
}

#[cfg(test)]
mod tests {

    use std::sync::atomic::{AtomicUsize, Ordering};

    use spirea_dpf::{Domain, Key, OutputKind, PrfKind, select};
    use spirea_math::random::SecretRng;

    use super::*;
    use crate::{
        Backend as _, FileRows, NaiveBackend, PanelLayout, ProtocolBackend, RowLayout, ShareBackend,
        ShareFold,
    };

    /// Backend that only folds by shares, and counts the keys that it receives.
    struct Shares {
        keys: AtomicUsize,
    }

    impl ShareBackend for Shares {
        type Rows = <NaiveBackend as ShareBackend>::Rows;

        fn upload_rows(&self, layout: RowLayout, bytes: &[u8]) -> Result<Self::Rows, BackendError> {
            NaiveBackend.upload_rows(layout, bytes)
        }

        fn open_rows(&self, stored: FileRows<'_, RowLayout>) -> Result<Self::Rows, BackendError> {
            NaiveBackend.open_rows(stored)
        }

        fn row_layout(&self, rows: &Self::Rows) -> RowLayout {
            NaiveBackend.row_layout(rows)
        }

        fn share_fold(
            &self,
            rows: &Self::Rows,
            first_row: usize,
            prf: PrfKind,
            keys: &[Key],
        ) -> Result<Vec<u8>, BackendError> {
            self.keys.fetch_add(keys.len(), Ordering::Relaxed);
            NaiveBackend.share_fold(rows, first_row, prf, keys)
        }

        fn share_folds(
            &self,
            rows: &Self::Rows,
            prf: PrfKind,
            folds: &[ShareFold<'_>],
        ) -> Result<Vec<u8>, BackendError> {
            self.keys.fetch_add(folds.iter().map(|fold| fold.keys.len()).sum(), Ordering::Relaxed);
            NaiveBackend.share_folds(rows, prf, folds)
        }
    }

    fn folded<B: ProtocolBackend>(backend: &B) -> (Vec<u32>, Vec<u8>) {
        let layout = PanelLayout::covering(32, 4).unwrap();
        let matrix = backend.upload(layout, &[3; 128]).unwrap();
        let answer = backend.words(backend.scalar_fold(&matrix, &[1, 2, 3, 4]).unwrap()).unwrap();
        let layout = RowLayout::new(8, 4, 1).unwrap();
        let rows = backend.upload_rows(layout, &(0..32).collect::<Vec<u8>>()).unwrap();
        let domain = Domain::new(8, OutputKind::Bit).unwrap();
        let mut rng = SecretRng::deterministic_for_tests(1);
        let keys = select(PrfKind::ChaCha12, domain, 5, &mut rng).unwrap();
        let fold = ShareFold { first_row: 0, keys: &keys[..1] };
        let folded = backend.share_fold(&rows, 0, PrfKind::ChaCha12, fold.keys).unwrap();
        let folds = backend.share_folds(&rows, PrfKind::ChaCha12, &[fold, fold]).unwrap();
        assert_eq!(folds, [&folded[..], &folded].concat());
        (answer, folded)
    }

    #[test]
    fn a_split_backend_has_rings_from_one_and_shares_from_another() {
        let shares = Arc::new(Shares { keys: AtomicUsize::new(0) });
        let split = Split::new(Arc::new(NaiveBackend), Arc::clone(&shares));
        assert_eq!(folded(&split), folded(&NaiveBackend));
        assert_eq!(shares.keys.load(Ordering::Relaxed), 3);
        assert_eq!((split.name(), split.id()), (NaiveBackend.name(), NaiveBackend.id()));
    }
}
