//! The model, compared with the simulation and with the device program's own instructions.

use crate::common::{PRF, backend, keys, table};
use spirea_backend::{RowLayout, ShareBackend as _};
use spirea_math::random::SecretRng;
use spirea_pim::model::cycles::BlockWork;
use spirea_pim::model::events::simulate;
use spirea_pim::model::parameters::Profile;
use spirea_pim::model::system::{Arrangement, Setup};
use spirea_pim::{EmulationConfig, Execution, PimConfig};

/// Number of records of 32 bytes in a table of `gib` GiB.
fn records(gib: f64) -> u64 {
    (gib * (1u64 << 30) as f64) as u64 / 32
}

/// Pairs of instructions and copy cycles for a block: 64 records of 5 to 50 instructions each, or
/// few records; copies of 8 to 2048 bytes.
const WORK: [(f64, f64); 8] = [
    (896.0, 1101.0),
    (1920.0, 1101.0),
    (3123.0, 1101.0),
    (320.0, 1101.0),
    (1472.0, 1101.0),
    (100.0, 81.0),
    (40.0, 333.0),
    (500.0, 589.0),
];

#[test]
fn the_closed_form_agrees_with_the_simulation() {
    for (instructions, copy_cycles) in WORK {
        for tasklets in 1..=24 {
            let work = BlockWork { tasklets, instructions, copy_cycles, issue_interval: 11 };
            // Excludes the first blocks, when all tasklets wait for the DMA engine.
            let steady = (simulate(work, 18) - simulate(work, 6)) as f64 / 12.0;
            let deviation = work.cycles() / steady - 1.0;
            assert!(deviation.abs() < 0.04, "{work:?}: {steady} cycles, not {}", work.cycles());
        }
    }
}

#[test]
fn the_simulation_is_bounded_as_the_machine_is() {
    // A single tasklet is bound by an instruction every 11 cycles plus its own copy. Many tasklets
    // are bound by an instruction a cycle, or by the copies alone.
    let work = |tasklets, instructions, copy_cycles| BlockWork {
        tasklets,
        instructions,
        copy_cycles,
        issue_interval: 11,
    };
    assert_eq!(simulate(work(1, 10.0, 100.0), 3), 3 * (100 + 110));
    assert!(simulate(work(24, 1000.0, 1.0), 10) >= 24 * 1000 * 10);
    assert!(simulate(work(24, 1.0, 1000.0), 10) >= 24 * 1000 * 10);
}

#[test]
fn arrangements_follow_sizes_and_batches() {
    let parameters = Profile::Paper.parameters().unwrap();
    let choose = |gib: f64, dpus, batch| Arrangement::choose(&parameters, records(gib), 32, dpus, batch, 4);
    // A single query uses all DPUs; a batch is divided among clusters.
    assert_eq!(choose(1.0, 2048, 1).clusters, 1);
    assert!(choose(1.0, 2048, 32).clusters > 1);
    // MRAM has room for some 55 MiB in each DPU: a table of more than half of all MRAM cannot be
    // copied twice.
    let large = choose(64.0, 2048, 32);
    assert_eq!((large.clusters, large.passes), (1, 1));
    let larger = choose(256.0, 2048, 32);
    assert_eq!(larger.passes, 3);
    assert!(larger.times.load > 0.0 && large.times.load == 0.0);
    assert_eq!(choose(1.0, 1, 32).clusters, 1);
}

#[test]
fn passes_take_longer_than_what_fits() {
    let parameters = Profile::Kernel.parameters().unwrap();
    let setup = |gib| Setup { records: records(gib), record_bytes: 32, dpus: 256, clusters: 1, queries: 1 };
    let [fits, beyond] = [12.0, 24.0].map(|gib| parameters.query(setup(gib)));
    assert!(fits.load == 0.0 && beyond.load > 0.0);
    assert!(beyond.in_memory() > 2.5 * fits.in_memory());
}

/// Counts, on the emulation, the instructions for each record, and the instructions that a launch
/// executes once.
fn counted(queries: usize) -> (f64, f64) {
    let launch = |records: usize| {
        let emulation =
            EmulationConfig { dpus: 1, execution: Execution::Interpreted, ..EmulationConfig::default() };
        let (backend, machine) = backend(emulation, PimConfig { queries, ..PimConfig::default() });
        let mut rng = SecretRng::deterministic_for_tests(5);
        let layout = RowLayout::new(records, 32, 1).unwrap();
        let rows = backend.upload_rows(layout, &table(layout, &mut rng)).unwrap();
        machine.take_counts();
        backend.share_fold(&rows, 0, PRF, &keys(records as u64, queries, &mut rng)).unwrap();
        let counts = machine.take_counts();
        assert_eq!(counts.launches, 1, "the queries share a pass");
        counts.most_instructions as f64
    };
    let (few, many) = (launch(16 * 512), launch(16 * 2048));
    let of_record = (many - few) / 1536.0;
    (of_record, few - 512.0 * of_record)
}

/// Tests that `profiles/kernel.toml` agrees with the program.
#[test]
fn the_profile_has_the_instructions_of_the_program() {
    let parameters = Profile::Kernel.parameters().unwrap();
    let program = &parameters.program;
    for (&(queries, instructions), &(_, stated)) in
        program.instructions.iter().zip(&program.instructions_once)
    {
        let (found, once) = counted(queries);
        // The exact number depends on the share bits.
        let near = (found / instructions - 1.0).abs() < 0.05 && (once / stated - 1.0).abs() < 0.4;
        assert!(near, "{queries} queries: {found} instructions for a record, {once} once");
    }
}
