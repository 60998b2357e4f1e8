//! Copies of values to a device through pinned memory, in parallel with its computation.
//!
//! A [`Conveyor`] has two lanes, each a stream with pinned memory: the host fills one lane while
//! the device copies from the other. Files ([`upload_file`]) and the words of queries ([`Staging`])
//! are copied in this way.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use parking_lot::Mutex;
use rayon::prelude::*;
use spirea_backend::{BackendError, FileLayout, FileRows, QueryWords};

use crate::driver::{Buffer, Device, Event, Pinned, Stream, View};

/// Bytes of a chunk of a file: long enough to make the cost of starting a copy negligible.
const CHUNK: usize = 32 << 20;
/// Bytes that a thread reads at once.
const PIECE: usize = 4 << 20;
/// Words of queries in a lane: one lane is copied while the next one is written. All threads wait
/// for each other at the end of a lane, so shorter lanes cost more
/// (docs/kernels/cuda-scalar-fold.md).
const LANE_WORDS: usize = 1 << 22;
/// Maximum number of words that the driver reads during the call, from any memory, and then copies
/// in the stream's order. With more words, the call would wait for the copy.
const TAKEN_AT_ONCE: usize = (64 << 10) / 4;
/// Words that a thread writes at once.
const WORDS: usize = 1 << 15;

/// Two lanes that take turns.
#[derive(Debug)]
struct Conveyor<T> {
    lanes: [Lane<T>; 2],
    next: usize,
}

/// Stream with the pinned host memory that it copies from.
#[derive(Debug)]
struct Lane<T> {
    stream: Stream,
    values: Arc<Pinned<T>>,
    /// End of the last copy from this memory.
    copied: Option<Event>,
}

impl<T: Pod> Conveyor<T> {
    /// Creates lanes of `length` values each, ordered after the work queued on the main stream.
    fn new(device: &Arc<Device>, length: usize) -> Result<Self, BackendError> {
        let lane = || -> Result<Lane<T>, BackendError> {
            let (stream, values) = (device.stream()?, Arc::new(Pinned::new(device, length)?));
            stream.after(&device.main())?;
            Ok(Lane { stream, values, copied: None })
        };
        Ok(Self { lanes: [lane()?, lane()?], next: 0 })
    }

    /// Lets `write` fill the next lane, and queues its copy to `to`, which must not be longer than
    /// a lane.
    fn copy(
        &mut self,
        to: &View<'_, T>,
        write: impl FnOnce(&mut [T]) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        let lane = &mut self.lanes[self.next];
        self.next = 1 - self.next;
        if let Some(copied) = lane.copied.take() {
            copied.wait()?;
        }
        let values = Arc::get_mut(&mut lane.values).expect("nobody else has it");
        write(&mut values[..to.len()])?;
        lane.stream.upload_pinned(&lane.values, 0..to.len(), to)?;
        lane.copied = Some(lane.stream.record()?);
        Ok(())
    }

    fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.lanes.iter().map(|lane| &lane.stream)
    }
}

/// Room on a device for the words of a batch, kept for the next batch. Words are copied while the
/// device still computes earlier batches.
#[derive(Debug, Default)]
pub(crate) struct Staging(Mutex<Option<Room>>);

#[derive(Debug)]
struct Room {
    words: Buffer<u32>,
    conveyor: Conveyor<u32>,
}

impl Staging {
    /// Copies the words of a batch to the device. `read` queues the work that reads them on
    /// `stream`. Nothing reads the source once this returns.
    ///
    /// # Errors
    /// The errors of `read`; [`BackendError::Unavailable`] if there is no room.
    pub fn stage<T>(
        &self,
        stream: &Stream,
        queries: &dyn QueryWords,
        read: impl FnOnce(&View<'_, u32>) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        let (device, length) = (stream.device(), queries.count());
        if length <= TAKEN_AT_ONCE {
            let mut words = vec![0; length];
            queries.write(0, &mut words);
            let taken = stream.alloc(length)?;
            stream.upload(&words, &taken.all())?;
            return read(&taken.all());
        }
        // A caller that failed or panicked has taken the room and not returned it.
        let mut kept = self.0.lock();
        let mut room = match kept.take().filter(|room| room.words.len() >= length) {
            Some(room) => room,
            None => Room::new(device, length)?,
        };
        room.write(queries)?;
        room.conveyor.streams().try_for_each(|lane| stream.after(lane))?;
        let value = read(&room.words.range(0..length));
        // The lanes wait also after a failure, because the words may be overwritten or freed only
        // after the stream has read them.
        room.conveyor.streams().try_for_each(|lane| lane.after(stream))?;
        let value = value?;
        kept.replace(room);
        Ok(value)
    }
}

impl Room {
    fn new(device: &Arc<Device>, length: usize) -> Result<Self, BackendError> {
        let words = device.alloc(length)?;
        Ok(Self { words, conveyor: Conveyor::new(device, length.min(LANE_WORDS))? })
    }

