//! Mutated graphs: each must store other ciphertexts, or none.

use std::collections::HashSet;

use spirea_math::Modulus;

use super::*;
use crate::graph::{Node, Places};
use crate::schedule::{Order, Schedule, Step};

const PRIMES: [u32; 2] = [(1 << 27) + (1 << 15) + 1, (1 << 27) + (1 << 17) + 1];
const GADGET: Gadget = Gadget::Digits { levels: 3, base_log: 19, dropped: 0 };

/// Graph with its inputs and its stored ciphertexts.
struct Case {
    ring: Ring,
    graph: Graph,
    keys: Vec<Key>,
    ciphertexts: Vec<Ciphertext>,
    exponents: Vec<usize>,
    stored: Vec<Ciphertext>,
}

impl Case {
    fn new(graph: Graph, exponents: Vec<usize>) -> Self {
        let ring = Ring::new(64, &PRIMES.map(Modulus::new));
        let mut seed = 7u32;
        let mut polynomial = || -> Vec<u32> {
            let word = |_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                seed >> 6
            };
            (0..ring.words()).map(word).collect()
        };
        let mut some = |count: usize| -> Vec<Ciphertext> {
            (0..count).map(|_| Ciphertext { a: polynomial(), b: polynomial() }).collect()
        };
        let keys = (0..graph.places().keys).map(|_| Key { gadget: GADGET, rows: some(6) }).collect();
        let ciphertexts = some(40);
        let mut case = Self { ring, graph, keys, ciphertexts, exponents, stored: Vec::new() };
        case.stored = case.run(&case.graph, case.graph.in_order()).unwrap();
        case
    }

    fn run(&self, graph: &Graph, order: impl Iterator<Item = Event>) -> Result<Vec<Ciphertext>, IveError> {
        let exponents = match self.exponents[..] {
            [] => Exponents::From(0),
            _ => Exponents::Of(&self.exponents),
        };
        let (keys, ciphertexts) = (&self.keys, &self.ciphertexts);
        execute(&self.ring, graph, Memory { digits: Digits::Forwarded, keys, ciphertexts, exponents }, order)
    }

    fn nodes(&self) -> Vec<Node> {
        self.graph.nodes().to_vec()
    }

    /// Checks that a changed graph, executed in this order, gives no result or another result.
    fn differs(&self, nodes: Vec<Node>, order: impl Iterator<Item = Event>, what: &str) {
        let changed = Graph::new(nodes, self.graph.places()).and_then(|graph| self.run(&graph, order));
        assert!(changed.as_ref() != Ok(&self.stored), "{what}");
    }
}

/// Returns all events that must have happened before an operation reads.
fn before(nodes: &[Node], number: usize) -> HashSet<Event> {
    let mut found = HashSet::new();
    let mut open = vec![Event::read(number)];
    while let Some(event) = open.pop() {
        let of_node = match event.moment {
            Moment::Over => vec![Event::read(event.node)],
            Moment::Read => nodes[event.node].before().collect(),
        };
        open.extend(of_node.into_iter().filter(|&earlier| found.insert(earlier)));
    }
    found
}

/// Returns the order of the program, with one operation moved to the earliest place that the graph
/// allows.
fn hurried(nodes: &[Node], number: usize) -> Vec<Event> {
    let all = || (0..nodes.len()).flat_map(|node| [Event::read(node), Event::over(node)]);
    let needed = before(nodes, number);
    let first = all().filter(|event| needed.contains(event));
    let rest = all().filter(|event| !needed.contains(event) && event.node != number);
    first.chain([Event::read(number), Event::over(number)]).chain(rest).collect()
}

/// Returns graphs of every step, in register files with hardly any spare place.
fn cases() -> Vec<(&'static str, Case)> {
    let with = |kb: u64| {
        let mut arch = Arch::ive().unwrap();
        arch.core.register_file_kb = kb;
        arch
    };
    let schedule = |step, order, depth| Schedule { step, order, digits: Digits::Forwarded, depth };
    let graph = |graph: Result<Graph, IveError>| Case::new(graph.unwrap(), Vec::new());
    let coltor = |order| graph(schedule(Step::ColTor, order, 2).lower_tournament(&with(3000), 2, 23));
    let expand = |order, depth: u32, kb| {
        let (schedule, whole) = (schedule(Step::Expand, order, depth), Expansion::covering(15));
        graph(schedule.lower_expansion(&with(kb), whole, whole.levels() - depth, depth))
    };
    let rotations = Rotations::new(32, 2, 4);
    let rotated = lower_rotations(&with(2300), Digits::Forwarded, rotations).unwrap();
    let sums = lower_sums(&with(2700), Digits::Forwarded, rotations, 6).unwrap();
    let [rotated, sums] = [rotated, sums].map(|graph| Case::new(graph, rotations.keys(64).to_vec()));
    let assembly = graph(lower_assembly(&with(1600), Digits::Forwarded, 7));
    vec![
        ("ColTor, depth first", coltor(Order::Dfs)),
        ("ColTor, by levels", coltor(Order::Bfs)),
        ("ExpandQuery, depth first", expand(Order::Dfs, 4, 3000)),
        ("ExpandQuery, by levels", expand(Order::Bfs, 2, 1700)),
        ("selectors", assembly),
        ("rotations", rotated),
        ("sums", sums),
    ]
}

