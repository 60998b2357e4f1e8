//! Databases chosen against each protocol: databases that add up the noise of an expansion's tree,
//! databases aligned with the public matrix, and databases of extreme values. The tests check the
//! greatest error, since a mean square hides errors that add up.
#![allow(clippy::print_stdout, reason = "what was measured is worth seeing")]

use std::sync::Arc;

use spirea_conformance::{
    Content, Count, Setup, greatest_error, greatest_error_of_any, is_drawn, is_long, setup, setup_of,
    with_grid,
};
use spirea_cpu::CpuBackend;
use spirea_lattice::{LweSet, PublicMatrix, RingSet};
use spirea_math::Expansion;
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::choice::KeyDelivery;
use spirea_protocols::grid::Spread;
use spirea_protocols::registry::{Choice, NAMES, ProtocolParams};
use spirea_protocols::{Prepared, Query};

/// Number of coefficients of a polynomial.
const DEGREE: usize = 4096;
/// Maximum error for a database that is aligned with the public matrix, as a share of the error
/// that decoding tolerates. The alignment should not affect the error.
const GREATEST_ALIGNED: f64 = 0.5;

/// Protocols whose queries can carry their keys.
const BROUGHT: [&str; 3] = ["exppack-simple", "exppack-double", "hybrid"];

/// Returns parameters whose grid has these numbers of groups and columns.
fn of_grid(
    protocol: &str,
    keys: KeyDelivery,
    record_bytes: usize,
    groups: usize,
    columns: usize,
) -> ProtocolParams {
    let choice = Choice { protocol: protocol.into(), keys, ..Choice::default() };
    let params = ProtocolParams::choose(&choice, Seed::new([7; 32]), 1, record_bytes).unwrap();
    let records = groups * columns * params.grid.records_per_unit();
    let grid = [("groups", groups), ("columns", columns), ("records", records)];
    with_grid(&params, &grid.map(|(member, value)| (member, value as u64)))
}

fn backend() -> Arc<CpuBackend> {
    Arc::new(CpuBackend::new(2).unwrap())
}

fn ends(params: &ProtocolParams) -> [u64; 3] {
    [0, params.records() / 2, params.records() - 1]
}

/// Returns the number of clients that query the same records, each with its own keys and noise.
fn clients() -> usize {
    if is_long() { 3 } else { 1 }
}

#[test]
fn extreme_databases_decode_with_errors_as_small_as_they_are_said_to_be() {
    let (backend, mut rng) = (backend(), SecretRng::from_os().unwrap());
    let constants = [0, 0x7f, 0x80, 0xff].map(Content::Constant);
    let registered = NAMES.map(|protocol| (protocol, KeyDelivery::Registered));
    let brought = BROUGHT.map(|protocol| (protocol, KeyDelivery::PerQuery));
    for (protocol, keys) in registered.into_iter().chain(brought) {
        if !is_drawn("extreme databases", &NAMES, Count { short: 2, full: 2 }, protocol) {
            continue;
        }
        let record_bytes = if protocol.ends_with("double") { 3 } else { 900 };
        let choice = Choice { protocol: protocol.into(), keys, ..Choice::default() };
        let params = ProtocolParams::choose(&choice, Seed::new([7; 32]), 40, record_bytes).unwrap();
        for content in constants.into_iter().chain([Content::Alternating, Content::OneHot]) {
            let mut setup = setup(&backend, &params, content);
            let greatest = greatest_error(&mut setup, &ends(&params), clients(), &mut rng);
            println!("{protocol}, {keys:?}, {content:?}: greatest error {greatest:.4}");
        }
    }
}

