//! Checks that the implementation computes the worked examples of docs/wire.md. The reference
//! client computes them too: `conformance/client/examples.py`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use bytes::Bytes;
use spirea_dpf::{Bit, Domain, OutputKind, Prf, generate, prf};
use spirea_lattice::rlwe::{Conversion, KeyShape, OneShotQuery, UniformHalves};
use spirea_lattice::{LweSet, PublicMatrix, RingSet};
use spirea_math::random::{SecretRng, Seed, public_residues, public_row};
use spirea_math::{Expansion, Gadget, Modulus, NttPlan, Rotations, SentChunks};
use spirea_normalise::{form, normalised};
use spirea_protocols::Sizes;
use spirea_protocols::delta::{self, Change};
use spirea_protocols::grid::{self, Grid, Spread};
use spirea_protocols::keyword::{Bucket, EntryPlace, KeyHash};
use spirea_protocols::layout::Widths;
use spirea_protocols::proof::Proofs;
use spirea_protocols::registry::{NAMES, ProtocolParams};
use spirea_protocols::rows::push_row;
use spirea_protocols::signature::{PrivateKey, Signature};
use spirea_protocols::table::{KeyStep, Table, TableKind, join_fields};
use spirea_wire::{Code, KeysRequest, Part, Queries, Refusal, Request};

/// Bytes 0, 1, ..., 31.
const COUNTED: Seed = {
    let mut bytes = [0; 32];
    let mut i = 0;
    while i < 32 {
        bytes[i] = i as u8;
        i += 1;
    }
    bytes
};

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn words(words: &[u32]) -> String {
    words.iter().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(" ")
}

fn listed<T: ToString>(numbers: &[T]) -> String {
    numbers.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the examples of the documents by name; each name occurs once.
fn documented() -> BTreeMap<String, String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let parts = std::fs::read_dir(docs.join("wire")).unwrap().map(|entry| entry.unwrap().path());
    let mut found = BTreeMap::new();
    for path in parts.chain([docs.join("wire.md")]) {
        let text = std::fs::read_to_string(path).unwrap();
        for block in text.split("```example ").skip(1) {
            let (block, _) = block.split_once("```").unwrap();
            let (name, lines) = block.split_once('\n').unwrap();
            assert_eq!(found.insert(name.to_owned(), lines.to_owned()), None, "two examples {name}");
        }
    }
    found
}

#[test]
fn examples_are_what_the_implementation_computes() {
    let documented = documented();
    let computed = computed(&documented["parameters"]);
    let names = |examples: &BTreeMap<String, String>| examples.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&documented), names(&computed));
    for (name, said) in &documented {
        assert_eq!(*said, computed[name], "example {name} of docs/wire.md");
    }
}

fn computed(parameters: &str) -> BTreeMap<String, String> {
    let mut examples = BTreeMap::new();
    let mut add = |name: &str, lines: Vec<String>| {
        examples.insert(name.to_owned(), lines.iter().map(|line| format!("{line}\n")).collect());
    };
    add("lengths", lengths());
    add("stream", stream());
    add("residues", residues());
    add("keys-request", keys_request());
    add("query-request", query_request());
    add("error", error());
    add("versions", versions());
    add("parameters", lengths_of(parameters));
    add("signature", signature());
    add("record", record());
    add("proof", proof());
    add("fields", fields());
    add("keys", keys());
    add("bucket", bucket());
    add("widths", widths());
    add("rows-per-record", rows_per_record());
    add("key-forms", key_forms());
    add("rows", rows());
    add("changes", changes());
    add("places", places());
    add("matrix", matrix());
    add("rounding", rounding());
    add("rounded-hint", rounded_hint());
    add("rounded-bodies", rounded_bodies());
    add("blinding", blinding());
    add("ring-sets", ring_sets());
    add("transform", transform());
    add("halves", halves());
    add("gadgets", gadgets());
    add("substitution", substitution());
    add("leaves", leaves());
    add("rotations", rotations());
    add("one-shot", one_shot(None));
    add("short", one_shot(Some("short")));
    add("response", response());
    add("pad", pad());
    add("prf", functions());
    add("dpf-key", dpf_key());
    add("bins", bins());
    examples
}

fn lengths() -> Vec<String> {
    // A value is preceded by its length.
    let length = |value: usize| {
        let payload = Table::index_payload(&vec![0; value]);
        hex(&payload[..payload.len() - value])
    };
    [0, 127, 128, 300, 1 << 20].map(|value| format!("{value}: {}", length(value))).into()
}

