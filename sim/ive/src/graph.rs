//! Graphs of operations: a core's work on ciphertexts, the places of ciphertexts and keys in its
//! register file, and the order that the operations need.

use crate::error::IveError;

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Load from HBM of the key of a level of the layer.
    LoadKey {
        /// Level, counted from the first one that is processed.
        level: u32,
    },
    /// Load of a ciphertext from HBM.
    LoadCiphertext {
        /// Number of the ciphertext in the layer.
        index: u64,
    },
    /// Store of a ciphertext to HBM.
    StoreCiphertext {
        /// Number of the ciphertext in the layer.
        index: u64,
    },
    /// External product and the sum that follows it, Z = X + RGSW * (Y - X), written to the place
    /// of X. Y is read once, before its inverse transform, whose result then stays in the iCRT
    /// buffer (section IV-F).
    Product,
    /// External product of a selector's row and the key, in a place of its own.
    Assembly,
    /// Image of a ciphertext under an automorphism, plus the second operand if there is one. The
    /// result is in a place of its own, or in the place of the first operand.
    Rotation {
        /// Number of the exponent, and of its key.
        exponent: u32,
    },
    /// Substitution: the sum is written to the operand's place, and the shifted difference, if it
    /// is wanted, to a place of its own.
    Substitution {
        /// Level, counted from the first one that is processed.
        level: u32,
    },
}

/// Operand of an operation: its producer and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Operation that made the operand.
    pub node: usize,
    /// Place in the register file.
    pub place: usize,
}

/// Moment of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// The inputs of inverse transforms have been read.
    Read,
    /// The results are in their places.
    Over,
}

/// Event: a moment of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// Operation.
    pub node: usize,
    /// Moment.
    pub moment: Moment,
}

impl Event {
    /// Returns the event that an operation is over.
    pub fn over(node: usize) -> Self {
        Self { node, moment: Moment::Over }
    }

    /// Returns the event that an operation has read the inputs of its inverse transforms, which it
    /// no longer needs afterwards.
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

/// Operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Kind of the operation.
    pub work: Work,
    /// Key that the operation reads.
    pub key: Option<Operand>,
    /// Ciphertexts that the operation reads, X before Y.
    pub operands: Vec<Operand>,
    /// Place that the operation fills, besides those of its operands: a place for a key if it loads
    /// one, otherwise for a ciphertext.
    pub place: Option<usize>,
    /// Other events that must happen before the operation: events that empty its place, and reads
    /// of a place that the operation empties.
    pub after: Vec<Event>,
}

impl Node {
    /// Returns all events that must happen before the operation reads anything.
    pub fn before(&self) -> impl Iterator<Item = Event> {
        let made = self.operands.iter().chain(&self.key).map(|operand| Event::over(operand.node));
        made.chain(self.after.iter().copied())
    }
}

/// Numbers of places in a register file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Places for ciphertexts.
    pub ciphertexts: usize,
    /// Places for keys.
    pub keys: usize,
}

/// Acyclic graph of operations. Each operation uses only places that the register file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    nodes: Vec<Node>,
    places: Places,
    latest_first: Vec<Event>,
}

impl Graph {
    /// Checks operations, which are given in the order of the program. A unit takes operations in
    /// the order in which they become ready. If several become ready at the same time, the unit
    /// takes the earliest one first.
    ///
    /// # Errors
    /// [`IveError::Graph`] if an operation needs an operation or a place that does not exist, or
    /// waits for itself.
    pub fn new(nodes: Vec<Node>, places: Places) -> Result<Self, IveError> {
        let mut waits = vec![0usize; 2 * nodes.len()];
        let mut followers = vec![Vec::new(); 2 * nodes.len()];
        // The end of an operation is the first follower of its read, so it is popped after the
        // others: what was read may be overwritten before the end.
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

    /// Returns the operations, in the order of the program.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the places of the register file.
    pub fn places(&self) -> Places {
        self.places
    }

    /// Yields all events in the order of the program, one operation after another.
    pub fn in_order(&self) -> impl Iterator<Item = Event> {
        (0..2 * self.nodes.len()).map(Event::of)
    }

    /// Returns all events in a valid order that differs from that of the program as much as is
    /// easily possible: of all ready events, the one that became ready last comes first.
    pub fn latest_first(&self) -> &[Event] {
        &self.latest_first
    }

    /// Counts the operations whose kind satisfies `is`.
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
