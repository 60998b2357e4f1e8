//! The lowered graphs, executed on ciphertexts: a schedule that is wrong is wrong in the answer.
//!
//! A register file has the places of the graph, for ciphertexts and for keys, and operations read and write places: what is
//! overwritten too early, or read too early, is another ciphertext. An operation reads before it is over, and others may
//! come between, as in [`crate::core`]. Arithmetic is exact, so that the words are those of any backend.

use spirea_math::{Expansion, Gadget, Ring, Rotations};

use crate::arch::Arch;
use crate::arrays;
use crate::error::IveError;
use crate::graph::{Event, Graph, Moment, Work};
use crate::rotation::{lower_rotations, lower_sums};
use crate::schedule::{Digits, lower_assembly};
use crate::system::Schedules;

/// A ciphertext as coefficients, prime by prime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ciphertext {
    /// What is multiplied by the secret.
    pub a: Vec<u32>,
    /// The rest.
    pub b: Vec<u32>,
}

/// A key: ciphertexts as values, one for each digit of what it multiplies; of an RGSW ciphertext those of b come first.
#[derive(Clone, Debug)]
pub struct Key {
    /// How polynomials are decomposed.
    pub gadget: Gadget,
    /// Its rows.
    pub rows: Vec<Ciphertext>,
}

/// In which order operations are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// As they were written.
    Program,
    /// As late as the graph allows what was written first.
    LatestFirst,
}

/// A client's keys.
#[derive(Clone, Debug)]
pub struct Keys {
    /// Of the substitutions, by level.
    pub expansion: Vec<Key>,
    /// Of the rotations, in the order of [`Rotations::keys`]; empty if nothing is rotated.
    pub rotations: Vec<Key>,
    /// The RGSW encryption of the secret.
    pub conversion: Key,
}

/// The exponents of a graph's automorphisms.
#[derive(Clone, Copy)]
enum Exponents<'a> {
    /// There are none.
    None,
    /// Those of the levels of an expansion, from this one on.
    From(u32),
    /// By their number.
    Of(&'a [usize]),
}

/// What a graph is executed on.
#[derive(Clone, Copy)]
struct Memory<'a> {
    /// Where digits are.
    digits: Digits,
    /// By the levels of its loads.
    keys: &'a [Key],
    /// By the numbers of its loads.
    ciphertexts: &'a [Ciphertext],
    exponents: Exponents<'a>,
}

/// A machine that computes.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// What it is: the schedules depend on its register file.
    pub arch: &'a Arch,
    /// The ring; of any degree.
    pub ring: &'a Ring,
    /// How trees are worked through.
    pub schedules: Schedules,
    /// In which order.
    pub execution: Execution,
}

