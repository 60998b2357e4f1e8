//! Checks of whole protocols: the test bodies of the conformance crate, with this device as the
//! server.

use spirea_conformance::{
    Content, answers_agree, malformed_queries_are_refused, queries_share_nothing, records_decode, setup,
};
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::registry::{Choice, NAMES, ProtocolParams};
use spirea_protocols::steps::Unit;

use super::{Check, Scale, Subject};

fn choose(protocol: &str, records: u64, record_bytes: usize) -> anyhow::Result<ProtocolParams> {
    let choice = Choice { protocol: protocol.into(), ..Choice::default() };
    Ok(ProtocolParams::choose(&choice, Seed::new([7; 32]), records, record_bytes)?)
}

/// Returns the protocols of a scale. At tiny scale, leaves out protocols whose substitutions take
/// an emulated device half a minute. The tests of `conformance` run these on an emulated device.
fn protocols(scale: Scale) -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().filter(move |name| scale == Scale::Full || !substitutes_often(name))
}

/// True if a query of the smallest table takes more substitutions than an emulated device computes
/// in a few seconds.
fn substitutes_often(protocol: &str) -> bool {
    const SUBSTITUTIONS: f64 = 64.0;
    let (records, record_bytes) = specimens(protocol).small[0];
    let work =
        choose(protocol, records, record_bytes).map_or_else(|_| Vec::new(), |params| params.work.clone());
    let substitutions = work.iter().filter(|work| matches!(work.unit, Unit::Substitution(_)));
    substitutions.map(|work| work.count).sum::<f64>() > SUBSTITUTIONS
}

/// Tables that reach every case of a protocol's shapes.
struct Specimens {
    /// Records and their bytes: some records share a unit, some take several units. Every table is
    /// built and queried within seconds.
    small: &'static [(u64, usize)],
    /// Bytes of a record in a large table, of a size that is typical for the protocol.
    large_record_bytes: usize,
}

fn specimens(protocol: &str) -> Specimens {
    let (small, large_record_bytes): (&[_], _) = match protocol {
        "double" => (&[(40, 3), (700, 1), (5, 40)], 16),
        "exppack-double" => (&[(20, 2), (3, 11)], 16),
        "exppack-simple" | "hybrid" | "double-pack" => (&[(20, 900), (3, 9000)], 4096),
        "onion" => (&[(20, 4000), (3, 40_000)], 4096),
        _ => (&[(40, 3), (1200, 40), (5, 9000)], 4096),
    };
    Specimens { small, large_record_bytes }
}

/// Returns the shapes of small databases: the first at tiny scale, else all.
fn small_shapes(protocol: &str, scale: Scale) -> &'static [(u64, usize)] {
    let shapes = specimens(protocol).small;
    if scale == Scale::Tiny { &shapes[..1] } else { shapes }
}

pub(super) fn checks(subject: &Subject, gib: f64) -> Vec<Check> {
    let mut checks = Vec::new();
    for protocol in protocols(subject.scale) {
        for &(records, record_bytes) in small_shapes(protocol, subject.scale) {
            let subject = subject.clone();
            let name = format!("protocol {protocol}, {records} records of {record_bytes} bytes");
            checks.push(Check::new(name, move || small(&subject, protocol, records, record_bytes)));
        }
    }
    if subject.scale == Scale::Full {
        for protocol in NAMES {
            let subject = subject.clone();
            let (records, record_bytes) = large_shape(protocol, gib);
            let name = format!("protocol {protocol}, {records} records of {record_bytes} bytes");
            checks.push(Check::new(name, move || large(&subject, protocol, records, record_bytes)));
        }
    }
    checks
}

/// Checks that every record decodes, that the answers equal the CPU's bit for bit, and that
/// malformed queries are refused.
fn small(subject: &Subject, protocol: &str, records: u64, record_bytes: usize) -> anyhow::Result<String> {
    let mut rng = SecretRng::from_os()?;
    let params = choose(protocol, records, record_bytes)?;
    let random = setup(&subject.cuda, &params, Content::Random(3));
    let margin = records_decode(&random, &(0..records).collect::<Vec<_>>(), &mut rng);
    answers_agree(&random, &setup(&subject.cpu, &params, Content::Random(3)), &mut rng);
    malformed_queries_are_refused(&random, &mut rng);
    queries_share_nothing(&random, &mut rng);
    for content in [Content::Constant(0), Content::Constant(255), Content::Alternating] {
        let setup = setup(&subject.cuda, &params, content);
        records_decode(&setup, &[0, records / 2, records - 1], &mut rng);
    }
    Ok(margin_text(margin))
}

fn margin_text(margin: f64) -> String {
    if margin.is_finite() { format!("{margin:.1} bits of margin") } else { String::new() }
}

/// Returns a shape with records of the protocol's typical size. For small records the database is
/// an eighth as large, because making each record takes time.
fn large_shape(protocol: &str, gib: f64) -> (u64, usize) {
    let record_bytes = specimens(protocol).large_record_bytes;
    let room = gib * f64::from(1 << 30) / if record_bytes < 256 { 8.0 } else { 1.0 };
    ((room / record_bytes as f64).max(1.0) as u64, record_bytes)
}

/// Checks that some records of a large database decode. The database is the largest that fits, up
/// to `wanted` records.
fn large(subject: &Subject, protocol: &str, wanted: u64, record_bytes: usize) -> anyhow::Result<String> {
    let mut rng = SecretRng::from_os()?;
    // Frees the memory that earlier checks used, so that it is available for the database.
    subject.cuda.device().trim(0)?;
    let (free, _) = subject.cuda.device().memory()?;
    let mut records = wanted;
    let params = loop {
        let params = choose(protocol, records, record_bytes)?;
        if params.memory_bytes as f64 <= 0.6 * free as f64 || records == 1 {
            break params;
        }
        records /= 2;
    };
    let setup = setup(&subject.cuda, &params, Content::Random(5));
    let others = (0..14).map(|_| rng.next_u64() % records);
    let indices: Vec<u64> = [0, records - 1].into_iter().chain(others).collect();
    let margin = margin_text(records_decode(&setup, &indices, &mut rng));
    Ok(if records == wanted { margin } else { format!("{records} records only, {margin}") })
}