/// Checks extreme content under every pair of parameter sets and both deliveries of keys. In the
/// long form, databases have the shapes that are chosen for 64 MiB. For content of rank one, such
/// as constants, errors within a response are correlated: each client adds only one independent
/// sample.
#[test]
fn extreme_databases_decode_under_every_parameter_set() {
    const REGISTERED: [&str; 4] = ["exppack-simple", "exppack-double", "double-pack", "hybrid"];
    let (backend, mut rng) = (backend(), SecretRng::from_os().unwrap());
    let packing = RingSet::ALL.into_iter().filter(|set| set.plaintext_bits() < 20);
    let onion = RingSet::ALL.into_iter().filter(|set| set.plaintext_bits() >= 20);
    let mut sets: Vec<(&str, KeyDelivery, Option<LweSet>, Option<RingSet>)> =
        onion.map(|ring| ("onion", KeyDelivery::Registered, None, Some(ring))).collect();
    let registered = REGISTERED.map(|protocol| (protocol, KeyDelivery::Registered));
    let brought = BROUGHT.map(|protocol| (protocol, KeyDelivery::PerQuery));
    for (protocol, keys) in registered.into_iter().chain(brought) {
        // Queries under this set expand to single entries, so they cannot bring their keys.
        let rings = packing.clone().filter(|&ring| keys == KeyDelivery::Registered || ring != RingSet::Paper);
        sets.extend(rings.flat_map(|ring| LweSet::ALL.map(|lwe| (protocol, keys, Some(lwe), Some(ring)))));
    }
    let folds = ["simple", "double"].iter();
    sets.extend(
        folds.flat_map(|&name| LweSet::ALL.map(|lwe| (name, KeyDelivery::Registered, Some(lwe), None))),
    );
    let names: Vec<String> = sets.iter().map(|set| format!("{set:?}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (&(protocol, keys, lwe, ring), name) in sets.iter().zip(&names) {
        if !is_drawn("extreme databases under every set", &names, Count { short: 2, full: 3 }, name) {
            continue;
        }
        let two_folds = protocol.ends_with("double");
        let record_bytes = if two_folds { 3 } else { 900 };
        let records = if is_long() { (1 << 26) / record_bytes as u64 } else { 40 };
        let [set, ring] =
            [lwe.map(LweSet::name), ring.map(RingSet::name)].map(|name| name.map(str::to_owned));
        let choice = Choice { protocol: protocol.into(), keys, set, ring, ..Choice::default() };
        let params = ProtocolParams::choose(&choice, Seed::new([7; 32]), records, record_bytes).unwrap();
        for content in [Content::Constant(0xff), Content::Alternating] {
            let mut setup = setup(&backend, &params, content);
            let greatest = greatest_error(&mut setup, &ends(&params)[..1], clients(), &mut rng);
            println!("{protocol} {}, {keys:?}, {content:?}: greatest error {greatest:.4}", params.set);
        }
    }
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// The mean square: errors have mean 0.
fn variance(errors: &[f64]) -> f64 {
    mean(&errors.iter().map(|error| error * error).collect::<Vec<_>>())
}

/// Rows that are equal have equal hints, so their errors are almost equal. Yet these errors are no
/// larger than the errors of other content (docs/protocols/ring.md, "Noise").
#[test]
fn rows_that_repeat_have_errors_in_common_and_no_larger_ones() {
    let (backend, mut rng) = (backend(), SecretRng::from_os().unwrap());
    let [clients, look_ups] = if is_long() { [40, 25] } else { [8, 4] };
    for ring in [RingSet::Brief, RingSet::Fast, RingSet::Small] {
        let ring = Some(ring.name().to_owned());
        let choice = Choice { protocol: "exppack-simple".into(), ring, ..Choice::default() };
        let params = ProtocolParams::choose(&choice, Seed::new([7; 32]), 40, 900).unwrap();
        let rows = params.grid.records_per_unit() * params.record_bytes();
        let [random, repeated] = [Content::Random(3), Content::Constant(0xff)].map(|content| {
            let setup = setup(&backend, &params, content);
            let (mut squares, mut common) = (Vec::new(), Vec::new());
            for _ in 0..clients {
                let client = params.client(&setup.hint, &[], &mut rng).unwrap();
                let server = &setup.servers[0];
                let keys = server.prepare_keys(client.keys().unwrap().bytes()).unwrap();
                for _ in 0..look_ups {
                    let Prepared { queries, state } = client.query(3, &mut rng).unwrap();
                    let batch = [Query { bytes: &queries[0], keys: Some(&keys) }];
                    let answers = server.answer(&batch).unwrap();
                    let errors = client.errors(&*state, &[&answers[0]]).unwrap();
                    squares.push(errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64);
                    common.push(mean(&errors[..rows]));
                }
            }
            squares.sort_by(f64::total_cmp);
            let all = mean(&squares);
            let [half, most, largest] =
                [0.5, 0.99, 1.0].map(|share| squares[((squares.len() - 1) as f64 * share) as usize].sqrt());
            println!(
                "{}, {content:?}: {:.3} over all, half below {half:.3}, 99% below {most:.3}, largest {largest:.3}",
                params.set,
                all.sqrt()
            );
            let of_keys: Vec<f64> = common.chunks(look_ups).map(variance).collect();
            let kurtosis = mean(&common.iter().map(|error| error.powi(4)).collect::<Vec<_>>()) / variance(&common).powi(2);
            println!(
                "in common {:.4}, kurtosis {kurtosis:.2}; variances of keys differ by {:.2}, of as many Gaussians by {:.2}",
                variance(&common).sqrt(),
                variance(&of_keys.iter().map(|of_key| of_key - mean(&of_keys)).collect::<Vec<_>>()).sqrt() / mean(&of_keys),
                (2.0 / look_ups as f64).sqrt()
            );
            // A mixture of variances, one for each key, would have heavier tails. The kurtosis of
            // 1,000 Gaussians differs from 3 by 0.15.
            assert!(!is_long() || content == Content::Random(3) || kurtosis < 4.0, "{kurtosis}");
            all.sqrt()
        });
        assert!((random / 2.0..2.0 * random).contains(&repeated), "{random} and {repeated}");
    }
}

/// Sets up a database of `onion` whose coefficients are the greatest or the least number of 32
/// bits, by column and coefficient.
fn onion_of_signs(columns: usize, positive: impl Fn(usize, usize) -> bool) -> Setup {
    const GROUPS: usize = 2;
    let params = of_grid("onion", KeyDelivery::Registered, 16384, GROUPS, columns);
    let record = |index: usize| -> Vec<u8> {
        let column = index / GROUPS;
        let number = |i| if positive(column, i) { i32::MAX } else { i32::MIN };
        (0..DEGREE).flat_map(|i| number(i).to_le_bytes()).collect()
    };
    setup_of(&backend(), &params, (0..GROUPS * columns).map(record).collect())
}

#[test]
fn signs_that_follow_the_tree_to_any_depth_decode() {
    let mut rng = SecretRng::from_os().unwrap();
    let depths: &[u32] = if is_long() { &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9] } else { &[0, 1, 5, 9] };
    for &depth in depths {
        // The full form tests all four depths.
        if !is_long()
            && !is_drawn(
                "depths of signs",
                &["0", "1", "5", "9"],
                Count { short: 1, full: 2 },
                &depth.to_string(),
            )
        {
            continue;
        }
        // All bytes of a record are 0x7f or 0x80, depending on the parity of `depth` bits of its
        // column's number.
        let params = of_grid("onion", KeyDelivery::Registered, 16384, 2, 512);
        let parity = |index: u64| (index >> 1 & ((1 << depth) - 1)).count_ones() % 2;
        let records = (0..params.records()).map(|index| vec![[0x80, 0x7f][parity(index) as usize]; 16384]);
        let mut setup = setup_of(&backend(), &params, records.collect());
        let greatest = greatest_error(&mut setup, &ends(&params), 2, &mut rng);
        println!("parities of {depth} bits: greatest error {greatest:.3}");
    }
}

#[test]
fn signs_computed_from_the_trees_structure_decode() {
    let mut rng = SecretRng::from_os().unwrap();
    for columns in [128, 512] {
        // Three more leaves are needed for two groups.
        let tree = Tree { expansion: Expansion::covering(columns + 3), leaves: columns };
        let (signs, gain) = tree.coherent_signs();
        let mut setup = onion_of_signs(columns, |column, i| signs[column][i] > 0.0);
        let greatest = greatest_error(&mut setup, &[0, 2 * columns as u64 - 1], 6, &mut rng);
        println!(
            "{columns} columns: {gain:.0} times the variance without a pad, greatest error {greatest:.3}"
        );
        // Checks the purpose of the signs: without a pad, the variance of their coefficient exceeds
        // every bound on averages.
        assert!(gain > columns as f64 / 8.0, "{gain}");
    }
}

/// Linear maps from the noise of the root's substitution to the noise of the first leaves. They
/// consist of signed permutations.
struct Tree {
    expansion: Expansion,
    leaves: usize,
}

type Polynomial = Vec<f64>;

fn automorphism(a: &Polynomial, exponent: usize) -> Polynomial {
    let mut image = vec![0.0; DEGREE];
    for (i, &coefficient) in a.iter().enumerate() {
        let to = i * exponent % (2 * DEGREE);
        image[to % DEGREE] = if to < DEGREE { coefficient } else { -coefficient };
    }
    image
}

/// Multiplies by X^`shift`, for a shift from 0 to 2 N.
fn shifted(a: &Polynomial, shift: usize) -> Polynomial {
    let at = |i: usize| {
        let from = (i + 2 * DEGREE - shift) % (2 * DEGREE);
        if from < DEGREE { a[from] } else { -a[from - DEGREE] }
    };
    (0..DEGREE).map(at).collect()
}

fn plus(a: &Polynomial, b: &Polynomial, sign: f64) -> Polynomial {
    a.iter().zip(b).map(|(a, b)| a + sign * b).collect()
}

impl Tree {
    fn split(&self, level: u32, noise: &Polynomial) -> [Polynomial; 2] {
        // The root has only the noise of its substitution. At all other nodes, the noise and its
        // image add up.
        let image =
            if level == 0 { noise.clone() } else { automorphism(noise, Expansion::exponent(DEGREE, level)) };
        let own = if level == 0 { vec![0.0; DEGREE] } else { noise.clone() };
        [plus(&own, &image, 1.0), shifted(&plus(&own, &image, -1.0), 2 * DEGREE - (1 << level))]
    }

    /// Maps noise of the root to noise of the leaves.
    fn forward(&self, noise: Polynomial) -> Vec<Polynomial> {
        let levels = self.expansion.levels();
        let mut nodes = vec![noise];
        for level in 0..levels {
            let wanted = self.leaves.div_ceil(1 << (levels - level - 1));
            nodes = nodes.iter().flat_map(|node| self.split(level, node)).take(wanted).collect();
        }
        nodes
    }

    /// Applies the adjoint of [`Tree::forward`].
    fn backward(&self, mut nodes: Vec<Polynomial>) -> Polynomial {
        for level in (0..self.expansion.levels()).rev() {
            let join = |children: &[Polynomial]| {
                let odd = children.get(1).map_or(vec![0.0; DEGREE], |odd| shifted(odd, 1 << level));
                let (own, image) = (plus(&children[0], &odd, 1.0), plus(&children[0], &odd, -1.0));
                if level == 0 {
                    return image;
                }
                let exponent = Expansion::exponent(DEGREE, level);
                let inverse = (1..2 * DEGREE).step_by(2).find(|i| i * exponent % (2 * DEGREE) == 1);
                plus(&own, &automorphism(&image, inverse.unwrap()), 1.0)
            };
            nodes = nodes.chunks(2).map(join).collect();
        }
        nodes.remove(0)
    }

    /// Returns signs of the plaintexts' coefficients. With these signs, coefficient 0 of the sum of
    /// leaves times plaintexts adds up the noise of the root's substitution. A few steps of a power
    /// iteration find the signs. Also returns the variance relative to that of random signs.
    fn coherent_signs(&self) -> (Vec<Polynomial>, f64) {
        // Coefficient 0 of a product is a[0] b[0], minus the sum of a[i] b[N - i].
        let reversed = |a: &Polynomial| {
            (0..DEGREE).map(|i| if i == 0 { a[0] } else { -a[DEGREE - i] }).collect::<Polynomial>()
        };
        let sign = |a: f64| if a < 0.0 { -1.0 } else { 1.0 };
        let mut noise = vec![0.0; DEGREE];
        noise[0] = 1.0;
        let mut signs = Vec::new();
        for _ in 0..4 {
            let leaves = self.forward(noise);
            signs = leaves
                .iter()
                .map(|leaf| reversed(leaf).into_iter().map(sign).collect::<Polynomial>())
                .collect();
            noise = self.backward(signs.iter().map(reversed).collect());
        }
        let all = 2f64.powi(self.expansion.levels() as i32) * (self.leaves * DEGREE) as f64;
        (signs, noise.iter().map(|x| x * x).sum::<f64>() / all)
    }
}

/// Returns a database whose hint follows the signs of the tree as closely as one entry in each row
/// allows: each row has a 1 in the column whose row of A correlates most with the row's signs.
fn aligned_with_the_matrix(params: &ProtocolParams, spread: Spread) -> Vec<Vec<u8>> {
    let grid = params.grid;
    let public = PublicMatrix::new(LweSet::Module1280, params.seed().unwrap(), grid.columns);
    let a: Vec<f32> = public.entries().iter().map(|&word| word as i32 as f32).collect();
    let entries = a.len() / grid.columns;
    let tree = Tree { expansion: Expansion::covering(entries), leaves: entries };
    let (signs, _) = tree.coherent_signs();
    let best = |row: usize| {
        let wanted: Vec<f32> = signs.iter().map(|leaf| leaf[row % DEGREE] as f32).collect();
        let correlation = |column: usize| -> f32 {
            a[column * entries..][..entries].iter().zip(&wanted).map(|(a, sign)| a * sign).sum()
        };
        (0..grid.columns)
            .map(|column| (column, correlation(column)))
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap()
            .0
    };
    let best: Vec<usize> = (0..grid.rows(spread)).map(best).collect();
    let record = |index: u64| {
        let mut record = vec![0; grid.record_bytes];
        for run in grid.runs(spread, index) {
            for (i, byte) in record[run.bytes].iter_mut().enumerate() {
                *byte = u8::from(best[run.row + i] == run.column);
            }
        }
        record
    };
    (0..grid.records).map(record).collect()
}

#[test]
fn databases_aligned_with_the_public_matrix_decode_with_a_margin() {
    let (backend, mut rng) = (backend(), SecretRng::from_os().unwrap());
    let all = [
        ("exppack-simple", KeyDelivery::Registered, Spread::Columns),
        ("hybrid", KeyDelivery::PerQuery, Spread::Rows),
        ("hybrid", KeyDelivery::Registered, Spread::Rows),
        ("exppack-simple", KeyDelivery::PerQuery, Spread::Columns),
        ("double-pack", KeyDelivery::Registered, Spread::Rows),
    ];
    // The first two cases have one spread each.
    for &(protocol, keys, spread) in if is_long() { &all[..] } else { &all[..2] } {
        let name = format!("{protocol}, {keys:?}");
        let names = all.map(|(protocol, keys, _)| format!("{protocol}, {keys:?}"));
        if !is_long() && !is_drawn("aligned databases", &[&names[0], &names[1]], 1, &name) {
            continue;
        }
        let params = of_grid(protocol, keys, 1024, 1, 256);
        let mut aligned = setup_of(&backend, &params, aligned_with_the_matrix(&params, spread));
        let chosen = greatest_error_of_any(&mut aligned, &ends(&params), 4, &mut rng);
        let mut random = setup(&backend, &params, Content::Random(5));
        let usual = greatest_error(&mut random, &ends(&params), 4, &mut rng);
        println!("{name}: greatest error {chosen:.4}, of random records {usual:.4}");
        assert!(chosen < GREATEST_ALIGNED, "{protocol}: {chosen}");
    }
}
