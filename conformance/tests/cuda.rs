//! All protocols on the emulated device and on a group of two devices, bit for bit like the CPU.

use std::sync::{Arc, LazyLock};

use spirea_backend::{ProtocolBackend, Residence, Strategy};
use spirea_conformance::shards::divided;
use spirea_conformance::{
    Content, Count, is_drawn, is_long, look_ups_agree, setup, setup_prepared_by, with_grid,
};
use spirea_cpu::CpuBackend;
use spirea_cuda::{CudaBackend, DeviceGroup};
use spirea_cuda_emulation::{Config, Emulation, StreamOrder, ThreadOrder};
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::choice::{Choice, KeyDelivery, QueryForm, SecurityLevel};
use spirea_protocols::registry::{NAMES, ProtocolParams};

static CPU: LazyLock<Arc<CpuBackend>> = LazyLock::new(|| Arc::new(CpuBackend::new(2).unwrap()));

/// Runs a test on two emulated devices. The devices lack the fast tensor cores, which compute a
/// product as sixteen products of bytes and are slow to emulate. Threads and streams run in an
/// unusual order, since real devices guarantee no order.
fn emulated<T>(test: impl FnOnce() -> T) -> T {
    let config = Config {
        devices: 2,
        memory: 2 << 30,
        compute: (8, 6),
        processors: 16,
        threads: ThreadOrder::Shuffled,
        streams: StreamOrder::LastFirst,
        ..Config::default()
    };
    Emulation::install(config).with(config, test)
}

/// Checks that the backend answers look-ups of the last `look_ups` records like the CPU, and that
/// the client decodes them.
fn agrees<B: ProtocolBackend>(backend: B, choice: &Choice, records: u64, record_bytes: usize, look_ups: u64) {
    let params = ProtocolParams::choose(choice, Seed::new([7; 32]), records, record_bytes).unwrap();
    let mut rng = SecretRng::from_os().unwrap();
    let content = Content::Random(3);
    let (expected, found) =
        (setup(&CPU, &params, content), setup_prepared_by(&*CPU, &Arc::new(backend), &params, content));
    let indices: Vec<u64> = (records - look_ups..records).collect();
    look_ups_agree(&expected, &found, &indices, &mut rng);
}

fn named(protocol: &str) -> Choice {
    Choice { protocol: protocol.into(), ..Choice::default() }
}

macro_rules! agree {
    ($($test:ident: $protocol:literal, $records:literal, $bytes:literal, $look_ups:literal;)*) => {
        $(#[test]
        fn $test() {
            if is_drawn("protocols on the emulated device", &NAMES, Count { short: 2, full: 3 }, $protocol) {
                let choice = named($protocol);
                emulated(|| agrees(CudaBackend::new(0).unwrap(), &choice, $records, $bytes, $look_ups));
            }
        })*
    };
}

// An emulated device takes half a minute for an expansion to 1280 leaves. Protocols that begin with
// such an expansion get one look-up, except the protocol that has all steps.
agree! {
    simple: "simple", 40, 300, 7;
    double: "double", 40, 3, 7;
    exppack_simple: "exppack-simple", 2, 900, 1;
    exppack_double: "exppack-double", 2, 2, 1;
    double_pack: "double-pack", 2, 900, 1;
    hybrid: "hybrid", 2, 900, 2;
    onion: "onion", 2, 4000, 2;
    dpf_xor: "dpf-xor", 1200, 40, 7;
    dpf_sum: "dpf-sum", 1200, 40, 2;
}

#[test]
fn conservative_sets() {
    for (protocol, records, record_bytes) in [("double", 40, 3), ("onion", 2, 4000)] {
        let choice = Choice { security: SecurityLevel::Conservative, ..named(protocol) };
        emulated(|| agrees(CudaBackend::new(0).unwrap(), &choice, records, record_bytes, 2));
    }
}