    fn write(&mut self, queries: &dyn QueryWords) -> Result<(), BackendError> {
        let length = queries.count();
        (0..length).step_by(LANE_WORDS).try_for_each(|start| {
            let to = self.words.range(start..length.min(start + LANE_WORDS));
            self.conveyor.copy(&to, |words| {
                let pieces = words.par_chunks_mut(WORDS).enumerate();
                pieces.for_each(|(i, piece)| queries.write(start + i * WORDS, piece));
                Ok(())
            })
        })
    }
}

impl Drop for Room {
    /// Makes the main stream, which frees the words, wait for the lanes. The lanes wait for the
    /// readers of the words.
    fn drop(&mut self) {
        let main = self.words.device().main();
        for lane in self.conveyor.streams() {
            // A lost device returns only errors.
            let _ = main.after(lane);
        }
    }
}

/// Rows of words in memory, all of the same length, as a batch.
pub(crate) struct RowWords<'a>(pub &'a [&'a [u32]]);

impl QueryWords for RowWords<'_> {
    fn count(&self) -> usize {
        self.0.iter().map(|row| row.len()).sum()
    }

    fn write(&self, first: usize, mut to: &mut [u32]) {
        let length = self.0[0].len();
        let mut from = first;
        while !to.is_empty() {
            let row = &self.0[from / length][from % length..];
            let (piece, rest) = to.split_at_mut(row.len().min(to.len()));
            piece.copy_from_slice(&row[..piece.len()]);
            from += piece.len();
            to = rest;
        }
    }
}

/// Copies rows of a file to the device: checks the file's length, allocates with `room`, fills the
/// buffer that `bytes` returns, and returns the result of `room`. All threads read one chunk while
/// the previous chunk is copied.
///
/// # Errors
/// [`BackendError::Io`] if the file cannot be read, [`BackendError::Shape`] as for
/// [`FileLayout::part`] and [`FileLayout::check_length`], and the errors of `room`.
///
/// # Panics
/// If the buffer is shorter than the rows.
pub(crate) fn upload_file<L: FileLayout, T>(
    device: &Arc<Device>,
    stored: &FileRows<'_, L>,
    room: impl FnOnce(L) -> Result<T, BackendError>,
    bytes: impl FnOnce(&T) -> &Buffer<u8>,
) -> Result<T, BackendError> {
    stored.check_length()?;
    let rows = room(stored.part()?)?;
    let (buffer, ranges) = (bytes(&rows), stored.ranges());
    let longest = ranges.iter().map(Range::len).max().unwrap_or(0).min(CHUNK);
    let mut conveyor = Conveyor::new(device, longest)?;
    let mut chunks = ranges
        .iter()
        .flat_map(|range| range.clone().step_by(CHUNK).map(|start| start..range.end.min(start + CHUNK)));
    let mut end = 0;
    let copied = chunks.try_for_each(|chunk| {
        let start = end;
        end += chunk.len();
        conveyor.copy(&buffer.range(start..end), |bytes| {
            bytes
                .par_chunks_mut(PIECE)
                .enumerate()
                .try_for_each(|(i, piece)| stored.file.read_exact_at(piece, (chunk.start + i * PIECE) as u64))
                .map_err(|source| stored.failed(source))
        })
    });
    // Waits also after a failure, because the lanes must live until their copies have run.
    let ended = conveyor.streams().try_for_each(Stream::synchronize);
    copied?;
    ended?;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use spirea_backend::{Backend, GROUP_WORDS, PanelLayout};
    use spirea_cuda_emulation::{Config, Emulation, StreamOrder};

    use super::*;
    use crate::CudaBackend;
    use crate::fold::ScalarFoldPlan;

    fn emulation() -> &'static Emulation {
        Emulation::install(Config::default())
    }

    /// Returns rows of words that differ from row to row.
    fn rows(count: usize, length: usize, seed: u32) -> Vec<Vec<u32>> {
        (0..count as u32).map(|row| (0..length as u32).map(|i| seed + (row << 24) + i).collect()).collect()
    }

    fn borrowed(rows: &[Vec<u32>]) -> Vec<&[u32]> {
        rows.iter().map(Vec::as_slice).collect()
    }