impl Machine<'_> {
    /// ExpandQuery without the selectors: the leaves of a ciphertext, or of a leaf of another expansion.
    ///
    /// # Errors
    /// Those of the schedule, and [`IveError::Graph`] if keys are missing.
    pub fn expand(
        &self,
        keys: &Keys,
        expansion: Expansion,
        query: Ciphertext,
    ) -> Result<Vec<Ciphertext>, IveError> {
        let schedule = &self.schedules.expand;
        let (mut nodes, mut top) = (vec![query], 0);
        for layer in schedule.layers_of(expansion.levels(), expansion.leaves() as u64) {
            let graph = schedule.lower_expansion(self.arch, expansion, top, layer.levels)?;
            let level = expansion.first() + top;
            let keys = keys.expansion.get(level as usize..).unwrap_or(&[]);
            let exponents = Exponents::From(level);
            let memory = Memory { digits: schedule.digits, keys, ciphertexts: &nodes, exponents };
            nodes = self.execute(&graph, memory)?;
            top += layer.levels;
        }
        Ok(nodes)
    }

    /// The selectors of leaves, as many of them for each bit as the selectors' gadget has digits.
    ///
    /// # Errors
    /// As [`Machine::expand`].
    pub fn assemble(&self, keys: &Keys, leaves: &[Ciphertext], gadget: Gadget) -> Result<Vec<Key>, IveError> {
        let digits = self.schedules.expand.digits;
        let graph = lower_assembly(self.arch, digits, leaves.len() as u64)?;
        let keys = std::slice::from_ref(&keys.conversion);
        let rows =
            self.execute(&graph, Memory { digits, keys, ciphertexts: leaves, exponents: Exponents::None })?;
        let selector = |rows: &[Ciphertext]| {
            let values = |row: &Ciphertext| self.transformed(row);
            let (own, products) = (rows.iter().step_by(2), rows.iter().skip(1).step_by(2));
            Key { gadget, rows: own.chain(products).map(values).collect() }
        };
        Ok(rows.chunks(2 * gadget.levels(self.ring)).map(selector).collect())
    }

    /// RowSel: rows of plaintext polynomials (values) times the leaves of each query, panel by panel and tile by tile of
    /// the output-stationary arrays.
    ///
    /// # Errors
    /// [`IveError::Graph`] if a row has more polynomials than there are leaves.
    pub fn select_rows(
        &self,
        rows: &[Vec<Vec<u32>>],
        queries: &[Vec<Ciphertext>],
    ) -> Result<Vec<Vec<Ciphertext>>, IveError> {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        if let Some(query) = queries.iter().position(|leaves| leaves.len() < columns) {
            return Err(IveError::Graph {
                node: query,
                problem: format!("a query of fewer leaves than the {columns} polynomials of a row"),
                remedy: "expand to as many leaves as a row has polynomials".into(),
            });
        }
        let values = |leaf: &Ciphertext| self.transformed(leaf);
        let queries: Vec<Vec<_>> =
            queries.iter().map(|leaves| leaves[..columns].iter().map(values).collect()).collect();
        let halves = queries.iter().flat_map(|leaves| {
            let of = |half: fn(&Ciphertext) -> &[u32]| leaves.iter().map(half).collect::<Vec<_>>();
            [of(|leaf| &leaf.a), of(|leaf| &leaf.b)]
        });
        let mut sums = arrays::multiply(self.arch, self.ring, rows, &halves.collect::<Vec<_>>()).into_iter();
        let mut selected = Vec::with_capacity(queries.len());
        while let (Some(a), Some(b)) = (sums.next(), sums.next()) {
            let rows = a.into_iter().zip(b).map(|(a, b)| self.coefficients(&Ciphertext { a, b }));
            selected.push(rows.collect());
        }
        Ok(selected)
    }

    /// ColTor: the ciphertext that selectors choose, lowest bit first.
    ///
    /// # Errors
    /// As [`Machine::expand`].
    pub fn tournament(&self, selectors: &[Key], rows: Vec<Ciphertext>) -> Result<Ciphertext, IveError> {
        let schedule = &self.schedules.coltor;
        let (mut rows, mut bottom) = (rows, 0);
        for layer in schedule.layers(rows.len() as u64) {
            let graph = schedule.lower_tournament(self.arch, layer.levels, layer.loads)?;
            let keys = selectors.get(bottom..).unwrap_or(&[]);
            let exponents = Exponents::None;
            let memory = Memory { digits: schedule.digits, keys, ciphertexts: &rows, exponents };
            rows = self.execute(&graph, memory)?;
            bottom += layer.levels as usize;
        }
        rows.pop().ok_or_else(|| absent(0, "a row"))
    }

    /// The images of chunks of a secret.
    ///
    /// # Errors
    /// As [`Machine::expand`].
    pub fn rotate(
        &self,
        keys: &Keys,
        rotations: Rotations,
        chunks: &[Ciphertext],
    ) -> Result<Vec<Ciphertext>, IveError> {
        let graph = lower_rotations(self.arch, self.schedules.expand.digits, rotations)?;
        self.execute_rotations(&graph, keys, rotations, chunks)
    }

    /// Sums of images, for each as many ciphertexts as there are big automorphisms.
    ///
    /// # Errors
    /// As [`Machine::expand`].
    pub fn sum_rotated(
        &self,
        keys: &Keys,
        rotations: Rotations,
        ciphertexts: &[Ciphertext],
    ) -> Result<Vec<Ciphertext>, IveError> {
        let sums = (ciphertexts.len() / rotations.big()) as u64;
        let graph = lower_sums(self.arch, self.schedules.expand.digits, rotations, sums)?;
        self.execute_rotations(&graph, keys, rotations, ciphertexts)
    }

    fn execute_rotations(
        &self,
        graph: &Graph,
        keys: &Keys,
        rotations: Rotations,
        ciphertexts: &[Ciphertext],
    ) -> Result<Vec<Ciphertext>, IveError> {
        let digits = self.schedules.expand.digits;
        let exponents = rotations.keys(self.ring.degree());
        let exponents = Exponents::Of(&exponents);
        self.execute(graph, Memory { digits, keys: &keys.rotations, ciphertexts, exponents })
    }

    /// Executes a graph; gives what it stores.
    fn execute(&self, graph: &Graph, memory: Memory<'_>) -> Result<Vec<Ciphertext>, IveError> {
        match self.execution {
            Execution::Program => execute(self.ring, graph, memory, graph.in_order()),
            Execution::LatestFirst => execute(self.ring, graph, memory, graph.latest_first().iter().copied()),
        }
    }

    /// Values of coefficients.
    pub fn transformed(&self, c: &Ciphertext) -> Ciphertext {
        let mut values = c.clone();
        self.ring.forward(&mut values.a);
        self.ring.forward(&mut values.b);
        values
    }

    /// Coefficients of values.
    pub fn coefficients(&self, c: &Ciphertext) -> Ciphertext {
        let mut coefficients = c.clone();
        self.ring.inverse(&mut coefficients.a);
        self.ring.inverse(&mut coefficients.b);
        coefficients
    }
}

