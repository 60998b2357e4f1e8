//! Graphs of operations: what a core does to ciphertexts, where they and their keys lie in its register file, and what
//! must have happened before.

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
    /// An external product with the sum that follows it, Z = X + RGSW * (Y - X), in the place of X. Y is read once, before
    /// its inverse transform; what was made of it is in the iCRT buffer from then on (section IV-F).
    Product,
    /// The external product of a row of a selector with the key, in a place of its own.
    Assembly,
    /// The image of a ciphertext under an automorphism, with the second operand added to it if there is one: in a place of
    /// its own, or in that of the first operand.
    Rotation {
        /// Number of its exponent, which is that of its key.
        exponent: u32,
    },
    /// A substitution, with the sum in the place of its operand and the shifted difference in a place of its own, if that
    /// is wanted.
    Substitution {
        /// Its level, counted from the first that is worked through.
        level: u32,
    },
}

/// What is read: who made it, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The operation.
    pub node: usize,
    /// The place of the register file.
    pub place: usize,
}

/// What happens to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// What goes through inverse transforms is read.
    Read,
    /// Its results are in their places.
    Over,
}

/// A moment of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The operation.
    pub node: usize,
    /// The moment.
    pub moment: Moment,
}

impl Event {
    /// An operation is over.
    pub fn over(node: usize) -> Self {
        Self { node, moment: Moment::Over }
    }

    /// An operation has read what it needs no longer.
    pub fn read(node: usize) -> Self {
        Self { node, moment: Moment::Read }
    }

    fn number(self) -> usize {
        2 * self.node + usize::from(self.moment == Moment::Over)
    }

    fn of(number: usize) -> Self {
        if number.is_multiple_of(2) { Self::read(number / 2) } else { Self::over(number / 2) }
    }
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What is done.
    pub work: Work,
    /// The key that it reads.
    pub key: Option<Operand>,
    /// The ciphertexts that it reads, X before Y.
    pub operands: Vec<Operand>,
    /// The place that it fills, beside those of its operands: one for a key if it loads one, or else for a ciphertext.
    pub place: Option<usize>,
    /// What else must have happened before: what empties its place, or reads what it empties.
    pub after: Vec<Event>,
}

impl Node {
    /// All that must have happened before it reads anything.
    pub fn before(&self) -> impl Iterator<Item = Event> {
        let made = self.operands.iter().chain(&self.key).map(|operand| Event::over(operand.node));
        made.chain(self.after.iter().copied())
    }
}

/// Places of a register file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// For ciphertexts.
    pub ciphertexts: usize,
    /// For keys.
    pub keys: usize,
}

/// Operations, each after those that it needs, without a cycle, in places that there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    nodes: Vec<Node>,
    places: Places,
    latest_first: Vec<Event>,
}

impl Graph {
    /// Checks operations. Their order is the order of the program: units take what is ready first, earlier ones first.
    ///
    /// # Errors
    /// [`IveError::Graph`] if one needs an operation or a place that is not there, or itself in the end.
    pub fn new(nodes: Vec<Node>, places: Places) -> Result<Self, IveError> {
        let mut waits = vec![0usize; 2 * nodes.len()];
        let mut followers = vec![Vec::new(); 2 * nodes.len()];
        // First among those that follow, so that they go before it: what is read may be overwritten from then on.
        for number in 0..nodes.len() {
            followers[Event::read(number).number()].push(Event::over(number).number());
            waits[Event::over(number).number()] = 1;
        }
        for (number, node) in nodes.iter().enumerate() {
            places.check(number, node)?;
            for before in node.before() {
                let Some(followers) = followers.get_mut(before.number()) else {
                    return Err(IveError::Graph {
                        node: number,
                        problem: format!("it comes after operation {} of {}", before.node, nodes.len()),
                        remedy: "add that operation, or take it out of `after`".into(),
                    });
                };
                followers.push(Event::read(number).number());
                waits[Event::read(number).number()] += 1;
            }
        }
        let mut ready: Vec<usize> = (0..waits.len()).filter(|&event| waits[event] == 0).collect();
        let mut latest_first = Vec::with_capacity(waits.len());
        while let Some(event) = ready.pop() {
            latest_first.push(Event::of(event));
            for &follower in &followers[event] {
                waits[follower] -= 1;
                if waits[follower] == 0 {
                    ready.push(follower);
                }
            }
        }
        match waits.iter().position(|&left| left > 0) {
            None => Ok(Self { nodes, places, latest_first }),
            Some(event) => Err(IveError::Graph {
                node: Event::of(event).node,
                problem: "it waits for itself: the graph has a cycle".into(),
                remedy: "take one of the operations of the cycle out of `after`".into(),
            }),
        }
    }

