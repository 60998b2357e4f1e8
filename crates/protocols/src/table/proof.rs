//! Inclusion proofs: a record is the one that its table's operator sealed.
//!
//! A Merkle tree stands over the records of a table. A leaf is a hash of a record's index and payload, a node one of
//! the two below it, and the table names the nodes of one level, the *roots*. A record carries the siblings on the way
//! from its leaf to its root. They travel inside it, since whoever fetched them by position would name the record.
//!
//! The tree is cut off below its top: each level less is 32 bytes less of every record, and twice as many roots of which
//! every client reads once.

use serde::{Deserialize, Serialize};
use spirea_math::secret::declassify;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::ProtocolError;

/// Bytes of a hash.
pub const HASH_BYTES: usize = 32;
/// The most roots of a table that is built: 64, some 4 KiB of a manifest for 6 levels less.
const MAX_ROOTS_LOG2: u32 = 6;
/// The most roots of a table that is read.
const MAX_ROOTS_READ: u64 = 1 << 12;

/// A hash of a tree.
pub type Hash = [u8; HASH_BYTES];

/// What stands where a node has no right sibling.
const NO_SIBLING: Hash = [0; HASH_BYTES];

/// The inclusion proofs of a table's records, as its clients know them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proofs {
    /// Levels from a leaf to its root: the hashes of a proof.
    pub levels: u32,
    /// The roots, in the order of their records.
    #[serde(with = "crate::hex::list")]
    pub roots: Vec<Hash>,
}

impl Proofs {
    /// Proofs for so many records, at least one, whose roots are still to be computed.
    pub fn blank(records: u64) -> Self {
        let height = u64::BITS - (records.max(1) - 1).leading_zeros();
        let levels = height.saturating_sub(MAX_ROOTS_LOG2);
        Self { levels, roots: vec![NO_SIBLING; records.div_ceil(1 << levels) as usize] }
    }

    /// Bytes of a proof.
    pub fn bytes(&self) -> usize {
        self.levels as usize * HASH_BYTES
    }

    /// Checks that they are of so many records.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`].
    pub(crate) fn validate(&self, records: u64) -> Result<(), ProtocolError> {
        // Records are fewer than 2^41.
        let roots = (self.levels <= 40).then(|| records.div_ceil(1 << self.levels));
        match roots {
            Some(roots) if roots <= MAX_ROOTS_READ && roots == self.roots.len() as u64 => Ok(()),
            _ => Err(ProtocolError::malformed("table", "its proofs do not have the roots of its records")),
        }
    }

    /// Whether `proof` leads from the leaf of record `index` to its root. Which record it is shows neither in a branch
    /// nor in an address.
    pub(crate) fn hold(&self, salt: &[u8; 32], index: u64, leaf: Hash, proof: &[u8]) -> bool {
        let (siblings, rest) = proof.as_chunks::<HASH_BYTES>();
        if siblings.len() != self.levels as usize || !rest.is_empty() {
            return false;
        }
        let (mut node, mut place) = (leaf, index);
        for &sibling in siblings {
            let (mut left, mut right) = (node, sibling);
            <[u8; HASH_BYTES]>::conditional_swap(&mut left, &mut right, Choice::from((place & 1) as u8));
            node = parent(salt, &left, &right);
            place >>= 1;
        }
        let mut held = Choice::from(0);
        for (root, at) in self.roots.iter().zip(0u64..) {
            held |= root.ct_eq(&node) & at.ct_eq(&place);
        }
        declassify(held.unwrap_u8(), "an inclusion proof that fails is reported") == 1
    }
}

/// The leaf of a record.
pub(crate) fn leaf(salt: &[u8; 32], index: u64, payload: &[u8]) -> Hash {
    let mut hasher = blake3::Hasher::new_keyed(salt);
    hasher.update(b"spirea leaf v1").update(&index.to_le_bytes()).update(payload);
    hasher.finalize().into()
}

fn parent(salt: &[u8; 32], left: &Hash, right: &Hash) -> Hash {
    let mut hasher = blake3::Hasher::new_keyed(salt);
    hasher.update(b"spirea node v1").update(left).update(right);
    hasher.finalize().into()
}