fn stream() -> Vec<String> {
    let mut row = [0; 18];
    public_row(&COUNTED, 7, &mut row);
    vec![
        "key: 00..1f".into(),
        format!("words 0 to 3 of stream 7: {}", words(&row[..4])),
        format!("words 16 and 17 of stream 7: {}", words(&row[16..])),
    ]
}

fn residues() -> Vec<String> {
    let mut first = [0; 4];
    public_residues(&COUNTED, 5, Modulus::new(134_176_769), &mut first);
    let what = "the first residues modulo 134176769 of stream 5";
    vec!["seed: 00..1f".into(), format!("{what}: {}", listed(&first))]
}

fn keys_request() -> Vec<String> {
    let keys = Bytes::from_static(&[0xaa, 0xbb, 0xcc]);
    let message = KeysRequest { version: [0x11; 32], part: Part::Delta, keys }.encode();
    let said = ["version: 32 bytes 11", "keys: aabbcc", "delta: true"].map(String::from);
    [&said[..], &[format!("message: {}", hex(message))]].concat()
}

fn query_request() -> Vec<String> {
    let queries = |queries: [&'static [u8]; 2]| Queries {
        keys: Some([0x22; 32]),
        queries: queries.map(Bytes::from_static).into(),
    };
    let (base, delta) = (queries([&[1, 2], &[3, 4]]), Some(queries([&[5], &[6]])));
    let message = Request { version: [0x11; 32], base, delta }.encode();
    let sent = Request::with_keys(&message, [(Part::Base, &[0xaa, 0xbb, 0xcc][..])].into_iter());
    vec![
        "version: 32 bytes 11".into(),
        "queries: 0102 and 0304".into(),
        "keys: 32 bytes 22".into(),
        "delta queries: 05 and 06".into(),
        "delta keys: 32 bytes 22".into(),
        format!("message: {}", hex(&message)),
        "sent keys: aabbcc".into(),
        format!("with the keys: the same bytes, then {}", hex(&sent[message.len()..])),
    ]
}

fn error() -> Vec<String> {
    let refusal = Refusal {
        code: Code::StaleVersion,
        message: "m".into(),
        remedy: "r".into(),
        accepted: false,
        current_version: Some([0x33; 32]),
    };
    vec![
        "code: STALE_VERSION".into(),
        "message: m".into(),
        "remedy: r".into(),
        "accepted: false".into(),
        "current version: 32 bytes 33".into(),
        format!("bytes: {}", hex(refusal.encode())),
    ]
}

fn versions() -> Vec<String> {
    let version = delta::version([0x11; 32], Some([0x22; 32]));
    vec!["base: 32 bytes 11".into(), "delta: 32 bytes 22".into(), format!("version: {}", hex(version))]
}

/// Returns the lengths for the parameters in the document, which must include each protocol once,
/// in the form that this software writes.
fn lengths_of(parameters: &str) -> Vec<String> {
    let given: Vec<&str> = parameters.lines().filter(|line| line.starts_with('{')).collect();
    let params: Vec<_> =
        given.iter().map(|line| ProtocolParams::from_json(line.as_bytes()).unwrap()).collect();
    assert!(params.iter().map(|params| params.name()).eq(NAMES));
    let lines = params.iter().flat_map(|params| {
        let sizes = params.sizes();
        let lengths = format!(
            "  query {}, answer {}, keys {}, hint {}",
            sizes.query_bytes, sizes.answer_bytes, sizes.keys_bytes, sizes.hint_bytes
        );
        [String::from_utf8(params.to_json()).unwrap(), lengths]
    });
    lines.collect()
}

fn signature() -> Vec<String> {
    let (name, created, sequence) = ("domains", "2026-01-31T23:59:59Z", 5);
    let signature = Signature::new(&PrivateKey::from_bytes(&[1; 32]), name, &[0x11; 32], sequence, created);
    let json: serde_json::Value = serde_json::from_slice(&signature.to_json()).unwrap();
    // Only the signature reveals the statement: Ed25519 has one signature for a key and a message.
    let mut statement = b"spirea 2026 signed version\0".to_vec();
    for text in [name, created] {
        statement.extend((text.len() as u64).to_le_bytes());
        statement.extend(text.as_bytes());
    }
    statement.extend([0x11; 32]);
    statement.extend(u64::to_le_bytes(sequence));
    vec![
        "private key: 32 bytes 01".into(),
        format!("name: {name}"),
        format!("created: {created}"),
        "version: 32 bytes 11".into(),
        format!("sequence: {sequence}"),
        format!("statement: {}", hex(statement)),
        format!("key: {}", json["key"].as_str().unwrap()),
        format!("ed25519: {}", json["ed25519"].as_str().unwrap()),
    ]
}

