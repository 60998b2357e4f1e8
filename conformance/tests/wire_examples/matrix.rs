//! Examples of public numbers, public matrices, roundings and blinding.

use spirea_lattice::{LweSet, PublicMatrix};
use spirea_math::Modulus;
use spirea_math::random::{Seed, public_residues, public_row};

use super::{COUNTED, Example, listed, words};

/// Returns the examples by name.
pub fn examples() -> Vec<Example> {
    vec![
        ("stream", stream()),
        ("residues", residues()),
        ("matrix", matrix()),
        ("rounding", rounding()),
        ("rounded-hint", rounded_hint()),
        ("rounded-bodies", rounded_bodies()),
        ("blinding", blinding()),
    ]
}

fn stream() -> Vec<String> {
    let mut row = [0; 18];
    public_row(&Seed::new(COUNTED), 7, &mut row);
    vec![
        "key: 00..1f".into(),
        format!("words 0 to 3 of stream 7: {}", words(&row[..4])),
        format!("words 16 and 17 of stream 7: {}", words(&row[16..])),
    ]
}

fn residues() -> Vec<String> {
    let mut first = [0; 4];
    public_residues(&Seed::new(COUNTED), 5, Modulus::new(134_176_769), &mut first);
    let what = "the first residues modulo 134176769 of stream 5";
    vec!["seed: 00..1f".into(), format!("{what}: {}", listed(&first))]
}

fn matrix() -> Vec<String> {
    let first = PublicMatrix::new(LweSet::Module1280, Seed::new(COUNTED), 512).entries();
    let second = PublicMatrix::of_second_fold(LweSet::Module1280, Seed::new(COUNTED), 256).entries();
    let of_bin = PublicMatrix::of_bin(LweSet::Module1280, Seed::new(COUNTED), 1, 512).entries();
    let uniform = PublicMatrix::new(LweSet::Paper, Seed::new(COUNTED), 256).entries();
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
        format!("row 0, columns 0 to 2, bin 1: {}", at(&of_bin, 0, 0)),
        format!("uniform, row 1, columns 0 to 2, first fold: {}", at(&uniform, 1, 0)),
    ]
}

/// Computes the roundings by definition, since the implementation's rounding is not public. The
/// committed vectors test the implementation.
fn rounding() -> Vec<String> {
    let round = |word: u32| hex::encode(((word.wrapping_add(1 << 15) >> 16) as u16).to_le_bytes());
    let byte = |phase: u32| phase.wrapping_add(1 << 23) >> 24;
    let words = [0x7fff, 0x8000, 0xffff_8000].map(|word| format!("{word:08x}: {}", round(word)));
    let bytes = [0x2a7f_ffff, 0x2a80_0000, 0xff80_0000]
        .map(|phase| format!("byte of phase {phase:08x}: {:02x}", byte(phase)));
    [words, bytes].concat()
}

/// Computes the hint by definition. The committed vectors test the implementation's hints.
fn rounded_hint() -> Vec<String> {
    const BITS: usize = 17;
    let entries = [0, 0x3fff, 0x4000, 0xffff_bfff, 0xffff_c000, 0x1234_5678, 0x8000_0000, 0xc0ff_ee00u32];
    let rounded = entries.map(|word| word.wrapping_add(1 << (31 - BITS)) >> (32 - BITS));
    let bit = |i: usize| rounded[i / BITS] >> (i % BITS) & 1;
    let byte = |i: usize| (0..8).fold(0, |byte, j| byte | (bit(8 * i + j) as u8) << j);
    vec![
        format!("b = {BITS}: {}", words(&entries)),
        format!("bytes: {}", hex::encode((0..BITS).map(byte).collect::<Vec<_>>())),
        format!("words for the client: {}", words(&rounded.map(|number| number << (32 - BITS)))),
    ]
}

/// Computes the bodies by definition. The committed vectors test the implementation's rounding of
/// bodies.
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
        format!("bytes of those with bits 0: {}", hex::encode((0..kept).map(byte).collect::<Vec<_>>())),
    ]
}

/// Computes the factors by definition. The committed vectors test the implementation's factors.
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
