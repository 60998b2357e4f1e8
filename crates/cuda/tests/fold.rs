//! `scalar_fold` and `module_fold` on an emulated device, compared with the other backends.

use std::sync::OnceLock;

use spirea_backend::{
    Backend, BackendError, FileRows, MAX_BATCH, NaiveBackend, PanelLayout, QueryWords, RING_DEGREE,
    Residence, RingMatrix, StoredFile,
};
use spirea_cpu::CpuBackend;
use spirea_cuda::{CudaBackend, CudaMatrix, ScalarFoldKernel, ScalarFoldPlan};
use spirea_cuda_emulation::{Config, Emulation, StreamOrder};

use ScalarFoldKernel::{Mma, Vector, Wgmma};

fn emulation() -> &'static Emulation {
    static EMULATION: OnceLock<&'static Emulation> = OnceLock::new();
    EMULATION.get_or_init(|| Emulation::install(Config::default()))
}

fn device() -> CudaBackend {
    assert!(emulation().is_taken(), "other tests would use the device at the same time");
    CudaBackend::new(0).unwrap()
}

/// Yields pseudorandom words (SplitMix64).
fn words(seed: u64) -> impl Iterator<Item = u32> {
    (0u64..).map(move |i| {
        let mut z =
            seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 16) as u32
    })
}

fn fold(cuda: &CudaBackend, matrix: &CudaMatrix, queries: &[u32]) -> Result<Vec<u32>, BackendError> {
    cuda.words(cuda.scalar_fold(matrix, queries)?)
}

/// Matrix and the query columns of a batch.
struct Case {
    layout: PanelLayout,
    bytes: Vec<u8>,
    queries: Vec<u32>,
}

impl Case {
    fn random(rows: usize, columns: usize, batch: usize) -> Self {
        let layout = PanelLayout::covering(rows, columns).unwrap();
        let bytes = words(1).map(|word| word as u8).take(layout.bytes()).collect();
        let queries = words(2).take(batch * layout.columns()).collect();
        Self { layout, bytes, queries }
    }

    fn expected(&self) -> Vec<u32> {
        let cpu = CpuBackend::new(2).unwrap();
        let matrix = cpu.upload(self.layout, &self.bytes).unwrap();
        cpu.words(cpu.scalar_fold(&matrix, &self.queries).unwrap()).unwrap()
    }

    /// Compares the kernels' results with the CPU's.
    fn check(&self, cuda: &CudaBackend, kernels: &[ScalarFoldKernel]) {
        let expected = self.expected();
        let matrix = cuda.upload(self.layout, &self.bytes).unwrap();
        for &kernel in kernels {
            let found =
                cuda.scalar_fold_with(kernel, &matrix, &self.queries).and_then(|folded| cuda.words(folded));
            let batch = self.queries.len() / self.layout.columns();
            let found = found.unwrap_or_else(|error| panic!("{error}: {}", emulation().last_error()));
            assert!(found == expected, "{kernel:?}, {:?}, batch {batch}", self.layout);
        }
    }
}

#[test]
fn every_batch_size_on_every_kernel() {
    emulation().in_every_order(|| {
        let cuda = device();
        for batch in [1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 31, 32, 33, 63, 64, 65] {
            Case::random(40, 100, batch).check(&cuda, &[Vector, Mma, Wgmma]);
        }
    });
}

#[test]
fn a_source_of_words_gives_the_answers_of_its_words() {
    /// Source that copies words from memory.
    struct Source<'a>(&'a [u32]);

    impl QueryWords for Source<'_> {
        fn count(&self) -> usize {
            self.0.len()
        }

        fn write(&self, first: usize, to: &mut [u32]) {
            to.copy_from_slice(&self.0[first..first + to.len()]);
        }
    }

    emulation().in_every_order(|| {
        let cuda = device();
        // The driver takes the first batch at once; the second travels through pinned memory.
        for (columns, batch) in [(96, 5), (1024, 20)] {
            let case = Case::random(40, columns, batch);
            let matrix = cuda.upload(case.layout, &case.bytes).unwrap();
            let folded = cuda.scalar_fold_from(&matrix, &Source(&case.queries)).unwrap();
            let found = cuda.read_words(folded, <[u32]>::to_vec).unwrap();
            assert!(found == case.expected(), "{batch} queries");
            for words in [0, columns - 8, columns * (MAX_BATCH + 1)] {
                let refused = cuda.scalar_fold_from(&matrix, &Source(&vec![0; words])).map(drop);
                assert!(matches!(refused, Err(BackendError::Shape(_))), "{words} words: {refused:?}");
            }
        }
    });
}

