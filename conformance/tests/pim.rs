//! Protocols on an emulated machine with processing in memory, bit for bit like the CPU. Shares of
//! bits are folded in its memories, rings on its host processor.

use std::sync::{Arc, LazyLock};

use spirea_backend::{Residence, Split};
use spirea_conformance::shards::divided;
use spirea_conformance::{Content, look_ups_agree, setup, setup_prepared_by};
use spirea_cpu::CpuBackend;
use spirea_math::random::{SecretRng, Seed};
use spirea_pim::{Emulation, EmulationConfig, FaultTime, PimBackend, PimConfig, PlannedFault};
use spirea_protocols::choice::Choice;
use spirea_protocols::registry::ProtocolParams;

static CPU: LazyLock<Arc<CpuBackend>> = LazyLock::new(|| Arc::new(CpuBackend::new(2).unwrap()));

/// Returns a machine of seven DPUs in `clusters` clusters. One DPU never works, and one fails while
/// it answers.
fn machine(clusters: usize, mram_bytes: usize) -> Split<CpuBackend, PimBackend> {
    let faults = vec![
        PlannedFault { dpu: 1, time: FaultTime::Start },
        PlannedFault { dpu: 2, time: FaultTime::Launch { launch: 3, copy: 1 } },
    ];
    let config = EmulationConfig { dpus: 7, threads: 2, mram_bytes, faults, ..EmulationConfig::default() };
    let emulation = Emulation::new(config).unwrap();
    let config = PimConfig { clusters, mram_bytes, ..PimConfig::default() };
    let pim = PimBackend::new(&emulation, config, Arc::clone(&CPU)).unwrap();
    Split::new(Arc::clone(&CPU), Arc::new(pim))
}

fn choose(protocol: &str, records: u64, record_bytes: usize) -> ProtocolParams {
    let choice = Choice { protocol: protocol.into(), ..Choice::default() };
    ProtocolParams::choose(&choice, Seed::new([7; 32]), records, record_bytes).unwrap()
}

/// Checks that the machine answers look-ups of the last `look_ups` records like the CPU, and that
/// the client decodes them.
fn agrees(machine: Split<CpuBackend, PimBackend>, params: &ProtocolParams, content: Content, look_ups: u64) {
    let mut rng = SecretRng::from_os().unwrap();
    let expected = setup(&CPU, params, content);
    let found = setup_prepared_by(&*CPU, &Arc::new(machine), params, content);
    let indices: Vec<u64> = (params.records() - look_ups..params.records()).collect();
    look_ups_agree(&expected, &found, &indices, &mut rng);
}

#[test]
fn dpf_xor_in_every_shape_and_number_of_clusters() {
    for (records, record_bytes) in [(1200, 40), (1, 5), (513, 32), (70, 9000), (20_000, 8)] {
        let params = choose("dpf-xor", records, record_bytes);
        for clusters in [1, 3] {
            agrees(machine(clusters, 4 << 20), &params, Content::Random(3), 7.min(records));
        }
    }
}

#[test]
fn dpf_xor_of_every_content() {
    let params = choose("dpf-xor", 3000, 33);
    for content in [Content::Constant(0), Content::Constant(255), Content::Alternating, Content::OneHot] {
        agrees(machine(2, 4 << 20), &params, content, 20);
    }
}

#[test]
fn dpf_xor_beyond_mram() {
    // Both parties' tables take 56 KiB in each of the three DPUs of both clusters; at most two DPUs
    // work in the end.
    agrees(machine(2, 128 << 10), &choose("dpf-xor", 40_000, 32), Content::Random(4), 9);
}

#[test]
fn rings_are_answered_beside_it() {
    agrees(machine(1, 4 << 20), &choose("simple", 40, 300), Content::Random(5), 3);
}

#[test]
fn shares_of_a_database_answer_as_the_whole() {
    let mut rng = SecretRng::from_os().unwrap();
    let database = divided(&CPU, &choose("dpf-xor", 2000, 33), 2, &mut rng);
    let machine = Arc::new(machine(2, 4 << 20));
    database.shares_answer(&machine, Residence::Copied, 3);
    database.partials_agree(&*CPU, &machine, 3);
}
