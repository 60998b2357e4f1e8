//! Inclusion proofs: proof that a record is the one that its table's operator sealed.
//!
//! A table has a Merkle tree over its records. A leaf is a hash of a record's index and payload; a
//! node is a hash of its position and of the two nodes below it. The table lists the nodes of one
//! level, the *roots*. A record contains the siblings on the way from its leaf to its root. They
//! are part of the record, since fetching them by position would reveal the record.
//!
//! The tree ends at the level of the roots, below the top of a whole tree. Each omitted level saves
//! a hash in every record, and doubles the number of roots that every client reads once for each
//! version.
//!
//! # Hashes of 16 bytes
//! The tree's salt is drawn after the content is fixed, so nobody can prepare content for it. To
//! replace a record, an attacker must find a second preimage. Every hash includes its position in
//! the tree, so one evaluation tests only one target, and an attack takes 2^128 hashes for a table
//! of any size. If the salt is known while the content is chosen, a collision suffices: 2^64
//! hashes. An operator who builds a table in order to lie about it spends that much.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use spirea_math::secret::declassify;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::{ProtocolError, Salt};

/// Bytes of a hash.
pub const HASH_BYTES: usize = 16;
/// Maximum number of roots of a new table, as a power of two: 4 KiB.
const MAX_ROOTS_LOG2: u32 = 8;
/// Maximum number of roots of a table that is read.
const MAX_ROOTS_READ: u64 = 1 << 12;

/// Hash of a leaf or a node.
pub type Hash = [u8; HASH_BYTES];

/// Stands for a missing right sibling.
const NO_SIBLING: Hash = [0; HASH_BYTES];

/// Inclusion proofs of a table's records, as its clients know them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proofs {
    /// Levels from a leaf to its root, which is the number of hashes in a proof.
    pub levels: u32,
    /// Salt of the tree, drawn after the content is fixed; public.
    pub salt: Salt,
    /// Roots, in the order of their records. In JSON they are the padded base64 of their bytes.
    #[serde(serialize_with = "serialize_roots", deserialize_with = "deserialize_roots")]
    pub roots: Vec<Hash>,
}

fn serialize_roots<S: Serializer>(roots: &[Hash], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(roots.as_flattened()))
}

fn deserialize_roots<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Hash>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.len() > (MAX_ROOTS_READ as usize * HASH_BYTES).div_ceil(3) * 4 {
        return Err(de::Error::custom("there are more than 4096 roots"));
    }
    let bytes = STANDARD.decode(&text).map_err(|_| de::Error::custom("expected roots in base64"))?;
    match bytes.as_chunks() {
        (roots, []) => Ok(roots.to_vec()),
        _ => Err(de::Error::custom("expected roots of 16 bytes each")),
    }
}

impl Proofs {
    /// Returns proofs for `records` records, at least one, whose roots are still to be computed.
    pub fn blank(records: u64, salt: Salt) -> Self {
        let levels = Self::levels_of(records);
        Self { levels, salt, roots: vec![NO_SIBLING; records.div_ceil(1 << levels) as usize] }
    }

    fn levels_of(records: u64) -> u32 {
        let height = u64::BITS - (records.max(1) - 1).leading_zeros();
        height.saturating_sub(MAX_ROOTS_LOG2)
    }

    /// Returns the number of bytes of a proof in a table of `records` records.
    pub fn bytes_of(records: u64) -> usize {
        Self::levels_of(records) as usize * HASH_BYTES
    }

    /// Returns the number of bytes of a proof.
    pub fn bytes(&self) -> usize {
        self.levels as usize * HASH_BYTES
    }

    /// Checks that the roots are those of `records` records.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`].
    pub(crate) fn validate(&self, records: u64) -> Result<(), ProtocolError> {
        // Tables have fewer than 2^41 records.
        let roots = (self.levels <= 40).then(|| records.div_ceil(1 << self.levels));
        match roots {
            Some(roots) if roots <= MAX_ROOTS_READ && roots == self.roots.len() as u64 => Ok(()),
            _ => Err(ProtocolError::malformed("table", "its proofs do not have the roots of its records")),
        }
    }

    /// Returns the leaf of record `index`, whose padded payload is `payload`.
    pub(crate) fn leaf(&self, index: u64, payload: &[u8]) -> Hash {
        let mut hasher = blake3::Hasher::new_keyed(self.salt.as_bytes());
        hasher.update(b"spirea leaf v2").update(&index.to_le_bytes()).update(payload);
        first(&hasher)
    }

    /// Returns the node number `place` of `level`, counted from the leaves at level 0.
    fn node(&self, level: u32, place: u64, left: &Hash, right: &Hash) -> Hash {
        let mut hasher = blake3::Hasher::new_keyed(self.salt.as_bytes());
        hasher.update(b"spirea node v2").update(&level.to_le_bytes()).update(&place.to_le_bytes());
        hasher.update(left).update(right);
        first(&hasher)
    }

    /// Returns true if `proof` leads from the payload of record `index` to its root. Neither a
    /// branch nor an address depends on the index.
    pub(crate) fn hold(&self, index: u64, payload: &[u8], proof: &[u8]) -> bool {
        let (siblings, rest) = proof.as_chunks::<HASH_BYTES>();
        if siblings.len() != self.levels as usize || !rest.is_empty() {
            return false;
        }
        let (mut node, mut place) = (self.leaf(index, payload), index);
        for (&sibling, level) in siblings.iter().zip(1..) {
            let (mut left, mut right) = (node, sibling);
            let is_right = Choice::from((place & 1) as u8);
            Hash::conditional_swap(&mut left, &mut right, is_right);
            place >>= 1;
            node = self.node(level, place, &left, &right);
        }
        let mut held = Choice::from(0);
        for (root, at) in self.roots.iter().zip(0u64..) {
            held |= root.ct_eq(&node) & at.ct_eq(&place);
        }
        declassify(held.unwrap_u8(), "an inclusion proof that fails is reported") == 1
    }
}

