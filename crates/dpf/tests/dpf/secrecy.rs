//! Each party's data look random, and the same test detects wrongly made keys.
//!
//! No test can show that a key hides its point. This test catches the mistakes that leave the key's
//! secrets in plain sight.

use spirea_dpf::prf::Aes128;
use spirea_dpf::*;
use spirea_math::random::SecretRng;

use crate::common::{Check, Sample};

/// Number of keys of one point that are examined together.
const KEYS: u64 = 4096;

/// Fault in making keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// No fault: the keys must equal those of [`generate`].
    None,
    /// The leaf's correction is the value itself, without the mask that hides it.
    BareLeaf,
    /// A level's correction comes from the side on the path. This makes the nodes there equal, so
    /// that nothing hides the values below them.
    WrongSide,
    /// The control bits' corrections are the turns of the path.
    BareTurns,
}

/// Generates keys a second way, with a fault; returns both keys' bytes.
fn generate_with<O: Output>(
    fault: Fault,
    domain: Domain,
    point: u64,
    value: O,
    rng: &mut SecretRng,
) -> [Vec<u8>; 2] {
    let roots = [0, 1].map(|_| Block::from(rng.next_u64()) << 64 | Block::from(rng.next_u64()) & !CONTROL);
    let mut nodes = [roots[0], roots[1] | CONTROL];
    let (mut lefts, mut rights) = (Vec::new(), vec![0; domain.depth().div_ceil(8) as usize]);
    let path = point / O::KIND.per_leaf();
    let corrected = |node: Block| (node & CONTROL).wrapping_neg();
    for level in 0..domain.depth() as usize {
        let side = (path >> (domain.depth() as usize - 1 - level) & 1) as usize;
        let mut children = [[0; 2]; 2];
        Aes128.blocks(&nodes.map(|node| node & !CONTROL), &mut children);
        let sums = [children[0][0] ^ children[1][0], children[0][1] ^ children[1][1]];
        let off = sums[if fault == Fault::WrongSide { side } else { 1 - side }] & !CONTROL;
        let level_bits = [0, 1].map(|i| match fault {
            Fault::BareTurns => Block::from(side == i),
            _ => (sums[i] & CONTROL) ^ Block::from(side == i),
        });
        nodes = [0, 1]
            .map(|party: usize| children[party][side] ^ ((off | level_bits[side]) & corrected(nodes[party])));
        lefts.extend((off | level_bits[0]).to_le_bytes());
        rights[level / 8] |= (level_bits[1] as u8) << (level % 8);
    }
    let mut leaves = [[0; LEAF_BLOCKS]; 2];
    Aes128.blocks(&nodes.map(|node| node & !CONTROL), &mut leaves);
    let mut leaf = value.at(point % O::KIND.per_leaf());
    if fault != Fault::BareLeaf {
        leaf = O::add_leaves(&leaf, &O::add_leaves(&O::negate_leaf(&leaves[0]), &leaves[1]));
    }
    if nodes[1] & CONTROL == 1 {
        leaf = O::negate_leaf(&leaf);
    }
    [0, 1].map(|party: u8| {
        let root = roots[usize::from(party)].to_le_bytes();
        let leaf = leaf.map(Block::to_le_bytes);
        [&[party][..], &root, &lefts, &rights, leaf.as_flattened()].concat()
    })
}

/// Returns a party's view of a key: all its bits except those that are the same in every key, and
/// the bits of its share at the point.
fn view<O: Output>(domain: Domain, bytes: &[u8], point: u64) -> Vec<bool> {
    let bit = |i: usize| bytes[i / 8] >> (i % 8) & 1 == 1;
    let (root, controls) = (8, 8 * (17 + 16 * domain.depth() as usize));
    let leaf = 8 * (bytes.len() - 16 * LEAF_BLOCKS);
    let of_key = (root + 1..controls + domain.depth() as usize).chain(leaf..8 * bytes.len()).map(bit);
    let share = evaluate::<_, O>(Aes128, &Key::from_bytes(domain, bytes).unwrap(), point).at(0);
    let of_share = (0..O::KIND.bits()).map(|i| share[0] >> i & 1 == 1);
    of_key.chain(of_share).collect()
}

/// Returns the number of biased bits: the frequency with which they are set in a party's views
/// differs from one half by more than six standard deviations.
fn biased_bits<O: Sample>(fault: Fault, party: Party) -> usize {
    let domain = Domain::new(100 * O::KIND.per_leaf(), O::KIND).unwrap();
    let point = domain.points() / 3;
    let mut rng = SecretRng::deterministic_for_tests(3);
    let mut set: Vec<u64> = Vec::new();
    for _ in 0..KEYS {
        let bytes = &generate_with(fault, domain, point, O::VALUE, &mut rng)[party as usize];
        let view = view::<O>(domain, bytes, point);
        set.resize(view.len(), 0);
        set.iter_mut().zip(view).for_each(|(set, bit)| *set += u64::from(bit));
    }
    let bound = 6.0 * (KEYS as f64).sqrt() / 2.0;
    set.into_iter().filter(|&set| (set as f64 - KEYS as f64 / 2.0).abs() > bound).count()
}

fn every_fault_is_seen<O: Sample>() {
    for party in Party::BOTH {
        assert_eq!(biased_bits::<O>(Fault::None, party), 0, "{party}");
        for fault in [Fault::BareLeaf, Fault::WrongSide, Fault::BareTurns] {
            assert!(biased_bits::<O>(fault, party) > 0, "{fault:?}, {party}");
        }
    }
}

#[test]
fn keys_of_bits_look_random() {
    every_fault_is_seen::<Bit>();
}

#[test]
fn keys_of_words_look_random() {
    every_fault_is_seen::<u32>();
}

#[test]
fn the_second_generation_without_fault_is_the_first() {
    for (points, point) in [(1, 0), (30, 29), (5000, 1234), (MAX_POINTS, MAX_POINTS / 5)] {
        let domain = Domain::new(points, OutputKind::U32).unwrap();
        let rng = || SecretRng::deterministic_for_tests(points);
        let keys = generate(Aes128, domain, point, 77u32, &mut rng()).unwrap();
        assert_eq!(
            generate_with(Fault::None, domain, point, 77u32, &mut rng()),
            keys.map(|key| key.to_bytes())
        );
    }
}

/// Checks that two generations for one point have no 16 bytes at the same place in common, and show
/// nothing of their content in debug output.
#[derive(Clone, Copy)]
struct Fresh;

impl Check for Fresh {
    fn check<P: Prf, O: Sample>(self, prf: P) {
        let mut rng = SecretRng::from_os().unwrap();
        let domain = Domain::new(50_000, O::KIND).unwrap();
        let [first, second] = [0, 1].map(|_| generate(prf, domain, 4321, O::VALUE, &mut rng).unwrap());
        for (first, second) in first.iter().zip(&second) {
            let (bytes, others) = (first.to_bytes(), second.to_bytes());
            assert!(bytes.windows(16).zip(others.windows(16)).all(|(a, b)| a != b), "{}", P::KIND);
            assert_eq!(format!("{first:?}"), format!("{second:?}"));
        }
    }
}

#[test]
fn two_generations_have_nothing_in_common() {
    for prf in PrfKind::ALL {
        OutputKind::ALL.into_iter().for_each(|output| Fresh.of(prf, output));
    }
}
