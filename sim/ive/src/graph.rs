//! Graphs of operations: what a core does to ciphertexts, where they lie in its register file, and what must be over
//! before.

use crate::error::IveError;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The key of a level of the layer comes from HBM.
    LoadKey {
        /// Counted from the first level that is worked through.
        level: u32,
    },
    /// A ciphertext comes from HBM.
    LoadCiphertext {
        /// Its number among those of the layer.
        index: u64,
    },
    /// A ciphertext goes to HBM.
    StoreCiphertext {
        /// Its number among those of the layer.
        index: u64,
    },
    /// An external product with the sum that follows it, Z = X + RGSW * (Y - X), in the place of X.
    Product {
        /// Of its key.
        level: u32,
    },
    /// The external product of a row of a selector with the key, in a place of its own.
    Assembly,
    /// The image of a ciphertext under an automorphism, with the second operand added to it if there is one: in a place of
    /// its own, or in that of the first operand.
    Rotation {
        /// Number of its key.
        key: u32,
    },
    /// A substitution, with the sum in the place of its operand and the shifted difference in a place of its own, if that
    /// is wanted.
    Substitution {
        /// Of its key.
        level: u32,
    },
}

/// A ciphertext that is read: who made it, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The operation.
    pub node: usize,
    /// The place of the register file.
    pub place: usize,
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What is done.
    pub work: Work,
    /// What it reads, X before Y.
    pub operands: Vec<Operand>,
    /// The place that it fills, beside those of its operands.
    pub place: Option<usize>,
    /// Other operations that must be over before: that load its key, or that emptied its place.
    pub after: Vec<usize>,
}

impl Node {
    /// All operations that must be over before.
    pub fn before(&self) -> impl Iterator<Item = usize> {
        self.operands.iter().map(|operand| operand.node).chain(self.after.iter().copied())
    }
}

/// Operations, each after those that it needs; without a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    nodes: Vec<Node>,
    latest_first: Vec<usize>,
}

impl Graph {
    /// Checks operations. Their order is the order of the program: units take what is ready first, earlier ones first.
    ///
    /// # Errors
    /// [`IveError::Graph`] if one needs an operation that is not there, or itself in the end.
    pub fn new(nodes: Vec<Node>) -> Result<Self, IveError> {
        let mut waits = vec![0usize; nodes.len()];
        let mut followers = vec![Vec::new(); nodes.len()];
        for (number, node) in nodes.iter().enumerate() {
            for before in node.before() {
                let Some(followers) = followers.get_mut(before) else {
                    return Err(IveError::Graph {
                        node: number,
                        problem: format!("it comes after operation {before} of {}", nodes.len()),
                        remedy: "add that operation, or take it out of `after`".into(),
                    });
                };
                followers.push(number);
                waits[number] += 1;
            }
        }
        let mut ready: Vec<usize> = (0..nodes.len()).filter(|&number| waits[number] == 0).collect();
        let mut latest_first = Vec::with_capacity(nodes.len());
        while let Some(number) = ready.pop() {
            latest_first.push(number);
            for &follower in &followers[number] {
                waits[follower] -= 1;
                if waits[follower] == 0 {
                    ready.push(follower);
                }
            }
        }
        match waits.iter().position(|&left| left > 0) {
            None => Ok(Self { nodes, latest_first }),
            Some(node) => Err(IveError::Graph {
                node,
                problem: "it waits for itself: the graph has a cycle".into(),
                remedy: "take one of the operations of the cycle out of `after`".into(),
            }),
        }
    }

    /// The operations, in the order of the program.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Numbers of the operations in an order that they allow, as unlike that of the program as is easily had: of those
    /// that are ready, what became so last.
    pub fn latest_first(&self) -> &[usize] {
        &self.latest_first
    }

    /// How many operations are as asked.
    pub fn count(&self, is: impl Fn(Work) -> bool) -> u64 {
        self.nodes.iter().filter(|node| is(node.work)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(after: Vec<Vec<usize>>) -> Result<Graph, IveError> {
        let node =
            |after| Node { work: Work::LoadKey { level: 0 }, operands: Vec::new(), place: None, after };
        Graph::new(after.into_iter().map(node).collect())
    }

    #[test]
    fn cycles_and_unknown_operations_are_refused_by_number() {
        let ordered = graph(vec![vec![], vec![0], vec![0, 1], vec![]]).unwrap();
        assert_eq!((ordered.count(|_| true), ordered.latest_first()), (4, &[3, 0, 1, 2][..]));
        let refused = [(vec![vec![], vec![2], vec![1]], 1), (vec![vec![0]], 0), (vec![vec![], vec![7]], 1)];
        for (after, number) in refused {
            let Err(IveError::Graph { node, remedy, .. }) = graph(after) else { panic!("{number}") };
            assert!(node == number && !remedy.is_empty());
        }
    }
}