/// Returns an index table of `records` records with `payload_bytes` bytes of payload.
fn table(records: u64, payload_bytes: usize, proofs: Option<Proofs>) -> Table {
    Table { salt: COUNTED, proofs, ..spirea_specimens::table(TableKind::Index, records, payload_bytes) }
}

fn record() -> Vec<String> {
    let payload = Table::index_payload(b"first");
    vec![
        "salt: 00..1f".into(),
        "payload bytes: 8".into(),
        format!("payload: {}", hex(&payload)),
        format!("record 3: {}", hex(table(10, 8, None).seal(3, &payload))),
    ]
}

fn proof() -> Vec<String> {
    let mut table = table(3, 4, Some(Proofs { levels: 1, ..Proofs::blank(3, [0x55; 32]) }));
    let payloads = [[0; 4], [1; 4], [2; 4]];
    let leaves = (0..).zip(&payloads).map(|(i, payload)| table.leaf(i, payload)).collect();
    let tree = table.prove(leaves).unwrap();
    let proof = |i: usize| {
        let record = table.seal_proven(i as u64, &payloads[i], &tree);
        hex(&record[4..20])
    };
    let record = table.seal_proven(1, &payloads[1], &tree);
    let proofs = table.proofs.as_ref().unwrap();
    let roots: Vec<_> = proofs.roots.iter().map(hex).collect();
    let text = serde_json::to_value(proofs).unwrap()["roots"].as_str().unwrap().to_owned();
    vec![
        "salt: 00..1f".into(),
        "salt of the proofs: 32 bytes 55".into(),
        format!("payloads of records 0 to 2: {}", payloads.map(hex).join(", ")),
        "levels: 1".into(),
        format!("roots: {text}, which is {}", roots.join(", ")),
        format!("proof of record 1: {}", proof(1)),
        format!("record 1: {}", hex(record)),
        format!("proof of record 2: {}", proof(2)),
    ]
}

fn fields() -> Vec<String> {
    let value = join_fields(&[b"alpha", &[0; 80]]);
    vec!["fields: alpha and 80 zero bytes".into(), format!("value: {}", hex(value))]
}

fn keys() -> Vec<String> {
    let of = |key: &str| {
        let tag = KeyHash::new(&COUNTED, key.as_bytes()).tag;
        let place = EntryPlace::new(&[0x44; 32], &tag);
        // The upper 40 bits of a place are its bucket among 2^40.
        let (upper, record) = (place.part(1 << 40), place.part(1000));
        format!("{key}: tag {}, place {upper:010x}..., record {record}", hex(tag))
    };
    vec!["salt: 00..1f".into(), "places: 32 bytes 44".into(), "records: 1000".into(), of("alpha"), of("beta")]
}

fn bucket() -> Vec<String> {
    let mut bucket = Bucket::default();
    bucket.push(&[0xaa; 12], &[1, 2]);
    bucket.push(&[0xbb; 12], &[]);
    let (a, b) = (hex([0xaa; 12]), hex([0xbb; 12]));
    vec![format!("entries: {a} with 0102, {b} with nothing"), format!("payload: {}", hex(bucket.payload()))]
}

fn widths() -> Vec<String> {
    const WIDTHS: [u8; 4] = [3, 1, 4, 2];
    let widths = Widths::new(WIDTHS.to_vec()).unwrap();
    let text = serde_json::to_string(&widths).unwrap();
    let of_keys = Table {
        places: Some([0x44; 32]),
        widths: Some(widths.clone()),
        ..spirea_specimens::table(TableKind::Keyword, 4, 8)
    };
    let of_rows = Table { entries: 25, kind: TableKind::Index, places: None, ..of_keys.clone() }.boundaries();
    let key = |key: &str| {
        let hash = KeyHash::new(&COUNTED, key.as_bytes());
        let unit = EntryPlace::new(&[0x44; 32], &hash.tag).part(widths.units());
        format!("{key}: unit {unit}, record {}", of_keys.bucket(&hash).unwrap())
    };
    let row = |row: u64| {
        let record = of_rows.of_row(row);
        format!("row {row} of 25: record {record}, number {}", row - of_rows.rows(record).start)
    };
    let said = format!("widths: {}, which is {}", text.trim_matches('"'), hex(WIDTHS));
    [
        vec!["salt: 00..1f".into(), "places: 32 bytes 44".into(), said, key("alpha"), key("beta")],
        [0, 9, 10, 24].map(row).into(),
    ]
    .concat()
}

