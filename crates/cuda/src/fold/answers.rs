//! Host memory that receives results.

use parking_lot::Mutex;
use rayon::prelude::*;
use spirea_backend::BackendError;

use crate::driver::{Pinned, Stream, View};

/// Words that a thread copies at once.
const PIECE: usize = (1 << 20) / 4;

/// Pinned buffer through which a device's results return, as large as the largest results so far.
/// The device copies to it at the rate of the bus, several times faster than to pageable memory.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<Option<Pinned<u32>>>);

impl Arrivals {
    /// Copies the words from the device, after all queued work, and returns the result of `take`,
    /// which reads them in the pinned buffer. `take` must not call [`Self::download`] on the same
    /// value, which is locked.
    pub(crate) fn download<T>(
        &self,
        stream: &Stream,
        from: &View<'_, u32>,
        take: impl FnOnce(&[u32]) -> T,
    ) -> Result<T, BackendError> {
        // A caller that failed or panicked has taken the buffer and not returned it.
        let mut kept = self.0.lock();
        let mut pinned = match kept.take().filter(|pinned| pinned.len() >= from.len()) {
            Some(pinned) => pinned,
            None => Pinned::new(stream.device(), from.len())?,
        };
        stream.download(from, &mut pinned[..from.len()])?;
        let taken = take(&pinned[..from.len()]);
        kept.replace(pinned);
        Ok(taken)
    }
}

/// Returns a copy of `words`; several threads make a copy of more than a piece.
pub(super) fn copy_of(words: &[u32]) -> Vec<u32> {
    if words.len() <= PIECE {
        return words.to_vec();
    }
    // Each thread touches its part of the new memory first.
    let mut copy = vec![0; words.len()];
    let pieces = copy.par_chunks_mut(PIECE).zip(words.par_chunks(PIECE));
    pieces.for_each(|(to, from)| to.copy_from_slice(from));
    copy
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use spirea_cuda_emulation::{Config, Emulation};

    use super::*;
    use crate::driver::Device;

    /// Tests lengths below the kept buffer's, above it, and 0, and copies of one and several
    /// pieces.
    #[test]
    fn all_words_arrive_through_one_buffer() {
        Emulation::install(Config::default()).in_every_order(|| {
            let (device, arrivals) = (Device::open(0).unwrap(), Arrivals::default());
            for (length, kept) in
                [(5, 5), (3, 5), (0, 5), (2 * PIECE + 3, 2 * PIECE + 3), (PIECE, 2 * PIECE + 3)]
            {
                let words: Vec<u32> = (0..length as u32).map(|i| i.wrapping_mul(0x9e37_79b1)).collect();
                let sent = device.upload(&words).unwrap();
                let arrived = arrivals.download(&device.main(), &sent.all(), copy_of).unwrap();
                assert!(arrived == words, "{length} words");
                assert_eq!(arrivals.0.lock().as_ref().map(|pinned| pinned.len()), Some(kept));
            }
        });
    }

    #[test]
    fn words_arrive_after_a_reader_panicked() {
        Emulation::install(Config::default()).in_every_order(|| {
            let (device, arrivals) = (Device::open(0).unwrap(), Arrivals::default());
            let sent = device.upload(&[1, 2, 3]).unwrap();
            let reader = |words: &[u32]| panic!("cannot read {words:?}");
            let download = || arrivals.download::<()>(&device.main(), &sent.all(), reader);
            assert!(catch_unwind(AssertUnwindSafe(download)).is_err());
            assert_eq!(arrivals.download(&device.main(), &sent.all(), <[u32]>::to_vec).unwrap(), [1, 2, 3]);
        });
    }
}