/// Tests that the main stream continues while the scan of a single query has not begun. Also tests
/// that answers which nobody reads are freed after their computation.
#[test]
fn a_lone_scan_leaves_the_main_stream_free() {
    let config = Config { streams: StreamOrder::Lazy, ..Config::default() };
    emulation().with(config, || {
        let cuda = device();
        for columns in [96, 20_000] {
            let case = Case::random(40, columns, 1);
            let matrix = cuda.upload(case.layout, &case.bytes).unwrap();
            emulation().reset();
            let folded = cuda.scalar_fold(&matrix, &case.queries).unwrap();
            cuda.device().main().synchronize().unwrap();
            assert_eq!(emulation().launches("scalar_fold_vector_1"), 0, "it has not begun");
            assert!(cuda.words(folded).unwrap() == case.expected());
            assert_eq!(emulation().launches("scalar_fold_vector_1"), 1);
            drop(cuda.scalar_fold(&matrix, &case.queries).unwrap());
            cuda.device().main().synchronize().unwrap();
            assert_eq!(emulation().launches("scalar_fold_vector_1"), 2);
        }
    });
}

#[test]
fn the_largest_batches() {
    emulation().in_every_order(|| {
        let cuda = device();
        for batch in [128, 255, MAX_BATCH] {
            Case::random(32, 72, batch).check(&cuda, &[Mma, Wgmma]);
        }
    });
}

#[test]
fn rows_around_the_height_of_a_block() {
    emulation().in_every_order(|| {
        let cuda = device();
        for rows in [1, 32, 33, 128, 192, 224, 256, 257, 384, 512, 544] {
            Case::random(rows, 36, 1).check(&cuda, &[Vector]);
            Case::random(rows, 36, 6).check(&cuda, &[Vector, Mma]);
            Case::random(rows, 36, 20).check(&cuda, &[Mma, Wgmma]);
            Case::random(rows, 36, 34).check(&cuda, &[Wgmma]);
        }
    });
}

#[test]
fn columns_around_steps_stages_and_pieces() {
    emulation().in_every_order(|| {
        let cuda = device();
        for columns in
            [1, 4, 28, 32, 36, 64, 68, 124, 128, 132, 192, 256, 260, 320, 516, 2048, 2052, 4100, 6200]
        {
            Case::random(33, columns, 1).check(&cuda, &[Vector]);
            Case::random(33, columns, 2).check(&cuda, &[Vector]);
            Case::random(33, columns, 8).check(&cuda, &[Mma]);
            Case::random(33, columns, 11).check(&cuda, &[Mma]);
            Case::random(33, columns, 18).check(&cuda, &[Mma, Wgmma]);
            Case::random(33, columns, 35).check(&cuda, &[Wgmma]);
        }
    });
}

#[test]
fn extreme_values() {
    type Values = (fn(usize) -> u8, fn(usize) -> u32);
    const VALUES: [Values; 4] = [
        (|_| 0, |_| 0),
        (|_| 0xff, |_| u32::MAX),
        (|i| if i % 2 == 0 { 0xff } else { 0 }, |i| if i % 2 == 0 { 0 } else { 0x8000_0000 }),
        (|i| i as u8, |i| 0xff << (8 * (i % 4))),
    ];
    emulation().in_every_order(|| {
        let cuda = device();
        for (byte, word) in VALUES {
            for batch in [1, 2, 5, 16, 33] {
                let mut case = Case::random(64, 2052, batch);
                case.bytes.iter_mut().enumerate().for_each(|(i, place)| *place = byte(i));
                case.queries.iter_mut().enumerate().for_each(|(i, place)| *place = word(i));
                let kernels: &[_] = if batch <= 2 { &[Vector, Mma] } else { &[Mma, Wgmma] };
                case.check(&cuda, kernels);
            }
        }
    });
}