fn first(hasher: &blake3::Hasher) -> Hash {
    let mut hash = [0; HASH_BYTES];
    hasher.finalize_xof().fill(&mut hash);
    hash
}

/// Tree over a table's records, for sealing them: 32 bytes of memory for each record.
pub struct Tree {
    /// Levels from the leaves to the roots.
    levels: Vec<Vec<Hash>>,
}

impl Tree {
    /// Returns the tree over `leaves`, in the order of their records, and stores its roots in
    /// `proofs`.
    pub(crate) fn new(proofs: &mut Proofs, leaves: Vec<Hash>) -> Self {
        let mut levels = vec![leaves];
        for level in 1..=proofs.levels {
            let below = levels.last().expect("there are leaves");
            let nodes = below
                .chunks(2)
                .zip(0u64..)
                .map(|(pair, place)| proofs.node(level, place, &pair[0], pair.get(1).unwrap_or(&NO_SIBLING)));
            let nodes = nodes.collect();
            levels.push(nodes);
        }
        proofs.roots = levels.last().expect("there are leaves").clone();
        Self { levels }
    }

    /// Returns the proof of record `index`: the siblings, beginning with its leaf's.
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

    const SALT: Salt = Salt::new([4; 32]);

    fn tree(records: u64, levels: u32) -> (Tree, Proofs) {
        let mut proofs = Proofs { levels, salt: SALT, roots: Vec::new() };
        let leaves = (0..records).map(|index| proofs.leaf(index, &index.to_be_bytes())).collect();
        let tree = Tree::new(&mut proofs, leaves);
        (tree, proofs)
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
                            let right = content == other && tree.proof(other) == proof;
                            assert_eq!(proofs.hold(other, &content.to_be_bytes(), &proof), right);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn hashes_name_their_place_and_their_level() {
        let (_, proofs) = tree(1, 0);
        let (a, b) = ([1; HASH_BYTES], [2; HASH_BYTES]);
        let nodes = [
            proofs.node(1, 0, &a, &b),
            proofs.node(1, 1, &a, &b),
            proofs.node(2, 0, &a, &b),
            proofs.node(1, 0, &b, &a),
            proofs.leaf(0, &[a, b].concat()),
            proofs.leaf(1, &[a, b].concat()),
            Proofs { salt: Salt::new([5; 32]), ..proofs.clone() }.node(1, 0, &a, &b),
            Proofs { salt: Salt::new([5; 32]), ..proofs.clone() }.leaf(0, &[a, b].concat()),
        ];
        assert_eq!(std::collections::BTreeSet::from(nodes).len(), nodes.len());
    }

    #[test]
    fn a_blank_has_room_for_the_roots_of_any_table() {
        for records in (1..1200).chain([1 << 20, (1 << 20) + 1, 1 << 40]) {
            let blank = Proofs::blank(records, SALT);
            blank.validate(records).unwrap();
            assert_eq!(blank.bytes(), Proofs::bytes_of(records));
            assert!(blank.roots.len() <= 1 << MAX_ROOTS_LOG2);
            assert!(blank.levels == 0 || blank.roots.len() > 1 << (MAX_ROOTS_LOG2 - 1), "{records}");
        }
        let proofs = |levels, roots| Proofs { levels, salt: SALT, roots: vec![[0; HASH_BYTES]; roots] };
        assert!(proofs(64, 1).validate(1).is_err());
        assert!(proofs(1, 1).validate(3).is_err());
        assert!(proofs(0, 5000).validate(5000).is_err());
    }

    #[test]
    fn roots_survive_json_and_damaged_ones_are_refused() {
        let (_, proofs) = tree(20, 2);
        let json = serde_json::to_value(&proofs).unwrap();
        assert_eq!(serde_json::from_value::<Proofs>(json.clone()).unwrap(), proofs);
        let text = json["roots"].as_str().unwrap();
        let too_many = "A".repeat((MAX_ROOTS_READ as usize + 1) * HASH_BYTES * 4 / 3);
        for damaged in [&text[1..], &text[4..], "not base64", &too_many] {
            let mut json = json.clone();
            json["roots"] = damaged.into();
            assert!(serde_json::from_value::<Proofs>(json).is_err(), "{damaged}");
        }
    }

    proptest! {
        #[test]
        fn a_flipped_bit_of_a_proof_or_a_root_is_seen(records in 2u64..200, index: u64, at: usize, bit in 0u8..8) {
            let index = index % records;
            let (tree, proofs) = tree(records, 3);
            let payload = index.to_be_bytes();
            let mut proof = tree.proof(index);
            prop_assert!(proofs.hold(index, &payload, &proof));
            let place = at % proof.len();
            proof[place] ^= 1 << bit;
            prop_assert!(!proofs.hold(index, &payload, &proof));
            proof[place] ^= 1 << bit;
            let mut forged = proofs.clone();
            forged.roots[index as usize >> 3][at % HASH_BYTES] ^= 1 << bit;
            prop_assert!(!forged.hold(index, &payload, &proof));
            prop_assert!(!proofs.hold(index, &payload, &proof[1..]));
        }
    }
}