/// Executes a graph in an order; gives what it stores.
fn execute(
    ring: &Ring,
    graph: &Graph,
    memory: Memory<'_>,
    order: impl Iterator<Item = Event>,
) -> Result<Vec<Ciphertext>, IveError> {
    let mut core = Core {
        ring,
        graph,
        memory,
        keys: vec![None; graph.places().keys],
        ciphertexts: vec![None; graph.places().ciphertexts],
        read: vec![Vec::new(); graph.nodes().len()],
        stored: Vec::new(),
    };
    for Event { node, moment } in order {
        match moment {
            Moment::Read => core.read(node)?,
            Moment::Over => core.finish(node)?,
        }
    }
    let stored = core.stored.into_iter().enumerate();
    stored.map(|(index, it)| it.ok_or_else(|| absent(index, "a result"))).collect()
}

/// A core at work on a graph.
struct Core<'a> {
    ring: &'a Ring,
    graph: &'a Graph,
    memory: Memory<'a>,
    /// Places of the register file.
    keys: Vec<Option<&'a Key>>,
    ciphertexts: Vec<Option<Ciphertext>>,
    /// The iCRT buffer: polynomials that an operation has read and has not decomposed yet.
    read: Vec<Vec<Vec<u32>>>,
    stored: Vec<Option<Ciphertext>>,
}

impl<'a> Core<'a> {
    /// What an operation reads of a place, the first or the second.
    fn operand(&self, number: usize, which: usize) -> Result<&Ciphertext, IveError> {
        let operand = self.graph.nodes()[number].operands.get(which);
        operand
            .and_then(|operand| self.ciphertexts[operand.place].as_ref())
            .ok_or_else(|| absent(number, "an operand"))
    }