    /// Tests batches that the driver takes at once, and batches shorter than a lane, exactly as
    /// long, and longer; rows end within lanes. The room is reused, and nothing is overwritten
    /// before it was read.
    #[test]
    fn all_words_arrive_in_order() {
        emulation().in_every_order(|| {
            let device = Device::open(0).unwrap();
            let (main, staging) = (device.main(), Staging::default());
            const FEW: usize = TAKEN_AT_ONCE;
            let large = [(3, FEW), (1, LANE_WORDS), (5, LANE_WORDS / 2 + 7)];
            let more = [(2, FEW), (1, FEW + 1), (3, FEW - 1), (2, FEW / 2), (1, LANE_WORDS), (5, FEW / 3)];
            let shapes = large.into_iter().chain(more).zip(1..);
            let arrived: Vec<_> =
                shapes
                    .map(|((count, length), seed)| {
                        let (words, kept) =
                            (rows(count, length, seed * 1000), device.alloc(count * length).unwrap());
                        staging
                            .stage(&main, &RowWords(&borrowed(&words)), |words| {
                                Ok(main.copy(words, &kept.all())?)
                            })
                            .unwrap();
                        (words, kept)
                    })
                    .collect();
            for (words, kept) in arrived {
                assert!(main.read(&kept.all()).unwrap() == words.concat(), "{} rows", words.len());
            }
        });
    }

    /// Source of words that are their own numbers.
    struct Numbers(usize);

    impl QueryWords for Numbers {
        fn count(&self) -> usize {
            self.0
        }

        fn write(&self, first: usize, to: &mut [u32]) {
            assert!(first.is_multiple_of(GROUP_WORDS) && to.len().is_multiple_of(GROUP_WORDS));
            to.iter_mut().zip(first..self.0).for_each(|(to, number)| *to = number as u32);
        }
    }

    #[test]
    fn a_source_is_asked_for_whole_groups() {
        emulation().in_every_order(|| {
            let device = Device::open(0).unwrap();
            let (main, staging) = (device.main(), Staging::default());
            for count in [GROUP_WORDS, TAKEN_AT_ONCE + GROUP_WORDS, LANE_WORDS + WORDS + GROUP_WORDS] {
                let kept = device.alloc(count).unwrap();
                staging.stage(&main, &Numbers(count), |words| Ok(main.copy(words, &kept.all())?)).unwrap();
                assert!(main.read(&kept.all()).unwrap().into_iter().eq(0..count as u32), "{count} words");
            }
        });
    }

    #[test]
    fn words_travel_while_the_device_computes() {
        let config = Config { streams: StreamOrder::Lazy, ..Config::default() };
        emulation().with(config, || {
            let backend = CudaBackend::new(0).unwrap();
            let (device, staging) = (backend.device(), Staging::default());
            let layout = PanelLayout::covering(32, 64).unwrap();
            let matrix = backend.upload(layout, &vec![1; layout.bytes()]).unwrap();
            let plan = ScalarFoldPlan::new(device, layout, 1).unwrap();
            let (queries, answers) =
                (device.upload(&vec![1u32; layout.columns()]).unwrap(), device.alloc(layout.rows()).unwrap());
            let words = rows(2, LANE_WORDS, 1);
            staging.stage(&device.main(), &RowWords(&borrowed(&words)), |_| Ok(())).unwrap();
            device.main().synchronize().unwrap();
            emulation().reset();

            plan.run(&device.main(), &matrix, &queries.all(), &answers.all()).unwrap();
            staging.stage(&device.main(), &RowWords(&borrowed(&words)), |_| Ok(())).unwrap();
            let room = staging.0.lock();
            for lane in &room.as_ref().unwrap().conveyor.lanes {
                lane.copied.as_ref().unwrap().wait().unwrap();
            }
            assert_eq!(emulation().copied().to_device, 8 * LANE_WORDS as u64);
            assert_eq!(emulation().launches("scalar_fold_vector_1"), 0, "it has not begun");
            device.main().synchronize().unwrap();
            assert_eq!(emulation().launches("scalar_fold_vector_1"), 1);
        });
    }

    #[test]
    fn room_that_cannot_be_filled_is_given_up() {
        emulation().in_every_order(|| {
            let device = Device::open(0).unwrap();
            let (main, staging) = (device.main(), Staging::default());
            let words = rows(2, TAKEN_AT_ONCE, 3);
            let refused = staging.stage(&main, &RowWords(&borrowed(&words)), |_| {
                Err::<(), _>(BackendError::Shape("not these words".into()))
            });
            assert!(refused.is_err() && staging.0.lock().is_none());
            let kept = device.alloc(2 * TAKEN_AT_ONCE).unwrap();
            staging
                .stage(&main, &RowWords(&borrowed(&words)), |words| Ok(main.copy(words, &kept.all())?))
                .unwrap();
            assert_eq!(main.read(&kept.all()).unwrap(), words.concat());
        });
    }
}
