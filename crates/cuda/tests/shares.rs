//! Folds by shares on emulated devices, compared with their definition.
#![allow(missing_docs, reason = "a test")]

use spirea_backend::{
    BackendError, FileRows, NaiveBackend, Residence, RowLayout, ShareBackend, ShareFold, StoredFile,
};
use spirea_cpu::CpuBackend;
use spirea_cuda::{CudaBackend, Tops};
use spirea_cuda_emulation::{Config, Emulation};
use spirea_dpf::{Bit, Domain, Key, Leaf, OutputKind, PrfKind, PrfVisitor, evaluate_all, select};
use spirea_math::random::SecretRng;

const FOLDED: [OutputKind; 3] = [OutputKind::Bit, OutputKind::U32, OutputKind::U64];

/// Returns a small device: with few processors, each block has much work.
fn emulation() -> &'static Emulation {
    Emulation::install(Config { processors: 4, ..Config::default() })
}

/// Returns keys of one party for random points.
fn keys(prf: PrfKind, points: u64, output: OutputKind, party: usize, count: usize) -> Vec<Key> {
    let domain = Domain::new(points, output).unwrap();
    let mut rng = SecretRng::deterministic_for_tests(party as u64 + points);
    let key = |_| {
        let point = rng.next_u64() % points;
        select(prf, domain, point, &mut rng).unwrap()[party].clone()
    };
    (0..count).map(key).collect()
}

