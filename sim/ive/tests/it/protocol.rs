//! The project's own server of `onion` on the simulated machine. Its operations are recorded, and
//! its answers agree with those of any other backend.

use std::sync::Arc;

use spirea_backend::{NaiveBackend, Observed, Split};
use spirea_conformance::{Content, look_ups_agree, setup, setup_prepared_by, with_grid};
use spirea_cpu::CpuBackend;
use spirea_ive::arch::Arch;
use spirea_ive::backend::Accelerator;
use spirea_ive::functional::Execution;
use spirea_ive::recorder::{Phase, Recorder, phases};
use spirea_ive::schedule::Digits;
use spirea_ive::system::Schedules;
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::registry::{Choice, ProtocolParams};

/// Returns parameters of `onion` with this number of rows and columns of polynomials.
fn params(records: u64, groups: u64, columns: u64) -> ProtocolParams {
    let choice = Choice { protocol: "onion".into(), ..Choice::default() };
    let params = ProtocolParams::choose(&choice, Seed::new([7; 32]), records, 4000).unwrap();
    with_grid(&params, &[("groups", groups), ("columns", columns)])
}

#[test]
fn the_server_of_onion_is_recorded_and_answers_the_bytes_of_the_processor() {
    let arch = Arch::ive().unwrap();
    let mut rng = SecretRng::deterministic_for_tests(5);
    // The database has a row without a partner, and a last row that is not full.
    let params = params(57, 5, 3);
    let on_cpu = setup(&Arc::new(CpuBackend::new(2).unwrap()), &params, Content::Random(3));
    let indices = [0, 31, 56];
    let schedules = [
        (Schedules::baseline(&arch).unwrap(), Execution::Program),
        (Schedules::depth_first(&arch, Digits::Stored).unwrap(), Execution::Program),
        (Schedules::depth_first(&arch, Digits::Forwarded).unwrap(), Execution::LatestFirst),
    ];
    let mut recorded = Vec::new();
    for (schedules, execution) in schedules {
        let accelerator = Accelerator { arch: arch.clone(), schedules, execution };
        let split = Split::new(Arc::new(accelerator), Arc::new(NaiveBackend));
        let backend = Arc::new(Observed::<_, Recorder>::new(Arc::new(split)));
        let simulated = setup(&backend, &params, Content::Random(3));
        look_ups_agree(&on_cpu, &simulated, &indices, &mut rng);
        recorded.push(phases(&backend.observer().take()).unwrap());
    }
    assert!(
        matches!(
            recorded[0][..],
            [
                Phase::Expand { leaves, queries: 3 },
                Phase::Assemble { leaves: of_selectors, queries: 3 },
                Phase::PolyFold { rows: 5, columns: 3, queries: 3 },
                Phase::Tournament { rows: 5, queries: 3 },
            ] if leaves == 3 + of_selectors
        ),
        "{recorded:?}"
    );
    // The CPU backend gets the same operations.
    let cpu = Arc::new(Observed::<_, Recorder>::new(Arc::new(CpuBackend::new(2).unwrap())));
    let watched = setup(&cpu, &params, Content::Random(3));
    look_ups_agree(&on_cpu, &watched, &indices, &mut rng);
    recorded.push(phases(&cpu.observer().take()).unwrap());
    assert!(recorded.iter().all(|batch| *batch == recorded[0]));
}

/// Compares a batch on the CPU with the simulated machine.
fn agree(params: &ProtocolParams, indices: &[u64]) {
    let arch = Arch::ive().unwrap();
    let mut rng = SecretRng::deterministic_for_tests(5);
    let on_cpu = setup(&Arc::new(CpuBackend::new(2).unwrap()), params, Content::Random(3));
    let schedules = Schedules::depth_first(&arch, Digits::Forwarded).unwrap();
    let accelerator = Accelerator { arch, schedules, execution: Execution::LatestFirst };
    let backend = Arc::new(Split::new(Arc::new(accelerator), Arc::new(NaiveBackend)));
    let simulated =
        setup_prepared_by(&Arc::new(CpuBackend::new(2).unwrap()), &backend, params, Content::Random(3));
    look_ups_agree(&on_cpu, &simulated, indices, &mut rng);
}

#[test]
fn packing_by_rotations_answers_the_bytes_of_the_processor() {
    let choice = Choice { protocol: "hybrid".into(), ..Choice::default() };
    let params = ProtocolParams::choose(&choice, Seed::new([7; 32]), 40, 30).unwrap();
    agree(&with_grid(&params, &[("groups", 3)]), &[0, 39]);
}

#[test]
fn a_protocol_that_no_schedule_lowers_is_refused_by_the_operation() {
    let choice = Choice { protocol: "double-pack".into(), ..Choice::default() };
    let params = ProtocolParams::choose(&choice, Seed::new([7; 32]), 40, 30).unwrap();
    let arch = Arch::ive().unwrap();
    let schedules = Schedules::depth_first(&arch, Digits::Forwarded).unwrap();
    let accelerator = Accelerator { arch, schedules, execution: Execution::Program };
    let backend = Arc::new(Split::new(Arc::new(accelerator), Arc::new(NaiveBackend)));
    let prepared_by = Arc::new(CpuBackend::new(2).unwrap());
    let simulated = setup_prepared_by(&prepared_by, &backend, &params, Content::Random(3));
    let mut rng = SecretRng::deterministic_for_tests(5);
    let prepared = simulated.client.query(7, &mut rng).unwrap();
    let refused = simulated.servers[0].answer(&simulated.batch(&prepared.queries)).unwrap_err().to_string();
    assert!(refused.contains("no schedule for reinterpret"), "{refused}");
}