#[test]
fn the_backend_agrees_with_the_definition_batch_after_batch() {
    emulation().in_every_order(|| {
        emulation().reset();
        let cuda = device();
        let largest = Case::random(96, 200, 40);
        let layout = largest.layout;
        let (matrix, naive) = (cuda.upload(layout, &largest.bytes).unwrap(), NaiveBackend);
        let oracle = naive.upload(layout, &largest.bytes).unwrap();
        assert_eq!(cuda.layout(&matrix), layout);
        for batch in [1, 40, 3, 20, 2] {
            let queries: Vec<u32> = words(batch as u64).take(batch * layout.columns()).collect();
            let expected = naive.scalar_fold(&oracle, &queries).unwrap();
            assert_eq!(fold(&cuda, &matrix, &queries).unwrap(), expected);
        }
        for kernel in ["scalar_fold_vector_1", "scalar_fold_vector_2", "scalar_fold_mma_8"] {
            assert_eq!(emulation().launches(kernel), 1, "{kernel}");
        }
        assert_eq!(emulation().launches("scalar_fold_wgmma_32"), 1);
        assert_eq!(emulation().launches("scalar_fold_wgmma_64"), 1);
    });
}

/// Tests three chunks of the upload from a file, one of them partial.
#[test]
fn a_matrix_of_several_chunks_arrives_from_memory_and_from_a_file() {
    let case = Case::random(4096, 5000, 1);
    let expected = case.expected();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("matrix");
    std::fs::write(&path, &case.bytes).unwrap();
    emulation().in_every_order(|| {
        let cuda = device();
        let uploaded = cuda.upload(case.layout, &case.bytes).unwrap();
        let opened =
            cuda.open(FileRows::all(case.layout, &StoredFile::at(&path), Residence::Mapped)).unwrap();
        for matrix in [uploaded, opened] {
            assert!(fold(&cuda, &matrix, &case.queries).unwrap() == expected);
        }
    });
}

#[test]
fn wrong_lengths_and_missing_files_are_refused() {
    let _exclusive = emulation().exclusive();
    let cuda = device();
    let case = Case::random(64, 64, 2);
    let live = (emulation().live(0), emulation().live_pinned());
    let short = &case.bytes[1..];
    assert!(matches!(cuda.upload(case.layout, short), Err(BackendError::Shape(_))));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("matrix");
    assert!(matches!(
        cuda.open(FileRows::all(case.layout, &StoredFile::at(&path), Residence::Copied)),
        Err(BackendError::Io { .. })
    ));
    std::fs::write(&path, short).unwrap();
    assert!(matches!(
        cuda.open(FileRows::all(case.layout, &StoredFile::at(&path), Residence::Copied)),
        Err(BackendError::Shape(_))
    ));
    assert_eq!((emulation().live(0), emulation().live_pinned()), live);

    let vast = PanelLayout::covering(1 << 18, 1 << 18).unwrap();
    std::fs::File::create(&path).unwrap().set_len(vast.bytes() as u64).unwrap();
    assert!(matches!(
        cuda.open(FileRows::all(vast, &StoredFile::at(&path), Residence::Copied)),
        Err(BackendError::Unavailable(_))
    ));

    let matrix = cuda.upload(case.layout, &case.bytes).unwrap();
    let too_many = vec![0; (MAX_BATCH + 1) * 64];
    for queries in [&[][..], &case.queries[1..], &too_many] {
        assert!(matches!(fold(&cuda, &matrix, queries), Err(BackendError::Shape(_))));
    }
    for batch in [0, MAX_BATCH + 1] {
        let plan = ScalarFoldPlan::new(cuda.device(), case.layout, batch);
        assert!(matches!(plan, Err(BackendError::Shape(_))));
    }
    for kernel in [Vector, Mma, Wgmma] {
        let endless = PanelLayout::covering(1, 1 << 38).unwrap();
        let plan = ScalarFoldPlan::with_kernel(cuda.device(), kernel, endless, 1);
        assert!(matches!(plan, Err(BackendError::Shape(_))));
        let towering = PanelLayout::covering(1 << 41, 1).unwrap();
        let plan = ScalarFoldPlan::with_kernel(cuda.device(), kernel, towering, 1);
        assert!(matches!(plan, Err(BackendError::Shape(_))));
    }
}