    fn key(&self, number: usize) -> Result<&'a Key, IveError> {
        let operand = self.graph.nodes()[number].key;
        operand.and_then(|key| self.keys[key.place]).ok_or_else(|| absent(number, "a key"))
    }

    /// Fills the place of an operation, or without one that of its first operand.
    fn fill(&mut self, number: usize, made: Ciphertext) -> Result<(), IveError> {
        let node = &self.graph.nodes()[number];
        let place = node.place.or(node.operands.first().map(|operand| operand.place));
        self.ciphertexts[place.ok_or_else(|| absent(number, "a place"))?] = Some(made);
        Ok(())
    }

    fn exponent(&self, number: usize) -> Result<usize, IveError> {
        let exponent = match (self.graph.nodes()[number].work, self.memory.exponents) {
            (Work::Rotation { exponent }, Exponents::Of(all)) => all.get(exponent as usize).copied(),
            (Work::Substitution { level }, Exponents::From(top)) => {
                Some(Expansion::exponent(self.ring.degree(), top + level))
            }
            _ => None,
        };
        exponent.ok_or_else(|| absent(number, "an exponent"))
    }

    /// An operation takes what it decomposes out of the register file.
    fn read(&mut self, number: usize) -> Result<(), IveError> {
        let ring = self.ring;
        self.read[number] = match self.graph.nodes()[number].work {
            Work::LoadKey { .. } | Work::LoadCiphertext { .. } | Work::StoreCiphertext { .. } => Vec::new(),
            Work::Product => {
                let (x, y) = (self.operand(number, 0)?, self.operand(number, 1)?);
                let (mut a, mut b) = (y.a.clone(), y.b.clone());
                ring.sub_assign(&mut a, &x.a);
                ring.sub_assign(&mut b, &x.b);
                // The place of Y is free from here on, whoever takes it.
                self.ciphertexts[self.graph.nodes()[number].operands[1].place] = None;
                vec![b, a]
            }
            Work::Assembly => {
                let row = self.operand(number, 0)?;
                vec![row.b.clone(), row.a.clone()]
            }
            Work::Rotation { .. } | Work::Substitution { .. } => {
                vec![ring.automorphism(&self.operand(number, 0)?.a, self.exponent(number)?)]
            }
        };
        Ok(())
    }

    /// An operation ends.
    fn finish(&mut self, number: usize) -> Result<(), IveError> {
        let node = &self.graph.nodes()[number];
        match node.work {
            Work::LoadKey { level } => {
                let place = node.place.ok_or_else(|| absent(number, "a place"))?;
                let key = self.memory.keys.get(level as usize);
                self.keys[place] = Some(key.ok_or_else(|| absent(number, "a key"))?);
                Ok(())
            }
            Work::LoadCiphertext { index } => {
                let loaded = self.memory.ciphertexts.get(index as usize);
                self.fill(number, loaded.ok_or_else(|| absent(number, "a ciphertext"))?.clone())
            }
            Work::StoreCiphertext { index } => {
                let ciphertext = self.operand(number, 0)?.clone();
                self.stored.resize(self.stored.len().max(index as usize + 1), None);
                self.stored[index as usize] = Some(ciphertext);
                Ok(())
            }
            Work::Product => {
                let product = self.key_product(number)?;
                let z = self.sum(&product, self.operand(number, 0)?);
                self.fill(number, z)
            }
            Work::Assembly => {
                let product = self.key_product(number)?;
                self.fill(number, product)
            }
            Work::Rotation { .. } => {
                let mut image = self.image(number)?;
                if let Some(added) = node.operands.get(1) {
                    image = self.sum(&image, self.operand(number, 1)?);
                    self.ciphertexts[added.place] = None;
                }
                self.fill(number, image)
            }
            Work::Substitution { level } => {
                let Exponents::From(top) = self.memory.exponents else {
                    return Err(absent(number, "a level"));
                };
                let (even, odd) = self.split(number, top + level)?;
                self.ciphertexts[node.operands[0].place] = Some(even);
                node.place.map_or(Ok(()), |_| self.fill(number, odd))
            }
        }
    }

    /// The image of an operand under the automorphism of its operation.
    fn image(&mut self, number: usize) -> Result<Ciphertext, IveError> {
        let mut image = self.key_product(number)?;
        let b = self.ring.automorphism(&self.operand(number, 0)?.b, self.exponent(number)?);
        self.ring.add_assign(&mut image.b, &b);
        Ok(image)
    }

    /// The two children of a node of an expansion.
    fn split(&mut self, number: usize, level: u32) -> Result<(Ciphertext, Ciphertext), IveError> {
        let image = self.image(number)?;
        let (ring, c) = (self.ring, self.operand(number, 0)?);
        let mut odd = c.clone();
        ring.sub_assign(&mut odd.a, &image.a);
        ring.sub_assign(&mut odd.b, &image.b);
        let shift = 2 * ring.degree() - (1 << level);
        let odd = Ciphertext { a: ring.mul_monomial(&odd.a, shift), b: ring.mul_monomial(&odd.b, shift) };
        Ok((self.sum(c, &image), odd))
    }

    /// Digits of what was read times the rows of a key, in the order in which digits become polynomials of the register
    /// file: all of them before the first is multiplied, or a residue of one at a time.
    fn key_product(&mut self, number: usize) -> Result<Ciphertext, IveError> {
        let (ring, key, degree) = (self.ring, self.key(number)?, self.ring.degree());
        let polynomials = std::mem::take(&mut self.read[number]);
        let mut sum = Ciphertext { a: ring.zero(), b: ring.zero() };
        let mut rows = key.rows.iter();
        let mut stored = Vec::new();
        for polynomial in &polynomials {
            let digits = key.gadget.decompose(ring, polynomial);
            for (digit, row) in digits.chunks_exact(ring.words()).zip(&mut rows) {
                for (limb, residues) in ring.limbs().iter().enumerate() {
                    let words = limb * degree..(limb + 1) * degree;
                    let mut values = digit[words.clone()].to_vec();
                    residues.plan.forward(&mut values);
                    match self.memory.digits {
                        Digits::Forwarded => accumulate(ring, &mut sum, limb, &values, row),
                        Digits::Stored => stored.push((limb, values, row)),
                    }
                }
            }
        }
        for (limb, values, row) in stored {
            accumulate(ring, &mut sum, limb, &values, row);
        }
        ring.inverse(&mut sum.a);
        ring.inverse(&mut sum.b);
        Ok(sum)
    }

    fn sum(&self, one: &Ciphertext, other: &Ciphertext) -> Ciphertext {
        let mut sum = one.clone();
        self.ring.add_assign(&mut sum.a, &other.a);
        self.ring.add_assign(&mut sum.b, &other.b);
        sum
    }
}

