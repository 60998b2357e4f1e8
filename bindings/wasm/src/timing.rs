//! Primitives of the client, one at a time, for a statistical test of their times. The feature
//! `timing` adds this file to a module for tests only.
//!
//! JavaScript prepares a primitive with a fixed or random input, and measures one run. The input
//! determines only the secrets; everything else that depends on it is computed before the run.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::LazyLock;

use spirea_dpf::prf::Aes128;
use spirea_dpf::{Bit, Domain, OutputKind, generate};
use spirea_lattice::lwe::BlindingFactor;
use spirea_lattice::{LweEncryptor, LweSet, PublicMatrix, RingSecret, RingSet};
use spirea_math::random::{SecretRng, Seed};
use spirea_math::sample::{LWE_NOISE, ternary};
use spirea_protocols::keyword::{Bucket, TAG_BYTES, find};

/// A run of a primitive.
type Run = Box<dyn FnOnce()>;
/// Prepares a run on an input.
type Prepare = fn(u64) -> Run;

/// The primitives by name, with the functions that prepare a run on an input.
const PRIMITIVES: [(&str, Prepare); 10] = [
    ("256 ternary values", |input| {
        let mut rng = rng(input);
        Box::new(move || (0..256).for_each(|_| _ = black_box(ternary(&mut rng))))
    }),
    ("256 Gaussian values", |input| {
        let mut rng = rng(input);
        Box::new(move || (0..256).for_each(|_| _ = black_box(LWE_NOISE.sample(&mut rng))))
    }),
    ("4 KiB of ChaCha20", |input| {
        let (mut rng, mut bytes) = (rng(input), vec![0; 4096]);
        Box::new(move || {
            rng.fill(&mut bytes);
            black_box(&bytes);
        })
    }),
    ("an LWE query for one of 256 columns", |input| {
        let (mut rng, position) = (rng(input), (input % 256) as usize);
        Box::new(move || _ = black_box(ENCRYPTOR.encrypt_unit(black_box(position), &mut rng)))
    }),
    ("a product of a hint's row and an LWE secret", |input| {
        let (_, secret) = ENCRYPTOR.encrypt_unit(0, &mut rng(input));
        Box::new(move || _ = black_box(secret.inner_product(black_box(&ROW))))
    }),
    ("the phases of an RLWE ciphertext", |input| {
        let secret = RingSecret::sample(RING, &mut rng(input));
        Box::new(move || _ = black_box(secret.phases(black_box(&CIPHERTEXT), A_BITS, B_BITS)))
    }),
    ("1,024 numbers decoded under a blinding factor", |input| {
        let factor = BlindingFactor::sample(&mut rng(input));
        let phases: Vec<u64> = (0..1024).map(|i| input.rotate_left(i % 64) ^ u64::from(i)).collect();
        Box::new(move || phases.iter().for_each(|&phase| _ = black_box(factor.unblind(phase))))
    }),
    ("DPF keys for one of 2^20 points", |input| {
        let (mut rng, point) = (rng(input), input % (1 << 20));
        let domain = Domain::new(1 << 20, OutputKind::Bit).expect("it has few points");
        Box::new(move || {
            _ = black_box(generate(Aes128, domain, black_box(point), Bit(true), &mut rng));
        })
    }),
    ("a value in a bucket of 16", |input| {
        let tag = tag((input % 16) as u8);
        Box::new(move || _ = black_box(find(&BUCKET, black_box(&tag))))
    }),
    // The time depends on the input, and the test must detect that.
    ("control: a loop as long as a secret", |input| {
        Box::new(move || (0..black_box(input % 64)).for_each(|i| _ = black_box(i)))
    }),
];

const SET: LweSet = LweSet::Module1280;
const RING: RingSet = RingSet::Small;
/// Bits of the coefficients of a switched ciphertext's halves.
const A_BITS: u32 = 22;
const B_BITS: u32 = 12;

static ENCRYPTOR: LazyLock<LweEncryptor> =
    LazyLock::new(|| LweEncryptor::new(PublicMatrix::new(SET, Seed::new([7; 32]), 256)));
static ROW: LazyLock<Vec<u32>> =
    LazyLock::new(|| (0..1280u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect());
static CIPHERTEXT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = vec![0; (A_BITS + B_BITS) as usize * RING.ring().degree() / 8];
    rng(1).fill(&mut bytes);
    bytes
});
static BUCKET: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bucket = Bucket::default();
    (0..16).for_each(|i| bucket.push(&tag(i), &[i; 64]));
    bucket.payload()
});

thread_local! {
    static PREPARED: RefCell<Option<Run>> = const { RefCell::new(None) };
}

/// Returns the names of the primitives, in order.
pub fn names() -> Vec<&'static str> {
    PRIMITIVES.map(|(name, _)| name).to_vec()
}

/// Prepares a run of the primitive with this number.
///
/// # Panics
/// If there is no such primitive.
pub fn prepare(primitive: usize, input: u64) {
    let run = PRIMITIVES[primitive].1(input);
    PREPARED.set(Some(run));
}

/// Runs the prepared run.
///
/// # Panics
/// If no run is prepared.
pub fn run() {
    PREPARED.take().expect("a run is prepared")();
}

fn rng(input: u64) -> SecretRng {
    SecretRng::deterministic_for_tests(input)
}

/// Returns the tag of the bucket's entry with this number.
fn tag(entry: u8) -> [u8; TAG_BYTES] {
    [entry; TAG_BYTES]
}