fn random_bytes(layout: RowLayout) -> Vec<u8> {
    let mut rng = SecretRng::deterministic_for_tests(layout.bytes() as u64);
    let mut bytes: Vec<u8> =
        (0..layout.bytes().div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    bytes.truncate(layout.bytes());
    bytes
}

/// Shape of a fold: the keys select from `points` rows, beginning with `first_row`.
#[derive(Clone, Copy, Debug)]
struct Shape {
    rows: usize,
    row_bytes: usize,
    parts: usize,
    first_row: usize,
    points: usize,
    count: usize,
    party: usize,
}

impl Shape {
    fn new(rows: usize, row_bytes: usize, count: usize) -> Self {
        Self { rows, row_bytes, parts: 1, first_row: 0, points: rows, count, party: count % 2 }
    }

    fn layout(&self) -> RowLayout {
        RowLayout::new(self.rows, self.row_bytes, self.parts).unwrap()
    }
}

fn agrees_with_bytes(cuda: &CudaBackend, shape: Shape, bytes: &[u8], output: OutputKind, prf: PrfKind) {
    let keys = keys(prf, shape.points as u64, output, shape.party, shape.count);
    let cpu = CpuBackend::new(2).unwrap();
    let rows = cpu.upload_rows(shape.layout(), bytes).unwrap();
    let expected = cpu.share_fold(&rows, shape.first_row, prf, &keys).unwrap();
    let rows = cuda.upload_rows(shape.layout(), bytes).unwrap();
    let answers = match cuda.share_fold(&rows, shape.first_row, prf, &keys) {
        Ok(answers) => answers,
        Err(error) => panic!("{shape:?}, {output:?}, {prf}: {error}: {}", emulation().last_error()),
    };
    assert!(answers == expected, "{shape:?}, {output:?}, {prf}");
}

fn agrees(cuda: &CudaBackend, shape: Shape, output: OutputKind, prf: PrfKind) {
    agrees_with_bytes(cuda, shape, &random_bytes(shape.layout()), output, prf);
}

/// Rounds the bytes of a row up to whole words of the output.
fn whole(row_bytes: usize, output: OutputKind) -> usize {
    match output {
        OutputKind::Bit => row_bytes,
        _ => row_bytes.next_multiple_of(output.bits() as usize / 8),
    }
}

#[test]
fn the_definition_itself() {
    let _exclusive = emulation().exclusive();
    let cuda = CudaBackend::new(0).unwrap();
    for output in FOLDED {
        let shape = Shape::new(70, 24, 3);
        let (bytes, keys) = (random_bytes(shape.layout()), keys(PrfKind::ChaCha12, 70, output, 1, 3));
        let naive = NaiveBackend.upload_rows(shape.layout(), &bytes).unwrap();
        let rows = cuda.upload_rows(shape.layout(), &bytes).unwrap();
        let expected = NaiveBackend.share_fold(&naive, 0, PrfKind::ChaCha12, &keys).unwrap();
        assert!(cuda.share_fold(&rows, 0, PrfKind::ChaCha12, &keys).unwrap() == expected);
    }
}

/// Tests bins of rows, with fewer keys than a group and with several groups, and folds that differ
/// in shape.
#[test]
fn several_folds_at_once() {
    emulation().in_every_order(|| {
        let cuda = CudaBackend::new(0).unwrap();
        for output in FOLDED {
            for (bin_rows, bins, counts, parts) in
                [(300, 7, [1, 1], 1), (70, 5, [20, 20], 2), (600, 4, [2, 3], 1)]
            {
                let layout = RowLayout::new(bin_rows * bins, 24, parts).unwrap();
                let bytes = random_bytes(layout);
                let keys: Vec<Vec<Key>> = (0..bins)
                    .map(|bin| {
                        let points = (bin_rows - bin % counts[1].min(2)) as u64;
                        keys(PrfKind::ChaCha12, points, output, 1, counts[bin % 2])
                    })
                    .collect();
                let folds: Vec<ShareFold<'_>> = (0..bins)
                    .zip(&keys)
                    .map(|(bin, keys)| ShareFold { first_row: bin * bin_rows, keys })
                    .collect();
                let naive = NaiveBackend.upload_rows(layout, &bytes).unwrap();
                let expected = NaiveBackend.share_folds(&naive, PrfKind::ChaCha12, &folds).unwrap();
                let rows = cuda.upload_rows(layout, &bytes).unwrap();
                let found = cuda.share_folds(&rows, PrfKind::ChaCha12, &folds);
                let found = found.unwrap_or_else(|error| panic!("{error}: {}", emulation().last_error()));
                assert!(found == expected, "{bins} bins of {bin_rows} rows, {output:?}");
            }
        }
    });
}

#[test]
fn every_function_and_output() {
    emulation().in_every_order(|| {
        let cuda = CudaBackend::new(0).unwrap();
        for prf in PrfKind::ALL {
            for output in FOLDED {
                // Few keys, and enough keys for tensor cores.
                for (count, party) in [(2, 0), (2, 1), (13, 0), (13, 1)] {
                    agrees(&cuda, Shape { party, ..Shape::new(1200, 40, count) }, output, prf);
                }
            }
        }
    });
}

#[test]
fn every_order_of_threads() {
    let emulation = emulation();
    emulation.in_every_order(|| {
        // A single processor has few blocks, so each thread has several leaves.
        emulation.configure(Config { processors: 1, ..emulation.config() });
        let cuda = CudaBackend::new(0).unwrap();
        for prf in [PrfKind::Aes128, PrfKind::ChaCha12] {
            for output in FOLDED {
                // A single key, a group that is not a multiple of four, and two large groups.
                for (count, leaves) in [(1, 2100), (5, 450), (70, 40)] {
                    let rows = leaves * output.per_leaf() as usize + 3;
                    agrees(&cuda, Shape::new(rows, 16, count), output, prf);
                }
            }
        }
    });
}

#[test]
fn every_number_of_rows() {
    let _exclusive = emulation().exclusive();
    let cuda = CudaBackend::new(0).unwrap();
    for output in FOLDED {
        for rows in (1..71).chain([511, 512, 513, 1200]) {
            agrees(&cuda, Shape::new(rows, 16, 2), output, PrfKind::ChaCha12);
            agrees(&cuda, Shape::new(rows, 16, 16), output, PrfKind::ChaCha12);
        }
    }
}

#[test]
fn every_width_of_rows() {
    let _exclusive = emulation().exclusive();
    let cuda = CudaBackend::new(0).unwrap();
    for output in FOLDED {
        for count in [1, 2, 5, 33, 64] {
            for row_bytes in [1, 3, 4, 15, 16, 17, 33, 34, 52, 96, 256, 1000, 2064, 4093, 4096] {
                let rows = if row_bytes > 100 { 37 } else { 530 };
                for party in 0..2 {
                    let shape = Shape::new(rows, whole(row_bytes, output), count);
                    agrees(&cuda, Shape { party, ..shape }, output, PrfKind::ChaCha12);
                }
            }
        }
    }
}

#[test]
fn every_number_of_keys() {
    let _exclusive = emulation().exclusive();
    let cuda = CudaBackend::new(0).unwrap();
    for output in FOLDED {
        for count in (1..18).chain([31, 32, 33, 64, 65, 512]) {
            agrees(&cuda, Shape::new(600, 24, count), output, PrfKind::ChaCha12);
        }
        // The groups of this function are smaller.
        for count in [11, 12, 13, 24, 25] {
            agrees(&cuda, Shape::new(600, 24, count), output, PrfKind::HighwayHash);
        }
    }
}

#[test]
fn parts_and_rows_from_anywhere() {
    let _exclusive = emulation().exclusive();
    let cuda = CudaBackend::new(0).unwrap();
    for output in FOLDED {
        for parts in 1..4 {
            for row_bytes in [16, 24, 35] {
                for (first_row, points) in [(0, 100), (1, 699), (7, 513), (699, 1), (3, 16)] {
                    for count in [3, 20] {
                        let shape = Shape::new(700, whole(row_bytes, output), count);
                        let shape = Shape { parts, first_row, points, ..shape };
                        agrees(&cuda, shape, output, PrfKind::ChaCha12);
                    }
                }
            }
        }
    }
}

#[test]
fn large_trees() {
    let _exclusive = emulation().exclusive();
    let cuda = CudaBackend::new(0).unwrap();
    for prf in [PrfKind::Aes128, PrfKind::Salsa12] {
        for (output, leaves) in [(OutputKind::Bit, 200), (OutputKind::U32, 4097), (OutputKind::U64, 5000)] {
            for count in [1, 16] {
                let rows = leaves * output.per_leaf() as usize - 3;
                agrees(&cuda, Shape::new(rows, 8, count), output, prf);
            }
        }
    }
}

#[test]
fn extreme_rows() {
    let _exclusive = emulation().exclusive();
    let cuda = CudaBackend::new(0).unwrap();
    for count in [5, 17] {
        let shape = Shape::new(600, 64, count);
        let alternating: Vec<u8> = (0..shape.layout().bytes()).map(|i| [0x55, 0xaa][i % 2]).collect();
        for bytes in [vec![0; shape.layout().bytes()], vec![255; shape.layout().bytes()], alternating] {
            for output in FOLDED {
                agrees_with_bytes(&cuda, shape, &bytes, output, PrfKind::Aes128);
            }
        }
    }
}

/// Evaluates a key's shares by definition.
struct Shares<'a>(&'a Key);

