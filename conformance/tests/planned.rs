//! Extreme content at the shapes that are chosen for 1 GiB, and the margins that
//! docs/protocols/ring.md states for them.
//!
//! Rows of a fold do not depend on each other, so a test has the chosen columns and as few rows as
//! the protocol allows; the number of columns determines the noise of a fold. Where groups add
//! noise, by a second fold or a tournament, another test has the chosen groups and few columns.
#![allow(clippy::print_stdout, reason = "what was measured is worth seeing")]

use std::path::Path;
use std::sync::Arc;

use spirea_conformance::{Content, Count, LEAST_EXCEEDANCE_LOG2, errors, is_drawn, is_long, setup};
use spirea_cpu::CpuBackend;
use spirea_lattice::noise::two_sided_tail_log2;
use spirea_lattice::{LweSet, RingSet};
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::choice::KeyDelivery;
use spirea_protocols::registry::{Choice, ProtocolParams};

/// Number of columns in the short form, instead of the columns of a 1-GiB database.
const FEW_COLUMNS: u64 = 1024;
/// A protocol and its sets.
#[derive(Clone, Copy, Debug)]
struct Case {
    protocol: &'static str,
    keys: KeyDelivery,
    lwe: Option<LweSet>,
    ring: Option<RingSet>,
}

impl Case {
    /// Returns all cases. If queries of `hybrid` bring their keys, the matrix has one block of
    /// rows, so it has 1 GiB with all columns. This case is measured under the default LWE set
    /// only.
    fn all() -> Vec<Self> {
        let registered = ["exppack-simple", "hybrid", "exppack-double", "double-pack"];
        let packing = registered.map(|protocol| (protocol, KeyDelivery::Registered));
        let brought =
            ["exppack-simple", "exppack-double", "hybrid"].map(|protocol| (protocol, KeyDelivery::PerQuery));
        let mut cases = Vec::new();
        for (protocol, keys) in packing.into_iter().chain(brought) {
            for ring in RingSet::ALL.into_iter().filter(|set| set.plaintext_bits() < 20) {
                // Queries under this set expand to single entries, so they cannot bring their keys.
                if keys == KeyDelivery::Registered || ring != RingSet::Paper {
                    let one_block = protocol == "hybrid" && keys == KeyDelivery::PerQuery;
                    let sets = LweSet::ALL.into_iter().filter(|&set| !one_block || set == LweSet::Module1280);
                    cases.extend(sets.map(|lwe| Self { protocol, keys, lwe: Some(lwe), ring: Some(ring) }));
                }
            }
        }
        let keys = KeyDelivery::Registered;
        for protocol in ["simple", "double"] {
            cases.extend(LweSet::ALL.map(|lwe| Self { protocol, keys, lwe: Some(lwe), ring: None }));
        }
        let onion = RingSet::ALL.into_iter().filter(|set| set.plaintext_bits() >= 20);
        cases.extend(onion.map(|ring| Self { protocol: "onion", keys, lwe: None, ring: Some(ring) }));
        cases
    }

    /// Returns the parameters that are chosen for 1 GiB of records. Records have 256 bytes, or one
    /// byte under a protocol of two folds.
    fn planned(self) -> ProtocolParams {
        let Self { protocol, keys, lwe, ring } = self;
        let [set, ring] =
            [lwe.map(LweSet::name), ring.map(RingSet::name)].map(|name| name.map(str::to_owned));
        let choice = Choice { protocol: protocol.into(), keys, set, ring, ..Choice::default() };
        let record_bytes = if self.has_two_folds() { 1 } else { 256 };
        ProtocolParams::choose(&choice, Seed::new([7; 32]), (1 << 30) / record_bytes as u64, record_bytes)
            .unwrap()
    }

    fn has_two_folds(self) -> bool {
        self.protocol.ends_with("double")
    }

