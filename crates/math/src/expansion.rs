//! The tree of an expansion: the map from coefficients to leaves.

/// Shape of an expansion. One ciphertext of a polynomial becomes a ciphertext for each of its first
/// coefficients, in a tree of substitutions that is pruned to the wanted leaves (VIPIR section 3.5,
/// SealPIR).
///
/// A node at level i holds a polynomial in X^(2^i) and splits into its even and its odd part by the
/// substitution X -> X^(N / 2^i + 1). Leaf t therefore holds the coefficient whose number is t with
/// its bits reversed. Leaves 0, 1, 2, ... are adjacent in the tree, and nodes that no leaf needs
/// are never computed. Every level doubles the message; encryption must divide by 2^`levels`.
///
/// A tree may end before its leaves are constants: leaf t then holds a polynomial in
/// X^(2^`levels`), with every 2^`levels`-th coefficient. Another tree may continue from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Expansion {
    first: u32,
    levels: u32,
    leaves: usize,
}

impl Expansion {
    /// Returns the expansion to `leaves` leaves, at least 1, in the fewest levels.
    pub fn covering(leaves: usize) -> Self {
        Self::further(0, leaves)
    }

    /// Returns the expansion to `leaves` leaves, at least 1, of a polynomial in X^(2^`first`).
    pub fn further(first: u32, leaves: usize) -> Self {
        Self { first, levels: leaves.next_power_of_two().trailing_zeros(), leaves: leaves.max(1) }
    }

    /// Returns the expansion to the first `leaves` polynomials in X^(2^`levels`).
    ///
    /// # Panics
    /// If `leaves` is 0 or more than 2^`levels`.
    pub fn partial(levels: u32, leaves: usize) -> Self {
        assert!((1..=1 << levels).contains(&leaves), "{leaves} leaves of {levels} levels");
        Self { first: 0, levels, leaves }
    }

    /// Returns the first level: 0, or the number of levels of the trees before.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Returns the depth of the tree.
    pub fn levels(&self) -> u32 {
        self.levels
    }

    /// Returns the number of computed leaves.
    pub fn leaves(&self) -> usize {
        self.leaves
    }

    /// Returns the number of the coefficient that leaf `leaf` holds, among the coefficients of a
    /// polynomial in X^(2^`first`). If the leaf holds several coefficients, returns the smallest of
    /// their numbers.
    pub fn coefficient(&self, leaf: usize) -> usize {
        if self.levels == 0 { 0 } else { leaf.reverse_bits() >> (usize::BITS - self.levels) }
    }

    /// Returns the exponent of the substitution at a level, counted from the level of whole
    /// polynomials.
    pub fn exponent(degree: usize, level: u32) -> usize {
        (degree >> level) + 1
    }

    /// Returns the number of nodes that have a wanted leaf below them, at `level` counted from the
    /// first level of this tree.
    pub fn nodes(&self, level: u32) -> usize {
        self.leaves.div_ceil(1 << (self.levels - level))
    }

    /// Returns the total number of substitutions.
    pub fn substitutions(&self) -> usize {
        (0..self.levels).map(|level| self.nodes(level)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pruned_tree_has_few_more_substitutions_than_leaves() {
        let expansion = Expansion::covering(1320);
        assert_eq!((expansion.levels(), expansion.nodes(0), expansion.nodes(11)), (11, 1, 1320));
        // The papers' tree has 2047 substitutions. A binary tree of 1320 leaves has 1319 inner
        // nodes, each a substitution.
        assert!((1319..1330).contains(&expansion.substitutions()), "{}", expansion.substitutions());
    }

    #[test]
    fn a_partial_tree_has_the_nodes_above_its_leaves() {
        let (partial, further) = (Expansion::partial(4, 6), Expansion::further(4, 9));
        assert_eq!((partial.levels(), partial.substitutions()), (4, 1 + 1 + 2 + 3));
        assert_eq!((further.first(), further.levels(), further.leaves()), (4, 4, 9));
        // Together they are a part of the single tree of 8 levels.
        let whole = Expansion::covering(256);
        for leaf in 0..9 {
            let place = partial.coefficient(5) + 16 * further.coefficient(leaf);
            assert_eq!(place, whole.coefficient(5 * 16 + leaf));
        }
    }

    #[test]
    fn leaves_hold_all_coefficients_once() {
        for leaves in [1, 2, 5, 64, 100] {
            let expansion = Expansion::covering(leaves);
            let mut found: Vec<usize> =
                (0..1 << expansion.levels()).map(|t| expansion.coefficient(t)).collect();
            found.sort_unstable();
            assert!(found.into_iter().eq(0..1 << expansion.levels()));
        }
    }
}
