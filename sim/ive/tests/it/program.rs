//! Servers that are recorded over databases without content, and their times on machines that other
//! files describe.

use std::sync::Arc;

use spirea_backend::Observed;
use spirea_conformance::{Content, look_ups_agree, setup};
use spirea_cpu::CpuBackend;
use spirea_ive::arch::Arch;
use spirea_ive::outline::record;
use spirea_ive::program::{Program, Rings};
use spirea_ive::recorder::{Phase, Recorder, phases};
use spirea_ive::schedule::Digits;
use spirea_ive::system::{Mapping, Schedules, Workload, simulate};
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::registry::{Choice, ProtocolParams};

fn choose(protocol: &str, records: u64, record_bytes: usize) -> ProtocolParams {
    let choice = Choice { protocol: protocol.into(), ..Choice::default() };
    ProtocolParams::choose(&choice, Seed::new([7; 32]), records, record_bytes).unwrap()
}

#[test]
fn a_server_without_content_is_asked_to_do_what_one_with_content_does() {
    let mut rng = SecretRng::deterministic_for_tests(5);
    for (protocol, records, record_bytes) in [
        ("simple", 300, 40),
        ("hybrid", 40, 30),
        ("onion", 20, 4000),
        ("onion", 3, 40_000),
        ("exppack-simple", 40, 30),
    ] {
        let params = choose(protocol, records, record_bytes);
        let cpu = Arc::new(Observed::<_, Recorder>::new(Arc::new(CpuBackend::new(2).unwrap())));
        let watched = setup(&cpu, &params, Content::Random(3));
        look_ups_agree(&watched, &watched, &[0], &mut rng);
        // The batch was answered twice, after one preparation.
        let operations = cpu.observer().take();
        let of_two = phases(&operations).unwrap();
        let outlined = record(&params, 1).unwrap();
        assert_eq!(of_two, [&outlined[..], &outlined].concat(), "{protocol}");
    }
}

#[test]
fn onion_of_16_gib_is_recorded_and_takes_what_the_model_of_the_paper_says() {
    let arch = Arch::ive().unwrap();
    let params = choose("onion", 1 << 22, 4096);
    let recorded = record(&params, 64).unwrap();
    let Some(&Phase::PolyFold { rows, columns, queries: 64 }) =
        recorded.iter().find(|phase| matches!(phase, Phase::PolyFold { .. }))
    else {
        panic!("{recorded:?}")
    };
    let program = Program::of_protocol(&arch, "onion", 16.0, 4096, 64).unwrap();
    assert_eq!(program.phases, recorded);
    // The paper's model of the same shape, with the same number of digits in every key, takes
    // exactly the same time in every step.
    let scheme = spirea_ive::arch::Scheme { first_dimension: columns, ..program.rings.selection };
    let program = Program { rings: Rings::uniform(scheme), ..program };
    let gib = (rows * columns * scheme.plaintext_bytes) as f64 / f64::from(1 << 30);
    let arch = Arch { scheme, ..arch };
    let workload = Workload { gib, systems: 1, queries: 64, mapping: Mapping::QueryPerCore };
    let report =
        simulate(&arch, &Schedules::depth_first(&arch, Digits::Forwarded).unwrap(), &workload).unwrap();
    let times = program.time(&arch).unwrap();
    assert_eq!(
        times.iter().map(|(step, _)| *step).collect::<Vec<_>>(),
        ["expand", "selectors", "poly_fold", "rgsw_fold"]
    );
    let [expand, selectors, selected, won] = [0, 1, 2, 3].map(|step: usize| times[step].1);
    for (recorded, modelled) in
        [(expand + selectors, report.expand), (selected, report.row_selection), (won, report.coltor)]
    {
        assert!((recorded / modelled - 1.0).abs() < 1e-12, "{times:?} {report:?}");
    }
}

#[test]
fn machines_of_other_files_are_faster_and_slower_as_they_must() {
    let ive = Arch::ive().unwrap();
    let seconds = |arch: &Arch, gib: f64| -> f64 {
        let program = Program::of_protocol(arch, "hybrid", gib, 4096, 64).unwrap();
        program.time(arch).unwrap().iter().map(|(_, seconds)| seconds).sum()
    };
    let whole = seconds(&ive, 2.0);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("what-if");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let names: Vec<_> = files.iter().map(|path| path.file_stem().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["hbm3e", "larger-switch", "more-cores", "no-lpddr"]);
    let read = |path| Arch::read(&format!("{path:?}"), &std::fs::read_to_string(path).unwrap()).unwrap();
    let [hbm3e, larger_switch, more_cores, no_lpddr] =
        files.iter().map(read).collect::<Vec<_>>().try_into().unwrap();
    assert!(seconds(&hbm3e, 2.0) <= whole && seconds(&more_cores, 2.0) < 0.8 * whole);
    assert!((seconds(&no_lpddr, 2.0) / whole - 1.0).abs() < 1e-9);
    assert!(larger_switch.links.most_systems > ive.links.most_systems);
    let refused =
        Program::of_protocol(&no_lpddr, "hybrid", 128.0, 4096, 64).unwrap().time(&no_lpddr).unwrap_err();
    assert!(refused.to_string().starts_with("gib: "), "{refused}");
    assert!(seconds(&Arch::ark().unwrap(), 2.0) > 2.0 * whole);
}

#[test]
fn what_cannot_be_recorded_is_named() {
    let arch = Arch::ive().unwrap();
    for (protocol, gib, record_bytes, queries, said) in [
        ("dpf-xor", 1.0, 64, 4, "two servers"),
        ("double-pack", 1.0, 64, 1, "not what comes next"),
        ("onyx", 1.0, 64, 4, "onyx"),
        ("onion", 0.0, 64, 4, "0 GiB"),
        ("onion", f64::NAN, 64, 4, "NaN GiB"),
        ("simple", 1.0, 4096, 10_000, "a batch has"),
        ("simple", 1.0, 4096, usize::MAX, "a batch has"),
        ("simple", 1.0, 4096, 0, "a batch has"),
        ("simple", 4096.0, 4096, 4, "a hint of"),
    ] {
        let refused =
            Program::of_protocol(&arch, protocol, gib, record_bytes, queries).unwrap_err().to_string();
        assert!(refused.contains(said), "{protocol}: {refused}");
    }
}
