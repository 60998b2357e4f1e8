//! Ratio of the stored bytes of a table's records to the bytes of its tags and values, and its
//! spread over several builds. Builds are only planned: nothing is computed from the records.
#![allow(clippy::print_stdout)]

use spirea_math::random::Seed;
use spirea_protocols::keyword::{EntryPlace, KeyHash, TAG_BYTES};
use spirea_protocols::layout::{Cut, Framing, Lengths, Loads, Shape};
use spirea_protocols::registry::{Choice, ProtocolParams};
use spirea_protocols::{PlaceSalt, Salt, Table};

/// Returns the bytes that build number `build` stores under `protocol` for a keyed table with
/// values of these lengths, divided by the bytes of tags and values.
fn stored(lengths: &[usize], protocol: &str, build: u64) -> f64 {
    let framing = Framing::keyed(|_| 0);
    let shape = Shape::choose(&lengths.iter().copied().collect::<Lengths>(), &framing);
    let [salt, places] = ["salt", "places"].map(|name| blake3::derive_key(name, &build.to_le_bytes()));
    let mut loads = Loads::new(shape.units());
    for (i, &bytes) in lengths.iter().enumerate() {
        let place =
            EntryPlace::new(&PlaceSalt::new(places), &KeyHash::new(&Salt::new(salt), &i.to_le_bytes()).tag);
        loads.add(place.part(loads.units()), framing.entry(bytes));
    }
    let Cut { payload_bytes, widths } = loads.cut(&shape, &framing);
    let table = Table {
        entries: lengths.len() as u64,
        records: widths.count() as u64,
        payload_bytes,
        widths: Some(widths),
        ..spirea_specimens::table(spirea_protocols::TableKind::Keyword, 1, 1)
    };
    table.validate().unwrap();
    let choice = Choice { protocol: protocol.into(), ..Choice::default() };
    let params =
        ProtocolParams::choose(&choice, Seed::new([0; 32]), table.records, table.record_bytes()).unwrap();
    let bytes: usize = lengths.iter().map(|bytes| TAG_BYTES + bytes).sum();
    params.matrix_bytes() as f64 / bytes as f64
}

/// Returns the minimum and maximum of [`stored`] over `builds` builds.
fn spread(lengths: &[usize], protocol: &str, builds: u64) -> [f64; 2] {
    let all = (0..builds).map(|build| stored(lengths, protocol, build));
    all.fold([f64::INFINITY, 0.0], |[least, most], ratio| [least.min(ratio), most.max(ratio)])
}

/// Returns lengths with a normally distributed logarithm: a median of 200 bytes, and a standard
/// deviation of 1.5.
fn log_normal(values: u64) -> Vec<usize> {
    let uniform = |bytes: &[u8; 8]| (u64::from_le_bytes(*bytes) >> 11) as f64 / (1u64 << 53) as f64;
    let length = |i: u64| {
        let hash = *blake3::hash(&i.to_le_bytes()).as_bytes();
        let [radius, angle] = [&hash[..8], &hash[8..16]].map(|half| uniform(half.try_into().unwrap()));
        let normal = (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
        (200.0 * (1.5 * normal).exp()) as usize
    };
    (0..values).map(length).collect()
}

#[test]
fn twenty_builds_of_one_table_store_the_same_within_three_percent() {
    for (lengths, most) in
        [(log_normal(5000), 1.8), (vec![64; 1000], 1.8), (vec![64; 5000], 1.8), (vec![500; 1000], 1.8)]
    {
        let [least, greatest] = spread(&lengths, "dpf-xor", 20);
        assert!(greatest <= most && greatest < 1.03 * least, "{least} to {greatest}");
    }
}

#[test]
fn a_million_rows_of_64_bytes_store_at_most_one_and_a_half_times_their_bytes() {
    for protocol in ["simple", "hybrid"] {
        let [least, greatest] = spread(&[64; 1_000_000], protocol, 2);
        assert!(greatest <= 1.5 && greatest < 1.03 * least, "{protocol}: {least} to {greatest}");
    }
}

/// Prints the table of docs/snapshots.md: `cargo test --release -p spirea-store --test stored_bytes
/// -- --ignored --nocapture`.
#[test]
#[ignore = "it prints a table of the documentation"]
fn print_what_tables_store() {
    println!(
        "| table | protocol | builds | stored bytes for each byte of tags and values |\n|---|---|---|---|"
    );
    for (name, lengths, builds) in [
        ("1,000 values of 64 bytes", vec![64; 1000], 20),
        ("5,000 values of 64 bytes", vec![64; 5000], 20),
        ("5,000 log-normal values", log_normal(5000), 20),
        ("1,000,000 values of 64 bytes", vec![64; 1_000_000], 10),
        ("2,000,000 values of 148 bytes", vec![148; 2_000_000], 10),
    ] {
        for protocol in ["simple", "hybrid", "dpf-xor"] {
            let [least, most] = spread(&lengths, protocol, builds);
            println!("| {name} | `{protocol}` | {builds} | {least:.3} to {most:.3} |");
        }
    }
}