/// Adds the product of a residue polynomial of a digit and the row of its key to both accumulators.
fn accumulate(ring: &Ring, sum: &mut Ciphertext, limb: usize, digit: &[u32], row: &Ciphertext) {
    let residues = &ring.limbs()[limb];
    let words = limb * ring.degree()..(limb + 1) * ring.degree();
    for (sum, row) in [(&mut sum.a, &row.a), (&mut sum.b, &row.b)] {
        for ((sum, &digit), &factor) in sum[words.clone()].iter_mut().zip(digit).zip(&row[words.clone()]) {
            *sum = residues.prime().add(*sum, residues.barrett.mul(digit, factor));
        }
    }
}

fn absent(node: usize, what: &str) -> IveError {
    IveError::Graph {
        node,
        problem: format!("{what} is not there"),
        remedy: "give as many keys as levels, and operations after those that they read".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use spirea_math::Modulus;

    use super::*;
    use crate::graph::{Node, Places};
    use crate::schedule::{Order, Schedule, Step};

    const PRIMES: [u32; 2] = [(1 << 27) + (1 << 15) + 1, (1 << 27) + (1 << 17) + 1];
    const GADGET: Gadget = Gadget::Digits { levels: 3, base_log: 19, dropped: 0 };

    /// A graph, what it is executed on, and what it stores.
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

        fn run(
            &self,
            graph: &Graph,
            order: impl Iterator<Item = Event>,
        ) -> Result<Vec<Ciphertext>, IveError> {
            let exponents = match self.exponents[..] {
                [] => Exponents::From(0),
                _ => Exponents::Of(&self.exponents),
            };
            let (keys, ciphertexts) = (&self.keys, &self.ciphertexts);
            execute(
                &self.ring,
                graph,
                Memory { digits: Digits::Forwarded, keys, ciphertexts, exponents },
                order,
            )
        }

        fn nodes(&self) -> Vec<Node> {
            self.graph.nodes().to_vec()
        }

        /// What a changed graph gives in an order is nothing, or something else.
        fn differs(&self, nodes: Vec<Node>, order: impl Iterator<Item = Event>, what: &str) {
            let changed = Graph::new(nodes, self.graph.places()).and_then(|graph| self.run(&graph, order));
            assert!(changed.as_ref() != Ok(&self.stored), "{what}");
        }
    }

    /// All that must have happened before an operation reads.
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

    /// The order of the program, but for an operation that comes as early as it may.
    fn hurried(nodes: &[Node], number: usize) -> Vec<Event> {
        let all = || (0..nodes.len()).flat_map(|node| [Event::read(node), Event::over(node)]);
        let needed = before(nodes, number);
        let first = all().filter(|event| needed.contains(event));
        let rest = all().filter(|event| !needed.contains(event) && event.node != number);
        first.chain([Event::read(number), Event::over(number)]).chain(rest).collect()
    }

    /// Graphs of every step, in register files with hardly a place to spare.
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
                    case.differs(
                        nodes,
                        order.into_iter(),
                        &format!("{name}: {number} before {node} is over"),
                    );
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
}