/// Checks packing of queries that carry their keys: devices pack whole ciphertexts.
#[test]
fn queries_that_bring_their_keys() {
    let shapes = [("exppack-simple", 900), ("exppack-double", 2), ("hybrid", 900)];
    let shapes = if is_long() { &shapes[..] } else { &shapes[..1] };
    let forms = shapes.iter().flat_map(|shape| QueryForm::ALL.map(|queries| (shape, queries)));
    for (&(protocol, record_bytes), queries) in forms {
        let choice = Choice { keys: KeyDelivery::PerQuery, queries, ..named(protocol) };
        emulated(|| agrees(CudaBackend::new(0).unwrap(), &choice, 2, record_bytes, 2));
        if is_long() {
            let group = || DeviceGroup::new(&[0, 1], Strategy::Replicate).unwrap();
            emulated(|| agrees(group(), &choice, 2, record_bytes, 2));
        }
    }
}

/// Checks tables in bins under both deliveries of keys: a fold of each bin, and a packed block that
/// ends with the last bin.
#[test]
fn packed_bins() {
    for keys in KeyDelivery::ALL {
        let choice = Choice { bins: 3, keys, ..named("exppack-simple") };
        emulated(|| agrees(CudaBackend::new(0).unwrap(), &choice, 9, 30, 2));
    }
}

#[test]
fn two_devices_share_a_database() {
    for (strategy, protocol, records, record_bytes) in [
        (Strategy::Exchange, "simple", 300, 300),
        (Strategy::Replicate, "simple", 40, 30),
        (Strategy::Exchange, "dpf-xor", 2000, 33),
    ] {
        emulated(|| {
            let group = DeviceGroup::new(&[0, 1], strategy).unwrap();
            agrees(group, &named(protocol), records, record_bytes, 7);
        });
    }
}

/// Returns the parameters of a database in which each of two shares has rows.
fn divisible(protocol: &str) -> ProtocolParams {
    let choose = |records, bytes| {
        ProtocolParams::choose(&named(protocol), Seed::new([7; 32]), records, bytes).unwrap()
    };
    match protocol {
        "simple" => choose(700, 150),
        "double" => choose(40, 3),
        "exppack-double" => choose(2, 2),
        "onion" => with_grid(&choose(3, 4000), &[("groups", 3), ("columns", 1)]),
        "dpf-xor" | "dpf-sum" => choose(2000, 33),
        _ => choose(2, 900),
    }
}

#[test]
fn shares_of_devices_answer_as_the_whole() {
    let mut rng = SecretRng::from_os().unwrap();
    const PROTOCOLS: [&str; 5] = ["simple", "double", "onion", "dpf-xor", "dpf-sum"];
    for protocol in PROTOCOLS {
        if !is_drawn("shards of devices", &PROTOCOLS, Count { short: 1, full: 1 }, protocol) {
            continue;
        }
        let database = divided(&CPU, &divisible(protocol), 1, &mut rng);
        emulated(|| {
            let device = Arc::new(CudaBackend::new(0).unwrap());
            database.shares_answer(&device, Residence::Copied, 2);
            database.partials_agree(&*CPU, &device, 2);
        });
    }
}

/// Of the protocols that begin with an expansion to 1280 leaves, checks only the one that has all
/// steps after the fold.
#[test]
fn devices_combine_what_is_packed() {
    let database = divided(&CPU, &divisible("hybrid"), 1, &mut SecretRng::from_os().unwrap());
    emulated(|| {
        let device = Arc::new(CudaBackend::new(0).unwrap());
        database.partials_combine(&device, Residence::Copied, 2);
    });
}

/// Checks a share of a database that a group of devices divides again.
#[test]
fn a_share_is_divided_among_devices() {
    let mut rng = SecretRng::from_os().unwrap();
    for (strategy, protocol) in [
        (Strategy::Exchange, "simple"),
        (Strategy::Replicate, "onion"),
        (Strategy::Aggregate, "onion"),
        (Strategy::Gather, "dpf-xor"),
    ] {
        const STRATEGIES: [&str; 4] = ["exchange", "replicate", "aggregate", "gather"];
        if !is_drawn(
            "a shard on several devices",
            &STRATEGIES,
            Count { short: 1, full: 1 },
            &strategy.to_string(),
        ) {
            continue;
        }
        let database = divided(&CPU, &divisible(protocol), 1, &mut rng);
        emulated(|| {
            let group = Arc::new(DeviceGroup::new(&[0, 1], strategy).unwrap());
            database.shares_answer(&group, Residence::Copied, 2);
        });
    }
}