fn key_forms() -> Vec<String> {
    use KeyStep::{Domain, E164, Hex, Lower, Nfc, Trim};
    let of = |steps: &[KeyStep], key: &str| {
        let names = steps.iter().map(|step| serde_json::to_value(step).unwrap().as_str().unwrap().to_owned());
        let names = names.collect::<Vec<_>>().join(", ");
        match normalised(&form(steps.to_vec(), None).unwrap(), key.as_bytes()) {
            Ok(in_form) => format!("{names}: {} is {}", hex(key), hex(&in_form[..])),
            Err(_) => format!("{names}: {} has no form", hex(key)),
        }
    };
    vec![
        of(&[Trim, Nfc, Lower], " Zoe\u{308}@X"),
        of(&[Lower, Nfc], "I\u{316}\u{307}"),
        of(&[Domain], "Example.COM."),
        of(&[E164], "+41446681800"),
        of(&[Hex], "0xAB"),
        of(&[Hex], "g"),
    ]
}

fn rows_per_record() -> Vec<String> {
    let table = Table { entries: 20, rows_per_record: Some(7), ..table(3, 8, None) };
    table.validate().unwrap();
    let boundaries = table.boundaries();
    let row = |row: u64| {
        let record = boundaries.of_row(row);
        format!("row {row}: record {record}, number {}", row - boundaries.rows(record).start)
    };
    let lines = [0, 6, 7, 19].map(row);
    [vec!["entries: 20, records: 3, rows per record: 7".into()], lines.into()].concat()
}

fn rows() -> Vec<String> {
    let mut payload = Vec::new();
    let values = [Some(&b"first"[..]), None, Some(b""), Some(&[1, 2])];
    values.into_iter().for_each(|value| push_row(&mut payload, value));
    vec!["rows: first, a deleted one, an empty one, 0102".into(), format!("payload: {}", hex(payload))]
}

fn changes() -> Vec<String> {
    vec![
        format!("key of row 258: {}", hex(delta::index_key(258))),
        format!("put of first: {}", hex(Change::Put(b"first").to_bytes())),
        format!("delete: {}", hex(Change::Delete.to_bytes())),
    ]
}

fn places() -> Vec<String> {
    let of = |record_bytes: usize, spread: Spread, word: &str| {
        let grid = Grid { records: 60, record_bytes, unit_rows: 256, groups: 3, columns: 60 };
        let (grid::RecordPlace { column, group, offset }, parts) = (grid.place(spread, 17), grid.parts());
        let parts = format!("{parts} part{}", if parts > 1 { "s" } else { "" });
        format!(
            "records of {record_bytes} bytes, unit 256, 3 groups, {word}, record 17: column {column}, group {group}, offset {offset}, {parts}"
        )
    };
    vec![
        of(100, Spread::Columns, "across"),
        of(600, Spread::Columns, "across"),
        of(600, Spread::Rows, "down"),
    ]
}

fn matrix() -> Vec<String> {
    let first = PublicMatrix::new(LweSet::Module1280, COUNTED, 512).entries();
    let second = PublicMatrix::of_second_fold(LweSet::Module1280, COUNTED, 256).entries();
    let uniform = PublicMatrix::new(LweSet::Paper, COUNTED, 256).entries();
    let degree = 1280;
    let at = |a: &[u32], row: usize, column: usize| words(&a[row * degree + column..][..3]);
    let product = |row: usize| {
        let row = &first[row * degree..][..degree];
        let secret = (0..degree as u32).map(|l| (l % 3).wrapping_sub(1));
        row.iter().zip(secret).fold(0u32, |sum, (&a, s)| sum.wrapping_add(a.wrapping_mul(s)))
    };
    let products = words(&[product(0), product(1), product(2)]);
    vec![
        "seed: 00..1f".into(),
        "set: module-1280".into(),
        format!("row 0, columns 0 to 2, first fold: {}", at(&first, 0, 0)),
        format!("row 1, columns 0 to 2, first fold: {}", at(&first, 1, 0)),
        format!("row 257, columns 256 to 258, first fold: {}", at(&first, 257, 256)),
        format!("row 0, columns 0 to 2, second fold: {}", at(&second, 0, 0)),
        format!("rows 0 to 2 times the secret with entries (l mod 3) - 1, first fold: {products}"),
        format!("uniform, row 1, columns 0 to 2, first fold: {}", at(&uniform, 1, 0)),
    ]
}

