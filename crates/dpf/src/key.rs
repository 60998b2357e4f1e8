use zeroize::Zeroize;

use crate::{Block, CONTROL, Domain, DpfError, LEAF_BLOCKS, Leaf, Party};

/// Correction of a level, added to a corrected node's children; the two blocks differ at most in
/// the control bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Correction of the left child.
    pub left: Block,
    /// Correction of the right child.
    pub right: Block,
}

/// A party's key: the root of its tree, and corrections common to both parties. Erased when
/// dropped.
///
/// A single key reveals nothing about the point or the value.
#[derive(Clone)]
pub struct Key {
    pub(crate) domain: Domain,
    pub(crate) party: Party,
    pub(crate) root: Block,
    pub(crate) levels: Vec<Level>,
    pub(crate) leaf: Leaf,
}

impl Key {
    /// Returns the domain.
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// Returns the party that the key belongs to.
    pub fn party(&self) -> Party {
        self.party
    }

    /// Returns the root as a node. Its control bit is the party's number, except for the root of a
    /// [`Subtree`](crate::Subtree).
    pub fn root(&self) -> Block {
        self.root
    }

    /// Returns the corrections of levels, from the root down.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Returns the correction of leaves.
    pub fn leaf(&self) -> &Leaf {
        &self.leaf
    }

    /// Encodes the key as [`Domain::key_bytes`] bytes, all little-endian:
    ///
    /// - the party's number in a byte;
    /// - the root, with lowest bit 0;
    /// - for each level the correction of the left child;
    /// - for each level, lowest bit first, the control bit of the correction of the right child,
    ///   padded to whole bytes with 0;
    /// - the leaf's correction.
    ///
    /// # Panics
    /// For the key of a [`Subtree`](crate::Subtree) whose control bit is not the party's:
    /// such keys are never sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        assert_eq!(self.root & CONTROL, Block::from(self.party.number()), "the key of a subtree");
        let mut bytes = Vec::with_capacity(self.domain.key_bytes());
        bytes.push(self.party.number());
        bytes.extend_from_slice(&(self.root & !CONTROL).to_le_bytes());
        for level in &self.levels {
            bytes.extend_from_slice(&level.left.to_le_bytes());
        }
        for levels in self.levels.chunks(8) {
            let bits = levels.iter().enumerate().map(|(i, level)| ((level.right & CONTROL) as u8) << i);
            bytes.push(bits.sum());
        }
        bytes.extend(self.leaf.iter().flat_map(|block| block.to_le_bytes()));
        bytes
    }

    /// Parses a key of `domain`. Every field is checked before it is used.
    ///
    /// # Errors
    /// [`DpfError::Key`] with the name of the field.
    pub fn from_bytes(domain: Domain, bytes: &[u8]) -> Result<Self, DpfError> {
        if bytes.len() != domain.key_bytes() {
            return Err(DpfError::Key("it is not as long as keys of its domain are"));
        }
        let depth = domain.depth() as usize;
        let (party, rest) = bytes.split_at(1);
        let (root, rest) = rest.split_at(16);
        let (lefts, rest) = rest.split_at(16 * depth);
        let (controls, leaf) = rest.split_at(depth.div_ceil(8));
        let party = Party::try_from(party[0]).map_err(|_| DpfError::Key("its party is neither 0 nor 1"))?;
        let root = block(root);
        if root & CONTROL != 0 {
            return Err(DpfError::Key("the lowest bit of its root is set"));
        }
        if !depth.is_multiple_of(8) && controls[depth / 8] >> (depth % 8) != 0 {
            return Err(DpfError::Key("its control bits have others behind them"));
        }
        let level = |(i, left): (usize, &[u8])| {
            let (left, right) = (block(left), controls[i / 8] >> (i % 8) & 1);
            Level { left, right: (left & !CONTROL) | Block::from(right) }
        };
        let levels = lefts.chunks_exact(16).enumerate().map(level).collect();
        let mut blocks = [0; LEAF_BLOCKS];
        blocks.iter_mut().zip(leaf.chunks_exact(16)).for_each(|(to, bytes)| *to = block(bytes));
        let root = root | Block::from(party.number());
        Ok(Self { domain, party, root, levels, leaf: blocks })
    }
}

/// Parses a block of 16 little-endian bytes.
fn block(bytes: &[u8]) -> Block {
    bytes.iter().rev().fold(0, |block, &byte| block << 8 | Block::from(byte))
}

impl std::fmt::Debug for Key {
    /// Shows nothing secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key")
            .field("domain", &self.domain)
            .field("party", &self.party)
            .finish_non_exhaustive()
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.root.zeroize();
        self.leaf.zeroize();
        for level in &mut self.levels {
            level.left.zeroize();
            level.right.zeroize();
        }
    }
}