fn run(plan: &ScalarFoldPlan, cuda: &CudaBackend, matrix: &CudaMatrix, case: &Case) -> Vec<u32> {
    let device = cuda.device();
    let queries = device.upload(&case.queries).unwrap();
    let answers =
        device.alloc::<u32>(case.queries.len() / case.layout.columns() * case.layout.rows()).unwrap();
    let stream = device.stream().unwrap();
    stream.after(&device.main()).unwrap();
    plan.run(&stream, matrix, &queries.all(), &answers.all()).unwrap();
    device.main().after(&stream).unwrap();
    device.main().read(&answers.all()).unwrap()
}

#[test]
fn a_plan_runs_again_and_again_on_another_stream() {
    emulation().in_every_order(|| {
        let cuda = device();
        for batch in [1, 9, 40] {
            let case = Case::random(70, 90, batch);
            let matrix = cuda.upload(case.layout, &case.bytes).unwrap();
            let plan = ScalarFoldPlan::new(cuda.device(), case.layout, batch).unwrap();
            let expected = case.expected();
            cuda.device().main().synchronize().unwrap();
            let before = emulation().live(0);
            for _ in 0..3 {
                assert_eq!(run(&plan, &cuda, &matrix, &case), expected);
            }
            cuda.device().main().synchronize().unwrap();
            assert_eq!(emulation().live(0), before);

            let other = Case::random(70, 94, batch);
            let queries = cuda.device().upload(&other.queries).unwrap();
            let refused = plan.run(&cuda.device().main(), &matrix, &queries.all(), &queries.all());
            assert!(matches!(refused, Err(BackendError::Shape(_))));
        }
    });
}

#[test]
fn a_lost_device_is_an_error() {
    let emulation = emulation();
    let _exclusive = emulation.exclusive();
    emulation.reset();
    let cuda = device();
    let case = Case::random(32, 32, 5);
    let matrix = cuda.upload(case.layout, &case.bytes).unwrap();
    emulation.lose_after(Some(0));
    assert!(matches!(fold(&cuda, &matrix, &case.queries), Err(BackendError::Device(_))));
    emulation.lose_after(None);
    drop((matrix, cuda));
    emulation.reset();
}

#[test]
fn module_fold_multiplies_polynomials() {
    emulation().in_every_order(|| {
        let cuda = device();
        for (rows, block_rows, rank) in [(33, 1, 2), (32, 2, 1)] {
            let case = Case::random(rows, block_rows * RING_DEGREE, 1);
            let coefficients: Vec<u32> = words(3).take(block_rows * rank * RING_DEGREE).collect();
            let a = RingMatrix { coefficients: &coefficients, block_rows, rank };
            let naive = NaiveBackend.upload(case.layout, &case.bytes).unwrap();
            let matrix = cuda.upload(case.layout, &case.bytes).unwrap();
            let expected = NaiveBackend.module_fold(&naive, a).unwrap();
            assert!(cuda.module_fold(&matrix, a).unwrap() == expected);

            let wrong = RingMatrix { block_rows: block_rows + 1, ..a };
            assert!(matches!(cuda.module_fold(&matrix, wrong), Err(BackendError::Shape(_))));
            let empty = RingMatrix { coefficients: &[], rank: 0, ..a };
            assert!(cuda.module_fold(&matrix, empty).unwrap().is_empty());
        }
    });
}
