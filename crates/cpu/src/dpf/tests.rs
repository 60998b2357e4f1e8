//! Compares every tree with the definition, node by node.

use spirea_backend::RowLayout;
use spirea_dpf::prf::Aes128;
use spirea_dpf::{Block, CONTROL, Domain, Key, LEAF_BLOCKS, Leaf, OutputKind, PrfKind, select};
use spirea_math::random::SecretRng;

use super::defined::DefinedProducts;
use super::driver::{self, Task};
use super::products::BitProducts;
use super::traverse::Descent;
use super::tree::{TargetTree, Tree};
use super::trees::tree;
use crate::isa::Found;
use crate::{CpuRows, Isa};

/// Returns the trees of AES that this machine has instructions for.
fn aes_trees() -> Vec<(&'static str, Box<dyn Tree>)> {
    let mut trees: Vec<(&'static str, Box<dyn Tree>)> =
        vec![("portable", tree(Isa::Portable, PrfKind::Aes128))];
    #[cfg(target_arch = "x86_64")]
    {
        use super::{aesni::AesNi, vaes::Vaes, vaes512::Vaes512};
        use crate::isa::{Avx2, Avx512};
        trees.extend(AesNi::detect().map(|tree| ("aes-ni", Box::new(tree) as _)));
        trees.extend(Avx2::detect().and_then(Vaes::detect).map(|tree| ("vaes", Box::new(tree) as _)));
        trees
            .extend(Avx512::detect().and_then(Vaes512::detect).map(|tree| ("vaes-512", Box::new(tree) as _)));
    }
    trees
}

fn random_nodes(count: usize, rng: &mut SecretRng) -> Vec<Block> {
    (0..count).map(|_| Block::from(rng.next_u64()) << 64 | Block::from(rng.next_u64())).collect()
}

fn keys(prf: PrfKind, points: u64, output: OutputKind, rng: &mut SecretRng) -> [Key; 2] {
    let domain = Domain::new(points, output).unwrap();
    select(prf, domain, points / 3, rng).unwrap()
}

#[test]
fn aes_expands_as_its_definition_on_every_width() {
    let mut rng = SecretRng::from_os().unwrap();
    let extremes = [0, CONTROL, Block::MAX, Block::MAX ^ CONTROL];
    for output in OutputKind::ALL {
        for key in keys(PrfKind::Aes128, 1 << 20, output, &mut rng) {
            for count in [1, 2, 4, 8, 16, 32, 64, 128] {
                let mut nodes = random_nodes(count, &mut rng);
                nodes.iter_mut().zip(extremes).for_each(|(node, extreme)| *node = extreme);
                let expected = expanded(&TargetTree(Aes128), &nodes, &key);
                for (name, tree) in aes_trees() {
                    let found = expanded(&*tree, &nodes, &key);
                    assert!(found == expected, "{name}, {count} nodes, {output:?}, {}", key.party());
                }
            }
        }
    }
}

/// Returns the children of `nodes` at a level of the key. For each number of nodes up to all of
/// them, also returns the shares of the first nodes as if these were leaves.
fn expanded(tree: &dyn Tree, nodes: &[Block], key: &Key) -> (Vec<Block>, Vec<Vec<Leaf>>) {
    let mut children = nodes.to_vec();
    children.resize(2 * nodes.len(), 0);
    tree.expand(&mut children, nodes.len(), &key.levels()[1]);
    let leaves = |count: usize| {
        let mut shares = vec![[0; LEAF_BLOCKS]; count];
        tree.leaves(&nodes[..count], key, &mut shares);
        shares
    };
    (children, (1..=nodes.len()).map(leaves).collect())
}

#[test]
fn a_descent_finds_chunks_in_any_order() {
    let mut rng = SecretRng::from_os().unwrap();
    for (leaves, order) in
        [(4, &[0, 1, 2, 3, 4, 7, 6, 6, 15, 0, 8, 15][..]), (32, &[1, 0, 0, 1]), (64, &[0, 0])]
    {
        // A leaf has four points.
        let [key, _] = keys(PrfKind::Aes128, 256, OutputKind::U128, &mut rng);
        let (tree, mut nodes) = (TargetTree(Aes128), vec![0; leaves]);
        let mut descent = Descent::new(&tree, &key, leaves);
        let mut all = vec![key.root(); 64];
        key.levels().iter().enumerate().for_each(|(i, level)| tree.expand(&mut all, 1 << i, level));
        for &chunk in order {
            descent.leaf_nodes(chunk, &mut nodes);
            assert!(nodes == all[chunk as usize * leaves..][..leaves], "chunk {chunk} of {leaves} leaves");
        }
    }
}

/// Each kind of product agrees with tables. A machine with products of bit matrices never uses
/// tables, and one without never uses products, so integration tests do not reach them there.
#[test]
fn tables_and_products_of_bit_matrices_give_the_same_answers() {
    let mut rng = SecretRng::from_os().unwrap();
    for (rows, row_bytes, parts) in [(1000, 32, 1), (700, 41, 2), (90, 300, 1), (3000, 3, 1)] {
        let layout = RowLayout::new(rows, row_bytes, parts).unwrap();
        let bytes: Vec<u8> = (0..layout.bytes()).map(|_| rng.next_u64() as u8).collect();
        let held = CpuRows::copy_of(layout, &bytes).unwrap();
        for count in [2, 3, 4, 9, 70] {
            let keys: Vec<Key> = (0..count)
                .map(|_| keys(PrfKind::Aes128, rows as u64 - 1, OutputKind::Bit, &mut rng)[0].clone())
                .collect();
            let batch = layout.check_keys(1, &keys).unwrap();
            let task = [Task { batch, keys: &keys }];
            for isa in Isa::available() {
                let (tree, found) = (tree(isa, PrfKind::Aes128), Found::detect(isa).unwrap());
                let answers = |products| driver::share_folds(&*tree, found, products, &held, &task);
                let tables = answers(None);
                for products in [Some(BitProducts::Defined(DefinedProducts)), BitProducts::detect(found)] {
                    assert!(tables == answers(products), "{isa}: {layout:?}, {count} keys");
                }
            }
        }
    }
}
