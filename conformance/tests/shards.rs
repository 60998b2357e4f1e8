//! On every backend, the shares of a database together give the answers of a server of the whole
//! database, bit for bit.

use std::sync::Arc;

use spirea_backend::{NaiveBackend, Residence};
use spirea_conformance::shards::{Divided, divided};
use spirea_conformance::{Count, is_drawn, is_long, with_grid};
use spirea_cpu::{CpuBackend, Isa};
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::choice::KeyDelivery;
use spirea_protocols::registry::{Choice, NAMES, ProtocolParams};

fn choose(protocol: &str, records: u64, record_bytes: usize) -> ProtocolParams {
    let choice = Choice { protocol: protocol.into(), ..Choice::default() };
    ProtocolParams::choose(&choice, Seed::new([7; 32]), records, record_bytes).unwrap()
}

/// Returns databases of several panels, subtrees or groups, whose numbers are not powers of two.
/// Also returns databases with fewer panels, subtrees or groups than shares.
fn databases(protocol: &str) -> Vec<ProtocolParams> {
    let shapes: &[(u64, usize)] = match protocol {
        "simple" => &[(700, 150), (3, 20)],
        "double" => &[(700, 1), (5, 40)],
        "exppack-double" => &[(3, 11)],
        "exppack-simple" => &[(3, 9000)],
        "double-pack" => &[(3, 4000)],
        "hybrid" => &[(20, 900)],
        "onion" => &[(100, 16384), (3, 40_000)],
        _ => &[(1300, 33), (5, 9000)],
    };
    let chosen = shapes.iter().map(|&(records, record_bytes)| choose(protocol, records, record_bytes));
    // Numbers of records and of bins. Shares end within bins, at leaves or panels; or bins are
    // smaller than a leaf.
    let bins: &[(u64, usize)] = match protocol {
        "dpf-xor" | "dpf-sum" => &[(3000, 2), (900, 7)],
        "exppack-simple" => &[(900, 5)],
        _ => &[],
    };
    let in_bins = bins.iter().map(|&(records, bins)| {
        let choice = Choice { protocol: protocol.into(), bins, ..Choice::default() };
        ProtocolParams::choose(&choice, Seed::new([7; 32]), records, 33).unwrap()
    });
    let brings_keys = ["exppack-simple", "exppack-double", "hybrid"].contains(&protocol);
    let one_shot = shapes.iter().filter(|_| brings_keys).map(|&(records, record_bytes)| {
        let choice = Choice { protocol: protocol.into(), keys: KeyDelivery::PerQuery, ..Choice::default() };
        ProtocolParams::choose(&choice, Seed::new([7; 32]), records, record_bytes).unwrap()
    });
    chosen
        .chain(in_bins)
        .chain(one_shot)
        .map(|params| if protocol == "onion" { of_five_groups(&params) } else { params })
        .collect()
}

/// Returns the parameters with five groups, so that winners of shares meet in several rounds.
fn of_five_groups(params: &ProtocolParams) -> ProtocolParams {
    let units = params.grid.groups * params.grid.columns;
    with_grid(params, &[("groups", 5), ("columns", units.div_ceil(5) as u64)])
}

fn cpu(isa: Isa) -> Arc<CpuBackend> {
    Arc::new(CpuBackend::with_isa(isa, 2).unwrap())
}

fn each_database(protocol: &str, look_ups: u64, check: impl Fn(&Divided)) {
    let oracle = Arc::new(CpuBackend::new(2).unwrap());
    let mut rng = SecretRng::from_os().unwrap();
    for params in databases(protocol) {
        let look_ups = look_ups.min(params.records());
        check(&divided(&oracle, &params, look_ups, &mut rng));
    }
}

/// Checks three shares on the best instruction set and their partials on every other one. The long
/// form also tests one, two and four shares, mapped and copied.
fn shares_answer(database: &Divided) {
    let best = Arc::new(CpuBackend::new(2).unwrap());
    let counts =
        [(Residence::Copied, 3), (Residence::Mapped, 2), (Residence::Copied, 1), (Residence::Mapped, 4)];
    for &(residence, count) in &counts[..if is_long() { 4 } else { 1 }] {
        database.shares_answer(&best, residence, count);
    }
    for isa in Isa::available().into_iter().filter(|&isa| isa != best.isa()) {
        database.partials_combine(&cpu(isa), Residence::Mapped, 3);
    }
    database.shares_need_their_own_bytes_alone(&best, Residence::Copied, 3);
    // There are more shares than panels, subtrees or groups, so some shares are empty.
    database.shares_answer(&best, Residence::Mapped, 23);
    database.shares_need_their_own_bytes_alone(&best, Residence::Mapped, 23);
    database.wrong_partials_are_refused(&best, &mut SecretRng::from_os().unwrap());
}

/// Returns true if a protocol's shards are tested. The short form draws one packing protocol, which
/// takes longest, and one of the others.
fn is_tested(protocol: &str) -> bool {
    const PACKING: [&str; 4] = ["exppack-simple", "exppack-double", "double-pack", "hybrid"];
    const OTHERS: [&str; 5] = ["simple", "double", "onion", "dpf-xor", "dpf-sum"];
    if PACKING.contains(&protocol) {
        is_drawn("shards of protocols that pack", &PACKING, Count { short: 1, full: 1 }, protocol)
    } else {
        is_drawn("shards of other protocols", &OTHERS, Count { short: 1, full: 2 }, protocol)
    }
}

macro_rules! shares_answer {
    ($($test:ident: $protocol:literal),*) => {
        $(#[test]
        fn $test() {
            if is_tested($protocol) {
                each_database($protocol, 2, shares_answer);
            }
        })*

        #[test]
        fn no_protocol_is_left_out() {
            assert_eq!([$($protocol),*], NAMES);
        }
    };
}

shares_answer! {
    simple: "simple", double: "double", exppack_simple: "exppack-simple", exppack_double: "exppack-double",
    double_pack: "double-pack", hybrid: "hybrid", onion: "onion", dpf_xor: "dpf-xor", dpf_sum: "dpf-sum"
}

#[test]
fn shares_answer_by_definition_too() {
    let naive = Arc::new(NaiveBackend);
    for protocol in NAMES {
        let slow = ["exppack-double", "exppack-simple", "double-pack"].contains(&protocol);
        if is_long() || !slow && is_drawn("shards by definition", &NAMES, 4, protocol) {
            each_database(protocol, 1, |database| {
                database.partials_combine(&naive, Residence::Copied, 3);
            });
        }
    }
}

#[test]
fn partials_are_the_same_on_every_backend() {
    let naive = Arc::new(NaiveBackend);
    const PROTOCOLS: [&str; 3] = ["simple", "onion", "dpf-sum"];
    for protocol in PROTOCOLS {
        if !is_drawn("partials on every backend", &PROTOCOLS, 1, protocol) {
            continue;
        }
        each_database(protocol, 2, |database| {
            for isa in Isa::available() {
                database.partials_agree(&naive, &cpu(isa), 3);
            }
        });
    }
}
