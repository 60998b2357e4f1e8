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

/// Substitution of one level of a tree, with the client's key.
struct Substitution<'a> {
    /// Level of the key's substitution.
    level: u32,
    key: &'a SwitchKey,
    /// Number of repetitions of the key's substitution that give the substitution of the tree's
    /// level.
    times: usize,
}

/// Expands each ciphertext to ciphertexts of the first coefficients of its message. For `count`
/// outputs, the coefficients are multiplied by 2^ceil(log2 count).
///
/// # Errors
/// [`AppleError::Malformed`] if a key lacks a Galois element.
pub fn expand<B: ResidueBackend>(
    arithmetic: &Arithmetic<B>,
    trees: Vec<Expansion<'_, '_>>,
) -> Result<(), AppleError> {
    // A tree's nodes stay in the third-level cache while a thread expands them.
    map_each(&*arithmetic.backend, trees, |tree| expand_tree(arithmetic, tree)).into_iter().collect()
}

/// Expands a tree level by level.
///
/// Node c of level l expands to the outputs c, c + 2^l, c + 2 * 2^l and so on. Of these, node c of
/// the next level expands to every other output, and node c + 2^l to the rest. A node with one
/// output is a leaf. A leaf that is one level above the deepest leaves is doubled.
fn expand_tree<B: ResidueBackend>(
    arithmetic: &Arithmetic<B>,
    Expansion { nodes, key }: Expansion<'_, '_>,
) -> Result<(), AppleError> {
    let Arithmetic { backend, ciphertext: tables, keys, .. } = arithmetic;
    let depth = nodes.len().next_power_of_two().ilog2();
    for level in 0..depth {
        let Substitution { level: of_key, key, times } = substitution(key, level)?;
        let (nodes, next) = nodes.split_at_mut(1 << level);
        map_each(&**backend, nodes.iter_mut().zip(next), |(node, next)| {
            backend.substitute(keys, of_key, key, node, next);
            for _ in 1..times {
                let image = next.to_vec();
                backend.substitute(keys, of_key, key, &image, next);
            }
            backend.split(tables, level, node, next);
        });
    }
    let half = (1 << depth) / 2;
    let deepest = nodes.len() - half;
    map_each(&**backend, nodes[..half].iter_mut().skip(deepest), |leaf| backend.double(tables, leaf));
    Ok(())
}

/// Returns the substitution X -> X^(N / 2^level + 1). It repeats the substitution of the key's
/// greatest Galois element that is at most N / 2^level + 1.
fn substitution(key: &EvaluationKey, level: u32) -> Result<Substitution<'_>, AppleError> {
    let exponent = LOG2_DEGREE - level;
    let (element, key) = key.galois((1 << exponent) + 1).ok_or_else(|| {
        let detail = format!("no Galois element up to 2^{exponent} + 1");
        AppleError::malformed("SerializedEvaluationKey", detail)
    })?;
    let of_key = (element - 1).ilog2();
    Ok(Substitution { level: LOG2_DEGREE - of_key, key, times: 1 << (exponent - of_key) })
}
