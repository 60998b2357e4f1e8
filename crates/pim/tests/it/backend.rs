//! Folds in memory, compared with the definition: shapes, clusters, shared passes, tables beyond
//! MRAM, failing DPUs.

use crate::common::{PRF, backend, expected, keys, table};
use proptest::prelude::*;
use spirea_backend::{BackendError, RowLayout, ShareBackend as _, ShareFold};
use spirea_dpf::{Domain, OutputKind, select};
use spirea_math::random::SecretRng;
use spirea_pim::{EmulationConfig, Execution, FaultTime, PimConfig, PimError, PlannedFault, phases};

/// Machine, table and batch of a test.
#[derive(Clone, Debug)]
struct Case {
    dpus: usize,
    tasklets: u32,
    clusters: usize,
    queries: usize,
    mram_bytes: usize,
    rows: usize,
    row_bytes: usize,
    parts: usize,
    first_row: usize,
    batch: usize,
    execution: Execution,
    faults: Vec<PlannedFault>,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            dpus: 5,
            tasklets: 16,
            clusters: 1,
            queries: 4,
            mram_bytes: 4 << 20,
            rows: 3000,
            row_bytes: 32,
            parts: 1,
            first_row: 0,
            batch: 5,
            execution: Execution::Compiled,
            faults: Vec::new(),
        }
    }
}

impl Case {
    fn machine(&self) -> (EmulationConfig, PimConfig) {
        let emulation = EmulationConfig {
            dpus: self.dpus,
            tasklets: self.tasklets,
            mram_bytes: self.mram_bytes,
            threads: 2,
            execution: self.execution,
            faults: self.faults.clone(),
            ..EmulationConfig::default()
        };
        (emulation, PimConfig { clusters: self.clusters, queries: self.queries, ..PimConfig::default() })
    }

