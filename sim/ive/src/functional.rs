//! Executes the lowered graphs on ciphertexts: a wrong schedule gives a wrong answer.
//!
//! A register file has the places of the graph, for ciphertexts and for keys, and operations read
//! and write places. So a place that is overwritten or read too early holds another ciphertext. An
//! operation reads before it is over, and others may come between, as in [`crate::core`].
//! Arithmetic is exact, so the words agree with any backend's.

use spirea_math::{Expansion, Gadget, Ring, Rotations};

use crate::arch::Arch;
use crate::arrays;
use crate::error::IveError;
use crate::graph::{Event, Graph, Moment, Work};
use crate::rotation::{lower_rotations, lower_sums};
use crate::schedule::{Digits, lower_assembly};
use crate::system::Schedules;

/// Ciphertext in coefficients, prime by prime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ciphertext {
    /// Polynomial that is multiplied by the secret.
    pub a: Vec<u32>,
    /// Body.
    pub b: Vec<u32>,
}

/// Key: ciphertexts as values, one for each digit of the operand; in an RGSW ciphertext those for b
/// come first.
#[derive(Clone, Debug)]
pub struct Key {
    /// Gadget of the decomposition.
    pub gadget: Gadget,
    /// Rows.
    pub rows: Vec<Ciphertext>,
}

/// Order in which operations are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// Order of the program.
    Program,
    /// Latest first: of all operations that are ready, the one that became ready last.
    LatestFirst,
}

/// Keys of a client.
#[derive(Clone, Debug)]
pub struct Keys {
    /// Keys of the substitutions, by level.
    pub expansion: Vec<Key>,
    /// Keys of the rotations, in the order of [`Rotations::keys`]; empty without rotations.
    pub rotations: Vec<Key>,
    /// RGSW encryption of the secret.
    pub conversion: Key,
}

/// Exponents of a graph's automorphisms.
#[derive(Clone, Copy)]
enum Exponents<'a> {
    /// No automorphisms.
    None,
    /// Exponents of the levels of an expansion, from this level on.
    From(u32),
    /// Exponents by their number.
    Of(&'a [usize]),
}

/// Inputs of a graph's execution.
#[derive(Clone, Copy)]
struct Memory<'a> {
    /// Place of the digits.
    digits: Digits,
    /// Keys, by the levels of the graph's loads.
    keys: &'a [Key],
    /// Ciphertexts, by the numbers of the graph's loads.
    ciphertexts: &'a [Ciphertext],
    exponents: Exponents<'a>,
}

/// Machine that computes on ciphertexts.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// Architecture: the schedules depend on its register file.
    pub arch: &'a Arch,
    /// Ring, of any degree.
    pub ring: &'a Ring,
    /// Schedules of the trees.
    pub schedules: Schedules,
    /// Order of execution.
    pub execution: Execution,
}

impl Machine<'_> {
    /// Computes ExpandQuery without the selectors: expands a ciphertext, or a leaf of another
    /// expansion.
    ///
    /// # Errors
    /// The errors of the schedule, and [`IveError::Graph`] if keys are missing.
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

    /// Assembles selectors from leaves; for each bit there are as many leaves as the selectors'
    /// gadget has digits.
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

    /// Computes RowSel: rows of plaintext polynomials (values) times the leaves of each query,
    /// panel by panel and tile by tile of the output-stationary arrays.
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

    /// Computes ColTor: the ciphertext that the selectors choose, lowest bit first.
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

    /// Computes the images of chunks of a secret.
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

    /// Computes sums of images; each sum has one ciphertext for each big automorphism.
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

    /// Executes a graph and returns the stored ciphertexts.
    fn execute(&self, graph: &Graph, memory: Memory<'_>) -> Result<Vec<Ciphertext>, IveError> {
        match self.execution {
            Execution::Program => execute(self.ring, graph, memory, graph.in_order()),
            Execution::LatestFirst => execute(self.ring, graph, memory, graph.latest_first().iter().copied()),
        }
    }

    /// Transforms coefficients to values.
    pub fn transformed(&self, c: &Ciphertext) -> Ciphertext {
        let mut values = c.clone();
        self.ring.forward(&mut values.a);
        self.ring.forward(&mut values.b);
        values
    }

    /// Transforms values to coefficients.
    pub fn coefficients(&self, c: &Ciphertext) -> Ciphertext {
        let mut coefficients = c.clone();
        self.ring.inverse(&mut coefficients.a);
        self.ring.inverse(&mut coefficients.b);
        coefficients
    }
}

/// Executes a graph in an order and returns the stored ciphertexts.
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

/// Core that executes a graph.
struct Core<'a> {
    ring: &'a Ring,
    graph: &'a Graph,
    memory: Memory<'a>,
    /// Places of the register file.
    keys: Vec<Option<&'a Key>>,
    ciphertexts: Vec<Option<Ciphertext>>,
    /// iCRT buffer: polynomials that an operation has read and not yet decomposed.
    read: Vec<Vec<Vec<u32>>>,
    stored: Vec<Option<Ciphertext>>,
}

impl<'a> Core<'a> {
    /// Returns an operation's first or second operand.
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

    /// Fills the place of an operation, or of its first operand if it has none.
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

    /// Reads the polynomials that an operation decomposes from the register file into the iCRT
    /// buffer.
    fn read(&mut self, number: usize) -> Result<(), IveError> {
        let ring = self.ring;
        self.read[number] = match self.graph.nodes()[number].work {
            Work::LoadKey { .. } | Work::LoadCiphertext { .. } | Work::StoreCiphertext { .. } => Vec::new(),
            Work::Product => {
                let (x, y) = (self.operand(number, 0)?, self.operand(number, 1)?);
                let (mut a, mut b) = (y.a.clone(), y.b.clone());
                ring.sub_assign(&mut a, &x.a);
                ring.sub_assign(&mut b, &x.b);
                // From here on, any operation may fill the place of Y.
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

    /// Finishes an operation.
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

    /// Returns the image of an operand under the automorphism of its operation.
    fn image(&mut self, number: usize) -> Result<Ciphertext, IveError> {
        let mut image = self.key_product(number)?;
        let b = self.ring.automorphism(&self.operand(number, 0)?.b, self.exponent(number)?);
        self.ring.add_assign(&mut image.b, &b);
        Ok(image)
    }

    /// Returns the two children of a node of an expansion.
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

    /// Multiplies the digits of the read polynomials by the rows of a key. If digits are stored,
    /// all of them are computed before the first is multiplied. If digits are forwarded, each
    /// residue of a digit is multiplied as soon as it is computed.
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

/// Adds the product of a digit's residue polynomial and the row of its key to both accumulators.
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
mod tests;
