//! Checks of shares of distributed point functions, alone and multiplied by rows, for every
//! pseudorandom function.

use anyhow::ensure;
use spirea_backend::{RowLayout, ShareBackend as _};
use spirea_cuda::Tops;
use spirea_dpf::{Bit, Block, Domain, Key, Leaf, OutputKind, Prf, PrfKind, PrfVisitor, evaluate_all, select};
use spirea_math::random::SecretRng;

use super::{Check, Scale, Subject, folds};

/// Generates keys of points, for party 0 and for party 1.
fn keys(prf: PrfKind, domain: Domain, count: usize) -> anyhow::Result<[Vec<Key>; 2]> {
    let mut rng = SecretRng::from_os()?;
    let mut keys = [Vec::new(), Vec::new()];
    for i in 0..count {
        // The points are the first and the last one, then random ones.
        let point = match i {
            0 => 0,
            1 => domain.points() - 1,
            _ => rng.next_u64() % domain.points(),
        };
        let [zero, one] = select(prf, domain, point, &mut rng)?;
        keys[0].push(zero);
        keys[1].push(one);
    }
    Ok(keys)
}

/// All shares of a key, evaluated by definition.
struct AllShares<'a>(&'a Key);

impl PrfVisitor for AllShares<'_> {
    type Output = Vec<Leaf>;

    fn visit<P: Prf>(self, prf: P) -> Vec<Leaf> {
        match self.0.domain().output() {
            OutputKind::Bit => evaluate_all::<P, Bit>(prf, self.0),
            OutputKind::U32 => evaluate_all::<P, u32>(prf, self.0),
            OutputKind::U64 => evaluate_all::<P, u64>(prf, self.0),
            OutputKind::U128 => evaluate_all::<P, u128>(prf, self.0),
        }
    }
}

/// Returns the shares of leaves as bytes, without those beyond the domain's last point.
fn bytes(domain: Domain, leaves: &[Leaf]) -> Vec<u8> {
    let bytes = leaves.iter().flatten().flat_map(|block| block.to_le_bytes());
    bytes.take((domain.points() * domain.output().bits()).div_ceil(8) as usize).collect()
}

/// Compares both ways of expanding the tops of trees with the definition.
fn evaluation(
    subject: &Subject,
    prf: PrfKind,
    output: OutputKind,
    points: u64,
    count: usize,
) -> anyhow::Result<()> {
    let domain = Domain::new(points, output)?;
    for keys in keys(prf, domain, count)? {
        let expected: Vec<Vec<u8>> =
            keys.iter().map(|key| bytes(domain, &prf.visit(AllShares(key)))).collect();
        for tops in [Tops::Apart, Tops::Together] {
            let evaluation = subject.cuda.evaluation_with(prf, &keys, tops)?;
            evaluation.run()?;
            let shares = evaluation.shares()?;
            for (i, (found, expected)) in
                shares.chunks_exact(domain.leaves() as usize).zip(&expected).enumerate()
            {
                let found = bytes(domain, found);
                let whole = domain.points() * domain.output().bits() / 8;
                ensure!(
                    found[..whole as usize] == expected[..whole as usize],
                    "key {i} of {points} points of {}, tops {tops:?}: other shares",
                    output.name()
                );
            }
        }
    }
    Ok(())
}

/// Visitor that computes the chains of leaves of the first threads, by definition.
struct Chains {
    threads: usize,
    leaves: u32,
}

impl PrfVisitor for Chains {
    type Output = Vec<Block>;

    fn visit<P: Prf>(self, prf: P) -> Vec<Block> {
        let mut seeds: Vec<Block> = (0..self.threads as Block).map(|thread| 2 * thread).collect();
        for _ in 0..self.leaves {
            let mut leaves = vec![Leaf::default(); seeds.len()];
            prf.blocks(&seeds, &mut leaves);
            seeds = leaves.iter().map(|leaf| leaf.iter().fold(0, |sum, block| sum ^ block) & !1).collect();
        }
        seeds
    }
}

/// Compares the device's chains of calls with the definition.
fn calls(subject: &Subject, prf: PrfKind) -> anyhow::Result<String> {
    const LEAVES: u32 = 2;
    let found = subject.cuda.prf_chains(prf, LEAVES)?;
    let expected = prf.visit(Chains { threads: found.len(), leaves: LEAVES });
    ensure!(found == expected, "other blocks");
    Ok(String::new())
}

/// Compares rows multiplied by shares with the CPU's result.
fn fold(
    subject: &Subject,
    prf: PrfKind,
    output: OutputKind,
    layout: RowLayout,
    count: usize,
) -> anyhow::Result<()> {
    let words = folds::random(3, layout.bytes().div_ceil(4));
    let random: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).take(layout.bytes()).collect();
    // A domain smaller than the rows, which begins after some of them.
    let first = layout.rows() / 3;
    let domain = Domain::new((layout.rows() - first) as u64, output)?;
    for content in [random, vec![0xff; layout.bytes()]] {
        let (cuda, cpu) =
            (subject.cuda.upload_rows(layout, &content)?, subject.cpu.upload_rows(layout, &content)?);
        for keys in keys(prf, domain, count)? {
            let expected = subject.cpu.share_fold(&cpu, first, prf, &keys)?;
            let found = subject.cuda.share_fold(&cuda, first, prf, &keys)?;
            let (rows, row_bytes, parts) = (layout.rows(), layout.row_bytes(), layout.parts());
            ensure!(
                found == expected,
                "{count} keys, {parts} x {rows} rows of {row_bytes} bytes, {}: other answers than the CPU's",
                output.name()
            );
        }
    }
    Ok(())
}

pub(super) fn checks(subject: &Subject) -> Vec<Check> {
    let mut checks = Vec::new();
    let outputs = [OutputKind::Bit, OutputKind::U32, OutputKind::U64, OutputKind::U128];
    for prf in PrfKind::ALL {
        let of_calls = subject.clone();
        checks.push(Check::new(format!("dpf {prf} calls"), move || calls(&of_calls, prf)));
        for output in outputs {
            let subject = subject.clone();
            checks.push(Check::new(format!("dpf {prf} {}", output.name()), move || {
                let (points, keys): (&[u64], _) = match subject.scale {
                    Scale::Full => (&[1, 5, 1000, 8192, 30_011], 5),
                    Scale::Tiny => (&[1, 700], 3),
                };
                points.iter().try_for_each(|&points| evaluation(&subject, prf, output, points, keys))?;
                Ok(String::new())
            }));
        }
        for output in &outputs[..3] {
            let (subject, output) = (subject.clone(), *output);
            checks.push(Check::new(format!("share_fold {prf} {}", output.name()), move || {
                let shapes: &[(usize, usize, usize, usize)] = match subject.scale {
                    Scale::Full => &[
                        (1, 8, 1, 1),
                        (700, 40, 3, 2),
                        (5000, 4096, 1, 5),
                        (30_000, 256, 1, 17),
                        (20_000, 32, 1, 100),
                        (1 << 18, 32, 1, 32),
                    ],
                    Scale::Tiny => &[(1, 8, 1, 1), (700, 40, 2, 3), (520, 24, 1, 13)],
                };
                for &(rows, row_bytes, parts, keys) in shapes {
                    fold(&subject, prf, output, RowLayout::new(rows, row_bytes, parts)?, keys)?;
                }
                Ok(String::new())
            }));
        }
    }
    checks
}