    /// Returns two pieces of a planned matrix with their names: one with all columns, and one with
    /// all groups.
    fn pieces(self, planned: &ProtocolParams) -> Vec<(&'static str, ProtocolParams)> {
        let columns = if is_long() { planned.grid.columns as u64 } else { FEW_COLUMNS };
        let all_columns = |rows: &[(&str, u64)]| piece(planned, &[rows, &[("columns", columns)]].concat());
        match self.protocol {
            "simple" => vec![("columns", all_columns(&[("rows", 512)]))],
            "exppack-simple" => vec![("columns", all_columns(&[("unit_rows", 4096)]))],
            "hybrid" if self.keys == KeyDelivery::PerQuery => vec![("columns", all_columns(&[]))],
            "hybrid" | "double-pack" => vec![
                ("columns", all_columns(&[("groups", 1)])),
                ("groups", piece(planned, &[("columns", 256)])),
            ],
            "onion" => vec![
                ("columns", piece(planned, &[("groups", 2)])),
                ("groups", piece(planned, &[("columns", 2)])),
            ],
            _ => vec![
                ("columns", all_columns(&[("groups", 256)])),
                ("groups", piece(planned, &[("columns", 256)])),
            ],
        }
    }
}

/// Returns the parameters with some members replaced, and with as many records as fit.
fn piece(params: &ProtocolParams, members: &[(&str, u64)]) -> ProtocolParams {
    let mut json: serde_json::Value = serde_json::from_slice(&params.to_json()).unwrap();
    let shape = if json.get("grid").is_some() { &mut json["grid"] } else { &mut json };
    for &(member, value) in members {
        assert!(shape[member].is_u64(), "{member}");
        shape[member] = value.into();
    }
    let of = |member: &str| shape[member].as_u64();
    let unit_rows = of("unit_rows").or(of("rows")).unwrap();
    let units = of("columns").unwrap() * of("groups").unwrap_or(1);
    shape["records"] = (units * (unit_rows / params.record_bytes() as u64)).into();
    ProtocolParams::from_json(json.to_string().as_bytes()).unwrap()
}