impl PrfVisitor for Shares<'_> {
    type Output = Vec<Leaf>;

    fn visit<P: spirea_dpf::Prf>(self, prf: P) -> Vec<Leaf> {
        match self.0.domain().output() {
            OutputKind::Bit => evaluate_all::<P, Bit>(prf, self.0),
            OutputKind::U32 => evaluate_all::<P, u32>(prf, self.0),
            OutputKind::U64 => evaluate_all::<P, u64>(prf, self.0),
            OutputKind::U128 => evaluate_all::<P, u128>(prf, self.0),
        }
    }
}

/// Compares evaluations of whole domains, with both ways to expand the tops of trees.
fn evaluates(cuda: &CudaBackend, prf: PrfKind, points: u64, output: OutputKind, count: usize) {
    let keys = keys(prf, points, output, count % 2, count);
    let expected: Vec<Leaf> = keys.iter().flat_map(|key| prf.visit(Shares(key))).collect();
    for tops in [Tops::Apart, Tops::Together] {
        let evaluation = cuda.evaluation_with(prf, &keys, tops).unwrap();
        for _ in 0..2 {
            evaluation.run().unwrap();
            let shares = evaluation.shares().unwrap_or_else(|_| panic!("{}", emulation().last_error()));
            assert!(shares == expected, "{prf}, {points} points, {output:?}, {count} keys, {tops:?}");
        }
    }
}

#[test]
fn every_function_evaluates_whole_domains() {
    emulation().in_every_order(|| {
        let cuda = CudaBackend::new(0).unwrap();
        for prf in PrfKind::ALL {
            for (output, points) in OutputKind::ALL.into_iter().zip([100_000, 1500, 3, 1 << 10]) {
                evaluates(&cuda, prf, points, output, 2);
            }
        }
    });
}

#[test]
fn blocks_meet_over_large_trees() {
    let emulation = emulation();
    emulation.in_every_order(|| {
        emulation.reset();
        let cuda = CudaBackend::new(0).unwrap();
        for (prf, depth) in [(PrfKind::Aes128, 10), (PrfKind::ChaCha12, 12)] {
            evaluates(&cuda, prf, (4 << depth) - 5, OutputKind::U128, 3);
        }
        for kernel in ["share_tops_together_aes128", "share_tops_apart_aes128"] {
            assert_eq!(emulation.launches(kernel), 2, "{kernel}");
        }
    });
}

/// By default, few keys of large trees use all blocks.
#[test]
fn few_keys_of_large_trees_meet() {
    let emulation = emulation();
    let _exclusive = emulation.exclusive();
    emulation.reset();
    let cuda = CudaBackend::new(0).unwrap();
    for (count, leaves, together) in [(3, 512, 1), (4, 512, 1), (3, 256, 1)] {
        agrees(&cuda, Shape::new(leaves * 16, 4, count), OutputKind::U32, PrfKind::Salsa20);
        assert_eq!(
            emulation.launches("share_tops_together_salsa20"),
            together,
            "{count} keys, {leaves} leaves"
        );
    }
}