/// Computes by definition, since the implementation's rounding is not public; the vectors compare
/// both.
fn rounding() -> Vec<String> {
    let round = |word: u32| hex(((word.wrapping_add(1 << 15) >> 16) as u16).to_le_bytes());
    let byte = |phase: u32| phase.wrapping_add(1 << 23) >> 24;
    let words = [0x7fff, 0x8000, 0xffff_8000].map(|word| format!("{word:08x}: {}", round(word)));
    let bytes = [0x2a7f_ffff, 0x2a80_0000, 0xff80_0000]
        .map(|phase| format!("byte of phase {phase:08x}: {:02x}", byte(phase)));
    [words, bytes].concat()
}

/// Computes by definition; the vectors compare with the implementation's factors.
fn blinding() -> Vec<String> {
    let inverse = |c: u64| (1..257).find(|inverse| inverse * c % 257 == 1).expect("units have inverses");
    let factor = |c: u64| {
        let word = ((c << 33) / 257).div_ceil(2);
        format!("c = {c}: word {word:08x}, inverse {}", inverse(c))
    };
    let decoded = |(c, phase): (u64, u64)| {
        let nearest = (2 * 257 * phase + (1 << 32)) >> 33;
        format!("c = {c}, phase {phase:08x} of 32 bits: {}", nearest * inverse(c) % 257)
    };
    let phases = [(3, 0x2a7f_ffff), (3, 0x00fe_0000), (3, 0xff7f_8080), (3, 0xff80_8080), (256, 0x00ff_00ff)];
    [1, 128, 129, 256].map(factor).into_iter().chain(phases.map(decoded)).collect()
}

/// Computes by definition; the vectors compare with the implementation's rounding of bodies.
fn rounded_bodies() -> Vec<String> {
    const DROPPED: u32 = 5;
    let bodies = [0xf, 0x10, 0x11, 0xffff_ffef, 0xffff_fff0, 0, 0x1234_5678, 0x8000_0000];
    let round = |coin: u32| {
        bodies.map(|body: u32| body.wrapping_add((1 << (DROPPED - 1)) - 1 + coin) >> DROPPED << DROPPED)
    };
    let kept = 32 - DROPPED as usize;
    let bit = |i: usize| round(0)[i / kept] >> (DROPPED as usize + i % kept) & 1;
    let byte = |i: usize| (0..8).fold(0, |byte, j| byte | (bit(8 * i + j) as u8) << j);
    vec![
        format!("d = {DROPPED}: {}", words(&bodies)),
        format!("with bits 0: {}", words(&round(0))),
        format!("with bits 1: {}", words(&round(1))),
        format!("bytes of those with bits 0: {}", hex((0..kept).map(byte).collect::<Vec<_>>())),
    ]
}

/// Computes by definition; the vectors compare with the implementation's hints.
fn rounded_hint() -> Vec<String> {
    const BITS: usize = 17;
    let entries = [0, 0x3fff, 0x4000, 0xffff_bfff, 0xffff_c000, 0x1234_5678, 0x8000_0000, 0xc0ff_ee00u32];
    let rounded = entries.map(|word| word.wrapping_add(1 << (31 - BITS)) >> (32 - BITS));
    let bit = |i: usize| rounded[i / BITS] >> (i % BITS) & 1;
    let byte = |i: usize| (0..8).fold(0, |byte, j| byte | (bit(8 * i + j) as u8) << j);
    vec![
        format!("b = {BITS}: {}", words(&entries)),
        format!("bytes: {}", hex((0..BITS).map(byte).collect::<Vec<_>>())),
        format!("words for the client: {}", words(&rounded.map(|number| number << (32 - BITS)))),
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
        "protocol": "exppack-simple", "set": "module-1280", "ring": "fast", "seed": hex(COUNTED), "dropped_bits": 5,
        "keys": "per-query", "grid": grid
    });
    let (mut chunks, mut ciphertexts) = (SentChunks::Expanded(Expansion::partial(4, 5)), 1);
    if let Some(form) = form {
        params["queries"] = form.into();
        (chunks, ciphertexts) = (SentChunks::Apart, 5);
    }
    let params = ProtocolParams::from_json(params.to_string().as_bytes()).unwrap();
    let Sizes { query_bytes, answer_bytes, hint_bytes, keys_bytes } = params.sizes();
    let shape = OneShotQuery { set: RingSet::Fast, chunks, rotations: Rotations::fewest(256, 5, 4) };
    let (uniform, words) = (UniformHalves::new(shape, &COUNTED), RingSet::Fast.ring().words());
    let halves: Vec<&[u32]> = uniform.words().chunks_exact(words).collect();
    let ciphertext = 28 * 1024 + 512;
    // Bytes of the keys: the query without bodies and ciphertexts.
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

