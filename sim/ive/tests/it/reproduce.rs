//! Drawings in the documents, and machines that lack a resource.

use spirea_ive::arch::Arch;
use spirea_ive::draw::draw;
use spirea_ive::figures::figures;
use spirea_ive::program::Program;
use spirea_ive::reproduce::{PARTS, Reproduction};
use spirea_ive::schedule::Digits;
use spirea_ive::system::{Mapping, Schedules, Workload, simulate};
use spirea_papers::documents::{hold, root, with_part};

#[test]
fn documents_have_the_drawings() {
    let arch = Arch::ive().unwrap();
    let Reproduction { rows, skipped, .. } = Reproduction::of(&arch, &PARTS);
    assert!(skipped.is_empty(), "{skipped:?}");
    let (figures, skipped) = figures(&arch, &rows);
    assert!(skipped.is_empty(), "{skipped:?}");
    let folder = tempfile::tempdir().unwrap();
    let drawn = draw(folder.path(), &rows, &figures).unwrap();
    assert_eq!((figures.len(), drawn.len()), (14, 15));
    let page = std::fs::read_to_string(root().join("docs/ive.md")).unwrap();
    for path in drawn {
        let name = path.file_name().unwrap().to_str().unwrap();
        let drawing = std::fs::read_to_string(&path).unwrap();
        assert!(drawing.ends_with("</svg>\n") && !drawing.contains("NaN"), "{name}");
        assert!(page.contains(&format!("(ive/{name})")), "docs/ive.md does not have {name}");
        hold(&format!("docs/ive/{name}"), &drawing).unwrap();
    }
}

/// Tests the queries a second of the project's protocols in the documents, for batches of 64 and
/// records of 4096 bytes.
#[test]
fn documents_have_the_rates_of_the_protocols() {
    let what_if = |name: &str| {
        let file = root().join("sim/ive/what-if").join(name);
        Arch::read(name, &std::fs::read_to_string(file).unwrap()).unwrap()
    };
    let machines = [
        ("IVE", Arch::ive().unwrap()),
        ("twice the cores", what_if("more-cores.toml")),
        ("HBM3E", what_if("hbm3e.toml")),
        ("ARK-like", Arch::ark().unwrap()),
    ];
    let mut table =
        String::from("| machine | GiB | `simple` | `hybrid` | `onion` |\n|---|---:|---:|---:|---:|\n");
    for gib in [2.0, 16.0] {
        for (machine, arch) in &machines {
            let rates = ["simple", "hybrid", "onion"].map(|protocol| {
                let program = Program::of_protocol(arch, protocol, gib, 4096, 64).unwrap();
                let seconds: f64 = program.time(arch).unwrap().iter().map(|(_, seconds)| seconds).sum();
                format!("{:.0}", program.queries() as f64 / seconds)
            });
            table += &format!("| {machine} | {gib} | {} |\n", rates.join(" | "));
        }
    }
    let page = std::fs::read_to_string(root().join("docs/ive.md")).unwrap();
    hold("docs/ive.md", &with_part(&page, "ive: protocols", &table).unwrap()).unwrap();
}

#[test]
fn a_machine_without_a_resource_is_slower() {
    let arch = Arch::ive().unwrap();
    let seconds = |text: &str| {
        let arch = Arch::read("changed.toml", text).unwrap();
        let schedules = Schedules::depth_first(&arch, Digits::Forwarded).unwrap();
        let workload = Workload { gib: 16.0, systems: 1, queries: 64, mapping: Mapping::QueryPerCore };
        simulate(&arch, &schedules, &workload).unwrap().seconds()
    };
    let whole = seconds(Arch::ive_text());
    for (right, wrong, at_least) in [
        ("ntt_units = 2", "ntt_units = 1", 1.5),
        ("element_wise_rate = 128", "element_wise_rate = 64", 1.1),
        ("stacks = 4", "stacks = 3", 1.02),
        ("register_file_kb = 4096", "register_file_kb = 2048", 1.02),
        ("clock_hz = 1e9", "clock_hz = 0.5e9", 1.6),
    ] {
        assert!(Arch::ive_text().contains(right), "{right}");
        let slower = seconds(&Arch::ive_text().replacen(right, wrong, 1));
        assert!(slower > at_least * whole, "{wrong}: {slower} {whole}");
    }
    assert_eq!(arch.chip.cores, 32);
}