#[test]
fn rates_are_numbers() {
    emulation().in_every_order(|| {
        let cuda = CudaBackend::new(0).unwrap();
        for prf in PrfKind::ALL {
            assert!(cuda.prf_rate(prf, 1).unwrap() > 0.0, "{prf}");
        }
    });
}

#[test]
fn rows_from_files() {
    let _exclusive = emulation().exclusive();
    let cuda = CudaBackend::new(0).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    // Two full chunks and a third, which does not end with a whole piece.
    let layout = RowLayout::new((65 << 20) / 4096, 4096, 1).unwrap();
    let bytes = random_bytes(layout);
    std::fs::write(&path, &bytes).unwrap();
    let rows = cuda.open_rows(FileRows::all(layout, &StoredFile::at(&path), Residence::Mapped)).unwrap();
    assert_eq!(cuda.row_layout(&rows), layout);
    let first_row = layout.rows() - 20;
    let keys = keys(PrfKind::ChaCha12, 20, OutputKind::Bit, 0, 1);
    let cpu = CpuBackend::new(2).unwrap();
    let expected = cpu.upload_rows(layout, &bytes).unwrap();
    let expected = cpu.share_fold(&expected, first_row, PrfKind::ChaCha12, &keys).unwrap();
    assert!(cuda.share_fold(&rows, first_row, PrfKind::ChaCha12, &keys).unwrap() == expected);

    std::fs::write(&path, &bytes[1..]).unwrap();
    let short = cuda.open_rows(FileRows::all(layout, &StoredFile::at(&path), Residence::Copied));
    assert!(matches!(short, Err(BackendError::Shape(_))));
    let missing =
        cuda.open_rows(FileRows::all(layout, &StoredFile::at(folder.path().join("none")), Residence::Copied));
    assert!(matches!(missing, Err(BackendError::Io { .. })));
}

#[test]
fn wrong_shapes_are_errors() {
    let _exclusive = emulation().exclusive();
    let cuda = CudaBackend::new(0).unwrap();
    let layout = RowLayout::new(100, 12, 1).unwrap();
    assert!(matches!(cuda.upload_rows(layout, &[0; 7]), Err(BackendError::Shape(_))));
    let rows = cuda.upload_rows(layout, &[1; 1200]).unwrap();
    let fold = |first_row, keys: &[Key]| cuda.share_fold(&rows, first_row, PrfKind::Aes128, keys);
    let good = keys(PrfKind::Aes128, 100, OutputKind::U32, 0, 2);
    let mut mixed = good.clone();
    mixed.extend(keys(PrfKind::Aes128, 100, OutputKind::U32, 1, 1));
    let wide = keys(PrfKind::Aes128, 100, OutputKind::U64, 0, 1);
    let widest = keys(PrfKind::Aes128, 100, OutputKind::U128, 0, 1);
    for wrong in [
        fold(0, &[]),
        fold(1, &good),
        fold(usize::MAX, &good),
        fold(0, &mixed),
        fold(0, &wide),
        fold(0, &widest),
    ] {
        assert!(matches!(wrong, Err(BackendError::Shape(_))));
    }
    let vast = keys(PrfKind::Aes128, 1 << 40, OutputKind::U128, 0, 1);
    assert!(matches!(cuda.evaluation(PrfKind::Aes128, &vast), Err(BackendError::Unavailable(_))));
    assert!(matches!(cuda.evaluation(PrfKind::Aes128, &mixed), Err(BackendError::Shape(_))));
    assert!(matches!(cuda.evaluation(PrfKind::Aes128, &[]), Err(BackendError::Shape(_))));
}

/// Tests that a lost device gives an error and no answer.
#[test]
fn a_lost_device_is_an_error() {
    let emulation = emulation();
    let _exclusive = emulation.exclusive();
    let layout = RowLayout::new(100, 16, 1).unwrap();
    let keys = keys(PrfKind::ChaCha12, 100, OutputKind::U32, 0, 2);
    for launches in 0..2 {
        let cuda = CudaBackend::new(0).unwrap();
        let rows = cuda.upload_rows(layout, &[1; 1600]).unwrap();
        emulation.lose_after(Some(launches));
        let lost = cuda.share_fold(&rows, 0, PrfKind::ChaCha12, &keys);
        emulation.reset();
        assert!(matches!(lost, Err(BackendError::Device(_))), "{lost:?}");
    }
}