/// The tree over a table's records, for whoever seals them: 64 bytes of memory for each.
pub struct Tree {
    /// From the leaves to the roots.
    levels: Vec<Vec<Hash>>,
}

impl Tree {
    /// The tree over these leaves, in the order of their records, so many levels high.
    pub(crate) fn new(salt: &[u8; 32], leaves: Vec<Hash>, height: u32) -> Self {
        let mut levels = vec![leaves];
        for _ in 0..height {
            let below = levels.last().expect("there are leaves");
            let nodes =
                below.chunks(2).map(|pair| parent(salt, &pair[0], pair.get(1).unwrap_or(&NO_SIBLING)));
            let nodes = nodes.collect();
            levels.push(nodes);
        }
        Self { levels }
    }

    /// The roots.
    pub fn roots(&self) -> &[Hash] {
        self.levels.last().expect("there are leaves")
    }

    /// The proof of record `index`: siblings from its leaf on.
    pub(crate) fn proof(&self, index: u64) -> Vec<u8> {
        let below_roots = &self.levels[..self.levels.len() - 1];
        let siblings = below_roots.iter().enumerate().map(|(level, nodes)| {
            let sibling = (index >> level) as usize ^ 1;
            nodes.get(sibling).unwrap_or(&NO_SIBLING)
        });
        siblings.flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SALT: [u8; 32] = [4; 32];

    fn tree(records: u64, levels: u32) -> (Tree, Proofs) {
        let leaves = (0..records).map(|index| leaf(&SALT, index, &index.to_be_bytes())).collect();
        let tree = Tree::new(&SALT, leaves, levels);
        let roots = tree.roots().to_vec();
        (tree, Proofs { levels, roots })
    }

    #[test]
    fn every_proof_of_every_small_tree_holds_for_its_records_as_they_are() {
        for records in 1..20 {
            for levels in 0..6 {
                let (tree, proofs) = tree(records, levels);
                proofs.validate(records).unwrap();
                for index in 0..records {
                    let proof = tree.proof(index);
                    assert_eq!(proof.len(), proofs.bytes());
                    for other in 0..records {
                        for content in 0..records {
                            let leaf = leaf(&SALT, other, &content.to_be_bytes());
                            let right = content == other && tree.proof(other) == proof;
                            assert_eq!(proofs.hold(&SALT, other, leaf, &proof), right);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_blank_has_room_for_the_roots_of_any_table() {
        for records in (1..300).chain([1 << 20, (1 << 20) + 1, 1 << 40]) {
            let blank = Proofs::blank(records);
            blank.validate(records).unwrap();
            assert!(blank.roots.len() <= 1 << MAX_ROOTS_LOG2);
            assert!(blank.levels == 0 || blank.roots.len() > 1 << (MAX_ROOTS_LOG2 - 1), "{records}");
        }
        assert!(Proofs { levels: 64, roots: vec![[0; 32]] }.validate(1).is_err());
        assert!(Proofs { levels: 1, roots: vec![[0; 32]] }.validate(3).is_err());
        assert!(Proofs { levels: 0, roots: vec![[0; 32]; 5000] }.validate(5000).is_err());
    }

    proptest! {
        #[test]
        fn a_flipped_bit_of_a_proof_or_a_root_is_seen(records in 2u64..200, index: u64, at: usize, bit in 0u8..8) {
            let index = index % records;
            let (tree, proofs) = tree(records, 3);
            let leaf = leaf(&SALT, index, &index.to_be_bytes());
            let mut proof = tree.proof(index);
            prop_assert!(proofs.hold(&SALT, index, leaf, &proof));
            let place = at % proof.len();
            proof[place] ^= 1 << bit;
            prop_assert!(!proofs.hold(&SALT, index, leaf, &proof));
            proof[place] ^= 1 << bit;
            let mut forged = proofs.clone();
            forged.roots[index as usize >> 3][at % HASH_BYTES] ^= 1 << bit;
            prop_assert!(!forged.hold(&SALT, index, leaf, &proof));
            prop_assert!(!proofs.hold(&SALT, index, leaf, &proof[1..]));
        }
    }
}