#[test]
fn without_something_that_must_have_happened_before_the_answer_is_another() {
    for (name, case) in cases() {
        let (mut needed, mut implied) = (0, 0);
        for number in 0..case.nodes().len() {
            for which in 0..case.nodes()[number].after.len() {
                let mut nodes = case.nodes();
                let dropped = nodes[number].after.remove(which);
                if before(&nodes, number).contains(&dropped) {
                    implied += 1;
                    continue;
                }
                needed += 1;
                let order = hurried(&nodes, number);
                case.differs(nodes, order.into_iter(), &format!("{name}: {number} before {dropped:?}"));
            }
        }
        assert!(needed > 2 && needed > implied, "{name}: {needed} {implied}");
    }
}

#[test]
fn what_is_stored_must_be_over_before_its_place_is_filled() {
    for (name, case) in cases() {
        for number in 0..case.nodes().len() {
            for which in 0..case.nodes()[number].after.len() {
                let mut nodes = case.nodes();
                let Event { node, moment } = nodes[number].after[which];
                if moment == Moment::Read || !matches!(nodes[node].work, Work::StoreCiphertext { .. }) {
                    continue;
                }
                nodes[number].after[which] = Event::read(node);
                if before(&nodes, number).contains(&Event::over(node)) {
                    continue;
                }
                let order = hurried(&nodes, number);
                case.differs(nodes, order.into_iter(), &format!("{name}: {number} before {node} is over"));
            }
        }
    }
}

#[test]
fn every_load_is_needed_and_every_place_is_its_own() {
    for (name, case) in cases() {
        let is_load = |number: &usize| {
            matches!(case.graph.nodes()[*number].work, Work::LoadKey { .. } | Work::LoadCiphertext { .. })
        };
        for left_out in (0..case.nodes().len()).filter(is_load) {
            let order = case.graph.in_order().filter(|event| event.node != left_out);
            case.differs(case.nodes(), order, &format!("{name}: without {left_out}"));
        }
        let is_key = |node: &Node| matches!(node.work, Work::LoadKey { .. });
        for keys in [false, true] {
            let with_places: Vec<usize> = (0..case.nodes().len())
                .filter(|&number| case.graph.nodes()[number].place.is_some())
                .filter(|&number| is_key(&case.graph.nodes()[number]) == keys)
                .collect();
            for pair in with_places.windows(2) {
                let mut nodes = case.nodes();
                let places = [nodes[pair[0]].place, nodes[pair[1]].place];
                if places[0] == places[1] {
                    continue;
                }
                (nodes[pair[0]].place, nodes[pair[1]].place) = (places[1], places[0]);
                case.differs(nodes, case.graph.in_order(), &format!("{name}: {pair:?} swap places"));
            }
        }
    }
}

#[test]
fn the_place_of_y_is_filled_again_before_the_product_is_over() {
    let mut between = 0;
    for (name, case) in &cases()[..2] {
        let order = case.graph.latest_first();
        let at = |event| order.iter().position(|&it| it == event).unwrap();
        for (number, node) in case.graph.nodes().iter().enumerate() {
            for event in node.after.iter().filter(|event| event.moment == Moment::Read) {
                between += usize::from(at(Event::over(number)) < at(Event::over(event.node)));
            }
        }
        assert_eq!(case.run(&case.graph, order.iter().copied()).as_ref(), Ok(&case.stored), "{name}");
    }
    assert!(between > 5, "{between}");
}

#[test]
fn more_keys_than_there_are_places_for_are_refused() {
    let (_, case) = cases().remove(0);
    let fewer = Places { keys: 1, ..case.graph.places() };
    let refused = Graph::new(case.nodes(), fewer).unwrap_err().to_string();
    assert!(refused.contains("place 1 for keys of 1"), "{refused}");
}