/// Computes by definition; the vectors compare with the implementation's packing of bits.
fn response() -> Vec<String> {
    let numbers = [1u64, 31, 16, 2, 3, 4, 5, 6];
    let packed = (0..).zip(&numbers).fold(0, |packed, (i, number)| packed | number << (5 * i));
    vec![
        format!("numbers of 5 bits: {}", listed(&numbers)),
        format!("bytes: {}", hex(&packed.to_le_bytes()[..5])),
    ]
}

fn pad() -> Vec<String> {
    let key = blake3::derive_key("spirea v1: public pad of polynomials", &COUNTED);
    let (unit, mut row) = ((3 + 2) * 256 + 4, [0; 3]);
    public_row(&key, unit, &mut row);
    vec![
        "pad: 00..1f".into(),
        "ring: onion-30".into(),
        format!("part 1, group 2 of 3, column 4 of 256: unit {unit}"),
        format!("words 0 to 2 of its pad: {}", words(&row.map(|word| word & ((1 << 30) - 1)))),
    ]
}

fn functions() -> Vec<String> {
    let seed = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeffu128.to_be_bytes();
    fn blocks<P: Prf>(name: &str, prf: P, seed: [u8; 16]) -> String {
        let mut blocks = [[0; 2]];
        prf.blocks(&[u128::from_le_bytes(seed)], &mut blocks);
        format!("{name}, blocks 0 and 1: {}", blocks[0].map(|block| hex(block.to_le_bytes())).join(" "))
    }
    vec![
        format!("seed: {}", hex(seed)),
        blocks("aes-128", prf::Aes128, seed),
        blocks("chacha20", prf::ChaCha20::default(), seed),
    ]
}

fn dpf_key() -> Vec<String> {
    let domain = Domain::new(1027, OutputKind::Bit).unwrap();
    let mut rng = SecretRng::deterministic_for_tests(0);
    let keys = generate(prf::Aes128, domain, 1025, Bit(true), &mut rng).unwrap().map(|key| key.to_bytes());
    let root = |party: usize| format!("root {party}: {}", hex(&keys[party][1..17]));
    let key = |party: usize| format!("key {party}: {}", hex(&keys[party]));
    vec!["prf, rows, row, shares: aes-128, 1027, 1025, bit".into(), root(0), root(1), key(0), key(1)]
}

fn bins() -> Vec<String> {
    let grid = r#"{"records":1000,"record_bytes":64,"unit_rows":64,"groups":1,"columns":1001}"#;
    let json = format!(r#"{{"protocol":"dpf-xor","prf":"aes-128","shares":"bit","grid":{grid},"bins":7}}"#);
    let params = ProtocolParams::from_json(json.as_bytes()).unwrap();
    let bins = params.client(&[], &[], &mut SecretRng::deterministic_for_tests(0)).unwrap().bins();
    let bin_of = |index| (0..bins.count()).find(|&bin| bins.range(bin).contains(&index)).unwrap();
    let last = bins.range(6);
    let sizes = params.sizes();
    vec![
        "records, record_bytes, unit_rows, columns, bins: 1000, 64, 64, 1001, 7".into(),
        format!("rows of a bin: {}", bins.bin_records()),
        format!("bins of records 0, 142, 143 and 999: {}", listed(&[0, 142, 143, 999].map(bin_of))),
        format!("records of bin 6: {} to {}", last.start, last.end - 1),
        format!("bit: query {}, answer {}", sizes.query_bytes, sizes.answer_bytes),
    ]
}