    /// Checks the answers against the definition, `rounds` times. Returns the number of DPUs that
    /// work in the end.
    fn agrees(&self, rounds: usize) -> usize {
        let (emulation, config) = self.machine();
        let (backend, _) = backend(emulation, config);
        let mut rng = SecretRng::from_os().unwrap();
        let layout = RowLayout::new(self.rows, self.row_bytes, self.parts).unwrap();
        let bytes = table(layout, &mut rng);
        let rows = backend.upload_rows(layout, &bytes).unwrap();
        for _ in 0..rounds {
            let keys = keys((self.rows - self.first_row) as u64, self.batch, &mut rng);
            let found = backend.share_fold(&rows, self.first_row, PRF, &keys).unwrap();
            assert!(found == expected(layout, &bytes, self.first_row, &keys), "{self:?}");
        }
        backend.working_dpus()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn folds_are_those_of_the_definition(
        dpus in 1usize..12, tasklets in 1u32..25, clusters in 1usize..4, queries in 1usize..5,
        rows in 1usize..3000, row_bytes in 1usize..200, parts in 1usize..3, first in 0usize..200, batch in 1usize..9,
    ) {
        let (clusters, first_row) = (clusters.min(dpus), first.min(rows - 1));
        let case = Case {
            dpus, tasklets, clusters, queries, rows, row_bytes, parts, first_row, batch, ..Case::default()
        };
        case.agrees(1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Tests bins of several blocks, blocks of several bins, several folds of the same rows, and
    /// folds in any order.
    #[test]
    fn several_folds_share_passes(
        dpus in 1usize..12, clusters in 1usize..3, queries in 1usize..5, mram_kib in 160usize..4096,
        bin_rows in 1usize..700, bins in 1usize..12, row_bytes in 1usize..80, batch in 1usize..6, turned in 0usize..12,
    ) {
        let clusters = clusters.min(dpus);
        let case = Case { dpus, clusters, queries, mram_bytes: mram_kib << 10, ..Case::default() };
        let (emulation, config) = case.machine();
        let (backend, _) = backend(emulation, config);
        let mut rng = SecretRng::from_os().unwrap();
        let layout = RowLayout::new(bin_rows * bins, row_bytes, 1).unwrap();
        let bytes = table(layout, &mut rng);
        let rows = backend.upload_rows(layout, &bytes).unwrap();
        let of_bins: Vec<_> = (0..bins).map(|bin| (bin * bin_rows, keys(bin_rows as u64, batch, &mut rng))).collect();
        let whole = (0, keys(layout.rows() as u64, 2, &mut rng));
        let mut all: Vec<_> = of_bins.into_iter().chain([whole]).collect();
        all.rotate_left(turned % (bins + 1));
        let folds: Vec<ShareFold<'_>> =
            all.iter().map(|(first_row, keys)| ShareFold { first_row: *first_row, keys }).collect();
        let of_fold = |fold: &ShareFold<'_>| expected(layout, &bytes, fold.first_row, fold.keys);
        let expected: Vec<u8> = folds.iter().flat_map(of_fold).collect();
        prop_assert!(backend.share_folds(&rows, PRF, &folds).unwrap() == expected);
        prop_assert!(backend.share_folds(&rows, PRF, &[]).unwrap().is_empty());
    }
}

/// Tests that bins not smaller than blocks take two queries of a pass, and so one launch.
#[test]
fn bins_take_one_launch() {
    let (emulation, config) = Case { dpus: 16, ..Case::default() }.machine();
    let (backend, sdk) = backend(emulation, config);
    let mut rng = SecretRng::from_os().unwrap();
    let layout = RowLayout::new(3200, 16, 1).unwrap();
    let bytes = table(layout, &mut rng);
    let rows = backend.upload_rows(layout, &bytes).unwrap();
    let keys: Vec<_> = (0..16).map(|_| keys(200, 1, &mut rng)).collect();
    let folds: Vec<ShareFold<'_>> =
        (0..16).zip(&keys).map(|(bin, keys)| ShareFold { first_row: 200 * bin, keys }).collect();
    sdk.take_counts();
    backend.share_folds(&rows, PRF, &folds).unwrap();
    assert_eq!(sdk.take_counts().launches, 1);
}

#[test]
fn rows_of_every_width() {
    // The sizes test the slices of wide rows, powers of two of records in a block, and rows that
    // are not a multiple of 8.
    for row_bytes in
        [1, 7, 8, 9, 16, 24, 31, 32, 33, 40, 64, 72, 128, 336, 344, 1000, 1024, 1025, 2048, 4095, 4096]
    {
        let case = Case { row_bytes, rows: 200, batch: 3, ..Case::default() };
        for tasklets in [1, 11, 16, 24] {
            Case { tasklets, ..case.clone() }.agrees(1);
        }
    }
}

#[test]
fn blocks_of_every_length() {
    // Numbers near groups of 64 records, near the windows of tasklets, and near one block for each
    // DPU.
    for rows in [1, 63, 64, 65, 127, 128, 129, 511, 512, 513, 2047, 2048, 2049, 16 * 64 + 1, 40_000] {
        for dpus in [1, 7] {
            Case { rows, dpus, row_bytes: 8, ..Case::default() }.agrees(1);
        }
    }
}

#[test]
fn adversarial_tables_and_keys() {
    let (emulation, config) = Case::default().machine();
    let (backend, _) = backend(emulation, config);
    let layout = RowLayout::new(1000, 24, 1).unwrap();
    let domain = Domain::new(1000, OutputKind::Bit).unwrap();
    for fill in [0, 0xff, 0x80] {
        let bytes = vec![fill; layout.bytes()];
        let rows = backend.upload_rows(layout, &bytes).unwrap();
        let mut answers = Vec::new();
        for party in 0..2 {
            // Selects the first and the last row, and one row four times in a pass.
            let mut rng = SecretRng::deterministic_for_tests(7);
            let both =
                [0, 999, 500, 500, 500, 500].map(|point| select(PRF, domain, point, &mut rng).unwrap());
            let keys: Vec<_> =
                both.into_iter().map(|[zero, one]| if party == 0 { zero } else { one }).collect();
            answers.push(backend.share_fold(&rows, 0, PRF, &keys).unwrap());
        }
        let sums: Vec<u8> = answers[0].iter().zip(&answers[1]).map(|(a, b)| a ^ b).collect();
        assert_eq!(sums, vec![fill; 6 * 24]);
    }
}

#[test]
fn the_program_of_32_bits_answers_alike() {
    for (row_bytes, queries, batch) in [(32, 1, 2), (32, 4, 4), (40, 2, 2), (8, 4, 3), (300, 1, 1)] {
        let case = Case { row_bytes, queries, batch, rows: 700, dpus: 2, ..Case::default() };
        Case { execution: Execution::Interpreted, ..case }.agrees(1);
    }
}

#[test]
fn what_is_counted_is_the_same_compiled_and_interpreted() {
    let counted = [Execution::Compiled, Execution::Interpreted].map(|execution| {
        let case = Case { execution, dpus: 3, rows: 5000, row_bytes: 32, ..Case::default() };
        let (emulation, config) = case.machine();
        let (backend, machine) = backend(emulation, config);
        let mut rng = SecretRng::deterministic_for_tests(3);
        let layout = RowLayout::new(case.rows, 32, 1).unwrap();
        let rows = backend.upload_rows(layout, &table(layout, &mut rng)).unwrap();
        machine.take_counts();
        backend.share_fold(&rows, 0, PRF, &keys(5000, 1, &mut rng)).unwrap();
        machine.take_counts()
    });
    let [compiled, interpreted] = counted;
    assert_eq!(compiled.instructions, 0);
    // The 3 DPUs read each of the 5000 records of 32 bytes once, and one bit for each record.
    assert!(compiled.read_bytes >= 5000 * 32 + 5000 / 8 && compiled.read_bytes < 5000 * 34);
    assert_eq!((compiled.launches, compiled.transfers_to, compiled.transfers_from), (1, 2, 1));
    assert!(
        interpreted.instructions > 5000 * 5 && interpreted.most_instructions < interpreted.instructions / 10
    );
    let without = |counts| spirea_pim::EmulationCounts { instructions: 0, most_instructions: 0, ..counts };
    assert_eq!(without(interpreted), compiled);
}

#[test]
fn tables_beyond_mram_are_folded_in_passes() {
    // Of the 128 KiB of MRAM, 56 KiB are for tables, so 2 DPUs have room for 3584 of 20000 records.
    let case = Case { dpus: 2, rows: 20_000, mram_bytes: 128 << 10, ..Case::default() };
    let (emulation, config) = case.machine();
    let (backend, machine) = backend(emulation, config);
    let mut rng = SecretRng::from_os().unwrap();
    let layout = RowLayout::new(case.rows, 32, 1).unwrap();
    let bytes = table(layout, &mut rng);
    let rows = backend.upload_rows(layout, &bytes).unwrap();
    machine.take_counts();
    let keys = keys(case.rows as u64, 3, &mut rng);
    assert!(backend.share_fold(&rows, 0, PRF, &keys).unwrap() == expected(layout, &bytes, 0, &keys));
    let counts = machine.take_counts();
    assert!(counts.launches >= 6 && counts.bytes_to as usize > layout.bytes(), "{counts:?}");
    assert!(backend.times().take().contains_key(phases::LOAD));
}

#[test]
fn several_tables_share_mram_and_give_it_back() {
    let case = Case { dpus: 2, mram_bytes: 256 << 10, ..Case::default() };
    let (emulation, config) = case.machine();
    let (backend, _) = backend(emulation, config);
    let mut rng = SecretRng::from_os().unwrap();
    let layout = RowLayout::new(2000, 32, 1).unwrap();
    for _ in 0..5 {
        let tables: Vec<_> = (0..4).map(|_| table(layout, &mut rng)).collect();
        let rows: Vec<_> = tables.iter().map(|bytes| backend.upload_rows(layout, bytes).unwrap()).collect();
        let keys = keys(2000, 2, &mut rng);
        for (rows, bytes) in rows.iter().zip(&tables) {
            assert!(backend.share_fold(rows, 0, PRF, &keys).unwrap() == expected(layout, bytes, 0, &keys));
        }
    }
}

#[test]
fn a_table_that_no_pass_gets_over_is_refused() {
    let case = Case { dpus: 1, mram_bytes: 72 << 10, ..Case::default() };
    let (emulation, config) = case.machine();
    let (backend, _) = backend(emulation, config);
    let layout = RowLayout::new(64, 4096, 4).unwrap();
    let refused = backend.upload_rows(layout, &vec![1; layout.bytes()]).err();
    assert!(matches!(refused, Some(BackendError::Unavailable(_))), "{refused:?}");
}

#[test]
fn dpus_that_never_work_are_skipped() {
    let faults = [0, 3].map(|dpu| PlannedFault { dpu, time: FaultTime::Start });
    let case = Case { dpus: 6, faults: faults.to_vec(), ..Case::default() };
    assert_eq!(case.agrees(3), 4);
}

#[test]
fn the_block_of_a_dpu_that_fails_in_a_launch_moves() {
    // A DPU fails at the first copy, in the middle, and at the very last copy, which writes the
    // result's header. The DPU has 19 groups in 10 tasklets.
    for (queries, last) in [(1, 10 + 19 + 1), (4, 10 + 19 + 4)] {
        for copy in [0, 17, last] {
            let fault = PlannedFault { dpu: 2, time: FaultTime::Launch { launch: 2, copy } };
            let case =
                Case { queries, dpus: 5, batch: 8, rows: 6000, faults: vec![fault], ..Case::default() };
            assert_eq!(case.agrees(3), 4, "copy {copy}");
        }
    }
}

#[test]
fn dpus_fail_one_after_another() {
    // MRAM has room for at most two blocks, so the last working DPUs fold the table in passes.
    let fault =
        |dpu: usize| PlannedFault { dpu, time: FaultTime::Launch { launch: 2 + dpu as u64, copy: 0 } };
    for mram_bytes in [160 << 10, 4 << 20] {
        let faults = (0..4).map(fault).collect();
        let case = Case { dpus: 5, rows: 10_000, queries: 1, mram_bytes, faults, ..Case::default() };
        assert_eq!(case.agrees(3), 1);
    }
}

#[test]
fn a_cluster_that_fails_leaves_its_queries_to_the_others() {
    let faults =
        (0..2).map(|dpu| PlannedFault { dpu, time: FaultTime::Launch { launch: 1, copy: 2 } }).collect();
    let case = Case { dpus: 6, clusters: 3, batch: 12, queries: 1, faults, ..Case::default() };
    assert_eq!(case.agrees(2), 4);
}

#[test]
fn without_a_dpu_there_is_an_error() {
    let faults: Vec<_> =
        (0..4).map(|dpu| PlannedFault { dpu, time: FaultTime::Launch { launch: 1, copy: 2 } }).collect();
    let case = Case { dpus: 4, clusters: 2, faults, ..Case::default() };
    let (emulation, config) = case.machine();
    let (backend, _) = backend(emulation, config);
    let mut rng = SecretRng::from_os().unwrap();
    let layout = RowLayout::new(900, 32, 1).unwrap();
    let rows = backend.upload_rows(layout, &table(layout, &mut rng)).unwrap();
    for _ in 0..2 {
        let failed = backend.share_fold(&rows, 0, PRF, &keys(900, 40, &mut rng)).err();
        assert!(matches!(failed, Some(BackendError::Device(_))), "{failed:?}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let cpu = std::sync::Arc::new(spirea_cpu::CpuBackend::new(1).unwrap());
    let machine =
        spirea_pim::Emulation::new(EmulationConfig { dpus: 2, ..EmulationConfig::default() }).unwrap();
    let refused = |config| spirea_pim::PimBackend::new(&machine, config, cpu.clone()).err().unwrap();
    let default = PimConfig::default;
    assert!(matches!(refused(PimConfig { clusters: 0, ..default() }), PimError::Settings(_)));
    assert!(matches!(refused(PimConfig { queries: 5, ..default() }), PimError::Settings(_)));
    assert!(matches!(refused(PimConfig { clusters: 3, ..default() }), PimError::Allocation { .. }));
    assert!(matches!(
        refused(PimConfig { dpus: Some(3), ..default() }),
        PimError::Allocation { wanted: 3, free: 2 }
    ));
    let build = |tasklets, stack_bytes| spirea_pim::Build { tasklets, stack_bytes };
    assert_eq!(refused(PimConfig { build: build(25, 512), ..default() }), PimError::Tasklets(25));
    assert!(matches!(refused(PimConfig { build: build(16, 4096), ..default() }), PimError::Wram(_)));
    let all_dead = (0..2).map(|dpu| PlannedFault { dpu, time: FaultTime::Start }).collect();
    let dead = EmulationConfig { dpus: 2, faults: all_dead, ..EmulationConfig::default() };
    let dead = spirea_pim::Emulation::new(dead).unwrap();
    let lost = spirea_pim::PimBackend::new(&dead, default(), cpu.clone()).err().unwrap();
    assert!(matches!(lost, PimError::Lost { failed: 2, dpus: 2, .. }), "{lost}");
}

#[test]
fn shares_that_are_words_are_refused() {
    let (emulation, config) = Case::default().machine();
    let (backend, _) = backend(emulation, config);
    let layout = RowLayout::new(100, 32, 1).unwrap();
    let rows = backend.upload_rows(layout, &[1; 3200]).unwrap();
    let domain = Domain::new(100, OutputKind::U32).unwrap();
    let keys = select(PRF, domain, 5, &mut SecretRng::from_os().unwrap()).unwrap();
    let refused = backend.share_fold(&rows, 0, PRF, &keys[..1]).err();
    assert!(matches!(refused, Some(BackendError::Unavailable(_))), "{refused:?}");
}