    /// The operations, in the order of the program.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The places of the register file that they have.
    pub fn places(&self) -> Places {
        self.places
    }

    /// What happens, in the order of the program, one operation after another.
    pub fn in_order(&self) -> impl Iterator<Item = Event> {
        (0..2 * self.nodes.len()).map(Event::of)
    }

    /// What happens in an order that the operations allow, as unlike that of the program as is easily had: of all that is
    /// ready, what became so last.
    pub fn latest_first(&self) -> &[Event] {
        &self.latest_first
    }

    /// How many operations are as asked.
    pub fn count(&self, is: impl Fn(Work) -> bool) -> u64 {
        self.nodes.iter().filter(|node| is(node.work)).count() as u64
    }
}

impl Places {
    fn check(self, number: usize, node: &Node) -> Result<(), IveError> {
        let fills_key = matches!(node.work, Work::LoadKey { .. });
        let (key, ciphertext) = if fills_key { (node.place, None) } else { (None, node.place) };
        let within =
            |what: &str, places: usize, filled: Option<usize>| match filled.filter(|&it| it >= places) {
                None => Ok(()),
                Some(place) => Err(IveError::Graph {
                    node: number,
                    problem: format!("place {place} for {what} of {places}"),
                    remedy: "give subtrees fewer levels, or empty a place before".into(),
                }),
            };
        within("keys", self.keys, key.max(node.key.map(|key| key.place)))?;
        let read = node.operands.iter().map(|operand| operand.place).max();
        within("ciphertexts", self.ciphertexts, ciphertext.max(read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: Places = Places { ciphertexts: 1, keys: 2 };

    fn load(place: Option<usize>, after: Vec<usize>) -> Node {
        let after = after.into_iter().map(Event::over).collect();
        Node { work: Work::LoadKey { level: 0 }, key: None, operands: Vec::new(), place, after }
    }

    fn graph(after: Vec<Vec<usize>>) -> Result<Graph, IveError> {
        Graph::new(after.into_iter().map(|after| load(None, after)).collect(), PLACES)
    }

    #[test]
    fn cycles_and_unknown_operations_are_refused_by_number() {
        let ordered = graph(vec![vec![], vec![0], vec![0, 1], vec![]]).unwrap();
        let over = ordered.latest_first().iter().filter(|event| event.moment == Moment::Over);
        assert_eq!(over.map(|event| event.node).collect::<Vec<_>>(), [3, 0, 1, 2]);
        assert_eq!(ordered.count(|_| true), 4);
        let refused = [(vec![vec![], vec![2], vec![1]], 1), (vec![vec![0]], 0), (vec![vec![], vec![7]], 1)];
        for (after, number) in refused {
            let Err(IveError::Graph { node, remedy, .. }) = graph(after) else { panic!("{number}") };
            assert!(node == number && !remedy.is_empty());
        }
    }

    #[test]
    fn places_that_a_register_file_lacks_are_refused_by_number() {
        let product = Node {
            work: Work::Product,
            key: Some(Operand { node: 0, place: 0 }),
            operands: vec![Operand { node: 0, place: 1 }],
            ..load(None, Vec::new())
        };
        let unloaded =
            Node { key: Some(Operand { node: 0, place: 2 }), operands: Vec::new(), ..product.clone() };
        for (nodes, said) in [
            (vec![load(Some(1), vec![]), load(Some(2), vec![])], "operation 1: place 2 for keys of 2"),
            (vec![load(Some(1), vec![]), product], "operation 1: place 1 for ciphertexts of 1"),
            (vec![load(Some(1), vec![]), unloaded], "operation 1: place 2 for keys of 2"),
        ] {
            let refused = Graph::new(nodes, PLACES).unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        }
    }
}