/// Returns the standard deviation of errors by the parameters' estimate, as a share of the error
/// that decoding tolerates. It is the standard deviation of the Gaussian whose tail falls like the
/// estimate's tail.
fn deviation(params: &ProtocolParams) -> f64 {
    const SHARES: [f64; 2] = [1.0, 0.8];
    let fall = |of: &dyn Fn(f64) -> f64| of(SHARES[1]) - of(SHARES[0]);
    let wanted = fall(&|share| params.exceedance(share).unwrap().log2);
    let (mut low, mut high) = (1e-3, 0.2);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if fall(&|share| two_sided_tail_log2(share / middle)) > wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Measures a protocol's databases of extreme content at the shapes of 1 GiB. The long form uses
/// all sets. The other forms use only the sets with the default LWE set, and few columns. A case
/// with 4096 rows and all columns takes about half a minute of one core, and a case of 1 GiB takes
/// a few minutes. The whole long form takes an estimated one to two hours.
fn check(protocol: &str) {
    let (backend, mut rng) = (Arc::new(CpuBackend::new(2).unwrap()), SecretRng::from_os().unwrap());
    let usual = |case: &Case| case.lwe.is_none_or(|set| set == LweSet::Module1280);
    let cases: Vec<Case> = Case::all().into_iter().filter(|case| is_long() || usual(case)).collect();
    let names: Vec<String> = cases.iter().map(|case| format!("{case:?}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (case, name) in cases.iter().zip(&names).filter(|(case, _)| case.protocol == protocol) {
        if !is_drawn("extreme databases at chosen shapes", &names, Count { short: 1, full: 1 }, name) {
            continue;
        }
        for (piece, params) in case.pieces(&case.planned()) {
            // Records of one byte do not alternate.
            let other = if case.has_two_folds() { Content::Random(5) } else { Content::Alternating };
            for content in [Content::Constant(0xff), other] {
                let mut setup = setup(&backend, &params, content);
                let last = params.records() - 1;
                let [indices, clients] = if is_long() { [3, 3] } else { [2, 1] };
                let indices: Vec<u64> = (0..indices).map(|i| i * last / 2).collect();
                let errors = errors(&mut setup, &indices, clients as usize, &mut rng);
                let greatest = errors.iter().map(|error| error.abs()).fold(0.0, f64::max);
                let squares = errors.iter().map(|error| error * error).sum::<f64>();
                let margin = -(squares / errors.len() as f64).sqrt().log2();
                let (exceeded, failure) = (params.exceedance(greatest).unwrap(), params.failure.unwrap());
                println!(
                    "{protocol} {} {:?}, all {piece}, {content:?}: greatest error {greatest:.4} of what decoding \
                     tolerates (exceeded: {exceeded}; failure: {failure}), margin {margin:.2} bits",
                    params.set, case.keys
                );
                let responses = (indices.len() as f64 * clients as f64).log2();
                assert!(
                    exceeded.log2 + responses > LEAST_EXCEEDANCE_LOG2,
                    "{name}: an error of {greatest:.3} should come once in 2^{:.0} responses",
                    -exceeded.log2
                );
            }
        }
    }
}

#[test]
fn extreme_databases_of_exppack_simple_decode_at_chosen_shapes() {
    check("exppack-simple");
}

#[test]
fn extreme_databases_of_exppack_double_decode_at_chosen_shapes() {
    check("exppack-double");
}

#[test]
fn extreme_databases_of_double_pack_decode_at_chosen_shapes() {
    check("double-pack");
}

#[test]
fn extreme_databases_of_hybrid_decode_at_chosen_shapes() {
    check("hybrid");
}

#[test]
fn extreme_databases_of_simple_decode_at_chosen_shapes() {
    check("simple");
}

#[test]
fn extreme_databases_of_double_decode_at_chosen_shapes() {
    check("double");
}

#[test]
fn extreme_databases_of_onion_decode_at_chosen_shapes() {
    check("onion");
}

/// Returns the rows of the table of margins in docs/protocols/ring.md: protocol, LWE set, ring set
/// and bits.
fn documented_margins() -> Vec<(String, String, String, f64)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/protocols/ring.md");
    let text = std::fs::read_to_string(page).unwrap();
    let rows = text.lines().skip_while(|line| !line.starts_with("| margin at 1 GiB")).skip(2);
    rows.map_while(|line| line.strip_prefix("| "))
        .flat_map(|row| {
            let cells: Vec<String> =
                row.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect();
            let [protocol, default, conservative, ..] = &cells[..] else { panic!("{row}") };
            let (protocol, ring) = protocol.split_once("`, `").expect("a protocol and a set");
            let of = |lwe: LweSet, bits: &str| {
                (protocol.to_owned(), lwe.name().to_owned(), ring.to_owned(), bits.parse().unwrap())
            };
            [of(LweSet::Module1280, default), of(LweSet::Module1536, conservative)]
        })
        .collect()
}

#[test]
fn documented_margins_are_those_of_the_shapes_that_are_chosen() {
    let margins = documented_margins();
    assert_eq!(margins.len(), 16);
    let mut wrong = false;
    for (protocol, lwe, ring, bits) in margins {
        let case = Case::all().into_iter().find(|case| {
            let names = (case.lwe.map(LweSet::name), case.ring.map(RingSet::name));
            case.protocol == protocol && names == (Some(&lwe), Some(&ring))
        });
        let margin = -deviation(&case.unwrap().planned()).log2();
        println!("{protocol}, {lwe}, {ring}: {margin:.2} bits, documented {bits}");
        wrong |= (margin - bits).abs() > 0.051;
    }
    assert!(!wrong, "docs/protocols/ring.md states other margins");
}
