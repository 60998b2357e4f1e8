//! Expansion of queries' ciphertexts to one-hot vectors.

use spirea_backend::{ResidueBackend, SwitchKey, map_each};

use super::arithmetic::Arithmetic;
use crate::AppleError;
use crate::evaluation_key::EvaluationKey;
use crate::set::LOG2_DEGREE;

/// Expansion of one ciphertext of a query.
pub struct Expansion<'a, 'w> {
    /// Places of the outputs, as values modulo q; the first one holds the ciphertext.
    pub nodes: &'a mut [&'w mut [u32]],
    pub key: &'a EvaluationKey,
}

impl Expansion<'_, '_> {
    fn depth(&self) -> u32 {
        self.nodes.len().next_power_of_two().ilog2()
    }
}

/// Substitution of one level of a tree, with the client's key.
#[derive(Clone, Copy)]
struct Substitution<'a> {
    /// Level of the substitution that the key is for.
    level: u32,
    key: &'a SwitchKey,
    /// Repetitions that make it the substitution of the tree's level.
    times: usize,
}

/// Computes ciphertexts of the first coefficients of each message, times 2^ceil(log2 count) for
/// `count` outputs. All trees are expanded level by level, on all threads.
///
/// Node c of level l gives the outputs c, c + 2^l, c + 2^(l + 1) and so on: node c of the next level
/// gives every other one of these, and node c + 2^l the rest. A node that gives one output is a
/// leaf. If it has one level less than the others, it is doubled.
///
/// # Errors
/// [`AppleError::Malformed`] if a key lacks a Galois element.
pub fn expand<B: ResidueBackend>(
    arithmetic: &Arithmetic<B>,
    trees: &mut [Expansion<'_, '_>],
) -> Result<(), AppleError> {
    let Arithmetic { backend, ciphertext: tables, keys, .. } = arithmetic;
    for level in 0..trees.iter().map(Expansion::depth).max().unwrap_or(0) {
        let mut pairs = Vec::new();
        for tree in trees.iter_mut().filter(|tree| level < tree.depth()) {
            let substitution = substitution(tree.key, level)?;
            let (nodes, next) = tree.nodes.split_at_mut(1 << level);
            pairs.extend(nodes.iter_mut().zip(next).map(|(node, next)| (node, next, substitution)));
        }
        map_each(&**backend, pairs, |(node, next, substitution)| {
            let Substitution { level: of_key, key, times } = substitution;
            backend.substitute(keys, of_key, key, node, next);
            for _ in 1..times {
                let image = next.to_vec();
                backend.substitute(keys, of_key, key, &image, next);
            }
            backend.split(tables, level, node, next);
        });
    }
    let early = trees.iter_mut().flat_map(|tree| {
        let half = (1 << tree.depth()) / 2;
        let deepest = tree.nodes.len() - half;
        tree.nodes[..half].iter_mut().skip(deepest)
    });
    map_each(&**backend, early, |leaf| backend.double(tables, leaf));
    Ok(())
}

/// Returns the substitution X -> X^(N / 2^level + 1): that of the key's greatest element up to it,
/// repeated as often as needed.
fn substitution(key: &EvaluationKey, level: u32) -> Result<Substitution<'_>, AppleError> {
    let exponent = LOG2_DEGREE - level;
    let (element, key) = key.galois((1 << exponent) + 1).ok_or_else(|| {
        let detail = format!("no Galois element up to 2^{exponent} + 1");
        AppleError::malformed("SerializedEvaluationKey", detail)
    })?;
    let of_key = (element - 1).ilog2();
    Ok(Substitution { level: LOG2_DEGREE - of_key, key, times: 1 << (exponent - of_key) })
}
