//! Examples of ring ciphertexts, their keys and queries.

use spirea_lattice::RingSet;
use spirea_lattice::rlwe::{Conversion, KeyShape, OneShotQuery, UniformHalves};
use spirea_math::random::{SecretRng, Seed, public_row};
use spirea_math::{Expansion, Gadget, Modulus, NttPlan, Rotations, SentChunks};
use spirea_protocols::Sizes;
use spirea_protocols::grid::Spread;
use spirea_protocols::registry::ProtocolParams;

use super::{COUNTED, Example, listed, words};

/// Returns the examples by name.
pub fn examples() -> Vec<Example> {
    vec![
        ("ring-sets", ring_sets()),
        ("transform", transform()),
        ("halves", halves()),
        ("gadgets", gadgets()),
        ("substitution", substitution()),
        ("leaves", leaves()),
        ("rotations", rotations()),
        ("one-shot", one_shot(None)),
        ("short", one_shot(Some("short"))),
        ("response", response()),
        ("pad", pad()),
        ("packed-bins", packed_bins()),
    ]
}

fn packed_bins() -> Vec<String> {
    let grid = r#"{"records":1000,"record_bytes":40,"unit_rows":96,"groups":5,"columns":256}"#;
    let seed = "0a".repeat(32);
    let sets = format!(r#""set":"module-1280","ring":"brief","seed":"{seed}","dropped_bits":4"#);
    let json = format!(r#"{{"protocol":"exppack-simple",{sets},"grid":{grid}}}"#);
    let params = ProtocolParams::from_json(json.as_bytes()).unwrap();
    let bins = params.client(&[], &[], &mut SecretRng::deterministic_for_tests(0)).unwrap().bins();
    let sizes = params.sizes;
    let place =
        |index| format!("{} at {}", bins.bin_of(index), params.grid.place(Spread::Columns, index).column);
    let (last, records) = (bins.record(4, bins.bin_records(4) - 1), bins.bin_records(4));
    vec![
        "records, record_bytes, unit_rows, groups, columns: 1000, 40, 96, 5, 256".into(),
        format!(
            "bins and columns of records 0, 1, 2, 10 and 999: {}",
            [0, 1, 2, 10, 999].map(place).join(", ")
        ),
        format!("records of bin 4: {records}, the last is {last}"),
        format!("brief, 4 bits dropped: query {}, answer {}", sizes.query_bytes, sizes.answer_bytes),
    ]
}

fn ring_sets() -> Vec<String> {
    let gadget = |gadget: Gadget| match gadget {
        Gadget::Residues => "residues".to_owned(),
        Gadget::Digits { levels, base_log, dropped } => format!("digits {levels} {base_log} {dropped}"),
    };
    let set = |set: RingSet| {
        assert_eq!(set.conversion_gadget(), set.expansion_gadget(), "keys have one gadget");
        let primes: Vec<_> = set.ring().limbs().iter().map(|limb| limb.prime().value().to_string()).collect();
        let (name, p, (a, b)) = (set.name(), set.plaintext_bits(), set.response_bits());
        let (keys, selectors) = (gadget(set.expansion_gadget()), gadget(set.selector_gadget()));
        let primes = primes.join(" ");
        let dropped = match set.dropped_bits() {
            0 => String::new(),
            bits if bits == set.chunk_dropped_bits() => format!("; dropped {bits}"),
            bits => format!("; dropped {bits}; of chunks {}", set.chunk_dropped_bits()),
        };
        format!(
            "{name}: primes {primes}; p 2^{p}; keys {keys}; selectors {selectors}; response {a} {b}{dropped}"
        )
    };
    RingSet::ALL.map(set).into()
}

fn transform() -> Vec<String> {
    let (modulus, degree) = (Modulus::new(536_608_769), 4096);
    let mut values: Vec<u32> = (0..degree).collect();
    NttPlan::new(modulus, values.len()).forward(&mut values);
    vec![
        format!("prime: {}", modulus.value()),
        format!("psi: {}", modulus.root_of_unity(2 * values.len())),
        format!(
            "values 0 to 3 of the polynomial with coefficients 0, 1, ..., 4095: {}",
            listed(&values[..4])
        ),
    ]
}

fn halves() -> Vec<String> {
    let shape = KeyShape { set: RingSet::Fast, levels: 1, rotations: None, conversion: Conversion::None };
    let mut keys = COUNTED.to_vec();
    keys.resize(shape.bytes(), 0);
    let (keys, words) = (shape.parse(&keys).unwrap().expansion, RingSet::Fast.ring().words());
    let a = &keys[2 * words..][2 * RingSet::DEGREE..][..3];
    vec![
        "seed: 00..1f".into(),
        "ring: fast".into(),
        format!("ciphertext 1, prime 2, values 0 to 2 of a: {}", listed(a)),
    ]
}

fn gadgets() -> Vec<String> {
    let (fast, onion) = (RingSet::Fast, RingSet::Onion32);
    vec![
        format!("fast, keys: {}", listed(&fast.expansion_gadget().factors(fast.ring()))),
        format!("fast, selectors: {}", listed(&fast.selector_gadget().factors(fast.ring()))),
        format!(
            "onion-32, keys, the first two: {}",
            listed(&onion.expansion_gadget().factors(onion.ring())[..2])
        ),
    ]
}

fn substitution() -> Vec<String> {
    let ring = RingSet::Fast.ring();
    let exponents = [0, 1, 10].map(|level| Expansion::exponent(ring.degree(), level));
    let mut a = ring.zero();
    ring.set_coefficient(&mut a, 1, 1);
    ring.set_coefficient(&mut a, 3, 2);
    let image = ring.automorphism(&a, exponents[1]);
    let coefficient = |i: usize| ring.centred(ring.coefficient(&image, i));
    assert_eq!((0..ring.degree()).filter(|&i| coefficient(i) != 0).collect::<Vec<_>>(), [2049, 2051]);
    assert_eq!([coefficient(2049), coefficient(2051)], [1, -2]);
    vec![
        "ring: fast".into(),
        format!("exponents of levels 0, 1 and 10: {}", listed(&exponents)),
        "X + 2 X^3 at level 1: X^2049 - 2 X^2051".into(),
        format!(
            "exponents of 8 and of 16 rotations: {} and {}",
            listed(&Rotations::new(256, 5, 8).keys(4096)),
            listed(&Rotations::new(256, 5, 16).keys(4096))
        ),
    ]
}

fn leaves() -> Vec<String> {
    let fast = RingSet::Fast;
    let selector = fast.selector_gadget().levels(fast.ring());
    // Three bits distinguish five groups.
    let [one, five] = [0, 3].map(|depth| Expansion::covering(1280 + depth * selector));
    let shape = |groups: &str, expansion: &Expansion| {
        let (leaves, levels) = (expansion.leaves(), expansion.levels());
        format!("fast, by expansion, 1280 columns, {groups}: {leaves} leaves, {levels} levels")
    };
    let coefficients = [1, 2, 3, 1279].map(|leaf| one.coefficient(leaf));
    vec![
        shape("1 group", &one),
        shape("5 groups", &five),
        format!("coefficients of leaves 1, 2, 3 and 1279 of 11 levels: {}", listed(&coefficients)),
        format!("floor(q / p) of fast: {}", fast.scale()),
    ]
}

fn rotations() -> Vec<String> {
    let fast = RingSet::Fast;
    let of = |chunks| listed(&[1, 10, 11, 40, 41, 200].map(|r| Rotations::fewest(256, chunks, r).steps()));
    // Three bits distinguish five groups.
    let (chunks, rows) = (Expansion::partial(4, 6), Expansion::further(4, 9));
    let entries =
        [0, 1, 4].into_iter().flat_map(|chunk| [0, 1, 255].map(|i| chunks.coefficient(chunk) + 16 * i));
    let rows_of = [0, 1, 8].map(|row| chunks.coefficient(5) + 16 * rows.coefficient(row));
    // Adds the multiple of q that makes the scale divisible.
    let q = fast.ring().modulus();
    let scale = (0..4096).map(|k| fast.scale() + k * q).find(|scaled| scaled % 4096 == 0).unwrap() / 4096;
    let dropped = fast.dropped_bits();
    let rounded = [(1 << 29) - 1, 1 << 29, q - 1].map(|b: u128| (b + (1 << (dropped - 1))) >> dropped);
    vec![
        format!("rotations for 1, 10, 11, 40, 41 and 200 packed ciphertexts of 1280 columns: {}", of(5)),
        format!("those of 1536 columns: {}", of(6)),
        format!("fast, 1280 columns, 5 groups: {} levels", chunks.levels() + rows.levels()),
        format!(
            "coefficients of entries 0, 1 and 255 of chunks 0, 1 and 4: {}",
            listed(&entries.collect::<Vec<_>>())
        ),
        format!("coefficients of rows 0, 1 and 8 of 9: {}", listed(&rows_of)),
        format!("floor(q / p) / 4096 of fast: {scale}"),
        format!("numbers of b = 2^29 - 1, 2^29 and q - 1: {}", listed(&rounded)),
    ]
}

fn one_shot(form: Option<&str>) -> Vec<String> {
    let grid = serde_json::json!({ "records": 1000, "record_bytes": 64, "unit_rows": 16384, "groups": 1, "columns": 256 });
    let mut params = serde_json::json!({
        "protocol": "exppack-simple", "set": "module-1280", "ring": "fast", "seed": hex::encode(COUNTED), "dropped_bits": 5,
        "keys": "per-query", "grid": grid
    });
    let (mut chunks, mut ciphertexts) = (SentChunks::Expanded(Expansion::partial(4, 5)), 1);
    if let Some(form) = form {
        params["queries"] = form.into();
        (chunks, ciphertexts) = (SentChunks::Apart, 5);
    }
    let params = ProtocolParams::from_json(params.to_string().as_bytes()).unwrap();
    let Sizes { query_bytes, answer_bytes, hint_bytes, keys_bytes } = params.sizes;
    let shape = OneShotQuery { set: RingSet::Fast, chunks, rotations: Rotations::fewest(256, 5, 4) };
    let (uniform, words) = (UniformHalves::new(shape, &Seed::new(COUNTED)), RingSet::Fast.ring().words());
    let halves: Vec<&[u32]> = uniform.words().chunks_exact(words).collect();
    let ciphertext = 28 * 1024 + 512;
    // The keys take the bytes of the query besides bodies and ciphertexts.
    let keys = query_bytes - 256 * 27 / 8 - ciphertexts * ciphertext;
    let last = halves.len() - 1;
    vec![
        "seed: 00..1f".into(),
        format!(
            "fast, 1280 columns, 4 packed ciphertexts, 256 columns with 5 bits dropped: query {query_bytes}, answer \
             {answer_bytes}, keys {keys_bytes}, hint {hint_bytes}"
        ),
        format!(
            "halves: {}, of {} bits a word",
            halves.len(),
            keys * 8 / words / (halves.len() - ciphertexts)
        ),
        format!("half 1, prime 2, values 0 to 2: {}", listed(&halves[1][2 * RingSet::DEGREE..][..3])),
        format!("half {last}, prime 0, values 0 to 2: {}", listed(&halves[last][..3])),
    ]
}

/// Computes the packing of bits by definition. The committed vectors test the implementation's
/// packing.
fn response() -> Vec<String> {
    let numbers = [1u64, 31, 16, 2, 3, 4, 5, 6];
    let packed = (0..).zip(&numbers).fold(0, |packed, (i, number)| packed | number << (5 * i));
    vec![
        format!("numbers of 5 bits: {}", listed(&numbers)),
        format!("bytes: {}", hex::encode(&packed.to_le_bytes()[..5])),
    ]
}

fn pad() -> Vec<String> {
    let key = Seed::new(blake3::derive_key("spirea v1: public pad of polynomials", &COUNTED));
    let (unit, mut row) = ((3 + 2) * 256 + 4, [0; 3]);
    public_row(&key, unit, &mut row);
    vec![
        "pad: 00..1f".into(),
        "ring: onion-30".into(),
        format!("part 1, group 2 of 3, column 4 of 256: unit {unit}"),
        format!("words 0 to 2 of its pad: {}", words(&row.map(|word| word & ((1 << 30) - 1)))),
    ]
}
